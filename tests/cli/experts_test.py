#!/usr/bin/env python3
"""Models with experts: plans before and after a conversion, quantized stacks, calibration, what is refused."""
import json
import math
import os
import re
import statistics
import struct
import subprocess
import sys
import unittest
from collections import Counter
from pathlib import Path

import cria_cli as cli
from cria_cli import BIN, DONE, PATIENCE_S, USAGE, cria

sys.path.insert(0, str(cli.SOURCE / "tests/tools"))
import make_random_checkpoint  # noqa: E402
from cria_reader.model_file import ModelFile  # noqa: E402

# Wide enough for experts to be what a step's scratch is for.
SHAPE = ("--d-model", "64", "--layers", "2", "--heads", "4", "--kv-heads", "2", "--ffn", "160", "--vocab", "128", "--context", "160",
         "--experts", "12", "--chosen", "8")
KINDS = {"mixtral": (), "qwen2_moe": ("--shared", "96")}
REFERENCE = Path(os.environ.get("CRIA_SHARED", cli.SOURCE.parent / "shared")) / "reference/architectures"
FOLDERS = ("mixtral", "qwen2-moe", "qwen3-moe", "olmoe", "granite-moe")
LATENT = ("deepseek-v2-lite", "deepseek-v2", "deepseek-v3")
# How far the logits are from those of f32, as a part of their size; measured at most: 0.020, 0.018, 0.19, 0.18.
FARTHEST = {"int8": 0.03, "int8g32": 0.03, "int4": 0.25, "int4nl": 0.25}
# How far those of XNNPACK are from those of exact, as activations have another scale; measured at most: 0.017.
APART = 0.025


def checkpoint(kind):
    path = cli.folder() / kind
    if not path.exists():
        make_random_checkpoint.main([str(path), *SHAPE, *KINDS[kind]])
    return path


def convert(*arguments):
    command = [str(BIN / "cria-convert"), *map(str, arguments), "--no-tokenizer"]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)


def planned_bytes(text):
    """Bytes of each row of a plan that cria-convert printed."""
    return {name.strip(): int(n) for name, n in re.findall(r"^    (\w[\w ]*?) +[\d.]+ MB +(\d+) bytes$", text, re.MULTILINE)}


def logits(path, prompt, *options, backend="exact"):
    out = cli.folder() / "logits.f32"
    done = cria("logits", path, "--ids", ",".join(map(str, prompt)), "-o", out, "--kv", "f32", "--backend", backend, *options)
    assert done.code == DONE, done.err
    return [value for value, in struct.iter_unpack("<f", out.read_bytes())]


def distance(found, wanted, n_rows):
    """The length of the difference by that of what is wanted, in the median of the rows: in some, another expert is chosen."""
    def of_row(a, b):
        return math.sqrt(sum((x - y) ** 2 for x, y in zip(a, b, strict=True)) / sum(y * y for y in b))

    n = len(wanted) // n_rows
    return statistics.median(of_row(found[i:i + n], wanted[i:i + n]) for i in range(0, n * n_rows, n))


