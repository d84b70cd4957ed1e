#include "quant/model/model_config.h"

#include <bit>
#include <cfloat>
#include <cstring>
#include <iterator>
#include <type_traits>

#include "quant/blocks/block_formats.h"
#include "quant/format/align.h"
#include "quant/format/all_zero.h"
#include "quant/model/model_layout.h"
#include "quant/numbers/number_formats.h"

namespace cria {
namespace {

using format::LayerKind;
using format::ModelScalars;
using format::TensorRole;

// Fields and their limits -----------------------------------------------------------------------

enum class Number : uint8_t { kU8, kU16, kU32, kF32 };

// Takes no room where fields have no names.
struct NoName {
  consteval explicit(false) NoName(const char* /*name*/) {}
  explicit(false) operator const char*() const { return ""_reason; }
};
using FieldName = std::conditional_t<kHasReasons, const char*, NoName>;

struct FieldRow {
  [[no_unique_address]] FieldName name;
  uint8_t offset;
  Number number;
  uint8_t users;       // of LayerKind's, the blocks that use it
  uint32_t low, high;  // f32: their bits
};

template <typename T>
consteval Number number_of() {
  if (std::is_same_v<T, float>) return Number::kF32;
  return sizeof(T) == 1 ? Number::kU8 : sizeof(T) == 2 ? Number::kU16 : Number::kU32;
}
template <typename T>
consteval uint32_t limit(T value) {
  if constexpr (std::is_same_v<T, float>) {
    return std::bit_cast<uint32_t>(value);
  } else {
    return value;
  }
}

// NOLINTNEXTLINE(cppcoreguidelines-macro-usage): a member's name and offset
#define CRIA_FIELD(Struct, field, users, low, high)                                             \
  {                                                                                             \
#field, offsetof(Struct, field), number_of < decltype(Struct::field)>(), users, limit(low), \
        limit(high)                                                                             \
  }

constexpr float kBelowOne = 1 - FLT_EPSILON / 2;
constexpr float kAboveZero = FLT_TRUE_MIN;

constexpr FieldRow kScalarFields[] = {
    // One without a name here is a family that came later.
    CRIA_FIELD(ModelScalars, architecture, 0, 1u, UINT32_MAX),
    CRIA_FIELD(ModelScalars, flags, 0, 0u, format::kKnownModelFlags),
    CRIA_FIELD(ModelScalars, n_layers, 0, 1u, format::kMaxLayers),
    CRIA_FIELD(ModelScalars, n_kinds, 0, 1u, format::kMaxKinds),
    CRIA_FIELD(ModelScalars, n_counts, 0, 1u, format::kMaxCounts),
    CRIA_FIELD(ModelScalars, d_model, 0, 1u, format::kMaxModelWidth),
    CRIA_FIELD(ModelScalars, vocab_size, 0, 1u, format::kMaxVocab),
    CRIA_FIELD(ModelScalars, max_context, 0, 1u, format::kMaxContext),
    CRIA_FIELD(ModelScalars, planned_context, 0, 1u, format::kMaxContext),
    CRIA_FIELD(ModelScalars, compression, 0, 0u, 2u),
    CRIA_FIELD(ModelScalars, final_norm, 0, 1u, 2u),
    CRIA_FIELD(ModelScalars, norm_epsilon, 0, 0.0f, kBelowOne),
    CRIA_FIELD(ModelScalars, embedding_multiplier, 0, -FLT_MAX, FLT_MAX),
    CRIA_FIELD(ModelScalars, residual_multiplier, 0, -FLT_MAX, FLT_MAX),
    CRIA_FIELD(ModelScalars, logits_divisor, 0, kAboveZero, FLT_MAX),
    CRIA_FIELD(ModelScalars, logits_cap, 0, 0.0f, FLT_MAX),
    CRIA_FIELD(ModelScalars, per_layer_width, 0, 0u, format::kMaxPerLayerWidth),
    CRIA_FIELD(ModelScalars, per_layer_table_multiplier, 0, -FLT_MAX, FLT_MAX),
    CRIA_FIELD(ModelScalars, per_layer_input_multiplier, 0, -FLT_MAX, FLT_MAX),
    CRIA_FIELD(ModelScalars, per_layer_sum_multiplier, 0, -FLT_MAX, FLT_MAX),
    CRIA_FIELD(ModelScalars, n_end_tokens, 0, 0u, format::kMaxEndTokens),
    CRIA_FIELD(ModelScalars, n_rope_tables, 0, 0u, format::kMaxRopeTables),
    CRIA_FIELD(ModelScalars, pooling, 0, 0u, static_cast<uint32_t>(format::Pooling::kFirst)),
};

// Blocks that use a field.
constexpr uint8_t kAttention = 1 << 0;
constexpr uint8_t kLatent = 1 << 1;
constexpr uint8_t kShort = 1 << 2;
constexpr uint8_t kDelta = 1 << 3;
constexpr uint8_t kStateSpace = 1 << 4;
constexpr uint8_t kDense = 1 << 5;
constexpr uint8_t kExperts = 1 << 6;
constexpr uint8_t kClamped = 1 << 7;  // an activation
constexpr uint8_t kScores = kAttention | kLatent;
constexpr uint8_t kStates = kDelta | kStateSpace;
constexpr uint8_t kAll = 0xff;

constexpr FieldRow kKindFields[] = {
    CRIA_FIELD(LayerKind, norm, kAll, 1u, 2u),
    CRIA_FIELD(LayerKind, activation, kDense | kExperts, 1u, uint32_t{format::kActivations}),
    CRIA_FIELD(LayerKind, n_query_heads, kScores | kStates, 1u, format::kMaxHeads),
    CRIA_FIELD(LayerKind, n_key_heads, kScores | kStates, 1u, format::kMaxHeads),
    CRIA_FIELD(LayerKind, n_value_heads, kScores | kStates, 1u, format::kMaxHeads),
    CRIA_FIELD(LayerKind, key_dim, kScores | kStates, 2u, format::kMaxHeadDim),
    CRIA_FIELD(LayerKind, value_dim, kScores | kStates, 2u, format::kMaxHeadDim),
    CRIA_FIELD(LayerKind, query_rank, kLatent, 0u, format::kMaxRank),
    CRIA_FIELD(LayerKind, latent_rank, kLatent, 2u, format::kMaxHeadDim),
    CRIA_FIELD(LayerKind, shared_key_dim, kLatent, 0u, format::kMaxHeadDim),
    CRIA_FIELD(LayerKind, conv_taps, kShort | kStates, format::kMinTaps, format::kMaxTaps),
    CRIA_FIELD(LayerKind, router_score, kExperts, 1u, 2u),
    CRIA_FIELD(LayerKind, window, kScores, 0u, format::kMaxContext),
    CRIA_FIELD(LayerKind, score_multiplier, kScores, -FLT_MAX, FLT_MAX),
    CRIA_FIELD(LayerKind, score_cap, kScores, 0.0f, FLT_MAX),
    CRIA_FIELD(LayerKind, qkv_clip, kAttention, 0.0f, FLT_MAX),
    CRIA_FIELD(LayerKind, query_growth, kScores, -FLT_MAX, FLT_MAX),
    CRIA_FIELD(LayerKind, query_growth_period, kScores, 0u, format::kMaxContext),
    CRIA_FIELD(LayerKind, norm_epsilon, kAll, 0.0f, kBelowOne),
    CRIA_FIELD(LayerKind, inner_epsilon, kAll, 0.0f, kBelowOne),
    CRIA_FIELD(LayerKind, unit_epsilon, kDelta, 0.0f, kBelowOne),
    CRIA_FIELD(LayerKind, d_ff, kDense | kExperts, 0u, format::kMaxFfnWidth),
    CRIA_FIELD(LayerKind, expert_ff, kExperts, 1u, format::kMaxFfnWidth),
    CRIA_FIELD(LayerKind, n_experts, kExperts, 1u, format::kMaxExperts),
    CRIA_FIELD(LayerKind, n_chosen, kExperts, 1u, format::kMaxChosen),
    CRIA_FIELD(LayerKind, n_groups, kExperts, 0u, format::kMaxExperts),
    CRIA_FIELD(LayerKind, n_groups_chosen, kExperts, 0u, format::kMaxExperts),
    CRIA_FIELD(LayerKind, group_rank, kExperts, 0u, 2u),
    CRIA_FIELD(LayerKind, router_epsilon, kExperts, 0.0f, kBelowOne),
    CRIA_FIELD(LayerKind, router_scale, kExperts, -FLT_MAX, FLT_MAX),
    CRIA_FIELD(LayerKind, activation_alpha, kClamped, -FLT_MAX, FLT_MAX),
    CRIA_FIELD(LayerKind, activation_limit, kClamped, kAboveZero, FLT_MAX),
};
#undef CRIA_FIELD

uint32_t value_at(const uint8_t* p, Number number) {
  uint32_t value = *p;
  if (number == Number::kU16) value |= uint32_t{p[1]} << 8;
  if (number == Number::kU32 || number == Number::kF32) std::memcpy(&value, p, sizeof value);
  return value;
}

// Whether a field has a value within its limits or, where nobody uses it, none.
bool holds(const FieldRow& row, const void* fields, bool is_used) {
  const uint32_t value = value_at(static_cast<const uint8_t*>(fields) + row.offset, row.number);
  if (!is_used) return value == 0;
  if (row.number != Number::kF32) return value >= row.low && value <= row.high;
  const auto number = std::bit_cast<float>(value);
  return number >= std::bit_cast<float>(row.low) && number <= std::bit_cast<float>(row.high);
}

// Scalars ---------------------------------------------------------------------------------------

const char* check_tokens(const ModelScalars& m) {
  if (m.bos_token != format::kNone && m.bos_token >= m.vocab_size) return "bos_token"_reason;
  for (uint32_t i = 0; i < format::kMaxEndTokens; ++i) {
    if (i < m.n_end_tokens ? m.end_tokens[i] >= m.vocab_size : m.end_tokens[i] != 0) {
      return "end_tokens"_reason;
    }
  }
  return nullptr;
}

bool holds(const format::RopeTable& table, uint32_t max_context) {
  return table.n_pairs >= 1 && table.n_pairs <= format::kMaxHeadDim / 2 &&
         table.factor >= -FLT_MAX && table.factor <= FLT_MAX &&
         table.original_context < max_context && table.reserved == 0;
}

const char* check_rope_tables(const ModelScalars& m) {
  for (uint32_t i = 0; i < format::kMaxRopeTables; ++i) {
    const format::RopeTable& table = m.rope_tables[i];
    uint8_t bytes[sizeof table];
    std::memcpy(bytes, &table, sizeof table);
    if (i < m.n_rope_tables ? !holds(table, m.max_context) : !all_zero(bytes))
      return "rope_tables"_reason;
  }
  return nullptr;
}

// Numbers that belong to per-layer embeddings are zero where there are none.
const char* check_per_layer(const ModelScalars& m) {
  const float multipliers[] = {m.per_layer_table_multiplier, m.per_layer_input_multiplier,
                               m.per_layer_sum_multiplier};
  if (m.per_layer_width != 0) return nullptr;
  for (const float value : multipliers) {
    if (std::bit_cast<uint32_t>(value) != 0) return "per_layer_width"_reason;
  }
  return nullptr;
}

// Kinds -----------------------------------------------------------------------------------------

uint8_t users_of(const LayerKind& k) {
  const auto bit = [](uint8_t first, uint8_t number) -> uint8_t {
    return static_cast<uint8_t>(number == 0 ? 0 : first << (number - 1));
  };
  const bool is_clamped = k.activation == static_cast<uint8_t>(format::Activation::kClampedSwiglu);
  return static_cast<uint8_t>(bit(kAttention, k.mixer) | bit(kDense, k.feed_forward) |
                              (is_clamped && k.feed_forward != 0 ? kClamped : 0));
}

bool flags_hold(const LayerKind& k, const ModelScalars& m) {
  uint32_t allowed = kMixerFormats[k.mixer].flags | kFeedForwardFormats[k.feed_forward].flags |
                     format::flag::kLayerScale;
  if (k.mixer != 0) allowed |= format::flag::kMixerNorm | format::flag::kMixerOutNorm;
  if (k.feed_forward != 0) allowed |= format::flag::kFfnNorm | format::flag::kFfnOutNorm;
  // An MLP of its own activates per-layer inputs, with no gate that could be clamped.
  const bool is_clamped = k.activation == static_cast<uint8_t>(format::Activation::kClampedSwiglu);
  if (m.per_layer_width != 0 && k.feed_forward != 0 && !is_clamped) {
    allowed |= format::flag::kPerLayerInput;
  }
  return (k.flags & ~allowed) == 0 && (!is_clamped || has_flag(k, format::flag::kGated));
}

// What builds without variants know of kinds and models.
bool is_plain(const LayerKind& k) {
  constexpr uint32_t kFlags = format::flag::kMixerNorm | format::flag::kFfnNorm |
                              format::flag::kMixerBias | format::flag::kOutputBias |
                              format::flag::kFfnBias | format::flag::kHeadNorms |
                              format::flag::kGated;
  const bool is_silu =
      k.feed_forward == 0 || (k.activation == static_cast<uint8_t>(format::Activation::kSilu) &&
                              has_flag(k, format::flag::kGated));
  const bool is_latent = k.mixer == static_cast<uint8_t>(format::Mixer::kLatentAttention);
  return is_silu && k.norm == static_cast<uint8_t>(format::Norm::kRms) && k.score_cap == 0 &&
         k.qkv_clip == 0 && k.query_growth == 0 && (is_latent || k.key_dim == k.value_dim) &&
         k.shared_with == format::kNoKind && (k.flags & ~kFlags) == 0;
}
bool is_plain(const ModelScalars& m) {
  return m.final_norm == static_cast<uint32_t>(format::Norm::kRms) && m.logits_cap == 0 &&
         m.per_layer_width == 0 && (m.flags & format::kLearnedPositions) == 0;
}

// Rows of all heads together.
const char* check_widths(const LayerKind& k, const ModelScalars& m) {
  constexpr struct {
    const char* name;
    Size width;
  } kWidths[] = {{"n_query_heads"_reason, extents::kQueries},
                 {"n_value_heads"_reason, extents::kValues},
                 {"value_dim"_reason, extents::kAttended}};
  for (const auto& row : kWidths) {
    if (row.width(m, k) > format::kMaxModelWidth) return row.name;
  }
  if (k.key_dim % 2 != 0) return "key_dim"_reason;
  return k.value_dim % 2 != 0 ? "value_dim"_reason : nullptr;
}

const char* check_rope_table(const LayerKind& k, const ModelScalars& m, uint8_t users) {
  if (k.rope_table == format::kNoTable) return nullptr;
  if ((users & kScores) == 0 || k.rope_table >= m.n_rope_tables) return "rope_table"_reason;
  const uint32_t turned = (users & kLatent) != 0 ? k.shared_key_dim : k.key_dim;
  return 2 * m.rope_tables[k.rope_table].n_pairs > turned ? "rope_table"_reason : nullptr;
}

const char* check_kind(const LayerKind& k, const ModelScalars& m) {
  if (k.mixer >= std::size(kMixerFormats)) return "mixer"_reason;
  if (k.feed_forward >= std::size(kFeedForwardFormats)) return "feed_forward"_reason;
  if (k.mixer == 0 && k.feed_forward == 0) return "mixer"_reason;
  if (!is_known(kMixerFormats[k.mixer], k.mixer) ||
      !is_known(kFeedForwardFormats[k.feed_forward], k.feed_forward)) {
    return kLeftOut;
  }
  const uint8_t users = users_of(k);
  for (const FieldRow& row : kKindFields) {
    if (!holds(row, &k, (row.users & users) != 0 || row.users == kAll)) return row.name;
  }
  if (!flags_hold(k, m)) return "flags"_reason;
  if (!kHasVariants && !is_plain(k)) return kLeftOut;
  if (const char* field = check_widths(k, m)) return field;
  if (const char* field = check_rope_table(k, m, users)) return field;
  if (k.shared_with != format::kNoKind && (users & kAttention) == 0) return "shared_with"_reason;
  if ((k.query_growth == 0) != (k.query_growth_period == 0)) return "query_growth_period"_reason;
  if (k.feed_forward == static_cast<uint8_t>(format::FeedForward::kDense) && k.d_ff == 0) {
    return "d_ff"_reason;
  }
  for (const BlockFormat* block : {&kMixerFormats[k.mixer], &kFeedForwardFormats[k.feed_forward]}) {
    const char* field = block->check == nullptr ? nullptr : block->check(k);
    if (field != nullptr) return field;
  }
  return all_zero(k.reserved) && all_zero(k.reserved2) ? nullptr : "reserved"_reason;
}

// Layers ----------------------------------------------------------------------------------------

// Kinds are numbered in the order in which they appear, and each does.
const char* check_layers(const Config& c) {
  size_t n_seen = 0;
  for (const uint8_t kind : c.layers) {
    if (kind > n_seen || kind >= c.kinds.size()) return "layers"_reason;
    if (kind == n_seen) ++n_seen;
  }
  return n_seen == c.kinds.size() ? nullptr : "layers"_reason;
}

// Whether kind number i may read what layers of the kind that it names have written.
bool can_share(const Config& c, size_t i) {
  const LayerKind& k = c.kinds[i];
  if (k.shared_with >= c.kinds.size()) return false;
  const LayerKind& from = c.kinds[k.shared_with];
  // The first layer of a kind has the least before it; kinds are numbered as they appear.
  return k.shared_with < i && from.mixer == k.mixer && attention::has_own_rows(from) &&
         from.n_key_heads == k.n_key_heads && from.key_dim == k.key_dim &&
         from.value_dim == k.value_dim && from.window == k.window;
}

// Counts ----------------------------------------------------------------------------------------

// Walks over the counts: whether those of a row of a kind are what there is.
class CountCheck {
 public:
  explicit CountCheck(const Config& c) : config_(&c) {}

