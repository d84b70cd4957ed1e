#include "converter/tokenizer_config.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "converter/error.h"
#include "converter/json_input.h"
#include "converter/side_files.h"
#include "converter/text_table.h"
#include "quant/format/format.h"

namespace cria::converter {
namespace {

namespace fs = std::filesystem;

// The names that every tokenizer has, in the order in which tokens without an id get one.
constexpr std::string_view kTokenNames[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                            "pad_token", "cls_token", "mask_token"};
constexpr const char* kExtra = "extra_special_tokens";
constexpr const char* kOldExtra = "additional_special_tokens";

bool is_common_name(std::string_view name) {
  return std::find(std::begin(kTokenNames), std::end(kTokenNames), name) != std::end(kTokenNames);
}

// A token is a text or an object with its content; null is none. transformers refuses anything else
// but an object without content, which would be a token without a text: nobody means that.
std::optional<AddedToken> named_token(const JsonObject& object, const std::string& key,
                                      const Json& value) {
  AddedToken token;
  token.id = format::kNone;
  token.special = true;
  if (value.is_null()) return std::nullopt;
  if (value.is_string()) {
    token.text = value.get<std::string>();
    return token;
  }
  const auto content = value.is_object() ? value.find("content") : value.end();
  if (content == value.end() || !content->is_string()) {
    object.refuse_type(key, "a text or an object with a text as its content", value);
  }
  token = read_added_token(JsonObject(value, object.where() + ": " + key));
  token.special = true;
  return token;
}

// What one of the files says of tokens by name and without ids.
struct Mentions {
  std::map<std::string, AddedToken, std::less<>> named;
  std::vector<AddedToken> extra;
  bool has_extra = false;
};

// Every token that a template can name: a key that ends so, whatever it begins with.
void read_named(const JsonObject& object, const Json& json, Mentions* mentions) {
  constexpr std::string_view kEnd = "_token";
  for (const auto& [key, value] : json.items()) {
    const bool is_token = value.is_string() || (value.is_object() && value.contains("content"));
    if (!is_common_name(key) && !(key.ends_with(kEnd) && is_token)) continue;
    if (auto token = named_token(object, key, value)) mentions->named[key] = *std::move(token);
  }
}

// A list, or an object of named ones. The old name counts where there is no new one.
void read_extra(const JsonObject& object, const Json& json, Mentions* mentions) {
  const char* const key = json.contains(kExtra) ? kExtra : kOldExtra;
  const auto found = json.find(key);
  if (found == json.end() || found->is_null()) return;
  if (found->is_object()) {
    for (const auto& [name, value] : found->items()) {
      if (auto token = named_token(object, name, value)) mentions->named[name] = *std::move(token);
    }
    return;
  }
  if (!found->is_array()) object.refuse_type(key, "a list of tokens", *found);
  mentions->has_extra = true;
  for (const Json& value : *found) {
    if (value.is_object()) {
      mentions->extra.push_back(read_added_token(JsonObject(value, object.where() + ": " + key)));
    } else if (auto token = named_token(object, key, value)) {
      mentions->extra.push_back(*std::move(token));
    }
  }
}

Mentions read_mentions(const JsonObject& object, const Json& json) {
  Mentions mentions;
  read_named(object, json, &mentions);
  read_extra(object, json, &mentions);
  return mentions;
}

// A template, or why what stands in its place is none.
struct FoundTemplate {
  std::string text;
  const char* problem;
};

// A template is a text, or a list or an object of named ones of which "default" is meant: of
// several with that name the last.
FoundTemplate find_template(const Json& value) {
  constexpr const char* kEmpty = "has an empty text named default";
  if (value.is_string()) return {value.get<std::string>(), "is empty"};
  if (value.is_object()) {
    const auto text = value.find("default");
    if (text != value.end() && text->is_string()) return {text->get<std::string>(), kEmpty};
    return {"", "is an object without a text named default"};
  }
  if (!value.is_array()) return {"", "is neither a text nor a list of named ones"};
  FoundTemplate found = {"", "is a list without a text named default"};
  for (const Json& entry : value) {
    if (!entry.is_object()) continue;
    const auto name = entry.find("name");
    const auto text = entry.find("template");
    if (name != entry.end() && *name == "default" && text != entry.end() && text->is_string()) {
      found = {text->get<std::string>(), kEmpty};
    }
  }
  return found;
}

// One that cannot be used does not hide that of another file.
void take_template(FoundTemplate found, const fs::path& path, TokenizerConfig* config) {
  if (found.text.empty()) {
    config->warnings.push_back(path.filename().string() + ": the chat template " + found.problem +
                               " and is left out");
    return;
  }
  config->chat_template = std::move(found.text);
  config->chat_template_path = path.string();
}

// The template of a JSON file, which has its own limit like the file that holds nothing else.
void take_json_template(const JsonObject& object, const Json& json, const fs::path& path,
                        TokenizerConfig* config) {
  const auto value = json.find("chat_template");
  if (value == json.end() || value->is_null()) return;
  FoundTemplate found = find_template(*value);
  if (found.text.size() > kMaxTemplateBytes) {
    object.refuse("chat_template", "has " + std::to_string(found.text.size()) + " bytes; at most " +
                                       std::to_string(kMaxTemplateBytes) + " are read");
  }
  take_template(std::move(found), path, config);
}

// Here the file is known that names the token.
void check_id(const JsonObject& object, std::string_view key, uint32_t id) {
  if (id >= format::kMaxVocab) {
    object.refuse(key, "names token id " + std::to_string(id) + ", which is too large");
  }
}

void read_added_tokens_decoder(const JsonObject& root, const Json& json, TokenizerConfig* config) {
  const Json& decoder = json["added_tokens_decoder"];
  if (!decoder.is_object()) root.refuse("added_tokens_decoder", "is not an object");
  for (const auto& [id, entry] : decoder.items()) {
    const JsonObject object(entry, root.where() + ": added_tokens_decoder: " + shown(id));
    constexpr size_t kMaxDigits = 7;
    if (id.empty() || id.size() > kMaxDigits ||
        id.find_first_not_of("0123456789") != std::string::npos) {
      root.refuse("added_tokens_decoder", "has an id that is not a number: " + shown(id));
    }
    AddedToken added = read_added_token(object);
    added.id = static_cast<uint32_t>(std::stoul(id));
    check_id(root, "added_tokens_decoder", added.id);
    config->listed.push_back(std::move(added));
  }
}

// The older way: added_tokens.json maps text to id.
void read_added_tokens_file(const fs::path& folder, TokenizerConfig* config) {
  const Json json = read_side_json(folder, SideFile::kAddedTokens);
  const JsonObject object(json, side_file_path(folder, SideFile::kAddedTokens).string());
  for (const auto& entry : json.items()) {
    AddedToken added;
    added.id = object.required_count(entry.key());
    check_id(object, entry.key(), added.id);
    added.text = entry.key();
    config->listed.push_back(std::move(added));
  }
}

// special_tokens_map.json counts more than tokenizer_config.json, where it counts at all; but its
// list under the old name only where there is no other.
void take_older(Mentions older, const Json& json, Mentions* mentions) {
  for (auto& [name, token] : older.named) mentions->named[name] = std::move(token);
  if (mentions->has_extra && !json.contains(kExtra)) return;
  mentions->extra.insert(mentions->extra.end(), older.extra.begin(), older.extra.end());
}

// Texts of tokens, and where each was found first.
void insert_texts(const std::vector<AddedToken>& tokens, TextTable* places) {
  for (size_t i = 0; i < tokens.size(); ++i) {
    (void)places->insert(tokens[i].text, static_cast<uint32_t>(i));
  }
}

void take_mentions(const Mentions& mentions, TokenizerConfig* config) {
  std::vector<AddedToken> all;
  const auto take = [&](const std::string& name, const AddedToken& token) {
    config->named[name] = token.text;
    all.push_back(token);
  };
  for (const std::string_view name : kTokenNames) {
    const auto found = mentions.named.find(name);
    if (found != mentions.named.end()) take(found->first, found->second);
  }
  const size_t n_common = all.size();
  for (const auto& [name, token] : mentions.named) {
    if (!is_common_name(name)) take(name, token);
  }
  // Objects are read in the order of their keys, whatever order the file has.
  config->is_in_order = all.size() <= n_common + 1;
  all.insert(all.end(), mentions.extra.begin(), mentions.extra.end());
  TextTable named;
  for (const auto& [name, token] : mentions.named) (void)named.insert(token.text, 0);
  TextTable listed;
  insert_texts(config->listed, &listed);
  for (AddedToken& token : config->listed) token.special |= named.find(token.text).has_value();
  for (AddedToken& token : all) {
    if (token.text.empty() || listed.find(token.text)) continue;
    token.special |= named.find(token.text).has_value();
    config->mentioned.push_back(token);
  }
}

// Those of added_tokens.json are special by what the other files say of them.
void settle_older(const Mentions& mentions, TokenizerConfig* config) {
  TextTable known;
  insert_texts(mentions.extra, &known);
  for (const auto& [name, token] : mentions.named) (void)known.insert(token.text, 0);
  for (AddedToken& token : config->listed) {
    token.special = known.find(token.text).has_value();
    token.normalized = !token.special;
  }
}

void read_tokens(const fs::path& folder, const Json& json, const JsonObject& object,
                 TokenizerConfig* config) {
  Mentions mentions = read_mentions(object, json);
  if (object.has("added_tokens_decoder")) {
    // Whoever wrote it has written into it what the older files say.
    read_added_tokens_decoder(object, json, config);
    config->lists_flags = true;
  } else {
    if (has_side_file(folder, SideFile::kSpecialTokensMap)) {
      const Json map = read_side_json(folder, SideFile::kSpecialTokensMap);
      const std::string where = side_file_path(folder, SideFile::kSpecialTokensMap).string();
      take_older(read_mentions(JsonObject(map, where), map), map, &mentions);
    }
    if (has_side_file(folder, SideFile::kAddedTokens)) {
      read_added_tokens_file(folder, config);
      settle_older(mentions, config);
    }
  }
  std::sort(config->listed.begin(), config->listed.end(),
            [](const AddedToken& a, const AddedToken& b) { return a.id < b.id; });
  take_mentions(mentions, config);
}

}  // namespace

AddedToken read_added_token(const JsonObject& object) {
  AddedToken token;
  token.id = format::kNone;
  token.text = object.text("content").value_or("");
  token.special = object.boolean("special").value_or(false);
  token.normalized = object.boolean("normalized").value_or(!token.special);
  token.strip_left = object.boolean("lstrip").value_or(false);
  token.strip_right = object.boolean("rstrip").value_or(false);
  token.single_word = object.boolean("single_word").value_or(false);
  return token;
}

std::string TokenizerConfig::text_of(std::string_view name) const {
  const auto found = named.find(name);
  return found == named.end() ? std::string() : found->second;
}

TokenizerConfig read_tokenizer_config(const fs::path& folder) {
  TokenizerConfig config;
  const auto path = [&folder](SideFile which) { return side_file_path(folder, which); };
  const auto where = [&path](SideFile which) { return path(which).string(); };
  Json json = Json::object();
  if (has_side_file(folder, SideFile::kTokenizerConfig)) {
    json = read_side_json(folder, SideFile::kTokenizerConfig);
  }
  const JsonObject object(json, where(SideFile::kTokenizerConfig));
  config.add_bos = object.boolean("add_bos_token");
  config.add_eos = object.boolean("add_eos_token");
  take_json_template(object, json, path(SideFile::kTokenizerConfig), &config);
  read_tokens(folder, json, object, &config);
  // A template in a file of its own counts more than the one in the config.
  if (has_side_file(folder, SideFile::kChatTemplateJson)) {
    const Json file = read_side_json(folder, SideFile::kChatTemplateJson);
    const JsonObject file_object(file, where(SideFile::kChatTemplateJson));
    if (!file_object.has("chat_template")) {
      config.warnings.push_back("chat_template.json has no chat_template and is left out");
    }
    take_json_template(file_object, file, path(SideFile::kChatTemplateJson), &config);
  }
  if (has_side_file(folder, SideFile::kChatTemplateJinja)) {
    take_template({read_side_file(folder, SideFile::kChatTemplateJinja), "is empty"},
                  path(SideFile::kChatTemplateJinja), &config);
  }
  return config;
}

}  // namespace cria::converter
