#!/usr/bin/env python3
"""scripts/loop_throughput.py finds inner loops and reads what llvm-mca answers."""

import os
import subprocess
import sys
import unittest
from pathlib import Path

ROOT = Path(os.environ.get("CRIA_SOURCE_DIR", Path(__file__).resolve().parents[2]))


class LoopThroughput(unittest.TestCase):
    def test_its_samples(self):
        done = subprocess.run([sys.executable, ROOT / "scripts/loop_throughput.py", "--self-test"],
                              capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))


if __name__ == "__main__":
    unittest.main()
