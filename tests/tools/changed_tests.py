#!/usr/bin/env python3
"""Which tests files have to do with, by the table CRIA_CHANGED of cmake/Lanes.cmake (scripts/test.sh --changed).

    changed_tests.py asked < FILES                expressions for names of tests, a line each; "--target NAME" where only that build
                                                  has tests. FILES are paths from the root, each with a NUL behind it
    changed_tests.py chosen EXPRESSION... < LIST  of `ctest --show-only=json-v1`: one expression for the tests so named, then a
                                                  line of the targets that they need
"""
import json
import os
import pathlib
import re
import sys

LANES = pathlib.Path(__file__).resolve().parents[2] / "cmake/Lanes.cmake"
ELSEWHERE = "--target "


def rows_of(text):
    """(expression for paths, expression for tests with @1@ for the path's group) of a text as that of LANES."""
    table = re.search(r"^set\(CRIA_CHANGED\n((?:  \".*\"\)?\n)+)", text, re.M).group(1)
    return [tuple(row.split(" => ")) for row in re.findall(r'^  "(.*)"\)?$', table, re.M)]


def asked(rows, path):
    """What a file asks for: expressions for tests, and words that name another build."""
    for expression, tests in rows:
        found = re.search(expression, path)
        if found:
            group = found.group(1) if found.re.groups else None
            yield tests.replace("@1@", (group or "").replace("/", "."))


def chosen(expressions, names):
    return [name for name in names if any(re.search(expression, name) for expression in expressions)]


def targets(tests):
    """A test of a program is named for it; a script may drive any of the product's."""
    found = set()
    for test in tests:
        command = test.get("command")  # none before the program is built
        folder, _, name = test["name"].rpartition(".")
        if command and pathlib.Path(command[0]).name.startswith("python"):
            found.add("lane_programs")
        elif folder == "fuzz" and not name.endswith("_test"):
            found.add(f"{name}_fuzz")
        else:
            found.add(name)
    return found


def main(arguments):
    match arguments:
        case ["asked"]:
            rows = rows_of(LANES.read_text())
            files = [os.fsdecode(name) for name in sys.stdin.buffer.read().split(b"\0") if name]
            print("".join(f"{tests}\n" for tests in sorted({tests for file in files for tests in asked(rows, file)})), end="")
        case ["chosen", *expressions]:
            tests = {test["name"]: test for test in json.load(sys.stdin)["tests"]}
            names = chosen(expressions, tests)
            # ctest's own expressions have ten groups at most: this one has one.
            print("^(" + "|".join(name.replace(".", "[.]") for name in names) + ")$")
            print(*sorted(targets(tests[name] for name in names)))
        case _:
            raise SystemExit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
