#!/usr/bin/env python3
"""cria verify and the second reader (tests/tools/cria_reader), which knows docs/model_format.md alone, judge files alike."""
import concurrent.futures
import os
import random
import re
import sys
import unittest
from pathlib import Path

import cria_cli as cli
from seeds import seeds_of_test

sys.path.insert(0, str(cli.SOURCE / "tests/tools"))
import make_bad_models  # noqa: E402
from bad_models.random_changes import changed  # noqa: E402
from cria_reader import file_layout  # noqa: E402
from cria_reader.model_file import verdict  # noqa: E402
from cria_reader.refusal import OK  # noqa: E402
from cria_reader.zstd_frame import have_zstd  # noqa: E402

GOLDEN = cli.SOURCE / "tests" / "data" / "golden"
MADE_GOLDEN = cli.TEST_DATA / "golden"
SEED = 20261122
# One in so many where the program runs in an emulator.
ONE_IN = 8 if cli.IS_EMULATED else 1
CHANGES_OF_SMALL, CHANGES_OF_LARGE = 600, 60
MOST_SMALL = 20_000
LEAST_COMPARED = 1000 // ONE_IN
DEMO_OPTIONS = ((), ("--weights", "int8", "--compress", "none"), ("--weights", "f16", "--no-tokenizer"))
GOLDEN_OPTIONS = (("--group-size", "64"), ("--weights", "bf16", "--compress", "none"), ("--weights", "f32"))

# What two judgements of one file have to have in common. A file changed at random may break two rules, of which each reader
# names the one that it meets first.
SAME_STATUS, SAME_VERDICT = "status", "verdict"

# The words of the program's line that tell the statuses apart.
SAID = {OK: ": good, ", "NOT_A_MODEL": "not a cria model|is empty", "UNSUPPORTED_VERSION": "another format version",
        "TRUNCATED": "shorter than its header says", "CORRUPT": "the file is damaged",
        "INVALID_MODEL": "breaks a rule of its format"}

compared = 0


def index(folder):
    """(name, status, rule) of each file."""
    return [line.split(" ", 2) for line in (folder / "index.txt").read_text("utf-8").splitlines()]


def judge(path):
    """The program's exit code and line, the reader's status and problem."""
    result = cli.cria("verify", path)
    status, problem = verdict(Path(path).read_bytes())
    return result.code, (result.out + result.err).strip(), status, problem


def agree(code, said, status, common):
    """Whether the program's code and line and the reader's status are one judgement."""
    if code != (cli.DONE if status == OK else cli.BAD_INPUT):
        return False
    alike = [kind for kind in SAID if kind == status or common == SAME_VERDICT and OK not in (kind, status)]
    return any(re.search(SAID[kind], said) for kind in alike)


def judge_all(paths):
    global compared
    with concurrent.futures.ProcessPoolExecutor(os.cpu_count()) as pool:
        judged = list(pool.map(judge, paths, chunksize=4))
    compared += len(judged)
    return judged


