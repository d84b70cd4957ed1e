#!/usr/bin/env python3
"""Who may include whom, by reading the #include lines (docs/architecture.md has the table)."""
import re

from house_common import Sample, main

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"\n]+)[>"]', re.MULTILINE)

# Headers that need no operating system and no heap. <cmath> is here for sqrt and the like, which are exact.
FREESTANDING = {
    "algorithm", "array", "atomic", "bit", "cfloat", "climits", "cmath", "compare", "concepts", "cstddef", "cstdint",
    "cstring", "initializer_list", "iterator", "limits", "numbers", "numeric", "optional", "ranges", "span",
    "string_view", "tuple", "type_traits", "utility", "version",
    "float.h", "limits.h", "stdalign.h", "stdbool.h", "stddef.h", "stdint.h", "string.h",
}
INTRINSICS = {"immintrin.h", "arm_neon.h", "arm_acle.h", "arm_mve.h"}
ZSTD = {"zstd.h", "zstd_errors.h"}
XNNPACK = {"xnnpack.h"}
THREADS = {"pthreadpool.h"}
CPU = {"cpuinfo.h"}
JSON = {"nlohmann"}
COMMAND_LINE = {"CLI"}
NETWORK = {"boost"}
TESTING = {"gtest", "gmock", "benchmark"}
API = {"cria.h", "cria_call_grammar.h", "cria_calls.h", "cria_chat.h", "cria_json.h"}
THIRD_PARTY = ZSTD | XNNPACK | THREADS | CPU | JSON | COMMAND_LINE | NETWORK | TESTING | API

# Each folder of platforms/hosted: those it may include besides itself, all named before it, so that there is no circle;
# and the third-party headers.
HOSTED = {
    "base": ((), COMMAND_LINE),
    "machine": (("base",), API | CPU),
    "session": (("base", "machine"), API),
    "chat": (("base", "session"), API | JSON),
    "eval": (("base", "session"), API),
    "bench": (("base", "session"), API),
    "prefixes": (("base", "session"), API),
    "engine": (("base", "session", "eval", "prefixes"), API),
    "serve": (("base", "session", "chat", "prefixes", "engine"), API | JSON | NETWORK),
    "library": (("base", "session", "chat"), API | JSON),
    "cli": (("base", "machine", "session", "chat", "eval", "bench", "prefixes", "engine", "serve"), API | JSON | COMMAND_LINE),
}

# The same of quant.
QUANT = {
    "format": (),
    "numbers": ("format",),
    "text": ("format",),
    "blocks": ("format", "numbers"),
    "model": ("format", "numbers", "blocks"),
}

# The same of runtime; quant and the public headers are below all of them.
RUNTIME = {
    "base": ((), set()),
    "kernels": (("base",), INTRINSICS),
    "text": (("base",), set()),
    "loading": (("base", "text"), ZSTD),
    "weights": (("base", "loading"), set()),
    "backends": (("base", "kernels", "loading", "weights"), XNNPACK | THREADS),
    "blocks": (("base", "kernels", "weights", "backends"), set()),
    "decode": (("base", "kernels", "text", "loading", "weights", "backends", "blocks"), set()),
    "chat": (("base", "decode"), set()),
    "json": (("base", "decode"), set()),
    "calls": (("base", "json"), set()),
}

