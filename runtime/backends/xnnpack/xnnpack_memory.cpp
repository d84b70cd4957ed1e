#include "runtime/backends/xnnpack/xnnpack_memory.h"

#include <xnnpack.h>

#include <limits>

#include "quant/format/align.h"
#include "runtime/base/assert.h"

namespace cria::xnnpack {
namespace {

// The one variable of the runtime outside a session: XNNPACK's allocator functions get nothing that
// names one. It is set only inside RegionScope, and a thread has its own. The model "initial-exec"
// spares the call into the C library that finding a thread's variable otherwise takes.
[[gnu::tls_model("initial-exec")]] constinit thread_local Region* current_region = nullptr;

void* allocate(void* /*context*/, size_t n_bytes) {
  return current_region != nullptr ? take(current_region, n_bytes) : nullptr;
}

// The operators used here never grow a block.
void* reallocate(void* /*context*/, void* /*block*/, size_t /*n_bytes*/) { return nullptr; }

void deallocate(void* /*context*/, void* /*block*/) {}

void* aligned_allocate(void* context, size_t alignment, size_t n_bytes) {
  return alignment <= format::kAlignment ? allocate(context, n_bytes) : nullptr;
}

constexpr xnn_allocator kAllocator = {.context = nullptr,
                                      .allocate = allocate,
                                      .reallocate = reallocate,
                                      .deallocate = deallocate,
                                      .aligned_allocate = aligned_allocate,
                                      .aligned_deallocate = deallocate};

// Whether XNNPACK asks us for memory: it keeps the allocator it was given first.
bool is_our_allocator() {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kWeight = 1.0f;
  Region nothing = {};
  const RegionScope scope(&nothing);
  xnn_operator_t created = nullptr;
  if (xnn_create_fully_connected_nc_f32(1, 1, 1, 1, &kWeight, nullptr, -kInfinity, kInfinity, 0,
                                        nullptr, nullptr, &created) == xnn_status_success) {
    xnn_delete_operator(created);
    return false;
  }
  return nothing.n_asked != 0;
}

}  // namespace

uint8_t* take(Region* region, size_t n_bytes) {
  const uint64_t start = region->used;
  region->used += aligned(n_bytes);
  region->n_asked += 1;
  const bool fits = region->n_asked <= region->n_allowed && region->used <= region->capacity;
  return fits ? region->base + start : nullptr;
}

RegionScope::RegionScope(Region* region) {
  CRIA_ASSERT(current_region == nullptr);
  current_region = region;
}

RegionScope::~RegionScope() { current_region = nullptr; }

Status initialize() {
  if (xnn_initialize(&kAllocator) != xnn_status_success) return Status::kUnsupported;
  return is_our_allocator() ? Status::kOk : Status::kUnsupported;
}

}  // namespace cria::xnnpack
