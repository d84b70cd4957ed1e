"""Breaks part 2 of docs/model_format.md: each field of the config, on both sides of its limits.

Where a model of the forbidden size stays small, its tensors are as the config says, so that nothing else is wrong with it.
"""
import math

from bad_models.case import INVALID, case
from bad_models.model_writer import CONFIG, CONFIG_FIELDS, FORMAT_PLACES, LONG_ROPE, NONE, TIED, Model

RESERVED_AT, END_TOKENS_AT = 456, 84

# Small whatever the value. The second of a pair of limits is generated only.
CONSISTENT = (
    ("n_layers", 0, True), ("d_model", 0, True), ("d_ff", 0, True), ("vocab_size", 0, True), ("head_dim", 3, True),
    ("head_dim", 0, True), ("n_kv_heads", 0, True), ("n_kv_heads", 2, True), ("n_heads", 0, True),
    ("architecture", 0, False), ("architecture", 9, True),
    ("max_context", 0, False), ("max_context", (1 << 24) + 1, True), ("planned_context", 0, True),
    ("planned_context", 33, True), ("sliding_window", (1 << 24) + 1, True), ("compression", 2, True),
    ("bos_token", 16, True), ("bos_token", NONE - 1, False), ("flags", TIED | 64, True), ("flags", TIED | 128, True),
    ("flags", TIED | 1 << 31, False))
TOO_LARGE = (
    ("n_layers", 1025, True), ("n_layers", 0xFFFFFFFF, False), ("d_model", (1 << 17) + 1, True),
    ("d_model", 0xFFFFFFFF, False), ("n_heads", 1025, True), ("n_heads", 0xFFFFFFFF, False), ("head_dim", 514, True),
    ("head_dim", 0xFFFFFFFE, False), ("d_ff", (1 << 19) + 1, True), ("d_ff", 0xFFFFFFFF, False),
    ("vocab_size", (1 << 21) + 1, True), ("vocab_size", 0xFFFFFFFF, False), ("n_kv_heads", 0xFFFFFFFF, False))
FLOATS = (
    ("rms_epsilon", (-1e-5, 1.0, math.nan, math.inf)), ("embedding_multiplier", (math.nan, math.inf)),
    ("residual_multiplier", (math.inf, math.nan)), ("attention_multiplier", (math.nan, -math.inf)),
    ("logits_divisor", (0.0, -1.0, math.nan, math.inf)), ("rope_factor", (math.nan, math.inf)))


def cases():
    for name, value, kept in CONSISTENT:
        yield case(f"config_{name}_{value:x}", INVALID, f"{name} is within its limits", model_of(name, value), kept)
    for name, value, kept in TOO_LARGE:
        yield case(f"config_{name}_{value:x}", INVALID, f"{name} is within its limits", patched(name, value), kept)
    for name, values in FLOATS:
        for i, value in enumerate(values):
            yield case(f"config_{name}_{str(value).replace('.', 'p')}", INVALID, f"{name} is finite and within its limits",
                       patched(name, value), kept=i == 0)
    yield from ropes()
    yield from combinations()
    yield from end_tokens()
    yield from matrix_counts()
    yield from sizes()


def patched(name, value):
    offset, form = CONFIG_FIELDS[name]
    return Model().file().put_in(CONFIG, offset, form, value).mend_sections()


def model_of(name, value):
    if name == "n_heads":  # no key-value heads can be right
        return patched(name, value)
    return Model(**{"n_heads": 3 if (name, value) == ("n_kv_heads", 2) else 1, name: value}).file()


def ropes():
    def one(name, rule, kept=True, **config):
        return case(f"config_{name}", INVALID, rule, Model(**config).file(), kept)
    yield one("rotary_dim_odd", "rotary_dim is even and below head_dim", head_dim=4, rotary_dim=3)
    yield one("rotary_dim_whole", "rotary_dim is even and below head_dim", kept=False, rotary_dim=2)
    yield one("original_context_alone", "there is an original_context with a second set of frequencies only", original_context=8)
    yield one("original_context_0", "the original_context is above zero and below max_context", flags=TIED | LONG_ROPE)
    yield one("original_context_all", "the original_context is above zero and below max_context", kept=False,
              flags=TIED | LONG_ROPE, original_context=32)
    yield one("no_rope_period_65", "no_rope_period is at most 64", no_rope_period=65, no_rope_low=1)
    yield one("no_rope_beyond", "no_rope_layers has no bit past its period", no_rope_period=3, no_rope_low=8)
    yield one("no_rope_beyond_32", "no_rope_layers has no bit past its period", kept=False, no_rope_period=32, no_rope_low=1,
              no_rope_high=1)
    yield one("no_rope_without_period", "no_rope_layers has no bit past its period", kept=False, no_rope_low=1)
    yield one("no_rope_nothing", "a period has a layer without RoPE", no_rope_period=4)


