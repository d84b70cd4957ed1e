#!/usr/bin/env python3
"""What libcria.a asks of the world outside, by nm: memory copies, exact math, zstd's decoder, and nothing else.

The list is of what is allowed, so a heap, a lock, output, an exit, an exception or a static constructor fails
whatever its name. Objects of runtime/backends may call XNNPACK too, and hold variables: XNNPACK's allocator is one
for the process, so its adapter has to be told there which arena is meant.

Kernels of one instruction set may define no weak code (an inline function, a template): the linker keeps one copy for
the whole program, perhaps the one that an older processor cannot run. Constants are the same in every copy.
"""
import dataclasses
import re
import subprocess

from house_common import REPOSITORY, Sample, build_archive, isas_of, main

# Correctly rounded by IEEE 754 or exact, so the same everywhere; exp, sin and the like are not.
EXACT_MATH = {name + suffix for name in ("sqrt", "floor", "ceil", "trunc", "rint", "nearbyint", "lrint", "llrint", "fabs")
              for suffix in ("", "f")}
MEMORY = {"memcpy", "memmove", "memset", "memcmp", "memchr", "strlen", "bcmp"}
COMPILER = {"_GLOBAL_OFFSET_TABLE_", "__stack_chk_fail"}
ALLOWED = EXACT_MATH | MEMORY | COMPILER
# The decoder on a caller's memory. ZSTD_decompress itself is not here: it takes its context from the heap.
ZSTD = re.compile(r"ZSTD_(decompress(DCtx|Stream|Begin|Continue|Block)\w*|initStaticD\w+|estimateD\w+|DCtx_\w+"
                  r"|(get|find)Frame\w*|frameHeaderSize\w*|decodingBufferSize\w*|resetDStream|isError|getErrorCode)")
XNNPACK = re.compile(r"(xnn|pthreadpool)_\w+")
COMPILER_HELPERS = re.compile(r"__aeabi_\w+|__aarch64_(ldadd|swp|cas)\d+_\w+"  # atomics of cores with and without LSE
                              r"|__(u?div|u?mod|mul|ashl|lshr|ashr|fix|float|clz|ctz|ffs|popcount)\w*[sdt]i\w*")

# Sections of variables that can change. Constant tables of pointers are .data.rel.ro.
MUTABLE_SECTION = re.compile(r"\.(bss|tbss|tdata|data(?!\.rel\.ro))\b|\*COM\*")
NO_CODE = re.compile(r"\*UND\*|\.rodata\b|\.data\.rel\.ro\b")
STATIC_CONSTRUCTOR = "_GLOBAL__sub_I_"

# Objects that are compiled with flags of one instruction set (cmake/KernelFlags.cmake), in samples as in the repository.
ISA_ENDINGS = tuple(f"_{isa.ending}" for isa in isas_of(REPOSITORY) if isa.name != "scalar")


@dataclasses.dataclass(frozen=True)
class Symbol:
    member: str
    kind: str
    name: str
    section: str


def symbols_of(context, archive):
    listed = subprocess.run([context.nm, "--format=sysv", str(archive)], capture_output=True, text=True, check=True)
    member = archive.name
    found = []
    for line in listed.stdout.splitlines():
        heading = re.match(r"Symbols from .*\[(.+)\]:$", line)
        fields = [field.strip() for field in line.split("|")]
        if heading:
            member = heading.group(1)
        elif len(fields) == 7 and fields[0] != "Name":
            found.append(Symbol(member, fields[2], fields[0], fields[6]))
    return found


def is_allowed(name, in_backend):
    name = name.split("@")[0]
    if name in ALLOWED or ZSTD.fullmatch(name) or COMPILER_HELPERS.fullmatch(name):
        return True
    return in_backend and bool(XNNPACK.fullmatch(name))


def is_of_isa(member):
    return member.split(".")[0].endswith(ISA_ENDINGS)


def check(context):
    archive = context.build / "lib" / "libcria.a"
    if not archive.is_file():
        return [], 0
    backends = {path.name for path in (context.source / "runtime" / "backends").rglob("*.cpp")}
    symbols = symbols_of(context, archive)
    defined = {symbol.name for symbol in symbols if symbol.kind not in "Uwv"}
    problems = []
    for symbol in symbols:
        where = f"{archive.name}({symbol.member})"
        in_backend = symbol.member.removesuffix(".o") in backends
        if symbol.kind in "WVu" and not NO_CODE.match(symbol.section) and is_of_isa(symbol.member):
            problems.append(f"{where}: weak {symbol.name}")
        if symbol.kind in "Uwv":
            if symbol.name not in defined and not is_allowed(symbol.name, in_backend):
                problems.append(f"{where}: undefined {symbol.name}")
        elif MUTABLE_SECTION.match(symbol.section) and not in_backend:
            problems.append(f"{where}: mutable global {symbol.name}")
        elif symbol.name.startswith(STATIC_CONSTRUCTOR):
            problems.append(f"{where}: static constructor {symbol.name}")
    return problems, len(symbols)


