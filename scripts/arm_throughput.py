#!/usr/bin/env python3
"""Prints what llvm-mca expects of the innermost loops of the AArch64 matrix kernels.

    scripts/arm_throughput.py <build folder> [--mca llvm-mca] [--cpus cortex-a72,neoverse-n1]

For each loop: multiply-adds an iteration (counted from its instructions), instructions, cycles and
multiply-adds a cycle. A model of a processor, not a measurement: all data is in the first-level cache.
"""
import argparse
import pathlib
import re
import subprocess

OBJECTS = ("linear_neon", "linear_dotprod", "linear_i8mm")
# Products that one instruction adds, for 128-bit vectors.
PRODUCTS = {"sdot": 16, "smmla": 32, "smlal": 8, "smlal2": 8, "smull": 8, "smull2": 8}
ITERATIONS = 100
# The matrix format that a function is for, by parts of its name; Codes is an enum of neon_tiles.h.
PLANES = (("Codes)4", "int4nl, unpacked"), ("Codes)3", "int4nl"), ("Codes)2", "int4, unpacked"), ("Codes)0", "int4"),
          ("Codes)1", "int8"), ("Codes)5", "int8g32"), ("matmul_q4nl", "int4nl"), ("matmul_q4", "int4"),
          ("matmul_q8g", "int8g32"), ("matmul_q8", "int8"))


def functions(objdump, path):
    listed = subprocess.run([objdump, "-d", "-C", "--no-show-raw-insn", str(path)], capture_output=True, text=True, check=True)
    for block in listed.stdout.split("\n\n"):
        heading = re.match(r"\n*[0-9a-f]+ <(.+)>:\n", block)
        if heading:
            lines = re.findall(r"^ +([0-9a-f]+):\t(.+)$", block, re.M)
            yield heading.group(1), [(int(address, 16), text.split("//")[0].strip()) for address, text in lines]


def loops(instructions):
    """Bodies of the backward branches that contain no other, in order."""
    found = []
    for address, text in instructions:
        branch = re.match(r"(?:b\.\w+|cbn?z\s+\w+,|tbn?z\s+\w+, #\d+,)\s+([0-9a-f]+) <", text)
        target = int(branch.group(1), 16) if branch else address + 1
        if target <= address and not any(target <= first for first, _ in found):
            found.append((target, address))
    return [[text for address, text in instructions if first <= address < last] for first, last in found]


def products(body):
    return sum(PRODUCTS.get(text.split()[0], 0) for text in body)


def cycles(mca, cpu, body):
    # Forward branches leave the loop's straight line; what is left keeps registers and memory.
    straight = [text for text in body if not re.match(r"(b|b\.\w+|cbn?z|tbn?z|ret|bl)\b", text)]
    result = subprocess.run(
        [mca, "-mtriple=aarch64-linux-gnu", f"-mcpu={cpu}", "-mattr=+dotprod,+i8mm", f"-iterations={ITERATIONS}"],
        input="\n".join(straight), capture_output=True, text=True, check=True)
    return int(re.search(r"Total Cycles: +(\d+)", result.stdout).group(1)) / ITERATIONS


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--mca", default="llvm-mca")
    parser.add_argument("--objdump", default="aarch64-linux-gnu-objdump")
    parser.add_argument("--cpus", default="cortex-a72,neoverse-n1,neoverse-v1")
    args = parser.parse_args()
    print("| kernel | multiply-adds | instructions | " + " | ".join(f"{cpu} cycles (per cycle)" for cpu in args.cpus.split(",")) + " |")
    for name in OBJECTS:
        path = next(args.build.rglob(f"{name}*.o"))
        for function, instructions in functions(args.objdump, path):
            for body in loops(instructions):
                n = products(body)
                if n == 0:
                    continue
                plane = next((plane for part, plane in PLANES if part in function), function)
                cells = []
                for cpu in args.cpus.split(","):
                    n_cycles = cycles(args.mca, cpu, body)
                    cells.append(f"{n_cycles:.0f} ({n / n_cycles:.1f})")
                print(f"| {name} {plane} | {n} | {len(body)} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
