#!/usr/bin/env python3
"""No input under 16 MB takes a parser of cria-convert longer than 2 s of processor time, nor memory out of proportion.

That is the promise for a release build on a machine of 2024. The test allows twenty times as much, 40 s, for slower
machines and for neighbours that take the caches: what it looks for is a cost that grows with the square, which takes hours
for 16 MB. A build with sanitizers takes some ten times as long a byte, and an emulator fifty: there inputs are smaller and
the limit is longer. Memory is limited in release builds alone.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(os.environ.get("CRIA_SOURCE_DIR", Path(__file__).resolve().parents[2]))
BIN = Path(os.environ.get("CRIA_BIN_DIR", ROOT / "build/release/bin"))
CONVERT = BIN / "cria-convert"
sys.path.insert(0, str(ROOT / "tests/tools"))
import hostile_checkpoints as hostile  # noqa: E402
import make_random_checkpoint  # noqa: E402

import cria_cli as cli  # noqa: E402

INVALID = 3
MEGABYTE = 1 << 20
SHAPE = ["--d-model", "64", "--layers", "1", "--heads", "4", "--kv-heads", "2", "--ffn", "100", "--vocab", "70"]
FULL_BYTES = 16 * MEGABYTE - 1024
BYTES = MEGABYTE if cli.IS_EMULATED or cli.IS_SANITIZED else FULL_BYTES
# Far above the two seconds that a machine at rest needs at most, far below what a quadratic one takes.
SECONDS = 150 if cli.IS_EMULATED or cli.IS_SANITIZED else 40
# Of memory: what a value of JSON and its key take beside the few bytes that spell them, and a constant.
MULTIPLE, CONSTANT_BYTES = 32, 160 * MEGABYTE


class WorstCase(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.models = tempfile.TemporaryDirectory()
        cls.model = Path(cls.models.name) / "small"
        make_random_checkpoint.main([str(cls.model), *SHAPE])
        # A vocabulary that no tokenizer here exceeds; the weights are found to be another size once it is read.
        config = json.loads((cls.model / "config.json").read_text())
        cls.config = {**config, "vocab_size": 1 << 21}

    @classmethod
    def tearDownClass(cls):
        cls.models.cleanup()

    def check(self, file, content, words):
        """Converts a checkpoint one file of which is content."""
        files = {"config.json": json.dumps(self.config).encode(), file: content}
        needs_tokenizer = file not in ("config.json", "generation_config.json") and "safetensors" not in file
        if needs_tokenizer and file not in ("tokenizer.json", "tokenizer.model"):
            tokens = [hostile.piece("<unk>", 0.0, 2), hostile.piece("<s>", 0.0, 3), hostile.piece("</s>", 0.0, 3)]
            files["tokenizer.model"] = hostile.pieces(tokens, MEGABYTE)
            files.setdefault("tokenizer_config.json", b'{"bos_token":"<s>","eos_token":"</s>"}')
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            for path, data in files.items():
                (folder / path).write_bytes(data)
            if "safetensors" not in file:
                (folder / "model.safetensors").symlink_to(self.model / "model.safetensors")
            elif file.endswith(".index.json"):
                (folder / "a.safetensors").symlink_to(self.model / "model.safetensors")
            arguments = [] if needs_tokenizer else ["--no-tokenizer"]
            code, seconds, lines = self.run_one(folder, len(content), arguments)
        print(f"{seconds:6.2f} s for {len(content)} bytes", flush=True)
        self.assertEqual(code, INVALID, lines)
        self.assertLess(max(map(len, lines.splitlines())), 1000)
        self.assertLess(len(lines.splitlines()), 10)
        self.assertRegex(lines.splitlines()[-1], "^cria-convert: error: [ -~]+$")
        self.assertIn(words, lines.splitlines()[-1])
        # A chat template is a program: it has ten seconds before it is left out.
        self.assertLess(seconds, SECONDS + (10 if file == "chat_template.jinja" else 0))

    def run_one(self, folder, n_bytes, arguments):
        """(exit code, processor seconds, standard error)."""
        def limit():
            if not cli.IS_EMULATED and not cli.IS_SANITIZED:  # which reserve what they never touch
                most = MULTIPLE * n_bytes + CONSTANT_BYTES
                resource.setrlimit(resource.RLIMIT_AS, (most, most))

        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run([CONVERT, folder, "-o", folder / "m.cria", "--threads", "1", *arguments],
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, encoding="utf-8", errors="replace",
                              preexec_fn=limit, timeout=10 * SECONDS, check=False)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.assertFalse((folder / "m.cria").exists())
        return done.returncode, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done.stderr


def add_test(name, file, content, words):
    def test(self):
        data = content(self)
        self.check(file, data if isinstance(data, bytes) else data.encode(), words)
    setattr(WorstCase, "test_" + name.replace(" ", "_").replace(",", ""), test)


class Cases(unittest.TestCase):
    def test_every_case_says_what_must_follow(self):
        for *_, words in [*hostile.CASES, *hostile.SMALL_CASES]:
            self.assertGreater(len(words), 5)


def add_tests():
    for name, file, make, words in hostile.CASES:
        if words in hostile.LIMIT_WORDS and BYTES < FULL_BYTES:
            words = ""  # too small to meet the limit, so that another line follows
        add_test(name, file, lambda _, make=make: make(BYTES), words)
    for name, file, size, make, words in hostile.SMALL_CASES:
        size = min(size, BYTES)
        if make is None:
            add_test(name, file, lambda self, size=size: hostile.fill(self.config, size), words)
        else:
            add_test(name, file, lambda _, make=make, size=size: make(size), words)


add_tests()

if __name__ == "__main__":
    unittest.main()
