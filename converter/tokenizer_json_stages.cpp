#include "converter/tokenizer_json_stages.h"

#include "converter/error.h"

namespace cria::converter {
namespace {

using format::PreTokenizer;
using format::TokenizerKind;

// The longest list of published tokenizers has six.
constexpr size_t kMaxStages = 64;

constexpr std::string_view kSpaceMark = "\xE2\x96\x81";

// The regexes of format::PreTokenizer as tokenizer.json writes them.
constexpr std::string_view kGpt2Regex =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr std::string_view kLlama3Regex =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3})"
    R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen2Regex =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N})"
    R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// One stage of the file, taken out of its Sequence.
struct Stage {
  const Json* json;
  JsonObject object;
  std::string type;
};

struct Reader {
  const Json& root;
  const std::string& where;
  std::vector<std::string>* warnings;
  TokenizerStages stages;

  [[noreturn]] void refuse(const std::string& problem) const {
    throw ProgramError(ExitCode::kInvalidInput, where + ": " + problem);
  }
  [[noreturn]] void refuse_type(const char* what, const std::string& type) const {
    refuse(std::string(what) + " '" + shown(type) + "' is not supported");
  }
};

void flatten(const Reader& reader, const Json& json, const char* what, const char* list_key,
             std::vector<Stage>* stages) {
  const JsonObject object(json, reader.where + ": " + what);
  const std::string type = object.text("type").value_or("without a type");
  if (type != "Sequence") {
    if (stages->size() == kMaxStages) {
      reader.refuse(std::string(what) + " has more than " + std::to_string(kMaxStages) + " stages");
    }
    stages->push_back({&json, object, type});
    return;
  }
  const auto list = json.find(list_key);
  if (list == json.end() || !list->is_array()) {
    reader.refuse(std::string(what) + " 'Sequence' has no list of " + list_key);
  }
  for (const Json& entry : *list) flatten(reader, entry, what, list_key, stages);
}

std::vector<Stage> stages_of(const Reader& reader, const char* what, const char* list_key) {
  std::vector<Stage> stages;
  const auto found = reader.root.find(what);
  if (found != reader.root.end() && !found->is_null()) {
    flatten(reader, *found, what, list_key, &stages);
  }
  return stages;
}

// The string that a Replace or Split looks for; empty when it is a regex.
std::string pattern_text(const Stage& stage, const char* kind) {
  const auto pattern = stage.object.object("pattern");
  return pattern ? pattern->text(kind).value_or("") : "";
}

bool replaces(const Stage& stage, std::string_view from, std::string_view to) {
  return stage.type == "Replace" && pattern_text(stage, "String") == from &&
         stage.object.text("content").value_or("") == to;
}

void read_normalizer(Reader* reader) {
  TokenizerStages& out = reader->stages;
  const bool is_byte_level = out.kind == TokenizerKind::kByteLevelBpe;
  bool has_nfc = false;
  for (const Stage& stage : stages_of(*reader, "normalizer", "normalizers")) {
    if (stage.type == "NFC") {
      has_nfc = true;
    } else if (!is_byte_level && stage.type == "Prepend" && !out.replaces_in_normalizer &&
               stage.object.text("prepend").value_or("") == kSpaceMark) {
      out.prepends_in_normalizer = true;
      out.flags |= format::kPrependSpace;
    } else if (!is_byte_level && replaces(stage, " ", kSpaceMark)) {
      out.replaces_in_normalizer = true;
    } else {
      reader->refuse_type("normalizer", stage.type);
    }
  }
  if (has_nfc) {
    reader->warnings->push_back(
        "the tokenizer's NFC normalization is left out: text must come in that form already");
  }
}

