#include "platforms/hosted/chat/json_fault.h"

#include <nlohmann/json.hpp>

#include "platforms/hosted/base/json_source.h"
#include "platforms/hosted/base/print_format.h"

namespace cria::hosted {
namespace {

using Json = nlohmann::json;

// Takes everything; keeps what is told of an error.
struct Listener final : nlohmann::json_sax<Json> {
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(size_t) override { return true; }
  bool key(string_t&) override { return true; }
  bool end_object() override { return true; }
  bool start_array(size_t) override { return true; }
  bool end_array() override { return true; }
  bool parse_error(size_t n_bytes, const std::string&, const Json::exception& error) override {
    fault = json_fault(n_bytes, error);
    return false;
  }
  std::string fault;
};

}  // namespace

std::string json_fault(size_t n_bytes, const std::exception& error) {
  if (dynamic_cast<const Json::out_of_range*>(&error) != nullptr) {
    return text_of("the number that ends at byte %zu is larger than any double", n_bytes);
  }
  if (std::string_view(error.what()).find("surrogate") != std::string_view::npos) {
    return text_of("the escape that ends at byte %zu is a surrogate without its other half",
                   n_bytes);
  }
  return text_of("the error ends at byte %zu", n_bytes);
}

std::string json_fault(std::string_view bytes) {
  const JsonSource source = json_source(bytes);
  if (source.end_of_wrong != 0) return text_of("the error ends at byte %zu", source.end_of_wrong);
  Listener listener;
  Json::sax_parse(source.text, &listener);
  return listener.fault;
}

}  // namespace cria::hosted
