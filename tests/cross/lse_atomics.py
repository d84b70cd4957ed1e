#!/usr/bin/env python3
"""No program assumes the atomics of Armv8.1 (LSE), which a Raspberry Pi 4 does not have.

    lse_atomics.py --objdump OBJDUMP PROGRAM...

libgcc's functions __aarch64_* may hold them: each asks __aarch64_have_lse_atomics first.
"""
import argparse
import re
import subprocess
import sys

FUNCTION = re.compile(r"^[0-9a-f]+ <(.+)>:$")
INSTRUCTION = re.compile(r"^ *[0-9a-f]+:\t\s*([a-z][a-z0-9.]*)")
LSE = re.compile(r"(cas|casp|swp|(ld|st)(add|clr|eor|set|[su](max|min)))(a|l|al)?[bh]?$")
CHECKED_AT_RUN_TIME = re.compile(r"__aarch64_(cas|swp|ld(add|clr|eor|set))\d+_(relax|acq|rel|acq_rel|sync)$")
FLAG = "__aarch64_have_lse_atomics"


def judge(lines):
    """Instructions seen, functions of libgcc that may use LSE, and problems."""
    function, seen, helpers, problems = "", 0, set(), []
    for line in lines:
        heading = FUNCTION.match(line)
        if heading:
            function = heading.group(1)
            continue
        instruction = INSTRUCTION.match(line)
        if not instruction:
            continue
        seen += 1
        if LSE.match(instruction.group(1)):
            if CHECKED_AT_RUN_TIME.match(function):
                helpers.add(function)
            else:
                problems.append(f"{function}: {line.strip()}")
    return seen, helpers, problems


def check(objdump, program):
    done = subprocess.run([objdump, "-d", "--no-show-raw-insn", program], capture_output=True, text=True, check=True)
    seen, helpers, problems = judge(done.stdout.splitlines())
    symbols = subprocess.run([objdump, "-t", program], capture_output=True, text=True, check=True).stdout
    if helpers and FLAG not in symbols:
        problems.append(f"no {FLAG}")
    print(f"{program}: {seen} instructions, {len(helpers)} functions that ask before they use LSE")
    return problems + ([] if seen > 10000 else ["too few instructions: a wrong disassembler?"])


def self_test():
    guarded = ["0000000000401000 <__aarch64_cas4_acq>:", "  401000:\tcasa\tw0, w1, [x2]"]
    assert judge(guarded) == (1, {"__aarch64_cas4_acq"}, [])
    for name in ("casal", "ldadd", "ldaddalh", "swpb", "stset", "ldumaxal", "casp"):
        assert len(judge(["0000000000401000 <f()>:", f"  401000:\t{name}\tw0, w1, [x2]"])[2]) == 1, name
    for name in ("ldar", "ldaxr", "stlxr", "ldp", "csel", "sdot"):
        assert not judge(["0000000000401000 <f()>:", f"  401000:\t{name}\tw0, w1, [x2]"])[2], name


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--objdump", required=True)
    parser.add_argument("programs", nargs="+")
    args = parser.parse_args()
    self_test()
    problems = [problem for program in args.programs for problem in check(args.objdump, program)]
    for problem in problems:
        print(problem)
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
