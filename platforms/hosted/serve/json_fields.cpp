#include "platforms/hosted/serve/json_fields.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "platforms/hosted/base/json_source.h"
#include "platforms/hosted/base/print_format.h"
#include "platforms/hosted/base/shown_text.h"
#include "platforms/hosted/chat/json_fault.h"
#include "platforms/hosted/serve/api_error.h"
#include "platforms/hosted/serve/parsed_json.h"

namespace cria::hosted {
namespace {

constexpr int kMaxDepth = 128;                    // a schema may have 64
constexpr size_t kMaxValues = size_t{1} << 16;    // but for token ids: of messages, schema, biases
constexpr size_t kMaxTokenIds = size_t{1} << 19;  // of prompts, or to detokenize

// Those that are lists of token ids, or of such lists.
constexpr std::array<std::string_view, 4> kIdLists = {"content", "input", "prompt", "tokens"};

// Leaves nothing whose destructor allocates.
void take_apart(Json* json) noexcept {
  if (json->is_array()) {
    auto& list = json->get_ref<Json::array_t&>();
    for (; !list.empty(); list.pop_back()) take_apart(&list.back());
  } else if (json->is_object()) {
    auto& members = json->get_ref<Json::object_t&>();
    while (!members.empty()) {
      take_apart(&members.begin()->second);
      members.erase(members.begin());
    }
  }
}

[[noreturn]] void throw_no_json(const std::string& fault) {
  throw ApiError(ErrorKind::kInvalidRequest, "the body is not JSON; " + fault);
}

// Builds what the parser tells, within the limits.
class Builder {
 public:
  explicit Builder(Json* root) : root_(root) { open_.reserve(kMaxDepth); }

  // The parser's names.
  bool null() { return put({}); }
  bool boolean(bool value) { return put(value); }
  bool number_integer(int64_t value) { return put(value); }
  bool number_unsigned(uint64_t value) { return put(value); }
  bool number_float(double value, const std::string&) { return put(value); }
  bool string(std::string& value) { return is_dropped_ || put(std::move(value)); }
  bool binary(Json::binary_t&) { return false; }
  bool start_object(size_t) { return open(Json::value_t::object); }
  bool start_array(size_t) { return open(Json::value_t::array); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }
  bool key(std::string& name) {
    if (depth_ == 1) {
      member_.assign(name, 0, kShownBytes);
      is_dropped_ = !is_request_member(name);
      has_ids_ = std::find(kIdLists.begin(), kIdLists.end(), name) != kIdLists.end();
    }
    if (is_dropped_) return true;
    place_ = &(*open_.back())[name];
    take_apart(place_);  // one that is there twice
    return true;
  }
  bool parse_error(size_t n_bytes, const std::string&, const std::exception& error) {
    const std::string fault = json_fault(n_bytes, error);
    if (dynamic_cast<const Json::out_of_range*>(&error) == nullptr) throw_no_json(fault);
    if (depth_ == 0) throw_no_object();
    throw ApiError(ErrorKind::kInvalidRequest, shown(member_) + ": " + fault, member_);
  }

 private:
  static constexpr size_t kShownBytes = 64;

  bool put(Json value) {
    if (depth_ == 0) throw_no_object();
    if (!is_dropped_) add(std::move(value));
    return true;
  }

  bool open(Json::value_t kind) {
    if (depth_ == 0 && kind != Json::value_t::object) throw_no_object();
    if (++depth_ > kMaxDepth) {
      throw ApiError(ErrorKind::kInvalidRequest, "the JSON is nested too deep");
    }
    if (!is_dropped_) open_.push_back(add(Json(kind)));
    return true;
  }

  bool close() {
    --depth_;
    if (!is_dropped_ || depth_ == 0) open_.pop_back();
    return true;
  }

  Json* add(Json value) {
    const bool is_id = has_ids_ && value.is_number();
    size_t* const count = is_id ? &n_ids_ : &n_values_;
    const size_t most = is_id ? kMaxTokenIds : kMaxValues;
    if (++*count > most) {
      throw ApiError(ErrorKind::kTooLarge, text_of("the JSON has more than %zu %s", most,
                                                   is_id ? "token ids" : "values"));
    }
    Json* place = open_.empty() ? root_ : place_;
    if (!open_.empty() && open_.back()->is_array()) {
      auto& list = open_.back()->get_ref<Json::array_t&>();
      list.emplace_back();
      place = &list.back();
    }
    *place = std::move(value);
    return place;
  }

  [[noreturn]] static void throw_no_object() {
    throw ApiError(ErrorKind::kInvalidRequest, "the body is not a JSON object");
  }

