#include "platforms/hosted/serve/json_fields.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>

#include "platforms/hosted/base/print_format.h"
#include "platforms/hosted/serve/api_error.h"

namespace cria::hosted {
namespace {

constexpr int kMaxDepth = 128;                  // a schema may have 64
constexpr size_t kMaxValues = size_t{1} << 19;  // a bias for each token of a large vocabulary

// Looked at before the text is parsed, which takes a multiple of its memory.
void check_size(const std::string& text) {
  int depth = 0;
  size_t n_values = 1;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      in_string = c != '"';
      continue;
    }
    if (c == '"') in_string = true;
    if (c == '[' || c == '{') ++depth;
    if (c == ']' || c == '}') --depth;
    if (c == ',' || c == '[' || c == '{') ++n_values;
    if (depth > kMaxDepth) {
      throw ApiError(ErrorKind::kInvalidRequest, "the JSON is nested too deep");
    }
  }
  if (n_values > kMaxValues) {
    throw ApiError(ErrorKind::kTooLarge, text_of("the JSON has more than %zu values", kMaxValues));
  }
}

[[noreturn]] void throw_wrong(const char* name, const std::string& wanted) {
  throw ApiError(ErrorKind::kInvalidRequest, std::string(name) + " must be " + wanted, name);
}

// A walk over text that is known to be JSON.
class RawJson {
 public:
  explicit RawJson(std::string_view text) : text_(text) { skip_space(); }

  std::string_view member(std::string_view name) {
    std::string_view found;
    if (!take('{')) return found;
    while (at_ < text_.size() && text_[at_] != '}') {
      const std::string_view key = value();
      take(':');
      const std::string_view its_value = value();
      if (key.size() >= 2 && key.substr(1, key.size() - 2) == name) found = its_value;
      take(',');
    }
    return found;
  }

 private:
  void skip_space() {
    while (at_ < text_.size() &&
           (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n' || text_[at_] == '\r')) {
      ++at_;
    }
  }

  bool take(char c) {
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    skip_space();
    return true;
  }

  // One value and the space behind it.
  std::string_view value() {
    const size_t begin = at_;
    int depth = 0;
    bool in_string = false;
    for (; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (in_string) {
        if (c == '\\') ++at_;
        in_string = c != '"';
        continue;
      }
      if (c == '"') in_string = true;
      if (depth == 0 && (c == ',' || c == ':' || c == ']' || c == '}')) break;
      if (c == '[' || c == '{') ++depth;
      if (c == ']' || c == '}') --depth;
    }
    size_t end = std::min(at_, text_.size());
    at_ = end;
    while (end > begin && (text_[end - 1] == ' ' || text_[end - 1] == '\t' ||
                           text_[end - 1] == '\n' || text_[end - 1] == '\r')) {
      --end;
    }
    return text_.substr(begin, end - begin);
  }

  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace

Json parse_object(const std::string& body) {
  check_size(body);
  Json json = Json::parse(body, nullptr, false);
  if (json.is_discarded()) throw ApiError(ErrorKind::kInvalidRequest, "the body is no JSON");
  if (!json.is_object()) {
    throw ApiError(ErrorKind::kInvalidRequest, "the body is no JSON object");
  }
  return json;
}

std::string_view raw_member(std::string_view object,
                            std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names) object = RawJson(object).member(name);
  return object;
}

const Json* Fields::find(const char* name) const {
  const auto found = object_.find(name);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

bool Fields::flag(const char* name, bool usual) const {
  const Json* const found = find(name);
  if (found == nullptr) return usual;
  if (!found->is_boolean()) throw_wrong(name, "true or false");
  return found->get<bool>();
}

std::optional<std::string> Fields::text(const char* name) const {
  const Json* const found = find(name);
  if (found == nullptr) return std::nullopt;
  if (!found->is_string()) throw_wrong(name, "a text");
  return found->get<std::string>();
}

std::optional<double> Fields::number(const char* name, double low, double high) const {
  const Json* const found = find(name);
  if (found == nullptr) return std::nullopt;
  const double value = found->is_number() ? found->get<double>() : std::nan("");
  if (!(value >= low && value <= high)) {
    throw_wrong(name, text_of("a number from %g to %g", low, high));
  }
  return value;
}

std::optional<int64_t> Fields::integer(const char* name, int64_t low, int64_t high) const {
  const Json* const found = find(name);
  if (found == nullptr) return std::nullopt;
  int64_t value = 0;
  bool is_valid = found->is_number_integer();
  if (is_valid && found->is_number_unsigned()) {
    is_valid = found->get<uint64_t>() <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  }
  if (is_valid) {
    value = found->get<int64_t>();
  } else if (found->is_number_float()) {  // 8.0, as some programs write 8
    constexpr double kExact = 9007199254740992.0;
    const double real = found->get<double>();
    is_valid = std::fabs(real) <= kExact && real == std::floor(real);
    if (is_valid) value = static_cast<int64_t>(real);
  }
  if (!is_valid || value < low || value > high) {
    throw_wrong(name, text_of("a whole number from %lld to %lld", static_cast<long long>(low),
                              static_cast<long long>(high)));
  }
  return value;
}

const Json* Fields::list(const char* name) const {
  const Json* const found = find(name);
  if (found != nullptr && !found->is_array()) throw_wrong(name, "a list");
  return found;
}

const Json* Fields::object(const char* name) const {
  const Json* const found = find(name);
  if (found != nullptr && !found->is_object()) throw_wrong(name, "an object");
  return found;
}

uint32_t token_id(const Json& json, uint32_t vocab_size, const char* param) {
  const bool is_id =
      json.is_number_integer() && json.get<int64_t>() >= 0 && json.get<uint64_t>() < vocab_size;
  if (is_id) return json.get<uint32_t>();
  throw ApiError(ErrorKind::kInvalidRequest,
                 text_of("%s: a token id is a whole number below %u", param, vocab_size), param);
}

Json shortest(float value) {
  std::array<char, 64> text = {};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  double result = 0.0;
  std::from_chars(text.data(), end, result);
  return result;
}

std::string dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace cria::hosted
