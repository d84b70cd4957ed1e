// CPU counts and memory of the machine.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>

#include <cria.h>
#include "platforms/hosted/base/program_error.h"
#include "platforms/hosted/machine/cpu.h"
#include "platforms/hosted/machine/isas_without_proc.h"
#include "platforms/hosted/session/arena_memory.h"
#include "platforms/hosted/session/resident_memory.h"
#include "tests/support/isa_list.h"

namespace cria::hosted {
namespace {

TEST(ChooseThreads, TakesTheFastCores) {
  EXPECT_EQ(choose_threads({.fast_cores = 4, .allowed = 8, .quota = 0, .any = 8}), 4u);
}

TEST(ChooseThreads, NeverMoreThanAffinityAndQuotaAllow) {
  EXPECT_EQ(choose_threads({.fast_cores = 4, .allowed = 2, .quota = 0, .any = 8}), 2u);
  EXPECT_EQ(choose_threads({.fast_cores = 4, .allowed = 8, .quota = 3, .any = 8}), 3u);
}

TEST(ChooseThreads, FallsBackToTheLibraryThenToOne) {
  EXPECT_EQ(choose_threads({.fast_cores = 0, .allowed = 8, .quota = 0, .any = 6}), 6u);
  EXPECT_EQ(choose_threads({.fast_cores = 0, .allowed = 0, .quota = 0, .any = 0}), 1u);
}

TEST(ChooseThreads, NeverMoreThanTheRuntimeTakes) {
  EXPECT_EQ(choose_threads({.fast_cores = 384, .allowed = 768, .quota = 0, .any = 768}), 256u);
  EXPECT_EQ(choose_threads({.fast_cores = 0, .allowed = 0, .quota = 0, .any = 1000}), 256u);
}

// A Cortex-A8 and an A9 have NEON, but neither fused products nor conversions of halves.
TEST(ArmIsas, NeedBothNeonAndVfpv4) {
  const auto isas = [](bool neon, bool vfpv4, bool dotprod, bool i8mm) {
    return arm_isas({.neon = neon, .vfpv4 = vfpv4, .dotprod = dotprod, .i8mm = i8mm});
  };
  EXPECT_EQ(isas(true, false, false, false), 0u);
  EXPECT_EQ(isas(false, true, false, false), 0u);
  EXPECT_EQ(isas(true, false, true, true), 0u);
  EXPECT_EQ(isas(true, true, false, false), uint32_t{CRIA_ISA_NEON});
  EXPECT_EQ(isas(true, true, true, false), uint32_t{CRIA_ISA_NEON | CRIA_ISA_DOTPROD});
  EXPECT_EQ(isas(true, true, true, true),
            uint32_t{CRIA_ISA_NEON | CRIA_ISA_DOTPROD | CRIA_ISA_I8MM});
}

TEST(CpuIsas, AreLookedForWhereverTheBuildHasKernels) {
  EXPECT_EQ(cria_built_isas() & ~detectable_isas(), 0u);
  EXPECT_EQ(cpu_isas() & ~detectable_isas(), 0u);
}

TEST(CpuIsas, AreThoseThatTheTestsFind) {
  EXPECT_EQ(cpu_isas() & cria_built_isas(), test::runnable_isas().back().mask);
}

TEST(CpuIsas, AreTheSameWithoutProc) {
  EXPECT_EQ(isas_without_proc() & cria_built_isas(), cpu_isas() & cria_built_isas());
}

TEST(IsaNames, AreOfTheBitsInRisingOrder) {
  const std::vector<IsaName> names = isa_names(CRIA_ISA_I8MM | CRIA_ISA_SCALAR | CRIA_ISA_SSE4_1);
  ASSERT_EQ(names.size(), 3u);
  EXPECT_STREQ(names[0].name, "scalar");
  EXPECT_STREQ(names[1].name, "sse4.1");
  EXPECT_STREQ(names[2].name, "i8mm");
  EXPECT_EQ(names[2].bit, uint32_t{CRIA_ISA_I8MM});
  EXPECT_TRUE(isa_names(0).empty());
}

TEST(DefaultThreads, AreWithinTheAffinityMask) {
  const CpuCounts counts = count_cpus();
  ASSERT_GT(counts.allowed, 0u);
  EXPECT_GE(default_threads(), 1u);
  EXPECT_LE(default_threads(), counts.allowed);
  EXPECT_FALSE(machine_description().empty());
}

TEST(ArenaMemory, IsAlignedZeroAndOfTheSizeAskedFor) {
  constexpr size_t kAlignment = 64;
  const ArenaMemory memory(12345);
  EXPECT_EQ(memory.size_bytes(), 12345u);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(memory.data()) % kAlignment, 0u);
  EXPECT_EQ(static_cast<const char*>(memory.data())[12344], 0);
}

TEST(ArenaMemory, SaysHowMuchIsNeededWhenThereIsTooLittle) {
  try {
    const ArenaMemory memory(uint64_t{1} << 62);
    FAIL() << "4 EiB were given";
  } catch (const ProgramError& error) {
    EXPECT_EQ(error.code(), ExitCode::kMemory);
    EXPECT_NE(std::string(error.what()).find("4,611,686,018,427,387,904 bytes"), std::string::npos)
        << error.what();
  }
}

TEST(LargePages, PayUntilSmallOnesWouldHaveComeSixteenPagesSooner) {
  LargePageBudget fast(1.0);
  for (int i = 0; i < 1000; ++i) EXPECT_TRUE(fast.add(0.2));
  LargePageBudget slow(1.0);
  for (int i = 0; i < 16; ++i) EXPECT_TRUE(slow.add(2.0));
  EXPECT_FALSE(slow.add(2.0));
  LargePageBudget very_slow(1.0);
  EXPECT_TRUE(very_slow.add(15.0));
  EXPECT_FALSE(very_slow.add(15.0));
}

// Fast ones in front are no reason to take many slow ones.
TEST(LargePages, OnesThatWereFastPayForFewThatAreNot) {
  LargePageBudget budget(1.0);
  for (int i = 0; i < 1000; ++i) EXPECT_TRUE(budget.add(0.2));
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(budget.add(5.0));
  EXPECT_FALSE(budget.add(5.0));
  LargePageBudget hiccups(1.0);
  for (int i = 0; i < 1000; ++i) EXPECT_TRUE(hiccups.add(i % 20 == 0 ? 12.0 : 0.2));
}

TEST(ArenaMemory, HasThePagesThatWereTaken) {
  constexpr size_t kBytes = (size_t{97} << 20) + 12345;
  for (const size_t n_threads : {1, 2, 3}) {
    ThreadPool pool(n_threads, FewerThreads::kAreTaken);
    const ArenaMemory memory(kBytes);
    auto* const bytes = static_cast<uint8_t*>(memory.data());
    bytes[kBytes / 2] = 1;
    for (const size_t n_bytes : {size_t{0}, size_t{5} << 20, kBytes - 1, kBytes}) {
      memory.take_pages(n_bytes, &pool);
      memory.allow_merging(n_bytes);
    }
    size_t sum = 0;
    for (size_t i = 0; i < kBytes; ++i) sum += bytes[i];
    EXPECT_EQ(sum, 1u);
  }
}

TEST(CheckMemory, RefusesMoreThanTheMachineHas) {
  const uint64_t there_are =
      std::min<uint64_t>(usable_memory_bytes(), std::numeric_limits<size_t>::max());
  ASSERT_GT(there_are, uint64_t{1} << 20);
  check_memory_for(there_are, "it");
  try {
    check_memory_for(there_are + 1, "it");
    FAIL() << "was let through";
  } catch (const ProgramError& error) {
    EXPECT_EQ(error.code(), ExitCode::kMemory);
    EXPECT_NE(std::string(error.what()).find("--context"), std::string::npos) << error.what();
  }
}

TEST(ResidentMemory, IsKnown) { EXPECT_GT(peak_resident_bytes(), 0u); }

TEST(ResidentMemory, StartsAgainFromWhatIsResidentNow) {
  constexpr size_t kBytes = size_t{256} << 20;
  {
    const ArenaMemory memory(kBytes);
    memory.make_resident();
  }
  const uint64_t before = peak_resident_bytes();
  EXPECT_GE(before, kBytes);
  if (!reset_peak_resident()) GTEST_SKIP() << "this system keeps what was the highest";
  // A sanitizer keeps an eighth of it for notes of its own.
  EXPECT_LT(peak_resident_bytes(), before - kBytes / 2);
}

}  // namespace
}  // namespace cria::hosted
