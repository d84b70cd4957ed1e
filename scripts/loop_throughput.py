#!/usr/bin/env python3
"""Prints what llvm-mca expects of the innermost loops of the matrix kernels of AArch64 or x86.

    scripts/loop_throughput.py <build folder> [--mca llvm-mca-19] [--cpus cortex-a72,neoverse-n1] [--only REGEX]
    scripts/loop_throughput.py --self-test

For each loop: multiply-adds an iteration (counted from its instructions) and instructions; for each processor that has
them cycles, multiply-adds a cycle, micro-operations and what limits it: the busiest ports where they are busy all the
time, the front end where it hands out as many micro-operations as it can, else that results are waited for. A model of
a processor, not a measurement: all data is in the first-level cache, and both sides of a branch are counted.
"""
import collections
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

from script_arguments import OneLineParser

ITERATIONS = 100
BUSY = 0.95  # of the cycles: what is busier is the limit

# objects: which processors are asked about each. products: what one instruction adds, for vectors of 128 bits.
# sample: an instruction that every processor has.
Target = collections.namedtuple("Target", "objects products branch always ends comment objdump options sample")
ARM_CPUS = "cortex-a72 neoverse-n1 neoverse-v1 cortex-a55"
X86_CPUS = "skylake-avx512 icelake-server sapphirerapids alderlake znver3 znver4"
TARGETS = (
    Target(objects={"linear_neon": ARM_CPUS, "linear_dotprod": ARM_CPUS, "linear_i8mm": ARM_CPUS},
           products={"sdot": 16, "smmla": 32, "smlal": 8, "smlal2": 8, "smull": 8, "smull2": 8},
           branch=r"(?:b|b\.\w+|cbn?z\s+\w+,|tbn?z\s+\w+, #\d+,)\s+([0-9a-f]+) <", always="b", ends=("ret", "br", "udf"),
           comment="//", objdump="aarch64-linux-gnu-objdump",
           options=("-mtriple=aarch64-linux-gnu", "-mattr=+dotprod,+i8mm"), sample="add x0, x0, #1"),
    Target(objects={"linear_sse4_1": X86_CPUS, "linear_avx2": X86_CPUS, "linear_avxvnni": "sapphirerapids alderlake",
                    "linear_avx512vnni": "icelake-server sapphirerapids znver4"},
           products={"pmaddubsw": 16, "vpmaddubsw": 16, "vpdpbusd": 16},
           branch=r"j\w+\s+([0-9a-f]+) <", always="jmp", ends=("ret", "ud2"), comment="#", objdump="objdump",
           options=("-mtriple=x86_64-linux-gnu",), sample="addl $1, %eax"),
)
WIDTHS = {"%ymm": 2, "%zmm": 4}  # in 128 bits; AArch64's are all 1


def enumerators(header, name):
    """Those of an enum in the kernels' folder, in order: a function's name has only their numbers."""
    text = (pathlib.Path(__file__).resolve().parents[1] / "runtime/kernels" / header).read_text()
    return re.search(rf"enum class {name} {{([^}}]*)}}", text).group(1).replace(" ", "").split(",")


def by_number(header, name, words):
    return [(f"{name}){number}", words[each]) for number, each in enumerate(enumerators(header, name))]


# What a function's name tells by its parts: the format of its matrix, and how its weights are asked for.
FORMATS = (*by_number("arm/neon_tiles.h", "Codes", {
    "kNlUnpacked": "int4nl, unpacked", "kNlNibbles": "int4nl", "kUnpacked": "int4, unpacked", "kNibbles": "int4",
    "kBytes": "int8", "kGroupedBytes": "int8g32"}),
           ("::Int4Nl", "int4nl"), ("::Int4", "int4"), ("::Int8G32", "int8g32"), ("::Int8", "int8"), ("Unpacked<", "unpacked"),
           ("matmul_q4nl", "int4nl"), ("matmul_q4", "int4"), ("matmul_q8g", "int8g32"), ("matmul_q8", "int8"))
WAYS_OF_ASKING = (("Unpacking<", " unpacking"), *by_number("x86/linear_avx512vnni.cpp", "Asking", {
    "kNothing": "", "kNextTile": "", "kByGroup": " by group", "kAtPages": " at pages"}))


