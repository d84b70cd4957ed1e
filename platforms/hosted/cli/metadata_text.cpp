#include "platforms/hosted/cli/metadata_text.h"

#include <cstdint>

#include "platforms/hosted/base/print_format.h"
#include "platforms/hosted/session/status_error.h"

namespace cria::hosted {
namespace {

constexpr size_t kLevels = 2;  // containers whose members stand on lines of their own
constexpr size_t kIndent = 2;

// Copies the string that begins at json[i] with its quotation marks; returns where it ends.
size_t copy_string(std::string_view json, size_t i, std::string* out) {
  constexpr uint8_t kDelete = 0x7f;
  constexpr uint8_t kC1Lead = 0xc2;  // first byte of U+0080..U+00BF
  constexpr uint8_t kC1End = 0xa0;
  *out += json[i++];
  while (i < json.size()) {
    const auto byte = static_cast<uint8_t>(json[i]);
    const auto next = i + 1 < json.size() ? static_cast<uint8_t>(json[i + 1]) : uint8_t{0};
    if (byte == kDelete) {
      *out += text_of("\\u%04x", unsigned{byte});
    } else if (byte == kC1Lead && next < kC1End) {
      *out += text_of("\\u%04x", unsigned{next});
      ++i;
    } else {
      *out += json[i];
      if (byte == '"') return i + 1;
      if (byte == '\\' && i + 1 < json.size()) *out += json[++i];
    }
    ++i;
  }
  return i;
}

}  // namespace

std::string read_metadata(const cria_source& source, const cria_model_info& info,
                          const std::string& path) {
  std::string text(static_cast<size_t>(info.metadata_bytes), '\0');
  check_status(cria_read_metadata(&source, &info, text.data(), text.size()), path + ": metadata");
  return text;
}

std::string indented_json(std::string_view json) {
  std::string out;
  size_t depth = 0;
  bool just_opened = false;
  const auto new_line = [&] {
    out += '\n';
    // The object around it is one level already.
    out.append((depth + 1) * kIndent, ' ');
  };
  for (size_t i = 0; i < json.size();) {
    const char c = json[i];
    if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
      ++i;
      continue;
    }
    if (c == ']' || c == '}') {
      --depth;
      if (!just_opened && depth < kLevels) new_line();
      just_opened = false;
      out += c;
      ++i;
      continue;
    }
    if (just_opened && depth <= kLevels) new_line();
    just_opened = false;
    if (c == '"') {
      i = copy_string(json, i, &out);
      continue;
    }
    out += c;
    ++i;
    if (c == '[' || c == '{') {
      ++depth;
      just_opened = true;
    } else if (c == ',') {
      if (depth <= kLevels) {
        new_line();
      } else {
        out += ' ';
      }
    } else if (c == ':') {
      out += ' ';
    }
  }
  return out;
}

}  // namespace cria::hosted
