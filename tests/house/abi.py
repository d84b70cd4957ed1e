#!/usr/bin/env python3
"""The names that programs link with: runtime/include/cria_symbols.txt lists them, one a line, sorted. Each is declared in
a public header and defined in libcria.a, and neither has another; nor has the library a C name without the prefix."""
import re
import subprocess

from house_common import Sample, build_archive, main

LIST = "runtime/include/cria_symbols.txt"
HEADERS = ("runtime/include/cria.h", "runtime/include/cria_chat.h", "runtime/include/cria_json.h",
           "runtime/include/cria_calls.h", "runtime/include/cria_call_grammar.h")
COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
DECLARATION = re.compile(r"\b(cria_\w+)\(")
RESERVED = "_"  # of C++ (_Z) and of compilers that count or check something


def declared(context):
    return {name for header in HEADERS for name in DECLARATION.findall(COMMENT.sub("", context.text(header)))}


def defined(context):
    """C names that libcria.a defines for others."""
    listed = subprocess.run([context.nm, "--defined-only", "--extern-only", "--format=posix",
                             str(context.build / "lib" / "libcria.a")], capture_output=True, text=True, check=True).stdout
    names = (line.split()[0] for line in listed.splitlines() if len(line.split()) >= 2)
    return {name for name in names if not name.startswith(RESERVED)}


def check(context):
    if not (context.source / LIST).is_file():
        return [], 0
    lines = context.text(LIST).splitlines()
    listed = set(lines)
    problems = []
    if lines != sorted(listed):
        problems.append(f"{LIST}: not sorted, or a name stands twice")
    for names, where in ((declared(context), "declared in a public header"), (defined(context), "defined in libcria.a")):
        problems += [f"{LIST}: {name} is not {where}" for name in sorted(listed - names)]
        problems += [f"{name} is {where} but not in {LIST}" for name in sorted(names - listed)]
    return problems, len(listed)


def sample(name, reason, **changes):
    files = {
        "listed": "cria_chat_stop\ncria_version\n",
        "api": "/* cria_open(memory) */\ntypedef int (*cria_hook)(void);\nconst char* cria_version(void);\n",
        "chat": "void cria_chat_stop(\n    int why);\n",
        "json": "\n",
        "calls": "\n",
        "grammar": "\n",
        "code": "const char* cria_version(void) { return 0; }\nstatic int own(void) { return 1; }\n"
                "void cria_chat_stop(int why) { (void)why; (void)own(); }\n",
    } | changes
    return Sample(name, dict(zip((LIST, *HEADERS, "runtime/a.c"), files.values())), reason)


NEW = "int cria_new(void);\n"
SAMPLES = [
    sample("all three agree", None),
    sample("a name that nobody declares", f"{LIST}: cria_more is not declared",
           listed="cria_chat_stop\ncria_more\ncria_version\n"),
    sample("a name that nobody defines", f"{LIST}: cria_new is not defined",
           listed="cria_chat_stop\ncria_new\ncria_version\n", chat=NEW + "void cria_chat_stop(int why);\n"),
    sample("a new declaration", f"cria_new is declared in a public header but not in {LIST}",
           chat=NEW + "void cria_chat_stop(int why);\n"),
    sample("a declaration is gone", f"{LIST}: cria_chat_stop is not declared", chat="\n"),
    sample("a new definition", f"cria_new is defined in libcria.a but not in {LIST}",
           code="int cria_new, cria_version; void cria_chat_stop(void) {}\n"),
    sample("a definition is gone", f"{LIST}: cria_chat_stop is not defined", code="int cria_version;\n"),
    sample("a name without the prefix", f"helper is defined in libcria.a but not in {LIST}",
           code="int cria_version; void cria_chat_stop(void) {} void helper(void) {}\n"),
    sample("an order of its own", "not sorted", listed="cria_version\ncria_chat_stop\n"),
    sample("a name twice", "not sorted", listed="cria_chat_stop\ncria_chat_stop\ncria_version\n"),
]

if __name__ == "__main__":
    main(check, SAMPLES, build_archive)
