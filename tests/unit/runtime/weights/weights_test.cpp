// Layers and tensors where a config's memory for them is: every tensor of a file has one place.
#include "runtime/weights/weights.h"

#include <gtest/gtest.h>

#include <vector>

#include "quant/model/role_names.h"
#include "runtime/weights/weight_loader.h"
#include "tests/support/random_kinds.h"
#include "tests/support/test_session.h"

namespace cria {
namespace {

// The state that a layer reads: its own, or that of the last earlier layer of the kind it names.
void check_state(const Config& c, const Weights& weights, size_t index) {
  const uint8_t kind = c.layers[index];
  const uint8_t shared = c.kinds[kind].shared_with;
  const uint8_t owner = shared == format::kNoKind ? kind : shared;
  uint32_t n_before = 0;
  for (size_t i = 0; i < index; ++i) n_before += c.layers[i] == owner ? 1 : 0;
  EXPECT_EQ(weights.layers[index].state_kind, owner);
  EXPECT_EQ(weights.layers[index].state_layer, owner == kind ? n_before : n_before - 1);
}

void check_places(const Config& c) {
  test::AlignedMemory memory((2 + c.kinds.size()) * kKindObjectBytes +
                             c.layers.size() * kLayerObjectBytes +
                             (tensor_count(c) + 2) * kTensorObjectBytes);
  Carver carver(static_cast<uint8_t*>(memory.data()));
  Weights weights = {};
  lay_out_weights(c, &carver, &weights);
  ASSERT_EQ(weights.layers.size(), c.layers.size());
  ASSERT_EQ(weights.tensors.size(), tensor_count(c));
  TensorWalk walk(c);
  TensorSpec spec = {};
  size_t n_in_layers = 0;
  for (uint32_t i = 0; walk.next({format::NumberFormat::kF32, 0}, &spec); ++i) {
    const bool is_in_layer = spec.layer != format::kNone;
    const Tensor* const found =
        is_in_layer ? weights.layers[spec.layer].find(spec.role) : weights.find(spec.role);
    EXPECT_EQ(found, &weights.tensors[i]) << role_name(spec.role);
    n_in_layers += is_in_layer ? 1 : 0;
  }
  EXPECT_EQ(n_in_layers, weights.n_in_layers);
  for (size_t i = 0; i < c.layers.size(); ++i) {
    EXPECT_EQ(weights.layers[i].kind, &c.kind_of(i));
    check_state(c, weights, i);
    // What a kind lacks is not found.
    for (size_t role = 0; role < format::kTensorRoles; ++role) {
      const Tensor* const tensor = weights.layers[i].find(static_cast<format::TensorRole>(role));
      if (tensor == nullptr) continue;
      const auto number = static_cast<uint32_t>(tensor - weights.tensors.data());
      const TensorSpec of_tensor = tensor_spec(c, number, {format::NumberFormat::kF32, 0});
      EXPECT_EQ(static_cast<size_t>(of_tensor.role), role);
      EXPECT_EQ(of_tensor.layer, i);
    }
  }
  const bool is_tied = has_flag(c, format::kTiedEmbedding);
  EXPECT_EQ(weights.find(format::TensorRole::kLmHead) == nullptr, is_tied);
  if (!is_tied) {
    EXPECT_EQ(weights.find(format::TensorRole::kLmHead), weights.lm_head);
  }
}

TEST(Weights, HaveOnePlaceForEachTensorWhateverTheKinds) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    ConfigParts c = test::random_kinds(seed, test::all_kinds());
    check_places(c.view());
    if (HasFailure()) FAIL() << "seed " << seed;
  }
}

TEST(Weights, OfAStackBeginAtWholeTiles) {
  const std::vector<uint8_t> room(8192);
  const uint8_t* const planes = room.data();
  Tensor stack = {};
  stack.shape = {17, 64, format::NumberFormat::kInt4, 32};
  stack.n_matrices = 3;
  stack.codes = planes;
  stack.scales = planes;
  // Two tiles of 16 rows and 64 inputs in 4 bits, and of two bf16 scales a row.
  EXPECT_EQ(stack.codes_of(2) - planes, 2 * 2 * 16 * 32);
  EXPECT_EQ(stack.scales_of(2) - planes, 2 * 2 * 16 * 4);
  stack.shape = {17, 64, format::NumberFormat::kF16, 0};
  stack.scales = nullptr;
  EXPECT_EQ(stack.codes_of(1) - planes, 2 * 16 * 64 * 2);
  EXPECT_EQ(stack.scales_of(1), nullptr);
}

}  // namespace
}  // namespace cria