# The longest matching folder counts. "own" are prefixes of quoted includes; "system" is the full list of allowed
# <...> headers, or None for all of the system; "third" are the third-party headers or folders allowed as well.
RULES = {
    "quant/": {"own": (), "system": FREESTANDING, "third": set()},
    **{
        f"quant/{folder}/": {"own": tuple(f"quant/{other}/" for other in (folder, *below)), "system": FREESTANDING, "third": set()}
        for folder, below in QUANT.items()
    },
    "converter/": {"own": ("quant/", "converter/", "platforms/hosted/base/"), "system": None, "third": ZSTD | JSON | COMMAND_LINE},
    # The decoder, whose matrices it multiplies itself.
    "converter/calibration/": {
        "own": ("quant/", "converter/", "platforms/hosted/base/", "platforms/hosted/machine/",
                *(f"runtime/{folder}/" for folder in ("base", "kernels", "weights", "backends", "blocks", "decode"))),
        "system": None,
        "third": set(),
    },
    "runtime/": {"own": (), "system": FREESTANDING, "third": API},
    **{
        f"runtime/{folder}/": {
            "own": ("quant/", *(f"runtime/{other}/" for other in (folder, *below))),
            "system": FREESTANDING | (third & INTRINSICS),
            "third": (third - INTRINSICS) | API,
        }
        for folder, (below, third) in RUNTIME.items()
    },
    "examples/": {"own": (), "system": None, "third": API},
    "platforms/": {"own": (), "system": None, "third": API},
    "platforms/cortex_m/": {"own": ("platforms/cortex_m/",), "system": None, "third": API},
    "platforms/hosted/": {"own": (), "system": None, "third": set()},
    **{
        f"platforms/hosted/{folder}/": {
            "own": tuple(f"platforms/hosted/{other}/" for other in (folder, *below)),
            "system": None,
            "third": third,
        }
        for folder, (below, third) in HOSTED.items()
    },
}


def circles(folders):
    """Folders that may include one not named before them."""
    names = list(folders)
    return [folder for i, folder in enumerate(names) if not set(folders[folder][0]) <= set(names[:i])]


def third_party_key(header):
    """The entry of THIRD_PARTY that a header belongs to, or None."""
    top = header.split("/")[0]
    return top if top in THIRD_PARTY else None


def problem_with(rule, quote, header):
    key = third_party_key(header)
    if key:
        return None if key in rule["third"] else "header of another layer or library, not allowed here"
    if quote == '"':
        return None if header.startswith(rule["own"]) else "not allowed from this folder"
    if rule["system"] is not None and header not in rule["system"]:
        return "header needs a heap or an operating system"
    return None


def check(context):
    problems = [f"tests/house/layering.py: {folder} may include a folder that is not below it"
                for folder in circles(RUNTIME) + circles(HOSTED)]
    compared = 0
    for path in context.files(".h", ".c", ".cpp", ".inc"):
        name = path.as_posix()
        folder = max((f for f in RULES if name.startswith(f)), key=len, default=None)
        if not folder:
            continue
        text = context.text(path)
        for match in INCLUDE.finditer(text):
            quote, header = match.groups()
            compared += 1
            problem = problem_with(RULES[folder], quote, header)
            if not problem and quote == '"' and not third_party_key(header) and not (context.source / header).is_file():
                problem = "no such file; includes are written by full path from the root"
            if problem:
                line = text.count("\n", 0, match.start()) + 1
                problems.append(f"{name}:{line}: {header}: {problem}")
    return problems, compared


def rejects(name, path, include, reason):
    files = {path: f"#pragma once\n  #  include {include}\n", "quant/a.h": "", "runtime/base/b.h": "", "converter/c.h": "",
             "platforms/hosted/base/p.h": "", **{f"platforms/hosted/{f}/{f}.h": "" for f in HOSTED},
             **{f"quant/{f}/{f}.h": "" for f in QUANT}, **{f"runtime/{f}/{f}.h": "" for f in RUNTIME}}
    return Sample(name, files, reason)


