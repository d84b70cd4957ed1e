// What the targets of the converter's readers share: how hostile bytes may end, and which rows are
// read of what was opened.
#pragma once

#include <cstdint>
#include <vector>

#include "converter/checkpoint.h"
#include "converter/error.h"
#include "tests/fuzz/fuzz_target.h"

namespace cria::fuzz {

// Does step, which may refuse its input, and for no other reason than the input. Returns whether it
// did not.
template <typename Step>
bool refuses_or(const Step& step) {
  try {
    step();
    return true;
  } catch (const converter::ProgramError& error) {
    expect(error.code() == converter::ExitCode::kInvalidInput,
           "a broken file is invalid input, not a failure of the system");
    return false;
  }
}

// read(tensor, row) for the first and the last row of each tensor that can be read.
template <typename Read>
void visit_end_rows(const converter::Checkpoint& checkpoint, const Read& read) {
  for (const auto& [name, tensor] : checkpoint.tensors()) {
    if (!tensor->problem().empty() || tensor->n_rows() == 0 || tensor->n_cols() == 0) continue;
    for (const uint64_t row : {uint64_t{0}, tensor->n_rows() - 1}) read(*tensor, row);
  }
}

// A row as values.
inline void read_values(const converter::SourceTensor& tensor, uint64_t row) {
  std::vector<uint8_t> scratch;
  std::vector<float> values(tensor.n_cols());
  tensor.read_rows(row, 1, &scratch, values.data());
}

}  // namespace cria::fuzz
