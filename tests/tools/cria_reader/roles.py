"""Part 3 of docs/model_format.md: the one table of the tensors that a model and a layer of each kind have.

Sizes and conditions are signs: names of signs_of(), with * between those that are multiplied, and blanks between conditions that
must all hold.
"""
import collections
import math

from cria_reader.config_fields import (ATTENTION, CONVOLUTION, DELTA, DENSE, EXPERTS, KIND_FLAGS, LATENT, LEARNED_POSITIONS, NO_KIND,
                                       NONE, STATE_SPACE, TIED)

MATRIX, FLOATS, VECTOR = "matrix", "floats", "vector"  # in any format, always f32, f32 in plain order
Row = collections.namedtuple("Row", "number name form count rows cols there")
Shape = collections.namedtuple("Shape", "number name form count rows cols")


def matrix(number, name, rows, cols, bias=None, there="", count="one", form=MATRIX):
    """A matrix and its bias, a (number, flag)."""
    rows_of = [Row(number, name, form, count, rows, cols, there)]
    if bias:
        rows_of.append(Row(bias[0], f"{name}.bias", VECTOR, "one", "one", f"{count}*{rows}", f"{there} {bias[1]}"))
    return rows_of


def floats(number, name, rows, cols, bias=None):
    return matrix(number, name, rows, cols, bias, form=FLOATS)


def vector(number, name, size, there=""):
    return [Row(number, name, VECTOR, "one", "one", size, there)]


BEFORE_LAYERS = [
    *vector(0, "rope", "n_frequencies", "n_frequencies"),
    *matrix(1, "embedding", "vocab_size", "d"),
    *vector(23, "positions", "max_context*d", "learned_positions"),
    *matrix(24, "per_layer_table", "vocab_size*n_layers", "P", there="P"),
    *matrix(25, "per_layer_projection", "P", "d", there="P", count="n_layers"),
    *vector(26, "per_layer_norm", "P", "P")]
BEHIND_LAYERS = [
    *vector(11, "final_norm", "final_dn"),
    *matrix(12, "lm_head", "vocab_size", "d", there="untied")]

CONVOLVED = [*vector(42, "conv", "conv_taps*channels"), *vector(43, "conv.bias", "channels", "conv_bias")]
OUTPUT = matrix(6, "o", "d", "out", (16, "output_bias"))
QUERIES_KEYS_VALUES = [
    *matrix(3, "q", "q_rows", "d", (13, "input_bias")),
    *matrix(4, "k", "k_rows", "d", (14, "input_bias"), "own_keys"),
    *matrix(5, "v", "v_rows", "d", (15, "input_bias"), "own_values")]
MIXERS = {
    ATTENTION: [
        *QUERIES_KEYS_VALUES,
        *vector(20, "q_norm", "q_norm_width", "key_norms"),
        *vector(21, "k_norm", "k_norm_width", "key_norms own_keys"),
        *vector(29, "v_norm", "value_dim", "value_norms"),
        *matrix(30, "mixer_gate", "out", "d", (31, "input_bias"), "mixer_gate"),
        *vector(32, "sinks", "H", "sinks"),
        *vector(33, "mixer_inner_norm", "out", "mixer_inner_norm"),
        *OUTPUT],
    LATENT: [
        *matrix(34, "q_down", "query_rank", "d", (35, "input_bias"), "query_rank"),
        *vector(36, "q_down_norm", "query_rank", "query_rank"),
        *matrix(3, "q", "q_rows", "q_cols"),
        *matrix(37, "latent_down", "latent_rank", "d", (38, "input_bias")),
        *vector(39, "latent_norm", "latent_rank"),
        *matrix(4, "k", "shared_key_dim", "d", (14, "input_bias"), "shared_key_dim"),
        *matrix(40, "key_up", "latent_rank", "key_part", count="H"),
        *matrix(41, "value_up", "value_dim", "latent_rank", count="H"),
        *OUTPUT],
    CONVOLUTION: [*QUERIES_KEYS_VALUES, *CONVOLVED, *OUTPUT],
    DELTA: [
        *QUERIES_KEYS_VALUES,
        *matrix(30, "mixer_gate", "out", "d", (31, "input_bias")),
        *floats(44, "decay_in", "V", "d", (45, "input_bias")),
        *floats(46, "beta_in", "V", "d", (47, "input_bias")),
        *CONVOLVED,
        *vector(48, "decay", "V"),
        *vector(49, "decay_bias", "V"),
        *vector(33, "mixer_inner_norm", "value_dim"),
        *OUTPUT],
    STATE_SPACE: [
        *QUERIES_KEYS_VALUES,
        *matrix(30, "mixer_gate", "out", "d", (31, "input_bias")),
        *floats(44, "decay_in", "V", "d", (45, "input_bias")),
        *CONVOLVED,
        *vector(48, "decay", "V"),
        *vector(49, "decay_bias", "V"),
        *vector(50, "skip", "V"),
        *vector(33, "mixer_inner_norm", "out"),
        *OUTPUT]}

MLP = [
    *matrix(8, "gate", "f", "d", (17, "ffn_bias"), "f gated"),
    *matrix(9, "up", "f", "d", (18, "ffn_bias"), "f"),
    *vector(51, "ffn_inner_norm", "f", "ffn_inner_norm"),
    *matrix(10, "down", "d", "f", (19, "ffn_bias"), "f")]
