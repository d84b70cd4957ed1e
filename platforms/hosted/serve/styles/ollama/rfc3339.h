// Times as Ollama has them.
#pragma once

#include <cstdint>
#include <string>

namespace cria::hosted {

// "2026-11-28T12:23:59.123456789Z", of nanoseconds since 1970, not before it.
std::string rfc3339(int64_t unix_ns);

int64_t ns_of(double seconds);

}  // namespace cria::hosted