  Json* root_;
  std::vector<Json*> open_;  // what is being built, and what it is in
  Json* place_ = nullptr;    // of the member whose name was told last
  std::string member_;       // of the root, or how its name begins
  int depth_ = 0;
  bool is_dropped_ = false;  // the member of the root that is being told
  bool has_ids_ = false;     // it
  size_t n_values_ = 0;
  size_t n_ids_ = 0;
};

[[noreturn]] void throw_wrong(const char* name, const std::string& wanted) {
  throw ApiError(ErrorKind::kInvalidRequest, std::string(name) + " must be " + wanted, name);
}

}  // namespace

std::optional<int64_t> whole_number(const Json& json) {
  if (json.is_number_unsigned()) {
    const auto value = json.get<uint64_t>();
    if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return std::nullopt;
    return static_cast<int64_t>(value);
  }
  if (json.is_number_integer()) return json.get<int64_t>();
  if (!json.is_number_float()) return std::nullopt;
  constexpr double kExact = 9007199254740992.0;
  const double real = json.get<double>();
  if (!(std::fabs(real) <= kExact) || real != std::floor(real)) return std::nullopt;
  return static_cast<int64_t>(real);
}

ParsedJson::~ParsedJson() { take_apart(&json); }

ParsedJson parse_object(const std::string& body) {
  const JsonSource source = json_source(body);
  if (source.end_of_wrong != 0) {
    throw_no_json(text_of("the error ends at byte %zu", source.end_of_wrong));
  }
  ParsedJson parsed;
  Builder builder(&parsed.json);
  Json::sax_parse(source.text, &builder);
  return parsed;
}

template <typename Name>
const Json* BasicFields<Name>::find(Name name) const {
  const auto found = object_.find(static_cast<const char*>(name));
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

template <typename Name>
bool BasicFields<Name>::flag(Name name, bool usual) const {
  const Json* const found = find(name);
  if (found == nullptr) return usual;
  if (!found->is_boolean()) throw_wrong(name, "true or false");
  return found->get<bool>();
}

template <typename Name>
std::optional<std::string> BasicFields<Name>::text(Name name) const {
  const Json* const found = find(name);
  if (found == nullptr) return std::nullopt;
  if (!found->is_string()) throw_wrong(name, "a text");
  return found->get<std::string>();
}

template <typename Name>
std::optional<double> BasicFields<Name>::number(Name name, double low, double high) const {
  const Json* const found = find(name);
  if (found == nullptr) return std::nullopt;
  const double value = found->is_number() ? found->get<double>() : std::nan("");
  if (!(value >= low && value <= high)) {
    throw_wrong(name, text_of("a number from %g to %g", low, high));
  }
  return value;
}

template <typename Name>
std::optional<int64_t> BasicFields<Name>::integer(Name name, int64_t low, int64_t high) const {
  const Json* const found = find(name);
  if (found == nullptr) return std::nullopt;
  const std::optional<int64_t> value = whole_number(*found);
  if (!value || *value < low || *value > high) {
    throw_wrong(name, text_of("a whole number from %lld to %lld", static_cast<long long>(low),
                              static_cast<long long>(high)));
  }
  return value;
}

template <typename Name>
const Json* BasicFields<Name>::list(Name name) const {
  const Json* const found = find(name);
  if (found != nullptr && !found->is_array()) throw_wrong(name, "a list");
  return found;
}

template <typename Name>
const Json* BasicFields<Name>::object(Name name) const {
  const Json* const found = find(name);
  if (found != nullptr && !found->is_object()) throw_wrong(name, "an object");
  return found;
}

template class BasicFields<MemberName>;
template class BasicFields<const char*>;

void check_text_bytes(const Json& json, size_t most, const char* param) {
  size_t n_left = most;
  const auto count = [&](const auto& self, const Json& each) -> void {
    if (each.is_string()) {
      const size_t n_bytes = each.get_ref<const std::string&>().size();
      if (n_bytes > n_left) {
        throw ApiError(
            ErrorKind::kInvalidRequest,
            text_of("%s: the texts of a request have at most %zu bytes together", param, most),
            param);
      }
      n_left -= n_bytes;
    }
    if (!each.is_structured()) return;
    for (const Json& part : each) self(self, part);
  };
  count(count, json);
}

uint32_t token_id(const Json& json, uint32_t vocab_size, const char* param) {
  const std::optional<int64_t> id = whole_number(json);
  if (id && *id >= 0 && *id < int64_t{vocab_size}) return static_cast<uint32_t>(*id);
  throw ApiError(ErrorKind::kInvalidRequest,
                 text_of("%s: a token id is a whole number below %u", param, vocab_size), param);
}

}  // namespace cria::hosted