FEED_FORWARDS = {
    DENSE: MLP,
    EXPERTS: [
        *vector(55, "router_norm", "d", "router_norm"),
        *floats(52, "router", "N", "d", (53, "router_bias")),
        *vector(54, "choice_bias", "N", "choice_bias"),
        *vector(56, "expert_scale", "N", "expert_scale"),
        *vector(57, "expert_norm", "dn", "branch_norms"),
        *matrix(58, "expert_gate", "e", "d", (59, "ffn_bias"), "gated", "N"),
        *matrix(60, "expert_up", "e", "d", (61, "ffn_bias"), count="N"),
        *matrix(62, "expert_down", "d", "e", (63, "ffn_bias"), count="N"),
        *vector(64, "expert_out_norm", "dn", "branch_norms"),
        *vector(65, "shared_gate", "d", "shared_gate"),
        *MLP,
        *vector(66, "shared_out_norm", "dn", "branch_norms")]}

LAYER = (
    vector(2, "mixer_norm", "dn", "mixer_norm"),
    lambda kind: MIXERS.get(kind["mixer"], []),
    [*vector(27, "mixer_out_norm", "dn", "mixer_out_norm"), *vector(7, "ffn_norm", "dn", "ffn_norm")],
    lambda kind: FEED_FORWARDS.get(kind["feed_forward"], []),
    [*vector(28, "ffn_out_norm", "dn", "ffn_out_norm"),
     *matrix(67, "per_layer_gate", "P", "d", there="per_layer_input"),
     *matrix(68, "per_layer_out", "d", "P", there="per_layer_input"),
     *vector(69, "per_layer_out_norm", "dn", "per_layer_input"),
     *vector(70, "layer_scale", "one", "layer_scale")])

# With compression 2 of the config these are stored.
STAYING = {24, 58, 60, 62}


def signs_of_model(config):
    return {"one": 1, "d": config["d_model"], "P": config["per_layer_width"], "final_dn": config["d_model"] * config["final_norm"],
            "vocab_size": config["vocab_size"], "n_layers": len(config["layers"]), "max_context": config["max_context"],
            "learned_positions": config["flags"] & LEARNED_POSITIONS, "untied": not config["flags"] & TIED,
            "n_frequencies": sum(table["n_pairs"] * (2 if table["original_context"] else 1) for table in config["rope_tables"])}


def signs_of(config, kind):
    d, mixer = config["d_model"], kind["mixer"]
    flags = {name: kind["flags"] >> bit & 1 for bit, name in enumerate(KIND_FLAGS)}
    n_heads = {"H": kind["n_query_heads"], "K": kind["n_key_heads"], "V": kind["n_value_heads"]}
    width = {"q": n_heads["H"] * kind["key_dim"], "k": n_heads["K"] * kind["key_dim"], "v": n_heads["V"] * kind["value_dim"]}
    if mixer == CONVOLUTION:
        width = dict.fromkeys("qkv", d)
    out = width["v"] if mixer in (CONVOLUTION, DELTA, STATE_SPACE) else n_heads["H"] * kind["value_dim"]
    own_keys = kind["shared_with"] == NO_KIND
    whole = flags["projection_norms"]
    return {
        **kind, **flags, **n_heads, "one": 1, "d": d, "dn": d * kind["norm"], "P": config["per_layer_width"],
        "f": kind["d_ff"], "e": kind["expert_ff"], "N": kind["n_experts"], "out": out,
        "q_rows": width["q"], "k_rows": width["k"], "v_rows": width["v"],
        "channels": d if mixer == CONVOLUTION else sum(width.values()),
        "q_cols": kind["query_rank"] or d, "key_part": kind["key_dim"] - kind["shared_key_dim"],
        "key_norms": flags["head_norms"] or whole,
        "q_norm_width": width["q"] if whole else kind["key_dim"], "k_norm_width": width["k"] if whole else kind["key_dim"],
        "own_keys": own_keys, "own_values": own_keys and not flags["keys_as_values"]}


def shapes(rows, signs):
    """Of the tensors that are there."""
    size = lambda text: math.prod(signs[name] for name in text.split("*"))
    return [Shape(row.number, row.name, row.form, size(row.count), size(row.rows), size(row.cols))
            for row in rows if all(signs[name] for name in row.there.split())]


def layer_shapes(config, kind):
    rows = [row for part in LAYER for row in (part(kind) if callable(part) else part)]
    return shapes(rows, signs_of(config, kind))


def all_shapes(config):
    """(layer, kind, shape) of every tensor, in the canonical order. Lazily: a config may ask for more than its file can hold."""
    signs = signs_of_model(config)
    yield from ((NONE, NO_KIND, shape) for shape in shapes(BEFORE_LAYERS, signs))
    of_kinds = [layer_shapes(config, kind) for kind in config["kinds"]]
    for layer, kind in enumerate(config["layers"]):
        yield from ((layer, kind, shape) for shape in of_kinds[kind])
    yield from ((NONE, NO_KIND, shape) for shape in shapes(BEHIND_LAYERS, signs))


def n_matrices(config):
    """How many matrices in any format, a stack as one, there are of each (kind, role)."""
    outside = shapes([*BEFORE_LAYERS, *BEHIND_LAYERS], signs_of_model(config))
    n_layers = [(NO_KIND, 1, outside), *((i, config["layers"].count(i), layer_shapes(config, kind))
                                         for i, kind in enumerate(config["kinds"]))]
    return {(kind, shape.number): n for kind, n, there in n_layers for shape in there if shape.form == MATRIX}


ALL_ROWS = [*BEFORE_LAYERS, *BEHIND_LAYERS, *(row for part in LAYER if not callable(part) for row in part),
            *(row for table in (MIXERS, FEED_FORWARDS) for rows in table.values() for row in rows)]
ROLE_NAMES = {row.number: row.name for row in ALL_ROWS}
ROLE_NUMBERS = {name: number for number, name in ROLE_NAMES.items()}
