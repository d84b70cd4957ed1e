#!/usr/bin/env python3
"""Every header compiles alone, with the flags of its own folder; those of runtime/include as C99 too.

What a source that is built includes before anything else has been compiled alone by that build, and so has what that
header includes before anything else, and so on, as long as all are of one folder: only the others are compiled here. So
it is of the tree as it was built last.
"""
import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import subprocess

from house_common import Sample, main

FOLDERS = ("quant", "converter", "runtime", "platforms", "tests")
PUBLIC_C_HEADERS = "runtime/include/"
C_FLAGS = ["-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only"]


def folder_of(path):
    """The folder whose flags count: two parts below platforms, of which only some are in a build."""
    parts = path.parts[:-1]
    return "/".join(parts[:2]) if parts and parts[0] == "platforms" else (parts[0] if parts else "")


def flags_by_folder(context):
    """The longest C++ command of each folder, without its input and output."""
    database = context.build / "compile_commands.json"
    flags = {}
    if not database.is_file():
        return flags
    for entry in json.loads(database.read_text()):
        name = os.path.relpath(entry["file"], context.source)
        if name.startswith("..") or not name.endswith(".cpp"):
            continue
        words = shlex.split(entry["command"])[1:]
        kept = []
        skip = False
        for word in words:
            if skip:
                skip = False
            elif word in ("-o", "-c", "-MF", "-MT", "-MQ"):
                skip = True
            elif word not in ("-MD", "-MMD") and not word.startswith("-Wframe-larger-than"):
                kept.append(word)
        folder = folder_of(pathlib.Path(name))
        if len(kept) > len(flags.get(folder, [])):
            flags[folder] = kept
    return flags


FIRST_INCLUDE = re.compile(r'(?:\s|//[^\n]*\n|/\*(?:[^*]|\*(?!/))*\*/|#pragma once\n)*#include "([^"]+)"')


def first_header(context, path):
    """What a file includes before it says anything else, of the repository."""
    found = FIRST_INCLUDE.match((context.source / path).read_text())
    if not found:
        return None
    for header in (found[1], PUBLIC_C_HEADERS + found[1]):
        if (context.source / header).is_file():
            return header
    return None


def compiled_alone_by_the_build(context):
    database = context.build / "compile_commands.json"
    headers = set()
    for entry in json.loads(database.read_text()) if database.is_file() else ():
        name = os.path.relpath(entry["file"], context.source)
        if name.startswith("..") or not name.endswith(".cpp") or not os.path.exists(entry["file"]):
            continue
        if "-include" in shlex.split(entry["command"]):  # of a precompiled header, which comes before
            continue
        folder = folder_of(pathlib.Path(name))
        header = first_header(context, name)
        while header is not None and header not in headers and folder_of(pathlib.Path(header)) == folder:
            headers.add(header)
            header = first_header(context, header)
    return headers


def compile_alone(command, header, cwd):
    ran = subprocess.run(command, input=f'#include "{header}"\n', text=True, capture_output=True, cwd=cwd, check=False)
    if ran.returncode == 0:
        return None
    lines = [line for line in ran.stderr.splitlines() if "error" in line] or ran.stderr.splitlines()
    return f"{header}: does not compile alone: {lines[0] if lines else ran.returncode}"


