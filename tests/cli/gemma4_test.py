#!/usr/bin/env python3
"""Gemma 4: its per-layer table stays in a mapped file, its matrices have any format, and what is refused."""
import json
import math
import os
import random
import re
import struct
import subprocess
import unittest
from pathlib import Path

import cria_cli as cli
from cria_cli import BIN, DONE, PATIENCE_S, cria

REFERENCE = Path(os.environ.get("CRIA_SHARED", cli.SOURCE.parent / "shared")) / "reference/architectures"
OWN = ("per_layer_table", "per_layer_projection", "per_layer_gate", "per_layer_out")
# A weight's bits, somewhat more than int4 takes.
BITS = {"gemma4-e": "6.5", "gemma4-vl": "7.5", "gemma4-moe": "6.8"}
# How far the logits are from those of f32, as a part of their size; measured at most: 0.035, 0.30.
FARTHEST = {"int8": 0.05, "int4": 0.4}


def convert(*arguments):
    command = [str(BIN / "cria-convert"), *map(str, arguments), "--no-tokenizer"]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)


def expected(name):
    return json.loads((REFERENCE / name / "expected.json").read_text("utf-8"))


def walk():
    """Token ids, a line a sequence: each token is one of three that may follow."""
    draw = random.Random(5)
    after = {token: [draw.randrange(3, 320) for _ in range(3)] for token in range(320)}
    lines = []
    for _ in range(64):
        tokens = [1]
        while len(tokens) < 64:
            tokens.append(draw.choice(after[tokens[-1]]))
        lines.append(" ".join(map(str, tokens)))
    return "\n".join(lines)


def logits(path, *options):
    out = cli.folder() / "logits.f32"
    done = cria("logits", path, "--ids", ",".join(map(str, expected("gemma4-e")["prompt"])), "-o", out, *options)
    assert done.code == DONE, done.err
    return out.read_bytes()


def distance(found, wanted):
    """The length of the difference by that of what is wanted."""
    pairs = list(zip(struct.iter_unpack("<f", found), struct.iter_unpack("<f", wanted), strict=True))
    return math.sqrt(sum((x - y) ** 2 for (x,), (y,) in pairs) / sum(y * y for _, (y,) in pairs))


