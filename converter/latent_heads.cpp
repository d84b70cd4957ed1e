#include "converter/latent_heads.h"

#include <string>

#include "converter/config_numbers.h"

namespace cria::converter {
namespace {

constexpr uint32_t kQueryRank = 1536;
constexpr uint32_t kLatentRank = 512;
constexpr uint32_t kOwnKeyDim = 128;
constexpr uint32_t kSharedKeyDim = 64;
constexpr uint32_t kValueDim = 128;
// Of the norms inside, whatever the config says of others.
constexpr float kInnerEpsilon = 1e-6F;

// An even number of elements of a head.
uint16_t read_dim(const JsonObject& config, const char* key, uint32_t otherwise) {
  const uint32_t dim = count_or(config, key, otherwise, format::kMaxHeadDim);
  if (dim % 2 != 0) config.refuse(key, "must be even");
  return static_cast<uint16_t>(dim);
}

}  // namespace

void read_latent_heads(const JsonObject& config, format::LayerKind* kind) {
  const uint32_t n_heads = required_within(config, "num_attention_heads", format::kMaxHeads);
  if (config.count("num_key_value_heads").value_or(n_heads) != n_heads) {
    config.refuse("num_key_value_heads",
                  "must be " + config.name_of("num_attention_heads") + ": all heads have keys");
  }
  const uint16_t own = read_dim(config, "qk_nope_head_dim", kOwnKeyDim);
  const uint16_t shared = read_dim(config, "qk_rope_head_dim", kSharedKeyDim);
  const uint32_t key_dim = uint32_t{own} + shared;
  const auto refuse_product = [&](const char* key) {
    config.refuse(key, "times " + config.name_of("num_attention_heads") + " must be at most " +
                           std::to_string(format::kMaxModelWidth));
  };
  if (key_dim > format::kMaxHeadDim) {
    config.refuse("qk_nope_head_dim", "and " + config.name_of("qk_rope_head_dim") +
                                          " must be together at most " +
                                          std::to_string(format::kMaxHeadDim));
  }
  kind->mixer = static_cast<uint8_t>(format::Mixer::kLatentAttention);
  kind->n_query_heads = static_cast<uint16_t>(n_heads);
  kind->n_key_heads = 1;
  kind->n_value_heads = 1;
  kind->key_dim = static_cast<uint16_t>(key_dim);
  kind->value_dim = read_dim(config, "v_head_dim", kValueDim);
  kind->shared_key_dim = shared;
  kind->latent_rank =
      static_cast<uint16_t>(count_or(config, "kv_lora_rank", kLatentRank, format::kMaxHeadDim));
  if (kind->latent_rank < 2) config.refuse("kv_lora_rank", "must be above 1");
  // null means that queries are not compressed; only silence brings the default.
  const uint32_t query_rank =
      config.count("q_lora_rank").value_or(config.contains("q_lora_rank") ? 0 : kQueryRank);
  check_within(config, "q_lora_rank", query_rank, 0, format::kMaxRank);
  kind->query_rank = static_cast<uint16_t>(query_rank);
  kind->inner_epsilon = kInnerEpsilon;
  if (n_heads * key_dim > format::kMaxModelWidth) refuse_product("qk_nope_head_dim");
  if (n_heads * kind->value_dim > format::kMaxModelWidth) refuse_product("v_head_dim");
  if (n_heads * kind->latent_rank > format::kMaxModelWidth) refuse_product("kv_lora_rank");
}

}  // namespace cria::converter
