#include "platforms/hosted/base/json_source.h"

namespace cria::hosted {

JsonSource json_source(std::string_view bytes) {
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  if (bytes.starts_with(kByteOrderMark)) bytes.remove_prefix(kByteOrderMark.size());
  if (bytes.starts_with(kByteOrderMark)) return {bytes, kByteOrderMark.size()};
  const size_t nul = bytes.find('\0');
  return {bytes, nul == std::string_view::npos ? 0 : nul + 1};
}

}  // namespace cria::hosted