SAMPLES = [
    rejects("quant includes runtime", "quant/model/x.h", '"runtime/base/b.h"', "not allowed from this folder"),
    rejects("quant includes zstd", "quant/x.cpp", "<zstd.h>", "another layer or library"),
    rejects("converter includes runtime", "converter/x.cpp", '"runtime/base/b.h"', "not allowed from this folder"),
    rejects("converter includes the library", "converter/x.cpp", "<vector>", None),
    rejects("converter includes JSON", "converter/x.cpp", "<nlohmann/json.hpp>", None),
    rejects("runtime includes converter", "runtime/decode/x.cpp", '"converter/c.h"', "not allowed from this folder"),
    rejects("loading includes zstd", "runtime/loading/x.cpp", "<zstd.h>", None),
    rejects("weights include zstd", "runtime/weights/x.cpp", "<zstd.h>", "another layer or library"),
    rejects("a file in no folder of runtime", "runtime/x.cpp", '"runtime/base/b.h"', "not allowed"),
    rejects("the decoder includes XNNPACK", "runtime/decode/x.cpp", "<xnnpack.h>", "another layer or library"),
    rejects("a backend includes XNNPACK", "runtime/backends/x.cpp", "<xnnpack.h>", None),
    rejects("a kernel includes intrinsics", "runtime/kernels/x_avx2.cpp", "<immintrin.h>", None),
    rejects("the decoder includes intrinsics", "runtime/decode/x.cpp", "<immintrin.h>", "needs a heap"),
    rejects("a kernel includes pthreadpool", "runtime/kernels/x.cpp", "<pthreadpool.h>", "another layer or library"),
    rejects("hosted looks inside the runtime", "platforms/hosted/cli/x.cpp", '"runtime/base/b.h"', "not allowed"),
    rejects("hosted includes XNNPACK", "platforms/hosted/session/x.cpp", "<xnnpack.h>", "another layer or library"),
    rejects("a file in no folder of hosted", "platforms/hosted/x.cpp", '"platforms/hosted/base/p.h"', "not allowed"),
    rejects("cli includes the API", "platforms/hosted/cli/x.cpp", "<cria.h>", None),
    rejects("base includes the API", "platforms/hosted/base/x.cpp", "<cria.h>", "another layer or library"),
    rejects("base includes quant", "platforms/hosted/base/x.cpp", '"quant/a.h"', "not allowed"),
    rejects("base includes the converter", "platforms/hosted/base/x.cpp", '"converter/c.h"', "not allowed"),
    rejects("base includes JSON", "platforms/hosted/base/x.cpp", "<nlohmann/json.hpp>", "another layer or library"),
    rejects("converter includes base", "converter/x.cpp", '"platforms/hosted/base/p.h"', None),
    rejects("converter includes session", "converter/x.cpp", '"platforms/hosted/session/session.h"', "not allowed"),
    rejects("runtime includes base", "runtime/decode/x.cpp", '"platforms/hosted/base/p.h"', "not allowed"),
    rejects("another platform includes hosted", "platforms/cortex_m/x.cpp", '"platforms/hosted/base/p.h"', "not allowed"),
    rejects("an example includes the API", "examples/x/x.c", "<cria.h>", None),
    rejects("quant includes the API", "quant/x.cpp", "<cria.h>", "not allowed"),
    rejects("converter includes the API", "converter/x.cpp", "<cria.h>", "not allowed"),
    rejects("a kernel includes the API", "runtime/kernels/x.cpp", "<cria.h>", None),
    rejects("an example looks inside the runtime", "examples/x/x.c", '"runtime/base/b.h"', "not allowed"),
    rejects("a short path", "quant/x.cpp", '"a.h"', "not allowed from this folder"),
    rejects("a missing file", "quant/format/x.cpp", '"quant/format/missing.h"', "no such file"),
] + [
    rejects(f"{root}/{folder} includes {other}", f"{root}/{folder}/x.cpp", f'"{root}/{other}/{other}.h"',
            None if other in (folder, *folders[folder][0]) else "not allowed from this folder")
    for root, folders in (("platforms/hosted", HOSTED), ("quant", {f: (below, ()) for f, below in QUANT.items()}), ("runtime", RUNTIME)) for folder in folders for other in folders
] + [
    rejects(f"{folder} includes <{header}>", f"{folder}/x.cpp", f"<{header}>", "needs a heap")
    for folder in ("quant", *(f"quant/{folder}" for folder in QUANT), "runtime", *(f"runtime/{folder}" for folder in RUNTIME))
    for header in ("vector", "string", "map", "iostream", "cstdio", "cstdlib", "new", "memory", "functional", "thread",
                   "mutex", "stdio.h", "stdlib.h", "unistd.h", "sys/mman.h", "pthread.h")
]

if __name__ == "__main__":
    main(check, SAMPLES)
