#!/usr/bin/env python3
"""clang-format 14 would change no source; other versions lay some lines out differently, so only 14 counts. It leaves
comments alone (ReflowComments), so that their lists and tables stay; that they are not too wide is checked here."""
import re
import shutil
import subprocess

from house_common import REPOSITORY, Sample, Skip, main

CLANG_FORMAT = "clang-format-14"
COLUMNS = 100  # ColumnLimit of .clang-format
COMMENT = re.compile(r"(?:^|\s)(?://|/\*)\s|^\s*\*\s")


def wide_comments(name, text):
    for number, line in enumerate(text.split("\n"), 1):
        if len(line) > COLUMNS and COMMENT.search(line):
            yield f"{name}:{number}: a comment reaches column {len(line)}, past {COLUMNS}"


def check(context):
    if not shutil.which(CLANG_FORMAT):
        raise Skip(f"{CLANG_FORMAT} is not installed (scripts/setup.sh --test)")
    files = [path for path in context.files(".h", ".c", ".cpp", ".inc") if path.parts[0] != "models"]
    problems = []
    if files:
        ran = subprocess.run([CLANG_FORMAT, "--dry-run", "-Werror", "--ferror-limit=1", "--style=file", *map(str, files)],
                             cwd=context.source, capture_output=True, text=True, check=False)
        problems = [line for line in ran.stderr.splitlines() if "error:" in line]
        if ran.returncode and not problems:
            problems = [ran.stderr.strip() or f"{CLANG_FORMAT} failed"]
    for path in files:
        problems += wide_comments(path.as_posix(), context.text(path))
    return problems, len(files)


def copy_style(context):
    shutil.copy(REPOSITORY / ".clang-format", context.source)


SAMPLES = [
    Sample("well laid out", {"quant/a.cpp": "int f(int* p) { return *p; }\n"}, None),
    Sample("a brace too low", {"quant/a.cpp": "int f(int* p)\n{ return *p; }\n"}, "quant/a.cpp:1"),
    Sample("a star on the right", {"quant/a.h": "int f(int *p);\n"}, "quant/a.h:1"),
    Sample("a line too long", {"quant/a.cpp": "int f() { return " + " + ".join(["1"] * 40) + "; }\n"}, "quant/a.cpp:1"),
    Sample("a table in a comment", {"quant/a.h": "// a  [n]\n// b  [n][m], " + "x" * 80 + "\nint f();\n"}, None),
    Sample("a wide comment", {"quant/a.h": "// " + "word " * 20 + "\nint f();\n"}, "quant/a.h:1: a comment reaches"),
    Sample("a wide comment beside code", {"quant/a.h": "int f();  // " + "x" * 90 + "\n"}, "quant/a.h:1: a comment reaches"),
    Sample("a wide C comment", {"quant/a.h": "/* a\n * " + "x" * 100 + " */\nint f();\n"}, "quant/a.h:2: a comment reaches"),
]

if __name__ == "__main__":
    main(check, SAMPLES, copy_style)
