#!/usr/bin/env python3
"""Writes a Hugging Face checkpoint folder with random bf16 weights, for speed and memory tests.

  make_random_checkpoint.py OUT --shape NAME                 one of SHAPES; -4l: cut to four layers
  make_random_checkpoint.py OUT --d-model 64 --layers 2 --heads 4 --kv-heads 2 --ffn 192 --vocab 256
                            [--experts 8 --chosen 2 [--shared 96]]

Needs nothing but Python. Weights are Gaussian: pieces of one block of random values, taken at random
places, so that gigabytes take seconds and little memory. The same arguments give the same bytes.
"""

import argparse
import json
import os
import random
import struct

BLOCK_VALUES = 1 << 21
PIECE_VALUES = 1 << 19
MATRIX_DEVIATION = 0.02
NORM_DEVIATION = 0.1
BYTES_PER_VALUE = 2
HEADER_ALIGNMENT = 8

DEEPSEEK_ROPE = {
    "beta_fast": 32,
    "beta_slow": 1,
    "factor": 40,
    "mscale": 0.707,
    "mscale_all_dim": 0.707,
    "original_max_position_embeddings": 4096,
    "type": "yarn",
}
LLAMA3_ROPE = {
    "factor": 32.0,
    "high_freq_factor": 4.0,
    "low_freq_factor": 1.0,
    "original_max_position_embeddings": 8192,
    "rope_type": "llama3",
}

# Class, model_type and what its config has besides Llama's keys.
KINDS = {
    "llama": ("LlamaForCausalLM", "llama", {}),
    "qwen3": ("Qwen3ForCausalLM", "qwen3", {"use_sliding_window": False, "sliding_window": None, "max_window_layers": 28}),
    "mixtral": ("MixtralForCausalLM", "mixtral", {}),
    "qwen2_moe": ("Qwen2MoeForCausalLM", "qwen2_moe", {}),
    "qwen3_moe": ("Qwen3MoeForCausalLM", "qwen3_moe", {"use_sliding_window": False, "sliding_window": None, "decoder_sparse_step": 1,
                                                       "mlp_only_layers": [], "norm_topk_prob": True}),
    "deepseek_v2": ("DeepseekV2ForCausalLM", "deepseek_v2", {"moe_layer_freq": 1, "norm_topk_prob": False, "q_lora_rank": None,
                                                             "routed_scaling_factor": 1.0, "scoring_func": "softmax",
                                                             "topk_method": "greedy", "n_group": 1, "topk_group": 1}),
    "phi3": ("Phi3ForCausalLM", "phi3", {"original_max_position_embeddings": 4096, "sliding_window": 262144}),
}


def longrope(pairs):
    """Factors between those that the public configs have."""
    return {"type": "longrope", "short_factor": [1 + i / pairs for i in range(pairs)],
            "long_factor": [1 + 60 * i / pairs for i in range(pairs)]}


