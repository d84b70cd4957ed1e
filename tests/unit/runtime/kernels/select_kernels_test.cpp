#include <gtest/gtest.h>

#include <vector>

#include "runtime/kernels/kernels.h"

namespace cria {
namespace {

std::vector<MatmulQ8> integer_products(const Kernels& table) {
  std::vector<MatmulQ8> products;
  for (const NumberFormatRow& row : kNumberFormats.of) {
    if (is_integer(row.number_format))
      products.push_back(table.products.of[place_of(row.number_format)].codes);
  }
  return products;
}

Kernels selected(uint32_t mask) {
  Kernels table;
  EXPECT_TRUE(select_kernels(mask, &table));
  return table;
}

// No kernel runs here, so the CPU need not have them. Which of both ways is a core's own only
// measuring tells.
TEST(SelectKernels, AskForWeightsOtherwiseWhereThereIsAvxVnni) {
  if ((built_isas() & CRIA_ISA_AVX512_VNNI) == 0) GTEST_SKIP() << "no AVX-512 in this build";
  const uint32_t below = CRIA_ISA_SCALAR | CRIA_ISA_SSE4_1 | CRIA_ISA_AVX2;
  const Kernels zen4 = selected(below | CRIA_ISA_AVX512_VNNI);
  const Kernels zen5 = selected(below | CRIA_ISA_AVX_VNNI | CRIA_ISA_AVX512_VNNI);
  const Kernels alone = selected(CRIA_ISA_AVX512_VNNI);
  const Kernels avx2 = selected(below);
  const Kernels avxvnni = selected(below | CRIA_ISA_AVX_VNNI);
  const Kernels scalar = selected(CRIA_ISA_SCALAR);
  EXPECT_EQ(integer_products(alone), integer_products(zen4));
  for (size_t i = 0; i < integer_products(alone).size(); ++i) {
    EXPECT_NE(integer_products(zen5)[i], integer_products(zen4)[i]) << i;
    EXPECT_NE(integer_products(zen5)[i], integer_products(avxvnni)[i]) << i;
    EXPECT_NE(integer_products(zen4)[i], integer_products(avx2)[i]) << i;
    EXPECT_NE(integer_products(alone)[i], integer_products(scalar)[i]) << i;
  }
  constexpr size_t kF32 = place_of(format::NumberFormat::kF32);
  EXPECT_EQ(zen5.products.of[kF32].floats, zen4.products.of[kF32].floats);
  EXPECT_EQ(zen5.scores_q8, zen4.scores_q8);
}

// A format that no ISA of a build has a kernel for is multiplied all the same.
TEST(SelectKernels, GiveEachFormatAProductOnEveryIsa) {
  for (const IsaEntry& isa : kIsaList) {
    if ((built_isas() & isa.bit) == 0) continue;
    const Kernels table = selected(isa.bit);
    for (const NumberFormatRow& row : kNumberFormats.of) {
      const Product product = table.products.of[place_of(row.number_format)];
      const bool is_there =
          is_integer(row.number_format) ? product.codes != nullptr : product.floats != nullptr;
      EXPECT_TRUE(is_there) << isa.name << " " << number_format_name(row.number_format);
    }
    for (const Activate activate : table.variants.activate) EXPECT_NE(activate, nullptr);
    EXPECT_NE(table.states.recall_values, nullptr);
    EXPECT_NE(table.states.advance_state, nullptr);
  }
}

}  // namespace
}  // namespace cria
