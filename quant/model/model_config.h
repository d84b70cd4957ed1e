// A config section as its readers see it, and its rules: docs/model_format.md, part 1.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "quant/format/format.h"

namespace cria {

// A view of a config section. Whoever has read the section owns the bytes.
struct Config {
  const format::ModelScalars* model = nullptr;
  std::span<const format::LayerKind> kinds;
  std::span<const uint8_t> layers;  // the kind of each
  std::span<const format::MatrixCount> counts;

  [[nodiscard]] const format::LayerKind& kind_of(size_t layer) const {
    return kinds[layers[layer]];
  }
};

// A section's bytes, for views of them.
struct ConfigBytes {
  alignas(8) uint8_t bytes[format::kMaxConfigBytes];
};

// Makes a view of a section, whose bytes are aligned to 8. Returns why it is refused: the text
// names the field; nullptr when each is within the format's limits, so that all that follows from a
// Config may be computed.
[[nodiscard]] const char* read_config(std::span<const uint8_t> section, Config* config);
// What is returned for a section that may hold, but has blocks that this build leaves out, or
// number formats that no build knows yet.
inline constexpr char kLeftOut[] = "what this build leaves out";

// The same of parts that are as long as the scalars say.
[[nodiscard]] const char* check_config(const Config& config);

// Bytes of the section that the three counts ask for.
[[nodiscard]] uint64_t config_bytes(const format::ModelScalars& model);

// Puts the parts together; n_layers, n_kinds and n_counts of the scalars are those of the parts.
// Returns the section's bytes, 0 where they would be more than kMaxConfigBytes. Checks nothing.
[[nodiscard]] size_t write_config(const Config& parts, ConfigBytes* section);

// Moves a section, which a view is of whole, to where it is aligned to 8.
[[nodiscard]] Config move_section(const Config& from, uint8_t* to);

// A view of what write_config has written.
[[nodiscard]] Config view_config(const ConfigBytes& section);

[[nodiscard]] inline bool has_flag(const format::LayerKind& kind, uint32_t flag) {
  return (kind.flags & flag) != 0;
}
[[nodiscard]] inline bool has_flag(const Config& config, uint32_t flag) {
  return (config.model->flags & flag) != 0;
}

}  // namespace cria
