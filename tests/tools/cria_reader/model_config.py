"""Part 2 of docs/model_format.md: the config, with every limit. What is refused has the name of a field."""
import math

from cria_reader import config_fields as fields
from cria_reader.config_fields import (ACTIVATIONS, ATTENTION, CLAMPED_SWIGLU, COMPRESSED_BUT_STAYING, CONVOLUTION, COUNT, DELTA,
                                       DENSE, EXPERTS, FORMATS, KIND, KIND_FLAGS, LATENT, LAYER_NORM, LEARNED_POSITIONS, MOST_CONFIG_BYTES,
                                       NIBBLES, NO_FEED_FORWARD, NO_KIND, NO_MIXER, NO_TABLE, NONE, RMS, ROPE_TABLE, SCALARS,
                                       SIGNED_SCALES, STATE_SPACE, UNIT_EMBEDDINGS, flag_bits)
from cria_reader.refusal import require
from cria_reader.roles import n_matrices

MOST_MODEL_FLAGS = 15
MOST_WIDTH = 1 << 17          # of the residual stream, and of all heads of a projection
MOST_POSITIONS = 1 << 31      # values of learned ones
MOST_ROWS_OF_EXPERTS = 1 << 24

# Least and most.
SCALAR_LIMITS = {
    "architecture": (1, NONE), "flags": (0, MOST_MODEL_FLAGS), "n_layers": (1, 1024), "n_kinds": (1, 16), "n_counts": (1, 463),
    "d_model": (1, MOST_WIDTH), "vocab_size": (1, 1 << 21), "max_context": (1, 1 << 24), "compression": (0, 2),
    "final_norm": (RMS, LAYER_NORM), "per_layer_width": (0, 4096), "n_end_tokens": (0, fields.MOST_END_TOKENS),
    "n_rope_tables": (0, fields.MOST_ROPE_TABLES), "pooling": (0, 3)}
SCALAR_FLOATS = ("norm_epsilon embedding_multiplier residual_multiplier logits_divisor logits_cap per_layer_table_multiplier "
                 "per_layer_input_multiplier per_layer_sum_multiplier").split()
PER_LAYER = [name for name in SCALAR_FLOATS if name.startswith("per_layer_")]

HEADS = "n_query_heads n_key_heads n_value_heads key_dim value_dim "
SCORES = "window score_multiplier score_cap query_growth query_growth_period rope_table "
MIXER_FIELDS = {
    NO_MIXER: "",
    ATTENTION: HEADS + SCORES + "shared_with qkv_clip",
    LATENT: HEADS + SCORES + "query_rank latent_rank shared_key_dim",
    CONVOLUTION: "conv_taps",
    DELTA: HEADS + "conv_taps unit_epsilon",
    STATE_SPACE: HEADS + "conv_taps"}
OF_ACTIVATION = "activation activation_alpha activation_limit d_ff "
FEED_FORWARD_FIELDS = {
    NO_FEED_FORWARD: "",
    DENSE: OF_ACTIVATION,
    EXPERTS: OF_ACTIVATION + ("expert_ff n_experts n_chosen n_groups n_groups_chosen group_rank router_score router_epsilon "
                              "router_scale")}
OF_EVERY_KIND = "mixer feed_forward norm flags norm_epsilon inner_epsilon"

ANY_MIXER = "mixer_norm mixer_out_norm input_bias output_bias "
MIXER_FLAGS = {
    NO_MIXER: "",
    ATTENTION: ANY_MIXER + ("head_norms projection_norms value_norms keys_as_values sinks mixer_gate mixer_inner_norm"),
    LATENT: ANY_MIXER,
    CONVOLUTION: ANY_MIXER + "conv_bias",
    DELTA: ANY_MIXER + "conv_bias",
    STATE_SPACE: ANY_MIXER + "conv_bias group_norms"}
