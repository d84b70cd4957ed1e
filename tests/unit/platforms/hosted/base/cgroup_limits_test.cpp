#include "platforms/hosted/base/cgroup_limits.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace cria::hosted {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kNone = std::numeric_limits<uint64_t>::max();
constexpr const char* kMounts2 = "30 23 0:26 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw\n";
constexpr const char* kMounts1 =
    "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n"
    "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
    "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
    "38 31 0:41 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
constexpr const char* kNoLimit1 = "9223372036854771712\n";

// A machine's /proc and /sys of these files.
class Machine {
 public:
  explicit Machine(const std::vector<std::pair<std::string, std::string>>& files)
      : root_(fs::path(testing::TempDir()) /
              testing::UnitTest::GetInstance()->current_test_info()->name()) {
    fs::remove_all(root_);
    for (const auto& [path, text] : files) {
      const fs::path place = root_ / path;
      fs::create_directories(place.parent_path());
      std::ofstream(place, std::ios::binary) << text;
    }
  }
  ~Machine() { fs::remove_all(root_); }
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;
  [[nodiscard]] CgroupLimits limits() const { return cgroup_limits(root_.string()); }
  [[nodiscard]] const fs::path& root() const { return root_; }

 private:
  fs::path root_;
};

void expect_limits(const Machine& machine, uint64_t memory_bytes, uint32_t processors) {
  const CgroupLimits limits = machine.limits();
  EXPECT_EQ(limits.memory_bytes, memory_bytes);
  EXPECT_EQ(limits.processors, processors);
}

TEST(CgroupLimits, NothingThereLimitsNothing) { expect_limits(Machine({}), kNone, 0); }

TEST(CgroupLimits, TheLeastOfNestedGroupsOfVersion2) {
  const std::string g = "sys/fs/cgroup/";
  expect_limits(Machine({{"proc/self/mountinfo", kMounts2},
                         {"proc/self/cgroup", "0::/a/b/c\n"},
                         {g + "a/memory.max", "900000\n"},
                         {g + "a/cpu.max", "150000 100000\n"},
                         {g + "a/b/memory.max", "max\n"},
                         {g + "a/b/cpu.max", "max 100000\n"},
                         {g + "a/b/c/memory.max", "1000000\n"},
                         {g + "a/b/c/cpu.max", "400000 100000\n"},
                         {g + "other/memory.max", "1\n"}}),
                900000, 2);
  expect_limits(Machine({{"proc/self/mountinfo", kMounts2},
                         {"proc/self/cgroup", "0::/a\n"},
                         {g + "a/memory.max", "max\n"},
                         {g + "a/memory.high", "700000\n"}}),
                700000, 0);
}

TEST(CgroupLimits, TheLeastOfNestedGroupsOfVersion1) {
  const std::string m = "sys/fs/cgroup/memory/";
  const std::string c = "sys/fs/cgroup/cpu,cpuacct/";
  expect_limits(Machine({{"proc/self/mountinfo", kMounts1},
                         {"proc/self/cgroup", "5:cpu,cpuacct:/x/y\n4:memory:/a/b\n0::/\n"},
                         {m + "memory.limit_in_bytes", kNoLimit1},
                         {m + "a/memory.limit_in_bytes", "5000000\n"},
                         {m + "a/b/memory.limit_in_bytes", kNoLimit1},
                         {c + "cpu.cfs_quota_us", "-1\n"},
                         {c + "cpu.cfs_period_us", "100000\n"},
                         {c + "x/cpu.cfs_quota_us", "250000\n"},
                         {c + "x/cpu.cfs_period_us", "100000\n"},
                         {c + "x/y/cpu.cfs_quota_us", "-1\n"},
                         {c + "x/y/cpu.cfs_period_us", "100000\n"}}),
                5000000, 3);
  // What is above the mounted group is told by the group's own figures.
  expect_limits(
      Machine({{"proc/self/mountinfo", kMounts1},
               {"proc/self/cgroup", "4:memory:/\n"},
               {m + "memory.limit_in_bytes", kNoLimit1},
               {m + "memory.stat", "cache 1\nhierarchical_memory_limit 4000000\nrss 2\n"}}),
      4000000, 0);
}

