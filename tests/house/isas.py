#!/usr/bin/env python3
"""What an ISA has besides its line in the list of runtime/kernels/isas.h: its bit in cria.h, its flags in
cmake/KernelFlags.cmake, and a kernel file that defines its override function.

A bit, a row of flags or an override function that the list does not have is a problem too."""
import re

from house_common import ISA_LIST, Sample, isas_of, main

API = "runtime/include/cria.h"
FLAGS = "cmake/KernelFlags.cmake"
KERNELS = "runtime/kernels/"

API_BIT = re.compile(r"^  (CRIA_ISA_\w+) = 1 << \d+", re.MULTILINE)
FLAGS_ROW = re.compile(r'^  "(\w+)\|', re.MULTILINE)
OVERRIDE = re.compile(r"^void override_(\w+)\(Kernels\* table, uint32_t \S+\) \{", re.MULTILINE)


def differences(listed, found, where):
    return ([f"{ISA_LIST}: {name} is not in {where}" for name in sorted(listed - found)]
            + [f"{where}: {name} is not in {ISA_LIST}" for name in sorted(found - listed)])


def overrides(context):
    """Endings whose override functions are defined, and problems: a function that stands in a file of another ending."""
    found = set()
    problems = []
    for path in context.files(".cpp"):
        if not path.as_posix().startswith(KERNELS):
            continue
        for ending in OVERRIDE.findall(context.text(path)):
            found.add(ending)
            if ending != "scalar" and not path.stem.endswith(f"_{ending}"):
                problems.append(f"{path}: override_{ending} stands in a file that is not compiled for {ending}")
    return found, problems


def check(context):
    if not (context.source / ISA_LIST).is_file():
        return [], 0
    isas = isas_of(context.source)
    endings = {isa.ending for isa in isas}
    defined, problems = overrides(context)
    problems += differences({isa.bit for isa in isas}, set(API_BIT.findall(context.text(API))), API)
    problems += differences(endings - {"scalar"}, set(FLAGS_ROW.findall(context.text(FLAGS))), FLAGS)
    problems += differences(endings, defined, KERNELS)
    return problems, len(isas)


def sample(name, reason, *changes):
    files = {
        ISA_LIST: '  X(kScalar, scalar, "scalar", CRIA_ISA_SCALAR, true) \\\n  X(kNeon, neon, "neon", CRIA_ISA_NEON, true)\n',
        API: "  CRIA_ISA_SCALAR = 1 << 0,\n  CRIA_ISA_NEON = 1 << 8 /* vectors */\n",
        FLAGS: '  "neon|aarch64|"\n  "neon|armv7|-mfpu=neon"\n',
        "runtime/kernels/select.cpp": "void override_scalar(Kernels* table, uint32_t isa_mask) {}\n",
        "runtime/kernels/arm/linear_neon.cpp": "void override_neon(Kernels* table, uint32_t isa_mask) {}\n",
    }
    for change in changes:
        files |= change
    return Sample(name, files, reason)


MORE = {ISA_LIST: '  X(kScalar, scalar, "scalar", CRIA_ISA_SCALAR, true) \\\n  X(kNeon, neon, "neon", CRIA_ISA_NEON, true) \\\n'
                  '  X(kSve, sve, "sve", CRIA_ISA_SVE, false)\n'}
SVE = {API: "  CRIA_ISA_SCALAR = 1 << 0,\n  CRIA_ISA_NEON = 1 << 8,\n  CRIA_ISA_SVE = 1 << 9\n"}
SVE_FLAGS = {FLAGS: '  "neon|aarch64|"\n  "sve|aarch64|-march=armv8.2-a+sve"\n'}
SVE_FILE = {"runtime/kernels/arm/linear_sve.cpp": "void override_sve(Kernels* table, uint32_t isa_mask) {}\n"}
SAMPLES = [
    sample("everything of every ISA", None),
    sample("another ISA", None, MORE, SVE, SVE_FLAGS, SVE_FILE),
    sample("no bit", f"{ISA_LIST}: CRIA_ISA_SVE is not in {API}", MORE, SVE_FLAGS, SVE_FILE),
    sample("a bit alone", f"{API}: CRIA_ISA_SVE is not in {ISA_LIST}", SVE),
    sample("no flags", f"{ISA_LIST}: sve is not in {FLAGS}", MORE, SVE, SVE_FILE),
    sample("flags alone", f"{FLAGS}: sve is not in {ISA_LIST}", SVE_FLAGS),
    sample("no kernels", f"{ISA_LIST}: sve is not in {KERNELS}", MORE, SVE, SVE_FLAGS),
    sample("kernels alone", f"{KERNELS}: sve is not in {ISA_LIST}", SVE_FILE),
    sample("an override in another's file", "is not compiled for sve", MORE, SVE, SVE_FLAGS,
           {"runtime/kernels/arm/linear_neon.cpp": "void override_neon(Kernels* table, uint32_t isa_mask) {}\n"
              "void override_sve(Kernels* table, uint32_t isa_mask) {}\n"}),
]

if __name__ == "__main__":
    main(check, SAMPLES)
