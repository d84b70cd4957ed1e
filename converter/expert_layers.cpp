#include "converter/expert_layers.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>

#include "converter/config_numbers.h"
#include "converter/error.h"

namespace cria::converter {
namespace {

using format::Architecture;
using format::LayerKind;

constexpr const char* kCount = "num_experts";
constexpr const char* kChosen = "num_experts_per_tok";

// Whether weights of the chosen experts are divided by their sum.
enum class Normalized : uint8_t { kAlways, kUnlessKey, kWithKey };
// The MLP beside the experts.
enum class Shared : uint8_t {
  kNone,
  kGated,    // shared_expert_intermediate_size wide, times a gate
  kCounted,  // n_shared_experts times as wide as an expert
  kAsDense,  // as wide as that of layers without experts
};
// Which layers are dense.
enum class Dense : uint8_t {
  kNone,
  kListed,  // mlp_only_layers, and all but each decoder_sparse_step-th
  kFirst,   // first_k_dense_replace
};
// How DeepSeek's models choose, and LFM2's.
enum class Choice : uint8_t { kBest, kOfGroups, kBiased, kMaybeBiased };

struct ExpertsRow {
  Architecture id;
  const char* width_key;
  // Where config.json is silent; 0: it must not be.
  uint32_t width;
  uint32_t n_experts;
  uint32_t n_chosen;
  Normalized normalized;
  Shared shared = Shared::kNone;
  uint32_t shared_size = 0;  // as Shared says
  Dense dense = Dense::kNone;
  uint32_t n_dense = 0;  // as Dense says
  Choice choice = Choice::kBest;
  double scale = 1;                  // routed_scaling_factor
  const char* switch_key = nullptr;  // without it, or false: no experts, whatever their sizes say
};

constexpr const char* kExpertWidth = "moe_intermediate_size";
constexpr const char* kOnlyWidth = "intermediate_size";
constexpr ExpertsRow kRows[] = {
    {Architecture::kMixtral, kOnlyWidth, 0, 8, 2, Normalized::kAlways},
    {Architecture::kGraniteMoe, kOnlyWidth, 0, 8, 2, Normalized::kAlways},
    {Architecture::kOlmoe, kOnlyWidth, 0, 64, 8, Normalized::kWithKey},
    {Architecture::kQwen2Moe, kExpertWidth, 1408, 60, 4, Normalized::kWithKey, Shared::kGated, 5632,
     Dense::kListed},
    {Architecture::kQwen3Moe, kExpertWidth, 768, 128, 8, Normalized::kWithKey, Shared::kNone, 0,
     Dense::kListed},
    {Architecture::kGraniteHybrid, kOnlyWidth, 0, 0, 2, Normalized::kAlways, Shared::kAsDense},
    {Architecture::kQwen35Moe, kExpertWidth, 512, 256, 8, Normalized::kAlways, Shared::kGated, 512},
    {Architecture::kQwen3Next, kExpertWidth, 512, 512, 10, Normalized::kUnlessKey, Shared::kGated,
     512, Dense::kListed},
    {Architecture::kDeepseekV2, kExpertWidth, 1407, 64, 0, Normalized::kWithKey, Shared::kCounted,
     2, Dense::kFirst, 0, Choice::kOfGroups, 1},
    {Architecture::kDeepseekV3, kExpertWidth, 2048, 256, 8, Normalized::kUnlessKey,
     Shared::kCounted, 1, Dense::kFirst, 3, Choice::kBiased, 2.5},
    {Architecture::kGemma4, kExpertWidth, 0, 0, 0, Normalized::kAlways, Shared::kAsDense, 0,
     Dense::kNone, 0, Choice::kBest, 1, "enable_moe_block"},
    {Architecture::kLfm2Moe, kExpertWidth, 1792, 32, 4, Normalized::kUnlessKey, Shared::kNone, 0,
     Dense::kFirst, 2, Choice::kMaybeBiased, 1},
};

void set(LayerKind* kind, uint32_t flags) { kind->flags |= flags; }

void require_text(const JsonObject& config, const char* key, std::string_view wanted) {
  const std::string text = config.text(key).value_or(std::string(wanted));
  if (text == wanted) return;
  config.refuse(key, "'" + shown(text) + "' is not supported, only " + std::string(wanted));
}

void read_groups(const JsonObject& config, uint32_t n_groups, uint32_t n_chosen, uint8_t rank,
                 LayerKind* kind) {
  const uint32_t n_experts = kind->n_experts;
  n_groups = count_or(config, "n_group", n_groups, n_experts);
  n_chosen = count_or(config, "topk_group", n_chosen, n_groups);
  if (n_experts % n_groups != 0) {
    config.refuse("n_group", "must divide " + config.name_of(kCount));
  }
  const uint32_t in_group = n_experts / n_groups;
  if (in_group < rank) {
    config.refuse("n_group", "gives groups of " + std::to_string(in_group) +
                                 ", which are ranked by their best " + std::to_string(rank));
  }
  if (n_chosen * in_group < kind->n_chosen) {
    config.refuse("topk_group", "gives fewer experts than " + config.name_of(kChosen));
  }
  // All of one group are the best of all.
  if (n_groups == 1) return;
  kind->n_groups = static_cast<uint16_t>(n_groups);
  kind->n_groups_chosen = static_cast<uint16_t>(n_chosen);
  kind->group_rank = rank;
}

void read_deepseek_v2(const JsonObject& config, LayerKind* kind) {
  constexpr const char* kMethod = "topk_method";
  require_text(config, "scoring_func", "softmax");
  if ((kind->flags & format::flag::kNormalizedChoice) != 0) {
    config.refuse("norm_topk_prob",
                  "is not supported for this architecture: its own code and that "
                  "of transformers disagree on it");
  }
  const std::string method = config.text(kMethod).value_or("greedy");
  if (method == "greedy") return;
  if (method != "group_limited_greedy") {
    config.refuse(kMethod,
                  "'" + shown(method) + "' is not supported, only greedy and group_limited_greedy");
  }
  read_groups(config, 0, 0, 1, kind);
}

void read_deepseek_v3(const JsonObject& config, LayerKind* kind) {
  constexpr float kEpsilon = 1e-20F;
  constexpr uint32_t kGroups = 8;
  constexpr uint32_t kGroupsChosen = 4;
  require_text(config, "scoring_func", "sigmoid");
  require_text(config, "topk_method", "noaux_tc");
  kind->router_score = static_cast<uint8_t>(format::RouterScore::kSigmoid);
  set(kind, format::flag::kChoiceBias);
  if ((kind->flags & format::flag::kNormalizedChoice) != 0) kind->router_epsilon = kEpsilon;
  read_groups(config, kGroups, kGroupsChosen, 2, kind);
}

void read_lfm2(const JsonObject& config, LayerKind* kind) {
  constexpr float kEpsilon = 1e-6F;
  require_text(config, "scoring_func", "sigmoid");
  kind->router_score = static_cast<uint8_t>(format::RouterScore::kSigmoid);
  if (config.boolean("use_expert_bias").value_or(true)) set(kind, format::flag::kChoiceBias);
  if ((kind->flags & format::flag::kNormalizedChoice) != 0) kind->router_epsilon = kEpsilon;
}

// A plain router; what other models have may be there where it changes nothing.
void check_best(const JsonObject& config) {
  require_text(config, "scoring_func", "softmax");
  require_text(config, "topk_method", "greedy");
  for (const char* key : {"n_group", "routed_scaling_factor"}) {
    if (config.number(key).value_or(1) != 1) {
      config.refuse(key, "other than 1 is not supported for this architecture");
    }
  }
}

void read_choice(const JsonObject& config, const ExpertsRow& row, LayerKind* kind) {
  kind->router_score = static_cast<uint8_t>(format::RouterScore::kSoftmax);
  kind->router_scale = 1;
  const bool is_normalized =
      row.normalized == Normalized::kAlways ||
      config.boolean("norm_topk_prob").value_or(row.normalized == Normalized::kUnlessKey);
  if (is_normalized) set(kind, format::flag::kNormalizedChoice);
  if (row.choice == Choice::kBest) return check_best(config);
  kind->router_scale = read_multiplier(config, "routed_scaling_factor", row.scale);
  if (row.choice == Choice::kOfGroups) read_deepseek_v2(config, kind);
  if (row.choice == Choice::kBiased) read_deepseek_v3(config, kind);
  if (row.choice == Choice::kMaybeBiased) read_lfm2(config, kind);
}

uint32_t read_shared(const JsonObject& config, const ExpertsRow& row, LayerKind* kind) {
  switch (row.shared) {
    case Shared::kNone:
      return 0;
    case Shared::kAsDense:
      return kind->d_ff;
    case Shared::kGated:
      set(kind, format::flag::kSharedGate);
      return count_or(config, "shared_expert_intermediate_size", row.shared_size,
                      format::kMaxFfnWidth);
    case Shared::kCounted:
      break;
  }
  constexpr const char* kKey = "n_shared_experts";
  // null means none; only silence brings the default.
  const uint32_t n = config.count(kKey).value_or(config.contains(kKey) ? 0 : row.shared_size);
  check_within(config, kKey, n, 0, format::kMaxFfnWidth / kind->expert_ff);
  return n * kind->expert_ff;
}

// A layer of those with experts.
LayerKind with_experts(const JsonObject& config, const ExpertsRow& row, uint32_t n_experts,
                       const LayerKind& dense) {
  LayerKind kind = dense;
  kind.feed_forward = static_cast<uint8_t>(format::FeedForward::kExperts);
  check_within(config, kCount, n_experts, 1, format::kMaxExperts);
  kind.n_experts = static_cast<uint16_t>(n_experts);
  kind.n_chosen = static_cast<uint16_t>(
      count_or(config, kChosen, row.n_chosen, std::min(n_experts, format::kMaxChosen)));
  kind.expert_ff = count_or(config, row.width_key, row.width, format::kMaxFfnWidth);
  if (uint64_t{n_experts} * kind.expert_ff > format::kMaxExpertRows) {
    config.refuse(row.width_key, "times " + config.name_of(kCount) + " must be at most " +
                                     std::to_string(format::kMaxExpertRows));
  }
  kind.d_ff = read_shared(config, row, &kind);
  read_choice(config, row, &kind);
  return kind;
}

// Whether each layer has experts.
std::vector<bool> expert_layers(const JsonObject& config, const ExpertsRow& row, uint32_t n_experts,
                                size_t n_layers) {
  std::vector<bool> layers(n_layers, row.shared != Shared::kAsDense || n_experts != 0);
  if (row.dense == Dense::kListed) {
    constexpr const char* kStep = "decoder_sparse_step";
    const uint32_t step = config.count(kStep).value_or(1);
    if (step == 0) config.refuse(kStep, "must be above zero");
    for (size_t i = 0; i < n_layers; ++i) layers[i] = (i + 1) % step == 0 && n_experts != 0;
    for (const uint32_t i : config.counts("mlp_only_layers").value_or(std::vector<uint32_t>())) {
      if (i < n_layers) layers[i] = false;
    }
  }
  constexpr const char* kEach = "moe_layer_freq";
  if (config.count(kEach).value_or(1) != 1) {
    config.refuse(kEach, "other than 1 is not supported: it leaves some layers without experts");
  }
  if (row.dense == Dense::kFirst) {
    const uint32_t n_dense = config.count("first_k_dense_replace").value_or(row.n_dense);
    std::fill_n(layers.begin(), std::min<size_t>(n_dense, n_layers), false);
  }
  return layers;
}

}  // namespace

void read_experts(const JsonObject& config, const ArchitectureRow& row,
                  std::vector<LayerKind>* layers) {
  const auto* found = std::find_if(std::begin(kRows), std::end(kRows),
                                   [&](const ExpertsRow& r) { return r.id == row.id; });
  if (found == std::end(kRows)) return;
  if (found->switch_key != nullptr) {
    if (!config.boolean(found->switch_key).value_or(false)) return;
    (void)required_within(config, kCount, format::kMaxExperts);
  }
  const uint32_t n_experts = config.count(kCount).value_or(found->n_experts);
  const std::vector<bool> are = expert_layers(config, *found, n_experts, layers->size());
  for (size_t i = 0; i < layers->size(); ++i) {
    if (are[i]) (*layers)[i] = with_experts(config, *found, n_experts, (*layers)[i]);
  }
}

}  // namespace cria::converter