ANY_FEED_FORWARD = "ffn_norm ffn_out_norm ffn_bias gated per_layer_input "
FEED_FORWARD_FLAGS = {
    NO_FEED_FORWARD: "",
    DENSE: ANY_FEED_FORWARD + "ffn_inner_norm",
    EXPERTS: ANY_FEED_FORWARD + ("router_bias choice_bias router_norm normalized_weights expert_scale shared_gate "
                                 "branch_norms")}
ANY_KIND = " layer_scale"

KIND_LIMITS = {
    "n_query_heads": (1, 1024), "n_key_heads": (1, 1024), "n_value_heads": (1, 1024), "key_dim": (2, 512), "value_dim": (2, 512),
    "query_rank": (0, 1 << 14), "latent_rank": (2, 512), "shared_key_dim": (0, 510), "conv_taps": (2, 8), "router_score": (1, 2),
    "window": (0, 1 << 24), "query_growth_period": (0, 1 << 24), "d_ff": (0, 1 << 19), "expert_ff": (1, 1 << 19),
    "n_experts": (1, 1024), "n_chosen": (1, 64), "group_rank": (0, 2), "activation": (1, len(ACTIVATIONS))}
KIND_FLOATS = ("score_multiplier score_cap qkv_clip query_growth norm_epsilon inner_epsilon unit_epsilon router_epsilon "
               "router_scale activation_alpha activation_limit").split()
EPSILONS = "norm_epsilon inner_epsilon unit_epsilon router_epsilon".split()


def check_config_size(size):
    require(SCALARS.size <= size <= MOST_CONFIG_BYTES, "the size of the config")


def read_config(raw):
    """The scalars' fields, end_tokens, rope_tables, kinds, layers, and counts: dictionaries and lists."""
    config = SCALARS.read(raw)
    read_scalars(config, raw)
    n_kinds, n_layers, n_counts = config["n_kinds"], config["n_layers"], config["n_counts"]
    require(len(raw) == fields.config_size(n_kinds, n_layers, n_counts), "the size of the config")
    layers_at = SCALARS.size + KIND.size * n_kinds
    counts_at = len(raw) - COUNT.size * n_counts
    config["kinds"] = []
    for at in range(SCALARS.size, layers_at, KIND.size):
        config["kinds"].append(KIND.read(raw, at))
        check_kind(config, len(config["kinds"]) - 1, raw[at:at + KIND.size])
    has_experts = any(kind["feed_forward"] == EXPERTS for kind in config["kinds"])
    require(config["compression"] != COMPRESSED_BUT_STAYING or has_experts or config["per_layer_width"], "compression")
    config["layers"] = list(raw[layers_at:layers_at + n_layers])
    check_layers(config, raw[layers_at + n_layers:counts_at])
    config["counts"] = [COUNT.read(raw, at) for at in range(counts_at, len(raw), COUNT.size)]
    check_counts(config)
    return config


def require_within(values, limits, names):
    for name in names:
        least, most = limits[name]
        require(least <= values[name] <= most, name)


def require_finite(values, names):
    for name in names:
        require(math.isfinite(values[name]), name)


def require_zeros(record, raw, names, at=0):
    for name in names:
        require(not any(record.bytes_of(name, raw, at)), name)


def read_scalars(config, raw):
    require_within(config, SCALAR_LIMITS, SCALAR_LIMITS)
    require_finite(config, SCALAR_FLOATS)
    require_zeros(SCALARS, raw, SCALARS.reserved())
    require(1 <= config["planned_context"] <= config["max_context"], "planned_context")
    require(not config["flags"] & UNIT_EMBEDDINGS or config["pooling"], "flags")
    require(0 <= config["norm_epsilon"] < 1, "norm_epsilon")
    require(config["logits_divisor"] > 0, "logits_divisor")
    require(config["logits_cap"] >= 0, "logits_cap")
    if config["per_layer_width"] == 0:
        require_zeros(SCALARS, raw, PER_LAYER)
    has_positions = config["flags"] & LEARNED_POSITIONS
    require(not has_positions or config["max_context"] * config["d_model"] <= MOST_POSITIONS, "flags")
    require(config["bos_token"] < config["vocab_size"] or config["bos_token"] == NONE, "bos_token")
    read_end_tokens(config)
    read_rope_tables(config, SCALARS.bytes_of("rope_tables", raw))


