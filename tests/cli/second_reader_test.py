#!/usr/bin/env python3
"""cria verify and the second reader (tests/tools/cria_reader), which knows docs/model_format.md alone, judge files alike."""
import concurrent.futures
import os
import random
import re
import struct
import sys
import unittest
from pathlib import Path

import cria_cli as cli
from seeds import seeds_of_test

sys.path.insert(0, str(cli.SOURCE / "tests/tools"))
import make_bad_models  # noqa: E402
from bad_models import config_limits  # noqa: E402
from bad_models.model_writer import CHUNKS, config_bytes, counts_needed  # noqa: E402
from bad_models.random_changes import changed, mend_chunks, opened  # noqa: E402
from cria_reader import file_layout  # noqa: E402
from cria_reader.chunk_table import ENTRY_BYTES, ENTRY_FORMAT, STORED, ZSTD, ZSTD_PARTS, ZSTD_UPPER_BITS, Chunk  # noqa: E402
from cria_reader.config_fields import COUNT, FORMAT_NAMES, FORMATS, KIND, KIND_FLAGS, ROPE_TABLE, SCALARS  # noqa: E402
from cria_reader.model_config import check_config_size, read_config  # noqa: E402
from cria_reader.model_file import ModelFile, verdict  # noqa: E402
from cria_reader.refusal import INVALID_MODEL, OK, Refused  # noqa: E402
from cria_reader.roles import ROLE_NAMES  # noqa: E402
from cria_reader.xxh64 import xxh64  # noqa: E402
from cria_reader.zstd_frame import MAGIC, have_zstd, header_bytes  # noqa: E402
from random_kinds import random_model  # noqa: E402

GOLDEN = cli.SOURCE / "tests" / "data" / "golden"
MADE_GOLDEN = cli.TEST_DATA / "golden"
SEED = 20261122
# One in so many, of what is much.
ONE_IN = 8 if cli.IS_EMULATED else 3 if cli.IS_SAMPLED else 1
CHANGES_OF_SMALL, CHANGES_OF_KINDS, CHANGES_OF_LARGE = 600, 300, 60
MOST_SMALL = 20_000
RANDOM_MODELS, ROUND_TRIPS = 200, 300
LEAST_COMPARED = 1000 // ONE_IN
DEMO_OPTIONS = ((), ("--weights", "int8", "--compress", "none"), ("--weights", "f16", "--no-tokenizer"))
GOLDEN_OPTIONS = (("--group-size", "64"), ("--weights", "bf16", "--compress", "none"), ("--weights", "f32"))

# What two judgements of one file have to have in common. A file changed at random may break two rules, of which each reader
# names the one that it meets first.
SAME_STATUS, SAME_VERDICT = "status", "verdict"

# The words of the program's line that tell the statuses apart.
SAID = {OK: ": good, ", "NOT_A_MODEL": "not a cria model|is empty", "UNSUPPORTED_VERSION": "another format version",
        "TRUNCATED": "shorter than its header says", "CORRUPT": "the file is damaged",
        INVALID_MODEL: "breaks a rule of its format", "UNSUPPORTED": "this build or this CPU cannot run"}

compared = 0


def index(folder):
    """(name, status, rule) of each file."""
    return [line.split(" ", 2) for line in (folder / "index.txt").read_text("utf-8").splitlines()]


def judge(path):
    """The program's exit code and line; the reader's status, problem, and whether a build may have left out what is in the file."""
    result = cli.cria("verify", path)
    return result.code, (result.out + result.err).strip(), *verdict(Path(path).read_bytes())