# ffn is the width of experts where there are any, shared that of the MLP beside them. Latent attention: head_dim counts the part
# that RoPE turns.
SHAPES = {
    "llama-3.2-1b": dict(d_model=2048, layers=16, heads=32, kv_heads=8, head_dim=64, ffn=8192,
                         vocab=128256, tied=True, theta=500000.0, rope=LLAMA3_ROPE,
                         context=131072, shard_mb=1000),
    "qwen3-0.6b": dict(d_model=1024, layers=28, heads=16, kv_heads=8, head_dim=128, ffn=3072,
                       vocab=151936, tied=True, theta=1000000.0, rope=None, context=40960,
                       shard_mb=0, kind="qwen3"),
    "phi-3.5-mini": dict(d_model=3072, layers=32, heads=32, kv_heads=32, head_dim=96, ffn=8192,
                         vocab=32064, tied=False, theta=10000.0, rope=longrope(48), context=131072,
                         shard_mb=5000, kind="phi3"),
    "tinyllama-1.1b": dict(d_model=2048, layers=22, heads=32, kv_heads=4, head_dim=64, ffn=5632,
                           vocab=32000, tied=False, theta=10000.0, rope=None, context=2048,
                           shard_mb=0),
    "mixtral-0.4b": dict(d_model=1024, layers=2, heads=16, kv_heads=4, head_dim=64, ffn=2048, vocab=32000, tied=False,
                         theta=1000000.0, rope=None, context=4096, shard_mb=500, kind="mixtral", experts=32, chosen=4),
    "qwen3-30b-a3b-4l": dict(d_model=2048, layers=4, heads=32, kv_heads=4, head_dim=128, ffn=768, vocab=151936, tied=False,
                             theta=1000000.0, rope=None, context=40960, shard_mb=4000, kind="qwen3_moe", experts=128, chosen=8),
    "deepseek-v2-lite-4l": dict(d_model=2048, layers=4, heads=16, kv_heads=16, head_dim=192, turned=64, value_dim=128,
                                latent_rank=512, ffn=1408, vocab=102400, tied=False, theta=10000.0, rope=DEEPSEEK_ROPE,
                                context=163840, shard_mb=4000, kind="deepseek_v2", experts=64, chosen=6, shared=2816,
                                dense_layers=1, dense_ffn=10944),
    "smollm-135m": dict(d_model=576, layers=30, heads=9, kv_heads=3, head_dim=64, ffn=1536,
                        vocab=49152, tied=True, theta=10000.0, rope=None, context=2048,
                        shard_mb=0),
}


def bf16_block(rng, count, mean, deviation):
    """count Gaussian values as bf16, cut off (not rounded) from f32."""
    gauss = rng.gauss
    f32 = struct.pack(f"<{count}f", *[gauss(mean, deviation) for _ in range(count)])
    block = bytearray(count * BYTES_PER_VALUE)
    block[0::2] = f32[2::4]
    block[1::2] = f32[3::4]
    return bytes(block)


def config_of(s):
    class_name, model_type, more = KINDS[s["kind"]]
    return {
        "architectures": [class_name],
        "attention_bias": False,
        "bos_token_id": 1 if s["vocab"] < 128000 else 128000,
        "eos_token_id": 2 if s["vocab"] < 128000 else 128001,
        "head_dim": s.get("turned", s["head_dim"]),
        "hidden_act": "silu",
        "hidden_size": s["d_model"],
        "intermediate_size": s.get("dense_ffn", s["ffn"]),
        "max_position_embeddings": s["context"],
        "mlp_bias": False,
        "model_type": model_type,
        "num_attention_heads": s["heads"],
        "num_hidden_layers": s["layers"],
        "num_key_value_heads": s["kv_heads"],
        "rms_norm_eps": 1e-05,
        "rope_scaling": s["rope"],
        "rope_theta": s["theta"],
        "tie_word_embeddings": s["tied"],
        "torch_dtype": "bfloat16",
        "vocab_size": s["vocab"],
        **more,
        **experts_config(s),
    }


def experts_config(s):
    if s["kind"] == "mixtral":
        return {"num_local_experts": s["experts"], "num_experts_per_tok": s["chosen"]}
    if s["kind"] == "qwen2_moe":
        return {"num_experts": s["experts"], "num_experts_per_tok": s["chosen"], "moe_intermediate_size": s["ffn"],
                "shared_expert_intermediate_size": s["shared"]}
    if s["kind"] == "qwen3_moe":
        return {"num_experts": s["experts"], "num_experts_per_tok": s["chosen"], "moe_intermediate_size": s["ffn"]}
    if s["kind"] == "deepseek_v2":
        return {"n_routed_experts": s["experts"], "num_experts_per_tok": s["chosen"], "moe_intermediate_size": s["ffn"],
                "n_shared_experts": s["shared"] // s["ffn"], "first_k_dense_replace": s["dense_layers"],
                "kv_lora_rank": s["latent_rank"], "qk_nope_head_dim": s["head_dim"] - s["turned"],
                "qk_rope_head_dim": s["turned"], "v_head_dim": s["value_dim"]}
    return {}


