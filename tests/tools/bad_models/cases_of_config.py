"""Breaks part 2 of docs/model_format.md: each field of the config, on both sides of its limits.

Where a model of the forbidden size stays small, its tensors are as the config says, so that nothing else is wrong with it.
"""
import math

from bad_models.case import INVALID, case
from bad_models.model_writer import BF16, CONFIG, CONFIG_FIELDS, F32, INT4, INT8, MATRICES, NONE, TIED, Model

FORMATS_AT, RESERVED_AT, END_TOKENS_AT = 148, 184, 84

# Small whatever the value. The second of a pair of limits is generated only.
CONSISTENT = (
    ("n_layers", 0, True), ("d_model", 0, True), ("d_ff", 0, True), ("vocab_size", 0, True), ("head_dim", 3, True),
    ("head_dim", 0, True), ("n_kv_heads", 0, True), ("n_kv_heads", 2, True), ("n_heads", 0, True),
    ("architecture", 0, False), ("architecture", 4, True),
    ("max_context", 0, False), ("max_context", (1 << 24) + 1, True), ("planned_context", 0, True),
    ("planned_context", 33, True), ("sliding_window", (1 << 24) + 1, True), ("compression", 2, True),
    ("bos_token", 16, True), ("bos_token", NONE - 1, False), ("flags", TIED | 16, True),
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
    yield from combinations()
    yield from end_tokens()
    yield from matrix_formats()
    yield from sizes()


def patched(name, value):
    offset, form = CONFIG_FIELDS[name]
    return Model().file().put_in(CONFIG, offset, form, value).mend_sections()


def model_of(name, value):
    if name == "n_heads":  # no key-value heads can be right
        return patched(name, value)
    return Model(**{"n_heads": 3 if (name, value) == ("n_kv_heads", 2) else 1, name: value}).file()


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


def matrix_formats():
    for name, entry, rule, kept in (
            ("unknown", (6, 0, 0), "number formats are 1 to 5", True),
            ("none", (0, 0, 0), "number formats are 1 to 5", False),
            ("reserved", (F32, 1, 0), "reserved bytes of a matrix format are zero", True),
            ("f32_group", (F32, 0, 32), "the group size is zero but for int4", True),
            ("int8_group", (INT8, 0, 32), "the group size is zero but for int4", False),
            ("int4_group_0", (INT4, 0, 0), "int4 has groups of 32, 64 or 128", True),
            ("int4_group_16", (INT4, 0, 16), "int4 has groups of 32, 64 or 128", False),
            ("int4_group_96", (INT4, 0, 96), "int4 has groups of 32, 64 or 128", False),
            ("int4_group_256", (INT4, 0, 256), "int4 has groups of 32, 64 or 128", False)):
        yield case(f"config_format_{name}", INVALID, rule, with_format("down", entry), kept)
    yield case("config_tied_format", INVALID, "with a tied embedding the lm_head entry equals the embedding's",
               with_format("lm_head", (BF16, 0, 0)))


def with_format(matrix, entry):
    file = Model().file()
    return file.put_in(CONFIG, FORMATS_AT + 4 * MATRICES.index(matrix), "<BBH", *entry).mend_sections()


def sizes():
    file = Model().file()
    yield case("config_reserved_first", INVALID, "reserved bytes of the config are zero",
               file.put_in(CONFIG, RESERVED_AT, "<B", 1).mend_sections())
    file = Model().file()
    yield case("config_reserved_last", INVALID, "reserved bytes of the config are zero",
               file.put_in(CONFIG, 255, "<B", 1).mend_sections(), kept=False)
    for size in (255, 257):
        yield case(f"config_bytes_{size}", INVALID, "the config has 256 bytes", resized_config(size), kept=size == 255)


def resized_config(size):
    class OtherSize(Model):
        def contents_of(self, kind, raw):
            return (bytes(raw) + b"\0")[:size] if kind == CONFIG else raw
    return OtherSize().file()
