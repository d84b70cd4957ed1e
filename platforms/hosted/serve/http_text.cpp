#include "platforms/hosted/serve/http_text.h"

#include <boost/beast/http/status.hpp>

#include <algorithm>
#include <charconv>

#include "platforms/hosted/base/print_format.h"
#include "platforms/hosted/serve/network_names.h"

namespace cria::hosted {

const char* reason_of(int status) {
  return status == 429 ? "Too Many Requests"
                       : http::obsolete_reason(static_cast<http::status>(status)).data();
}

std::string closing_text(const Reply& reply) {
  std::string text = text_of("HTTP/1.1 %d %s\r\nContent-Type: %s\r\n", reply.status,
                             reason_of(reply.status), reply.content_type.c_str());
  for (const HeaderField& field : reply.headers) text += field.name + ": " + field.value + "\r\n";
  text += text_of("Connection: close\r\nContent-Length: %zu\r\n\r\n", reply.body.size());
  return text + reply.body;
}

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return result;
}

std::optional<std::string> percent_decoded(std::string_view text) {
  constexpr size_t kDigits = 2;
  constexpr int kHex = 16;
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      decoded += text[i];
      continue;
    }
    const std::string_view digits = text.substr(i + 1, kDigits);
    uint8_t byte = 0;
    const char* const end = digits.data() + digits.size();
    const auto [read, error] = std::from_chars(digits.data(), end, byte, kHex);
    if (digits.size() < kDigits || read != end || error != std::errc() || byte == 0) {
      return std::nullopt;
    }
    decoded += static_cast<char>(byte);
    i += kDigits;
  }
  return decoded;
}

std::string decoded_path(std::string_view path) {
  const std::string decoded = percent_decoded(path).value_or(std::string());
  const bool has_escaped =
      std::count(decoded.begin(), decoded.end(), '/') != std::count(path.begin(), path.end(), '/');
  return has_escaped ? std::string() : decoded;
}

std::optional<std::string> decoded_behind(std::string_view prefix, std::string_view path) {
  size_t n = 0;
  for (auto left = std::count(prefix.begin(), prefix.end(), '/'); left > 0; --left) {
    const size_t slash = path.find('/', n);
    if (slash == std::string_view::npos) return std::nullopt;
    n = slash + 1;
  }
  if (decoded_path(path.substr(0, n)) != prefix) return std::nullopt;
  return percent_decoded(path.substr(n));
}

bool query_has(std::string_view query, std::string_view name, std::string_view value) {
  while (!query.empty()) {
    const std::string_view part = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(part.size() + 1, query.size()));
    const size_t equals = std::min(part.find('='), part.size());
    if (percent_decoded(part.substr(0, equals)) == name &&
        percent_decoded(part.substr(std::min(equals + 1, part.size()))) == value) {
      return true;
    }
  }
  return false;
}

}  // namespace cria::hosted
