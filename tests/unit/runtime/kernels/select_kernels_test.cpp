#include <gtest/gtest.h>

#include <array>

#include "runtime/kernels/kernels.h"

namespace cria {
namespace {

std::array<MatmulQ8, 4> integer_products(const Kernels& table) {
  return {table.matmul_q4_q8, table.matmul_q4nl_q8, table.matmul_q8_q8, table.matmul_q8g_q8};
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
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_NE(integer_products(zen5)[i], integer_products(zen4)[i]) << i;
    EXPECT_NE(integer_products(zen5)[i], integer_products(avxvnni)[i]) << i;
    EXPECT_NE(integer_products(zen4)[i], integer_products(avx2)[i]) << i;
    EXPECT_NE(integer_products(alone)[i], integer_products(scalar)[i]) << i;
  }
  EXPECT_EQ(zen5.matmul_f32_f32, zen4.matmul_f32_f32);
  EXPECT_EQ(zen5.scores_q8, zen4.scores_q8);
}

}  // namespace
}  // namespace cria
