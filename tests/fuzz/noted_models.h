// Keeps what inputs make for machines that run no fuzz target: with CRIA_FUZZ_NOTES naming a
// folder, model files and states go there, with the status that the host's library gives them
// (tests/firmware/run_firmware.py). Without it nothing happens.
#pragma once

#include <cstdint>
#include <span>

#include <cria.h>

namespace cria::fuzz {

// A model file, good or bad, where a session over it is small enough for the board's memory.
void note_model(std::span<const uint8_t> file);
// The sections that an import made, in a model file; chat may be empty.
void note_sections(std::span<const uint8_t> tokenizer, std::span<const uint8_t> chat);
// A state that a session over the first base model was given, and what it said. That model comes
// before the first one.
void note_state(std::span<const uint8_t> state, cria_status status);

}  // namespace cria::fuzz
