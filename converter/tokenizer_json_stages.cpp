#include "converter/tokenizer_json_stages.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "converter/error.h"
#include "converter/pre_tokenizer_tables.h"
#include "quant/text/utf8.h"

namespace cria::converter {
namespace {

using format::PreTokenizer;
using format::SplitBehavior;
using format::TokenizerKind;

// The longest list of published tokenizers has six.
constexpr size_t kMaxStages = 64;

// One stage of the file, taken out of its Sequence.
struct Stage {
  const Json* json;
  JsonObject object;
  std::string type;
};

struct Reader {
  const Json& root;
  const std::string& where;
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
  for (const Stage& stage : stages_of(*reader, "normalizer", "normalizers")) {
    if (is_byte_level && stage.type == "NFC") {
      out.flags |= format::kNfc;
    } else if (!is_byte_level && stage.type == "Prepend" && !out.replaces_in_normalizer &&
               stage.object.text("prepend").value_or("") == kSpaceMarkText) {
      out.prepends_in_normalizer = true;
      out.flags |= format::kPrependSpace;
    } else if (!is_byte_level && replaces(stage, " ", kSpaceMarkText)) {
      out.replaces_in_normalizer = true;
    } else {
      reader->refuse_type("normalizer", stage.type);
    }
  }
}

// A string as a regex that matches it.
std::string escaped(const std::string& text) {
  constexpr std::string_view kSyntax = R"(\^$.[]|()?*+{})";
  std::string regex;
  for (const char c : text) {
    if (kSyntax.find(c) != std::string_view::npos) regex += '\\';
    regex += c;
  }
  return regex;
}

SplitBehavior split_behavior(const Reader& reader, const Stage& stage) {
  struct Named {
    std::string_view name;
    SplitBehavior behavior;
  };
  constexpr Named kBehaviors[] = {{"Isolated", SplitBehavior::kIsolated},
                                  {"MergedWithPrevious", SplitBehavior::kMergedWithPrevious},
                                  {"MergedWithNext", SplitBehavior::kMergedWithNext},
                                  {"Contiguous", SplitBehavior::kContiguous}};
  const std::string name = stage.object.text("behavior").value_or("Isolated");
  for (const Named& each : kBehaviors) {
    if (each.name == name) return each.behavior;
  }
  reader.refuse("pre_tokenizer '" + stage.type + "' with the behavior '" + shown(name) +
                "' is not supported");
}

void read_split(Reader* reader, const Stage& stage) {
  OwnedRule rule;
  rule.regex = pattern_text(stage, "Regex");
  if (rule.regex.empty()) rule.regex = escaped(pattern_text(stage, "String"));
  if (rule.regex.empty()) reader->refuse("pre_tokenizer 'Split' without a pattern");
  rule.inverted = stage.object.boolean("invert").value_or(false);
  if (reader->stages.rules.size() == format::kMaxSplitStages) {
    reader->refuse("pre_tokenizer has more than " + std::to_string(format::kMaxSplitStages) +
                   " stages");
  }
  if (stage.object.text("behavior").value_or("") == "Removed") {
    // What is between the matches is removed: where there is nothing, they are only cut apart.
    if (!rule.inverted || !covers_all_text(rule.view(), reader->where)) {
      reader->refuse("pre_tokenizer 'Split' that removes text is not supported");
    }
    rule.inverted = false;
  } else {
    rule.behavior = split_behavior(*reader, stage);
  }
  reader->stages.rules.push_back(std::move(rule));
}

void read_digits(Reader* reader, const Stage& stage) {
  const bool apart = stage.object.boolean("individual_digits").value_or(false);
  reader->stages.rules.push_back(
      {R"(\p{N})", apart ? SplitBehavior::kIsolated : SplitBehavior::kContiguous, false});
}

void read_byte_level(Reader* reader, const std::vector<Stage>& stages) {
  TokenizerStages& out = reader->stages;
  bool ends = false;
  for (const Stage& stage : stages) {
    // What follows would cut the bytes' letters, which are not those of the text.
    if (ends) reader->refuse_type("a pre_tokenizer after 'ByteLevel':", stage.type);
    if (stage.type == "Digits") {
      read_digits(reader, stage);
    } else if (stage.type == "Split") {
      read_split(reader, stage);
    } else if (stage.type == "Punctuation") {
      out.rules.push_back({R"([!-/:-@\[-`{-~\p{P}])", split_behavior(*reader, stage), false});
    } else if (stage.type == "ByteLevel") {
      ends = true;
      if (stage.object.boolean("use_regex").value_or(true)) {
        out.rules.push_back({std::string(kGpt2Regex), SplitBehavior::kIsolated, false});
      }
      if (stage.object.boolean("add_prefix_space").value_or(true)) {
        if (stages.size() > 1) {
          reader->refuse(
              "pre_tokenizer 'ByteLevel' with add_prefix_space after another is not supported");
        }
        out.flags |= format::kAddPrefixSpace;
      }
    } else {
      reader->refuse_type("pre_tokenizer", stage.type);
    }
  }
}

// "always", "first" or "never", also in the older spelling.
std::string prepend_scheme(const Stage& stage) {
  const bool adds = stage.object.boolean("add_prefix_space").value_or(true);
  return stage.object.text("prepend_scheme").value_or(adds ? "always" : "never");
}

void read_metaspace(Reader* reader, const Stage& stage) {
  TokenizerStages& out = reader->stages;
  if (stage.object.text("replacement").value_or("") != kSpaceMarkText) {
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
    // Gemma cuts at spaces that its normalizer has replaced: there are none.
    if (stage.type == "Split" && reader->stages.replaces_in_normalizer &&
        pattern_text(stage, "String") == " ") {
      continue;
    }
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
  if (const auto text = item.object("Sequence")) {
    if (*after_text) reader->refuse("post_processor with the text twice is not supported");
    if (text->text("id").value_or("A") != "A") {
      reader->refuse("post_processor names another text than 'A' in 'single'");
    }
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
    if (!after_text) reader->refuse("post_processor that leaves the text out is not supported");
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
               !replaces(stage, kSpaceMarkText, " ")) {
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

TokenizerStages read_stages(const Json& root, const std::string& where) {
  Reader reader = {root, where, {}};
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
      result += kSpaceMarkText;
    } else {
      result += c;
    }
  }
  return result;
}

}  // namespace cria::converter
