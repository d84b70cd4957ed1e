"""What the house checks share: arguments, the list of files, and the driver of --self-test.

A check is a function of a Context that returns (problems, compared): a list of lines, and how many things were
looked at. It fails when there is a problem, and also when it compared nothing.
"""
import argparse
import dataclasses
import os
import pathlib
import re
import subprocess
import sys
import tempfile

SKIPPED = 77
REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
UNTRACKED_FOLDERS = {".git", "build", ".cache", ".deps", "out", "__pycache__"}


class Skip(Exception):
    """Raised by a check that cannot run on this machine; the text says why."""


@dataclasses.dataclass(frozen=True)
class Context:
    source: pathlib.Path
    build: pathlib.Path
    compiler: str
    c_compiler: str
    nm: str

    def files(self, *suffixes):
        """Relative paths of the tracked files with one of these suffixes (all without one), in order."""
        return [path for path in self._all_files() if not suffixes or path.suffix in suffixes]

    def _all_files(self):
        listed = subprocess.run(["git", "-C", str(self.source), "ls-files", "-z"], capture_output=True, check=False)
        if listed.returncode == 0 and (self.source / ".git").exists():
            names = [os.fsdecode(name) for name in listed.stdout.split(b"\0") if name]
            return sorted(pathlib.PurePath(name) for name in names if (self.source / name).is_file())
        found = []
        for folder, below, names in os.walk(self.source):
            below[:] = [name for name in below if name not in UNTRACKED_FOLDERS]
            found += [pathlib.PurePath(folder, name).relative_to(self.source) for name in names]
        return sorted(found)

    def text(self, path):
        return (self.source / path).read_text(encoding="utf-8", errors="replace")


@dataclasses.dataclass(frozen=True)
class Sample:
    """A small repository, and a part of the line that the check must print about it (None: it must pass)."""
    name: str
    files: dict
    rejected_for: str | None


ISA_LIST = "runtime/kernels/isas.h"
ISA_ROW = re.compile(r'^  X\((\w+), (\w+), "([^"]+)", (\w+), \w+\)', re.MULTILINE)


@dataclasses.dataclass(frozen=True)
class Isa:
    enumerator: str
    ending: str
    name: str
    bit: str


def isas_of(source):
    """The rows of a repository's list of instruction sets, in rising order."""
    return [Isa(*row) for row in ISA_ROW.findall((source / ISA_LIST).read_text(encoding="utf-8"))]


def verdict(check, context):
    problems, compared = check(context)
    if not compared:
        problems = problems + ["nothing to compare"]
    return problems, compared


def build_archive(context):
    """Makes a sample's C and C++ sources a libcria.a in its build folder; nothing where it has none."""
    compilers = {".c": [context.c_compiler], ".cpp": [context.compiler, "-std=c++20", "-O1", "-fno-builtin"]}
    sources = context.files(*compilers)
    if not sources:
        return
    (context.build / "lib").mkdir()
    objects = [str(context.build / f"{path.name}.o") for path in sources]
    for path, target in zip(sources, objects):
        subprocess.run([*compilers[path.suffix], "-c", str(context.source / path), "-o", target], check=True)
    subprocess.run(["ar", "rcs", str(context.build / "lib" / "libcria.a"), *objects], check=True)


def self_test(check, samples, context, prepare):
    failed = 0
    for sample in list(samples) + [Sample("an empty repository", {}, "nothing to compare")]:
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder, "source")
            build = pathlib.Path(folder, "build")
            for path in (root, build):
                path.mkdir()
            for name, content in sample.files.items():
                path = root / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content if isinstance(content, bytes) else content.encode())
            here = dataclasses.replace(context, source=root, build=build)
            if prepare:
                prepare(here)
            problems, _ = verdict(check, here)
        if sample.rejected_for is None:
            right = not problems
        else:
            right = any(sample.rejected_for in problem for problem in problems)
        if not right:
            failed += 1
            print(f"FAILED: {sample.name}: expected {sample.rejected_for or 'no problem'}, got {problems}")
    print(f"{len(samples) + 1} samples, {failed} judged wrongly")
    return 1 if failed or not samples else 0


def main(check, samples, prepare=None):
    parser = argparse.ArgumentParser()
    parser.add_argument("--self-test", action="store_true", help="judge the built-in samples instead")
    parser.add_argument("--source", type=pathlib.Path, default=REPOSITORY)
    parser.add_argument("--build", type=pathlib.Path, default=REPOSITORY / "build" / "release")
    parser.add_argument("--compiler", default="c++")
    parser.add_argument("--c-compiler", default="cc")
    parser.add_argument("--nm", default="nm")
    args = parser.parse_args()
    context = Context(args.source.resolve(), args.build.resolve(), args.compiler, args.c_compiler, args.nm)
    try:
        if args.self_test:
            sys.exit(self_test(check, samples, context, prepare))
        problems, compared = verdict(check, context)
    except Skip as reason:
        print(f"skipped: {reason}")
        sys.exit(SKIPPED)
    for problem in problems:
        print(problem)
    print(f"{compared} compared, {len(problems)} problems")
    sys.exit(1 if problems else 0)
