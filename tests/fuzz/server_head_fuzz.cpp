// Host, Origin and keys of a request to the server, by anybody.
//
// Input: four lines: Host, Origin, Authorization, X-Api-Key.
#include <string>

#include "platforms/hosted/serve/api_error.h"
#include "platforms/hosted/serve/guard.h"
#include "tests/fuzz/fuzz_target.h"

namespace cria::fuzz {
namespace {

std::string lower(std::string text) {
  for (char& c : text) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return text;
}

}  // namespace

int fuzz_one(const uint8_t* data, size_t size) {
  using namespace hosted;
  std::string rest(reinterpret_cast<const char*>(data), size);
  const auto line = [&rest] {
    const size_t end = std::min(rest.find('\n'), rest.size());
    std::string text = rest.substr(0, end);
    rest.erase(0, std::min(end + 1, rest.size()));
    return text;
  };
  RequestHead head;
  head.method = "GET";
  head.host = line();
  head.origin = line();
  head.has_origin = !head.origin.empty();
  head.authorization = line();
  head.api_key = line();
  head.local_address = "127.0.0.1";
  const Guard guard(
      {.host = "127.0.0.1", .origins = {"https://chat.example"}, .keys = {"key-one", "key-two"}});
  bool is_let_in = true;
  try {
    guard.check_site(head);
  } catch (const ApiError&) {
    is_let_in = false;
  }
  if (is_let_in) {
    const std::string host = lower(head.host);
    const bool is_this_machine = host.starts_with("localhost") || host.starts_with("127.") ||
                                 host.starts_with("chat.example") || host.starts_with("[");
    expect(is_this_machine, "only names of this machine are answered to");
    const std::string origin = lower(head.origin);
    expect(!head.has_origin || origin == "https://chat.example" || origin == "http://" + host,
           "only pages of this server and of listed sites may ask");
  }
  for (const HeaderField& field : guard.cross_origin_headers(head)) {
    expect(field.value.find_first_of("\r\n") == std::string::npos, "no header splits");
  }
  try {
    guard.check_key(head);
    const auto has_key = [&](const std::string& key) {
      return head.api_key == key || head.authorization.ends_with(" " + key);
    };
    expect(has_key("key-one") || has_key("key-two"), "only a key opens");
  } catch (const ApiError&) {
  }
  return 0;
}

}  // namespace cria::fuzz