PreTokenizer split_regex(const Reader& reader, const Stage& stage) {
  const std::string regex = pattern_text(stage, "Regex");
  const bool isolated = stage.object.text("behavior").value_or("") == "Isolated" &&
                        !stage.object.boolean("invert").value_or(false);
  if (isolated && regex == kGpt2Regex) return PreTokenizer::kGpt2;
  if (isolated && regex == kLlama3Regex) return PreTokenizer::kLlama3;
  if (isolated && regex == kQwen2Regex) return PreTokenizer::kQwen2;
  reader.refuse("pre_tokenizer 'Split' with the regex " + shown(regex) + " is not supported");
}

void read_byte_level(Reader* reader, const std::vector<Stage>& stages) {
  TokenizerStages& out = reader->stages;
  bool digits_apart = false;
  bool ends = false;
  for (const Stage& stage : stages) {
    if (ends) reader->refuse_type("a pre_tokenizer behind 'ByteLevel':", stage.type);
    if (stage.type == "Digits" && out.pre_tokenizer == PreTokenizer::kWhole && !digits_apart) {
      digits_apart = stage.object.boolean("individual_digits").value_or(false);
      if (!digits_apart)
        reader->refuse("pre_tokenizer 'Digits' of several digits is not supported");
    } else if (stage.type == "Split" && out.pre_tokenizer == PreTokenizer::kWhole) {
      out.pre_tokenizer = split_regex(*reader, stage);
    } else if (stage.type == "ByteLevel") {
      ends = true;
      const bool has_regex = stage.object.boolean("use_regex").value_or(true);
      if (has_regex && out.pre_tokenizer != PreTokenizer::kWhole) {
        reader->refuse(
            "pre_tokenizer 'Split' followed by the regex of 'ByteLevel' is not supported");
      }
      if (has_regex) out.pre_tokenizer = PreTokenizer::kGpt2;
      if (stage.object.boolean("add_prefix_space").value_or(true)) {
        if (stages.size() > 1) {
          reader->refuse(
              "pre_tokenizer 'ByteLevel' with add_prefix_space behind another is not supported");
        }
        out.flags |= format::kAddPrefixSpace;
      }
    } else {
      reader->refuse_type("pre_tokenizer", stage.type);
    }
  }
  if (!digits_apart) return;
  if (out.pre_tokenizer != PreTokenizer::kGpt2) {
    reader->refuse("pre_tokenizer 'Digits' is only supported with the regex of 'ByteLevel'");
  }
  out.pre_tokenizer = PreTokenizer::kDigitsGpt2;
}

// "always", "first" or "never", also in the older spelling.
std::string prepend_scheme(const Stage& stage) {
  const bool adds = stage.object.boolean("add_prefix_space").value_or(true);
  return stage.object.text("prepend_scheme").value_or(adds ? "always" : "never");
}

void read_metaspace(Reader* reader, const Stage& stage) {
  TokenizerStages& out = reader->stages;
  if (stage.object.text("replacement").value_or("") != kSpaceMark) {
    reader->refuse("pre_tokenizer 'Metaspace' with another replacement is not supported");
  }
  const std::string scheme = prepend_scheme(stage);
  if (scheme != "never") {
    out.flags |= format::kPrependSpace | format::kPrependUnlessSpace;
    if (scheme == "first") out.flags |= format::kPrependOnlyFirst;
    if (scheme != "first" && scheme != "always") {
      reader->refuse("pre_tokenizer 'Metaspace' with prepend_scheme '" + shown(scheme) +
                     "' is not supported");
    }
  }
  if (stage.object.boolean("split").value_or(true)) out.pre_tokenizer = PreTokenizer::kMetaspace;
}

void read_pre_tokenizer(Reader* reader) {
  const std::vector<Stage> stages = stages_of(*reader, "pre_tokenizer", "pretokenizers");
  if (reader->stages.kind == TokenizerKind::kByteLevelBpe) {
    read_byte_level(reader, stages);
    return;
  }
  for (const Stage& stage : stages) {
    if (stage.type != "Metaspace" || stages.size() > 1 || reader->stages.replaces_in_normalizer) {
      reader->refuse_type("pre_tokenizer", stage.type);
    }
    read_metaspace(reader, stage);
  }
  if (stages.empty() && !reader->stages.replaces_in_normalizer) {
    reader->refuse("BPE that is neither byte-level nor marks spaces with U+2581 is not supported");
  }
}

