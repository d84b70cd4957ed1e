#!/usr/bin/env python3
"""Converted checkpoints compute what transformers computed on them: logits, experts and greedy tokens, by a decoder that sees
nothing but the model file (tests/tools/plain_decoder.py). So this holds the converter and the format, without the runtime."""
import concurrent.futures
import json
import math
import os
import struct
import sys
import unittest
from pathlib import Path

import cria_cli as cli

sys.path.insert(0, str(cli.SOURCE / "tests/tools"))
from cria_reader.model_file import ModelFile  # noqa: E402
from cria_reader.zstd_frame import have_zstd  # noqa: E402
from plain_decoder import Decoder  # noqa: E402

REFERENCE = Path(os.environ.get("CRIA_SHARED", cli.SOURCE.parent / "shared")) / "reference"
CHECKPOINTS = ("bias", "gqa-llama3-bf16-sharded", "granite", "mha-tied-f32", "mistral-sliding-window", "mqa-f16", "odd-sizes",
               "rope-linear", "rope-yarn")
ARCHITECTURES = ("bitnet", "deepseek-v2", "deepseek-v2-lite", "deepseek-v3", "ernie4.5", "exaone4", "gemma2", "gemma3",
                 "gemma3-vl", "gemma4-e", "gemma4-moe", "gemma4-vl", "gpt2", "granite-moe", "granite4", "granite4-h",
                 "granite4-h-moe", "lfm2", "lfm2-moe", "ministral3", "ministral3-vl", "mixtral", "mixtral-swa", "olmo2", "olmo3",
                 "olmoe", "phi3", "qwen2", "qwen2-moe", "qwen3", "qwen3-moe", "qwen3.5", "qwen3.5-moe", "qwen3.5-vl", "smollm3")
FOLDERS = [f"checkpoints/{name}" for name in CHECKPOINTS] + [f"architectures/{name}" for name in ARCHITECTURES]
TOLERANCE = 2e-4  # of 1 + |logit|
N_GREEDY = 12


def rewritten(name, rename, added, config):
    """A copy of an architecture's folder in which tensors have other names, there are more (of zeros), and keys of config.json."""
    source, folder = REFERENCE / "architectures" / name, cli.folder() / f"{name}-rewritten"
    folder.mkdir()
    raw = (source / "model.safetensors").read_bytes()
    n = struct.unpack_from("<Q", raw)[0]
    header, data = json.loads(raw[8:8 + n]), raw[8 + n:]
    header = {tensor if tensor == "__metadata__" else rename(tensor): entry for tensor, entry in header.items()}
    for tensor, shape in added.items():
        size = 4 * math.prod(shape)
        header[tensor] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + size]}
        data += bytes(size)
    text = json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
    (folder / "config.json").write_text(json.dumps(json.loads((source / "config.json").read_text("utf-8")) | config))
    for file in ("expected.json", "logits.f32"):
        (folder / file).symlink_to(source / file)
    return folder


def in_forms_of_the_hub():
    """GPT-2 has no front in its names, and masks; DeepSeek-V3 a layer for the token after the next; Gemma 4 keys and values of layers
    that read those of others."""
    gpt2 = rewritten("gpt2", lambda tensor: tensor.removeprefix("transformer."),
                     {f"h.{layer}.attn.bias": [1, 1, 8, 8] for layer in range(2)}, {})
    deepseek = rewritten("deepseek-v3", lambda tensor: tensor,
                         {"model.layers.3.eh_proj.weight": [48, 96], "model.layers.3.mlp.gate.weight": [16, 48]},
                         {"num_nextn_predict_layers": 1})
    gemma4 = rewritten("gemma4-e", lambda tensor: tensor,
                       {f"model.layers.{layer}.self_attn.{part}.weight": shape for layer, dim in ((3, 16), (4, 16), (5, 32))
                        for part, shape in (("k_proj", [dim, 48]), ("v_proj", [dim, 48]), ("k_norm", [dim]))}, {})
    return [gpt2, deepseek, gemma4]


def highest(logits):
    return max(range(len(logits)), key=logits.__getitem__)


def run(folder, path):
    """The largest difference, the experts chosen for the prompt's last token, greedy tokens; and what they should be."""
    expected = json.loads((folder / "expected.json").read_text("utf-8"))
    decoder = Decoder(ModelFile(Path(path).read_bytes()))
    rows = struct.iter_unpack(f"<{decoder.config['vocab_size']}f", (folder / "logits.f32").read_bytes())
    difference = 0
    for token, row in zip(expected["prompt"], rows, strict=True):
        logits = decoder.step(token)
        difference = max(difference, *(abs(a - b) / (1 + abs(b)) for a, b in zip(logits, row, strict=True)))
    experts, greedy = decoder.chosen(), []
    while len(greedy) < N_GREEDY:
        greedy.append(highest(logits))
        logits = decoder.step(greedy[-1])
    wanted = {int(layer): chosen for layer, chosen in expected.get("experts", {}).items()}
    return difference, (experts, greedy), (wanted, expected["greedy"][:N_GREEDY])


@unittest.skipUnless(have_zstd(), "no libzstd here")
@unittest.skipUnless(REFERENCE.is_dir(), "no $CRIA_SHARED/reference")
class Files(unittest.TestCase):
    def test_compute_what_the_checkpoints_do(self):
        folders = [*(REFERENCE / name for name in FOLDERS), *in_forms_of_the_hub()]
        paths = {folder: cli.converted(folder, "--no-tokenizer", "--weights", "f32") for folder in folders}
        with concurrent.futures.ProcessPoolExecutor(os.cpu_count()) as pool:
            runs = {folder: pool.submit(run, folder, path) for folder, path in paths.items()}
        for folder, result in runs.items():
            with self.subTest(folder.name):
                difference, found, wanted = result.result()
                self.assertLessEqual(difference, TOLERANCE)
                self.assertEqual(found, wanted)


if __name__ == "__main__":
    cli.main()