def read_end_tokens(config):
    n, tokens = config["n_end_tokens"], config["end_tokens"]
    require(all(token < config["vocab_size"] for token in tokens[:n]), "end_tokens")
    require(not any(tokens[n:]), "end_tokens")
    config["end_tokens"] = tokens[:n]


def read_rope_tables(config, raw):
    used = ROPE_TABLE.size * config["n_rope_tables"]
    require(not any(raw[used:]), "rope_tables")
    config["rope_tables"] = [ROPE_TABLE.read(raw, at) for at in range(0, used, ROPE_TABLE.size)]
    for table in config["rope_tables"]:
        require(1 <= table["n_pairs"] <= 256, "n_pairs")
        require(math.isfinite(table["factor"]), "factor")
        require(table["original_context"] < config["max_context"], "original_context")
        require(not any(table.pop("reserved_12")), "rope_tables")


def check_kind(config, number, raw):
    kind = config["kinds"][number]
    require(kind["mixer"] <= STATE_SPACE, "mixer")
    require(kind["feed_forward"] <= EXPERTS, "feed_forward")
    require(kind["mixer"] or kind["feed_forward"], "mixer")
    require(RMS <= kind["norm"] <= LAYER_NORM, "norm")
    require_zeros(KIND, raw, KIND.reserved())
    used = f"{MIXER_FIELDS[kind['mixer']]} {FEED_FORWARD_FIELDS[kind['feed_forward']]} {OF_EVERY_KIND}".split()
    for name in KIND.places:
        blank = 0xFF if name in ("rope_table", "shared_with") else 0
        require(name in used or all(byte == blank for byte in KIND.bytes_of(name, raw)), name)
    require_within(kind, KIND_LIMITS, [name for name in KIND_LIMITS if name in used])
    require_finite(kind, KIND_FLOATS)
    for name in EPSILONS:
        require(0 <= kind[name] < 1, name)
    check_flags(config, kind)
    if kind["mixer"] not in (NO_MIXER, CONVOLUTION):
        check_heads(config, kind)
    if kind["mixer"] in (ATTENTION, LATENT):
        check_scores(kind)
    if kind["mixer"] == ATTENTION:
        check_shared(config, number)
    if kind["feed_forward"]:
        check_activation(kind, raw)
    if kind["feed_forward"] == EXPERTS:
        check_experts(kind)


def check_flags(config, kind):
    allowed = flag_bits(f"{MIXER_FLAGS[kind['mixer']]} {FEED_FORWARD_FLAGS[kind['feed_forward']]} {ANY_KIND}")
    require(kind["flags"] & ~allowed == 0, "flags")
    has = {name for bit, name in enumerate(KIND_FLAGS) if kind["flags"] >> bit & 1}
    require(not has >= {"head_norms", "projection_norms"}, "flags")
    require(not has & {"value_norms", "keys_as_values"} or kind["shared_with"] == NO_KIND, "flags")
    require("keys_as_values" not in has or kind["key_dim"] == kind["value_dim"], "flags")
    is_clamped = kind["activation"] == CLAMPED_SWIGLU
    require("gated" in has or not is_clamped, "flags")
    require(not has & {"shared_gate", "branch_norms"} or kind["d_ff"], "flags")
    require("per_layer_input" not in has or config["per_layer_width"] and not is_clamped, "flags")


