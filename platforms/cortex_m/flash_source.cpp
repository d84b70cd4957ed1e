#include "platforms/cortex_m/model_bytes.h"

namespace cria::cortex_m {
namespace {

const void* map(void* context, uint64_t offset, size_t n_bytes) {
  const auto& bytes = *static_cast<const std::span<const uint8_t>*>(context);
  if (offset > bytes.size() || n_bytes > bytes.size() - offset) return nullptr;
  return bytes.data() + offset;
}

}  // namespace

cria_source flash_source(const std::span<const uint8_t>* bytes) {
  cria_source source = {};
  source.context = const_cast<std::span<const uint8_t>*>(bytes);  // only read
  source.size = bytes->size();
  source.map = map;
  return source;
}

}  // namespace cria::cortex_m
