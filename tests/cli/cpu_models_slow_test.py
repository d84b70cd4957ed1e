"""Older CPUs, played by QEMU: no illegal instruction, and the bits of this machine.

Each CPU is tested at its highest level, and a level that it lacks is refused. The quantizer is compiled
for three levels (quant/numbers/multiversion.h): Nehalem takes the default one, Haswell AVX2's, this machine perhaps AVX-512's.
"""
import concurrent.futures
import os
import platform
import re
import shutil
import subprocess
import sys
import unittest
from pathlib import Path

import cria_cli as cli

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "house"))
from house_common import REPOSITORY, isas_of

QEMU = "qemu-x86_64"
ISAS = [isa.name for isa in isas_of(REPOSITORY)]
# What QEMU 7.2 can play, and the highest level of each; it has no AVX-512.
HIGHEST = {"qemu64": "scalar", "Nehalem": "sse4.1", "Haswell": "avx2", "max": "avx2"}
LEVELS = {model: ISAS[:ISAS.index(highest) + 1] for model, highest in HIGHEST.items()}
# One for each level of kernels and of the quantizer, for what takes long.
MAIN_MODELS = ("Nehalem", "Haswell")
PROMPT = "Once upon a time"
TESTS = Path(os.environ.get("CRIA_BINARY_DIR", cli.BIN.parent)) / "tests" / "bin"
X86_64_OF_ELF = b"\x3e\x00"
ELF_MACHINE = slice(18, 20)


def emulated(model, command):
    """Runs a command on a CPU model; what QEMU says about features it does not play is left out of stderr."""
    done = subprocess.run([QEMU, "-cpu", model, *map(str, command)], capture_output=True, timeout=3 * cli.PATIENCE_S,
                          env={**os.environ, "CRIA_TEST_ONE_IN": "97"})
    lines = done.stderr.decode().splitlines(keepends=True)
    return cli.Result(done.returncode, done.stdout, "".join(l for l in lines if not l.startswith(QEMU + ": warning")))


def cria_on(model, *arguments):
    return emulated(model, cli.command_line(arguments))


class CpuModels(unittest.TestCase):
    def check(self, result, model):
        self.assertEqual(result.code, cli.DONE, f"{model}: {result.raw[-2000:]} {result.err[-2000:]}")

    def for_models(self, check, models=tuple(LEVELS)):
        """check(model) for each, on all processors."""
        cli.model()  # made before they ask for it together
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            self.assertEqual(len(list(pool.map(check, models))), len(models))

    # Each at its highest level, which is its default: the lower ones of a model are those of the one below it, and their
    # kernels are in the other tests too.
    def test_every_kernel_of_the_highest_level_gives_the_bits_of_the_reference(self):
        def check(model):
            level = LEVELS[model][-1].replace(".", "")
            for test in ("kernel_bits_products_test", "kernel_bits_vectors_test"):
                result = emulated(model, [TESTS / test, f"--gtest_filter=*/{level}_*"])
                self.check(result, model)
                tested = set(re.findall(r"OK \] Isas/(?:Product|Vector)Bits\.\w+/([a-z0-9]+)_", result.out))
                self.assertEqual(tested, {level}, f"{model} {test}")

        self.for_models(check, MAIN_MODELS)

    def test_whole_models_have_their_golden_hashes(self):
        def check(model):
            wanted = ":".join(f"Formats/ExactBits.HaveTheHashInTheRepositoryOnEveryIsa/{name}"
                              for name in ("f32kv32", "int8", "int4g32s"))
            result = emulated(model, [TESTS / "exact_bits_test", f"--gtest_filter={wanted}"])
            self.check(result, model)
            self.assertRegex(result.out, r"\[  PASSED  \] [1-9]")

        self.for_models(check, MAIN_MODELS)

    def test_the_demo_has_the_logits_of_this_machine(self):
        ids = ",".join(str(i * 37 % 1000) for i in range(24))

        def logits(name, run, *options):
            path = cli.folder() / f"{name}.f32"
            self.check(run("logits", cli.model(), "--ids", ids, "-o", path, "--backend", "exact", *options), name)
            return path.read_bytes()

        wanted = logits("host", cli.cria)

        def check(model):
            for threads in ("1", "3"):
                got = logits(model, lambda *a: cria_on(model, *a), "--isa", LEVELS[model][-1], "--threads", threads)
                self.assertEqual(got, wanted, f"{model} {threads}")

        self.assertGreater(len(wanted), 0)
        self.for_models(check)

    def test_cria_run_prints_the_tokens_of_this_machine(self):
        command = ("run", cli.model(), "-p", PROMPT, "-n", "16", "--greedy", "--backend", "exact")
        wanted = cli.cria(*command).out
        self.assertTrue(wanted.startswith(PROMPT))

        def check(model):
            result = cria_on(model, *command, "--isa", LEVELS[model][-1])
            self.check(result, model)
            self.assertEqual(result.out, wanted, model)

        self.for_models(check)

    def test_each_backend_and_the_default_run(self):
        def check(model):
            for backend in ("auto", *cli.backends()):
                file = cli.model(*cli.options_for(backend))
                result = cria_on(model, "run", file, "-p", PROMPT, "-n", "16", "--greedy", "--backend", backend)
                self.check(result, f"{model} {backend}")
                self.assertTrue(result.out.startswith(PROMPT) and len(result.out) > len(PROMPT) + 10, result.out)

        self.for_models(check)

    def test_a_level_that_the_cpu_lacks_is_refused_in_one_line(self):
        def check(model):
            for level in set(ISAS) - set(LEVELS[model]):
                result = cria_on(model, "run", cli.model(), "-p", PROMPT, "--isa", level)
                self.assertEqual((result.code, result.raw), (cli.USAGE, b""), f"{model} {level}")
                self.assertEqual(result.err, f"cria: error: --isa: {level} is not available here; choose one of: {', '.join(LEVELS[model])}"
                                             "; see cria run --help\n")

        self.for_models(check)

    def test_the_converter_writes_the_bytes_of_this_machine(self):
        def check(model):
            for i, (options, wanted) in enumerate(hosts.items()):
                path = cli.folder() / f"{model}{i}.cria"
                result = emulated(model, [cli.BIN / "cria-convert", cli.DEMO, "-o", path, "--quiet", *options])
                self.check(result, model)
                self.assertEqual(path.read_bytes(), wanted, f"{model} {options}")

        hosts = {options: Path(cli.model(*options)).read_bytes()
                 for options in ((), ("--weights", "int8"), ("--method", "rtn", "--group-size", "128"))}
        self.for_models(check, MAIN_MODELS)


if __name__ == "__main__":
    is_built = Path(cli.CRIA).exists()
    if platform.machine() != "x86_64" or is_built and Path(cli.CRIA).read_bytes()[ELF_MACHINE] != X86_64_OF_ELF:
        print("skipped: x86-64 is played on x86-64 only")
        sys.exit(cli.SKIP)
    if is_built and cli.IS_SANITIZED:
        print("skipped: the shadow memory of a sanitizer is too much for QEMU")
        sys.exit(cli.SKIP)
    if shutil.which(QEMU) is None:
        sys.exit(f"{QEMU} is missing; scripts/setup.sh installs qemu-user")
    cli.main()