def fail(problem):
    print(f"loop_throughput: {problem}", file=sys.stderr)
    sys.exit(2)


def functions(target, listing):
    for block in listing.split("\n\n"):
        heading = re.match(r"\n*[0-9a-f]+ <(.+)>:\n", block)
        if heading:
            lines = re.findall(r"^ +([0-9a-f]+):\t(.+)$", block, re.M)
            yield heading.group(1), [(int(address, 16), text.split(target.comment)[0].strip()) for address, text in lines]


def edges(target, instructions):
    """For each instruction, by index, the ones that may come after it."""
    at = {address: i for i, (address, _) in enumerate(instructions)}
    after = []
    for i, (_, text) in enumerate(instructions):
        branch = re.match(target.branch, text)
        word = text.split()[0] if text else ""
        nexts = [i + 1] if word not in (target.always, *target.ends) and i + 1 < len(instructions) else []
        if branch and int(branch.group(1), 16) in at:
            nexts.append(at[int(branch.group(1), 16)])
        after.append(nexts)
    return after


def natural_loops(after):
    """Sets of instructions by the one where each loop begins."""
    before = [[] for _ in after]
    state, back, entries = [0] * len(after), [], set()
    for entry in range(len(after)):  # what nothing leads to is behind a table of jumps
        stack = [(entry, iter(after[entry]))] if state[entry] == 0 else []
        entries.update(i for i, _ in stack)
        while stack:
            i, nexts = stack[-1]
            state[i] = 1
            for n in nexts:
                before[n].append(i)
                if state[n] == 1:
                    back.append((i, n))
                elif state[n] == 0:
                    stack.append((n, iter(after[n])))
                    break
            else:
                state[i] = 2
                stack.pop()
    loops = collections.defaultdict(set)
    for last, first in back:
        body, waiting = {first}, [last]
        while waiting:
            i = waiting.pop()
            if i not in body:
                body.add(i)
                waiting += before[i]
        if not entries & body - {first}:  # else there is another way in
            loops[first] |= body
    return loops


def products(target, body):
    total = 0
    for text in body:
        words = text.removeprefix("{vex} ").split()
        width = max((n for register, n in WIDTHS.items() if register in text), default=1)
        total += target.products.get(words[0] if words else "", 0) * width
    return total


def inner_loops(target, instructions):
    """The straight lines of the loops with products in them and no such loop inside, in order."""
    found = natural_loops(edges(target, instructions))
    texts = [text for _, text in instructions]
    multiplies = {first: body for first, body in found.items() if products(target, [texts[i] for i in body])}
    for first, body in sorted(multiplies.items()):
        others = [b for b in found.values() if b < body]
        if any(b < body for b in multiplies.values()):
            continue
        left = body.difference(*others)
        yield [texts[i] for i in sorted(left) if not leaves_line(target, texts[i])]


def leaves_line(target, text):
    return re.match(target.branch, text) or re.match(r"(bl|call|nop\w*|data16|cs nop\w*|xchg\s+%ax,%ax)\b", text) or not text


def port_name(resource):
    known = re.search(r"(Port|FP)0*(\d+)(?:\.|$)", resource)
    return {"Port": "p", "FP": "fp"}[known.group(1)] + known.group(2) if known else resource


def read_mca(report):
    """Cycles and micro-operations an iteration, and what limits them."""
    region = report["CodeRegions"][0]
    summary = region["SummaryView"]
    cycles, uops = (summary[key] / summary["Iterations"] for key in ("TotalCycles", "TotaluOps"))
    names = report["TargetInfo"]["Resources"]
    n_instructions = summary["Instructions"] // summary["Iterations"]
    usage = {names[row["ResourceIndex"]]: row["ResourceUsage"] for row in region["ResourcePressureView"]["ResourcePressureInfo"]
             if row["InstructionIndex"] == n_instructions}
    busiest = max(usage.values())
    ports = " ".join(sorted({port_name(name) for name, value in usage.items() if value >= BUSY * busiest}))
    if busiest >= BUSY * cycles:
        limit = ports
    elif uops >= BUSY * cycles * summary["DispatchWidth"]:
        limit = "front end"
    else:
        limit = f"waits ({ports} {busiest:.0f})"
    return cycles, uops, limit


