#!/usr/bin/env python3
"""Qwen3-Next lies on disk otherwise than Qwen3.5-MoE: what the delta rule reads is fused, key head by key head, and each expert has
tensors of its own. A reference of the latter, rewritten so, becomes the same model file."""
import json
import os
import struct
import sys
import unittest
from pathlib import Path

import cria_cli as cli

sys.path.insert(0, str(cli.SOURCE / "tests/tools"))
from cria_reader.model_file import ModelFile  # noqa: E402
from cria_reader.zstd_frame import have_zstd  # noqa: E402

REFERENCE = Path(os.environ.get("CRIA_SHARED", cli.SOURCE.parent / "shared")) / "reference/architectures/qwen3.5-moe"


class Rows:
    """A tensor of bf16 as a list of rows."""

    def __init__(self, shape, raw):
        self.shape = shape
        width = 2 * shape[-1]
        self.rows = [raw[at:at + width] for at in range(0, len(raw), width)]

    def groups(self, n):
        """The rows, cut into n equal parts."""
        size = len(self.rows) // n
        return [self.rows[i * size:(i + 1) * size] for i in range(n)]


def read_tensors(path):
    raw = path.read_bytes()
    n = struct.unpack_from("<Q", raw)[0]
    header = json.loads(raw[8:8 + n])
    header.pop("__metadata__", None)
    return {name: (entry["dtype"], entry["shape"], raw[8 + n + entry["data_offsets"][0]:8 + n + entry["data_offsets"][1]])
            for name, entry in header.items()}


def write_tensors(path, tensors):
    header, data = {}, b""
    for name, (dtype, shape, raw) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def fused(parts, n_heads):
    """Of each key head what it has of every part."""
    groups = zip(*(part.groups(n_heads) for part in parts))
    rows = [row for head in groups for part in head for row in part]
    return "BF16", [len(rows), parts[0].shape[-1]], b"".join(rows)


def rewritten():
    folder = cli.folder() / "qwen3-next"
    folder.mkdir()
    config = json.loads((REFERENCE / "config.json").read_text("utf-8"))
    n_heads, key_rows = config["linear_num_key_heads"], config["linear_num_key_heads"] * config["linear_key_head_dim"]
    tensors = read_tensors(REFERENCE / "model.safetensors")
    for layer, kind in enumerate(config["layer_types"]):
        front = f"model.layers.{layer}."

        def take(name):
            dtype, shape, raw = tensors.pop(front + name)
            assert dtype == "BF16", name
            return Rows(shape, raw)

        if kind == "linear_attention":
            all_rows, z = take("linear_attn.in_proj_qkv.weight"), take("linear_attn.in_proj_z.weight")
            parts = []
            for first, last in ((0, key_rows), (key_rows, 2 * key_rows), (2 * key_rows, len(all_rows.rows))):
                part = Rows(all_rows.shape, b"")
                part.rows = all_rows.rows[first:last]
                parts.append(part)
            tensors[front + "linear_attn.in_proj_qkvz.weight"] = fused([*parts, z], n_heads)
            b, a = take("linear_attn.in_proj_b.weight"), take("linear_attn.in_proj_a.weight")
            tensors[front + "linear_attn.in_proj_ba.weight"] = fused([b, a], n_heads)
        gate_up, down = take("mlp.experts.gate_up_proj"), take("mlp.experts.down_proj")
        for i, (both, rows) in enumerate(zip(gate_up.groups(config["num_experts"]), down.groups(config["num_experts"]))):
            half = len(both) // 2
            for name, part in (("gate", both[:half]), ("up", both[half:]), ("down", rows)):
                tensors[f"{front}mlp.experts.{i}.{name}_proj.weight"] = "BF16", [len(part), len(part[0]) // 2], b"".join(part)
    write_tensors(folder / "model.safetensors", tensors)
    config |= {"architectures": ["Qwen3NextForCausalLM"], "model_type": "qwen3_next", "norm_topk_prob": True}
    (folder / "config.json").write_text(json.dumps(config))
    return folder


@unittest.skipUnless(have_zstd(), "no libzstd here")
@unittest.skipUnless(REFERENCE.is_dir(), "no $CRIA_SHARED/reference")
class Folders(unittest.TestCase):
    def test_both_forms_become_the_same_tensors(self):
        wanted, found = (ModelFile(Path(cli.converted(folder, "--no-tokenizer", "--weights", "f32")).read_bytes())
                         for folder in (REFERENCE, rewritten()))
        self.assertEqual(list(wanted.tensors), list(found.tensors))
        for name, tensor in wanted.tensors.items():
            self.assertEqual(list(wanted.rows(tensor)), list(found.rows(found.tensors[name])), name)
        same = dict(wanted.config) | {"architecture": None}
        self.assertEqual(same, dict(found.config) | {"architecture": None})
        self.assertNotEqual(wanted.config["architecture"], found.config["architecture"])


if __name__ == "__main__":
    cli.main()