class Plans(unittest.TestCase):
    def test_a_plan_is_what_cria_info_says_of_the_file(self):
        for kind in KINDS:
            for options in ([], ["--weights", "f32"], ["--weights", "int8", "--weights-of", "expert_down=int4", "--context", "70"]):
                with self.subTest(kind, options=options):
                    before = convert(checkpoint(kind), "--plan", *options)
                    self.assertEqual((before.returncode, before.stderr), (DONE, ""))
                    plan = planned_bytes(before.stdout)
                    told = cli.plan_for("--backend", "exact", "--no-mmap",
                                        model=cli.converted(checkpoint(kind), "--no-tokenizer", *options))
                    parts = told["model"], told["session"], told["workspace"]
                    self.assertEqual(plan, {
                        "weights": told["weights_bytes"], "KV cache": told["kv_cache_bytes"], "logits": parts[1]["logits_bytes"],
                        "history": parts[1]["history_bytes"], "objects": sum(part["objects_bytes"] for part in parts),
                        "scratch": parts[2]["running_bytes"], "total": told["total_bytes"]})

    def test_experts_of_a_compressed_file_stay_in_it(self):
        for kind in KINDS:
            before = convert(checkpoint(kind), "--plan")
            stays = int(re.search(r"stay in the file, if it is mapped: [\d.]+ MB, (\d+) bytes\n", before.stdout).group(1))
            path = cli.converted(checkpoint(kind), "--no-tokenizer")
            mapped = cli.plan_for("--backend", "exact", model=path)
            self.assertEqual(mapped["in_place_bytes"], stays)
            self.assertEqual(mapped["weights_bytes"], planned_bytes(before.stdout)["weights"] - stays)
            self.assertGreater(stays, mapped["weights_bytes"])
            self.assertEqual(logits(path, [3, 9, 27]), logits(path, [3, 9, 27], "--no-mmap"))
            self.assertEqual(cria("verify", path).code, DONE)
        self.assertNotIn("stay in the file", convert(checkpoint("mixtral"), "--plan", "--compress", "none").stdout)
        self.assertNotIn("stay in the file", convert(cli.DEMO, "--plan").stdout)

    def test_scratch_grows_with_the_chosen_experts(self):
        def total(*more):
            path = cli.folder() / "more"
            make_random_checkpoint.main([str(path), *SHAPE, *more])
            return planned_bytes(convert(path, "--plan").stdout)["total"]

        # A slot is a row of the model's width and two of an expert's, one of 64 rows; its input once more in int8 and a scale
        # and a sum for 32 of that.
        floats = 4 * (64 + 2 * 160)
        self.assertGreaterEqual(total("--chosen", "11") - total("--chosen", "8"), 3 * 64 * floats)


@unittest.skipUnless(REFERENCE.is_dir(), "no $CRIA_SHARED/reference")
class Quantized(unittest.TestCase):
    def test_stacks_of_each_format_are_near_the_floats(self):
        for name in FOLDERS:
            folder = REFERENCE / name
            prompt = json.loads((folder / "expected.json").read_text("utf-8"))["prompt"]
            floats = logits(cli.converted(folder, "--no-tokenizer", "--weights", "f32"), prompt)
            for weights, farthest in FARTHEST.items():
                with self.subTest(name, weights=weights):
                    path = cli.converted(folder, "--no-tokenizer", "--weights", "f32", *stacks_of(weights))
                    found = logits(path, prompt)
                    self.assertEqual(logits(path, prompt, "--threads", "2"), found)
                    far = distance(found, floats, len(prompt))
                    print(f"{name}, {weights}: {far:.4f}")
                    self.assertLess(far, farthest)
                    self.assertGreater(far, 0)
                    self.assertEqual(cria("verify", path).code, DONE)

    def test_xnnpack_is_as_near_to_the_floats(self):
        if "xnnpack" not in cli.backends():
            self.skipTest("this build has no XNNPACK")
        for name in (*FOLDERS, *LATENT):
            folder = REFERENCE / name
            prompt = json.loads((folder / "expected.json").read_text("utf-8"))["prompt"]
            floats = logits(cli.converted(folder, "--no-tokenizer", "--weights", "f32"), prompt)
            for weights, scales in (("int8", ()), ("int4", ("--scales", "positive"))):
                with self.subTest(name, weights=weights):
                    stacks = stacks_of(weights, *(("key_up", "value_up") if name in LATENT else ()))
                    path = cli.converted(folder, "--no-tokenizer", "--weights", "f32", *scales, *stacks)
                    found = logits(path, prompt, backend="xnnpack")
                    self.assertEqual(logits(path, prompt, "--threads", "3", backend="xnnpack"), found)
                    exact = logits(path, prompt)
                    far, of_exact, apart = (distance(x, y, len(prompt)) for x, y in ((found, floats), (exact, floats), (found, exact)))
                    print(f"{name}, {weights}: {far:.4f}, exact {of_exact:.4f}, from each other {apart:.4f}")
                    self.assertLess(far, 1.3 * of_exact)
                    self.assertLess(apart, APART)

    def test_searched_scales_lose_less_than_those_of_the_range(self):
        folder = REFERENCE / "mixtral"
        lost = {}
        for method in ("rtn", "mse"):
            report = cli.folder() / f"{method}.json"
            cli.converted(folder, "--no-tokenizer", "--method", method, "--report", str(report))
            tensors = json.loads(report.read_text("utf-8"))["tensors"]
            lost[method] = [t["sqnr_db"] for t in tensors if "expert_" in t["name"]]
        self.assertEqual(len(lost["mse"]), 6)
        self.assertTrue(all(mse > rtn for mse, rtn in zip(lost["mse"], lost["rtn"], strict=True)), lost)


