#!/usr/bin/env python3
"""Writes a GGUF file with random weights and no tokenizer, for measuring llama.cpp.

  make_random_gguf.py OUT.gguf --shape NAME --type q4_0|q8_0|bf16

Shapes and the list of tensors are those of make_random_checkpoint.py, and SHAPES_OF_GGUF here. Norms, routers and what recurrent
layers keep in floats are f32, all else has the type. Weights have no mean, so that tokens stay apart and choose different experts.
The same arguments give the same bytes.
"""

import argparse
import math
import random
import re
import struct

from make_random_checkpoint import MATRIX_DEVIATION, NORM_DEVIATION, SHAPES, bf16_block, tensors_of

PIECE_BYTES = 1 << 20
BLOCK_PIECES = 4
ALIGNMENT = 32
VERSION = 3
U32, F32, STRING, LIST = 4, 6, 8, 9  # types of metadata; lists are of U32

# Number in the file, weights and bytes of a block.
TYPES = {"f32": (0, 1, 4), "bf16": (30, 1, 2), "q4_0": (2, 32, 18), "q8_0": (8, 32, 34)}
FILE_TYPES = {"bf16": 32, "q4_0": 2, "q8_0": 7}
ARCHITECTURES = {"llama": "llama", "qwen3": "qwen3", "qwen3_moe": "qwen3moe", "deepseek_v2": "deepseek2",
                 **{kind: kind for kind in ("lfm2", "gemma3", "qwen35")}}

# Families whose layers are of several kinds. attention: layers that have it. turned: what RoPE turns of a head.
SHAPES_OF_GGUF = {
    "lfm2-1.2b": dict(kind="lfm2", d_model=2048, layers=16, heads=32, kv_heads=8, head_dim=64, ffn=8192, vocab=65536, theta=1e6,
                      attention=(2, 5, 8, 10, 12, 14), taps=3),
    "gemma-3-1b": dict(kind="gemma3", d_model=1152, layers=26, heads=4, kv_heads=1, head_dim=256, ffn=6912, vocab=262144, theta=1e6,
                       attention=range(26), window=512),
    "qwen3.5-0.8b": dict(kind="qwen35", d_model=1024, layers=24, heads=8, kv_heads=2, head_dim=256, ffn=3584, vocab=248320, theta=1e7,
                         attention=range(3, 24, 4), turned=64, taps=4, states=16, state_dim=128),
}
ALL_SHAPES = {name: {"kind": "llama"} | shape for name, shape in SHAPES.items()} | {
    name: {"tied": True, "context": 32768} | shape for name, shape in SHAPES_OF_GGUF.items()}
LAYER_NORMS = {"lfm2": ("attn_norm", "ffn_norm"), "qwen35": ("attn_norm", "post_attention_norm"),
               "gemma3": ("attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm")}

