// A matrix that GPTQ quantized, out of the tensors that hold it:
//   qweight  int32 [inputs / 8][outputs]  eight codes a word, the first in the lowest bits
//   scales   f16   [groups][outputs]     or bf16, f32
//   qzeros   int32 [groups][outputs / 8]  what stands for zero; one number where it is symmetric
//   g_idx    int32 [inputs]               the group of each input; may be missing
// A weight is (code - 8) * scale.
#pragma once

#include <memory>
#include <string>

#include "converter/gptq/gptq_settings.h"
#include "converter/input_file.h"
#include "converter/safetensors.h"
#include "converter/source_tensor.h"

namespace cria::converter {

struct GptqPart {
  const InputFile* file = nullptr;  // nullptr: there is no such tensor
  const SafetensorsEntry* entry = nullptr;
};

struct GptqParts {
  GptqPart codes;
  GptqPart scales;
  GptqPart zeros;
  GptqPart groups;
};

// name is that of the matrix: "....weight". The files and entries must outlive the tensor. Throws
// ProgramError for parts that are missing, do not fit each other, or are not symmetric.
[[nodiscard]] std::unique_ptr<SourceTensor> make_gptq_tensor(const std::string& name,
                                                             const GptqParts& parts,
                                                             const GptqSettings& settings);

}  // namespace cria::converter
