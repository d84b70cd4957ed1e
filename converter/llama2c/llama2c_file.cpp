#include "converter/llama2c/llama2c_file.h"

#include <array>
#include <cstring>
#include <span>

#include "converter/error.h"
#include "converter/tensor_names.h"
#include "quant/format/format.h"

namespace cria::converter {
namespace {

using format::TensorRole;

constexpr uint32_t kMagic = 0x616b3432;
constexpr uint64_t kHeaderBytes = 256;  // from version 1 on
constexpr size_t kNumbers = 7;
constexpr uint32_t kLastVersion = 2;

[[noreturn]] void refuse(const InputFile& file, const std::string& problem) {
  throw ProgramError(ExitCode::kInvalidInput, file.path().string() + ": " + problem);
}

template <typename T>
T read_at(const InputFile& file, uint64_t offset) {
  if (file.size_bytes() < offset + sizeof(T)) refuse(file, "truncated inside its header");
  T value;
  file.read(offset, {reinterpret_cast<uint8_t*>(&value), sizeof value});
  return value;
}

struct Limit {
  const char* name;
  uint32_t most;
};

constexpr Limit kLimits[kNumbers] = {
    {"dim", format::kMaxModelWidth},   {"hidden_dim", format::kMaxFfnWidth},
    {"n_layers", format::kMaxLayers},  {"n_heads", format::kMaxHeads},
    {"n_kv_heads", format::kMaxHeads}, {"vocab_size", format::kMaxVocab},
    {"seq_len", format::kMaxContext},
};

void check_numbers(const InputFile& file, const std::array<int32_t, kNumbers>& numbers) {
  for (size_t i = 0; i < kNumbers; ++i) {
    if (numbers[i] >= 1 && static_cast<uint32_t>(numbers[i]) <= kLimits[i].most) continue;
    refuse(file, std::string("is not a llama2.c model: its ") + kLimits[i].name + " would be " +
                     std::to_string(numbers[i]));
  }
}

Llama2cHeader read_header(const InputFile& file) {
  Llama2cHeader header = {};
  uint64_t offset = 0;
  if (is_llama2c(file)) {
    header.version = read_at<uint32_t>(file, sizeof kMagic);
    if (header.version == 0 || header.version > kLastVersion) {
      refuse(file, "is a llama2.c model of version " + std::to_string(header.version) +
                       "; versions 0, 1 and 2 are read");
    }
    offset = 2 * sizeof(uint32_t);
  }
  auto numbers = read_at<std::array<int32_t, kNumbers>>(file, offset);
  offset += sizeof numbers;
  constexpr size_t kVocab = 5;
  if (header.version == 0) {
    header.shares_embedding = numbers[kVocab] > 0;
    if (numbers[kVocab] < 0 && numbers[kVocab] != INT32_MIN) numbers[kVocab] = -numbers[kVocab];
  } else {
    header.shares_embedding = read_at<uint8_t>(file, offset) != 0;
  }
  check_numbers(file, numbers);
  const auto number = [&numbers](size_t i) { return static_cast<uint32_t>(numbers[i]); };
  size_t next = 0;
  for (uint32_t* field : {&header.dim, &header.hidden_dim, &header.n_layers, &header.n_heads,
                          &header.n_kv_heads, &header.vocab_size, &header.seq_len}) {
    *field = number(next++);
  }
  if (header.version == 2) {
    const auto group = read_at<int32_t>(file, offset + 1);
    if (group < 1) refuse(file, "has groups of " + std::to_string(group) + " codes");
    header.group_size = static_cast<uint32_t>(group);
  }
  if (header.dim % header.n_heads != 0 || header.dim / header.n_heads % 2 != 0 ||
      header.n_heads % header.n_kv_heads != 0) {
    refuse(file, "is not a llama2.c model: its heads do not divide its dim");
  }
  return header;
}

struct Kind {
  TensorRole role;
  uint64_t rows;  // 0: a vector
  uint64_t cols;
  bool in_layers;
};

// Puts tensors one after the other.
class Placer {
 public:
  Placer(const InputFile& file, Llama2cFile* result, uint64_t offset)
      : file_(file), result_(result), offset_(offset) {}