// One item of a template: a token that is added, or the text itself.
void read_template_item(Reader* reader, const Stage& stage, const JsonObject& item,
                        bool* after_text) {
  if (item.has("Sequence")) {
    if (*after_text) reader->refuse("post_processor with the text twice is not supported");
    *after_text = true;
    return;
  }
  const auto special = item.object("SpecialToken");
  const auto known = stage.object.object("special_tokens");
  const std::string name = special ? special->text("id").value_or("") : "";
  const auto entry = known ? known->object(name) : std::nullopt;
  const auto ids = entry ? entry->counts("ids") : std::nullopt;
  std::optional<uint32_t>& place =
      *after_text ? reader->stages.end_token : reader->stages.begin_token;
  if (!ids || ids->size() != 1 || place) {
    reader->refuse("post_processor adds tokens in a way that is not supported");
  }
  place = ids->front();
}

void read_post_processor(Reader* reader) {
  TokenizerStages& out = reader->stages;
  for (const Stage& stage : stages_of(*reader, "post_processor", "processors")) {
    if (stage.type == "ByteLevel") continue;
    if (stage.type != "TemplateProcessing") reader->refuse_type("post_processor", stage.type);
    const auto single = stage.json->find("single");
    if (single == stage.json->end() || !single->is_array()) {
      reader->refuse("post_processor 'TemplateProcessing' has no list 'single'");
    }
    bool after_text = false;
    for (const Json& item : *single) {
      read_template_item(reader, stage, JsonObject(item, reader->where + ": post_processor"),
                         &after_text);
    }
  }
  if (out.begin_token) out.flags |= format::kAddBos;
  if (out.end_token) out.flags |= format::kAddEos;
}

void read_decoder(Reader* reader) {
  TokenizerStages& out = reader->stages;
  for (const Stage& stage : stages_of(*reader, "decoder", "decoders")) {
    if (out.kind == TokenizerKind::kByteLevelBpe) {
      if (stage.type != "ByteLevel") reader->refuse_type("decoder", stage.type);
    } else if (stage.type == "Strip") {
      const bool spaces = stage.object.text("content").value_or("") == " ";
      const uint32_t start = stage.object.count("start").value_or(0);
      if (!spaces || start > 1 || stage.object.count("stop").value_or(0) != 0) {
        reader->refuse_type("decoder", "Strip");
      }
      if (start == 1) out.flags |= format::kStripSpace;
    } else if (stage.type == "Metaspace") {
      if (prepend_scheme(stage) != "never") out.flags |= format::kStripSpace;
    } else if (stage.type != "ByteFallback" && stage.type != "Fuse" &&
               !replaces(stage, kSpaceMark, " ")) {
      reader->refuse_type("decoder", stage.type);
    }
  }
}

bool has_byte_level(const Reader& reader) {
  for (const Stage& stage : stages_of(reader, "pre_tokenizer", "pretokenizers")) {
    if (stage.type == "ByteLevel") return true;
  }
  return false;
}

}  // namespace

TokenizerStages read_stages(const Json& root, const std::string& where,
                            std::vector<std::string>* warnings) {
  Reader reader = {root, where, warnings, {}};
  reader.stages.kind =
      has_byte_level(reader) ? TokenizerKind::kByteLevelBpe : TokenizerKind::kSentencePieceBpe;
  read_normalizer(&reader);
  read_pre_tokenizer(&reader);
  read_post_processor(&reader);
  read_decoder(&reader);
  return reader.stages;
}

std::string replace_spaces(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == ' ') {
      result += kSpaceMark;
    } else {
      result += c;
    }
  }
  return result;
}

}  // namespace cria::converter
