#!/usr/bin/env python3
"""Tables of what scripts/coverage.sh measured: lines and branches of runtime/ and quant/, file by file."""
import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

FOLDERS = ("runtime", "quant")


def programs(build):
    folders = (build / "bin", build / "tests/bin")
    return [str(path) for folder in folders for path in sorted(folder.iterdir()) if path.is_file() and path.stat().st_mode & 0o100]


def export(build, source):
    """llvm-cov's own table of each file: every program counts, a line is reached when one of them reaches it."""
    first, *others = programs(build)
    objects = [word for name in others for word in ("-object", name)]
    command = ["llvm-cov-14", "export", "-instr-profile", str(build / "coverage.profdata"), first, *objects,
               *(str(source / folder) for folder in FOLDERS)]
    return json.loads(subprocess.run(command, capture_output=True, check=True).stdout)["data"][0]["files"]


def unreached_lines(entry):
    """Lines where a region begins that was never run, as ranges."""
    lines = set()
    for line, _, count, has_count, is_entry, is_gap in entry["segments"]:
        if has_count and is_entry and not is_gap and count == 0:
            lines.add(line)
    ranges = []
    for line in sorted(lines):
        if ranges and line <= ranges[-1][1] + 1:
            ranges[-1][1] = line
        else:
            ranges.append([line, line])
    return ", ".join(f"{a}" if a == b else f"{a}-{b}" for a, b in ranges)


def percent(counts):
    return 100.0 * counts["covered"] / counts["count"] if counts["count"] else 100.0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=Path, required=True)
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--least", type=float, required=True)
    args = parser.parse_args()
    totals = {kind: {"count": 0, "covered": 0} for kind in ("lines", "branches")}
    unreached, not_run, measured = [], [], set()
    print(f"{'file':44}{'lines':>14}{'branches':>16}")
    for entry in sorted(export(args.build, args.source), key=lambda e: e["filename"]):
        # The compiler's path goes through the build folder and back.
        name = Path(os.path.relpath(os.path.normpath(entry["filename"]), args.source.resolve())).as_posix()
        if not name.startswith(tuple(folder + "/" for folder in FOLDERS)):
            continue
        measured.add(name)
        summary = entry["summary"]
        if summary["lines"]["covered"] == 0 and name.startswith("runtime/kernels/"):
            not_run.append(name)  # an instruction set that this processor lacks
            continue
        cells = []
        for kind, total in totals.items():
            counts = summary[kind]
            total["count"] += counts["count"]
            total["covered"] += counts["covered"]
            cells.append(f"{counts['covered']:5}/{counts['count']:<5}{percent(counts):4.0f}")
        print(f"{name:44}{cells[0]:>14}{cells[1]:>16}")
        missing = unreached_lines(entry)
        if missing:
            unreached.append(f"{name}: {missing}")
    for kind, total in totals.items():
        print(f"all {kind}: {total['covered']} of {total['count']}, {percent(total):.1f} %")
    sources = {path.relative_to(args.source).as_posix() for folder in FOLDERS for path in (args.source / folder).rglob("*.cpp")}
    print("\nnot reached, by line:", *unreached, sep="\n  ")
    print("\nnot measured (not compiled for this processor, or not run by it):", *sorted(not_run + list(sources - measured)),
          sep="\n  ")
    low = [kind for kind, total in totals.items() if percent(total) < args.least]
    if low:
        print(f"\nless than {args.least:g} % of the {' and '.join(low)}", file=sys.stderr)
    sys.exit(1 if low or not measured else 0)


if __name__ == "__main__":
    main()
