"""Part 2 of docs/model_format.md: the config."""
import math
import struct

from cria_reader.refusal import require

CONFIG_BYTES = 512
NONE = 0xFFFFFFFF
F32, F16, BF16, INT8, INT4, INT4NL, INT8G32 = range(1, 8)
NIBBLES = (INT4, INT4NL)
FORMAT_NAMES = {F32: "f32", F16: "f16", BF16: "bf16", INT8: "int8", INT4: "int4", INT4NL: "int4nl",
                INT8G32: "int8g32"}
TIED, QKV_BIAS, OUTPUT_BIAS, MLP_BIAS, QK_NORM, LONG_ROPE, SIGNED_SCALES = 1, 2, 4, 8, 16, 32, 64
MOST_END_TOKENS = 16
COUNTS_AT, ROPE_AT, RESERVED_AT, END_TOKENS_AT = 148, 436, 456, 84
# Places of a row of n_matrices: (number format, group size); the others are zero.
FORMATS = ((F32, 0), (F16, 0), (BF16, 0), (INT8, 0), (INT4, 32), (INT4, 64), (INT4, 128),
           (INT4NL, 32), (INT4NL, 64), (INT4NL, 128), (INT8G32, 32))
FORMAT_PLACES = 16

FIELDS = (
    "architecture flags n_layers d_model n_heads n_kv_heads head_dim d_ff vocab_size max_context "
    "planned_context sliding_window rms_epsilon embedding_multiplier residual_multiplier "
    "attention_multiplier logits_divisor rope_factor compression bos_token n_end_tokens").split()
MATRICES = "embedding q k v o gate up down lm_head".split()
# Least and most.
LIMITS = {
    "architecture": (1, 8), "flags": (0, 127), "n_layers": (1, 1024), "d_model": (1, 1 << 17), "n_heads": (1, 1024),
    "n_kv_heads": (1, 1024), "head_dim": (2, 512), "d_ff": (1, 1 << 19), "vocab_size": (1, 1 << 21),
    "max_context": (1, 1 << 24), "sliding_window": (0, 1 << 24), "compression": (0, 1),
    "n_end_tokens": (0, MOST_END_TOKENS)}
FINITE = "rms_epsilon embedding_multiplier residual_multiplier attention_multiplier logits_divisor rope_factor".split()
MOST_HEAD_WIDTH = 1 << 17
MOST_NO_ROPE_PERIOD = 64


def read_config(raw):
    """A dictionary of the fields, end_tokens, and n_matrices: how many have each of FORMATS, by name of the matrix."""
    require(len(raw) == CONFIG_BYTES, "the size of the config")
    config = dict(zip(FIELDS, struct.unpack_from("<12I6f3I", raw)))
    for name, (least, most) in LIMITS.items():
        require(least <= config[name] <= most, name)
    for name in FINITE:
        require(math.isfinite(config[name]), name)
    require(config["n_heads"] % config["n_kv_heads"] == 0, "n_kv_heads")
    require(config["head_dim"] % 2 == 0, "head_dim")
    require(config["n_heads"] * config["head_dim"] <= MOST_HEAD_WIDTH, "n_heads * head_dim")
    require(1 <= config["planned_context"] <= config["max_context"], "planned_context")
    require(0 <= config["rms_epsilon"] < 1, "rms_epsilon")
    require(config["logits_divisor"] > 0, "logits_divisor")
    require(config["bos_token"] < config["vocab_size"] or config["bos_token"] == NONE, "bos_token")
    read_end_tokens(config, struct.unpack_from(f"<{MOST_END_TOKENS}I", raw, END_TOKENS_AT))
    read_counts(config, raw[COUNTS_AT:ROPE_AT])
    read_rope(config, *struct.unpack_from("<3IQ", raw, ROPE_AT))
    require(not any(raw[RESERVED_AT:]), "reserved bytes of the config")
    return config


def read_end_tokens(config, tokens):
    n = config["n_end_tokens"]
    require(all(token < config["vocab_size"] for token in tokens[:n]), "end_tokens")
    require(not any(tokens[n:]), "end_tokens behind n_end_tokens")
    config["end_tokens"] = list(tokens[:n])


def read_rope(config, rotary_dim, original_context, period, layers):
    """Adds rotary_dim, what of a head is turned, and no_rope, by layer."""
    require(rotary_dim < config["head_dim"] and rotary_dim % 2 == 0, "rotary_dim")
    config["rotary_dim"] = rotary_dim or config["head_dim"]
    is_long = bool(config["flags"] & LONG_ROPE)
    require(0 < original_context < config["max_context"] if is_long else original_context == 0, "original_context")
    config["original_context"] = original_context
    require(period <= MOST_NO_ROPE_PERIOD and layers >> period == 0 and (period != 0) == (layers != 0), "no_rope_layers")
    config["no_rope"] = [bool(period and layers >> layer % period & 1) for layer in range(config["n_layers"])]


def read_counts(config, raw):
    config["n_matrices"] = {}
    for name, counts in zip(MATRICES, struct.iter_unpack(f"<{FORMAT_PLACES}H", raw)):
        there = config["n_layers"] if name not in ("embedding", "lm_head") else 1
        if name == "lm_head" and config["flags"] & TIED:
            there = 0
        require(not any(counts[len(FORMATS):]), f"a format that is none has a count for {name}")
        require(sum(counts) == there, f"the counts of {name}")
        config["n_matrices"][name] = {f: n for f, n in zip(FORMATS, counts) if n}
    has_nibbles = any(f in NIBBLES for counts in config["n_matrices"].values() for f, _ in counts)
    require(has_nibbles or not config["flags"] & SIGNED_SCALES, "flags")
