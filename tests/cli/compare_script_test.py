#!/usr/bin/env python3
"""scripts/compare.py judges figures as it says, keeps them, and refuses what it cannot measure; nothing is measured here."""

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
        table.put("decode", 1.29999, 1, 1.29999, 1.3, "tokens/s", 1)
        self.assertRegex(self.out.getvalue(), r" 1\.29999 >=1\.30000 +MISSED\n$")

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
        self.assertEqual(missed(12.999, 10, 0.951), [])
        self.assertRegex(self.out.getvalue(), r" 1\.2999 >=1\.3000  or the next\n.* >=0\.95\n$")
        self.assertEqual(missed(12.9, 10, 0.949), ["int4 decode, of plain reads, 2 threads"])

    def test_decoding_is_judged_by_medians_of_the_rounds_ratios(self):
        """Which say another thing here than the ratio of the medians, or the best round."""
        reads = "int4 decode, of plain reads, 2 threads"
        self.assertEqual(self.decode([(10, 7, 20), (20, 20, 40), (30, 22, 60)]).missed(), [])
        self.assertEqual(self.decode([(10, 10, 20), (20, 14, 40), (30, 28, 60)]).missed(), [reads])
        self.assertEqual(self.decode([(10, 10, 10.4), (20, 20, 40), (30, 30, 31)]).missed(), [])
        self.assertEqual(self.decode([(10, 10, 11), (20, 20, 18), (30, 30, 33)]).missed(), [reads])

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