def feed_forward_of(s, layer):
    """The same of a layer's feed-forward, after the layer's name. Experts follow each other, each with its matrices."""
    d, ffn = s["d_model"], s["ffn"]

    def mlp(name, width, gate="gate_proj", up="up_proj", down="down_proj"):
        return [(f"{name}.{down}.weight", [d, width]), (f"{name}.{gate}.weight", [width, d]), (f"{name}.{up}.weight", [width, d])]

    if s["kind"] == "mixtral":
        block = "block_sparse_moe"
        experts = [mlp(f"{block}.experts.{i}", ffn, "w1", "w3", "w2") for i in range(s["experts"])]
        return [(f"{block}.gate.weight", [s["experts"], d]), *sum(experts, [])]
    if s["kind"] == "qwen2_moe":
        experts = [mlp(f"mlp.experts.{i}", ffn) for i in range(s["experts"])]
        return [("mlp.gate.weight", [s["experts"], d]), ("mlp.shared_expert_gate.weight", [1, d]),
                *mlp("mlp.shared_expert", s["shared"]), *sum(experts, [])]
    if s["kind"] in ("qwen3_moe", "deepseek_v2") and layer >= s.get("dense_layers", 0):
        experts = [mlp(f"mlp.experts.{i}", ffn) for i in range(s["experts"])]
        shared = mlp("mlp.shared_experts", s["shared"]) if "shared" in s else []
        return [("mlp.gate.weight", [s["experts"], d]), *sum(experts, []), *shared]
    return mlp("mlp", s.get("dense_ffn", ffn))


def latent_attention_of(s):
    d, heads, rank = s["d_model"], s["heads"], s["latent_rank"]
    own = s["head_dim"] - s["turned"]
    return [("kv_a_layernorm.weight", [rank]), ("kv_a_proj_with_mqa.weight", [rank + s["turned"], d]),
            ("kv_b_proj.weight", [heads * (own + s["value_dim"]), rank]), ("o_proj.weight", [d, heads * s["value_dim"]]),
            ("q_proj.weight", [heads * s["head_dim"], d])]


def tensors_of(s):
    """(name, shape) in the order in which they are stored."""
    d, q, kv = s["d_model"], s["heads"] * s["head_dim"], s["kv_heads"] * s["head_dim"]
    yield "model.embed_tokens.weight", [s["vocab"], d]
    for layer in range(s["layers"]):
        prefix = f"model.layers.{layer}."
        yield prefix + "input_layernorm.weight", [d]
        if s["kind"] == "phi3":
            yield prefix + "mlp.down_proj.weight", [d, s["ffn"]]
            yield prefix + "mlp.gate_up_proj.weight", [2 * s["ffn"], d]
            yield prefix + "post_attention_layernorm.weight", [d]
            yield prefix + "self_attn.o_proj.weight", [d, q]
            yield prefix + "self_attn.qkv_proj.weight", [q + 2 * kv, d]
            continue
        for name, shape in feed_forward_of(s, layer):
            yield prefix + name, shape
        yield prefix + "post_attention_layernorm.weight", [d]
        if s["kind"] == "deepseek_v2":
            for name, shape in latent_attention_of(s):
                yield f"{prefix}self_attn.{name}", shape
            continue
        if s["kind"] == "qwen2_moe":
            for name, rows in (("k", kv), ("q", q), ("v", kv)):
                yield f"{prefix}self_attn.{name}_proj.bias", [rows]
        if s["kind"] in ("qwen3", "qwen3_moe"):
            yield prefix + "self_attn.k_norm.weight", [s["head_dim"]]
            yield prefix + "self_attn.q_norm.weight", [s["head_dim"]]
        yield prefix + "self_attn.k_proj.weight", [kv, d]
        yield prefix + "self_attn.o_proj.weight", [d, q]
        yield prefix + "self_attn.q_proj.weight", [q, d]
        yield prefix + "self_attn.v_proj.weight", [kv, d]
    yield "model.norm.weight", [d]
    if not s["tied"]:
        yield "lm_head.weight", [s["vocab"], d]