  void place(const Kind& kind) {
    const uint32_t n = kind.in_layers ? result_->header.n_layers : 1;
    for (uint32_t layer = 0; layer < n; ++layer) {
      const std::string number = kind.in_layers ? std::to_string(layer) : "";
      place_one(role_name_in(kHuggingFaceNames, TensorNames::kLlama, {kind.role, number}), kind);
    }
  }
  // f32 values that are no tensor.
  void pass(uint64_t n_values) { offset_ += n_values * sizeof(float); }
  [[nodiscard]] uint64_t offset() const { return offset_; }

 private:
  void place_one(std::string name, const Kind& kind) {
    const bool is_of_heads = kind.role == TensorRole::kQ || kind.role == TensorRole::kK;
    Llama2cTensor tensor = {std::move(name), {kind.cols}, offset_, 0, is_of_heads};
    if (kind.rows != 0) tensor.shape.insert(tensor.shape.begin(), kind.rows);
    const uint64_t n_values = kind.cols * (kind.rows == 0 ? 1 : kind.rows);
    const uint64_t group = kind.rows == 0 ? 0 : result_->header.group_size;
    if (group == 0) {
      offset_ += n_values * sizeof(float);
    } else {
      if (n_values % group != 0)
        refuse(file_, "has matrices that do not divide into groups of codes");
      tensor.scales = offset_ + n_values;
      offset_ = tensor.scales + n_values / group * sizeof(float);
    }
    result_->tensors.push_back(std::move(tensor));
  }

  const InputFile& file_;
  Llama2cFile* result_;
  uint64_t offset_;
};

}  // namespace

bool is_llama2c(const InputFile& file) {
  return file.size_bytes() >= sizeof kMagic && read_at<uint32_t>(file, 0) == kMagic;
}

Llama2cFile read_llama2c(const InputFile& file) {
  Llama2cFile result = {read_header(file), {}};
  const Llama2cHeader& h = result.header;
  const uint64_t kv_dim = uint64_t{h.dim} / h.n_heads * h.n_kv_heads;
  const Kind embedding = {TensorRole::kEmbedding, h.vocab_size, h.dim, false};
  const Kind attention_norm = {TensorRole::kMixerNorm, 0, h.dim, true};
  const Kind ffn_norm = {TensorRole::kFfnNorm, 0, h.dim, true};
  const Kind final_norm = {TensorRole::kFinalNorm, 0, h.dim, false};
  const Kind output = {TensorRole::kLmHead, h.vocab_size, h.dim, false};
  const Kind attention[] = {
      {TensorRole::kQ, h.dim, h.dim, true},
      {TensorRole::kK, kv_dim, h.dim, true},
      {TensorRole::kV, kv_dim, h.dim, true},
      {TensorRole::kO, h.dim, h.dim, true},
  };
  const Kind ffn[] = {
      {TensorRole::kGate, h.hidden_dim, h.dim, true},
      {TensorRole::kDown, h.dim, h.hidden_dim, true},
      {TensorRole::kUp, h.hidden_dim, h.dim, true},
  };
  Placer placer(file, &result, h.version == 0 ? kNumbers * sizeof(int32_t) : kHeaderBytes);
  if (h.version == 0) {
    placer.place(embedding);
    placer.place(attention_norm);
    for (const Kind& kind : attention) placer.place(kind);
    placer.place(ffn_norm);
    for (const Kind& kind : ffn) placer.place(kind);
    placer.place(final_norm);
    placer.pass(uint64_t{h.seq_len} * (h.dim / h.n_heads));  // cosines and sines
  } else {
    for (const Kind& kind : {attention_norm, ffn_norm, final_norm, embedding}) {
      placer.place(kind);
    }
    for (const Kind& kind : attention) placer.place(kind);
    for (const Kind& kind : ffn) placer.place(kind);
  }
  if (!h.shares_embedding) placer.place(output);
  if (placer.offset() != file.size_bytes()) {
    refuse(file, "has " + std::to_string(file.size_bytes()) + " bytes where a llama2.c header of " +
                     "version " + std::to_string(h.version) + " asks for " +
                     std::to_string(placer.offset()) + "; check that it is one, and complete");
  }
  return result;
}

}  // namespace cria::converter
