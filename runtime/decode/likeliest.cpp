#include "runtime/decode/likeliest.h"

#include <algorithm>
#include <cmath>

namespace cria {
namespace {

constexpr size_t kGroup = 64;
constexpr size_t kLanes = 16;
static_assert(kGroup % kLanes == 0);

// The comparison is false for what is not a number, which so counts as -inf. Lanes let the compiler
// take as many logits at once as its instruction set has.
float largest_of_group(const float* logits) {
  float lanes[kLanes];
  std::fill(std::begin(lanes), std::end(lanes), -HUGE_VALF);
  for (size_t i = 0; i < kGroup; i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      lanes[lane] = logits[i + lane] > lanes[lane] ? logits[i + lane] : lanes[lane];
    }
  }
  return *std::max_element(std::begin(lanes), std::end(lanes));
}

float largest_of(std::span<const float> logits) {
  if (logits.size() == kGroup) return largest_of_group(logits.data());
  float largest = -HUGE_VALF;
  for (const float logit : logits) largest = logit > largest ? logit : largest;
  return largest;
}

}  // namespace

std::span<Candidate> likeliest(std::span<const float> logits, size_t n, std::span<Candidate> room) {
  // A group's largest logit stands at the end of room, with the group's first token.
  const size_t n_groups = (logits.size() + kGroup - 1) / kGroup;
  if (n > n_groups / 2 || n_groups > room.size()) return {};
  const std::span<Candidate> groups = room.last(n_groups);
  const std::span<Candidate> places = room.first(room.size() - n_groups);
  const auto group_at = [logits](size_t first) {
    return logits.subspan(first, std::min(kGroup, logits.size() - first));
  };
  for (size_t i = 0; i < n_groups; ++i) {
    groups[i] = {largest_of(group_at(i * kGroup)), static_cast<uint32_t>(i * kGroup)};
  }
  // As many groups have one that is not below the n-th largest of their maxima, so the n-th largest
  // of all is not below it either.
  const auto nth = groups.begin() + static_cast<ptrdiff_t>(n - 1);
  std::nth_element(groups.begin(), nth, groups.end(),
                   [](const Candidate& a, const Candidate& b) { return a.logit > b.logit; });
  const float least = nth->logit;
  size_t n_found = 0;
  for (const Candidate& group : groups) {
    if (group.logit < least) continue;
    const std::span<const float> members = group_at(group.token);
    if (members.size() > places.size() - n_found) return {};
    for (size_t i = 0; i < members.size(); ++i) {
      const float logit = comparable(members[i]);
      if (logit >= least) {
        places[n_found++] = {logit, group.token + static_cast<uint32_t>(i)};
      }
    }
  }
  return places.first(n_found);
}

}  // namespace cria
