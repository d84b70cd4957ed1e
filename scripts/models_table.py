#!/usr/bin/env python3
"""The table of docs/models.md: what published models take in memory, planned by cria-convert from their configs.

    scripts/models_table.py CRIA_CONVERT            prints the table
    scripts/models_table.py CRIA_CONVERT --check    compares it with docs/models.md, and the parameters with what the
                                                    publishers say

The numbers of a config are those of the model's config.json on Hugging Face, for granite-4.0-h-1b, Qwen3.5-0.8B and Gemma 4
those of public descriptions; no weights are needed for a plan.
"""

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from script_arguments import OneLineParser, program

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/models.md"
CONTEXT = 2048
LONGROPE = {"rope_type": "longrope", "short_factor": [1.0] * 48, "long_factor": [1.0] * 48}

# name, parameters as published (millions, to their precision; None: not without other parts), class, what config.json says besides the shape
# (layers, width, heads, KV heads, FFN, vocabulary, tied)
LLAMA, QWEN2, QWEN3 = "LlamaForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM"
LFM2, GEMMA4 = "Lfm2ForCausalLM", "Gemma4ForCausalLM"
LFM2_LAYERS = {"layer_types": ["full_attention" if i in (2, 5, 8, 10, 12, 14) else "conv" for i in range(16)]}


def gemma4(layers, period, shared, is_wide):
    kinds = ["full_attention" if (i + 1) % period == 0 else "sliding_attention" for i in range(layers)]
    return {"layer_types": kinds, "num_kv_shared_layers": shared, "use_double_wide_mlp": is_wide, "head_dim": 256,
            "global_head_dim": 512, "sliding_window": 512, "hidden_size_per_layer_input": 256, "final_logit_softcapping": 30.0}


