#!/usr/bin/env python3
"""Scripts with options refuse what they do not know in one line, before they do anything."""

import os
import subprocess
import sys
import unittest
from pathlib import Path

SCRIPTS = Path(os.environ.get("CRIA_SOURCE_DIR", Path(__file__).resolve().parents[2])) / "scripts"


class ScriptArguments(unittest.TestCase):
    def test_refusals_are_one_line(self):
        tried = 0
        for script in sorted(SCRIPTS.glob("*.py")):
            if "import OneLineParser" not in script.read_text():
                continue
            tried += 1
            with self.subTest(script.name):
                done = subprocess.run([sys.executable, script, "1", "--nonsense"], capture_output=True, text=True, timeout=60, check=False)
                self.assertEqual((done.returncode, done.stdout), (2, ""))
                self.assertRegex(done.stderr, rf"\A{script.stem}: [^\n]+; see --help\n\Z")
        self.assertGreater(tried, 5)

    def test_no_script_has_another_parser(self):
        for script in SCRIPTS.glob("*.py"):
            if script.name != "script_arguments.py":
                self.assertNotIn("ArgumentParser(", script.read_text(), script.name)


if __name__ == "__main__":
    unittest.main()
