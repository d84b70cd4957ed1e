// The model as part of the image: CRIA_MODEL_FILE is its path, given by the build.
#include "platforms/cortex_m/model_bytes.h"

asm(".section .model, \"a\"\n"
    ".balign 64\n"
    ".global firmware_model_begin\n"
    "firmware_model_begin:\n"
    ".incbin \"" CRIA_MODEL_FILE
    "\"\n"
    ".global firmware_model_end\n"
    "firmware_model_end:\n"
    ".text\n");

extern "C" {
extern const uint8_t firmware_model_begin[];
extern const uint8_t firmware_model_end[];
}

namespace cria::cortex_m {

std::span<const uint8_t> model_bytes() { return {firmware_model_begin, firmware_model_end}; }

}  // namespace cria::cortex_m
