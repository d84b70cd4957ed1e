#!/usr/bin/env python3
"""scripts/loop_throughput.py finds inner loops and reads what llvm-mca answers."""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import cria_cli as cli

ROOT = Path(os.environ.get("CRIA_SOURCE_DIR", Path(__file__).resolve().parents[2]))


class LoopThroughput(unittest.TestCase):
    def test_its_samples(self):
        done = subprocess.run([sys.executable, ROOT / "scripts/loop_throughput.py", "--self-test"],
                              capture_output=True, text=True, timeout=cli.PATIENCE_S, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_refusals_are_one_line_and_no_table(self):
        with tempfile.TemporaryDirectory() as name:
            for kernel in ("sse4_1", "avx2", "avxvnni", "avx512vnni"):
                (Path(name) / f"linear_{kernel}.o").touch()
            objdump = ("--objdump", "true")
            for arguments, text in (((), "a build folder is needed"), ((name, "--self-test"), "--self-test needs no build folder"),
                                    ((name, "--mca", "/nowhere"), "/nowhere: no such program"),
                                    ((name, "--mca", "true", *objdump), "its answer is none of llvm-mca's"),
                                    ((name, "--mca", "true", *objdump, "--cpus", ""), "knows no processor ''"),
                                    ((name, "--mca", "true", "--only", "("), "--only: "),
                                    ((f"{name}/none", "--mca", "true"), "no kernels of AArch64 or x86-64")):
                done = subprocess.run([sys.executable, ROOT / "scripts/loop_throughput.py", *arguments],
                                      capture_output=True, text=True, timeout=cli.PATIENCE_S, check=False)
                self.assertEqual((done.returncode, done.stdout), (2, ""), arguments)
                self.assertRegex(done.stderr, r"\Aloop_throughput: [^\n]+\n\Z")
                self.assertIn(text, done.stderr)


if __name__ == "__main__":
    unittest.main()
