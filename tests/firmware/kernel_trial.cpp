#include "tests/firmware/kernel_trial.h"

#include <bit>

#include "platforms/cortex_m/console.h"

namespace cria::firmware_test {
namespace {

constexpr int kExponentBias = 127;
constexpr unsigned kFractionBits = 23;
constexpr uint32_t kFractionMask = (1u << kFractionBits) - 1;
constexpr uint32_t kSign = 1u << 31;
constexpr int8_t kLargestCode = 127;

bool is_nan(float x) { return x != x; }

bool same(float a, float b) {
  return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b) || (is_nan(a) && is_nan(b));
}

}  // namespace

KernelTrial::KernelTrial(const Kernels& kernels, std::span<uint8_t> memory)
    : kernels_(kernels),
      has_subnormals_(std::string_view(kernels.isa) != "helium"),
      arrays_(memory.first(memory.size() / 2)),
      plain_(memory.subspan(memory.size() / 2)) {}

void KernelTrial::begin(Side side) {
  arrays_.clear();
  plain_used_ = 0;
  side_ = side;
}

uint32_t KernelTrial::random() {
  random_state_ = random_state_ * 6364136223846793005u + 1442695040888963407u;
  return static_cast<uint32_t>(random_state_ >> 32);
}

float KernelTrial::random_float(Fill fill) {
  if (fill == Fill::kAnyBits) return std::bit_cast<float>(random());
  if (fill == Fill::kSpecial && below(8) == 0) {
    constexpr float kSpecial[] = {0.0f, -0.0f, __builtin_inff(), -__builtin_inff(),
                                  __builtin_nanf("")};
    return kSpecial[below(std::size(kSpecial))];
  }
  const int spread = fill == Fill::kModerate ? 4 : 20;
  const int exponent = static_cast<int>(below(2 * static_cast<size_t>(spread))) - spread;
  const auto biased = static_cast<uint32_t>(exponent + kExponentBias);
  const uint32_t bits = random();
  return std::bit_cast<float>((bits & kSign) | biased << kFractionBits | (bits & kFractionMask));
}

std::span<float> KernelTrial::input_floats(size_t n, Fill fill) {
  const std::span<float> values = input<float>(n);
  for (float& v : values) v = random_float(fill);
  return values;
}

// -127 ... 127: random, or all as far from zero as they go.
std::span<int8_t> KernelTrial::input_codes(size_t n, Fill fill) {
  const std::span<int8_t> codes = input<int8_t>(n);
  for (int8_t& code : codes) {
    if (fill == Fill::kModerate || fill == Fill::kSpecial) {
      code = static_cast<int8_t>(static_cast<int>(below(2 * kLargestCode + 1)) - kLargestCode);
    } else {
      code = fill == Fill::kWide && below(2) == 0 ? -kLargestCode : kLargestCode;
    }
  }
  return codes;
}

KernelTrial::Output<float> KernelTrial::output_floats(size_t n, Fill fill) {
  const Output<float> out = output<float>(n);
  for (size_t i = 0; i < n; ++i) out.got[i] = out.want[i] = random_float(fill);
  return out;
}

void KernelTrial::expect_same(std::string_view what, const Output<float>& out) {
  for (size_t i = 0; i < out.got.size(); ++i, ++compared_) {
    if (!same(out.got[i], out.want[i])) differ(what, i);
  }
}

void KernelTrial::expect_same(std::string_view what, float got, float want) {
  ++compared_;
  if (!same(got, want)) differ(what, 0);
}

uint8_t* KernelTrial::take_plain_bytes(size_t n_bytes) {
  uint8_t* place = plain_.data() + plain_used_;
  plain_used_ += (n_bytes + sizeof(uint64_t) - 1) / sizeof(uint64_t) * sizeof(uint64_t);
  if (plain_used_ > plain_.size()) cortex_m::fail("too much to compare");
  return place;
}

void KernelTrial::differ(std::string_view what, size_t element) const {
  cortex_m::print(std::string_view(kernels_.isa), " ", what, " element ", element, " after ",
                  compared_, "\n");
  cortex_m::fail("a kernel differs from the scalar one");
}

}  // namespace cria::firmware_test
