#include "platforms/hosted/machine/fast_cores.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <system_error>
#include <vector>

namespace cria::hosted {
namespace {

constexpr char kSystem[] = "/sys/devices/system/cpu";

class FastCoresTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "cria_fast_cores_XXXXXX";
    ASSERT_NE(::mkdtemp(folder_.data()), nullptr);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // What the system says of processor 0, 1, ...
  void siblings(const std::vector<std::string>& lists) {
    for (size_t i = 0; i < lists.size(); ++i) {
      const std::string topology = folder_ + "/cpu" + std::to_string(i) + "/topology";
      std::filesystem::create_directories(topology);
      std::ofstream(topology + "/thread_siblings_list") << lists[i];
    }
  }

  std::string folder_;
};

// As on a virtual machine whose CPUID says that every processor is of one core.
TEST_F(FastCoresTest, AreThoseOfTheSystemWhereCpuinfoSeesOthers) {
  siblings({"0\n", "1\n"});
  const std::vector<LogicalProcessor> one_core = {{0, 0, 0}, {1, 0, 1}};
  EXPECT_EQ(count_fast_cores(one_core, folder_), 2u);
}

TEST_F(FastCoresTest, ShareProcessorsInEitherOrder) {
  const std::vector<LogicalProcessor> four = {{0, 0, 0}, {1, 0, 0}, {2, 0, 0}, {3, 0, 0}};
  siblings({"0,2\n", "1,3\n", "0,2\n", "1,3\n"});
  EXPECT_EQ(count_fast_cores(four, folder_), 2u);
  siblings({"0-1\n", "0-1\n", "2-3\n", "2-3\n"});
  EXPECT_EQ(count_fast_cores(four, folder_), 2u);
  siblings({"0-3\n", "0-3\n", "0-3\n", "0-3\n"});
  EXPECT_EQ(count_fast_cores(four, folder_), 1u);
}

TEST_F(FastCoresTest, AreNotThoseOfASlowCluster) {
  siblings({"0\n", "1\n", "2\n", "3\n"});
  const std::vector<LogicalProcessor> phone = {
      {0, 1'700'000'000, 0}, {1, 2'000'000'000, 0}, {2, 2'300'000'000, 0}, {3, 2'500'000'000, 0}};
  EXPECT_EQ(count_fast_cores(phone, folder_), 3u);
}

TEST_F(FastCoresTest, AreThoseOfCpuinfoWhereTheSystemSaysNothing) {
  const std::vector<LogicalProcessor> processors = {{0, 0, 0}, {1, 0, 1}, {2, 0, 0}, {3, 0, 1}};
  EXPECT_EQ(count_fast_cores(processors, folder_), 2u);
  EXPECT_EQ(count_fast_cores(processors, folder_ + "/none"), 2u);
  siblings({"", "\n", "x\n", "9999999999999999999999\n"});
  EXPECT_EQ(count_fast_cores(processors, folder_), 2u);
  EXPECT_EQ(count_fast_cores({}, folder_), 0u);
}

TEST_F(FastCoresTest, OfThisMachineAreNoMoreThanTheSystemSays) {
  std::set<std::string> cores;
  bool knows_clocks = false;
  std::error_code ignored;  // a machine without the folder
  for (const auto& entry : std::filesystem::directory_iterator(kSystem, ignored)) {
    std::ifstream file(entry.path() / "topology/thread_siblings_list");
    const std::string list(std::istreambuf_iterator<char>(file), {});
    if (!list.empty()) cores.insert(list);
    knows_clocks |= std::filesystem::exists(entry.path() / "cpufreq");
  }
  if (cores.empty()) GTEST_SKIP() << "the system says nothing of its cores";
  EXPECT_LE(count_fast_cores(), cores.size());
  if (!knows_clocks) {
    EXPECT_EQ(count_fast_cores(), cores.size());
  }
}

}  // namespace
}  // namespace cria::hosted
