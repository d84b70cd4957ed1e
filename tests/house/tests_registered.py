#!/usr/bin/env python3
"""Every *_test.cpp, *_test.py and *_bench.cpp is built and run: none lies where the build does not look. Those of
tests/unit/<path> lie below a folder of the source tree, <path>. A suite of GoogleTest is in one file. Every test of ctest is in
one lane (cmake/Lanes.cmake)."""
import json
import pathlib
import re
import subprocess

from house_common import Sample, main

UNIT = pathlib.PurePath("tests/unit")
SUITE = re.compile(r"^TEST(?:_F|_P)?\(\s*(\w+)", re.MULTILINE)
TARGET = re.compile(r"CMakeFiles/([^/]+)\.dir/")
LANES = {"default", "all"}
SUFFIXES = ("_test.cpp", "_test.py", "_bench.cpp")


def programs_of_files(context):
    """Each file that is compiled, and the targets that compile it."""
    database = context.build / "compile_commands.json"
    found = {}
    for entry in json.loads(database.read_text()) if database.is_file() else []:
        target = TARGET.search(entry.get("output") or entry["command"])
        found.setdefault(pathlib.Path(entry["file"]).resolve(), set()).add(target.group(1) if target else "")
    return found


def listed_tests(context):
    """ctest's tests: name, the words of the command, labels."""
    listed = subprocess.run(["ctest", "--show-only=json-v1"], cwd=context.build, capture_output=True, text=True, check=True)
    for test in json.loads(listed.stdout)["tests"]:
        labels = [value for entry in test["properties"] if entry["name"] == "LABELS" for value in entry["value"]]
        yield test["name"], test.get("command", []), labels


def check(context):
    compiled = programs_of_files(context)
    words = set()
    whole = set()  # programs that a test runs with all their cases
    problems = []
    for name, command, labels in listed_tests(context):
        words.update(command)
        # A program that is not built has no command in ctest's list; its test ends in its name.
        whole.add(pathlib.Path(command[0]).name if command else name.rpartition(".")[2])
        if any(word.startswith("--gtest_filter") for word in command):
            whole.discard(pathlib.Path(command[0]).name)
        if len(LANES.intersection(labels)) != 1:
            problems.append(f"{name}: is in {len(LANES.intersection(labels))} lanes, not in one of {', '.join(sorted(LANES))}")
    scripts = {pathlib.Path(word).resolve() for word in words if word.endswith(".py")}
    sources = context.files(".cpp", ".h")
    file_of_suite = {}
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
            if not own or not whole.intersection(compiled[full]):
                problems.append(f"{name}: ctest runs no test of it")
            # The names of cases tell which file they are in.
            problems.extend(f"{name}: suite {suite} is also in {file_of_suite[suite]}" for suite in sorted(own) if suite in file_of_suite)
            file_of_suite.update(dict.fromkeys(own, name))
    return problems, compared


def write_build(context):
    """A build that knows the files below known/ and, below built/, compiles without running; those of nowhere/ are in no lane."""
    entries = []
    tests = []
    for path in context.files():
        full = context.source / path
        if path.parts[0] in ("known", "built", "tests", "filtered", "nowhere") and path.suffix == ".cpp":
            entries.append({"file": str(full), "command": f"c++ -o x/CMakeFiles/{path.stem}.dir/{path}.o"})
        if path.parts[0] in ("known", "tests", "filtered", "nowhere"):
            program = context.build / path.stem
            program.touch(mode=0o755)  # ctest lists commands that exist
            command = f"python3 [==[{full}]==]" if path.suffix == ".py" else f"[==[{program}]==]"
            if path.parts[0] == "filtered":
                command += " --gtest_filter=A.B"
            tests.append(f"add_test([==[{path}]==] {command})\n")
            if path.parts[0] != "nowhere":
                tests.append(f"set_tests_properties([==[{path}]==] PROPERTIES LABELS \"x;default\")\n")
    (context.build / "compile_commands.json").write_text(json.dumps(entries))
    (context.build / "CTestTestfile.cmake").write_text("".join(tests))


CASE = "TEST_P(\n    A, B) {}\n"
SAMPLES = [
    Sample("all known", {"known/a_test.cpp": CASE, "known/b_test.py": "", "known/c_bench.cpp": ""}, None),
    Sample("a test that no target compiles", {"known/a_test.cpp": CASE, "other/b_test.cpp": CASE}, "no target compiles it"),
    Sample("a test whose cases are not run", {"built/b_test.cpp": CASE}, "ctest runs no test of it"),
    Sample("a test without a single case", {"known/a_test.cpp": CASE, "known/b_test.cpp": "// TEST(A, B)"}, "ctest runs no test of it"),
    Sample("a program of which some cases are run", {"filtered/b_test.cpp": CASE}, "ctest runs no test of it"),
    Sample("a test in no lane", {"nowhere/b_test.cpp": CASE}, "is in 0 lanes"),
    Sample("a suite in two files", {"known/a_test.cpp": CASE, "built/b_test.cpp": CASE}, "suite A is also in"),
    Sample("a test in its place", {"quant/a.h": "", "tests/unit/quant/a_test.cpp": CASE}, None),
    Sample("a test of no folder", {"quant/a.h": "", "tests/unit/other/a_test.cpp": CASE}, "other is no folder of sources"),
    Sample("a script that ctest does not run", {"other/b_test.py": ""}, "ctest does not run it"),
    Sample("a benchmark that is not built", {"other/b_bench.cpp": ""}, "no target compiles it"),
]

if __name__ == "__main__":
    main(check, SAMPLES, write_build)