def ask_mca(mca, target, cpu, body):
    result = subprocess.run([mca, *target.options, f"-mcpu={cpu}", f"-iterations={ITERATIONS}", "-json"],
                            input="\n".join(body), capture_output=True, text=True, check=False)
    if not cpu or "is not a recognized processor" in result.stderr:
        fail(f"--cpus: {mca} knows no processor {cpu!r}; {mca} {target.options[0]} -mcpu=help lists those it knows")
    if result.returncode != 0:
        fail(f"{mca} for {cpu}: {(result.stderr.strip() or 'failed').splitlines()[0]}")
    try:
        return read_mca(json.loads(result.stdout))
    except (ValueError, LookupError):
        fail(f"{mca}: its answer is none of llvm-mca's; name LLVM 16's or a newer one with --mca")


def title(stem, function):
    plane = next((plane for part, plane in FORMATS if part in function), function)
    block = re.search(r"multiply_(block|panel)<.*?(?:(\d+)ul, )?(\d+)ul[>,]", function)
    if block is None:
        return f"{stem} {plane}"
    kind, columns, rows = block.groups()
    words = next((words for part, words in WAYS_OF_ASKING if part in function), "")
    rows = f"{rows} row{'' if rows == '1' else 's'}"
    # The other number of a block is of parts of one tile.
    return f"{stem} {plane}{words}, {rows}" + (f" x {columns} tile{'' if columns == '1' else 's'}" if kind == "panel" and columns else "")


def print_table(args):
    def find(name):
        found = sorted(args.build.rglob(f"{name}*.o"))
        if len(found) > 1:
            fail(f"{args.build}: has {len(found)} objects {name}; name the folder of one build, as build/release")
        return found[0] if found else None

    target = next((t for t in TARGETS if all(find(name) for name in t.objects)), None)
    if target is None:
        fail(f"{args.build}: no kernels of AArch64 or x86-64 in it")
    every = list(dict.fromkeys(" ".join(target.objects.values()).split()))
    cpus = every if args.cpus is None else list(dict.fromkeys(args.cpus.split(",")))
    objdump = program(target.objdump if args.objdump is None else args.objdump, "binutils of the target", "--objdump")
    for cpu in cpus:  # what it does not know is told before the heading
        ask_mca(args.mca, target, cpu, [target.sample])
    n_found = 0
    print("| loop | multiply-adds | instructions | " + " | ".join(cpus) + " |")
    print("|---" * (3 + len(cpus)) + "|")
    for name, able in target.objects.items():
        listed = subprocess.run([objdump, "-d", "-C", "--no-show-raw-insn", str(find(name))],
                                capture_output=True, text=True, check=False)
        if listed.returncode != 0:
            fail(f"{objdump}: {(listed.stderr.strip() or 'failed').splitlines()[0]}; name the target's with --objdump")
        for function, instructions in functions(target, listed.stdout):
            heading = title(name, function)
            if not re.search(args.only, heading):
                continue
            for body in inner_loops(target, instructions):
                n, cells = products(target, body), []
                n_found += 1
                for cpu in cpus:
                    if cpu in every and cpu not in able.split():
                        cells.append("")
                        continue
                    cycles, uops, limit = ask_mca(args.mca, target, cpu, body)
                    cells.append(f"{cycles:.0f}, {n / cycles:.1f}; {uops:.0f}, {limit}")
                print(f"| {heading} | {n} | {len(body)} | " + " | ".join(cells) + " |", flush=True)
    if n_found == 0:
        fail(f"--only {args.only}: no loop is called so; without --only all are listed" if args.only else
             f"{objdump}: shows no loop of products; name the target's with --objdump")


def program(name, package, option):
    if shutil.which(name) is None:
        fail(f"{name or 'an empty name'}: no such program; install {package}, or name another with {option}")
    return name


