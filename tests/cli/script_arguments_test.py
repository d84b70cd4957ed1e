#!/usr/bin/env python3
"""Scripts with options refuse what they do not know in one line, before they do anything."""

import argparse
import ast
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import cria_cli as cli

SCRIPTS = Path(os.environ.get("CRIA_SOURCE_DIR", Path(__file__).resolve().parents[2])) / "scripts"
sys.path.insert(0, str(SCRIPTS))

import script_arguments  # noqa: E402


# What a script cannot do without.
NEEDED = {
    "chat_picture": ["/"],
    "compare": ["--shape", "smollm-135m"],
    "generate_unicode_tables": ["nfc", "/"],
    "models_table": [sys.executable],
    "page_picture": ["/"],
    "serve_load": ["1"],
}


class ScriptArguments(unittest.TestCase):
    def test_refusals_are_one_line(self):
        tried = 0
        for script in sorted(SCRIPTS.glob("*.py")):
            if script.name == "script_arguments.py" or "OneLineParser(" not in script.read_text():
                continue
            tried += 1
            with self.subTest(script.name):
                self.refused([sys.executable, script], script.stem, "--nonsense")
                self.refused([sys.executable, script], script.stem, "--two\nlines")
                self.refused([sys.executable, script], script.stem, "--hel")  # no abbreviations
                shown = subprocess.run([sys.executable, script, "--help"], capture_output=True, text=True, timeout=cli.PATIENCE_S, check=True)
                self.assertIn(ast.get_docstring(ast.parse(script.read_text())), shown.stdout)
        self.assertGreater(tried, 6)

    def test_references_are_found_from_every_folder(self):
        beside = str(SCRIPTS.parents[1] / "shared")
        for value, wanted in (("shared", str(Path.cwd().resolve() / "shared")), ("", beside), (None, beside), ("/x/50%/y", "/x/50%/y")):
            environment = {name: text for name, text in os.environ.items() if name != "CRIA_SHARED"}
            if value is not None:
                environment["CRIA_SHARED"] = value
            with self.subTest(CRIA_SHARED=value):
                code = "import os, script_arguments; os.chdir('/'); print(script_arguments.SHARED)"
                said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=cli.PATIENCE_S, check=True,
                                      env=environment | {"PYTHONPATH": str(SCRIPTS)})
                self.assertEqual(said.stdout, os.path.realpath(wanted) + "\n")
                for script in ("compare", "quality"):
                    subprocess.run([sys.executable, SCRIPTS / f"{script}.py", "--help"], capture_output=True, timeout=cli.PATIENCE_S, check=True,
                                   env=environment)

    def test_refusals_come_before_building(self):
        tried = 0
        for script in sorted(SCRIPTS.glob("*.sh")):
            if '/run_built.sh" ' not in script.read_text():
                continue
            tried += 1
            with self.subTest(script.name):
                self.refused([script], script.stem, "--nonsense")
        self.assertGreater(tried, 2)

    def test_shell_scripts_say_what_they_take_and_refuse_the_rest(self):
        tried = 0
        for script in sorted(SCRIPTS.glob("*.sh")):
            if script.name == "common.sh" or '/run_built.sh" ' in script.read_text():
                continue
            tried += 1
            with self.subTest(script.name):
                for option in "--help", "-h":
                    shown = subprocess.run([script, option], capture_output=True, text=True, timeout=cli.PATIENCE_S, check=True)
                    self.assertTrue(shown.stdout.startswith(f"scripts/{script.name}"), shown.stdout)
                self.assert_refused([script, "--nonsense"], script.stem, r"[^\n]+")
        self.assertGreater(tried, 8)

    def refused(self, command, name, option):
        problem = f"unrecognized arguments: {option}".replace("\n", "?")
        self.assert_refused([*command, *NEEDED.get(name, []), option], name, re.escape(problem))

    def assert_refused(self, command, name, problem):
        done = subprocess.run(command, capture_output=True, text=True, timeout=cli.PATIENCE_S, check=False)
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertRegex(done.stderr, rf"\A{name}: {problem}; see --help\n\Z")

    def test_values_that_make_no_sense_are_refused(self):
        for name, *arguments, problem in (
                ("serve_load", "nan", "argument seconds: 'nan' is no number from 1 to"),
                ("serve_load", "0", "argument seconds: '0' is no number"),
                ("serve_load", "1", "--clients", "0", "argument --clients: '0' is no number"),
                ("serve_load", "1", "--json", "/", "argument --json: / is a folder"),
                ("quality", "--json", "/dev/null", "argument --json: /dev/null is no regular file"),
                ("quality", "--plot", "/none/a.svg", "argument --plot: there is no folder /none"),
                ("quality", "--model", "/none", "argument --model: /none is not there"),
                ("quality", "--peers", "/none", "argument --peers: /none is no program"),
                ("quality", "--models", "", "--no-peers", "there is nothing to measure"),
                ("models_table", "/none", "argument CRIA_CONVERT: /none is no program"),
                ("generate_unicode_tables", "nfc", "/none", "argument folder: /none is not there")):
            with self.subTest(name, arguments=arguments):
                self.assert_refused([sys.executable, SCRIPTS / f"{name}.py", *arguments], name, problem + r"[^\n]*")

    def test_no_script_has_another_parser(self):
        for script in SCRIPTS.glob("*.py"):
            if script.name != "script_arguments.py":
                self.assertNotIn("ArgumentParser(", script.read_text(), script.name)

    def problem(self, kind, text):
        with self.assertRaises(argparse.ArgumentTypeError) as raised:
            kind(text)
        return str(raised.exception)

    def test_numbers(self):
        number, numbers = script_arguments.number(1, 8), script_arguments.numbers(1, 8)
        self.assertEqual((number("1"), number("8"), numbers("2,1,2")), (1, 8, [2, 1]))
        for text in ("", "0", "9", "-1", "+1", "1.5", "nan", "\u0663", " 1", "1" * 5000):
            self.assertEqual(self.problem(number, text), f"{text!r} is no number from 1 to 8")
        self.assertEqual(self.problem(numbers, "1,,2"), "'' is no number from 1 to 8")

    def test_files(self):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name).resolve()
            file, link, missing = folder / "file", folder / "link", folder / "none/file"
            file.write_text("before")
            link.symlink_to(file)
            self.assertEqual(script_arguments.output_file(str(link)), file)
            self.assertEqual(script_arguments.output_file(str(folder / "new")), folder / "new")
            self.assertEqual(script_arguments.existing(str(link)), file)
            self.assertEqual((file.read_text(), sorted(os.listdir(folder))), ("before", ["file", "link"]))
            for kind, text, problem in ((script_arguments.output_file, "", "an empty text names no file"),
                                        (script_arguments.output_file, name, "is a folder; name a file in it"),
                                        (script_arguments.output_file, "/dev/null", "/dev/null is no regular file; name another"),
                                        (script_arguments.output_file, str(missing), f"there is no folder {missing.parent}; make it"),
                                        (script_arguments.existing, str(missing), f"{missing} is not there"),
                                        (script_arguments.program, str(file), f"{file} is no program"),
                                        (script_arguments.program, name, "is no program")):
                self.assertIn(problem, self.problem(kind, text))


if __name__ == "__main__":
    unittest.main()