@unittest.skipUnless(have_zstd(), "no libzstd here")
class SecondReader(unittest.TestCase):
    def compare(self, files, common=SAME_STATUS):
        """files: (name, bytes, expected status or None). Gives how many both found good."""
        paths = []
        for number, (_, data, _) in enumerate(files):
            paths.append(cli.folder() / f"{number}.cria")
            paths[-1].write_bytes(data)
        n_good, different = 0, []
        for (name, _, expected), path, (code, said, status, problem) in zip(files, paths, judge_all(paths)):
            if not agree(code, said, status, common) or status != (expected or status):
                different.append(f"{name}: cria says {code} {said!r}, the second reader {status} {problem!r}")
            n_good += status == OK
            path.unlink()
        self.assertEqual(different, [], "\n".join(different))
        return n_good

    def test_the_page_names_their_version(self):
        self.assertIn(f"| version | 8 | u32 | {file_layout.VERSION} |", (cli.SOURCE / "docs/model_format.md").read_text())

    def test_on_the_files_of_every_target(self):
        for folder in (MADE_GOLDEN / "bad", GOLDEN / "v2"):
            listed = index(folder)
            self.assertGreater(len(listed), 10)
            self.assertEqual(sorted(name for name, _, _ in listed), sorted(p.name for p in folder.glob("*.cria")))
            self.compare([(name, (folder / name).read_bytes(), status) for name, status, _ in listed])

    def test_on_files_for_every_side_of_every_rule(self):
        cases = [*make_bad_models.bad_cases(), *make_bad_models.valid_cases()]
        random.Random(SEED).shuffle(cases)
        for begin in range(0, len(cases) // ONE_IN, 100):
            part = cases[begin:min(begin + 100, len(cases) // ONE_IN)]
            self.compare([(case.name, case.data, case.status) for case in part])

    def test_on_converted_checkpoints(self):
        files = [(f"{name} {options}", Path(path).read_bytes(), OK) for name, options, path in converted()]
        self.assertEqual(self.compare(files), len(files))

    def test_on_small_files_changed_at_random(self):
        bases = [(case.data, case.name) for case in make_bad_models.valid_cases() if len(case.data) < MOST_SMALL]
        self.compare_changes(bases, CHANGES_OF_SMALL // ONE_IN)

    def test_on_converted_checkpoints_changed_at_random(self):
        bases = [(Path(path).read_bytes(), f"{name} {options}") for name, options, path in converted()]
        self.compare_changes(bases, CHANGES_OF_LARGE // ONE_IN)

    def compare_changes(self, bases, n):
        """n files of the fixed seeds together, and as many of one that is asked for."""
        for seed, count in zip(seeds_of_test(SEED, SEED + 1), (n - n // 2, n // 2, n)):
            n_good = 0
            for begin in range(0, count, 50):
                files = []
                for number in range(begin, min(begin + 50, count)):
                    data, name = bases[number % len(bases)]
                    files.append((f"{name} changed with seed {seed} {number}", changed(data, random.Random(f"{seed} {number}")), None))
                n_good += self.compare(files, SAME_VERDICT)
            print(f"{count} changed files of seed {seed}, {n_good} of them still good", flush=True)
            self.assertLess(0, n_good)
            self.assertLess(n_good, count)


class Agreement(unittest.TestCase):
    """Of the comparison itself."""

    GOOD, DAMAGED, BROKEN = "m.cria: good, 5 tensors", "m.cria: the file is damaged", "m.cria: breaks a rule of its format"

    def test_two_faults_in_one_file_are_one_verdict_and_two_statuses(self):
        self.assertTrue(agree(cli.BAD_INPUT, self.DAMAGED, "INVALID_MODEL", SAME_VERDICT))
        self.assertFalse(agree(cli.BAD_INPUT, self.DAMAGED, "INVALID_MODEL", SAME_STATUS))
        self.assertTrue(agree(cli.BAD_INPUT, self.BROKEN, "INVALID_MODEL", SAME_STATUS))

    def test_what_one_accepts_and_the_other_refuses_is_never_the_same(self):
        for common in (SAME_STATUS, SAME_VERDICT):
            self.assertTrue(agree(cli.DONE, self.GOOD, OK, common))
            self.assertFalse(agree(cli.BAD_INPUT, self.DAMAGED, OK, common))
            self.assertFalse(agree(cli.DONE, self.GOOD, "CORRUPT", common))
            self.assertFalse(agree(cli.BAD_INPUT, "m.cria: cannot open", "CORRUPT", common))


def converted():
    """(name, options, path) of checkpoints converted for this test."""
    for options in DEMO_OPTIONS:
        yield "demo", options, cli.model(*options)
    for name in ("odd-sizes", "mistral-sliding-window"):
        for options in GOLDEN_OPTIONS:
            yield name, options, cli.converted(GOLDEN / name, "--no-tokenizer", *options)


def tearDownModule():
    if have_zstd() and compared < LEAST_COMPARED:
        raise AssertionError(f"only {compared} files were compared")
    print(f"{compared} files compared", flush=True)


if __name__ == "__main__":
    cli.main()
