#include "converter/bitnet/bitnet_tensor.h"

#include <cmath>

#include "converter/error.h"
#include "converter/memory_size.h"
#include "converter/safetensors_tensor.h"
#include "quant/numbers/float16.h"

namespace cria::converter {
namespace {

constexpr uint64_t kRowsOfByte = 4;
constexpr unsigned kCodeBits = 2;
constexpr int kCodeMask = 3;

class BitnetTensor : public SourceTensor {
 public:
  BitnetTensor(const std::string& name, const BitnetPart& codes, float scale)
      : SourceTensor(name, {codes.entry->shape[0] * kRowsOfByte, codes.entry->shape[1]}),
        codes_(codes),
        scale_(scale) {}

  [[nodiscard]] const std::filesystem::path& path() const override { return codes_.file->path(); }
  [[nodiscard]] std::string type_name() const override { return "ternary"; }
  [[nodiscard]] std::string problem() const override { return ""; }
  // Where its scale is one of bit2.
  [[nodiscard]] std::optional<format::NumberFormat> trained_format() const override {
    const bool is_f16 = f16_to_f32(f32_to_f16(scale_)) == scale_;
    return is_f16 ? std::optional(format::NumberFormat::kBit2) : std::nullopt;
  }
  void read_rows(uint64_t first, size_t n, std::vector<uint8_t>* scratch,
                 float* values) const override {
    const size_t cols = memory_size(n_cols());
    const uint64_t n_stored = codes_.entry->shape[0];
    scratch->resize(cols);
    for (size_t i = 0; i < n; ++i, values += cols) {
      const uint64_t row = first + i;
      codes_.file->read(codes_.entry->offset + row % n_stored * cols, *scratch);
      const auto shift = static_cast<unsigned>(row / n_stored) * kCodeBits;
      for (size_t c = 0; c < cols; ++c) {
        const int code = (*scratch)[c] >> shift & kCodeMask;
        values[c] = static_cast<float>(code - 1) * scale_;
      }
    }
  }

 private:
  BitnetPart codes_;
  float scale_;
};

}  // namespace

bool is_packed_bitnet(const Json& json, const std::string& where) {
  constexpr const char* kAdvice =
      "; only packed weights of linear_class autobitlinear in mode offline are read";
  const JsonObject config(json, where);
  if (config.text("quant_method").value_or("") != "bitnet") return false;
  const std::string linear = config.text("linear_class").value_or("bitlinear");
  if (linear != "autobitlinear") {
    config.refuse("linear_class", "'" + shown(linear) + "' is not supported" + kAdvice);
  }
  const std::string mode = config.text("quantization_mode").value_or("offline");
  if (mode != "offline") {
    config.refuse("quantization_mode", "'" + shown(mode) + "' is not supported" + kAdvice);
  }
  if (config.boolean("use_rms_norm").value_or(false)) {
    config.refuse("use_rms_norm", std::string("true is not supported") + kAdvice);
  }
  return true;
}

std::unique_ptr<SourceTensor> make_bitnet_tensor(const std::string& name, const BitnetPart& codes,
                                                 const BitnetPart& scale) {
  const auto refuse = [&](const BitnetPart& part, const std::string& problem) {
    throw ProgramError(ExitCode::kInvalidInput,
                       part.file->path().string() + ": tensor " + shown(name) + " " + problem);
  };
  constexpr uint64_t kMostRows = uint64_t{1} << 32;
  const std::vector<uint64_t>& shape = codes.entry->shape;
  if (shape.size() != 2 || shape[0] == 0 || shape[0] > kMostRows || shape[1] == 0) {
    refuse(codes, "has codes of shape " + shape_text(shape) + ", which are no matrix");
  }
  const SafetensorsTensor stored(name, *scale.file, *scale.entry);
  if (stored.n_rows() != 1 || stored.n_cols() != 1 || !stored.problem().empty()) {
    refuse(scale, "has a weight_scale of dtype " + scale.entry->dtype + " and shape " +
                      shape_text(scale.entry->shape) + " where one BF16, F16 or F32 is read");
  }
  std::vector<uint8_t> scratch;
  float value = 0;
  stored.read_rows(0, 1, &scratch, &value);
  if (!std::isfinite(value)) {
    refuse(scale, "has a weight_scale that is not a number: download the checkpoint again");
  }
  return std::make_unique<BitnetTensor>(name, codes, value);
}

}  // namespace cria::converter
