#include "platforms/hosted/base/shown_text.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "platforms/hosted/base/control_filter.h"

namespace cria::hosted {
namespace {

std::string filtered(std::string_view text, Invisible invisible) {
  std::string result;
  result.reserve(text.size());
  ControlFilter filter(invisible);
  char piece[ControlFilter::kMostBytes];
  for (const char byte : text) result.append(piece, filter.feed(byte, piece));
  result.append(piece, filter.finish(piece));
  return result;
}

}  // namespace

std::string without_controls(std::string_view text) { return filtered(text, Invisible::kKept); }

std::string printable(std::string_view text) {
  std::string line = filtered(text, Invisible::kReplaced);
  std::replace(line.begin(), line.end(), '\n', '?');
  std::replace(line.begin(), line.end(), '\t', '?');
  return line;
}

std::string shown(std::string_view text) {
  constexpr size_t kShownBytes = 80;
  constexpr uint8_t kContinuationMask = 0xc0;
  constexpr uint8_t kContinuation = 0x80;
  if (text.size() <= kShownBytes) return printable(text);
  size_t end = kShownBytes;
  while (end > 0 && (static_cast<uint8_t>(text[end]) & kContinuationMask) == kContinuation) --end;
  return printable(text.substr(0, end)) + "...";
}

}  // namespace cria::hosted
