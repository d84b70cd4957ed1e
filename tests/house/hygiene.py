#!/usr/bin/env python3
"""Text files are plain: no trailing blanks, final newline, no invisible characters, not large, names unique. Pictures of
the documents are small PNG or SVG files."""
import collections
import unicodedata

from house_common import Sample, main

# Data that is copied byte for byte.
TEST_DATA = "tests/data/"
DATA_FOLDERS = ("models/", TEST_DATA)
MOST_BYTES = 200_000
PICTURES = "docs/images/"
MOST_PICTURE_BYTES = 150_000
PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
SOURCE_SUFFIXES = (".h", ".c", ".cpp", ".inc", ".py", ".sh")
REPEATED_NAMES = {"main.cpp"}  # one a program, found by its folder
# Format characters (zero width, direction marks), odd spaces and control characters.
INVISIBLE_CATEGORIES = {"Cf", "Cc", "Co", "Cn", "Zl", "Zp"}
PLAIN = {"\n", "\t"}


def is_invisible(character):
    if character in PLAIN or character == " ":
        return False
    category = unicodedata.category(character)
    return category in INVISIBLE_CATEGORIES or category == "Zs"


def problems_of(name, data):
    if len(data) > MOST_BYTES:
        yield f"{name}: {len(data)} bytes, more than {MOST_BYTES}"
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        yield f"{name}: not UTF-8 text"
        return
    if text and not text.endswith("\n"):
        yield f"{name}: no final newline"
    if text.endswith("\n\n"):
        yield f"{name}: blank lines at the end"
    for number, line in enumerate(text.split("\n"), 1):
        if line != line.rstrip():
            yield f"{name}:{number}: trailing blanks"
        found = [character for character in line if is_invisible(character)]
        if found:
            yield f"{name}:{number}: invisible character U+{ord(found[0]):04X}"


def problems_of_picture(name, data):
    if len(data) > MOST_PICTURE_BYTES:
        yield f"{name}: {len(data)} bytes, more than {MOST_PICTURE_BYTES}"
    if name.endswith(".svg"):
        yield from problems_of(name, data)
    elif not data.startswith(PNG_SIGNATURE):
        yield f"{name}: not a PNG file"


def check(context):
    problems = []
    compared = 0
    places = collections.defaultdict(list)
    for path in context.files():
        name = path.as_posix()
        if name.startswith(DATA_FOLDERS):
            if name.startswith(TEST_DATA) and path.suffix in SOURCE_SUFFIXES:
                problems.append(f"{name}: code among the tests' data")
            continue
        compared += 1
        judge = problems_of_picture if name.startswith(PICTURES) else problems_of
        problems += judge(name, (context.source / path).read_bytes())
        if path.suffix in SOURCE_SUFFIXES and path.name not in REPEATED_NAMES:
            places[path.name].append(name)
    for names in places.values():
        if len(names) > 1:
            problems.append(f"{' and '.join(names)}: the same file name")
    return problems, compared


SAMPLES = [
    Sample("plain", {"a.md": "A line.\n", "quant/a.h": "x\n", "runtime/a.cpp": "\ty\n", "models/b.txt": "z  "}, None),
    Sample("trailing blanks", {"a.md": "A line. \n"}, "a.md:1: trailing blanks"),
    Sample("no final newline", {"a.md": "A line."}, "no final newline"),
    Sample("blank end", {"a.md": "A line.\n\n"}, "blank lines at the end"),
    Sample("a carriage return", {"a.md": "A line.\r\n"}, "trailing blanks"),
    Sample("a zero-width space", {"a.md": "A\u200bline.\n"}, "invisible character U+200B"),
    Sample("a no-break space", {"a.md": "A\u00a0line.\n"}, "invisible character U+00A0"),
    Sample("a direction mark", {"a.md": "A\u202eline.\n"}, "invisible character U+202E"),
    Sample("a byte-order mark", {"a.md": "\ufeffA\n"}, "invisible character U+FEFF"),
    Sample("an escape", {"a.md": "\x1b[1m\n"}, "invisible character U+001B"),
    Sample("binary", {"a.bin": b"\xff\xfe\n"}, "not UTF-8"),
    Sample("large", {"a.txt": "x" * MOST_BYTES + "\n"}, "more than"),
    Sample("a picture", {"docs/images/a.png": PNG_SIGNATURE + b"\xff"}, None),
    Sample("a large picture", {"docs/images/a.png": PNG_SIGNATURE + b"x" * MOST_PICTURE_BYTES}, "more than"),
    Sample("a drawn picture", {"docs/images/a.svg": "<svg/>\n"}, None),
    Sample("a drawn picture with trailing blanks", {"docs/images/a.svg": "<svg/> \n"}, "docs/images/a.svg:1: trailing blanks"),
    Sample("another kind of picture", {"docs/images/a.png": "GIF89a\n"}, "not a PNG file"),
    Sample("two of a name", {"quant/a.h": "x\n", "runtime/a.h": "x\n"}, "the same file name"),
    Sample("two programs", {"converter/main.cpp": "x\n", "platforms/hosted/cli/main.cpp": "x\n"}, None),
    Sample("data", {"tests/data/a.txt": "z  ", "a.md": "x\n"}, None),
    Sample("code among data", {"tests/data/a.py": "x\n", "a.md": "x\n"}, "code among the tests' data"),
]

if __name__ == "__main__":
    main(check, SAMPLES)