def check_heads(config, kind):
    queries, keys, values = kind["n_query_heads"], kind["n_key_heads"], kind["n_value_heads"]
    key_dim, value_dim, mixer = kind["key_dim"], kind["value_dim"], kind["mixer"]
    require(key_dim % 2 == 0, "key_dim")
    require(value_dim % 2 == 0, "value_dim")
    require(queries * key_dim <= MOST_WIDTH, "n_query_heads")
    require(values * value_dim <= MOST_WIDTH, "n_value_heads")
    if mixer == ATTENTION:
        require(queries % keys == 0, "n_key_heads")
        require(values == keys, "n_value_heads")
        require(queries * value_dim <= MOST_WIDTH, "value_dim")
    elif mixer == LATENT:
        require(keys == 1, "n_key_heads")
        require(values == 1, "n_value_heads")
        require(queries * value_dim <= MOST_WIDTH, "value_dim")
        require(queries * kind["latent_rank"] <= MOST_WIDTH, "latent_rank")
        require(kind["shared_key_dim"] % 2 == 0 and kind["shared_key_dim"] <= key_dim - 2, "shared_key_dim")
    else:
        require(keys == queries, "n_key_heads")
        require(values % keys == 0, "n_value_heads")
    table = kind["rope_table"]
    if mixer in (ATTENTION, LATENT) and table != NO_TABLE:
        require(table < config["n_rope_tables"], "rope_table")
        turned = kind["shared_key_dim"] if mixer == LATENT else key_dim
        require(2 * config["rope_tables"][table]["n_pairs"] <= turned, "rope_table")


def check_scores(kind):
    require(kind["score_cap"] >= 0, "score_cap")
    require(kind["qkv_clip"] >= 0, "qkv_clip")
    require((kind["query_growth"] != 0) == (kind["query_growth_period"] != 0), "query_growth_period")


def check_shared(config, number):
    """A kind that appears for the first time has the next number: a lower one has a layer before."""
    kind, with_kind = config["kinds"][number], config["kinds"][number]["shared_with"]
    if with_kind == NO_KIND:
        return
    require(with_kind < number, "shared_with")
    other = config["kinds"][with_kind]
    require(other["mixer"] == ATTENTION and other["shared_with"] == NO_KIND, "shared_with")
    require(all(kind[name] == other[name] for name in "n_key_heads n_value_heads key_dim value_dim window".split()), "shared_with")


def check_activation(kind, raw):
    require(kind["d_ff"] or kind["feed_forward"] == EXPERTS, "d_ff")
    if kind["activation"] == CLAMPED_SWIGLU:
        require(kind["activation_limit"] > 0, "activation_limit")
    else:
        require_zeros(KIND, raw, ("activation_alpha", "activation_limit"))


def check_experts(kind):
    n_experts, n_chosen, n_groups, of_groups = (kind[name] for name in "n_experts n_chosen n_groups n_groups_chosen".split())
    require(n_experts * kind["expert_ff"] <= MOST_ROWS_OF_EXPERTS, "n_experts")
    require(n_chosen <= n_experts, "n_chosen")
    if n_groups == 0:
        require(of_groups == 0, "n_groups_chosen")
        require(kind["group_rank"] == 0, "group_rank")
        return
    require(n_experts % n_groups == 0, "n_groups")
    in_group = n_experts // n_groups
    require(1 <= of_groups <= n_groups and of_groups * in_group >= n_chosen, "n_groups_chosen")
    require(1 <= kind["group_rank"] <= in_group, "group_rank")


def check_layers(config, padding):
    """Kinds are numbered in the order in which they first appear."""
    n_seen = 0
    for kind in config["layers"]:
        require(kind <= n_seen and kind < config["n_kinds"], "layers")
        n_seen = max(n_seen, kind + 1)
    require(n_seen == config["n_kinds"], "layers")
    require(not any(padding), "layers")


def check_counts(config):
    wanted, found, before = n_matrices(config), {}, (-1,)
    for count in config["counts"]:
        key = (count["kind"], count["role"])
        require(key in wanted, "role")
        require(count["format"] < len(FORMATS), "format")
        require(count["count"] >= 1, "count")
        require((*key, count["format"]) > before, "counts")
        before = (*key, count["format"])
        found[key] = found.get(key, 0) + count["count"]
    require(found == wanted, "count")
    has_nibbles = any(FORMATS[count["format"]][0] in NIBBLES for count in config["counts"])
    require(has_nibbles or not config["flags"] & SIGNED_SCALES, "flags")
