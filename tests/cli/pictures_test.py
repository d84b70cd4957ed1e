#!/usr/bin/env python3
"""The drawn pictures of the documents are what their scripts draw: docs/images/chat.svg of what cria says now."""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import cria_cli as cli

ROOT = Path(os.environ.get("CRIA_SOURCE_DIR", Path(__file__).resolve().parents[2]))
BIN = Path(os.environ.get("CRIA_BIN_DIR", ROOT / "build/release/bin"))
sys.path.insert(0, str(ROOT / "scripts"))

import chat_picture  # noqa: E402  pylint: disable=wrong-import-position


class Pictures(unittest.TestCase):
    def check(self, script, *arguments):
        done = subprocess.run([sys.executable, ROOT / "scripts" / script, *arguments, "--check"], capture_output=True, text=True,
                              timeout=cli.PATIENCE_S, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_the_chat_is_what_cria_says(self):
        self.check("chat_picture.py", BIN)

    def test_the_way_is_what_the_script_draws(self):
        self.check("way_picture.py")

    def test_the_terminal_moves_and_colours(self):
        rows = chat_picture.rows_of(b"ab\rc\x1b[K\r\n\x1b[2mdim\x1b[0m d\x08e" + b"x" * (chat_picture.COLUMNS - 4))
        self.assertEqual(["".join(letter for letter, _ in row) for row in rows],
                         ["c", "dim e" + "x" * (chat_picture.COLUMNS - 5), "x"])
        self.assertEqual([style for _, style in rows[1][:4]], ["2", "2", "2", ""])

    def test_a_picture_that_differs_is_told(self):
        with tempfile.TemporaryDirectory() as name:
            scripts = Path(name, "scripts")
            scripts.mkdir()
            for script in "way_picture.py", "script_arguments.py":
                (scripts / script).write_text((ROOT / "scripts" / script).read_text("utf-8"), "utf-8")
            done = subprocess.run([sys.executable, scripts / "way_picture.py", "--check"], capture_output=True, text=True,
                                  timeout=cli.PATIENCE_S, check=False)
            self.assertEqual(done.returncode, 1)
            self.assertIn("run scripts/way_picture.py", done.stderr)


if __name__ == "__main__":
    unittest.main()