def check(context):
    flags = flags_by_folder(context)
    built = compiled_alone_by_the_build(context)
    jobs = []
    problems = []
    n_built = 0
    for path in context.files(".h"):
        name = path.as_posix()
        if path.parts[0] not in FOLDERS:
            continue
        folder = folder_of(path)
        if folder not in flags:
            # A platform that this build leaves out is compiled by its own preset; the rest must be here.
            if not folder.startswith("platforms/") or folder == "platforms/hosted":
                if not any((context.source / folder).glob("**/*.cpp")):
                    flags[folder] = ["-std=c++20", "-Wall", "-Wextra", "-Werror", f"-I{context.source}"]
                else:
                    problems.append(f"{name}: no compile command for {folder}")
                    continue
            else:
                continue
        if name in built:
            n_built += 1
        else:
            jobs.append(([context.compiler, *flags[folder], "-fsyntax-only", "-x", "c++", "-"], name))
        if name.startswith(PUBLIC_C_HEADERS):
            jobs.append(([context.c_compiler, *C_FLAGS, f"-I{context.source}", f"-I{context.source / PUBLIC_C_HEADERS}", "-x", "c", "-"], name))
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        results = pool.map(lambda job: compile_alone(*job, context.source), jobs)
        problems += [problem for problem in results if problem]
    return problems, len(jobs) + n_built


def write_commands(context):
    entries = []
    for path in context.files(".cpp"):
        precompiled = "-include x.h" if path.name.startswith("precompiled") else ""
        command = f"c++ {precompiled} -std=c++20 -Wall -Werror -I{context.source} -o x.o -c {context.source / path}"
        entries.append({"directory": str(context.build), "command": command, "file": str(context.source / path)})
    (context.build / "compile_commands.json").write_text(json.dumps(entries))


GOOD = "#pragma once\n#include <cstdint>\ninline uint8_t f() { return 1; }\n"
BAD = "#pragma once\nuint8_t f();\n"
SAMPLES = [
    Sample("a complete header", {"quant/a.h": GOOD, "quant/a.cpp": ""}, None),
    Sample("a missing include", {"quant/a.h": BAD, "quant/a.cpp": ""}, "quant/a.h"),
    Sample("its source includes something else first, between comments",
           {"quant/a.h": BAD, "quant/a.cpp": '/* A. */\n#include <cstdint>\n/* B. */\n#include "quant/a.h"\n'}, "quant/a.h"),
    Sample("its source includes something else first",
           {"quant/a.h": BAD, "quant/a.cpp": '#include <cstdint>\n#include "quant/a.h"\n'}, "quant/a.h"),
    Sample("its source says something else first",
           {"quant/a.h": BAD, "quant/a.cpp": '#define A\n#include "quant/a.h"\n'}, "quant/a.h"),
    Sample("a precompiled header comes first", {"quant/a.h": BAD, "quant/precompiled.cpp": '#include "quant/a.h"\n'}, "quant/a.h"),
    Sample("a source of another folder, with other flags, includes it first",
           {"quant/b.h": BAD, "quant/b.cpp": "", "runtime/a.h": '#include "quant/b.h"\n',
            "runtime/a.cpp": '#include "runtime/a.h"\n', "runtime/b.cpp": '#include "quant/b.h"\n'}, "quant/b.h"),
    Sample("what its source includes second",
           {"quant/a.h": GOOD, "quant/b.h": BAD, "quant/a.cpp": '#include "quant/a.h"\n#include "quant/b.h"\n'}, "quant/b.h"),
    Sample("what the build compiled alone is not compiled again",
           {"quant/a.h": '// A.\n#pragma once\n\n#include "quant/b.h"\n', "quant/b.h": BAD,
            "quant/a.cpp": '/* B. */\n#include "quant/a.h"\n'}, None),
    Sample("a warning", {"quant/a.h": "#pragma once\ninline int f() { int unused = 1; return 2; }\n", "quant/a.cpp": ""},
           "unused"),
    Sample("another folder's header is missing", {"runtime/a.h": '#include "quant/b.h"\n', "runtime/a.cpp": ""}, "quant/b.h"),
    Sample("a C header", {"runtime/include/cria.h": "#include <stdint.h>\nint32_t f(void);\n", "runtime/a.cpp": ""}, None),
    Sample("C++ in the C header", {"runtime/include/cria.h": "namespace cria {}\n", "runtime/a.cpp": ""}, "runtime/include/cria.h"),
]

if __name__ == "__main__":
    main(check, SAMPLES, write_commands)