@unittest.skipUnless(REFERENCE.is_dir(), "no $CRIA_SHARED/reference")
class Gemma4(unittest.TestCase):
    def test_the_table_of_a_compressed_file_stays_in_it(self):
        report = cli.folder() / "report.json"
        path = cli.converted(REFERENCE / "gemma4-e", "--no-tokenizer", "--scales", "positive", "--report", str(report))
        tensors = {tensor["name"]: tensor for tensor in json.loads(report.read_text("utf-8"))["tensors"]}
        table = tensors["per_layer_table"]
        self.assertEqual((table["rows"], table["cols"]), (320 * 6, 16))
        stays = -(-table["raw_bytes"] // 64) * 64
        before = convert(REFERENCE / "gemma4-e", "--scales", "positive", "--plan").stdout
        self.assertRegex(before, rf"stay in the file, if it is mapped: [\d.]+ MB, {stays} bytes\n")
        for backend in cli.backends():
            mapped, read = (cli.plan_for("--backend", backend, *more, model=path) for more in ((), ("--no-mmap",)))
            self.assertEqual((mapped["in_place_bytes"], read["in_place_bytes"]), (stays, 0))
            self.assertEqual(mapped["weights_bytes"], read["weights_bytes"] - stays)
        self.assertEqual(logits(path), logits(path, "--no-mmap"))
        self.assertEqual(cria("verify", path).code, DONE)

    def test_the_summary_counts_every_tensor(self):
        said = convert(REFERENCE / "gemma4-e", "-o", cli.folder() / "summary.cria").stderr
        rows = dict(re.findall(r"^  (\S.*?) +(\d+) +\d+ +[\d.]+(?: +[\d.]+)?$", said, re.MULTILINE))
        self.assertIn("per-layer embeddings", rows)
        total = int(rows.pop("all"))
        self.assertEqual(sum(map(int, rows.values())), total)

    def test_a_prompt_in_pieces_has_the_same_bits(self):
        for weights in ("int4", "int8"):
            path = cli.converted(REFERENCE / "gemma4-e", "--no-tokenizer", "--weights", weights)
            whole = logits(path, "--backend", "exact", "--prefill-chunk", "64")
            for chunk in (1, 7):
                with self.subTest(weights, chunk=chunk):
                    self.assertEqual(logits(path, "--backend", "exact", "--prefill-chunk", chunk, "--threads", "2"), whole)

    def test_matrices_of_each_format_are_near_the_floats(self):
        folder = REFERENCE / "gemma4-e"
        floats = logits(cli.converted(folder, "--no-tokenizer", "--weights", "f32"), "--kv", "f32")
        for weights, farthest in FARTHEST.items():
            options = [option for matrix in OWN for option in ("--weights-of", f"{matrix}={weights}")]
            scales = ("--scales", "positive") if weights == "int4" else ()
            path = cli.converted(folder, "--no-tokenizer", "--weights", "f32", *scales, *options)
            for backend in cli.backends():
                with self.subTest(weights, backend=backend):
                    far = distance(logits(path, "--kv", "f32", "--backend", backend), floats)
                    print(f"{weights}, {backend}: {far:.4f}")
                    self.assertLess(far, farthest)
                    self.assertGreater(far, 0)

    def test_the_program_goes_on_as_transformers_does(self):
        for name in ("gemma4-e", "gemma4-vl", "gemma4-moe"):
            with self.subTest(name):
                path = cli.converted(REFERENCE / name, "--no-tokenizer", "--weights", "f32")
                ids = [*map(str, expected(name)["prompt"] + expected(name)["greedy"][:8])]
                done = cria("run", path, "--ids", ",".join(ids[:-8]), "-n", "8", "--greedy", "--kv", "f32")
                self.assertEqual((done.code, done.out.split()), (DONE, ids), done.err)

    def test_calibration_loses_less_than_rounding(self):
        ids = cli.folder() / "ids.txt"
        ids.write_text(walk(), "utf-8")
        for name in ("gemma4-e", "gemma4-vl", "gemma4-moe"):
            folder = REFERENCE / name
            floats = cli.converted(folder, "--no-tokenizer", "--weights", "f32")

            def loss(*options, floats=floats, folder=folder):
                path = cli.converted(folder, "--no-tokenizer", *options)
                done = cria("eval", path, "--ids", ids, "--reference", floats, "--json")
                self.assertEqual(done.code, DONE, done.err)
                return json.loads(done.out)["reference"]["mean_kl"]

            rounded, plain = loss("--method", "rtn"), loss()
            calibrated = loss("--method", "gptq", "--calibration", str(ids))
            mixed = loss("--bits", BITS[name], "--calibration", str(ids))
            with self.subTest(name):
                print(f"{name}: rtn {rounded:.4f}, mse {plain:.4f}, gptq {calibrated:.4f}, mixed {mixed:.4f}")
                self.assertLess(calibrated, 0.9 * min(rounded, plain))
                self.assertLess(mixed, 0.9 * plain)

    def test_mixed_formats_are_chosen_for_per_layer_embeddings_too(self):
        report = cli.folder() / "mixed.json"
        done = convert(REFERENCE / "gemma4-e", "-o", cli.folder() / "mixed.cria", "--bits", "7", "--report", report)
        self.assertEqual(done.returncode, DONE, done.stderr)
        tensors = {tensor["name"]: tensor for tensor in json.loads(report.read_text("utf-8"))["tensors"]}
        for name in ("per_layer_table", "per_layer_projection", "layers.5.per_layer_gate", "layers.5.per_layer_out"):
            self.assertGreater(tensors[name]["divergence"]["measured"], 0, name)


if __name__ == "__main__":
    cli.main()
