#include "converter/gptq/gptq_tensor.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <string_view>

#include "converter/error.h"
#include "converter/memory_size.h"
#include "quant/numbers/float16.h"

namespace cria::converter {
namespace {

constexpr uint64_t kCodesOfWord = 8;
constexpr uint32_t kCodeBits = 4;
constexpr uint32_t kCodeMask = 0xf;
constexpr int kZero = 8;
constexpr const char* kAdvice = "; convert the original checkpoint";

[[noreturn]] void refuse(const GptqPart& part, const std::string& name,
                         const std::string& problem) {
  throw ProgramError(ExitCode::kInvalidInput,
                     part.file->path().string() + ": tensor " + shown(name) + " " + problem);
}

template <typename T>
T value_at(const uint8_t* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

// Number types that quantizers give scales.
struct ScaleType {
  const char* name;
  size_t n_bytes;
  float (*read)(const uint8_t* bytes);
};
constexpr ScaleType kScaleTypes[] = {
    {"F16", sizeof(uint16_t),
     [](const uint8_t* bytes) { return f16_to_f32(value_at<uint16_t>(bytes)); }},
    {"BF16", sizeof(uint16_t),
     [](const uint8_t* bytes) { return bf16_to_f32(value_at<uint16_t>(bytes)); }},
    {"F32", sizeof(float), value_at<float>},
};

const ScaleType* find_scale_type(std::string_view name) {
  for (const ScaleType& type : kScaleTypes) {
    if (type.name == name) return &type;
  }
  return nullptr;
}

class GptqTensor : public SourceTensor {
 public:
  GptqTensor(const std::string& name, const GptqParts& parts, uint32_t group_size,
             std::vector<uint64_t> shape)
      : SourceTensor(name, std::move(shape)),
        parts_(parts),
        group_size_(group_size),
        scale_type_(find_scale_type(parts.scales.entry->dtype)) {}

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
        const auto word = value_at<uint32_t>(strip.data() + row * sizeof(uint32_t));
        for (size_t i = 0; i < kCodesOfWord; ++i) {
          const int code = static_cast<int>(word >> (i * kCodeBits) & kCodeMask) - kZero;
          codes[row * cols + word_row * kCodesOfWord + i] = static_cast<int8_t>(code);
        }
      }
    }
    const ScaleType& type = *scale_type_;
    for (size_t group = 0; group < groups; ++group) {
      const std::span<const uint8_t> strip =
          read_strip(parts_.scales, group, type.n_bytes, {first, n}, scratch);
      for (size_t row = 0; row < n; ++row) {
        scales[row * groups + group] = type.read(strip.data() + row * type.n_bytes);
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
  const ScaleType* scale_type_;
};

// what: the part, as its name ends.
void check_shape(const GptqPart& part, const std::string& name, const char* what,
                 const std::vector<uint64_t>& shape) {
  if (part.entry->shape == shape) return;
  refuse(part, name,
         std::string("has ") + what + " of shape " + shape_text(part.entry->shape) +
             " where its codes ask for " + shape_text(shape));
}

void check_words(const GptqPart& part, const std::string& name, const char* what,
                 const std::vector<uint64_t>& shape) {
  if (part.entry->dtype != "I32") {
    refuse(part, name,
           std::string("has ") + what + " of dtype " + part.entry->dtype + " where I32 is read");
  }
  check_shape(part, name, what, shape);
}

void check_scales(const GptqPart& part, const std::string& name,
                  const std::vector<uint64_t>& shape) {
  if (find_scale_type(part.entry->dtype) == nullptr) {
    refuse(
        part, name,
        "has scales of dtype " + part.entry->dtype + " where F16, BF16 or F32 is read" + kAdvice);
  }
  check_shape(part, name, "scales", shape);
}

// A layer by itself may be quantized in another way than the config says of all.
void check_settings_of_layer(const GptqParts& parts, const std::string& name, uint32_t group_size) {
  constexpr uint64_t kWordBits = 32;
  const std::vector<uint64_t>& words = parts.codes.entry->shape;
  const std::vector<uint64_t>& scales = parts.scales.entry->shape;
  if (words.size() != 2 || scales.size() != 2 || scales[0] == 0) return;
  const uint64_t own_inputs = words[0] * kCodesOfWord;
  const bool has_all_groups = own_inputs / group_size + (own_inputs % group_size != 0) == scales[0];
  const bool has_order = parts.groups.file != nullptr && parts.groups.entry->shape.size() == 1;
  const uint64_t inputs = has_order        ? parts.groups.entry->shape[0]
                          : has_all_groups ? own_inputs
                                           : scales[0] * group_size;
  for (const uint64_t bits : std::array<uint64_t, 3>{2, 3, 8}) {
    if (inputs == 0 || inputs / kWordBits * bits != words[0]) continue;
    refuse(parts.codes, name,
           "has codes of " + std::to_string(bits) +
               " bits, though the config says 4 of the model: only 4 is supported" + kAdvice);
  }
  if (own_inputs % group_size != 0) {
    refuse(parts.codes, name,
           "has " + std::to_string(own_inputs) +
               " inputs, which are not a multiple of group_size " + std::to_string(group_size) +
               ": groups of uneven size are not supported" + kAdvice);
  }
  if (own_inputs / group_size == scales[0]) return;
  refuse(parts.scales, name,
         "has " + std::to_string(scales[0]) + " groups for its " + std::to_string(own_inputs) +
             " inputs, though the config says group_size " + std::to_string(group_size) +
             ": a group_size for one layer is not supported" + kAdvice);
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
  refuse(part, name, std::string("is not symmetric, though the config says so") + kAdvice);
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
  check_settings_of_layer(parts, name, settings.group_size);
  constexpr uint64_t kMostInputs = uint64_t{1} << 32;
  if (words.size() != 2 || words[0] == 0 || words[0] > kMostInputs ||
      words[0] * kCodesOfWord % settings.group_size != 0 || words[1] % kCodesOfWord != 0) {
    refuse(parts.codes, name,
           "has codes of shape " + shape_text(words) + ", which do not form groups");
  }
  const uint64_t inputs = words[0] * kCodesOfWord;
  const uint64_t outputs = words[1];
  const uint64_t groups = inputs / settings.group_size;
  check_words(parts.codes, name, "codes", words);
  check_scales(parts.scales, name, {groups, outputs});
  check_words(parts.zeros, name, "qzeros", {groups, outputs / kCodesOfWord});
  check_zeros(parts.zeros, name, settings);
  if (parts.groups.file != nullptr) {
    check_words(parts.groups, name, "g_idx", {inputs});
    check_groups(parts.groups, name, settings.group_size);
  }
  return std::make_unique<GptqTensor>(name, parts, settings.group_size,
                                      std::vector<uint64_t>{outputs, inputs});
}

}  // namespace cria::converter
