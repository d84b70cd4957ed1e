#!/usr/bin/env python3
"""Makes tests/data/golden/bad, a hostile file for each rule of docs/model_format.md, and valid ones for tests/data/golden/v2.

  make_bad_models.py [--output FOLDER] [--valid]     writes FOLDER/bad and, with --valid, FOLDER/v2
  make_bad_models.py --all FOLDER                    writes every file, those too that tests make when they run

Each index.txt has a line for a file: its name, the status that refuses it (or OK), and the rule it breaks or what it is.
Files of tests/data/golden/v2 load for ever: they are added to, not made again.
"""
import argparse
import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from bad_models import (cases_of_chunks, cases_of_config, cases_of_layout, cases_of_tensors, cases_of_texts,  # noqa: E402
                        cases_of_valid)

GOLDEN = Path(__file__).resolve().parents[1] / "data" / "golden"
BROKEN = (cases_of_layout, cases_of_config, cases_of_tensors, cases_of_chunks, cases_of_texts)


def bad_cases():
    """Every case; one is kept for each rule."""
    rules, names = set(), set()
    for module in BROKEN:
        for case in module.cases():
            if case.name in names:
                raise ValueError(f"two cases {case.name}")
            names.add(case.name)
            yield case._replace(kept=case.kept and case.rule not in rules)
            if case.kept:
                rules.add(case.rule)


def valid_cases():
    return cases_of_valid.cases()


def write(folder, cases):
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for case in cases:
        (folder / f"{case.name}.cria").write_bytes(case.data)
    lines = [f"{case.name}.cria {case.status} {case.rule}\n" for case in cases]
    (folder / "index.txt").write_text("".join(lines), encoding="utf-8")
    print(f"{folder}: {len(cases)} files, {sum(len(case.data) for case in cases)} bytes")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=GOLDEN)
    parser.add_argument("--valid", action="store_true")
    parser.add_argument("--all", type=Path, metavar="FOLDER")
    options = parser.parse_args()
    if options.all:
        write(options.all, [*bad_cases(), *valid_cases()])
        return
    write(options.output / "bad", [case for case in bad_cases() if case.kept])
    if options.valid:
        write(options.output / "v2", [case for case in valid_cases() if case.kept])


if __name__ == "__main__":
    main()