MODELS = (
    ("meta-llama/Llama-3.2-1B-Instruct", 1236, LLAMA, (16, 2048, 32, 8, 8192, 128256, True), {"head_dim": 64}),
    ("meta-llama/Llama-3.2-3B-Instruct", 3213, LLAMA, (28, 3072, 24, 8, 8192, 128256, True), {"head_dim": 128}),
    ("meta-llama/Llama-3.1-8B-Instruct", 8030, LLAMA, (32, 4096, 32, 8, 14336, 128256, False), {}),
    ("deepseek-ai/DeepSeek-R1-Distill-Llama-8B", 8030, LLAMA, (32, 4096, 32, 8, 14336, 128256, False), {}),
    ("TinyLlama/TinyLlama-1.1B-Chat-v1.0", 1100, LLAMA, (22, 2048, 32, 4, 5632, 32000, False), {}),
    ("HuggingFaceTB/SmolLM2-135M-Instruct", 134.5, LLAMA, (30, 576, 9, 3, 1536, 49152, True), {}),
    ("HuggingFaceTB/SmolLM2-360M-Instruct", 361.8, LLAMA, (32, 960, 15, 5, 2560, 49152, True), {}),
    ("HuggingFaceTB/SmolLM2-1.7B-Instruct", 1711, LLAMA, (24, 2048, 32, 32, 8192, 49152, True), {}),
    ("tiiuae/Falcon3-1B-Instruct", 1669, LLAMA, (18, 2048, 8, 4, 8192, 131072, False), {"head_dim": 256}),
    ("01-ai/Yi-1.5-6B-Chat", 6061, LLAMA, (32, 4096, 32, 4, 11008, 64000, False), {}),
    ("mistralai/Mistral-7B-Instruct-v0.3", 7248, "MistralForCausalLM", (32, 4096, 32, 8, 14336, 32768, False),
     {"sliding_window": None}),
    ("Qwen/Qwen2.5-0.5B-Instruct", 494, QWEN2, (24, 896, 14, 2, 4864, 151936, True), {}),
    ("Qwen/Qwen2.5-1.5B-Instruct", 1544, QWEN2, (28, 1536, 12, 2, 8960, 151936, True), {}),
    ("Qwen/Qwen2.5-3B-Instruct", 3086, QWEN2, (36, 2048, 16, 2, 11008, 151936, True), {}),
    ("Qwen/Qwen2.5-7B-Instruct", 7616, QWEN2, (28, 3584, 28, 4, 18944, 152064, False), {}),
    ("deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B", 1777, QWEN2, (28, 1536, 12, 2, 8960, 151936, False), {}),
    ("Qwen/Qwen3-0.6B", 596, QWEN3, (28, 1024, 16, 8, 3072, 151936, True), {"head_dim": 128}),
    ("Qwen/Qwen3-1.7B", 1721, QWEN3, (28, 2048, 16, 8, 6144, 151936, True), {"head_dim": 128}),
    ("Qwen/Qwen3-4B", 4022, QWEN3, (36, 2560, 32, 8, 9728, 151936, True), {"head_dim": 128}),
    ("Qwen/Qwen3-8B", 8191, QWEN3, (36, 4096, 32, 8, 12288, 151936, False), {"head_dim": 128}),
    ("HuggingFaceTB/SmolLM3-3B", 3075, "SmolLM3ForCausalLM", (36, 2048, 16, 4, 11008, 128256, True),
     {"no_rope_layer_interval": 4}),
    ("microsoft/Phi-3.5-mini-instruct", 3821, "Phi3ForCausalLM", (32, 3072, 32, 32, 8192, 32064, False),
     {"rope_scaling": LONGROPE, "original_max_position_embeddings": 4096, "max_position_embeddings": 131072}),
    ("microsoft/Phi-4-mini-instruct", 3836, "Phi3ForCausalLM", (32, 3072, 24, 8, 8192, 200064, True),
     {"rope_scaling": LONGROPE, "original_max_position_embeddings": 4096, "max_position_embeddings": 131072,
      "partial_rotary_factor": 0.75}),
    ("ibm-granite/granite-3.3-2b-instruct", 2534, "GraniteForCausalLM", (40, 2048, 32, 8, 8192, 49159, True),
     {"embedding_multiplier": 12, "logits_scaling": 8, "residual_multiplier": 0.22, "attention_multiplier": 0.015625}),
    ("ibm-granite/granite-4.0-micro", 3403, "GraniteMoeHybridForCausalLM", (40, 2560, 40, 8, 8192, 100352, True),
     {"layer_types": ["attention"] * 40, "num_local_experts": 0, "shared_intermediate_size": 8192,
      "position_embedding_type": "rope", "embedding_multiplier": 12, "logits_scaling": 10,
      "residual_multiplier": 0.22, "attention_multiplier": 0.015625}),
    ("LiquidAI/LFM2-350M", 354, LFM2, (16, 1024, 16, 8, 6656, 65536, True), LFM2_LAYERS),
    ("LiquidAI/LFM2-1.2B", 1170, LFM2, (16, 2048, 32, 8, 12288, 65536, True), LFM2_LAYERS),
    ("ibm-granite/granite-4.0-h-1b", 1460, "GraniteMoeHybridForCausalLM", (40, 1536, 12, 4, 4096, 100352, True),
     {"layer_types": ["attention" if i in (5, 15, 25, 35) else "mamba" for i in range(40)], "num_local_experts": 0,
      "shared_intermediate_size": 4096, "mamba_n_heads": 48, "mamba_d_head": 64, "mamba_d_state": 128, "mamba_expand": 2,
      "embedding_multiplier": 12, "logits_scaling": 6, "residual_multiplier": 0.22, "attention_multiplier": 0.0078125}),
    ("Qwen/Qwen3.5-0.8B", None, "Qwen3_5ForCausalLM", (24, 1024, 8, 2, 3584, 248320, True),
     {"head_dim": 256, "linear_num_key_heads": 16, "linear_num_value_heads": 16}),
    ("google/gemma-4-E2B-it", None, GEMMA4, (35, 1536, 8, 1, 6144, 262144, True), gemma4(35, 5, 20, True)),
    ("google/gemma-4-E4B-it", None, GEMMA4, (42, 2560, 8, 2, 10240, 262144, True), gemma4(42, 6, 18, False)),
    ("mistralai/Mixtral-8x7B-Instruct-v0.1", 46703, "MixtralForCausalLM", (32, 4096, 32, 8, 14336, 32000, False),
     {"num_local_experts": 8, "num_experts_per_tok": 2, "sliding_window": None}),
    ("Qwen/Qwen1.5-MoE-A2.7B-Chat", 14316, "Qwen2MoeForCausalLM", (24, 2048, 16, 16, 5632, 151936, False),
     {"num_experts": 60, "num_experts_per_tok": 4, "moe_intermediate_size": 1408, "shared_expert_intermediate_size": 5632}),
    ("Qwen/Qwen3-30B-A3B", 30532, "Qwen3MoeForCausalLM", (48, 2048, 32, 4, 6144, 151936, False),
     {"head_dim": 128, "num_experts": 128, "num_experts_per_tok": 8, "moe_intermediate_size": 768}),
    ("allenai/OLMoE-1B-7B-0924-Instruct", 6919, "OlmoeForCausalLM", (16, 2048, 16, 16, 1024, 50304, False),
     {"num_experts": 64, "num_experts_per_tok": 8}),
    ("ibm-granite/granite-3.1-1b-a400m-instruct", 1335, "GraniteMoeForCausalLM", (24, 1024, 16, 8, 512, 49155, True),
     {"num_local_experts": 32, "num_experts_per_tok": 8, "embedding_multiplier": 12, "logits_scaling": 6,
      "residual_multiplier": 0.22, "attention_multiplier": 0.015625}),
)
MODEL_TYPES = {"GraniteMoeHybridForCausalLM": "granitemoehybrid", "Qwen2MoeForCausalLM": "qwen2_moe",
               "Qwen3MoeForCausalLM": "qwen3_moe", "Qwen3_5ForCausalLM": "qwen3_5_text",
               GEMMA4: "gemma4_text"}
