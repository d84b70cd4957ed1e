#!/usr/bin/env python3
"""Gemma 4: its per-layer table stays in a mapped file, its matrices have any format, and what is refused."""
import json
import math
import os
import re
import struct
import subprocess
import unittest
from pathlib import Path

import cria_cli as cli
from cria_cli import BIN, DONE, PATIENCE_S, USAGE, cria

REFERENCE = Path(os.environ.get("CRIA_SHARED", cli.SOURCE.parent / "shared")) / "reference/architectures"
OWN = ("per_layer_table", "per_layer_projection", "per_layer_gate", "per_layer_out")
# How far the logits are from those of f32, as a part of their size; measured at most: 0.035, 0.30.
FARTHEST = {"int8": 0.05, "int4": 0.4}


def convert(*arguments):
    command = [str(BIN / "cria-convert"), *map(str, arguments), "--no-tokenizer"]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)


def expected(name):
    return json.loads((REFERENCE / name / "expected.json").read_text("utf-8"))


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

    def test_what_is_not_calibrated_is_refused(self):
        for options in (["--method", "gptq"], ["--bits", "5"], ["--calibration", "ids.txt"], ["--bits", "5", "--method", "gptq"]):
            for name in ("gemma4-e", "gemma4-vl"):
                done = convert(REFERENCE / name, "--plan", *options)
                self.assertEqual((done.returncode, done.stdout), (USAGE, ""), done.stderr)
                said = re.escape(" ".join(options[:2]) if options[0] == "--method" else options[0])
                self.assertRegex(done.stderr, rf"\Acria-convert: error: {said} is not supported for models with per-layer "
                                              r"embeddings [^\n]+; leave it out, [^\n]+\n\Z")
        self.assertEqual(convert(REFERENCE / "gemma4-moe", "--plan", "--method", "gptq").returncode, DONE)


if __name__ == "__main__":
    cli.main()
