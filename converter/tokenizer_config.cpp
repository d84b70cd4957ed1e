#include "converter/tokenizer_config.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <system_error>

#include "converter/error.h"
#include "converter/json_input.h"

namespace cria::converter {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMaxConfigBytes = uint64_t{1} << 26;

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
    if (entry.is_object() && entry.value("name", Json()) == "default" &&
        entry.value("template", Json()).is_string()) {
      return entry["template"].get<std::string>();
    }
  }
  return "";
}

void read_added_tokens_decoder(const JsonObject& root, const Json& json, const std::string& where,
                               TokenizerConfig* config) {
  if (!root.has("added_tokens_decoder")) return;
  const Json& decoder = json["added_tokens_decoder"];
  if (!decoder.is_object()) root.refuse("added_tokens_decoder", "is no object");
  for (const auto& [id, entry] : decoder.items()) {
    const JsonObject object(entry, where + ": added_tokens_decoder");
    constexpr size_t kMaxDigits = 7;
    if (id.empty() || id.size() > kMaxDigits ||
        id.find_first_not_of("0123456789") != std::string::npos) {
      root.refuse("added_tokens_decoder", "has an id that is no number: " + id);
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
void read_added_tokens_file(const fs::path& path, TokenizerConfig* config) {
  if (!file_exists(path)) return;
  const Json json = read_json(path, kMaxConfigBytes);
  const JsonObject object(json, path.string());
  for (const auto& entry : json.items()) {
    const std::string& text = entry.key();
    const bool known = std::any_of(config->added.begin(), config->added.end(),
                                   [&](const AddedToken& a) { return a.text == text; });
    if (known) continue;
    AddedToken added;
    added.id = object.required_count(text.c_str());
    added.text = text;
    added.special = true;
    config->added.push_back(added);
  }
}

}  // namespace

bool file_exists(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

std::string read_whole_file(const fs::path& path, uint64_t max_bytes) {
  std::ifstream file(path, std::ios::binary);
  std::string bytes(std::istreambuf_iterator<char>(file), {});
  if (!file) throw ConvertError(ExitCode::kIo, path.string() + ": cannot be read");
  if (bytes.size() > max_bytes) {
    throw ConvertError(ExitCode::kInvalidInput, path.string() + ": too large for this file");
  }
  return bytes;
}

TokenizerConfig read_tokenizer_config(const fs::path& folder) {
  TokenizerConfig config;
  const fs::path config_path = folder / "tokenizer_config.json";
  if (file_exists(config_path)) {
    const Json json = read_json(config_path, kMaxConfigBytes);
    const JsonObject object(json, config_path.string());
    take_token_names(json, &config);
    config.add_bos = object.boolean("add_bos_token");
    config.add_eos = object.boolean("add_eos_token");
    config.chat_template = template_text(json);
    read_added_tokens_decoder(object, json, config_path.string(), &config);
  }
  const fs::path map_path = folder / "special_tokens_map.json";
  if (file_exists(map_path)) {
    const Json json = read_json(map_path, kMaxConfigBytes);
    if (json.is_object()) take_token_names(json, &config);
  }
  read_added_tokens_file(folder / "added_tokens.json", &config);
  // A template in a file of its own counts more than the one in the config.
  if (file_exists(folder / "chat_template.json")) {
    const Json json = read_json(folder / "chat_template.json", kMaxConfigBytes);
    if (json.is_object() && !template_text(json).empty())
      config.chat_template = template_text(json);
  }
  if (file_exists(folder / "chat_template.jinja")) {
    config.chat_template = read_whole_file(folder / "chat_template.jinja", kMaxConfigBytes);
  }
  return config;
}

}  // namespace cria::converter
