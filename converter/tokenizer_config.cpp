#include "converter/tokenizer_config.h"

#include <utility>

#include "converter/error.h"
#include "converter/json_input.h"
#include "converter/shown_text.h"
#include "converter/side_files.h"
#include "converter/text_table.h"

namespace cria::converter {
namespace {

namespace fs = std::filesystem;

// A token is a string or an object with its content.
std::string token_name(const Json& json, const char* key) {
  const auto found = json.find(key);
  if (found == json.end()) return "";
  if (found->is_string()) return found->get<std::string>();
  if (!found->is_object()) return "";
  const auto content = found->find("content");
  return content != found->end() && content->is_string() ? content->get<std::string>() : "";
}

void take_token_names(const Json& json, TokenizerConfig* config) {
  if (config->bos.empty()) config->bos = token_name(json, "bos_token");
  if (config->eos.empty()) config->eos = token_name(json, "eos_token");
}

// A template is a string, or a list of named ones of which "default" is meant.
std::string template_text(const Json& json) {
  const auto found = json.find("chat_template");
  if (found == json.end()) return "";
  if (found->is_string()) return found->get<std::string>();
  if (!found->is_array()) return "";
  for (const Json& entry : *found) {
    if (!entry.is_object()) continue;
    const auto name = entry.find("name");
    const auto text = entry.find("template");
    if (name != entry.end() && *name == "default" && text != entry.end() && text->is_string()) {
      return text->get<std::string>();
    }
  }
  return "";
}

// The template of a JSON file, which has its own limit like the file that holds nothing else.
void take_template(const JsonObject& object, const Json& json, TokenizerConfig* config) {
  std::string text = template_text(json);
  if (text.size() > kMaxTemplateBytes) {
    object.refuse("chat_template", "has " + std::to_string(text.size()) + " bytes; at most " +
                                       std::to_string(kMaxTemplateBytes) + " are read");
  }
  if (!text.empty()) config->chat_template = std::move(text);
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
    added.text = entry.key();
    added.special = true;
    more.push_back(std::move(added));
  }
  config->added.insert(config->added.end(), more.begin(), more.end());
}

}  // namespace

TokenizerConfig read_tokenizer_config(const fs::path& folder) {
  TokenizerConfig config;
  const auto where = [&folder](SideFile which) { return side_file_path(folder, which).string(); };
  if (has_side_file(folder, SideFile::kTokenizerConfig)) {
    const Json json = read_side_json(folder, SideFile::kTokenizerConfig);
    const JsonObject object(json, where(SideFile::kTokenizerConfig));
    take_token_names(json, &config);
    config.add_bos = object.boolean("add_bos_token");
    config.add_eos = object.boolean("add_eos_token");
    take_template(object, json, &config);
    read_added_tokens_decoder(object, json, where(SideFile::kTokenizerConfig), &config);
  }
  if (has_side_file(folder, SideFile::kSpecialTokensMap)) {
    const Json json = read_side_json(folder, SideFile::kSpecialTokensMap);
    (void)JsonObject(json, where(SideFile::kSpecialTokensMap));
    take_token_names(json, &config);
  }
  read_added_tokens_file(folder, &config);
  // A template in a file of its own counts more than the one in the config.
  if (has_side_file(folder, SideFile::kChatTemplateJson)) {
    const Json json = read_side_json(folder, SideFile::kChatTemplateJson);
    take_template(JsonObject(json, where(SideFile::kChatTemplateJson)), json, &config);
  }
  if (has_side_file(folder, SideFile::kChatTemplateJinja)) {
    config.chat_template = read_side_file(folder, SideFile::kChatTemplateJinja);
  }
  return config;
}

}  // namespace cria::converter
