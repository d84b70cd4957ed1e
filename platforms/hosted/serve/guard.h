// Who may ask: the names that the server answers to, the pages that may use it, and the keys.
//
// A page that anybody opens can have its own name resolve to this machine, and sends requests here
// with the reader's browser. Such a request says so: Host has the page's name, Origin its site.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "platforms/hosted/serve/http_types.h"

namespace cria::hosted {

struct GuardOptions {
  std::string host;                  // that the server listens on: an address or "localhost"
  std::vector<std::string> origins;  // "https://chat.example", as is_origin has them
  std::vector<std::string> keys;     // none: nobody needs one
};

// Whether text is scheme://host or scheme://host:port and nothing else, in lower case.
bool is_origin(std::string_view text);

// Keys of a file's text, a line each. Throws ProgramError kInvalidInput, naming path, where there
// is none or one cannot stand in a header.
std::vector<std::string> keys_of(std::string_view text, const std::string& path);

class Guard {
 public:
  explicit Guard(GuardOptions options);

  // Throws ApiError kPermission.
  void check_site(const RequestHead& head) const;
  // Throws ApiError kAuthentication.
  void check_key(const RequestHead& head) const;
  // Of a reply to an allowed origin; nothing for others.
  [[nodiscard]] std::vector<HeaderField> cross_origin_headers(const RequestHead& head) const;

 private:
  [[nodiscard]] bool is_known_host(const RequestHead& head, const std::string& host) const;
  [[nodiscard]] bool is_known_origin(const RequestHead& head) const;
  [[nodiscard]] bool is_listed(const RequestHead& head) const;

  GuardOptions options_;
  std::vector<std::string> names_;  // of hosts, without ports and brackets
  bool is_open_;                    // listens on every address
};

}  // namespace cria::hosted
