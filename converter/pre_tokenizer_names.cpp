#include "converter/pre_tokenizer_names.h"

#include <algorithm>
#include <iterator>

#include "converter/pre_tokenizer_tables.h"

namespace cria::converter {
namespace {

constexpr std::string_view kQwen2Regex =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N})"
    R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kTekkenRegex =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
    R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N})"
    R"(| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kO200kRegex =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+)"
    R"([\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3})"
    R"(| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
// Letters of the scripts that have two cases, of an older Unicode.
constexpr std::string_view kDeepSeekLetters =
    R"(\s?[A-Za-z\x{B5}\x{C0}-\x{D6}\x{D8}-\x{F6}\x{F8}-\x{1BA}\x{1BC}-\x{1BF}\x{1C4}-\x{293})"
    R"(\x{295}-\x{2AF}\x{370}-\x{373}\x{376}\x{377}\x{37B}-\x{37D}\x{37F}\x{386})"
    R"(\x{388}-\x{38A}\x{38C}\x{38E}-\x{3A1}\x{3A3}-\x{3F5}\x{3F7}-\x{481}\x{48A}-\x{52F})"
    R"(\x{531}-\x{556}\x{10A0}-\x{10C5}\x{13A0}-\x{13F5}\x{13F8}-\x{13FD}\x{1C90}-\x{1CBA})"
    R"(\x{1CBD}-\x{1CBF}\x{1D00}-\x{1D2B}\x{1D6B}-\x{1D77}\x{1D79}-\x{1D9A}\x{1E00}-\x{1F15})"
    R"(\x{1F18}-\x{1F1D}\x{1F20}-\x{1F45}\x{1F48}-\x{1F4D}\x{1F50}-\x{1F57}\x{1F59}\x{1F5B})"
    R"(\x{1F5D}\x{1F5F}-\x{1F7D}\x{1F80}-\x{1FB4}\x{1FB6}-\x{1FBC}\x{1FBE}\x{1FC2}-\x{1FC4})"
    R"(\x{1FC6}-\x{1FCC}\x{1FD0}-\x{1FD3}\x{1FD6}-\x{1FDB}\x{1FE0}-\x{1FEC}\x{1FF2}-\x{1FF4})"
    R"(\x{1FF6}-\x{1FFC}\x{2102}\x{2107}\x{210A}-\x{2113}\x{2115}\x{2119}-\x{211D}\x{2124})"
    R"(\x{2126}\x{2128}\x{212A}-\x{212D}\x{212F}-\x{2134}\x{2139}\x{213C}-\x{213F})"
    R"(\x{2145}-\x{2149}\x{214E}\x{2183}\x{2184}\x{2C00}-\x{2C7B}\x{2C7E}-\x{2CE4})"
    R"(\x{2CEB}-\x{2CEE}\x{2CF2}\x{2CF3}\x{A640}-\x{A66D}\x{A680}-\x{A69B}\x{A722}-\x{A76F})"
    R"(\x{A771}-\x{A787}\x{A78B}-\x{A78E}\x{AB70}-\x{ABBF}\x{FB00}-\x{FB06}\x{FB13}-\x{FB17})"
    R"(\x{FF21}-\x{FF3A}\x{FF41}-\x{FF5A}\x{10400}-\x{1044F}\x{104B0}-\x{104D3})"
    R"(\x{104D8}-\x{104FB}\x{10C80}-\x{10CB2}\x{10CC0}-\x{10CF2}\x{118A0}-\x{118DF})"
    R"(\x{1E900}-\x{1E943}]+)";
constexpr std::string_view kDeepSeekHan =
    R"([\x{4E00}-\x{9FA5}\x{800}-\x{4E00}\x{AC00}-\x{D7FF}]+)";

constexpr SplitRule kGpt2[] = {{kGpt2Regex}};
constexpr SplitRule kDigitsGpt2[] = {{R"(\p{N})"}, {kGpt2Regex}};
constexpr SplitRule kLlama3[] = {{kLlama3Regex}};
constexpr SplitRule kQwen2[] = {{kQwen2Regex}};
constexpr SplitRule kTekken[] = {{kTekkenRegex}};
constexpr SplitRule kO200k[] = {{kO200kRegex}};
constexpr SplitRule kDefault[] = {
    {R"([\p{P}$+<=>^~|]+)"}, {kGpt2Regex}, {R"(\p{N}+)"}, {R"([0-9][0-9][0-9])"}};
