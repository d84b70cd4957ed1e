// libFuzzer's change of a few bytes (LLVMFuzzerMutate in mutator.h), for the builds without it.
#pragma once

#include <cstdint>

namespace cria::fuzz {

// From here on the changes are those of the seed.
void seed_byte_mutation(uint32_t seed);

}  // namespace cria::fuzz
