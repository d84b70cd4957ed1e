#!/usr/bin/env python3
"""scripts/compare.py judges figures as it says, keeps them, and refuses what it cannot measure; nothing is measured here."""

import contextlib
import io
import json
import os
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

ROOT = Path(os.environ.get("CRIA_SOURCE_DIR", Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(ROOT / "scripts"))

import compare  # noqa: E402


class OneProgram:
    """Stands in for cria: a shape's folder, and one answer to every bench."""

    isa = ["--isa", "avx2"]

    def __init__(self, folder, answer):
        self.folder = folder
        self.answer = answer

    def bench(self, *_, **__):
        return self.answer

    def prefill(self, *_, prompts, **__):
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
        self.assertEqual([row["ratio"] for row in table.rows], [2.0, 1.0])
        self.assertEqual(table.missed(), ["time"])

    def test_memory_is_to_stay_below_its_bar(self):
        table = compare.Table()
        table.put("good", 1, 2, 1.09, 1.10, "MB", 1, at_most=True)
        table.put("bad", 1, 2, 1.11, 1.10, "MB", 1, at_most=True)
        self.assertEqual(table.missed(), ["bad"])
        self.assertRegex(self.out.getvalue(), r"bad, MB .* <=1\.10 +MISSED\n$")

    def test_a_miss_by_less_than_a_hundredth_is_to_be_seen(self):
        table = compare.Table()
        table.put("decode", 1.1837, 1, 1.1837, 1.1843, "tokens/s", 1)
        self.assertRegex(self.out.getvalue(), r" 1\.1837 >=1\.1843 +MISSED\n$")

    def test_each_row_is_kept_at_once(self):
        path = self.folder / "rows.json"
        table = compare.Table("shape", path)
        for name in ("a", "b"):
            table.put(name, 1, 2, 3, None, "s", 1)
            self.assertEqual([row["name"] for row in json.loads(path.read_text())["rows"]][-1], name)
        self.assertEqual(os.listdir(self.folder), ["rows.json"])

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
        self.assertAlmostEqual(table.rows[-1]["ratio"], 68 / 128)
        self.assertEqual([row["ratio"] for row in table.rows[:-1]], [1.0, 4.0, 4.0])
        self.assertEqual(table.missed(), ["int4 prefill 4096, 1 thread"])

    def test_decoding_has_one_of_two_bars(self):
        def missed(ours, rival, share):
            program = OneProgram(self.folder, {"read_bytes_per_second": 1e9 * ours / share,
                                               "decode": {"tokens_per_second": {"median": ours}, "bytes_per_second": 1e9 * ours}})
            other = mock.Mock(decode=lambda *_: (rival, 2e9))
            table = compare.Table()
            compare.compare_decode(table, program, other, "int4", 2, 3)
            self.assertEqual(len([row for row in table.rows if row["bar"] is not None]), 1)
            return table.missed()

        self.assertEqual(missed(13.1, 10, 0.5), [])
        self.assertEqual(missed(12.9, 10, 0.951), [])
        self.assertEqual(missed(12.9, 10, 0.949), ["int4 decode, of plain reads, 2 threads"])

    def test_refusals(self):
        missing = self.folder / "none/rows.json"
        for words, text in ((("--depth", "1000000"), "--depth 1000000 and 64 tokens more do not fit"),
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
