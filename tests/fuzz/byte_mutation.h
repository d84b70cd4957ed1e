// What libFuzzer has for mutators, for the builds without it: a change of a few bytes.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace cria::fuzz {

// From here on the changes are those of the seed.
void seed_byte_mutation(uint32_t seed);

}  // namespace cria::fuzz
