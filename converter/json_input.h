// JSON from a checkpoint, with errors that name the file and the key.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cria::converter {

using Json = nlohmann::json;

// Parses text. Refuses what a checkpoint never has and what parsers disagree on: a key twice in one
// object, and nesting deeper than any config's. where names the source in errors.
// Throws ConvertError (kInvalidInput).
[[nodiscard]] Json parse_json(std::string_view text, const std::string& where);

// Reads and parses a file of at most max_bytes. Throws ConvertError: kIo when the system refuses to
// read it, else kInvalidInput.
[[nodiscard]] Json read_json(const std::filesystem::path& path, uint64_t max_bytes);

// Typed access to one JSON object. A key that is absent or null counts as not there; a value of
// another type is an error that names file, key, what was expected and what was found.
class JsonObject {
 public:
  // object must outlive this. Throws when it is no JSON object.
  JsonObject(const Json& object, std::string where);

  [[nodiscard]] bool has(const char* key) const;                       // there, and not null
  [[nodiscard]] bool contains(const char* key) const;                  // there, maybe null
  [[nodiscard]] std::optional<uint32_t> count(const char* key) const;  // 0 .. 2^32 - 1
  [[nodiscard]] std::optional<double> number(const char* key) const;   // finite
  [[nodiscard]] std::optional<bool> boolean(const char* key) const;
  [[nodiscard]] std::optional<std::string> text(const char* key) const;
  [[nodiscard]] std::optional<std::vector<std::string>> texts(const char* key) const;
  // One count or a list of them: how token ids are written.
  [[nodiscard]] std::optional<std::vector<uint32_t>> counts(const char* key) const;
  [[nodiscard]] std::optional<JsonObject> object(const char* key) const;

  [[nodiscard]] uint32_t required_count(const char* key) const;
  [[nodiscard]] double required_number(const char* key) const;

  // Throws ConvertError (kInvalidInput): "<where>: <key> <problem>".
  [[noreturn]] void refuse(const std::string& key, const std::string& problem) const;

 private:
  [[nodiscard]] const Json* find(const char* key) const;
  [[nodiscard]] uint32_t count_value(const char* key, const Json& value) const;
  [[noreturn]] void refuse_type(const char* key, const char* expected, const Json& found) const;

  const Json* object_;
  std::string where_;
};

}  // namespace cria::converter
