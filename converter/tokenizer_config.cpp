#include "converter/tokenizer_config.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "converter/error.h"
#include "converter/json_input.h"
#include "converter/side_files.h"
#include "converter/text_table.h"
#include "quant/format.h"

namespace cria::converter {
namespace {

namespace fs = std::filesystem;

// A token is a text or an object with its content; null is none. transformers refuses anything else
// but an object without content, which would be a token without a text: nobody means that.
std::string token_name(const JsonObject& object, const Json& json, const char* key) {
  const auto found = json.find(key);
  if (found == json.end() || found->is_null()) return "";
  if (found->is_string()) return found->get<std::string>();
  const auto content = found->is_object() ? found->find("content") : found->end();
  if (content != found->end() && content->is_string()) return content->get<std::string>();
  object.refuse_type(key, "a text or an object with a text as its content", *found);
}

void take_token_names(const JsonObject& object, const Json& json, TokenizerConfig* config) {
  const std::string bos = token_name(object, json, "bos_token");
  const std::string eos = token_name(object, json, "eos_token");
  if (config->bos.empty()) config->bos = bos;
  if (config->eos.empty()) config->eos = eos;
}

// A template, or why what stands in its place is none.
struct FoundTemplate {
  std::string text;
  const char* problem;
};

// A template is a text, or a list of named ones of which "default" is meant.
FoundTemplate find_template(const Json& value) {
  if (value.is_string()) return {value.get<std::string>(), "is empty"};
  if (!value.is_array()) return {"", "is neither a text nor a list of named ones"};
  for (const Json& entry : value) {
    if (!entry.is_object()) continue;
    const auto name = entry.find("name");
    const auto text = entry.find("template");
    if (name != entry.end() && *name == "default" && text != entry.end() && text->is_string()) {
      return {text->get<std::string>(), "has an empty text named default"};
    }
  }
  return {"", "is a list without a text named default"};
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

void read_added_tokens_decoder(const JsonObject& root, const Json& json, const std::string& where,
                               TokenizerConfig* config) {
  if (!root.has("added_tokens_decoder")) return;
  const Json& decoder = json["added_tokens_decoder"];
  if (!decoder.is_object()) root.refuse("added_tokens_decoder", "is no object");
  for (const auto& [id, entry] : decoder.items()) {
    const JsonObject object(entry, where + ": added_tokens_decoder: " + shown(id));
    constexpr size_t kMaxDigits = 7;
    if (id.empty() || id.size() > kMaxDigits ||
        id.find_first_not_of("0123456789") != std::string::npos) {
      root.refuse("added_tokens_decoder", "has an id that is no number: " + shown(id));
    }
    AddedToken added;
    added.id = static_cast<uint32_t>(std::stoul(id));
    check_id(root, "added_tokens_decoder", added.id);
    added.text = object.text("content").value_or("");
    added.special = object.boolean("special").value_or(false);
    added.normalized = object.boolean("normalized").value_or(false);
    added.strip_left = object.boolean("lstrip").value_or(false);
    added.strip_right = object.boolean("rstrip").value_or(false);
    config->added.push_back(added);
  }
}

// The older way: added_tokens.json maps text to id.
void read_added_tokens_file(const fs::path& folder, TokenizerConfig* config) {
  if (!has_side_file(folder, SideFile::kAddedTokens)) return;
  const Json json = read_side_json(folder, SideFile::kAddedTokens);
  const JsonObject object(json, side_file_path(folder, SideFile::kAddedTokens).string());
  // Texts that tokenizer_config.json has; those of one JSON object differ among themselves.
  TextTable known;
  for (const AddedToken& added : config->added) (void)known.insert(added.text, added.id);
  std::vector<AddedToken> more;
  for (const auto& entry : json.items()) {
    if (known.find(entry.key())) continue;
    AddedToken added;
    added.id = object.required_count(entry.key());
    check_id(object, entry.key(), added.id);
    added.text = entry.key();
    added.special = true;
    more.push_back(std::move(added));
  }
  config->added.insert(config->added.end(), more.begin(), more.end());
}

}  // namespace

TokenizerConfig read_tokenizer_config(const fs::path& folder) {
  TokenizerConfig config;
  const auto path = [&folder](SideFile which) { return side_file_path(folder, which); };
  const auto where = [&path](SideFile which) { return path(which).string(); };
  if (has_side_file(folder, SideFile::kTokenizerConfig)) {
    const Json json = read_side_json(folder, SideFile::kTokenizerConfig);
    const JsonObject object(json, where(SideFile::kTokenizerConfig));
    take_token_names(object, json, &config);
    config.add_bos = object.boolean("add_bos_token");
    config.add_eos = object.boolean("add_eos_token");
    take_json_template(object, json, path(SideFile::kTokenizerConfig), &config);
    read_added_tokens_decoder(object, json, where(SideFile::kTokenizerConfig), &config);
  }
  if (has_side_file(folder, SideFile::kSpecialTokensMap)) {
    const Json json = read_side_json(folder, SideFile::kSpecialTokensMap);
    take_token_names(JsonObject(json, where(SideFile::kSpecialTokensMap)), json, &config);
  }
  read_added_tokens_file(folder, &config);
  // A template in a file of its own counts more than the one in the config.
  if (has_side_file(folder, SideFile::kChatTemplateJson)) {
    const Json json = read_side_json(folder, SideFile::kChatTemplateJson);
    const JsonObject object(json, where(SideFile::kChatTemplateJson));
    if (!object.has("chat_template")) {
      config.warnings.push_back("chat_template.json has no chat_template and is left out");
    }
    take_json_template(object, json, path(SideFile::kChatTemplateJson), &config);
  }
  if (has_side_file(folder, SideFile::kChatTemplateJinja)) {
    take_template({read_side_file(folder, SideFile::kChatTemplateJinja), "is empty"},
                  path(SideFile::kChatTemplateJinja), &config);
  }
  return config;
}

}  // namespace cria::converter
