#!/usr/bin/env python3
"""cria-convert --bits on the demo: within the bits and nearer to the float model than its neighbours of one format, a true
report, what cria info says, what is refused."""
import json
import os
import subprocess
import unittest
from collections import Counter

import checkpoints
import cria_cli
from cria_cli import BIN, DEMO, DONE, IO, PATIENCE_S, USAGE, cria, folder, model

BITS = "5"
MATRICES = "embedding q k v o gate up down".split()  # of a model whose table is its output layer


def report_of(*options):
    path = folder() / f"report{len(options)}.json"
    return model(*options, "--report", str(path)), json.loads(path.read_text())


def mixed():
    return report_of("--bits", BITS)


def mean_kl(path):
    text = folder() / "heldout.txt"
    text.write_text((DEMO / "heldout.txt").read_text("utf-8")[:12000], "utf-8")
    done = cria("eval", path, "--text", text, "--reference", model("--weights", "f32"), "--json")
    assert done.code == DONE, done.err
    return json.loads(done.out)["reference"]["mean_kl"]


def convert(*options):
    command = [str(BIN / "cria-convert"), str(DEMO), *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)


class MixedFormats(unittest.TestCase):
    def test_the_average_is_within_the_bits_and_the_report_true_to_the_file(self):
        path, report = mixed()
        matrices = [tensor for tensor in report["tensors"] if "bits" in tensor]
        n_weights = sum(tensor["rows"] * tensor["cols"] for tensor in matrices)
        average = 8 * sum(tensor["raw_bytes"] for tensor in matrices) / n_weights
        self.assertAlmostEqual(report["bits"]["reached"], average)
        self.assertLessEqual(average, float(BITS))
        self.assertGreater(average, float(BITS) - 0.1)
        self.assertTrue(all(tensor["divergence"]["measured"] > 0 for tensor in matrices))
        info = json.loads(cria("info", path, "--json").out)
        self.assertEqual(info["model"]["weight_format"], "mixed")
        self.assertEqual(info["memory_plan"]["weights_bytes"], report["memory_plan"]["weights_bytes"])

    def test_info_counts_the_formats_of_each_kind_of_matrices(self):
        path, report = mixed()
        info = json.loads(cria("info", path, "--json").out)
        told = Counter((tensor["name"].split(".")[-1], tensor["format"], tensor.get("group_size"))
                       for tensor in report["tensors"] if "bits" in tensor)
        held = {(kind["matrix"], kind["format"], kind["group_size"]): kind["count"] for kind in info["model"]["matrices"]}
        self.assertEqual(dict(told), held)
        self.assertGreater(len({(name, group) for _, name, group in held}), 2)
        self.assertEqual(cria("verify", path).code, DONE)

    def test_it_is_nearer_to_the_float_model_than_the_line_between_two_formats(self):
        path, report = mixed()
        small, fine = mean_kl(model()), mean_kl(model("--weights", "int8"))
        share = (report["bits"]["reached"] - 4.5) / (8.1 - 4.5)
        line = small + share * (fine - small)
        found = mean_kl(path)
        print(f"KL: int4 {small:.5f}, --bits {BITS} {found:.5f}, on the line between int4 and int8 {line:.5f}")
        self.assertLess(found, 0.8 * line)

    def test_two_threads_write_what_one_does(self):
        with open(model("--bits", "4.5", "--threads", "1"), "rb") as one, open(model("--bits", "4.5", "--threads", "2"), "rb") as two:
            self.assertTrue(one.read() == two.read())

    def test_what_it_says_before_and_behind_the_measuring(self):
        planned = convert("--plan", "--bits", BITS)
        self.assertEqual(planned.returncode, DONE, planned.stderr)
        self.assertIn("at most 5 bits a weight, ", planned.stdout)
        self.assertIn("memory to run it, at most", planned.stdout)
        self.assertIn("memory to calibrate it", planned.stdout)
        done = convert("-o", str(folder() / "said.cria"), "--bits", BITS)
        self.assertEqual(done.returncode, DONE, done.stderr)
        self.assertRegex(done.stderr, r"formats, 4\.9\d\d bits a weight|formats, 5\.000 bits a weight")

    def test_bits_that_cannot_be_are_usage_errors(self):
        output = str(folder() / "none.cria")
        for options, words in ((("--bits", "4.1"), ("4.13 to 8.50 bits",)), (("--bits", "8.6"), ("4.13 to 8.50 bits",)),
                               (("--bits", "3"), ("--bits",)), (("--bits", "nan"), ("--bits",)), (("--bits", "x"), ("--bits",)),
                               (("--bits", "5", "--weights", "f32"), ("--bits", "int4")),
                               (("--bits", "5", "--weights", "f16"), ("--bits", "int4")),
                               (("--bits", "5", "--weights", "int8"), ("--bits", "int4")),
                               (("--bits", "5", "--group-size", "32"), ("--bits", "--group-size"))):
            with self.subTest(options=options):
                done = convert("-o", output, *options)
                self.assertEqual(done.returncode, USAGE, done.stderr)
                self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
                for word in words:
                    self.assertIn(word, done.stderr)
                self.assertFalse(os.path.exists(output))

    def test_a_report_that_cannot_be_written_is_refused_before_the_measuring(self):
        output = folder() / "none.cria"
        done = convert("-o", str(output), "--bits", BITS, "--report", str(folder() / "nowhere" / "report.json"))
        self.assertEqual(done.returncode, IO, done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertFalse(output.exists())

    def test_named_matrices_keep_their_format_and_the_bytes_are_the_same_for_any_threads(self):
        options = ("--bits", "6", "--weights-of", "embedding=int8g32", "--weights-of", "down=int4nl")
        made = [model(*options, "--threads", threads) for threads in ("1", "3")]
        kinds = {(kind["matrix"], kind["format"]) for kind in json.loads(cria("info", made[0], "--json").out)["model"]["matrices"]}
        self.assertEqual({f for matrix, f in kinds if matrix == "embedding"}, {"int8g32"})
        self.assertEqual({f for matrix, f in kinds if matrix == "down"}, {"int4nl"})
        with open(made[0], "rb") as one, open(made[1], "rb") as three:
            self.assertTrue(one.read() == three.read())

    def test_trained_codes_keep_their_format_and_count_among_the_bits(self):
        path = cria_cli.converted(checkpoints.packed_ternary("ternary"), "--no-tokenizer", "--bits", "3.3")
        described = json.loads(cria("info", path, "--json").out)["model"]
        self.assertLessEqual(described["bits_per_weight"], 3.4)  # with the vectors
        kinds = {kind["matrix"]: kind["format"] for kind in described["matrices"]}
        self.assertLessEqual({kinds.pop(matrix) for matrix in ("embedding", "lm_head")}, {"int4", "int8", "int8g32"})
        self.assertEqual(set(kinds.values()), {"bit2"})

    def test_where_every_matrix_has_a_name_nothing_is_chosen_or_calibrated(self):
        output = folder() / "none.cria"
        named = [word for matrix in MATRICES for word in ("--weights-of", f"{matrix}=int8")]
        for options, word in ((("--bits", "8"), "nothing to choose"), (("--method", "gptq"), "no matrix of int4")):
            done = convert("-o", str(output), *named, *options)
            self.assertEqual(done.returncode, USAGE, done.stderr)
            self.assertIn(word, done.stderr)
            self.assertFalse(output.exists())


if __name__ == "__main__":
    cria_cli.main()
