#!/usr/bin/env python3
"""Each file asks for tests when it changes (the table CRIA_CHANGED of cmake/Lanes.cmake, which scripts/test.sh --changed reads), and the
table names tests and builds that there are. Files that nothing but the checks of this folder looks at are listed here."""
import json
import re
import subprocess
import sys

from house_common import REPOSITORY, Sample, main

sys.path.insert(0, str(REPOSITORY / "tests/tools"))
from changed_tests import ELSEWHERE, asked, chosen, rows_of  # noqa: E402  pylint: disable=wrong-import-position

LANES = "cmake/Lanes.cmake"
HOUSE = "^house"
# What no test of ctest reads, and who does.
UNTESTED = re.compile("|".join((
    r"[.](md|svg|png)$|^LICENSE$",                        # readers
    r"(^|/)[.](clang-|editorconfig|gitignore)|^[.]ci/",   # tools
    r"^tests/house/",                                     # this
    r"^tests/data/dictionaries/",                         # scripts/fuzz.sh
    r"^tests/clients/",                                   # scripts/server_clients.sh
)))


def alternatives(expression):
    """The parts of an expression between bars outside groups."""
    parts, depth = [""], 0
    for letter in expression:
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if letter == "|" and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


def check(context):
    files = [path.as_posix() for path in context.files()]
    if not files:
        return [], 0
    names = [test["name"] for test in json.loads(subprocess.run(
        ["ctest", "--show-only=json-v1"], cwd=context.build, capture_output=True, text=True, check=True).stdout)["tests"]]
    presets = {preset["name"] for preset in json.loads(context.text("CMakePresets.json"))["buildPresets"]}
    rows = rows_of(context.text(LANES))
    problems = []
    for expression, tests in rows:
        groups = {wanted for file in files for wanted in asked([(expression, tests)], file)}
        if not groups:
            problems.append(f"{LANES}: no file is called {expression}")
        for part in sorted({part for wanted in groups for part in alternatives(wanted)}):
            if not (part[len(ELSEWHERE):] in presets if part.startswith(ELSEWHERE) else chosen([part], names)):
                problems.append(f"{LANES}: {part}, which {expression} asks for, is no test")
    for file in files:
        if not UNTESTED.search(file) and all(tests.startswith(HOUSE) for tests in asked(rows, file)):
            problems.append(f"{file}: asks for no test when it changes ({LANES})")
    return problems, len(files)


def write_build(context):
    (context.build / "CTestTestfile.cmake").write_text('add_test(quant.a true)\nadd_test(house.b true)\n')


def table(rows, files, reason):
    lines = "".join(f'  "{row}"\n' for row in rows)[:-1]
    return Sample(rows[0], {LANES: f"set(CRIA_CHANGED\n{lines})\n", "CMakePresets.json": '{"buildPresets": [{"name": "arm"}]}',
                            "tests/house/c.py": "", **dict.fromkeys(files, "")}, reason)


HERE = "^cmake|^CMake => ^quant[.]"
SAMPLES = [
    table(["^quant/ => ^quant[.]|^(house|x)[.]", HERE, "^ => ^house[.]"], ["quant/a.h", "a.md"], None),
    table(["^([a-z]+)/a => ^@1@[.]", HERE], ["quant/a.h"], None),
    table(["^arm/ => --target arm", HERE], ["arm/a.h"], None),
    table(["^arm/ => --target leg", HERE], ["arm/a.h"], "--target leg, which ^arm/ asks for, is no test"),
    table(["^quant/ => ^quant[.]|^other[.]", HERE], ["quant/a.h"], "^other[.], which ^quant/ asks for, is no test"),
    table(["^quants/ => ^quant[.]", HERE], ["tests/house/a.py"], "no file is called ^quants/"),
    table([HERE, "^ => ^house[.]"], ["quant/a.h"], "quant/a.h: asks for no test"),
    table([HERE], ["quant/a.h"], "quant/a.h: asks for no test"),
]

if __name__ == "__main__":
    main(check, SAMPLES, write_build)
