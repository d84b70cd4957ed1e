#!/usr/bin/env python3
"""Every *_test.cpp, *_test.py and *_bench.cpp is built or run: none lies where the build does not look. Those of
tests/unit/<path> lie below a folder of the source tree, <path>. A suite of GoogleTest is in one file."""
import json
import pathlib
import re
import subprocess

from house_common import Sample, main

UNIT = pathlib.PurePath("tests/unit")
SUITE = re.compile(r"^TEST(?:_F|_P)?\(\s*(\w+)", re.MULTILINE)
SUFFIXES = ("_test.cpp", "_test.py", "_bench.cpp")


def compiled_files(context):
    database = context.build / "compile_commands.json"
    if not database.is_file():
        return set()
    return {pathlib.Path(entry["file"]).resolve() for entry in json.loads(database.read_text())}


def test_commands(context):
    """Every word of every test's command, as ctest lists them."""
    listed = subprocess.run(["ctest", "--show-only=json-v1"], cwd=context.build, capture_output=True, text=True, check=True)
    words = set()
    for test in json.loads(listed.stdout)["tests"]:
        words.update(test.get("command", []))
    return words


def check(context):
    compiled = compiled_files(context)
    words = test_commands(context)
    filters = (re.match(r"--gtest_filter=(?:\w+/)?(\w+)\.", word) for word in words)
    suites = {found.group(1) for found in filters if found}
    scripts = {pathlib.Path(word).resolve() for word in words if word.endswith(".py")}
    sources = context.files(".cpp", ".h")
    file_of_suite = {}
    problems = []
    compared = 0
    for path in context.files():
        name = path.as_posix()
        if not name.endswith(SUFFIXES):
            continue
        compared += 1
        if path.is_relative_to(UNIT):
            tested = path.parent.relative_to(UNIT)
            if not any(source.parent == tested for source in sources):
                problems.append(f"{name}: {tested} is no folder of sources")
        full = (context.source / path).resolve()
        if name.endswith(".py"):
            if full not in scripts:
                problems.append(f"{name}: ctest does not run it (tests/cli/CMakeLists.txt says what is read)")
        elif full not in compiled:
            problems.append(f"{name}: no target compiles it (tests/unit/CMakeLists.txt lists the folders)")
        elif name.endswith("_test.cpp"):
            own = set(SUITE.findall(full.read_text()))
            if not suites.intersection(own):
                problems.append(f"{name}: ctest runs no test of it")
            # Of a suite in two files ctest's names would not tell whose cases are run.
            problems.extend(f"{name}: suite {suite} is also in {file_of_suite[suite]}" for suite in sorted(own) if suite in file_of_suite)
            file_of_suite.update(dict.fromkeys(own, name))
    return problems, compared


def write_build(context):
    """A build that knows the files below known/ and, below built/, compiles without running."""
    entries = []
    tests = []
    for path in context.files():
        full = context.source / path
        if path.parts[0] in ("known", "built", "tests") and path.suffix == ".cpp":
            entries.append({"file": str(full)})
        if path.parts[0] in ("known", "tests"):
            program = context.build / path.stem
            program.touch(mode=0o755)  # ctest lists commands that exist
            command = f"python3 [==[{full}]==]" if path.suffix == ".py" else f"[==[{program}]==] --gtest_filter=Every/A.B/1"
            tests.append(f"add_test([==[{path}]==] {command})\n")
    (context.build / "compile_commands.json").write_text(json.dumps(entries))
    (context.build / "CTestTestfile.cmake").write_text("".join(tests))


CASE = "TEST_P(\n    A, B) {}\n"
SAMPLES = [
    Sample("all known", {"known/a_test.cpp": CASE, "known/b_test.py": "", "known/c_bench.cpp": ""}, None),
    Sample("a test that no target compiles", {"known/a_test.cpp": CASE, "other/b_test.cpp": CASE}, "no target compiles it"),
    Sample("a test whose cases are not run", {"built/b_test.cpp": CASE}, "ctest runs no test of it"),
    Sample("a test without a single case", {"known/a_test.cpp": CASE, "known/b_test.cpp": "// TEST(A, B)"}, "ctest runs no test of it"),
    Sample("a suite in two files", {"known/a_test.cpp": CASE, "built/b_test.cpp": CASE}, "suite A is also in"),
    Sample("a test in its place", {"quant/a.h": "", "tests/unit/quant/a_test.cpp": CASE}, None),
    Sample("a test of no folder", {"quant/a.h": "", "tests/unit/other/a_test.cpp": CASE}, "other is no folder of sources"),
    Sample("a script that ctest does not run", {"other/b_test.py": ""}, "ctest does not run it"),
    Sample("a benchmark that is not built", {"other/b_bench.cpp": ""}, "no target compiles it"),
]

if __name__ == "__main__":
    main(check, SAMPLES, write_build)