def agree(code, said, status, common, left_out=False):
    """Whether the program's code and line and the reader's status are one judgement. left_out: a build need not know the rule."""
    if left_out and status in (OK, INVALID_MODEL) and code == cli.BAD_INPUT and re.search(SAID["UNSUPPORTED"], said):
        return True
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
        """files: (name, bytes, expected status or None, whether a build may have left out its rule). Gives how many the reader found
        good."""
        paths = []
        for number, (_, data, _, _) in enumerate(files):
            paths.append(cli.folder() / f"{number}.cria")
            paths[-1].write_bytes(data)
        n_good, different = 0, []
        for (name, _, expected, of_option), path, (code, said, status, problem, left_out) in zip(files, paths, judge_all(paths)):
            if not agree(code, said, status, common, of_option or left_out) or status != (expected or status):
                different.append(f"{name}: cria says {code} {said!r}, the second reader {status} {problem!r}")
            n_good += status == OK
            path.unlink()
        self.assertEqual(different, [], "\n".join(different))
        return n_good

    def test_on_the_files_of_every_target(self):
        for folder in (MADE_GOLDEN / "bad", GOLDEN / "v3"):
            listed = index(folder)
            self.assertGreater(len(listed), 10)
            self.assertEqual(sorted(name for name, _, _ in listed), sorted(p.name for p in folder.glob("*.cria")))
            self.compare([(name, (folder / name).read_bytes(), status, False) for name, status, _ in listed])

    def test_on_files_for_every_side_of_every_rule(self):
        cases = [*make_bad_models.bad_cases(), *make_bad_models.valid_cases()]
        random.Random(SEED).shuffle(cases)
        for begin in range(0, len(cases) // ONE_IN, 100):
            part = cases[begin:min(begin + 100, len(cases) // ONE_IN)]
            self.compare([(case.name, case.data, case.status, not case.everywhere) for case in part])

    def test_on_converted_checkpoints(self):
        files = [(f"{name} {options}", Path(path).read_bytes(), OK, False) for name, options, path in converted()]
        self.assertEqual(self.compare(files), len(files))

    def test_on_models_of_random_kinds(self):
        for seed in seeds_of_test(SEED):
            models = [(f"kinds of seed {number}", bytes(random_model(number).file().data), OK, True)
                      for number in range(seed, seed + RANDOM_MODELS // ONE_IN)]
            self.compare(models)
            self.compare_changes([(data, name) for name, data, _, _ in models], CHANGES_OF_KINDS // ONE_IN)

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
                    files.append((f"{name} changed with seed {seed} {number}", changed(data, random.Random(f"{seed} {number}")), None,
                                  False))
                n_good += self.compare(files, SAME_VERDICT)
            print(f"{count} changed files of seed {seed}, {n_good} of them still good", flush=True)
            self.assertLess(0, n_good)
            self.assertLess(n_good, count)


@unittest.skipUnless(have_zstd(), "no libzstd here")
class Writer(unittest.TestCase):
    """What the second writer writes is what the reader reads; both have the fields, roles and limits of the page."""

    PAGE = (cli.SOURCE / "docs/model_format.md").read_text("utf-8")

    def test_the_page_names_their_version(self):
        self.assertIn(f"| version | 8 | u32 | {file_layout.VERSION} |", self.PAGE)

    def test_the_page_has_their_fields_where_they_have_them(self):
        found = set()
        for line in self.PAGE.splitlines():
            cells = [cell.strip().split(", ") for cell in line.split("|")[1:-1]]
            if len(cells) == 4:
                found |= set(zip(cells[0], cells[1]))
        for record in (SCALARS, KIND, ROPE_TABLE, COUNT):
            for name, (offset, _) in record.places.items():
                self.assertIn((name.split("_")[0] if name.startswith("reserved") else name, str(offset)), found)

    def test_the_page_has_their_roles_and_flags(self):
        for number, name in ROLE_NAMES.items():
            self.assertRegex(self.PAGE, rf"[ (]{number}[,)]" if name.endswith(".bias") else rf" {number} {name}[ ,]")
        for bit, name in enumerate(KIND_FLAGS):
            self.assertIn(f"\n| {bit} | {name} |", self.PAGE)
        for place, (number_format, _) in enumerate(FORMATS):
            self.assertRegex(self.PAGE, rf"\n\| ([0-9]+, )*{place}(, [0-9]+)* \| .*{FORMAT_NAMES[number_format]}")

    def test_tensors_of_random_kinds_are_read_back(self):
        for seed in seeds_of_test(1):
            for number in range(seed, seed + ROUND_TRIPS):
                with self.subTest(seed=number):
                    self.assert_reads_back(random_model(number))

    def assert_reads_back(self, model):
        read = ModelFile(model.file().data)
        self.assertEqual(read.config["counts"], model.config["counts"])
        self.assertEqual(read.config["layers"], model.config["layers"])
        self.assertEqual(len(read.tensors), len(model.tensors))
        for found, written in zip(read.tensors.values(), model.tensors):
            self.assertEqual((found.role, found.format, found.group), (written.shape.number, *written.matrix_format))
            self.assertEqual(b"".join(read.rows(found)), written.value_bytes(), found.name)

    def test_fields_are_refused_beyond_their_limits_by_name(self):
        names = set()
        for trial in config_limits.trials():
            with self.subTest(trial.name):
                self.assertNotIn(trial.name, names)
                names.add(trial.name)
                self.assertEqual(fault_of(config_bytes({**trial.config, "counts": counts_needed(trial.config)})), trial.fault)


def fault_of(config):
    """The field that refuses the bytes of a config, or None."""
    try:
        check_config_size(len(config))
        read_config(config)
    except Refused as refusal:
        return refusal.problem
    return None


class RandomChanges(unittest.TestCase):
    """Checksums of changed chunks hold again, but where a frame's stream is damaged."""

    def test_of_every_byte_of_compressed_chunks(self):
        seen = set()
        for case in make_bad_models.valid_cases():
            table = opened(case.data).begin[CHUNKS]
            for i in opened(case.data).chunks():
                entry = table + ENTRY_BYTES * i
                chunk = Chunk(struct.unpack_from(ENTRY_FORMAT, case.data, entry))
                if chunk.compression == STORED or chunk.stored > MOST_SMALL:
                    continue
                seen.add(chunk.compression)
                frame = case.data.index(MAGIC, chunk.offset)
                stream = frame + header_bytes(case.data[frame + len(MAGIC)])
                for at in range(chunk.offset, chunk.offset + chunk.stored):
                    self.assertEqual(self.holds(case.data, entry, at), at < stream, (case.name, i, at))
                self.assertFalse(self.holds(case.data, entry, stream, chunk.offset), case.name)
                self.assertFalse(self.holds(case.data, entry, stream, entry + 24), case.name)
        self.assertEqual(seen, {ZSTD, ZSTD_UPPER_BITS, ZSTD_PARTS})

    def holds(self, data, entry, *places):
        file = opened(data)
        for at in places:
            file.data[at] ^= 1
        mend_chunks(file, data, places)
        chunk = Chunk(struct.unpack_from(ENTRY_FORMAT, file.data, entry))
        return chunk.checksum == xxh64(file.data[chunk.offset:chunk.offset + chunk.stored])


class Agreement(unittest.TestCase):
    """Of the comparison itself."""

    GOOD, DAMAGED, BROKEN = "m.cria: good, 5 tensors", "m.cria: the file is damaged", "m.cria: breaks a rule of its format"
    LEFT_OUT = "m.cria: this build or this CPU cannot run the model with these options"

    def test_two_faults_in_one_file_are_one_verdict_and_two_statuses(self):
        self.assertTrue(agree(cli.BAD_INPUT, self.DAMAGED, "INVALID_MODEL", SAME_VERDICT))
        self.assertFalse(agree(cli.BAD_INPUT, self.DAMAGED, "INVALID_MODEL", SAME_STATUS))
        self.assertTrue(agree(cli.BAD_INPUT, self.BROKEN, "INVALID_MODEL", SAME_STATUS))

    def test_what_a_build_leaves_out_it_need_not_know(self):
        for status in (OK, INVALID_MODEL):
            self.assertTrue(agree(cli.BAD_INPUT, self.LEFT_OUT, status, SAME_STATUS, left_out=True))
            self.assertFalse(agree(cli.BAD_INPUT, self.LEFT_OUT, status, SAME_STATUS))
        self.assertFalse(agree(cli.BAD_INPUT, self.LEFT_OUT, "CORRUPT", SAME_STATUS, left_out=True))
        self.assertFalse(agree(cli.DONE, self.GOOD, INVALID_MODEL, SAME_STATUS, left_out=True))

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
