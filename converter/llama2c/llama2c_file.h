// The model files of llama2.c: a header, then tensors one after the other, without names.
//
// Version 0 has a header of 7 numbers (a vocabulary below zero: the output matrix is one of its
// own), f32 tensors, and tables of cosines and sines, which are passed over. Version 1 begins with
// a magic number and has a header of 256 bytes and f32 tensors in another order. Version 2 is as
// version 1, and its matrices are codes of eight bits with an f32 scale for each group of them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "converter/input_file.h"

namespace cria::converter {

struct Llama2cHeader {
  uint32_t version;  // 0, 1 or 2
  uint32_t dim;
  uint32_t hidden_dim;
  uint32_t n_layers;
  uint32_t n_heads;
  uint32_t n_kv_heads;
  uint32_t vocab_size;
  uint32_t seq_len;
  bool shares_embedding;
  uint32_t group_size;  // version 2; else 0
};

struct Llama2cTensor {
  std::string name;  // as Hugging Face calls it
  std::vector<uint64_t> shape;
  uint64_t offset;
  uint64_t scales;   // where its scales are; 0: it has none and its values are f32
  bool is_of_heads;  // q or k
};

struct Llama2cFile {
  Llama2cHeader header;
  std::vector<Llama2cTensor> tensors;
};

// Whether a file begins as version 1 and later do.
[[nodiscard]] bool is_llama2c(const InputFile& file);

// Throws ProgramError (kInvalidInput) unless the file is exactly as long as its header asks for.
[[nodiscard]] Llama2cFile read_llama2c(const InputFile& file);

}  // namespace cria::converter
