// The body of a request to the server, by anybody: read, or refused with an error of the API.
#include <nlohmann/json.hpp>
#include <string>

#include "platforms/hosted/serve/answer_order.h"
#include "platforms/hosted/serve/api_error.h"
#include "platforms/hosted/serve/json_fields.h"
#include "tests/fuzz/fuzz_target.h"

namespace cria::fuzz {
namespace {

using hosted::ApiError;
using hosted::Json;

template <typename Read>
void read_or_refuse(Read read) {
  try {
    read();
  } catch (const ApiError& error) {
    const Json told = Json::parse(error.json(), nullptr, false);
    expect(!told.is_discarded() && told["error"]["message"].is_string(), "an error is JSON");
    expect(error.http_status() == 400 || error.http_status() == 413, "the client is to blame");
  }
}

}  // namespace

int fuzz_one(const uint8_t* data, size_t size) {
  const std::string body(reinterpret_cast<const char*>(data), size);
  read_or_refuse([&] {
    const hosted::ParsedJson parsed = hosted::parse_object(body);
    const Json& request = parsed.json;
    for (const auto& [name, value] : request.items()) {
      const std::string_view raw = hosted::raw_member(body, {name});
      // A name that was written with escapes is not found.
      if (raw.empty()) continue;
      const Json again = Json::parse(raw, nullptr, false);
      expect(!again.is_discarded(), "a member's text is JSON");
      const bool has_escapes = body.find('\\') != std::string::npos;
      expect(again == value || has_escapes, "a member's text is its value");
    }
    const hosted::Fields fields(request);
    read_or_refuse([&] { (void)hosted::chat_messages(request); });
    for (const char* name : {"a", "n", "seed", "stream", "temperature"}) {
      read_or_refuse([&] { (void)fields.integer(name, -1, 100); });
      read_or_refuse([&] { (void)fields.number(name, 0.0, 1.0); });
      read_or_refuse([&] { (void)fields.flag(name, false); });
      read_or_refuse([&] { (void)fields.text(name); });
    }
  });
  return 0;
}

}  // namespace cria::fuzz
