"""Part 2 of docs/model_format.md: the config."""
import math
import struct

from cria_reader.refusal import require

CONFIG_BYTES = 256
NONE = 0xFFFFFFFF
F32, F16, BF16, INT8, INT4 = range(1, 6)
FORMAT_NAMES = {F32: "f32", F16: "f16", BF16: "bf16", INT8: "int8", INT4: "int4"}
GROUPS = (32, 64, 128)
TIED, QKV_BIAS, OUTPUT_BIAS, MLP_BIAS = 1, 2, 4, 8
MOST_END_TOKENS = 16
FORMATS_AT, RESERVED_AT, END_TOKENS_AT = 148, 184, 84

FIELDS = (
    "architecture flags n_layers d_model n_heads n_kv_heads head_dim d_ff vocab_size max_context "
    "planned_context sliding_window rms_epsilon embedding_multiplier residual_multiplier "
    "attention_multiplier logits_divisor rope_factor compression bos_token n_end_tokens").split()
MATRICES = "embedding q k v o gate up down lm_head".split()
# Least and most.
LIMITS = {
    "architecture": (1, 3), "flags": (0, 15), "n_layers": (1, 1024), "d_model": (1, 1 << 17), "n_heads": (1, 1024),
    "n_kv_heads": (1, 1024), "head_dim": (2, 512), "d_ff": (1, 1 << 19), "vocab_size": (1, 1 << 21),
    "max_context": (1, 1 << 24), "sliding_window": (0, 1 << 24), "compression": (0, 1),
    "n_end_tokens": (0, MOST_END_TOKENS)}
FINITE = "rms_epsilon embedding_multiplier residual_multiplier attention_multiplier logits_divisor rope_factor".split()
MOST_HEAD_WIDTH = 1 << 17


def read_config(raw):
    """A dictionary of the fields, end_tokens, and formats: (number format, group size) by name of the matrix."""
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
    read_formats(config, raw[FORMATS_AT:RESERVED_AT])
    require(not any(raw[RESERVED_AT:]), "reserved bytes of the config")
    return config


def read_end_tokens(config, tokens):
    n = config["n_end_tokens"]
    require(all(token < config["vocab_size"] for token in tokens[:n]), "end_tokens")
    require(not any(tokens[n:]), "end_tokens behind n_end_tokens")
    config["end_tokens"] = list(tokens[:n])


def read_formats(config, raw):
    config["formats"] = {}
    for name, (number_format, reserved, group) in zip(MATRICES, struct.iter_unpack("<BBH", raw)):
        require(number_format in FORMAT_NAMES, f"the number format of {name}")
        require(reserved == 0, f"reserved byte of the format of {name}")
        require(group in GROUPS if number_format == INT4 else group == 0, f"the group size of {name}")
        config["formats"][name] = (number_format, group)
    tied = config["flags"] & TIED
    require(not tied or config["formats"]["lm_head"] == config["formats"]["embedding"], "the format of a tied lm_head")
