#include "platforms/hosted/serve/guard.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "platforms/hosted/base/print_format.h"
#include "platforms/hosted/base/program_error.h"
#include "platforms/hosted/serve/api_error.h"
#include "platforms/hosted/serve/http_server.h"
#include "platforms/hosted/serve/http_text.h"

namespace cria::hosted {
namespace {

// The rest of a header is for the request's other fields.
constexpr size_t kMostKeyBytes = HttpLimits().header_bytes / 2;

bool is_port(std::string_view text) {
  constexpr size_t kMostDigits = 5;
  return !text.empty() && text.size() <= kMostDigits &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// "name", "name:port", "[address]" or "[address]:port" without port and brackets; empty for what is
// none of those.
std::string name_of(std::string_view host) {
  if (host.starts_with('[')) {
    const size_t end = host.find(']');
    if (end == std::string_view::npos) return {};
    const std::string_view rest = host.substr(end + 1);
    if (!rest.empty() && (rest[0] != ':' || !is_port(rest.substr(1)))) return {};
    return lower(host.substr(1, end - 1));
  }
  const size_t colon = host.find(':');
  if (colon != std::string_view::npos && !is_port(host.substr(colon + 1))) return {};
  const std::string_view name = host.substr(0, colon);
  const bool is_name = !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' ||
           c == '.' || c == '_';
  });
  return is_name ? lower(name) : std::string();
}

// 127.0.0.0/8 in its usual form, and ::1.
bool is_loopback(const std::string& name) {
  in_addr v4 = {};
  if (::inet_pton(AF_INET, name.c_str(), &v4) == 1) return (ntohl(v4.s_addr) >> 24) == 127;
  in6_addr v6 = {};
  return ::inet_pton(AF_INET6, name.c_str(), &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

bool same_address(const std::string& a, const std::string& b) {
  in6_addr x = {};
  in6_addr y = {};
  if (::inet_pton(AF_INET6, a.c_str(), &x) == 1 && ::inet_pton(AF_INET6, b.c_str(), &y) == 1) {
    return std::equal(std::begin(x.s6_addr), std::end(x.s6_addr), std::begin(y.s6_addr));
  }
  return a == b;
}

constexpr std::string_view kSchemeEnd = "://";

std::string_view host_of_origin(std::string_view origin) {
  return origin.substr(origin.find(kSchemeEnd) + kSchemeEnd.size());
}

// Takes as long for every text of one length, however much of it is right.
bool is_same_secret(std::string_view given, std::string_view key) {
  volatile uint8_t difference = given.size() == key.size() ? 0 : 1;
  for (size_t i = 0; i < given.size(); ++i) {
    const char other = key.empty() ? '\0' : key[i % key.size()];
    difference = static_cast<uint8_t>(difference | static_cast<uint8_t>(given[i] ^ other));
  }
  return difference == 0;
}

// Of "Authorization: Bearer KEY".
std::string_view bearer_key(const std::string& authorization) {
  constexpr std::string_view kScheme = "bearer ";
  if (lower(std::string_view(authorization).substr(0, kScheme.size())) != kScheme) return {};
  std::string_view key = std::string_view(authorization).substr(kScheme.size());
  while (key.starts_with(' ')) key.remove_prefix(1);
  return key;
}

}  // namespace

bool is_origin(std::string_view text) {
  const size_t end = text.find(kSchemeEnd);
  if (end == 0 || end == std::string_view::npos || text != lower(text)) return false;
  const std::string_view scheme = text.substr(0, end);
  const bool is_scheme = std::all_of(scheme.begin(), scheme.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '+' || c == '-' || c == '.';
  });
  return is_scheme && !name_of(host_of_origin(text)).empty();
}

std::vector<std::string> keys_of(std::string_view text, const std::string& path) {
  std::vector<std::string> keys;
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);  // some editors' mark of UTF-8
  size_t n_lines = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view line = text.substr(begin, end - begin);
    begin = end + 1;
    ++n_lines;
    while (line.ends_with('\r') || line.ends_with(' ') || line.ends_with('\t')) {
      line.remove_suffix(1);
    }
    while (line.starts_with(' ') || line.starts_with('\t')) line.remove_prefix(1);
    if (line.empty()) continue;
    const bool fits_header =
        std::all_of(line.begin(), line.end(), [](char c) { return c > ' ' && c < 0x7f; });
    if (line.size() > kMostKeyBytes) {
      throw ProgramError(ExitCode::kInvalidInput,
                         text_of("%s: line %zu is longer than the %zu bytes that a key can have",
                                 path.c_str(), n_lines, kMostKeyBytes));
    }
    if (!fits_header) {
      throw ProgramError(ExitCode::kInvalidInput,
                         path + ": line " + std::to_string(n_lines) +
                             " has a character that no key can have; use printable ASCII");
    }
    keys.emplace_back(line);
  }
  if (keys.empty()) {
    throw ProgramError(ExitCode::kInvalidInput, path + ": holds no key; write one a line");
  }
  return keys;
}