  // Counts of a kind and role of a matrix sum up to n.
  [[nodiscard]] bool sums_up(uint8_t kind, TensorRole role, uint32_t n) {
    uint64_t sum = 0;
    for (const format::MatrixCount& count : config_->counts) {
      if (count.kind != kind || count.role != static_cast<uint16_t>(role)) continue;
      sum += count.count;
      ++n_used_;
    }
    return sum == n;
  }
  // Whether each count was some matrix's.
  [[nodiscard]] bool used_all() const { return n_used_ == config_->counts.size(); }

 private:
  const Config* config_;
  size_t n_used_ = 0;
};

bool ascend(std::span<const format::MatrixCount> counts) {
  const auto place = [](const format::MatrixCount& count) {
    return uint32_t{count.kind} << 24 | uint32_t{count.role} << 8 | count.format;
  };
  for (size_t i = 0; i < counts.size(); ++i) {
    if (counts[i].count == 0 || counts[i].format >= std::size(kMatrixFormats)) return false;
    if (i > 0 && place(counts[i]) <= place(counts[i - 1])) return false;
  }
  return true;
}

bool counts_hold(const Config& c) {
  if (!ascend(c.counts)) return false;
  CountCheck check(c);
  const auto hold = [&](std::span<const TensorRow> rows, const LayerKind& k, uint8_t kind,
                        uint32_t n) {
    for (const TensorRow& row : rows) {
      if (row.form != TensorForm::kMatrix || row.n_matrices(*c.model, k) == 0) continue;
      if (!check.sums_up(kind, row.role, n)) return false;
    }
    return true;
  };
  for (size_t i = 0; i < c.kinds.size(); ++i) {
    uint32_t n_layers = 0;
    for (const uint8_t kind : c.layers) n_layers += kind == i ? 1 : 0;
    for (size_t part = 0; part < kLayerParts; ++part) {
      const auto kind = static_cast<uint8_t>(i);
      if (!hold(layer_part(c.kinds[i], part), c.kinds[i], kind, n_layers)) return false;
    }
  }
  for (size_t part = 0; part < kModelParts; ++part) {
    if (!hold(model_part(part), kOutsideLayers, format::kNoKind, 1)) return false;
  }
  return check.used_all();
}

bool may_have_signed_scales(const Config& c) {
  for (const format::MatrixCount& count : c.counts) {
    if (may_be_signed(kMatrixFormats[count.format].number_format)) return true;
  }
  return false;
}

bool has_staying_matrix(const Config& c) {
  for (const format::MatrixCount& count : c.counts) {
    if (stays_in_file(static_cast<TensorRole>(count.role))) return true;
  }
  return false;
}

constexpr uint64_t layers_bytes(uint32_t n_layers) { return round_up(n_layers, 8); }

Config view(const uint8_t* section) {
  Config c;
  c.model = reinterpret_cast<const ModelScalars*>(section);
  const uint8_t* p = section + sizeof *c.model;
  c.kinds = {reinterpret_cast<const LayerKind*>(p), c.model->n_kinds};
  p += c.kinds.size_bytes();
  c.layers = {p, c.model->n_layers};
  p += layers_bytes(c.model->n_layers);
  c.counts = {reinterpret_cast<const format::MatrixCount*>(p), c.model->n_counts};
  return c;
}

const char* check_scalars(const ModelScalars& m) {
  for (const FieldRow& row : kScalarFields) {
    if (!holds(row, &m, true)) return row.name;
  }
  if (m.planned_context > m.max_context) return "planned_context"_reason;
  if ((m.flags & format::kUnitEmbeddings) != 0 && m.pooling == 0) return "flags"_reason;
  if ((m.flags & format::kLearnedPositions) != 0 &&
      uint64_t{m.max_context} * m.d_model > format::kMaxVectorLength) {
    return "max_context"_reason;
  }
  if (const char* field = check_tokens(m)) return field;
  if (const char* field = check_rope_tables(m)) return field;
  if (const char* field = check_per_layer(m)) return field;
  if (!all_zero(m.reserved)) return "reserved"_reason;
  if (!kHasVariants && !is_plain(m)) return kLeftOut;
  return config_bytes(m) > format::kMaxConfigBytes ? "n_counts"_reason : nullptr;
}

}  // namespace

uint64_t config_bytes(const ModelScalars& m) {
  return sizeof m + uint64_t{m.n_kinds} * sizeof(LayerKind) + layers_bytes(m.n_layers) +
         uint64_t{m.n_counts} * sizeof(format::MatrixCount);
}

const char* check_config(const Config& c) {
  if (const char* field = check_scalars(*c.model)) return field;
  for (const LayerKind& kind : c.kinds) {
    if (const char* field = check_kind(kind, *c.model)) return field;
  }
  if (const char* field = check_layers(c)) return field;
  for (size_t i = 0; i < c.kinds.size(); ++i) {
    if (!attention::has_own_rows(c.kinds[i]) && !can_share(c, i)) return "shared_with"_reason;
  }
  if (!counts_hold(c)) return "matrix counts"_reason;
  if (has_flag(c, format::kSignedScales) && !may_have_signed_scales(c)) return "flags"_reason;
  const auto compression = static_cast<format::FileCompression>(c.model->compression);
  const bool keeps = compression == format::FileCompression::kKeepsLarge;
  return keeps && !has_staying_matrix(c) ? "compression"_reason : nullptr;
}

const char* read_config(std::span<const uint8_t> section, Config* config) {
  if (section.size() < sizeof(ModelScalars)) return "size of the config"_reason;
  const auto* model = reinterpret_cast<const ModelScalars*>(section.data());
  if (const char* field = check_scalars(*model)) return field;
  if (config_bytes(*model) != section.size()) return "size of the config"_reason;
  *config = view(section.data());
  for (const uint8_t* p = config->layers.data() + config->layers.size();
       p != reinterpret_cast<const uint8_t*>(config->counts.data()); ++p) {
    if (*p != 0) return "layers"_reason;
  }
  return check_config(*config);
}

size_t write_config(const Config& parts, ConfigBytes* section) {
  ModelScalars m = *parts.model;
  m.n_layers = static_cast<uint32_t>(parts.layers.size());
  m.n_kinds = static_cast<uint32_t>(parts.kinds.size());
  m.n_counts = static_cast<uint32_t>(parts.counts.size());
  const uint64_t n_bytes = config_bytes(m);
  if (n_bytes > sizeof section->bytes) return 0;
  *section = {};
  uint8_t* p = section->bytes;
  const auto put = [&](const void* from, size_t n) {
    if (n != 0) std::memcpy(p, from, n);
    p += n;
  };
  put(&m, sizeof m);
  put(parts.kinds.data(), parts.kinds.size_bytes());
  put(parts.layers.data(), parts.layers.size());
  p += layers_bytes(m.n_layers) - parts.layers.size();
  put(parts.counts.data(), parts.counts.size_bytes());
  return static_cast<size_t>(n_bytes);
}

Config view_config(const ConfigBytes& section) { return view(section.bytes); }

Config move_section(const Config& from, uint8_t* to) {
  std::memmove(to, from.model, static_cast<size_t>(config_bytes(*from.model)));
  return view(to);
}

}  // namespace cria
