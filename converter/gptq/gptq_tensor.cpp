#include "converter/gptq/gptq_tensor.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "converter/error.h"
#include "converter/memory_size.h"
#include "quant/float16.h"

namespace cria::converter {
namespace {

constexpr uint64_t kCodesOfWord = 8;
constexpr uint32_t kCodeBits = 4;
constexpr uint32_t kCodeMask = 0xf;
constexpr int kZero = 8;

[[noreturn]] void refuse(const GptqPart& part, const std::string& name,
                         const std::string& problem) {
  throw ProgramError(ExitCode::kInvalidInput,
                     part.file->path().string() + ": tensor " + shown(name) + " " + problem);
}

class GptqTensor : public SourceTensor {
 public:
  GptqTensor(const std::string& name, const GptqParts& parts, uint32_t group_size,
             std::vector<uint64_t> shape)
      : SourceTensor(name, std::move(shape)), parts_(parts), group_size_(group_size) {}

  [[nodiscard]] const std::filesystem::path& path() const override {
    return parts_.codes.file->path();
  }
  [[nodiscard]] std::string type_name() const override {
    return "int4 in groups of " + std::to_string(group_size_);
  }
  [[nodiscard]] std::string problem() const override { return ""; }
  [[nodiscard]] uint32_t int4_group() const override { return group_size_; }

  void read_rows(uint64_t first, size_t n, std::vector<uint8_t>* scratch,
                 float* values) const override {
    const size_t cols = memory_size(n_cols());
    std::vector<int8_t> codes(n * cols);
    std::vector<float> scales(n * cols / group_size_);
    read_int4(first, n, scratch, codes.data(), scales.data());
    for (size_t i = 0; i < codes.size(); ++i) {
      values[i] = static_cast<float>(codes[i]) * scales[i / group_size_];
    }
  }

  // The file has what becomes a row here as a column: strips of n columns are read.
  void read_int4(uint64_t first, size_t n, std::vector<uint8_t>* scratch, int8_t* codes,
                 float* scales) const override {
    const size_t cols = memory_size(n_cols());
    const size_t groups = cols / group_size_;
    for (size_t word_row = 0; word_row < cols / kCodesOfWord; ++word_row) {
      const std::span<const uint8_t> strip =
          read_strip(parts_.codes, word_row, sizeof(uint32_t), {first, n}, scratch);
      for (size_t row = 0; row < n; ++row) {
        uint32_t word;
        std::memcpy(&word, strip.data() + row * sizeof word, sizeof word);
        for (size_t i = 0; i < kCodesOfWord; ++i) {
          const int code = static_cast<int>(word >> (i * kCodeBits) & kCodeMask) - kZero;
          codes[row * cols + word_row * kCodesOfWord + i] = static_cast<int8_t>(code);
        }
      }
    }
    for (size_t group = 0; group < groups; ++group) {
      const std::span<const uint8_t> strip =
          read_strip(parts_.scales, group, sizeof(uint16_t), {first, n}, scratch);
      for (size_t row = 0; row < n; ++row) {
        uint16_t half;
        std::memcpy(&half, strip.data() + row * sizeof half, sizeof half);
        scales[row * groups + group] = f16_to_f32(half);
      }
    }
  }

 private:
  struct Strip {
    uint64_t first;
    size_t n;
  };

  [[nodiscard]] std::span<const uint8_t> read_strip(const GptqPart& part, uint64_t stored_row,
                                                    uint64_t value_bytes, Strip strip,
                                                    std::vector<uint8_t>* scratch) const {
    scratch->resize(memory_size(strip.n * value_bytes));
    const uint64_t place = stored_row * n_rows() + strip.first;
    part.file->read(part.entry->offset + place * value_bytes, *scratch);
    return *scratch;
  }

  GptqParts parts_;
  uint32_t group_size_;
};

void check_part(const GptqPart& part, const std::string& name, const char* dtype,
                const std::vector<uint64_t>& shape) {
  if (part.entry->dtype != dtype) {
    refuse(part, name, "has dtype " + part.entry->dtype + " where " + dtype + " is read");
  }
  if (part.entry->shape != shape) {
    refuse(part, name,
           "has shape " + shape_text(part.entry->shape) + " where its codes ask for " +
               shape_text(shape));
  }
}

// The words of a small tensor.
std::vector<uint32_t> read_words(const GptqPart& part) {
  std::vector<uint32_t> words(memory_size(part.entry->bytes / sizeof(uint32_t)));
  part.file->read(part.entry->offset,
                  {reinterpret_cast<uint8_t*>(words.data()), words.size() * sizeof(uint32_t)});
  return words;
}

void check_zeros(const GptqPart& part, const std::string& name, const GptqSettings& settings) {
  constexpr uint32_t kEverywhere = 0x11111111;
  const std::vector<uint32_t> words = read_words(part);
  for (const uint32_t zero : {7U, 8U}) {
    if (settings.stored_zero.value_or(zero) != zero) continue;
    const bool all = std::all_of(words.begin(), words.end(),
                                 [zero](uint32_t word) { return word == zero * kEverywhere; });
    if (all) return;
  }
  refuse(part, name,
         "is not symmetric, though the config says so; convert the original checkpoint");
}

void check_groups(const GptqPart& part, const std::string& name, uint32_t group_size) {
  const std::vector<uint32_t> groups = read_words(part);
  for (size_t i = 0; i < groups.size(); ++i) {
    if (groups[i] == i / group_size) continue;
    refuse(part, name,
           "orders its inputs by activation (desc_act), which is not supported; take a checkpoint "
           "without it, or convert the original");
  }
}

}  // namespace

std::unique_ptr<SourceTensor> make_gptq_tensor(const std::string& name, const GptqParts& parts,
                                               const GptqSettings& settings) {
  const std::vector<uint64_t>& words = parts.codes.entry->shape;
  if (parts.scales.file == nullptr || parts.zeros.file == nullptr) {
    refuse(parts.codes, name, "has codes without scales or qzeros, download it again");
  }
  constexpr uint64_t kMostInputs = uint64_t{1} << 32;
  if (words.size() != 2 || words[0] == 0 || words[0] > kMostInputs ||
      words[0] * kCodesOfWord % settings.group_size != 0 || words[1] % kCodesOfWord != 0) {
    refuse(parts.codes, name, "has codes of shape " + shape_text(words) + ", which are no groups");
  }
  const uint64_t inputs = words[0] * kCodesOfWord;
  const uint64_t outputs = words[1];
  const uint64_t groups = inputs / settings.group_size;
  check_part(parts.codes, name, "I32", words);
  check_part(parts.scales, name, "F16", {groups, outputs});
  check_part(parts.zeros, name, "I32", {groups, outputs / kCodesOfWord});
  check_zeros(parts.zeros, name, settings);
  if (parts.groups.file != nullptr) {
    check_part(parts.groups, name, "I32", {inputs});
    check_groups(parts.groups, name, settings.group_size);
  }
  return std::make_unique<GptqTensor>(name, parts, settings.group_size,
                                      std::vector<uint64_t>{outputs, inputs});
}

}  // namespace cria::converter