PUBLISHED_WITHIN = 0.002  # of the parameters: what is published is rounded

HEAD = ("| model | parameters | weights | of these in the file | KV cache | all | a snapshot |\n"
        "|---|---|---|---|---|---|---|\n")


def config_of(class_name, shape, more):
    layers, width, heads, kv_heads, ffn, vocab, tied = shape
    model_type = MODEL_TYPES.get(class_name, class_name.removesuffix("ForCausalLM").lower())
    return {"architectures": [class_name], "model_type": model_type, "num_hidden_layers": layers,
            "hidden_size": width, "num_attention_heads": heads, "num_key_value_heads": kv_heads,
            "intermediate_size": ffn, "vocab_size": vocab, "tie_word_embeddings": tied, "hidden_act": "silu",
            "rms_norm_eps": 1e-5, "max_position_embeddings": 32768,
            **({} if class_name == GEMMA4 else {"rope_theta": 10000.0}), **more}


def plan(converter, config):
    """The words of cria-convert --plan."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "config.json").write_text(json.dumps(config))
        done = subprocess.run([converter, folder, "--plan", "--no-tokenizer", "--context", str(CONTEXT)],
                              capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(done.stderr)
    return done.stdout


def megabytes(words, part):
    return int(re.search(rf"^    {part} .* (\d+) bytes$", words, re.M)[1]) / 1e6


def in_place(words):
    """The weights that stay in a mapped file, where there are any."""
    found = re.search(r"stay in the file, if it is mapped: .* (\d+) bytes$", words, re.M)
    return f"{int(found[1]) / 1e6:.0f} MB" if found else ""


def snapshot(words):
    """The memory of one more, where there are any."""
    found = re.search(r"^  each of its \d+ snapshots takes .* (\d+) bytes$", words, re.M)
    return f"{int(found[1]) / 1e6:.2f} MB" if found else ""


def parameters(words):
    """In millions."""
    number, unit = re.search(r", ([0-9.]+) ([MG]) parameters", words).groups()
    return float(number) * (1000 if unit == "G" else 1)


def rows(converter):
    """[name, parameters found, parameters published, the line of the table]"""
    for name, published, class_name, shape, more in MODELS:
        words = plan(converter, config_of(class_name, shape, more))
        found = parameters(words)
        weights, cache, total = (f"{megabytes(words, part):.0f} MB" for part in ("weights", "KV cache", "total"))
        text = f"{found / 1000:.2f} G" if found >= 1000 else f"{found:.0f} M"
        yield name, found, published, f"| {name} | {text} | " + " | ".join(
            [weights, in_place(words), cache, total, snapshot(words)]) + " |\n"


def main():
    parser = OneLineParser(description=__doc__)
    parser.add_argument("converter", metavar="CRIA_CONVERT", type=program)
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    table = HEAD
    wrong = []
    for name, found, published, line in rows(args.converter):
        table += line
        # Half of the last digit that cria-convert prints, besides.
        if published is not None and abs(found - published) > PUBLISHED_WITHIN * published + (5 if found >= 1000 else 0.05):
            wrong.append(f"{name}: {found} M parameters, published {published} M")
    if not args.check:
        print(table, end="")
    elif table not in PAGE.read_text():
        wrong.append(f"{PAGE.name}: its table is another; put there what {Path(__file__).name} prints")
    sys.exit("\n".join(wrong) or 0)


if __name__ == "__main__":
    main()
