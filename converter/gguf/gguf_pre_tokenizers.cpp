#include "converter/gguf/gguf_pre_tokenizers.h"

#include "converter/error.h"
#include "converter/pre_tokenizer_names.h"
#include "quant/text/tokenizer_format.h"

namespace cria::converter {

GgufPreTokenizer gguf_pre_tokenizer(std::string_view name, const std::string& where) {
  const NamedPreTokenizer* named = find_pre_tokenizer(name);
  if (named == nullptr) {
    throw ProgramError(ExitCode::kInvalidInput,
                       where + ": tokenizer.ggml.pre '" + shown(name) +
                           "' is not known; convert the Hugging Face folder, or with "
                           "--no-tokenizer");
  }
  Json stages = Json::array();
  for (const SplitRule& rule : named->rules) {
    stages.push_back({{"type", "Split"},
                      {"pattern", {{"Regex", rule.regex}}},
                      {"behavior", "Isolated"},
                      {"invert", false}});
  }
  stages.push_back({{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}});
  return {{{"type", "Sequence"}, {"pretokenizers", stages}},
          (named->flags & format::kNfc) != 0 ? Json{{"type", "NFC"}} : Json(),
          (named->flags & format::kIgnoreMerges) != 0,
          (named->flags & format::kAddBos) != 0};
}

}  // namespace cria::converter