def combinations():
    file = Model().file()
    file.put_in(CONFIG, CONFIG_FIELDS["n_heads"][0], "<I", 1024)
    file.put_in(CONFIG, CONFIG_FIELDS["head_dim"][0], "<I", 130)
    yield case("config_heads_wide", INVALID, "n_heads * head_dim is at most 2^17", file.mend_sections())
    file = Model().file()
    file.put_in(CONFIG, CONFIG_FIELDS["n_layers"][0], "<I", 1024)
    for name, value in (("d_model", 1 << 17), ("n_heads", 1024), ("n_kv_heads", 1024), ("head_dim", 128),
                        ("d_ff", 1 << 19), ("vocab_size", 1 << 21)):
        file.put_in(CONFIG, CONFIG_FIELDS[name][0], "<I", value)
    yield case("config_largest", INVALID, "the largest config there is wants more tensors than the file has",
               file.mend_sections(), kept=False)


def end_tokens():
    yield case("config_end_token_outside", INVALID, "an end token is below vocab_size",
               Model(n_end_tokens=1, end_tokens=[16]).file())
    yield case("config_end_tokens_17", INVALID, "n_end_tokens is at most 16",
               Model(n_end_tokens=17, end_tokens=[1] * 16).file())
    yield case("config_end_tokens_most", INVALID, "n_end_tokens is at most 16",
               Model(n_end_tokens=0xFFFFFFFF, end_tokens=[1] * 16).file(), kept=False)
    yield case("config_end_tokens_behind", INVALID, "end tokens behind n_end_tokens are zero",
               Model(n_end_tokens=1, end_tokens=[1, 2]).file())


def matrix_counts():
    """Two layers, so that a count may be one too few."""
    def counts(**at):
        row = [0] * FORMAT_PLACES
        for place, n in at.items():
            row[int(place[1:])] = n
        return row
    rule = "counts of a role sum up to its matrices"
    for name, role, row, kept in (
            ("none", "down", counts(), True), ("fewer", "down", counts(p0=1), True), ("more", "down", counts(p0=3), True),
            ("most", "down", counts(p0=0xFFFF), False), ("more_of_another", "down", counts(p0=2, p3=1), False),
            ("two_embeddings", "embedding", counts(p0=2), True), ("no_embedding", "embedding", counts(), False),
            ("lm_head_of_tied", "lm_head", counts(p0=1), True)):
        yield case(f"config_counts_{name}", INVALID, rule, Model(n_layers=2, counts={role: row}).file(), kept)
    yield case("config_counts_no_lm_head", INVALID, rule, Model(flags=0, counts={"lm_head": counts()}).file())
    rule = "places behind the last format are zero"
    yield case("config_counts_place_11", INVALID, rule, Model(counts={"down": counts(p11=1)}).file())
    yield case("config_counts_place_15", INVALID, rule, Model(counts={"down": counts(p0=1, p15=1)}).file(), kept=False)
    # What sums up to one layer's, modulo 2^16.
    yield case("config_counts_wrap", INVALID, "counts do not wrap", Model(counts={"down": counts(p0=0xFFFF, p1=2)}).file(), kept=False)


def sizes():
    file = Model().file()
    yield case("config_reserved_first", INVALID, "reserved bytes of the config are zero",
               file.put_in(CONFIG, RESERVED_AT, "<B", 1).mend_sections())
    file = Model().file()
    yield case("config_reserved_last", INVALID, "reserved bytes of the config are zero",
               file.put_in(CONFIG, 511, "<B", 1).mend_sections(), kept=False)
    for size in (255, 257):
        yield case(f"config_bytes_{size}", INVALID, "the config has 256 bytes", resized_config(size), kept=size == 255)


def resized_config(size):
    class OtherSize(Model):
        def contents_of(self, kind, raw):
            return (bytes(raw) + b"\0")[:size] if kind == CONFIG else raw
    return OtherSize().file()