SAMPLE = """
0000000000000000 <f>:
   0:\txor    %eax,%eax
   2:\tvpbroadcastd (%rdi),%zmm1
   4:\tprefetcht0 (%rsi)
   6:\tjne    4 <f+0x4>
   8:\tje     14 <f+0x14>
   a:\tvpdpbusd (%rdi){1to16},%zmm1,%zmm2        # a comment
   c:\t{vex} vpdpbusd %ymm1,%ymm2,%ymm3
   e:\tjne    2 <f+0x2>
  10:\tjne    0 <f>
  12:\tret
  14:\tvaddps %zmm1,%zmm2,%zmm3
  16:\tjmp    a <f+0xa>
"""


def self_test():
    x86 = TARGETS[1]
    (name, instructions), = functions(x86, SAMPLE)
    lines, = inner_loops(x86, instructions)
    # The outer loop is not one; the loop of prefetches goes; the part that was moved behind the end is in it.
    assert name == "f" and lines == ["vpbroadcastd (%rdi),%zmm1", "vpdpbusd (%rdi){1to16},%zmm1,%zmm2",
                                     "{vex} vpdpbusd %ymm1,%ymm2,%ymm3", "vaddps %zmm1,%zmm2,%zmm3"], lines
    assert products(x86, lines) == 64 + 32

    def report(cycles, uops, pressure):
        rows = [{"InstructionIndex": 3, "ResourceIndex": i, "ResourceUsage": value} for i, value in enumerate(pressure)]
        return {"CodeRegions": [{"ResourcePressureView": {"ResourcePressureInfo": rows},
                                 "SummaryView": {"TotalCycles": cycles * 10, "TotaluOps": uops * 10, "Iterations": 10,
                                                 "Instructions": 30, "DispatchWidth": 4}}],
                "TargetInfo": {"Resources": ["ICXPort0", "ADLPPort05", "Zn4FP1"]}}

    assert title("x", "multiply_panel<2ul, 6ul, Unpacked<2ul> >(Unpacked<2ul>)") == "x unpacked, 6 rows x 2 tiles"
    assert title("x", "multiply_block<(anonymous namespace)::Int8, 3ul>(unsigned long)") == "x int8, 3 rows"
    assert read_mca(report(20, 40, (20, 19.5, 3))) == (20, 40, "p0 p5")
    assert read_mca(report(20, 80, (10, 2, 3))) == (20, 80, "front end")
    assert read_mca(report(20, 40, (3, 2, 10))) == (20, 40, "waits (fp1 10)")
    at_pages = enumerators("x86/linear_avx512vnni.cpp", "Asking").index("kAtPages")
    assert title("x", f"multiply_block<x::Int8, (x::Asking){at_pages}, 1ul>(y)") == "x int8 at pages, 1 row"
    assert title("a", "multiply_panel<2ul, 6ul, x::Unpacked<2ul> >(y)") == "a unpacked, 6 rows x 2 tiles"
    assert title("a", "TileKernels<x>::multiply_block<TileKernels<x>::Int4Nl, 2ul, 6ul>(y)") == "a int4nl, 6 rows"
    assert title("a", "matmul_q8_q8(y)") == "a int8"


def main():
    parser = OneLineParser(description=__doc__)
    parser.add_argument("build", type=pathlib.Path, nargs="?")
    parser.add_argument("--mca", default="llvm-mca-19", help="default: %(default)s; those before 16 know few of the processors")
    parser.add_argument("--objdump", help="default: the target's of binutils")
    parser.add_argument("--cpus", help="names of LLVM's, with commas; default: those of the target in this project's tables")
    parser.add_argument("--only", default="", metavar="REGEX", help="loops whose name has this")
    parser.add_argument("--self-test", action="store_true", help="test this script, without a build folder")
    args = parser.parse_args()
    if args.self_test:
        if args.build is not None:
            parser.error("--self-test needs no build folder")
        return self_test()
    if args.build is None:
        parser.error("a build folder is needed, as build/release")
    program(args.mca, "LLVM 16 or newer", "--mca")
    try:
        re.compile(args.only)
    except re.error as error:
        parser.error(f"--only: {error}")
    return print_table(args)


if __name__ == "__main__":
    try:
        main()
        sys.stdout.flush()
    except BrokenPipeError:  # whoever read it has enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        fail(error)
