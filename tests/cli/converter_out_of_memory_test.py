#!/usr/bin/env python3
"""Wherever memory ends, cria-convert says so in one line with exit code 5 and leaves nothing behind."""

import os
import resource
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(os.environ.get("CRIA_SOURCE_DIR", Path(__file__).resolve().parents[2]))
CONVERT = Path(os.environ.get("CRIA_BIN_DIR", ROOT / "build/release/bin")) / "cria-convert"
sys.path.insert(0, str(ROOT / "tests/tools"))
import make_random_checkpoint  # noqa: E402

import cria_cli as cli  # noqa: E402

SKIPPED = 77
MEMORY = 5
SHAPE = ["--d-model", "64", "--layers", "1", "--heads", "4", "--kv-heads", "2", "--ffn", "100", "--vocab", "70"]
MEGABYTE = 1 << 20
STEP = 331_000
MOST = 400 * MEGABYTE


def limited(most, *arguments):
    return subprocess.run([CONVERT, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, timeout=cli.PATIENCE_S,
                          check=False, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (most, most)))


def least():
    """Below this the program's libraries cannot be loaded, or its options not be set up."""
    return next(most for most in range(4 * MEGABYTE, MOST, STEP) if limited(most, "--help").returncode == 0)


class OutOfMemory(unittest.TestCase):
    def sweep(self, folder, *arguments):
        """Raises the limit until the conversion ends as it does without one; gives how often memory ended."""
        usual = subprocess.run([CONVERT, folder, "-o", folder / "m.cria", *arguments], stderr=subprocess.PIPE, check=False)
        (folder / "m.cria").unlink(missing_ok=True)
        n_short = 0
        for most in range(least(), MOST, STEP):
            done = limited(most, folder, "-o", folder / "m.cria", "--report", folder / "report", *arguments)
            self.assertEqual([path.name for path in folder.iterdir() if path.name.endswith(".tmp")], [], most)
            if done.returncode == usual.returncode:
                return n_short
            self.assertEqual(done.returncode, MEMORY, f"{most}: {done.stderr}")
            self.assertRegex(done.stderr.splitlines()[-1], "^cria-convert: error: out of memory; .*threads$")
            self.assertFalse((folder / "m.cria").exists())
            n_short += 1
        return self.fail(f"{MOST} bytes are not enough")

    def test_while_weights_are_encoded(self):
        for threads in "1", "3":
            with tempfile.TemporaryDirectory() as name:
                make_random_checkpoint.main([name, *SHAPE])
                self.sweep(Path(name), "--no-tokenizer", "--threads", threads)

    def test_while_many_values_are_read(self):
        """Lists in lists take more to take apart than they took to build."""
        with tempfile.TemporaryDirectory() as name:
            make_random_checkpoint.main([name, *SHAPE])
            text = '{"model":{"vocab":[' + ",".join(["[1,2]"] * 60_000) + "]}}"
            (Path(name) / "tokenizer.json").write_text(text)
            self.assertGreater(self.sweep(Path(name), "--threads", "1"), 20)

    def test_while_the_demos_tokenizer_is_read(self):
        with tempfile.TemporaryDirectory() as name:
            for path in (ROOT / "models/demo").iterdir():
                (Path(name) / path.name).symlink_to(path)
            self.assertGreater(self.sweep(Path(name), "--threads", "1"), 0)


if __name__ == "__main__":
    if cli.IS_SANITIZED or cli.IS_EMULATED:
        print("sanitizers and emulators reserve what they never touch", file=sys.stderr)
        sys.exit(SKIPPED)
    unittest.main()
