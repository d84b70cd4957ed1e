// Changes model files and makes every checksum hold again: what a hostile author would do.
#pragma once

#include <cstdint>
#include <span>

#include "quant/format/format.h"

namespace cria::test {

// Sections of a model file that is (or was) valid; empty span: absent.
[[nodiscard]] std::span<uint8_t> section_bytes(std::span<uint8_t> file, format::SectionKind kind);
// Recomputes the checksums of chunks, sections and header. Entries that point outside the file are
// left as they are, and so is a file without room for a header.
void mend_checksums(std::span<uint8_t> file);
// Lets all layers of a valid model look back so many positions; 0: to all. The checksums hold.
void set_sliding_window(std::span<uint8_t> file, uint32_t window);

}  // namespace cria::test