constexpr SplitRule kDeepSeekLlm[] = {
    {R"([\r\n])"},
    {kDeepSeekLetters},
    {R"(\s?[!-/:-~\x{FF01}-\x{FF0F}\x{FF1A}-\x{FF5E}\x{2018}-\x{201F}\x{3000}-\x{3002}]+)"},
    {R"(\s+$)"},
    {kDeepSeekHan},
    {R"(\p{N}+)"},
};
constexpr SplitRule kDeepSeekCoder[] = {
    {R"([\r\n])"}, {R"(\s?\p{L}+)"}, {R"(\s?\p{P}+)"}, {kDeepSeekHan}, {R"(\p{N})"},
};
constexpr SplitRule kDeepSeekV3[] = {
    {R"(\p{N}{1,3})"},
    {R"([\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+)"},
    {R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+)"
     R"(|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*)"
     R"(|\s*[\r\n]+|\s+(?!\S)|\s+)"},
};

constexpr NamedPreTokenizer kNamed[] = {
    {"default", kDefault, 0},
    {"gpt-2", kGpt2, 0},
    {"phi-2", kGpt2, 0},
    {"mpt", kGpt2, 0},
    {"olmo", kGpt2, 0},
    {"jais", kGpt2, 0},
    {"smollm", kDigitsGpt2, 0},
    {"starcoder", kDigitsGpt2, 0},
    {"refact", kDigitsGpt2, 0},
    {"granite", kDigitsGpt2, 0},
    {"command-r", kDigitsGpt2, 0},
    {"codeshell", kDigitsGpt2, 0},
    {"exaone", kDigitsGpt2, 0},
    {"llama3", kLlama3, format::kIgnoreMerges | format::kAddBos},
    {"llama-v3", kLlama3, format::kIgnoreMerges | format::kAddBos},
    {"llama-bpe", kLlama3, format::kIgnoreMerges | format::kAddBos},
    {"falcon3", kLlama3, format::kIgnoreMerges | format::kAddBos},
    {"dbrx", kLlama3, 0},
    {"smaug-bpe", kLlama3, 0},
    {"chatglm-bpe", kLlama3, 0},
    {"glm4", kLlama3, 0},
    {"qwen2", kQwen2, format::kNfc},
    {"deepseek-r1-qwen", kQwen2, format::kNfc},
    {"stablelm2", kQwen2, 0},
    {"tekken", kTekken, format::kIgnoreMerges | format::kAddBos},
    {"gpt-4o", kO200k, 0},
    {"deepseek-llm", kDeepSeekLlm, 0},
    {"deepseek-coder", kDeepSeekCoder, 0},
    {"deepseek-v3", kDeepSeekV3, 0},
};

// GGUF's reader writes them as stages of a tokenizer.json that say no more.
consteval bool each_isolates() {
  for (const NamedPreTokenizer& named : kNamed) {
    for (const SplitRule& rule : named.rules) {
      if (rule.behavior != format::SplitBehavior::kIsolated || rule.inverted) return false;
    }
  }
  return true;
}
static_assert(each_isolates());

}  // namespace

const NamedPreTokenizer* find_pre_tokenizer(std::string_view name) {
  const auto* const found =
      std::find_if(std::begin(kNamed), std::end(kNamed),
                   [name](const NamedPreTokenizer& each) { return each.name == name; });
  return found == std::end(kNamed) ? nullptr : found;
}

void set_pre_tokenizer(std::span<const SplitRule> rules, const std::string& where,
                       TokenizerModel* model) {
  model->pre_tokenizer =
      rules.empty() ? format::PreTokenizer::kWhole : format::PreTokenizer::kStages;
  model->pre_tokenizer_tables.clear();
  model->pre_tokenizer_name.clear();
  if (rules.empty()) return;
  model->pre_tokenizer_tables = build_pre_tokenizer_tables(rules, where);
  const auto* const named =
      std::find_if(std::begin(kNamed), std::end(kNamed), [rules](const NamedPreTokenizer& each) {
        return std::equal(rules.begin(), rules.end(), each.rules.begin(), each.rules.end());
      });
  model->pre_tokenizer_name = named != std::end(kNamed) ? named->name : "its own words";
}

}  // namespace cria::converter