// A container sees its own group at the place where the tree is mounted, by its name outside or by
// "/"; one that is elsewhere is shown with "..".
TEST(CgroupLimits, InAContainerTheMountedGroupCounts) {
  const std::string bound = "30 23 0:26 /docker/7f /sys/fs/cgroup ro - cgroup2 cgroup ro\n";
  for (const char* group : {"0::/docker/7f\n", "0::/\n", "0::/../../x\n", "0::/elsewhere\n"}) {
    expect_limits(Machine({{"proc/self/mountinfo", bound},
                           {"proc/self/cgroup", group},
                           {"sys/fs/cgroup/memory.max", "800000\n"},
                           {"sys/fs/cgroup/cpu.max", "50000 100000\n"}}),
                  800000, 1);
  }
  expect_limits(Machine({{"proc/self/mountinfo", bound},
                         {"proc/self/cgroup", "0::/docker/7f/in\n"},
                         {"sys/fs/cgroup/memory.max", "800000\n"},
                         {"sys/fs/cgroup/in/memory.max", "600000\n"}}),
                600000, 0);
}

TEST(CgroupLimits, WithoutProcTheUsualPlacesCount) {
  expect_limits(Machine({{"sys/fs/cgroup/memory.max", "800000\n"},
                         {"sys/fs/cgroup/cpu.max", "100000 100000\n"}}),
                800000, 1);
  expect_limits(Machine({{"sys/fs/cgroup/memory/memory.limit_in_bytes", "800000\n"},
                         {"sys/fs/cgroup/cpu/cpu.cfs_quota_us", "100001\n"},
                         {"sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"}}),
                800000, 2);
}

TEST(CgroupLimits, OddFilesLimitNothing) {
  for (const std::string& odd :
       {std::string(), std::string("\n"), std::string("max"), std::string("-5\n"),
        std::string("0\n"), std::string("0 0\n"), std::string("1e9\n"), std::string("abc"),
        std::string("99999999999999999999999\n"), std::string("\0\0\0", 3), std::string(5000, '7'),
        std::string("100000 0\n"), std::string("100000\n\n")}) {
    const CgroupLimits limits = Machine({{"proc/self/mountinfo", odd + kMounts2 + odd},
                                         {"proc/self/cgroup", odd + "\n0::/a\n" + odd},
                                         {"sys/fs/cgroup/a/memory.high", odd},
                                         {"sys/fs/cgroup/a/cpu.max", odd}})
                                    .limits();
    EXPECT_EQ(limits.processors, 0u) << odd;
    if (odd[0] != '1') {
      EXPECT_EQ(limits.memory_bytes, kNone) << odd;
    }
  }
  Machine folders({{"proc/self/mountinfo", kMounts2}, {"proc/self/cgroup", "0::/a\n"}});
  fs::create_directories(folders.root() / "sys/fs/cgroup/a/memory.max");
  fs::create_directories(folders.root() / "sys/fs/cgroup/a/cpu.max");
  expect_limits(folders, kNone, 0);
}

TEST(CgroupLimits, NamesMayHaveSpacesAndBackslashes) {
  expect_limits(Machine({{"proc/self/mountinfo",
                          "30 23 0:26 / /sys/fs/my\\040groups rw - cgroup2 cgroup2 rw\n"},
                         {"proc/self/cgroup", "0::/a b:c\n"},
                         {"sys/fs/my groups/a b:c/memory.max", "800000\n"}}),
                800000, 0);
}

TEST(CgroupLimits, OfThisMachineTheyCanBeAsked) { EXPECT_GT(cgroup_limits().memory_bytes, 0u); }

}  // namespace
}  // namespace cria::hosted
