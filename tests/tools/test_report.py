#!/usr/bin/env python3
"""What scripts/test.sh says at its end.

    test_report.py slowest BUILD SINCE     what took longest in a build folder since a time (seconds of the epoch), and what
                                           was skipped: lines that join reads
    test_report.py join FILE...            the tables of all builds together
"""
import pathlib
import re
import sys

MOST = 25
TESTED = re.compile(r"^ *\d+/\d+ Test +#\d+: (\S+) \.+ *(?:\*\*\*)?(\w[\w ]*?) +([\d.]+) sec")
CASES_SKIPPED = re.compile(r"^(?:\d+: )?\[  SKIPPED \] (\w[\w./]*)\s*$")


def units(build, since):
    """(seconds, translation unit) of what ninja has compiled since then; a cached one takes a moment."""
    log = build / ".ninja_log"
    for line in log.read_text().splitlines()[1:] if log.exists() else []:
        begin, end, modified, output, *_ = line.split("\t")
        if output.endswith(".o") and int(modified) >= since * 10**9:
            yield (int(end) - int(begin)) / 1000, re.sub(r"CMakeFiles/[^/]*\.dir/|\.o$", "", output)


def tests(build):
    """(seconds, state, name) of the last run."""
    log = build / "ctest.log"
    for line in log.read_text(errors="replace").splitlines() if log.exists() else []:
        found = TESTED.match(line)
        if found:
            yield float(found.group(3)), found.group(2), found.group(1)


def skipped(build):
    """Tests that were skipped, and cases of programs that were."""
    for _, state, name in tests(build):
        if state == "Skipped":
            yield name
    log = build / "Testing/Temporary/LastTest.log"
    seen = set()
    for line in log.read_text(errors="replace").splitlines() if log.exists() else []:
        found = CASES_SKIPPED.match(line)
        if found and found.group(1) not in seen:
            seen.add(found.group(1))
            yield found.group(1)


def slowest(build, since):
    rows = [("unit", *row) for row in units(build, since)]
    rows += [("test", seconds, name) for seconds, _, name in tests(build)]
    rows += [("skip", 0.0, name) for name in skipped(build)]
    return "".join(f"{kind}\t{seconds}\t{build.name}: {name}\n" for kind, seconds, name in rows)


def join(files):
    rows = [line.split("\t") for file in files for line in pathlib.Path(file).read_text().splitlines()]
    for kind, title in (("test", "tests"), ("unit", "translation units")):
        chosen = sorted(((float(row[1]), row[2]) for row in rows if row[0] == kind), reverse=True)
        if chosen:
            print(f"\n{len(chosen)} {title}, {sum(seconds for seconds, _ in chosen):.0f} s of one core or more; those that took longest, s:")
        for seconds, name in chosen[:MOST]:
            print(f"{seconds:7.1f}  {name}")
    names = [row[2] for row in rows if row[0] == "skip"]
    if names:
        print(f"\nskipped ({len(names)}):")
        for name in names:
            print(f"  {name}")


def main(arguments):
    match arguments:
        case ["slowest", build, since] if since.isdigit():
            print(slowest(pathlib.Path(build), int(since)), end="")
        case ["join", *files] if files:
            join(files)
        case _:
            raise SystemExit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
