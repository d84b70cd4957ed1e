// Counts as Prometheus reads them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "platforms/hosted/engine/engine.h"

namespace cria::hosted {

std::string metrics_text(const EngineCounts& counts, size_t n_sessions, uint64_t memory_bytes,
                         uint64_t n_dropped_lines);

}  // namespace cria::hosted