def calls(declaration, call, reason, path="runtime/a.cpp"):
    return Sample(call, {path: f"{declaration}\nvoid user() {{ {call}; }}\n"}, reason)


SAMPLES = [
    calls("#include <cstring>\nchar to[8], from[8];", "std::memcpy(to, from, 8)", "mutable global to"),
    calls("#include <cstring>\nextern char to[8];", "std::memset(to, 0, 8)", "undefined to"),
    calls('extern "C" void* memset(void*, int, unsigned long);', "memset(nullptr, 0, 0)", None),
    calls('extern "C" float sqrtf(float); extern "C" void* memset(void*, int, unsigned long);',
          "memset(nullptr, static_cast<int>(sqrtf(2)), 0)", None),
    calls('extern "C" float expf(float);', "(void)expf(2)", "undefined expf"),
    calls("#include <cstdlib>", "std::free(std::malloc(1))", "undefined malloc"),
    calls("#include <new>", "::operator delete(::operator new(4))", "undefined _Zn"),
    calls("#include <cstdio>", 'std::printf("x")', "undefined printf"),
    calls("#include <cstdlib>", "std::abort()", "undefined abort"),
    calls("", "throw 1", "undefined __cxa_throw"),
    calls("#include <pthread.h>", "pthread_exit(nullptr)", "undefined pthread_exit"),
    calls("#include <sys/mman.h>", "mmap(nullptr, 1, 0, 0, 0, 0)", "undefined mmap"),
    calls("#include <fcntl.h>", 'open("x", 0)', "undefined open"),
    calls('extern "C" int ZSTD_decompressDCtx(void);', "ZSTD_decompressDCtx()", None),
    calls('extern "C" int ZSTD_decompress(void);', "ZSTD_decompress()", "undefined ZSTD_decompress"),
    calls('extern "C" int ZSTD_createDCtx(void);', "ZSTD_createDCtx()", "undefined ZSTD_createDCtx"),
    calls('extern "C" int xnn_setup(void);', "xnn_setup()", "undefined xnn_setup"),
    calls('extern "C" int xnn_setup(void);', "xnn_setup()", None, "runtime/backends/b.cpp"),
    Sample("a table of pointers", {"runtime/a.cpp": 'extern const char* const kNames[]; const char* const kNames[] = {"a", "b"};\n'
                                   'extern "C" void memset(); void user() { memset(); }\n'}, None),
    Sample("a mutable global", {"runtime/a.cpp": 'int counter = 3; extern "C" void memset(); void user() { memset(); }\n'},
           "mutable global counter"),
    Sample("a backend's variable", {"runtime/backends/b.cpp": "int counter = 3;\n"}, None),
    Sample("a static local", {"runtime/a.cpp": "int next() { static int counter; return ++counter; }\n"},
           "mutable global _ZZ4nextvE7counter"),
    Sample("an inline function of an instruction set",
           {"runtime/kernels/b_avx2.cpp": 'extern "C" void memset();\n'
            "inline void __attribute__((noinline)) shared() { memset(); }\nvoid user() { shared(); }\n"}, "weak _Z6sharedv"),
    Sample("a template of an instruction set",
           {"runtime/kernels/b_sse4_1.cpp": 'extern "C" void memset(int);\n'
            "template <int n> void __attribute__((noinline)) shared() { memset(n); }\nvoid user() { shared<3>(); }\n"},
           "weak _Z6sharedILi3EEvv"),
    Sample("an inline table of an instruction set",
           {"runtime/kernels/b_avx2.cpp": 'extern "C" void memset(const int*);\n'
            "inline constexpr int kTable[] = {1, 2};\nvoid user() { memset(kTable); }\n"}, None),
    Sample("an inline table of pointers of an instruction set",
           {"runtime/kernels/b_avx2.cpp": 'extern "C" void memset(const char* const*);\n'
            'inline constexpr const char* kTable[] = {"a", "b"};\nvoid user() { memset(kTable); }\n'}, None),
    Sample("an internal function of an instruction set",
           {"runtime/kernels/b_neon.cpp": 'extern "C" void memset();\n'
            "static void __attribute__((noinline)) own() { memset(); }\nvoid user() { own(); }\n"}, None),
    Sample("a weak function of portable code",
           {"runtime/kernels/b.cpp": 'extern "C" void memset();\n'
            "inline void __attribute__((noinline)) shared() { memset(); }\nvoid user() { shared(); }\n"}, None),
    Sample("a static constructor", {"runtime/a.cpp": "struct S { S(); }; namespace { const S s; }\n"}, "static constructor"),
]

if __name__ == "__main__":
    main(check, SAMPLES, build_archive)
