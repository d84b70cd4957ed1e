#include "platforms/hosted/base/cgroup_limits.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <optional>
#include <string_view>
#include <vector>

namespace cria::hosted {
namespace {

constexpr std::string_view kSpace = " \t\n";

// The beginning of a file of /proc or /sys; empty where it cannot be read.
std::string read_small(const std::string& path) {
  constexpr size_t kMostBytes = size_t{1} << 20;
  std::FILE* const file = std::fopen(path.c_str(), "re");
  if (file == nullptr) return {};
  std::string text;
  std::array<char, 4096> part = {};
  for (size_t n = 1; n > 0 && text.size() < kMostBytes;) {
    n = std::fread(part.data(), 1, part.size(), file);
    text.append(part.data(), n);
  }
  std::fclose(file);
  return text;
}

std::string_view take_until(char end, std::string_view* text) {
  const std::string_view part = text->substr(0, text->find(end));
  text->remove_prefix(std::min(part.size() + 1, text->size()));
  return part;
}

std::string_view take_word(std::string_view* text) {
  text->remove_prefix(std::min(text->find_first_not_of(kSpace), text->size()));
  const std::string_view word = text->substr(0, text->find_first_of(kSpace));
  text->remove_prefix(word.size());
  return word;
}

// A whole number above 0; "max", "-1" and whatever else stands there is none.
std::optional<uint64_t> limit_in(std::string_view word) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc() || end != word.data() + word.size() || value == 0) return std::nullopt;
  return value;
}

std::optional<uint64_t> limit_of_file(const std::string& path) {
  const std::string text = read_small(path);
  std::string_view rest = text;
  return limit_in(take_word(&rest));
}

// "a\040b" is "a b".
std::string unescaped(std::string_view text) {
  constexpr int kOctal = 8;
  constexpr size_t kDigits = 3;
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    const std::string_view digits = text.substr(i + 1, kDigits);
    uint8_t byte = 0;
    const char* const end = digits.data() + digits.size();
    if (text[i] == '\\' && digits.size() == kDigits &&
        std::from_chars(digits.data(), end, byte, kOctal).ptr == end) {
      result += static_cast<char>(byte);
      i += kDigits;
    } else {
      result += text[i];
    }
  }
  return result;
}

bool has_item(std::string_view list, std::string_view item) {
  while (!list.empty()) {
    if (take_until(',', &list) == item) return true;
  }
  return false;
}

// A hierarchy of groups, and where this process is in it.
struct Hierarchy {
  std::string controller;  // of version 1; empty: version 2
  std::string folder;      // where it is mounted
  std::string top = "/";   // the group that is mounted there
  std::string group = "/";
};

// Lines like "31 23 0:28 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory".
void find_mount(const std::string& mounts, Hierarchy* hierarchy) {
  std::string_view rest = mounts;
  while (!rest.empty()) {
    std::string_view line = take_until('\n', &rest);
    const size_t dash = line.find(" - ");
    if (dash == std::string_view::npos) continue;
    std::string_view options = line.substr(dash + 3);
    for (int i = 0; i < 3; ++i) take_word(&line);
    const std::string_view top = take_word(&line);
    const std::string_view folder = take_word(&line);
    const std::string_view type = take_word(&options);
    take_word(&options);
    const bool is_it =
        hierarchy->controller.empty()
            ? type == "cgroup2"
            : type == "cgroup" && has_item(take_word(&options), hierarchy->controller);
    if (!is_it) continue;
    hierarchy->top = unescaped(top);
    hierarchy->folder = unescaped(folder);
    return;
  }
}

// Lines like "4:memory:/a/b" and "0::/a/b".
void find_group(const std::string& groups, Hierarchy* hierarchy) {
  std::string_view rest = groups;
  while (!rest.empty()) {
    std::string_view line = take_until('\n', &rest);
    take_until(':', &line);
    const std::string_view controllers = take_until(':', &line);
    const bool is_it = hierarchy->controller.empty() ? controllers.empty()
                                                     : has_item(controllers, hierarchy->controller);
    if (is_it && line.starts_with('/')) hierarchy->group = line;
  }
}

// The folders of this process's group and of those that it is in. A group that is not below what is
// mounted cannot be seen.
std::vector<std::string> folders_of(const Hierarchy& hierarchy) {
  std::string below = hierarchy.group;
  if (hierarchy.top != "/" && (below == hierarchy.top || below.starts_with(hierarchy.top + "/"))) {
    below.erase(0, hierarchy.top.size());
  }
  if (below.find("/..") != std::string::npos) below.clear();
  std::vector<std::string> folders;
  while (below.size() > 1) {
    folders.push_back(hierarchy.folder + below);
    below.erase(below.rfind('/'));
  }
  folders.push_back(hierarchy.folder);
  return folders;
}

void take_memory(const std::optional<uint64_t>& bytes, CgroupLimits* limits) {
  if (bytes) limits->memory_bytes = std::min(limits->memory_bytes, *bytes);
}

void take_quota(const std::optional<uint64_t>& quota, const std::optional<uint64_t>& period,
                CgroupLimits* limits) {
  constexpr uint64_t kMostProcessors = 4096;
  if (!quota || !period) return;
  const uint64_t n = *quota / *period + (*quota % *period != 0 ? 1 : 0);
  const auto processors = static_cast<uint32_t>(std::min(n, kMostProcessors));
  limits->processors =
      limits->processors == 0 ? processors : std::min(limits->processors, processors);
}

// What groups that are not seen allow, too: "hierarchical_memory_limit 1234" of memory.stat.
std::optional<uint64_t> hierarchical_limit(const std::string& folder) {
  const std::string text = read_small(folder + "/memory.stat");
  std::string_view rest = text;
  while (!rest.empty()) {
    std::string_view line = take_until('\n', &rest);
    if (take_word(&line) == "hierarchical_memory_limit") return limit_in(take_word(&line));
  }
  return std::nullopt;
}

}  // namespace

CgroupLimits cgroup_limits(const std::string& root) {
  const std::string mounts = read_small(root + "/proc/self/mountinfo");
  const std::string groups = read_small(root + "/proc/self/cgroup");
  CgroupLimits limits;
  // Where /proc does not say it, what is usual.
  for (Hierarchy hierarchy : {Hierarchy{.controller = "", .folder = "/sys/fs/cgroup"},
                              Hierarchy{.controller = "memory", .folder = "/sys/fs/cgroup/memory"},
                              Hierarchy{.controller = "cpu", .folder = "/sys/fs/cgroup/cpu"}}) {
    find_mount(mounts, &hierarchy);
    find_group(groups, &hierarchy);
    for (const std::string& group : folders_of(hierarchy)) {
      const std::string folder = root + group;
      if (hierarchy.controller.empty()) {
        take_memory(limit_of_file(folder + "/memory.max"), &limits);
        take_memory(limit_of_file(folder + "/memory.high"), &limits);
        const std::string text = read_small(folder + "/cpu.max");
        std::string_view rest = text;
        const std::optional<uint64_t> quota = limit_in(take_word(&rest));
        take_quota(quota, limit_in(take_word(&rest)), &limits);
      } else if (hierarchy.controller == "memory") {
        take_memory(limit_of_file(folder + "/memory.limit_in_bytes"), &limits);
        take_memory(hierarchical_limit(folder), &limits);
      } else {
        take_quota(limit_of_file(folder + "/cpu.cfs_quota_us"),
                   limit_of_file(folder + "/cpu.cfs_period_us"), &limits);
      }
    }
  }
  return limits;
}

}  // namespace cria::hosted