Guard::Guard(GuardOptions options) : options_(std::move(options)) {
  is_open_ = options_.host == "0.0.0.0" || options_.host == "::";
  names_.push_back(lower(options_.host));
  for (const std::string& origin : options_.origins) {
    names_.push_back(name_of(host_of_origin(origin)));
  }
}

bool Guard::is_known_host(const RequestHead& head, const std::string& host) const {
  const std::string name = name_of(host);
  if (name.empty()) return false;
  if (name == "localhost" || is_loopback(name)) return true;
  if (is_open_ && same_address(name, head.local_address)) return true;
  return std::any_of(names_.begin(), names_.end(),
                     [&name](const std::string& each) { return same_address(name, each); });
}

bool Guard::is_listed(const RequestHead& head) const {
  return head.has_origin && std::find(options_.origins.begin(), options_.origins.end(),
                                      head.origin) != options_.origins.end();
}

bool Guard::is_known_origin(const RequestHead& head) const {
  if (!head.has_origin || is_listed(head)) return true;
  const std::string host = lower(head.host);
  return lower(head.origin) == "http://" + host;
}

void Guard::check_site(const RequestHead& head) const {
  if (!is_known_host(head, head.host) ||
      (!head.authority.empty() && !is_known_host(head, head.authority))) {
    throw ApiError(ErrorKind::kPermission,
                   "this server does not answer to the name in Host; --allow-origin adds one");
  }
  if (!is_known_origin(head)) {
    throw ApiError(ErrorKind::kPermission,
                   "pages of this Origin may not use this server; --allow-origin adds one");
  }
}

void Guard::check_key(const RequestHead& head) const {
  if (options_.keys.empty()) return;
  const std::string_view bearer = bearer_key(head.authorization);
  bool is_right = false;
  for (const std::string& key : options_.keys) {
    const bool is_bearer = is_same_secret(bearer, key);
    const bool is_header = is_same_secret(head.api_key, key);
    is_right = is_right || is_bearer || is_header;
  }
  if (is_right) return;
  throw ApiError(ErrorKind::kAuthentication,
                 "the API key is missing or wrong; send it as Authorization: Bearer KEY");
}

std::vector<HeaderField> Guard::cross_origin_headers(const RequestHead& head) const {
  if (options_.origins.empty()) return {};
  std::vector<HeaderField> fields = {{"Vary", "Origin"}};
  const auto found = std::find(options_.origins.begin(), options_.origins.end(), head.origin);
  if (!head.has_origin || found == options_.origins.end()) return fields;
  fields.push_back({"Access-Control-Allow-Origin", *found});
  if (head.method == "OPTIONS") {
    fields.push_back({"Access-Control-Allow-Methods", "GET, POST, OPTIONS"});
    fields.push_back({"Access-Control-Allow-Headers", "Authorization, Content-Type, X-Api-Key, *"});
    fields.push_back({"Access-Control-Max-Age", "600"});
  }
  return fields;
}

}  // namespace cria::hosted
