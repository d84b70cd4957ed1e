#!/usr/bin/env python3
"""Each fuzz target has a corpus, tests/data/corpus/<target>.tar, and nothing else is there. A corpus is what scripts/fuzz.sh
writes: plain files sorted by name, nothing of who packed them or when, so that the same inputs are the same bytes."""
import io
import pathlib
import tarfile

from house_common import Sample, main

CORPORA = pathlib.PurePath("tests/data/corpus")
TARGETS = pathlib.PurePath("tests/fuzz")
TARGET_ENDING = "_fuzz.cpp"
MODE = 0o644
BLOCK_BYTES = 512
USTAR, MAGIC_AT = b"ustar\00000", 257


def problems_of_header(entry, header):
    if header[MAGIC_AT:MAGIC_AT + len(USTAR)] != USTAR or not entry.isreg() or "/" in entry.name:
        yield "no plain file in a plain ustar archive"
    if (entry.mode, entry.mtime, entry.uid, entry.gid, entry.uname, entry.gname) != (MODE, 0, 0, 0, "", ""):
        yield "its mode, time or owner is another"


def problems_of(data):
    """What is wrong with an archive, and how many inputs it has."""
    try:
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as archive:
            entries = archive.getmembers()
    except tarfile.TarError as reason:
        return [f"no archive: {reason}"], 0
    problems = [f"{entry.name}: {problem}" for entry in entries
                for problem in problems_of_header(entry, data[entry.offset:entry.offset + BLOCK_BYTES])]
    names = [entry.name for entry in entries]
    if names != sorted(set(names)):
        problems.append("names are not in order, or a name is there twice")
    end = max((entry.offset_data + entry.size for entry in entries), default=0)
    if any(data[end:]) or len(data) % tarfile.RECORDSIZE:
        problems.append("there is more behind the last input than its padding")
    if not entries:
        problems.append("no inputs")
    return problems, len(entries)


def check(context):
    files = context.files()
    targets = {path.name[:-len(TARGET_ENDING)] for path in files if path.parent == TARGETS and path.name.endswith(TARGET_ENDING)}
    problems, compared = [], 0
    corpora = [path for path in files if path.is_relative_to(CORPORA)]
    for path in corpora:
        if path.parent != CORPORA or path.suffix != ".tar" or path.stem not in targets:
            problems.append(f"{path}: no corpus of a target (scripts/fuzz.sh add puts inputs into one)")
            continue
        found, n = problems_of((context.source / path).read_bytes())
        problems += [f"{path}: {problem}" for problem in found]
        compared += n
    missing = targets - {path.stem for path in corpora}
    return problems + [f"{TARGETS / name}{TARGET_ENDING}: no corpus {CORPORA / name}.tar" for name in sorted(missing)], compared


def archive(*entries, form=tarfile.USTAR_FORMAT, ending=b""):
    """Bytes of an archive of (name, content, changed fields)."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form) as written:
        for name, content, fields in entries:
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            for field, value in {"mode": MODE, **fields}.items():
                setattr(entry, field, value)
            written.addfile(entry, io.BytesIO(content))
    return out.getvalue() + ending


def sample(what, rejected_for, data, **more):
    return Sample(what, {"tests/fuzz/open_fuzz.cpp": "", "tests/data/corpus/open.tar": data, **more}, rejected_for)


A, B = ("a", b"1", {}), ("b", b"", {})
SAMPLES = [
    sample("a corpus", None, archive(A, B)),
    sample("another order", "not in order", archive(B, A)),
    sample("a name twice", "is there twice", archive(A, A)),
    sample("a time", "time or owner", archive(("a", b"1", {"mtime": 1}))),
    sample("an owner", "time or owner", archive(("a", b"1", {"uname": "root"}))),
    sample("a mode", "its mode", archive(("a", b"1", {"mode": 0o600}))),
    sample("a folder", "no plain file", archive(("a", b"", {"type": tarfile.DIRTYPE}))),
    sample("a file in a folder", "no plain file", archive(("a/b", b"1", {}))),
    sample("another format", "plain ustar", archive(A, form=tarfile.GNU_FORMAT)),
    sample("something behind it", "behind the last", archive(A, ending=b"x" * tarfile.RECORDSIZE)),
    sample("no archive", "no archive", b"x" * tarfile.RECORDSIZE),
    sample("no inputs", "no inputs", archive()),
    sample("an input beside it", "no corpus of a target", archive(A), **{"tests/data/corpus/open/a": "1"}),
    sample("a corpus of no target", "no corpus of a target", archive(A), **{"tests/data/corpus/verify.tar": archive(A)}),
    sample("a target without one", "no corpus tests/data/corpus/json.tar", archive(A), **{"tests/fuzz/json_fuzz.cpp": ""}),
]

if __name__ == "__main__":
    main(check, SAMPLES)