def bytes_of(shape):
    size = BYTES_PER_VALUE
    for dimension in shape:
        size *= dimension
    return size


def shards_of(tensors, shard_bytes):
    """Lists of tensors, each list of at most shard_bytes unless one tensor is larger."""
    shards, size = [[]], 0
    for name, shape in tensors:
        n = bytes_of(shape)
        if shards[-1] and shard_bytes and size + n > shard_bytes:
            shards.append([])
            size = 0
        shards[-1].append((name, shape))
        size += n
    return shards


def write_shard(path, tensors, rng, matrix_block, norm_block):
    header, offset = {"__metadata__": {"format": "pt"}}, 0
    for name, shape in tensors:
        end = offset + bytes_of(shape)
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % HEADER_ALIGNMENT)
    with open(path, "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text)
        for _, shape in tensors:
            block = memoryview(matrix_block if len(shape) > 1 else norm_block)
            left = bytes_of(shape)
            while left > 0:
                start = rng.randrange(BLOCK_VALUES - PIECE_VALUES) * BYTES_PER_VALUE
                n = min(left, PIECE_VALUES * BYTES_PER_VALUE)
                out.write(block[start:start + n])
                left -= n


def write_checkpoint(folder, s, seed):
    rng = random.Random(seed)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as out:
        json.dump(config_of(s), out, indent=2)
    matrix_block = bf16_block(rng, BLOCK_VALUES, 0.0, MATRIX_DEVIATION)
    norm_block = bf16_block(rng, BLOCK_VALUES, 1.0, NORM_DEVIATION)
    shards = shards_of(list(tensors_of(s)), s["shard_mb"] * 1000 * 1000)
    if len(shards) == 1:
        write_shard(os.path.join(folder, "model.safetensors"), shards[0], rng, matrix_block, norm_block)
        return
    weight_map, total = {}, 0
    for i, tensors in enumerate(shards):
        name = f"model-{i + 1:05}-of-{len(shards):05}.safetensors"
        write_shard(os.path.join(folder, name), tensors, rng, matrix_block, norm_block)
        for tensor, shape in tensors:
            weight_map[tensor] = name
            total += bytes_of(shape)
    with open(os.path.join(folder, "model.safetensors.index.json"), "w", encoding="utf-8") as out:
        json.dump({"metadata": {"total_size": total}, "weight_map": weight_map}, out, indent=2)


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--shape", choices=sorted(SHAPES))
    for name in ("d-model", "layers", "heads", "kv-heads", "head-dim", "ffn", "vocab", "context", "experts", "chosen", "shared"):
        parser.add_argument("--" + name, type=int)
    parser.add_argument("--tied", action="store_true", help="no output layer of its own (with dimensions)")
    parser.add_argument("--shard-mb", type=int, help="largest shard in MB; 0: one file")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    shape = dict(SHAPES[options.shape]) if options.shape else dict(
        rope=None, theta=10000.0, tied=options.tied, context=2048, shard_mb=0)
    for name in ("d_model", "layers", "heads", "kv_heads", "head_dim", "ffn", "vocab", "context", "experts", "chosen", "shared", "shard_mb"):
        value = getattr(options, name)
        if value is not None:
            shape[name] = value
    for name in ("d_model", "layers", "heads", "ffn", "vocab"):
        if name not in shape:
            parser.error(f"give --shape or --{name.replace('_', '-')}")
    shape.setdefault("kind", "qwen2_moe" if "shared" in shape else "mixtral" if "experts" in shape else "llama")
    shape.setdefault("kv_heads", shape["heads"])
    shape.setdefault("head_dim", shape["d_model"] // shape["heads"])
    return options, shape


def main(arguments=None):
    options, shape = parse(arguments)
    write_checkpoint(options.folder, shape, options.seed)


if __name__ == "__main__":
    main()
