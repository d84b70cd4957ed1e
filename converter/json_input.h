// JSON from a checkpoint, with errors that name the file and the key.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cria::converter {

using Json = nlohmann::json;

// For files that hold one value a token or a merge: four times what the largest tokenizers have.
// A value takes up to two hundred bytes of memory.
inline constexpr size_t kMaxJsonValues = 1 << 23;

// Parses text of at most max_values values, in a time in proportion to its length and the logarithm
// of the keys of one object. Refuses what a checkpoint never has and what parsers disagree on: a
// key twice in one object, and nesting deeper than any config's. where names the source in errors.
// NaN, Infinity and -Infinity, which are no JSON, are numbers as Python's json has them: whoever
// reads their key refuses them. Throws ProgramError (kInvalidInput).
[[nodiscard]] Json parse_json(std::string_view text, const std::string& where, size_t max_values);

// The keys of the root's member object, an object, as they stand in text; parse_json has taken it.
[[nodiscard]] std::vector<std::string> keys_in_file_order(std::string_view text,
                                                          std::string_view object);

// What the user's file calls that which is read by other keys: "llama.block_count" for
// "num_hidden_layers". A key in an object inside has that object's before it:
// "rope_scaling.factor".
using KeyNames = std::map<std::string, std::string, std::less<>>;

// Typed access to one JSON object. A key that is absent or null counts as not there; a value of
// another type is an error that names file, key, what was expected and what was found.
class JsonObject {
 public:
  // object must outlive this. Throws when it is no JSON object.
  JsonObject(const Json& object, std::string where);
  // names, which must outlive this, has what errors call the keys; others are called as they are.
  JsonObject(const Json& object, std::string where, const KeyNames& names);

  [[nodiscard]] bool has(std::string_view key) const;       // there, and not null
  [[nodiscard]] bool contains(std::string_view key) const;  // there, maybe null
  // Whether its value switches something on: it is not null, false, zero or empty.
  [[nodiscard]] bool is_on(std::string_view key) const;
  [[nodiscard]] std::optional<uint32_t> count(std::string_view key) const;  // 0 .. 2^32 - 1
  [[nodiscard]] std::optional<double> number(std::string_view key) const;   // finite, of float
  [[nodiscard]] std::optional<std::vector<double>> numbers(std::string_view key) const;
  [[nodiscard]] std::optional<bool> boolean(std::string_view key) const;
  [[nodiscard]] std::optional<std::string> text(std::string_view key) const;
  [[nodiscard]] std::optional<std::vector<std::string>> texts(std::string_view key) const;
  // One count or a list of them: how token ids are written.
  [[nodiscard]] std::optional<std::vector<uint32_t>> counts(std::string_view key) const;
  [[nodiscard]] std::optional<JsonObject> object(std::string_view key) const;
  [[nodiscard]] std::vector<std::string> keys() const;  // those that are not null
  // A value of any type; null: there is none.
  [[nodiscard]] const Json* find(std::string_view key) const;

  [[nodiscard]] uint32_t required_count(std::string_view key) const;
  [[nodiscard]] double required_number(std::string_view key) const;

  // What the object is called in errors.
  [[nodiscard]] const std::string& where() const { return where_; }
  // What a key is called in errors.
  [[nodiscard]] std::string name_of(std::string_view key) const;
  // Throws ProgramError (kInvalidInput): "<where>: <key> <problem>".
  [[noreturn]] void refuse(std::string_view key, const std::string& problem) const;
  // As refuse, of a value that is not what was expected.
  [[noreturn]] void refuse_type(std::string_view key, const char* expected,
                                const Json& found) const;

 private:
  [[nodiscard]] uint32_t count_value(std::string_view key, const Json& value) const;
  [[nodiscard]] double number_value(std::string_view key, const Json& value) const;

  const Json* object_;
  std::string where_;
  const KeyNames* names_ = nullptr;
  std::string path_;  // of this object in names_: "rope_scaling."
};

}  // namespace cria::converter
