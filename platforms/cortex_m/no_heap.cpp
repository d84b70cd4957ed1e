// There is no heap: who asks for one ends the program. zstd names malloc, calloc and free in code
// that a context in our memory never reaches, and the linker drops them then
// (tests/firmware/run_firmware.py looks); _sbrk stays, for whatever of the C library would want a
// heap of its own.
#include <cstddef>

#include "platforms/cortex_m/console.h"

namespace {

[[noreturn]] void refuse() { cria::cortex_m::fail("the heap was asked for memory"); }

}  // namespace

extern "C" {

void* _sbrk(ptrdiff_t /*n_bytes*/) { refuse(); }
void* malloc(size_t /*n_bytes*/) { refuse(); }
void* calloc(size_t /*n*/, size_t /*n_bytes*/) { refuse(); }
void* realloc(void* /*memory*/, size_t /*n_bytes*/) { refuse(); }
void free(void* memory) {
  if (memory != nullptr) cria::cortex_m::fail("memory was given back to a heap");
}
[[noreturn]] void abort() { cria::cortex_m::fail("abort was called"); }
}
