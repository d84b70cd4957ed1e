#!/usr/bin/env python3
"""scripts/compare.py judges figures as it says, keeps them, and refuses what it cannot measure. Nothing is measured here."""

import contextlib
import io
import json
import math
import os
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

ROOT = Path(os.environ.get("CRIA_SOURCE_DIR", Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(ROOT / "scripts"))

sys.path.insert(0, str(ROOT / "tests/tools"))

import compare  # noqa: E402
import make_random_checkpoint  # noqa: E402
import make_random_gguf  # noqa: E402
import measurements  # noqa: E402

BENCH = {"context": 64, "memory_plan_bytes": 1.9e8, "in_place_bytes": 1e7, "peak_resident_bytes": 2.1e8, "read_bytes_per_second": 4e10,
         "prefill": [{"tokens": n, "tokens_per_second": {"median": 200.0}} for n in compare.PROMPTS],
         "decode": {"tokens_per_second": {"median": 50.0}, "bytes_per_second": 3.8e10, "bytes_per_token": 7e7,
                    "kv_bytes_per_token": 1e6}}


class Programs:
    """Stands in for compare.run: answers as the programs do; another llama.cpp each time, so that its rounds differ."""

    def __init__(self, calls=1000):
        self.calls = calls  # that are left before somebody presses Ctrl-C

    def __call__(self, command, cwd=None):
        self.calls -= 1
        if self.calls < 0:
            raise KeyboardInterrupt
        words = [str(word) for word in command]
        out, err = "", ""
        if "bench" in words:
            out = json.dumps({"results": [BENCH]})
        elif "info" in words:
            out = json.dumps({"memory_plan": {"weights_bytes": 1.4e8, "in_place_bytes": 1e7, "kv_cache_bytes": 5e7}})
        elif "-o" in words and "llama-bench" in words:
            rows = [{"n_prompt": n, "avg_ts": 40.0 + self.calls % 7} for n in compare.PROMPTS]
            out = json.dumps([row | {"build_number": 11669, "build_commit": "abcdef0"} for row in rows])
        elif "bash" in words:
            err = "0.500\n"
        return out, err, 0.25, 3e8


class OneProgram:
    """Stands in for cria: a shape's folder, and one answer to every bench."""

    isa = ["--isa", "avx2"]
    has_xnnpack = False
    measured = compare.MEASURED["smollm-135m"]

    def __init__(self, folder, answer):
        self.folder = folder
        self.answer = answer

    def bench(self, *_, **__):
        return self.answer

    def prefill(self, _model, _threads, prompts):
        return {n: 30.0 for n in prompts}

    def decode(self, *_):
        return 5.0, 2e9


class Compare(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.out, self.err = io.StringIO(), io.StringIO()
        for redirect in (contextlib.redirect_stdout(self.out), contextlib.redirect_stderr(self.err)):
            redirect.__enter__()
            self.addCleanup(redirect.__exit__, None, None, None)

    def refusal(self, *words):
        peers = self.folder / "peers"
        peers.write_text("#!/bin/sh\nexit 1\n")
        peers.chmod(0o755)
        argv = ["compare.py", "--shape", "smollm-135m", "--peers", str(peers), *words]
        with mock.patch.object(sys, "argv", argv), mock.patch("os.geteuid", lambda: 0), self.assertRaises(SystemExit) as end:
            compare.main()
        self.assertEqual(end.exception.code, compare.BROKEN)
        return self.err.getvalue()

    def test_ratio_is_the_median_of_the_rounds(self):
        table = compare.Table()
        table.add("speed", [(10, 5), (30, 10), (8, 8)], 2.0, "tokens/s")
        table.add("time", [(1, 3), (2, 2), (4, 2)], 1.1, "s", less_is_better=True)
        self.assertEqual([row["ratio"] for row in table.run["figures"]], [2.0, 1.0])
        self.assertEqual(table.run["figures"][0]["rounds"], [[10, 5], [30, 10], [8, 8]])
        self.assertEqual(table.missed(), ["time"])

    def test_memory_is_to_stay_below_its_bar(self):
        table = compare.Table()
        table.put("good", 1, 2, 1.09, 1.10, "MB", 1, at_most=True)
        table.put("near", 1, 2, 1.155, 1.10, "MB", 1, at_most=True)
        table.put("bad", 1, 2, 1.16, 1.10, "MB", 1, at_most=True)
        self.assertEqual((table.missed(), table.near()), (["bad"], ["near"]))
        self.assertRegex(self.out.getvalue(), r"near, MB .* <=1\.10  within 5 %\nbad, MB .* <=1\.10  missed by 6 %\n$")

    def test_a_bar_counts_as_met_within_five_percent_of_it(self):
        for ratio, verdict in ((2.0, "met"), (1.999, "within 5 %"), (1.9, "within 5 %"), (1.8999, "missed by 6 %"), (1.86, "missed by 7 %"),
                               (1.0, "missed by 50 %"), (math.nan, "missed: no number")):
            self.assertEqual(measurements.verdict_of(ratio, 2.0), verdict)
        self.assertIsNone(measurements.verdict_of(1.0, None))
        self.assertEqual(measurements.verdict_of(0.95, 1.0), "within 5 %")

    def test_help_says_what_counts_as_met(self):
        with mock.patch.object(sys, "argv", ["compare.py", "--help"]), self.assertRaises(SystemExit):
            compare.main()
        self.assertIn(f"within {100 * measurements.WITHIN:.0f} % (which counts as met)", self.out.getvalue())

    def test_each_row_is_kept_at_once(self):
        path = self.folder / "run.json"
        table = compare.Table({"complete": False, "figures": []}, path)
        for name in ("a", "b"):
            table.put(name, 1, 2, 3, None, "s", 1)
            kept = json.loads(path.read_text())
            self.assertEqual((kept["figures"][-1]["name"], kept["complete"]), (name, False))
        table.end()
        self.assertTrue(json.loads(path.read_text())["complete"])
        self.assertEqual(os.listdir(self.folder), ["run.json"])

    def measured(self, programs, *words):
        """The exit code, None after Ctrl-C, and what the one file of the run holds."""
        (self.folder / "hf").mkdir(exist_ok=True)
        (self.folder / "hf/config.json").write_text(json.dumps({"hidden_size": 576}))
        for name in ("done", "converted"):
            (self.folder / name).touch()
        argv = ["compare.py", "--peers", sys.executable, *([] if "--shape" in words else ["--shape", "smollm-135m"]), *words]
        kept = self.folder / "measurements"
        with mock.patch.object(sys, "argv", argv), mock.patch("os.geteuid", lambda: 0), mock.patch.object(compare, "run", programs), \
                mock.patch.object(compare, "make_models", lambda *_: None), mock.patch.object(measurements, "FOLDER", kept):
            try:
                code = compare.compare(compare.read_options(), self.folder)
            except KeyboardInterrupt:
                code = None
        names = [path for path in kept.iterdir() if path.suffix == ".json"]
        self.assertEqual(len(names), 1)
        run = json.loads(names[0].read_text())
        self.assertEqual(measurements.problems_of(names[0].stem, run), [])
        return code, run

    def test_a_run_writes_one_file_of_all_its_rounds(self):
        code, run = self.measured(Programs(), "--rounds", "3")
        figures = {figure["name"]: figure for figure in run["figures"]}
        self.assertEqual((code, run["complete"], run["shape"], run["level"]), (0, True, "smollm-135m", None))
        self.assertEqual(run["rival"], {"name": "llama.cpp", "build": 11669, "commit": "abcdef0"})
        self.assertRegex(run["command"], r"^scripts/compare\.sh --peers \S+ --shape smollm-135m --rounds 3$")
        self.assertEqual(run["machine"]["cores"], os.cpu_count())
        self.assertEqual([len(figures[name]["rounds"]) for name in ("int4 prefill 128, 1 thread", "int4 decode, 2 threads")], [3, 6])
        self.assertEqual(figures["int4 peak memory"]["planned"], 200)
        self.assertEqual(figures["int4 peak memory to weights + KV cache"]["ratio"], 1.05)
        self.assertEqual(figures["int8 decode, 1 thread"]["or"], "int8 decode, of plain reads, 1 thread")

    def test_experts_are_measured_in_int4_alone(self):
        code, run = self.measured(Programs(), "--shape", "qwen3-30b-a3b-4l", "--threads", "2", "--rounds", "1")
        self.assertEqual((code, run["complete"], run["shape"]), (0, True, "qwen3-30b-a3b-4l"))
        self.assertEqual({figure["name"]: figure["bar"] for figure in run["figures"]}, {
            "int4 prefill 128, 2 threads": 1.5, "int4 decode, 2 threads": 1.3, "int4 decode, of plain reads, 2 threads": 0.95,
            "int4 peak memory": None, "int4 peak memory to weights + KV cache": 1.1,
            "int4 weights a token reads; llama.cpp's, computed": None})

    def test_weights_of_a_large_checkpoint_go_once_they_are_converted(self):
        def run(command, **_):
            commands.append([str(word) for word in command])
            if "make_random_checkpoint.py" in commands[-1][1]:
                hf.mkdir(exist_ok=True)
                for name in ("config.json", "model-1.safetensors"):
                    (hf / name).touch()

        for shape, kept in (("smollm-135m", ["config.json", "model-1.safetensors"]), ("deepseek-v2-lite-4l", ["config.json"])):
            folder, commands = self.folder / shape, []
            hf = folder / "hf"
            folder.mkdir()
            (folder / "cria-convert").touch()
            with mock.patch.object(compare, "run", run), mock.patch.object(compare, "BIN", folder):
                compare.make_models(folder, shape)
                self.assertEqual(sorted(os.listdir(hf)), kept)
                n_commands = len(commands)
                compare.make_models(folder, shape)
                self.assertEqual(len(commands), n_commands)
                os.utime(folder / "converted", (0, 0))
                compare.make_models(folder, shape)
            made = sum("make_random_checkpoint.py" in words[1] for words in commands)
            self.assertEqual(made, 1 if len(kept) == 2 else 2)

    def test_a_random_gguf_file_has_the_tensors_of_its_shape(self):
        small = {"d_model": 64, "layers": 2, "heads": 4, "ffn": 32, "vocab": 96, "context": 64}
        for shape, more in (("smollm-135m", {"kv_heads": 2, "head_dim": 32, "ffn": 96}),
                            ("qwen3-30b-a3b-4l", {"kv_heads": 2, "head_dim": 32, "experts": 4}),
                            ("deepseek-v2-lite-4l", {"kv_heads": 4, "head_dim": 96, "latent_rank": 64, "value_dim": 32, "turned": 32,
                                                     "shared": 64, "dense_ffn": 96, "experts": 4})):
            s = make_random_gguf.ALL_SHAPES[shape] | small | more
            path = self.folder / "m.gguf"
            for kind in ("q4_0", "q8_0", "bf16"):
                with mock.patch.object(make_random_gguf, "PIECE_BYTES", 4096):
                    make_random_gguf.write_gguf(path, s, kind)
                _, weights, size = make_random_gguf.TYPES[kind]
                elements = {type_: sum(math.prod(shape) for _, shape, t in make_random_gguf.gguf_tensors(s, kind) if t == type_)
                            for type_ in (kind, "f32")}
                held = elements[kind] // weights * size + 4 * elements["f32"]
                header = path.stat().st_size - held
                self.assertGreater(header, 500)
                self.assertLess(header, 6000)
            of_checkpoint = sum(math.prod(shape) for _, shape in make_random_checkpoint.tensors_of(s))
            if shape != "deepseek-v2-lite-4l":  # whose queries' matrix is two in GGUF, and no larger
                self.assertEqual(sum(elements.values()), of_checkpoint)
            self.assertLessEqual(sum(elements.values()), of_checkpoint + small["layers"] * small["d_model"])

    def test_shapes_of_several_kinds_of_layers_are_those_that_were_published(self):
        for shape, parameters in (("lfm2-1.2b", 1_170_340_608), ("gemma-3-1b", 999_885_952), ("qwen3.5-0.8b", 752_393_024)):
            s = make_random_gguf.ALL_SHAPES[shape]
            self.assertEqual(sum(math.prod(shape) for _, shape, _ in make_random_gguf.gguf_tensors(s, "q4_0")), parameters)

    def test_random_gguf_files_of_several_kinds_of_layers_run(self):
        small = {"d_model": 64, "layers": 8, "heads": 4, "kv_heads": 2, "head_dim": 32, "ffn": 96, "vocab": 96, "context": 64}
        for shape, more in (("lfm2-1.2b", {"attention": (1, 3)}), ("gemma-3-1b", {"attention": range(8)}),
                            ("qwen3.5-0.8b", {"attention": range(3, 8, 4), "turned": 16, "states": 2, "state_dim": 32})):
            path, model = self.folder / "m.gguf", self.folder / "m.cria"
            with mock.patch.object(make_random_gguf, "PIECE_BYTES", 4096):
                make_random_gguf.write_gguf(path, make_random_gguf.ALL_SHAPES[shape] | small | more, "q4_0")
            programs = Path(os.environ.get("CRIA_BIN_DIR", compare.BIN))
            compare.run([programs / "cria-convert", path, "-o", model, "--weights", "int4", "--no-tokenizer", "--quiet"])
            out = compare.run([programs / "cria", "run", model, "--ids", "1,2,3", "-n", "3", "--greedy", "--ignore-end"])[0]
            self.assertEqual(len(out.split()), 6, out)

    def test_a_token_reads_as_much_of_both_shapes_as_their_tensors_say(self):
        # Of four layers: 8 experts of three matrices, attention, the router in f32; norms; the output layer.
        experts, attention, router = 8 * 3 * 768 * 2048, 2048 * (2 * 4096 + 2 * 512), 128 * 2048
        norms = 4 * (2 * 2048 + 2 * 128) + 2048
        self.assertEqual(make_random_gguf.token_bytes("qwen3-30b-a3b-4l", "q4_0"),
                         (4 * (experts + attention) + 151936 * 2048) * 18 // 32 + 4 * (4 * router + norms))

    def test_a_run_that_is_interrupted_leaves_what_it_measured(self):
        for calls, first_missing in ((25, "int8 prefill 128, 1 thread"), (9, "int4 decode, 1 thread")):
            for path in self.folder.glob("measurements/*"):
                path.unlink()
            code, run = self.measured(Programs(calls), "--rounds", "3", "--threads", "1")
            self.assertEqual((code, run["complete"]), (None, False))
            self.assertNotIn(first_missing, [figure["name"] for figure in run["figures"]])
            self.assertIn("int4 prefill 512, 1 thread", [figure["name"] for figure in run["figures"]])

    def test_a_second_run_of_a_day_has_a_name_of_its_own(self):
        run = {"date": "2026-11-27", "machine": {"kind": "zen4"}, "shape": "smollm-135m", "level": "avx2", "commit": None}
        for name in ("unknown", "unknown-2", "unknown-3"):
            with mock.patch.object(measurements, "FOLDER", self.folder):
                path = measurements.new_path(run)
            self.assertEqual(path.name, f"2026-11-27-zen4-smollm-135m-avx2-{name}.json")
            path.touch()

    def test_kinds_of_machines(self):
        for vendor, family, model, name, kind in (
                ("AuthenticAMD", 25, 1, "AMD EPYC", "zen3"), ("AuthenticAMD", 25, 17, "AMD EPYC", "zen4"), ("AuthenticAMD", 25, 97, None, "zen4"),
                ("AuthenticAMD", 25, 80, None, "zen3"), ("AuthenticAMD", 26, 2, "AMD EPYC", "zen5"),
                ("GenuineIntel", 6, 143, None, "sapphire-rapids"), ("GenuineIntel", 6, 1, "Intel(R) N100", "intel-r-n100"),
                ("ARM", -1, 1, "Cortex-A76", "cortex-a76"), (None, -1, -1, None, "unknown")):
            self.assertEqual(measurements.kind_of(vendor, family, model, name), kind)

    def test_a_file_that_contradicts_itself_is_told(self):
        good = self.measured(Programs(), "--rounds", "1")[1]
        name = measurements.name_of(good)
        first = good["figures"][0]
        self.assertEqual(measurements.problems_of(f"{name}-2", good), [])
        for other, change, problem in (
                (name, {"ratio": 9.0}, "is not the median of the rounds"), (name, {"n_rounds": 2}, "1 rounds, not 2"),
                (name, {"verdict": "missed by 9 %"}, "the verdict missed by 9 % is not that of"), (name, {"or": "none"}, "there is no figure 'none'"),
                (name, {"fun": 1}, "has fun, which means nothing"), (name, {"name": good["figures"][1]["name"]}, "two figures are called"),
                (f"{name}x", {}, "its name does not begin with")):
            changed = good | {"figures": [first | change, *good["figures"][1:]]}
            self.assertIn(problem, "; ".join(measurements.problems_of(other, changed)))

    def test_programs_take_turns_at_beginning(self):
        order = []
        pairs = compare.in_turns(3, lambda: order.append("a") or 1, lambda: order.append("b") or 2)
        self.assertEqual(("".join(order), pairs), ("abbaab", [(1, 2)] * 3))

    def test_cache_sizes_are_of_as_many_positions(self):
        shape = {"hidden_size": 256, "num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 3}
        (self.folder / "hf").mkdir()
        (self.folder / "hf/config.json").write_text(json.dumps(shape))
        # int8 and a scale of four bytes for each head of 64, keys and values; half-way through N_DECODE tokens.
        positions = 4096 + compare.N_DECODE // 2
        program = OneProgram(self.folder, {"decode": {"tokens_per_second": {"median": 20.0},
                                                      "kv_bytes_per_token": positions * 2 * 3 * 2 * 68}})
        table = compare.Table()
        compare.compare_depth(table, program, program, "int4", 1, 1, 4096)
        compare.compare_depth(table, program, program, "int4", 2, 1, 4096)
        rows = table.run["figures"]
        self.assertEqual(rows[3]["name"], "KV cache at 4096; f16, computed")
        self.assertAlmostEqual(rows.pop(3)["ratio"], 68 / 128, 4)
        (self.folder / "hf/config.json").write_text(json.dumps(shape | {"kv_lora_rank": 512, "qk_rope_head_dim": 64}))
        self.assertEqual(compare.f16_kv_bytes(self.folder, 10), 10 * 3 * 576 * 2)
        self.assertEqual([row["ratio"] for row in rows], [1.0, 4.0, 4.0] * 2)
        self.assertEqual(table.missed(), ["int4 prefill 4096, 1 thread", "int4 prefill 4096, 2 threads"])

    def decode(self, rounds):
        """What is missed and shown when cria decodes, the rival does and memory is read at these speeds."""
        ours = iter([{"read_bytes_per_second": 1e9 * read if read else None,
                      "decode": {"tokens_per_second": {"median": our}, "bytes_per_second": 1e9 * our}} for our, _, read in rounds])
        program = OneProgram(self.folder, None)
        program.bench = lambda *_, **__: next(ours)
        theirs = iter([(rival, 2e9) for _, rival, _ in rounds])
        table = compare.Table()
        compare.compare_decode(table, program, mock.Mock(decode=lambda *_: next(theirs)), "int4", 2, len(rounds))
        return table

    def test_decoding_has_one_of_two_bars(self):
        def missed(ours, rival, share):
            return self.decode([(ours, rival, ours / share)] * 3).missed()

        self.assertEqual(missed(13.1, 10, 0.5), [])
        self.assertEqual(missed(13, 10, 0.5), [])
        self.assertNotIn("or the next", self.out.getvalue())
        self.assertEqual(missed(12.36, 10, 0.5), [])
        self.assertNotIn("or the next", self.out.getvalue())
        self.assertEqual(missed(12.34, 10, 0.951), [])
        self.assertRegex(self.out.getvalue(), r" 1\.23 >=1\.30  missed by 6 %, or the next\n.* >=0\.95  met\n$")
        self.assertEqual(missed(12.34, 10, 0.904), [])
        self.assertRegex(self.out.getvalue(), r" >=0\.95  within 5 %\n$")
        self.assertEqual(missed(12.34, 10, 0.90), ["int4 decode, of plain reads, 2 threads"])

    def test_decoding_is_judged_by_medians_of_the_rounds_ratios(self):
        """Which say another thing here than the ratio of the medians, or the best round."""
        reads = "int4 decode, of plain reads, 2 threads"
        self.assertEqual(self.decode([(10, 7, 20), (20, 20, 40), (30, 22, 60)]).missed(), [])
        self.assertEqual(self.decode([(10, 10, 20), (20, 14, 40), (30, 28, 60)]).missed(), [reads])
        self.assertEqual(self.decode([(10, 10, 10.4), (20, 20, 40), (30, 30, 31)]).missed(), [])
        self.assertEqual(self.decode([(10, 10, 11.5), (20, 20, 18), (30, 30, 34)]).missed(), [reads])

    def test_decoding_cannot_be_judged_without_plain_reads(self):
        with self.assertRaises(SystemExit) as end:
            self.decode([(20, 20, None)])
        self.assertEqual(end.exception.code, compare.BROKEN)
        self.assertIn("free 256 MB", self.err.getvalue())

    def test_what_is_no_number_meets_no_bar(self):
        table = compare.Table()
        table.put("more", 1, 2, math.nan, 1.10, "s", 1)
        table.put("less", 1, 2, math.nan, 1.10, "s", 1, at_most=True)
        self.assertEqual(table.missed(), ["more", "less"])

    def test_a_bar_is_met_where_it_lies(self):
        table = compare.Table()
        table.put("more", 1, 2, 1.1, 1.1, "s", 1)
        table.put("less", 1, 2, 1.1, 1.1, "s", 1, at_most=True)
        self.assertEqual(table.missed(), [])

    def test_a_depth_is_not_filled_more_than_three_times(self):
        rounds = mock.Mock(side_effect=compare.in_turns)
        shape = {"hidden_size": 256, "num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 3}
        (self.folder / "hf").mkdir()
        (self.folder / "hf/config.json").write_text(json.dumps(shape))
        program = OneProgram(self.folder, {"decode": {"tokens_per_second": {"median": 20.0}, "kv_bytes_per_token": 1}})
        with mock.patch.object(compare, "in_turns", rounds):
            for n in (2, 5):
                compare.compare_depth(compare.Table(), program, program, "int4", 1, n, 4096)
        self.assertEqual({call.args[0] for call in rounds.call_args_list[:3]}, {2})
        self.assertEqual({call.args[0] for call in rounds.call_args_list[3:]}, {3})

    def test_refusals(self):
        missing = self.folder / "none/rows.json"
        for words, text in ((("--depth", "1000000"), "--depth 1000000 and 64 tokens more do not fit"),
                            (("--json", str(self.folder)), f"argument --json: {self.folder} is a folder; name a file"),
                            (("--json", "/dev/null"), "argument --json: /dev/null is no regular file"),
                            (("--json", str(missing)), f"argument --json: there is no folder {missing.parent}"),
                            (("--json", ""), "argument --json: an empty text names no file"),
                            (("--threads", "0"), "'0' is no number from 1 to 256"),
                            (("--peers", str(missing)), f"argument --peers: {missing} is no program; see --help")):
            self.assertIn(text, self.refusal("--check", *words))

    def test_an_isa_that_the_cpu_lacks_is_refused(self):
        read = Path.read_text
        with mock.patch.object(Path, "read_text", lambda path: "flags: sse4_1 avx2" if path.name == "cpuinfo" else read(path)):
            self.assertIn("this CPU has no avx_vnni; it has avx2\n", self.refusal("--check", "--isa", "avxvnni"))

    def test_a_tool_that_fails_is_no_missed_bar(self):
        with mock.patch.object(compare, "ROOT", self.folder):
            self.assertIn("exit code 1 of:", self.refusal())


if __name__ == "__main__":
    unittest.main()
