#!/usr/bin/env python3
"""docs/models.md: the memory of published models is what cria-convert plans for their configs."""

import os
import subprocess
import sys
import unittest
from pathlib import Path

import cria_cli as cli

ROOT = Path(os.environ.get("CRIA_SOURCE_DIR", Path(__file__).resolve().parents[2]))
BIN = Path(os.environ.get("CRIA_BIN_DIR", ROOT / "build/release/bin"))


class ModelsTable(unittest.TestCase):
    def test_the_page_holds_what_is_planned(self):
        done = subprocess.run([sys.executable, ROOT / "scripts/models_table.py", BIN / "cria-convert", "--check"],
                              capture_output=True, text=True, timeout=cli.PATIENCE_S, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))


if __name__ == "__main__":
    unittest.main()
