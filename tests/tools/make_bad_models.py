#!/usr/bin/env python3
"""Makes small model files from docs/model_format.md: hostile ones, which break a rule each, and valid ones.

  make_bad_models.py --bad FOLDER     a hostile file for each rule; the build makes them build/<preset>/tests/data/golden/bad
  make_bad_models.py --check FOLDER   compares a folder so made with tests/data/golden/bad_models.sha256
  make_bad_models.py --pin            writes tests/data/golden/bad_models.sha256 anew (sha256sum -c reads it too)
  make_bad_models.py --valid FOLDER   the valid files of tests/data/golden/v3
  make_bad_models.py --all FOLDER     every file, those too that tests make when they run

Each index.txt has a line for a file: its name, the status that refuses it (or OK), and the rule it breaks or what it is.
The bytes are the same on every machine: frames are put together by hand, and numbers are drawn by bad_models/draw.py.
Files of tests/data/golden/v3 load for ever: they are added to, not made again.
"""
import argparse
import hashlib
import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from bad_models import (cases_of_chunks, cases_of_config, cases_of_layout, cases_of_tensors, cases_of_texts,  # noqa: E402
                        cases_of_valid)

PINNED = Path(__file__).resolve().parents[1] / "data" / "golden" / "bad_models.sha256"
BROKEN = (cases_of_layout, cases_of_config, cases_of_tensors, cases_of_chunks, cases_of_texts)
INDEX = "index.txt"


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


def kept(cases):
    return [case for case in cases if case.kept]


def files_of(cases):
    """Bytes by name, the index last."""
    lines = [f"{case.name}.cria {case.status} {case.rule}\n" for case in cases]
    return {**{f"{case.name}.cria": case.data for case in cases}, INDEX: "".join(lines).encode()}


def write(folder, files):
    """The index is written last: where it is, all are."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name, data in files.items():
        (folder / name).write_bytes(data)
    print(f"{folder}: {len(files) - 1} files, {sum(map(len, files.values()))} bytes")


def hashes(files):
    """SHA-256 by name, in order of the names."""
    return {name: hashlib.sha256(files[name]).hexdigest() for name in sorted(files)}


def check(folder):
    """Whether a folder holds exactly the files whose hashes are in the repository; says which do not."""
    found = hashes({path.name: path.read_bytes() for path in folder.iterdir()})
    wanted = dict(reversed(line.split()) for line in PINNED.read_text().splitlines())
    differ = [f"{folder / name}: {'new' if name not in wanted else 'missing' if name not in found else 'changed'}"
              for name in sorted(found | wanted) if found.get(name) != wanted.get(name)]
    print("\n".join([*differ, f"{len(found)} files, {len(differ)} differ from {PINNED}"]))
    if differ:
        print("FAILED: hostile models changed. If they are meant to: python3 tests/tools/make_bad_models.py --pin")
    return not differ


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_mutually_exclusive_group(required=True)
    for name in ("--bad", "--check", "--valid", "--all"):
        what.add_argument(name, type=Path, metavar="FOLDER")
    what.add_argument("--pin", action="store_true")
    options = parser.parse_args()
    if options.check:
        sys.exit(0 if check(options.check) else 1)
    elif options.pin:
        lines = [f"{digest}  {name}\n" for name, digest in hashes(files_of(kept(bad_cases()))).items()]
        PINNED.write_text("".join(lines))
        print(f"{PINNED}: {len(lines)} lines")
    elif options.bad:
        write(options.bad, files_of(kept(bad_cases())))
    elif options.valid:
        write(options.valid, files_of(kept(valid_cases())))
    else:
        write(options.all, files_of([*bad_cases(), *valid_cases()]))


if __name__ == "__main__":
    main()