def ids_file():
    path = cli.folder() / "ids.txt"
    path.write_text("".join(" ".join(str(7 * i % 300 + line) for i in range(40)) + "\n" for line in range(9)))
    return path


def stacks_of(weights, *more):
    matrices = ("expert_gate", "expert_up", "expert_down", *more)
    return [option for matrix in matrices for option in ("--weights-of", f"{matrix}={weights}")]


class Info(unittest.TestCase):
    def test_it_counts_what_a_token_reads(self):
        for kind in KINDS:
            report = cli.folder() / f"{kind}-info.json"
            path = cli.converted(checkpoint(kind), "--no-tokenizer", "--report", str(report))
            tensors = json.loads(report.read_text("utf-8"))["tensors"]
            n_parameters = n_bytes = 0
            for tensor in tensors:
                share = 8 / 12 if "expert_" in tensor["name"] else tensor["name"] != "embedding"
                weights = tensor["rows"] * tensor["cols"] * tensor.get("matrices", 1) * (tensor["name"] != "rope")
                n_parameters += round(share * weights)
                n_bytes += round(share * -(-tensor["raw_bytes"] // 64) * 64)
            model = json.loads(cria("info", path, "--json").out)["model"]
            self.assertEqual(model["n_active_parameters"], n_parameters)
            self.assertEqual(model["active_bytes"], n_bytes)
            text = cria("info", path).out
            self.assertIn(f"\nread a token  {n_bytes:,} bytes\n", text)
            self.assertIn("\nexperts       12, 8 chosen, of 160\n", text)
        self.assertNotIn("read a token", cria("info", cli.model()).out)

    def test_of_a_dense_model_it_is_all_but_the_table(self):
        tied = json.loads(cria("info", cli.model(), "--json").out)["model"]
        self.assertEqual((tied["n_active_parameters"], tied["active_bytes"]), (tied["n_parameters"], tied["weight_bytes"]))


    @unittest.skipUnless(REFERENCE.is_dir(), "no $CRIA_SHARED/reference")
    def test_matrices_of_all_kinds_of_layers_are_counted_together(self):
        report = cli.folder() / "kinds.json"
        path = cli.converted(REFERENCE / "qwen3-moe", "--no-tokenizer", "--report", str(report), "--bits", "8",
                             "--calibration", str(ids_file()))
        matrices = json.loads(cria("info", path, "--json").out)["model"]["matrices"]
        names = {matrix["matrix"] for matrix in matrices}
        tensors = [(tensor["name"].split(".")[-1], tensor["format"]) for tensor in json.loads(report.read_text("utf-8"))["tensors"]]
        counts = Counter((name, number_format) for name, number_format in tensors if name in names)
        self.assertEqual(len({(m["matrix"], m["format"], m["group_size"]) for m in matrices}), len(matrices))
        told = Counter()
        for m in matrices:
            told[m["matrix"], m["format"]] += m["count"]
        self.assertEqual(told, counts)
        self.assertEqual(sum(n for (name, _), n in told.items() if name == "q"), 3)

    @unittest.skipUnless(REFERENCE.is_dir(), "no $CRIA_SHARED/reference")
    def test_layers_of_experts_alone_have_no_other_width(self):
        text = cria("info", cli.converted(REFERENCE / "mixtral", "--no-tokenizer")).out
        self.assertIn("\nlayers        2 x 48\n", text)
        text = cria("info", cli.converted(REFERENCE / "qwen2-moe", "--no-tokenizer")).out
        self.assertRegex(text, r"\nlayers        \d x 48, ffn \d+\n")


class Calibrated(unittest.TestCase):
    def rounded(self, *options, name="mixtral"):
        """A model of a reference, and what its report says of matrices that had a choice."""
        report = cli.folder() / f"{name}-{len(list(cli.folder().iterdir()))}.json"
        path = cli.converted(REFERENCE / name, "--no-tokenizer", "--report", str(report), *options)
        tensors = json.loads(report.read_text("utf-8"))["tensors"]
        return path, {tensor["name"]: tensor["rounding"] for tensor in tensors if "rounding" in tensor}

    @unittest.skipUnless(REFERENCE.is_dir(), "no $CRIA_SHARED/reference")
    def test_outputs_are_nearer_to_those_of_the_floats(self):
        # These models are random: their inputs are as good as independent, which leaves calibration little.
        for name, share in (*((name, 0.9) for name in FOLDERS), ("deepseek-v2-lite", 0.9), ("gpt2", 0.5)):
            with self.subTest(name):
                _, outcomes = self.rounded("--method", "gptq", "--calibration-tokens", "4096", name=name)
                stacks = {tensor: outcome for tensor, outcome in outcomes.items() if re.search("expert_|key_up|value_up", tensor)}
                self.assertEqual(stacks, {tensor: outcome for tensor, outcome in outcomes.items() if isinstance(outcome["kept"], dict)})
                counted = [outcome for tensor, outcome in stacks.items() if "expert_" in tensor] or outcomes.values()
                before, after = (statistics.mean(outcome[key] for outcome in counted) for key in ("error_before", "error"))
                print(f"{name}: outputs {before:.4f} to {after:.4f}")
                self.assertLess(after, share * before)

    @unittest.skipUnless(REFERENCE.is_dir(), "no $CRIA_SHARED/reference")
    def test_two_threads_write_what_one_does(self):
        for name in ("qwen2-moe", "deepseek-v2", "gpt2"):
            files = [cli.converted(REFERENCE / name, "--no-tokenizer", "--method", "gptq", "--calibration-tokens", "1024", "--threads", n)
                     for n in ("1", "2", "3")]
            self.assertEqual(len({Path(file).read_bytes() for file in files}), 1)

    @unittest.skipUnless(REFERENCE.is_dir(), "no $CRIA_SHARED/reference")
    def test_experts_that_too_few_rows_come_to_are_rounded_as_without(self):
        ids = cli.folder() / "few.txt"
        ids.write_text("1 2 3\n" * 8)
        few, outcomes = self.rounded("--method", "gptq", "--calibration", str(ids))
        stacks = {name: outcome for name, outcome in outcomes.items() if "expert_" in name}
        self.assertEqual(len(stacks), 6)
        for outcome in stacks.values():
            n = outcome["too_few_rows"]
            self.assertEqual((outcome["kept"], outcome["error"]), ({"gptq": 0, "mse": n}, 0))
        self.assertEqual({t: planes(few, t) for t in stacks},
                         {t: planes(cli.converted(REFERENCE / "mixtral", "--no-tokenizer"), t) for t in stacks})

    def test_bits_are_shared_out(self):
        report = cli.folder() / "bits.json"
        cli.converted(checkpoint("qwen2_moe"), "--no-tokenizer", "--bits", "5", "--report", str(report))
        told = json.loads(report.read_text("utf-8"))
        self.assertLessEqual(told["bits"]["reached"], 5)
        self.assertGreater(told["bits"]["reached"], 4.8)
        divergences = {t["name"]: t["divergence"] for t in told["tensors"] if "divergence" in t}
        self.assertEqual(sum("expert_" in name for name in divergences), 6)
        self.assertTrue(all(d["measured"] > 0 for d in divergences.values()), divergences)

    def test_a_plan_says_what_it_takes(self):
        for wish in (["--bits", "5"], ["--method", "gptq"]):
            self.assertRegex(convert(checkpoint("mixtral"), *wish, "--plan").stdout, r"memory to calibrate it, about: \d+ MB\n")


def planes(path, name):
    """The bytes of a tensor of a file."""
    file = ModelFile(Path(path).read_bytes())
    return file.planes(file.tensors[name])


class Refusals(unittest.TestCase):
    def test_a_matrix_that_a_model_does_not_have_is_named(self):
        done = convert(checkpoint("mixtral"), "--plan", "--weights-of", "gate=int8")
        self.assertEqual(done.returncode, USAGE)
        self.assertIn("--weights-of gate: this model has no such matrix", done.stderr)


if __name__ == "__main__":
    cli.main()
