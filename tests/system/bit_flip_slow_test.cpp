// Every single bit of a model file, flipped: cria_verify notices each one, and cria_open either
// refuses the file or runs it without harm. Under an emulator, one bit in so many.
#include <gtest/gtest.h>

#include <cstdio>

#include "tests/support/model_files.h"
#include "tests/support/plain_chat.h"
#include "tests/support/sampling.h"
#include "tests/support/sampling_of.h"
#include "tests/support/test_session.h"
#include "tests/support/tiny_checkpoint.h"

namespace cria {
namespace {

using test::Access;
using test::MemorySource;

test::Bytes tiny_model(format::Compression compression) {
  const auto folder = test::temporary_folder() / "tiny";
  test::write_tiny_checkpoint(folder);
  return test::convert_folder(folder, {format::NumberFormat::kInt4, 32, compression, true});
}

// Runs what opened: text in, two tokens out.
void use(const cria_instance& cria) {
  uint32_t tokens[64];
  size_t n = 0;
  const cria_message message = {CRIA_USER, "the llama", 9};
  if (test::encode_chat(cria.workspace, &message, 1, 0, 1, tokens, 64, &n) != CRIA_OK) return;
  if (n == 0 || n > 40 || cria_prefill(cria.workspace, cria.session, tokens, n) != CRIA_OK) return;
  const cria_sampling sampling = test::sampling_of(0.8f, 0.9f, 0.05f, 1.1f, 20);
  cria_text_state state = {};
  char text[CRIA_TEXT_BYTES];
  for (int i = 0; i < 2; ++i) {
    uint32_t token = 0;
    ASSERT_EQ(cria_sample(cria.workspace, cria.session, &sampling, &token), CRIA_OK);
    static_cast<void>(cria_decode_token(cria.model, &state, token, text, sizeof text, &n));
    ASSERT_EQ(cria_prefill(cria.workspace, cria.session, &token, 1), CRIA_OK);
  }
}

struct Counts {
  size_t bits = 0;
  size_t flips = 0;
  size_t detected = 0;  // by verify
  size_t opened = 0;    // harmless to open
};

void print(const Counts& counts) {
  std::printf("%zu of %zu bits flipped, %zu detected by verify, %zu harmless to open\n",
              counts.flips, counts.bits, counts.detected, counts.opened);
}

Counts flip_all(format::Compression compression, Access access) {
  MemorySource source(tiny_model(compression), access);
  cria_config config = {};
  config.backend = CRIA_BACKEND_EXACT;
  config.prefill_chunk = 16;
  config.source_is_mapped = access == Access::kRead ? 0 : 1;
  cria_model_info info = {};
  EXPECT_EQ(cria_inspect(&source.source(), &info), CRIA_OK);
  cria_memory_plan plan = {};
  EXPECT_EQ(cria_plan(&info, &config, &plan), CRIA_OK);
  test::AlignedMemory memory(plan.total);
  test::AlignedMemory scratch(CRIA_VERIFY_SCRATCH_BYTES);
  const auto verify = [&] {
    return cria_verify(&source.source(), scratch.data(), scratch.size(), nullptr, nullptr, nullptr);
  };
  EXPECT_EQ(verify(), CRIA_OK);
  cria_instance cria = {};
  EXPECT_EQ(cria_open(memory.data(), plan.total, &source.source(), &config, &cria), CRIA_OK);
  use(cria);

  Counts counts;
  const std::span<uint8_t> bytes = source.bytes();
  counts.bits = bytes.size() * 8;
  for (size_t bit = 0; bit < counts.bits; bit += test::sweep_step(), ++counts.flips) {
    const auto mask = static_cast<uint8_t>(1u << bit % 8);
    bytes[bit / 8] ^= mask;
    if (verify() == CRIA_OK) {
      ADD_FAILURE() << "undetected: bit " << bit;
    } else {
      ++counts.detected;
    }
    if (cria_open(memory.data(), plan.total, &source.source(), &config, &cria) == CRIA_OK) {
      ++counts.opened;
      use(cria);
    }
    bytes[bit / 8] ^= mask;
  }
  EXPECT_EQ(verify(), CRIA_OK);
  return counts;
}

class BitFlip : public testing::TestWithParam<Access> {};

TEST_P(BitFlip, OfACompressedFileIsAlwaysDetectedAndNeverHarmful) {
  const Counts counts = flip_all(format::Compression::kZstd, GetParam());
  print(counts);
  EXPECT_GT(counts.bits, 8u * 24000);
  EXPECT_EQ(counts.flips, test::sweep_cases(counts.bits));
  EXPECT_LT(counts.opened, counts.flips / 2);
}

TEST_P(BitFlip, OfAStoredFileIsAlwaysDetectedAndNeverHarmful) {
  const Counts counts = flip_all(format::Compression::kStored, GetParam());
  print(counts);
  EXPECT_GT(counts.bits, 8u * 24000);
  EXPECT_EQ(counts.flips, test::sweep_cases(counts.bits));
}

TEST_P(BitFlip, TruncationAtEveryByteIsRefused) {
  const test::Bytes whole = tiny_model(format::Compression::kZstd);
  cria_config config = {};
  config.backend = CRIA_BACKEND_EXACT;
  test::AlignedMemory memory(size_t{8} << 20);
  test::AlignedMemory scratch(CRIA_VERIFY_SCRATCH_BYTES);
  size_t refused = 0;
  for (size_t n = 0; n < whole.size(); n += test::sweep_step(), ++refused) {
    const MemorySource source({whole.data(), n}, GetParam());
    cria_instance cria = {};
    ASSERT_NE(cria_open(memory.data(), memory.size(), &source.source(), &config, &cria), CRIA_OK);
    ASSERT_EQ(test::bytes_of(cria), 0u);
    ASSERT_NE(
        cria_verify(&source.source(), scratch.data(), scratch.size(), nullptr, nullptr, nullptr),
        CRIA_OK);
  }
  std::printf("%zu of %zu lengths refused\n", refused, whole.size());
  EXPECT_EQ(refused, test::sweep_cases(whole.size()));
}

INSTANTIATE_TEST_SUITE_P(Sources, BitFlip, testing::Values(Access::kRead, Access::kMap),
                         [](const testing::TestParamInfo<Access>& access) {
                           return access.param == Access::kRead ? "read" : "mapped";
                         });

}  // namespace
}  // namespace cria
