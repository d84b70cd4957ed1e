#include "converter/json_input.h"

#include <cmath>
#include <fstream>
#include <limits>
#include <set>
#include <system_error>
#include <utility>

#include "converter/error.h"
#include "converter/memory_size.h"

namespace cria::converter {
namespace {

constexpr int kMaxDepth = 32;
constexpr size_t kShownValueBytes = 40;

// Follows the parser and remembers the keys of every object that is open.
class DuplicateCheck {
 public:
  explicit DuplicateCheck(std::string where) : where_(std::move(where)) {}

  bool operator()(int depth, Json::parse_event_t event, const Json& parsed) {
    using Event = Json::parse_event_t;
    if (depth > kMaxDepth) {
      throw ConvertError(ExitCode::kInvalidInput, where_ + ": JSON nested too deeply");
    }
    if (event == Event::object_start) open_.emplace_back();
    if (event == Event::object_end) open_.pop_back();
    if (event == Event::key && !open_.back().insert(parsed.get<std::string>()).second) {
      throw ConvertError(ExitCode::kInvalidInput,
                         where_ + ": key '" + parsed.get<std::string>() + "' appears twice");
    }
    return true;
  }

 private:
  std::string where_;
  std::vector<std::set<std::string>> open_;
};

std::string shown(const Json& value) {
  std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  if (text.size() > kShownValueBytes) text = text.substr(0, kShownValueBytes) + "...";
  return text;
}

}  // namespace

Json parse_json(std::string_view text, const std::string& where) {
  DuplicateCheck check(where);
  try {
    return Json::parse(text.begin(), text.end(), std::ref(check));
  } catch (const Json::parse_error& e) {
    throw ConvertError(ExitCode::kInvalidInput,
                       where + ": not valid JSON at byte " + std::to_string(e.byte));
  } catch (const Json::exception&) {
    // A number that no double holds.
    throw ConvertError(ExitCode::kInvalidInput, where + ": JSON value out of range");
  }
}

Json read_json(const std::filesystem::path& path, uint64_t max_bytes) {
  std::error_code error;
  const uint64_t bytes = std::filesystem::file_size(path, error);
  if (error) throw ConvertError(ExitCode::kIo, path.string() + ": " + error.message());
  if (bytes > max_bytes) {
    throw ConvertError(ExitCode::kInvalidInput, path.string() + ": " + std::to_string(bytes) +
                                                    " bytes are too many for this file");
  }
  std::string text(memory_size(bytes), '\0');
  std::ifstream file(path, std::ios::binary);
  if (!file.read(text.data(), static_cast<std::streamsize>(bytes))) {
    throw ConvertError(ExitCode::kIo, path.string() + ": cannot be read");
  }
  return parse_json(text, path.string());
}

JsonObject::JsonObject(const Json& object, std::string where)
    : object_(&object), where_(std::move(where)) {
  if (!object.is_object()) {
    throw ConvertError(ExitCode::kInvalidInput,
                       where_ + ": expected a JSON object, found " + object.type_name());
  }
}

const Json* JsonObject::find(const char* key) const {
  const auto found = object_->find(key);
  return found == object_->end() || found->is_null() ? nullptr : &*found;
}

bool JsonObject::has(const char* key) const { return find(key) != nullptr; }

bool JsonObject::contains(const char* key) const { return object_->contains(key); }

void JsonObject::refuse(const std::string& key, const std::string& problem) const {
  throw ConvertError(ExitCode::kInvalidInput, where_ + ": " + key + " " + problem);
}

void JsonObject::refuse_type(const char* key, const char* expected, const Json& found) const {
  refuse(key, std::string("must be ") + expected + ", found " + shown(found));
}

uint32_t JsonObject::count_value(const char* key, const Json& value) const {
  constexpr uint64_t kMost = std::numeric_limits<uint32_t>::max();
  if (!value.is_number_unsigned() || value.get<uint64_t>() > kMost) {
    refuse_type(key, "a whole number from 0 to 4294967295", value);
  }
  return value.get<uint32_t>();
}

std::optional<uint32_t> JsonObject::count(const char* key) const {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  return count_value(key, *value);
}

std::optional<double> JsonObject::number(const char* key) const {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number() || !std::isfinite(value->get<double>())) {
    refuse_type(key, "a number", *value);
  }
  return value->get<double>();
}

std::optional<bool> JsonObject::boolean(const char* key) const {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_boolean()) refuse_type(key, "true or false", *value);
  return value->get<bool>();
}

std::optional<std::string> JsonObject::text(const char* key) const {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) refuse_type(key, "a text", *value);
  return value->get<std::string>();
}

std::optional<std::vector<std::string>> JsonObject::texts(const char* key) const {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_array()) refuse_type(key, "a list of texts", *value);
  std::vector<std::string> out;
  for (const Json& item : *value) {
    if (!item.is_string()) refuse_type(key, "a list of texts", *value);
    out.push_back(item.get<std::string>());
  }
  return out;
}

std::optional<std::vector<uint32_t>> JsonObject::counts(const char* key) const {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_array()) return std::vector<uint32_t>{count_value(key, *value)};
  std::vector<uint32_t> out;
  for (const Json& item : *value) out.push_back(count_value(key, item));
  return out;
}

std::optional<JsonObject> JsonObject::object(const char* key) const {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_object()) refuse_type(key, "an object", *value);
  return JsonObject(*value, where_ + ": " + key);
}

uint32_t JsonObject::required_count(const char* key) const {
  const std::optional<uint32_t> value = count(key);
  if (!value) refuse(key, "is missing");
  return *value;
}

double JsonObject::required_number(const char* key) const {
  const std::optional<double> value = number(key);
  if (!value) refuse(key, "is missing");
  return *value;
}

}  // namespace cria::converter
