// Layers and tensors where a config's memory for them is: every tensor of a file has one place.
#include "runtime/weights/weights.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <vector>

#include "quant/model_layout.h"
#include "tests/support/test_configs.h"
#include "tests/support/test_session.h"

namespace cria {
namespace {

constexpr uint8_t kCanary = 0xa5;
constexpr uint32_t kAllFlags =
    format::kQkvBias | format::kOutputBias | format::kMlpBias | format::kQkNorm | format::kLongRope;

format::ModelConfig config_of(uint32_t flags, uint32_t n_layers) {
  format::ModelConfig c = test::small_config(format::NumberFormat::kInt4, 32);
  c.flags |= flags;
  c.n_layers = n_layers;
  test::mend_counts(&c);
  return c;
}

void check_places(const format::ModelConfig& c) {
  const auto n_bytes = static_cast<size_t>(kLayerObjectBytes * c.n_layers);
  test::AlignedMemory memory(n_bytes + 1);
  auto* const bytes = static_cast<uint8_t*>(memory.data());
  std::memset(bytes, kCanary, n_bytes + 1);
  Weights weights;
  lay_out_weights(c, bytes, &weights);
  ASSERT_EQ(weights.layers.size(), c.n_layers);
  EXPECT_EQ(bytes[n_bytes], kCanary);
  const uint8_t* const end =
      reinterpret_cast<const uint8_t*>(weights.tensors.data() + weights.tensors.size());
  EXPECT_GT(weights.tensors.data(), static_cast<const void*>(&weights.layers.back()));
  EXPECT_LE(end, bytes + n_bytes);

  std::set<const Tensor*> taken;
  const Tensor* matrix = nullptr;
  for (uint32_t i = 0; i < tensor_count(c); ++i) {
    const TensorSpec spec = test::spec_at(c, i);
    const Tensor* const tensor = tensor_of(&weights, spec.role, spec.layer);
    ASSERT_NE(tensor, nullptr) << i;
    EXPECT_EQ(tensor->n_matrices, 0u);
    if (is_bias(spec.role)) {
      EXPECT_EQ(tensor, matrix) << i;
    } else {
      EXPECT_TRUE(taken.insert(tensor).second) << i;
      EXPECT_GE(tensor, weights.tensors.data());
      EXPECT_LT(tensor, weights.tensors.data() + weights.tensors.size());
    }
    if (spec.is_matrix) matrix = tensor;
  }
  EXPECT_EQ(taken.size(), weights.tensors.size()) << "no tensor is left over";
  for (uint32_t layer = 0; layer < c.n_layers; ++layer) {
    EXPECT_EQ(weights.layers[layer].place, layer);
    for (const TensorRoleRow& row : kTensorRoles) {
      const bool has = row.place == TensorPlace::kInLayers && is_there(row, c);
      EXPECT_EQ(weights.layers[layer].find(row.role) != nullptr, has) << row.name;
    }
  }
  const bool is_tied = (c.flags & format::kTiedEmbedding) != 0;
  EXPECT_EQ(weights.outside.find(format::TensorRole::kLmHead) ==
                weights.outside.find(format::TensorRole::kEmbedding),
            is_tied);
}

TEST(Weights, HaveOnePlaceForEachTensorWhateverTheFlags) {
  for (const uint32_t flags :
       {0u, kAllFlags, uint32_t{format::kTiedEmbedding}, uint32_t{format::kQkvBias},
        uint32_t{format::kQkNorm}, kAllFlags | format::kTiedEmbedding}) {
    for (const uint32_t n_layers : {1u, 2u, 33u}) check_places(config_of(flags, n_layers));
  }
}

TEST(Weights, OfAStackBeginAtWholeTiles) {
  const std::vector<uint8_t> room(8192);
  const uint8_t* const planes = room.data();
  const MatrixShape shape = {17, 64, format::NumberFormat::kInt4, 32};
  const Tensor stack = {shape, 3, 0, planes, planes, nullptr, nullptr};
  // Two tiles of 16 rows and 64 inputs in 4 bits, and of two bf16 scales a row.
  EXPECT_EQ(stack.codes_of(2) - planes, 2 * 2 * 16 * 32);
  EXPECT_EQ(stack.scales_of(2) - planes, 2 * 2 * 16 * 4);
  const Tensor floats = {
      {17, 64, format::NumberFormat::kF16, 0}, 3, 0, planes, nullptr, nullptr, nullptr};
  EXPECT_EQ(floats.codes_of(1) - planes, 2 * 16 * 64 * 2);
  EXPECT_EQ(floats.scales_of(1), nullptr);
}

}  // namespace
}  // namespace cria
