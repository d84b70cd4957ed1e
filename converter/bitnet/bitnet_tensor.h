// A matrix that BitNet's packer left as ternary codes, out of the tensors that hold it:
//   weight        uint8 [outputs / 4][inputs]  of four rows, a quarter of the matrix apart, two
//                 bits each, the first in the lowest
//   weight_scale  bf16, f16 or f32 [1]
// A weight is (code - 1) * scale.
#pragma once

#include <memory>
#include <string>

#include "converter/input_file.h"
#include "converter/json_input.h"
#include "converter/safetensors.h"
#include "converter/source_tensor.h"

namespace cria::converter {

// Whether quantization_config of config.json names BitNet's method. Throws ProgramError for a kind
// of it that is not read.
[[nodiscard]] bool is_packed_bitnet(const Json& config, const std::string& where);

struct BitnetPart {
  const InputFile* file;
  const SafetensorsEntry* entry;
};

// name is that of the matrix. The files and entries must outlive the tensor. Throws ProgramError
// for parts that do not fit each other.
[[nodiscard]] std::unique_ptr<SourceTensor> make_bitnet_tensor(const std::string& name,
                                                               const BitnetPart& codes,
                                                               const BitnetPart& scale);

}  // namespace cria::converter
