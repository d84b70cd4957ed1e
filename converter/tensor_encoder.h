// Turns tensors of a checkpoint into planes of a model file: read, widen, check, quantize, pack. A
// tensor is never in memory as a whole: it goes through in batches of tiles, of which only the
// scales are kept to its end.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "converter/calibration/calibrated_rounding.h"
#include "converter/chunk_queue.h"
#include "converter/tensor_plan.h"
#include "platforms/hosted/base/thread_pool.h"
#include "quant/numbers/quantize.h"

namespace cria::converter {

// What became of the groups of codes that a checkpoint has as int4 already.
struct KeptGroups {
  uint64_t exact = 0;    // same codes, same scale
  uint64_t rounded = 0;  // same codes, the scale rounded to bf16
  // A scale that cannot be stored: too small, or below zero with a code of -8 where scales are
  // positive.
  uint64_t requantized = 0;
};

struct EncodedTensor {
  TensorSpec spec;
  format::TensorEntry entry;
  uint64_t stored_bytes;  // known when all is written
  ErrorSums error;        // of matrices; zero for vectors
  KeptGroups kept;
  std::optional<RoundingOutcome> rounding;  // of matrices that calibration had codes for
};

class TensorEncoder {
 public:
  // config says what is stored whatever the compression; it, pool and writer must outlive the
  // encoder.
  TensorEncoder(const Config& config, QuantMethod method, format::Compression compression,
                int level, hosted::ThreadPool* pool, ModelWriter* writer);

  // Writes a tensor from its source. Throws ProgramError: kInvalidInput when a weight is infinite,
  // no number, or too large for the number format; kIo. The bytes written do not depend on the
  // number of workers, and may be written later.
  // rounded: the codes of a matrix of integers, where they are found already; else nullptr.
  [[nodiscard]] EncodedTensor encode(const PlannedTensor& tensor, const RoundedRows* rounded);
  // Writes a vector of values that is not in the checkpoint.
  [[nodiscard]] EncodedTensor encode_values(const TensorSpec& spec, std::span<const float> values);
  // Writes what is left of all tensors that were encoded.
  void finish(std::span<EncodedTensor> tensors);

 private:
  // What a worker needs for one tile; grows to the widest tensor.
  struct Scratch {
    std::vector<uint8_t> source;
    std::vector<float> strip;  // of several tiles, where they are read together
    std::vector<float> values;
    std::vector<int8_t> codes;
    std::vector<uint16_t> group_scales;
    std::vector<float> int8_scales;
    std::vector<int8_t> source_codes;  // int4 that the checkpoint has
    std::vector<float> source_scales;
  };
  // What a tile leaves besides its bytes.
  struct TileSums {
    ErrorSums error;
    KeptGroups kept;
  };

  [[nodiscard]] EncodedTensor encode_matrix(const PlannedTensor& tensor);
  // Tiles [first, last), of all matrices of a stack; codes and scales are those of the first.
  void encode_tiles(const PlannedTensor& tensor, size_t first, size_t last, Scratch* scratch,
                    uint8_t* out_codes, uint8_t* out_scales, TileSums* sums) const;
  // Copies codes and scales of rows from first on to scratch.
  void take_rounded(const MatrixShape& shape, size_t first, size_t n_rows, Scratch* scratch) const;
  // The tile's n_rows rows of scratch->values, from first on of all matrices of a stack.
  void encode_tile(const PlannedTensor& tensor, size_t first, size_t n_rows, Scratch* scratch,
                   uint8_t* out_codes, uint8_t* out_scales, TileSums* sums) const;
  // Puts the codes and scales that the checkpoint has for rows from first on in place of those of
  // scratch, where cria's int4 can hold them.
  void keep_int4(const PlannedTensor& tensor, size_t first, size_t n_rows, Scratch* scratch,
                 KeptGroups* kept) const;
  // The tile's n_rows rows of scratch->values, as one number format.
  void encode_groups(const PlannedTensor& tensor, size_t first, size_t n_rows, Scratch* scratch,
                     uint8_t* out_codes, uint8_t* out_scales, TileSums* sums) const;
  void encode_int8(const MatrixShape& shape, size_t first, size_t n_rows, Scratch* scratch,
                   uint8_t* out_codes, uint8_t* out_scales, ErrorSums* error) const;
  // Throws ProgramError where a weight is none of the format's.
  void encode_bits(const PlannedTensor& tensor, size_t first, size_t n_rows, Scratch* scratch,
                   uint8_t* out_codes, uint8_t* out_scales, ErrorSums* error) const;
  // Of codes and scales of groups in scratch.
  static void add_errors(const MatrixShape& shape, size_t n_rows, const Scratch& scratch,
                         ErrorSums* error);
  [[nodiscard]] EncodedTensor start_entry(const TensorSpec& spec);

  Config config_;
  QuantMethod method_;
  const RoundedRows* rounded_ = nullptr;  // of the tensor at hand
  hosted::ThreadPool* pool_;
  const ModelWriter* writer_;
  ChunkQueue queue_;
  uint32_t n_chunks_ = 0;           // of the tensors so far
  std::vector<Scratch> scratches_;  // one a worker
};

}  // namespace cria::converter
