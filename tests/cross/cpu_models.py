#!/usr/bin/env python3
"""One binary for every core: a cross build's programs on a CPU model without dot products, with them, and with i8mm.

    cpu_models.py CPU KERNELS      reads CRIA_EMULATOR, CRIA_BINARY_DIR, CRIA_SOURCE_DIR

Under that CPU the golden hashes, the greedy lists, the heap trap, the arena sweep and flipped bits must pass (ctest
itself runs them on the toolchain file's CPU), and cria must choose those kernels and continue a prompt with the tokens
in the repository.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

# Of the first every format on one thread, and of the demo two; the rest runs once, on the toolchain file's CPU.
HASHES = "Trained*:Formats/*OnEveryIsa/*:*Demo*OnEveryIsa/int8:*Demo*OnEveryIsa/int4g32s"
TESTS = (("exact_bits_test", f"--gtest_filter={HASHES}"), ("greedy_tokens_test",), ("heap_trap_test",), ("arena_sweep_test",),
         ("bit_flip_slow_test",))
# What they say they tried.
COUNTS = re.compile(r"^\d+ (?:of \d+ (?:smaller arenas|bits|lengths)|allocations in) .*", re.MULTILINE)


def emulator(cpu):
    words = os.environ["CRIA_EMULATOR"].split()
    words[words.index("-cpu") + 1] = cpu
    return words


def is_toolchains(cpu):
    return emulator(cpu) == os.environ["CRIA_EMULATOR"].split()


def run(cpu, program, *arguments):
    command = [*emulator(cpu), str(program), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)  # ctest has the limit


def unit_test_problem(cpu, program, *arguments):
    done = run(cpu, program, *arguments)
    passed = re.search(r"\[  PASSED  \] (\d+) tests?\.", done.stdout)
    print(f"{cpu}: {program.name}: {passed.group(1) if passed else 'not all'} passed", flush=True)
    for line in COUNTS.findall(done.stdout):
        print(f"{cpu}: {line}")
    if done.returncode == 0 and passed and int(passed.group(1)) > 0:
        return None
    return f"{program.name} failed with {done.returncode}:\n{done.stdout[-3000:]}{done.stderr[-1000:]}"


def golden_line(source, name):
    """Prompt and continuation of one line of the list, as cria run --ids prints them."""
    for line in (source / "tests/data/golden/greedy_tokens.txt").read_text().splitlines():
        words = line.split()
        if words[0] == name:
            at = words.index("tokens")
            return words[2:at], words[at + 1:]
    raise KeyError(name)


def program_problem(cpu, kernels, source, binary):
    """What cria and cria-convert do as a user meets them."""
    prompt, tokens = golden_line(source, "demo/int4g32")
    with tempfile.TemporaryDirectory() as folder:
        model = pathlib.Path(folder) / "demo.cria"
        made = run(cpu, binary / "bin/cria-convert", source / "models/demo", "-o", model, "--quiet",
                   "--scales", "positive")
        if made.returncode != 0:
            return f"cria-convert: {made.returncode}: {made.stderr}"
        done = run(cpu, binary / "bin/cria", "run", model, "--ids", ",".join(prompt), "-n", len(tokens), "--greedy",
                   "--ignore-end", "--backend", "exact", "--verbose")
    print(f"{cpu}: {done.stderr.strip()}")
    print(f"{cpu}: {done.stdout.strip()}")
    if done.returncode != 0 or done.stdout.split() != prompt + tokens:
        return f"cria run: {done.returncode}: not the tokens of tests/data/golden/greedy_tokens.txt: {done.stdout}"
    if f"{kernels} kernels" not in done.stderr:
        return f"cria chose other kernels than {kernels}"
    return None


def main():
    cpu, kernels = sys.argv[1:]
    source = pathlib.Path(os.environ["CRIA_SOURCE_DIR"])
    binary = pathlib.Path(os.environ["CRIA_BINARY_DIR"])
    tests = () if is_toolchains(cpu) else TESTS
    problems = [unit_test_problem(cpu, binary / "tests/bin" / name, *arguments) for name, *arguments in tests]
    problems.append(program_problem(cpu, kernels, source, binary))
    problems = [problem for problem in problems if problem]
    for problem in problems:
        print(problem)
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
