#include "tests/support/guarded_source.h"

#include <cstring>

#include "quant/format/align.h"
#include "quant/format/format.h"

#ifdef CRIA_TEST_ADDRESS_SANITIZER
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, n_bytes) static_cast<void>(n_bytes)
#define ASAN_UNPOISON_MEMORY_REGION(address, n_bytes) static_cast<void>(n_bytes)
#endif

namespace cria::test {
namespace {

const void* map_bytes(void* context, uint64_t offset, size_t /*n_bytes*/) {
  return static_cast<const uint8_t*>(context) + offset;
}

int read_bytes(void* context, uint64_t offset, void* destination, size_t n_bytes) {
  std::memcpy(destination, static_cast<const uint8_t*>(context) + offset, n_bytes);
  return 0;
}

}  // namespace

GuardedSource::GuardedSource(std::span<const uint8_t> bytes, uint64_t n_bytes, Access access)
    : pages_(aligned(static_cast<size_t>(n_bytes)) + format::kAlignment) {
  const auto n = static_cast<size_t>(n_bytes);
  auto* const place = pages_.place<uint8_t>(aligned(n), Edge::kEnd);
  if (n != 0) std::memcpy(place, bytes.data(), n);
  end_ = place + n;
  slack_ = aligned(n) - n;
  ASAN_POISON_MEMORY_REGION(end_, slack_);
  source_ = {place, n_bytes, access != Access::kRead ? map_bytes : nullptr,
             access != Access::kMap ? read_bytes : nullptr};
}

GuardedSource::~GuardedSource() { ASAN_UNPOISON_MEMORY_REGION(end_, slack_); }

}  // namespace cria::test