# After a layer's name; stacks of experts are named once.
NAMES = {
    "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
    "self_attn.kv_a_proj_with_mqa": "attn_kv_a_mqa", "self_attn.kv_a_layernorm": "attn_kv_a_norm", "mlp.gate": "ffn_gate_inp",
    **{f"mlp.{part}{name}_proj": f"ffn_{name}{behind}" for name in ("gate", "up", "down")
       for part, behind in (("", ""), ("experts.0.", "_exps"), ("shared_experts.", "_shexp"))},
}
OUTSIDE = {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight", "lm_head.weight": "output.weight"}


def rank_of_query(s):
    """llama.cpp takes a DeepSeek-V2 with one matrix for queries only when it has as many layers as V2-Lite. Any other one has two, of
    this rank, with at most as many weights."""
    cols, rows = s["d_model"], s["heads"] * s["head_dim"]
    return cols * rows // (cols + rows) // ALIGNMENT * ALIGNMENT


def latent_tensors(s, name, kind):
    rank, query_rank = s["latent_rank"], rank_of_query(s)
    return {
        "self_attn.q_proj": [("attn_q_a", [s["d_model"], query_rank], kind), ("attn_q_a_norm", [query_rank], "f32"),
                             ("attn_q_b", [query_rank, s["heads"] * s["head_dim"]], kind)],
        "self_attn.kv_b_proj": [("attn_k_b", [s["head_dim"] - s["turned"], rank, s["heads"]], kind),
                                ("attn_v_b", [rank, s["value_dim"], s["heads"]], kind)],
    }.get(name)


def attention_tensors(s):
    width = s["heads"] * s["head_dim"]
    queries = 2 * width if s["kind"] == "qwen35" else width  # the other half is a gate
    return [("attn_q", [s["d_model"], queries]), ("attn_output", [width, s["d_model"]]),
            *((f"attn_{name}", [s["d_model"], s["kv_heads"] * s["head_dim"]]) for name in "kv"),
            *((f"attn_{name}_norm", [s["head_dim"]]) for name in "qk")]


def convolution_tensors(s):
    d = s["d_model"]
    return [("shortconv.in_proj", [d, 3 * d]), ("shortconv.conv", [s["taps"], d]), ("shortconv.out_proj", [d, d])]


def delta_rule_tensors(s):
    d, n, width = s["d_model"], s["states"], s["states"] * s["state_dim"]
    return [("attn_qkv", [d, 3 * width]), ("attn_gate", [d, width]), ("ssm_alpha", [d, n]), ("ssm_beta", [d, n]),
            ("ssm_conv1d", [s["taps"], 3 * width]), ("ssm_a", [n]), ("ssm_dt.bias", [n]), ("ssm_norm", [s["state_dim"]]),
            ("ssm_out", [width, d])]


OTHER_MIXERS = {"lfm2": convolution_tensors, "qwen35": delta_rule_tensors}
FLOATS = ("shortconv.conv", "ssm_conv1d")


def tensors_of_kinds(s, kind):
    """Those of a model of SHAPES_OF_GGUF."""
    def tensor(name, dimensions):
        suffix = "" if name.endswith(("ssm_a", "ssm_dt.bias")) else ".weight"
        is_float = len(dimensions) == 1 or name.endswith(FLOATS)
        return name + suffix, dimensions, "f32" if is_float else kind

    d = s["d_model"]
    yield tensor("token_embd", [d, s["vocab"]])
    yield tensor("token_embd_norm" if s["kind"] == "lfm2" else "output_norm", [d])
    mlp = [("ffn_gate", [d, s["ffn"]]), ("ffn_up", [d, s["ffn"]]), ("ffn_down", [s["ffn"], d])]
    norms = [(name, [d]) for name in LAYER_NORMS[s["kind"]]]
    for i in range(s["layers"]):
        mixer = attention_tensors if i in s["attention"] else OTHER_MIXERS[s["kind"]]
        for name, dimensions in [*norms, *mixer(s), *mlp]:
            yield tensor(f"blk.{i}.{name}", dimensions)


def metadata_of_kinds(s):
    """(key after the architecture's name, value): numbers and lists of them that other models have not."""
    if s["kind"] == "lfm2":
        yield "attention.head_count_kv", [s["kv_heads"] if i in s["attention"] else 0 for i in range(s["layers"])]
        yield "shortconv.l_cache", s["taps"]
    if s["kind"] == "gemma3":
        yield "attention.sliding_window", s["window"]
    if s["kind"] == "qwen35":
        n = s["states"]
        yield "rope.dimension_sections", [s["turned"] // 6 + 1, s["turned"] // 6 + 1, s["turned"] // 6, 0]
        yield "full_attention_interval", s["attention"][1] - s["attention"][0]
        for name, value in (("conv_kernel", s["taps"]), ("state_size", s["state_dim"]), ("group_count", n), ("time_step_rank", n),
                            ("inner_size", n * s["state_dim"])):
            yield f"ssm.{name}", value


def gguf_tensors(s, kind):
    """(name, dimensions with the innermost first, type) of each tensor."""
    if "attention" in s:
        yield from tensors_of_kinds(s, kind)
        return
    for name, shape in tensors_of(s):
        layer = re.fullmatch(r"model\.layers\.(\d+)\.(.+)\.weight", name)
        if layer is None:
            yield OUTSIDE[name], shape[::-1], kind if len(shape) > 1 else "f32"
        elif "latent_rank" in s and (made := latent_tensors(s, layer[2], kind)):
            yield from ((f"blk.{layer[1]}.{name}.weight", shape, type_) for name, shape, type_ in made)
        elif layer[2] in NAMES:
            stack = [s["experts"]] if ".experts.0." in layer[2] else []
            is_float = len(shape) == 1 or layer[2] == "mlp.gate"
            yield f"blk.{layer[1]}.{NAMES[layer[2]]}.weight", shape[::-1] + stack, "f32" if is_float else kind
        elif ".experts." not in layer[2]:
            raise KeyError(name)


def metadata_of(s, kind):
    """(key, type, value)"""
    name = ARCHITECTURES[s["kind"]]
    own = dict(metadata_of_kinds(s))
    yield "general.architecture", STRING, name
    yield "general.name", STRING, "random"
    yield "general.file_type", U32, FILE_TYPES[kind]
    yield "tokenizer.ggml.model", STRING, "no_vocab"
    latent = "latent_rank" in s
    experts = "experts" in s
    head = s["latent_rank"] + s["turned"] if latent else s["head_dim"]
    for key, type_, value in (
            ("context_length", U32, s["context"]), ("embedding_length", U32, s["d_model"]), ("block_count", U32, s["layers"]),
            ("feed_forward_length", U32, s.get("dense_ffn", s["ffn"])), ("vocab_size", U32, s["vocab"]),
            ("attention.head_count", U32, s["heads"]), ("attention.head_count_kv", U32, 1 if latent else s["kv_heads"]),
            ("attention.key_length", U32, head), ("attention.value_length", U32, s["latent_rank"] if latent else head),
            ("attention.layer_norm_rms_epsilon", F32, 1e-5),
            ("rope.dimension_count", U32, s.get("turned", s["head_dim"])), ("rope.freq_base", F32, s["theta"])):
        if key not in own:
            yield f"{name}.{key}", type_, value
    for key, value in own.items():
        yield f"{name}.{key}", LIST if isinstance(value, list) else U32, value
    for key, type_, value in (
            ("expert_count", U32, s["experts"]), ("expert_used_count", U32, s["chosen"]),
            ("expert_feed_forward_length", U32, s["ffn"])) if experts else ():
        yield f"{name}.{key}", type_, value
    for key, type_, value in (
            ("attention.q_lora_rank", U32, rank_of_query(s)), ("attention.kv_lora_rank", U32, s["latent_rank"]),
            ("attention.key_length_mla", U32, s["head_dim"]),
            ("attention.value_length_mla", U32, s["value_dim"]), ("leading_dense_block_count", U32, s["dense_layers"]),
            ("expert_shared_count", U32, s["shared"] // s["ffn"]), ("expert_weights_scale", F32, 1.0),
            ("expert_gating_func", U32, 1), ("rope.scaling.type", STRING, s["rope"]["type"]),
            ("rope.scaling.factor", F32, s["rope"]["factor"]),
            ("rope.scaling.original_context_length", U32, s["rope"]["original_max_position_embeddings"]),
            ("rope.scaling.yarn_log_multiplier", F32, 0.1 * s["rope"]["mscale_all_dim"])) if latent else ():
        yield f"{name}.{key}", type_, value


def text(string):
    return struct.pack("<Q", len(string)) + string.encode()


def packed(type_, value):
    if type_ == STRING:
        return text(value)
    if type_ == LIST:
        return struct.pack(f"<IQ{len(value)}I", U32, len(value), *value)
    return struct.pack({U32: "<I", F32: "<f"}[type_], value)


def size_of(dimensions, kind):
    _, weights, size = TYPES[kind]
    return math.prod(dimensions) // weights * size


def float_block(rng, mean, deviation):
    """Values as bf16 has them."""
    values = bf16_block(rng, BLOCK_PIECES * PIECE_BYTES // 4, mean, deviation)
    block = bytearray(2 * len(values))
    block[2::4], block[3::4] = values[0::2], values[1::2]
    return bytes(block)


def weights_block(rng, kind):
    """Bytes of whole blocks; quantized ones have codes of one probability and scales of either sign."""
    n_bytes = BLOCK_PIECES * PIECE_BYTES
    if kind == "bf16":
        return bf16_block(rng, n_bytes // 2, 0.0, MATRIX_DEVIATION)
    size = TYPES[kind][2]
    codes = {"q4_0": 16, "q8_0": 256}[kind]
    scale = MATRIX_DEVIATION / (codes / math.sqrt(12))
    scales = [struct.pack("<e", sign * scale) for sign in (1, -1)]
    return b"".join(rng.choice(scales) + rng.randbytes(size - 2) for _ in range(n_bytes // size))


def token_bytes(shape, kind):
    """Weights that a token reads: those of experts that it chooses, and of an embedding with an output layer beside it none."""
    s = ALL_SHAPES[shape]
    sizes = ((name, size_of(dimensions, type_)) for name, dimensions, type_ in gguf_tensors(s, kind))
    return sum(size * s["chosen"] // s["experts"] if "_exps." in name else size
               for name, size in sizes if s["tied"] or name != OUTSIDE["model.embed_tokens.weight"])


def write_values(out, rng, block, unit, n_bytes):
    """Pieces of a block from random places, each at the beginning of a unit."""
    while n_bytes > 0:
        start = rng.randrange((len(block) - PIECE_BYTES) // unit) * unit
        n = min(n_bytes, PIECE_BYTES // unit * unit)
        out.write(block[start:start + n])
        n_bytes -= n


def write_gguf(path, s, kind, seed=1):
    rng = random.Random(seed)
    tensors, metadata = list(gguf_tensors(s, kind)), list(metadata_of(s, kind))
    norms, routers, weights = float_block(rng, 1.0, NORM_DEVIATION), float_block(rng, 0.0, MATRIX_DEVIATION), weights_block(rng, kind)
    with open(path, "wb") as out:
        out.write(b"GGUF" + struct.pack("<IQQ", VERSION, len(tensors), len(metadata)))
        for key, type_, value in metadata:
            out.write(text(key) + struct.pack("<I", type_) + packed(type_, value))
        offset = 0
        for name, dimensions, type_ in tensors:
            out.write(text(name) + struct.pack(f"<I{len(dimensions)}Q", len(dimensions), *dimensions))
            out.write(struct.pack("<IQ", TYPES[type_][0], offset))
            offset += -(-size_of(dimensions, type_) // ALIGNMENT) * ALIGNMENT
        for name, dimensions, type_ in tensors:
            out.write(bytes(-out.tell() % ALIGNMENT))
            if name.endswith("ssm_a"):  # a few values below zero, that nothing grows
                out.write(struct.pack(f"<{dimensions[0]}f", *(-rng.uniform(0.5, 2) for _ in range(dimensions[0]))))
                continue
            block = weights if type_ == kind else norms if len(dimensions) == 1 else routers
            write_values(out, rng, memoryview(block), TYPES[type_][2], size_of(dimensions, type_))
        out.write(bytes(-out.tell() % ALIGNMENT))


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file")
    parser.add_argument("--shape", required=True, choices=sorted(name for name, s in ALL_SHAPES.items() if s["kind"] in ARCHITECTURES))
    parser.add_argument("--type", required=True, choices=sorted(FILE_TYPES))
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    write_gguf(options.file, ALL_SHAPES[options.shape], options.type, options.seed)


if __name__ == "__main__":
    main()
