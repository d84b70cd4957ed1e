#!/usr/bin/env python3
"""Projects that know cria only as something installed, or as a folder: each is built and run, and says what cria run says.

installed: by find_package (static and shared), by pkg-config, from Python; then the prefix is moved, and all of it again.
subdirectory: by add_subdirectory, which leaves nothing in the other project.
source_tree: by scripts/make_source_tree.sh and the lines of its README, for this machine.
source_tree_arm: the same for a Cortex-M4 and a Cortex-M55, where there are a compiler and emulated boards, which run it.
pip: the Python module by the lines of docs/python.md, without a network.
"""
import argparse
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parents[2]
PROJECTS = pathlib.Path(__file__).resolve().parent / "projects"
PROGRAM = SOURCE / "examples/two_conversations/two_conversations.c"
PROMPTS = ("Once upon a time the llama", "Once upon a time there was a fox")
SECONDS = 900
SKIP = 77
# Of a core: what the compiler is told, the kernels that it gets, and qemu's board.
CORES = {
    "cortex-m4": ("-march=armv7e-m+fp", "dsp", "mps2-an386"),
    "cortex-m55": ("-march=armv8.1-m.main+dsp+fp+mve.fp", "helium", "mps3-an547"),
}
# What a program needs of a board besides the library.
PLATFORM = SOURCE / "platforms/cortex_m"
PLATFORM_SOURCES = ("startup.cpp", "semihosting.cpp", "memory_map.cpp", "no_heap.cpp", "putchar.cpp", "console.cpp")
MINIMAL = SOURCE / "examples/minimal"


def run(command, **options):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=SECONDS, check=False, **options)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: {done.returncode}\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    return done.stdout


def fails(command, reason, **options):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=SECONDS, check=False, **options)
    # CMake breaks its messages at words.
    if done.returncode == 0 or reason not in " ".join(done.stderr.split()):
        sys.exit(f"{' '.join(map(str, command))}: {done.returncode}, not: {reason}\n{done.stderr}")


def same(what, found, wanted):
    if found != wanted:
        sys.exit(f"{what}: {found!r}, not {wanted!r}")
    print(f"{what}: as wanted")


class Check:
    def __init__(self, args, folder):
        self.build, self.folder, self.compiler, self.cxx = args.build, folder, args.compiler, args.cxx_compiler
        self.model = folder / "demo.cria"
        run([self.build / "bin/cria-convert", SOURCE / "models/demo", "-o", self.model, "--quiet"])
        said = {prompt: run([self.build / "bin/cria", "run", self.model, "-p", prompt, "-n", "24", "--greedy", "--no-echo",
                             "--backend", "exact", "--threads", "1"]) for prompt in PROMPTS}
        self.wanted = "".join(f"{prompt}:{text}" for prompt, text in said.items())
        self.environment = {name: value for name, value in os.environ.items()
                            if name not in ("CRIA_LIBRARY", "LD_LIBRARY_PATH", "PKG_CONFIG_PATH", "CMAKE_PREFIX_PATH")}
        # A launcher is words for "env": settings, whose folders may have spaces, and a command.
        settings = [word for word in args.launcher if "=" in word]
        self.environment |= dict(setting.split("=", 1) for setting in settings)
        self.launcher = [word for word in args.launcher if word != "env" and word not in settings]

    def compilers(self, cxx, c):
        return {"CXX": " ".join([*self.launcher, cxx]), "CC": " ".join([*self.launcher, c])}

    def expect(self, what, command, **environment):
        same(what, run([*command, self.model], env={**self.environment, **environment}), self.wanted)

    def configure(self, project, build, *options):
        return ["cmake", "-S", PROJECTS / project, "-B", build, f"-DCMAKE_C_COMPILER={self.compiler}", f"-DPROGRAM={PROGRAM}",
                *options]

    def installed(self):
        first, second = self.folder / "first", self.folder / "second place"
        for component in ("library", "dev", "python"):
            run(["cmake", "--install", self.build, "--prefix", first, "--component", component])
        self.check_installed(first)
        first.rename(second)
        self.check_installed(second)

    def check_installed(self, prefix):
        libraries = next(prefix.rglob("libcria.so.0")).parent
        for file in prefix.rglob("*"):
            if file.suffix in (".cmake", ".pc", ".py"):
                text = file.read_text()
                for place in (self.folder, SOURCE, self.build):
                    if str(place) in text:
                        sys.exit(f"{file} names {place}")
        symbols = run(["nm", "-D", "--defined-only", "--format=posix", libraries / "libcria.so.0"])
        same("symbols of libcria.so.0", sorted(line.split()[0] for line in symbols.splitlines()),
             (SOURCE / "runtime/include/cria_symbols.txt").read_text().split())
        symbols = run(["nm", "-D", "--defined-only", "--format=posix", libraries / "libcria_host.so.0"])
        same("symbols of libcria_host.so.0", sorted(line.split()[0] for line in symbols.splitlines()),
             ["cria_host_call_problem_text", "cria_host_calls_taken", "cria_host_cancel", "cria_host_close",
              "cria_host_conversation_close", "cria_host_conversation_read", "cria_host_json_problem_text", "cria_host_open"])
        dynamic = run(["readelf", "-dW", libraries / "libcria.so.0"])
        same("its name", re.search(r"SONAME.*\[(.*)\]", dynamic).group(1), "libcria.so.0")
        for name in re.findall(r"NEEDED.*\[(.*)\]", dynamic):
            if not re.match(r"lib[cm]\.so\.6$|ld-linux", name):
                sys.exit(f"libcria.so.0 needs {name}")

        build = self.folder / f"build {prefix.name}"
        prefix_option = f"-DCMAKE_PREFIX_PATH={prefix}"
        run(self.configure("find_package", build, prefix_option, "-DWANTED_VERSION=0.1"))
        run(["cmake", "--build", build])
        for kind in ("static", "shared"):
            self.expect(f"{prefix.name}, find_package, {kind}", [build / f"outside_{kind}"])
        for version in ("0.2", "1.0", "0.0.9"):
            fails(self.configure("find_package", self.folder / f"version {prefix.name} {version}", prefix_option,
                                 f"-DWANTED_VERSION={version}"), "compatible with requested version")

        pkg_config = {**self.environment, "PKG_CONFIG_PATH": str(libraries / "pkgconfig")}
        for kind, options in (("shared", ()), ("static", ("--static",))):
            flags = shlex.split(run(["pkg-config", "--cflags", "--libs", *options, "cria"], env=pkg_config))
            program = self.folder / f"program_{kind}"
            run([self.compiler, *(("-static",) if options else ()), PROGRAM, "-o", program, *flags])
            self.expect(f"{prefix.name}, pkg-config, {kind}", [program], LD_LIBRARY_PATH=str(libraries))

        code = "import cria, sys; print(cria.__file__); print(cria.Model(sys.argv[1]).chat('hello', temperature=0))"
        package = next(prefix.rglob("cria/__init__.py")).parent
        told = run([sys.executable, "-c", code, self.model], cwd=self.folder,
                   env={**self.environment, "PYTHONPATH": str(package.parent)})
        answer = run([self.build / "bin/cria", "chat", self.model, "--greedy"], input="hello\n")
        same(f"{prefix.name}, Python", told, f"{package / '__init__.py'}\n{answer}")

    def subdirectory(self):
        build = self.folder / "outside"
        launcher = ";".join(self.launcher)
        # Without optimization the compiler's time is a fifth.
        run([*self.configure("add_subdirectory", build, f"-DCRIA_SOURCE={SOURCE}"), f"-DCMAKE_CXX_COMPILER={self.cxx}",
             f"-DCMAKE_C_COMPILER_LAUNCHER={launcher}", f"-DCMAKE_CXX_COMPILER_LAUNCHER={launcher}",
             "-DCMAKE_BUILD_TYPE=Debug", "-DCMAKE_C_FLAGS_DEBUG=", "-DCMAKE_CXX_FLAGS_DEBUG=-O0"])
        listed = run(["ctest", "--test-dir", build, "--show-only=json-v1"])
        same("tests of the other project", json.loads(listed)["tests"], [])
        run(["cmake", "--install", build, "--prefix", self.folder / "nothing"])
        if list(self.folder.glob("nothing/*")):
            sys.exit("add_subdirectory leaves install rules")
        commands = json.loads((build / "compile_commands.json").read_text())
        flags = next(entry["command"] for entry in commands if entry["file"] == str(PROGRAM))
        same("flags of the other project's program",
             [word for word in shlex.split(flags)[1:] if word.startswith("-") and word not in ("-o", "-c")],
             [f"-I{SOURCE}/runtime/include"])
        run(["cmake", "--build", build, "--parallel", str(os.cpu_count()), "--target", "outside"],
            env=self.environment)
        self.expect("add_subdirectory", [build / "outside"])

    def pip(self):
        python = "/usr/bin/python3"  # Debian's, whose packages those lines name
        wanted = "import ensurepip, setuptools, venv, wheel"
        if subprocess.run([python, "-c", wanted], capture_output=True, check=False).returncode != 0:
            print("skipped: no python3-venv, python3-setuptools, python3-wheel here (scripts/setup.sh --package installs them)")
            sys.exit(SKIP)
        shutil.copytree(SOURCE / "python", self.folder / "python", ignore=shutil.ignore_patterns("build", "*.egg-info", "__pycache__"))
        lines = next(block for block in re.findall(r"```sh\n(.*?)```", (SOURCE / "docs/python.md").read_text(), re.DOTALL)
                     if "pip install" in block)
        environment = {name: value for name, value in self.environment.items() if not name.startswith(("PIP_", "PYTHON"))}
        environment |= {"HOME": str(self.folder), "PATH": "/usr/bin:/bin", "PIP_NO_INDEX": "1", "PIP_NO_CACHE_DIR": "1"}
        run(["sh", "-e", "-c", lines], cwd=self.folder, env=environment)
        code = "import cria, sys; print(cria.__file__); print(cria.Model(sys.argv[1]).chat('hello', temperature=0))"
        said = run([self.folder / "cria-venv/bin/python", "-c", code, self.model], cwd=self.folder / "cria-venv",
                   env={**environment, "CRIA_LIBRARY": str(self.build / "lib")}).split("\n", 1)
        same("the module lies in the environment", said[0].startswith(str(self.folder / "cria-venv/lib")), True)
        same("pip, Python", said[1], run([self.build / "bin/cria", "chat", self.model, "--greedy"], input="hello\n"))

    def make_tree(self, name):
        tree = self.folder / name
        run([SOURCE / "scripts/make_source_tree.sh", tree])
        names = [path.name for path in tree.rglob("*")]
        if any(re.match(r"CMakeLists|Makefile|meson|.*\.(cmake|mk|ninja)$", each) for each in names):
            sys.exit("the source tree has a build system")
        same("headers at the top", sorted(path.name for path in tree.iterdir()), ["LICENSE", "README.md", "cria.h", "src"])
        return tree

    def compile_tree(self, tree, **environment):
        lines = re.search(r"```sh\n(.*?)```", (tree / "README.md").read_text(), re.DOTALL).group(1)
        run(["sh", "-e", "-c", lines], cwd=tree, env={**self.environment, "JOBS": str(os.cpu_count()), **environment})

    def check_arguments_of_tree(self):
        script = SOURCE / "scripts/make_source_tree.sh"
        for word in ("-h", "--help"):
            same(f"make_source_tree.sh {word}", run([script, word], cwd=self.folder).startswith("scripts/make_source_tree.sh DIR"), True)
        for words in ((), ("",), ("--",), ("-x",), ("a", "b")):
            fails([script, *words], "see --help", cwd=self.folder)
        (self.folder / "file").touch()
        fails([script, "file"], "file is no folder", cwd=self.folder)
        fails([script, "."], ". is not empty", cwd=self.folder)
        run([script, "--", "-h"], cwd=self.folder)
        same("a folder with a dash", (self.folder / "-h/cria.h").is_file(), True)

    def source_tree(self):
        self.check_arguments_of_tree()
        tree = self.make_tree("tree")
        # Without optimization the compiler's time is halved.
        self.compile_tree(tree, **self.compilers(self.cxx, self.compiler), FLAGS="-O0")
        program = self.folder / "from_tree"
        run([self.compiler, f"-I{tree}", PROGRAM, tree / "libcria.a", "-lm", "-o", program])
        self.expect("source tree", [program])

    def source_tree_arm(self):
        missing = [tool for tool in ("arm-none-eabi-g++", "qemu-system-arm") if shutil.which(tool) is None]
        if missing:
            print(f"skipped: no {', '.join(missing)} here (scripts/setup.sh --cortex-m installs them)")
            sys.exit(SKIP)
        stored = self.folder / "stored.cria"
        run([self.build / "bin/cria-convert", SOURCE / "models/demo", "-o", stored, "--compress", "none", "--quiet"])
        wanted = run([self.build / "bin/cria", "run", stored, "-p", "Once upon a time", "-n", "24", "--greedy", "--no-echo",
                      "--backend", "exact", "--threads", "1"])
        for core, (architecture, kernels, board) in CORES.items():
            tree = self.make_tree(core)
            flags = f"-Os -mthumb {architecture} -mfloat-abi=hard -fno-math-errno -Wno-psabi"
            self.compile_tree(tree, **self.compilers("arm-none-eabi-g++", "arm-none-eabi-gcc"), AR="arm-none-eabi-ar", FLAGS=flags)
            symbols = run(["arm-none-eabi-nm", "--defined-only", tree / "libcria.a"])
            found = sorted(set(re.findall(r"override_(dsp|helium)E", symbols)))
            same(f"kernels for {core}", found, [kernels])
            same(f"on {board}", self.run_on_board(tree, flags.split(), board, stored), wanted)

    def run_on_board(self, tree, flags, board, model):
        """What examples/minimal says there, linked with the tree's library."""
        image = tree / "minimal.elf"
        flags = [*flags, "-ffunction-sections", "-fdata-sections", f"-I{tree}", f"-I{SOURCE}"]
        objects = []
        for source in (MINIMAL / "minimal.c", MINIMAL / "model.S", *(PLATFORM / name for name in PLATFORM_SOURCES)):
            words = ["arm-none-eabi-gcc"]
            if source.suffix == ".cpp":
                words = ["arm-none-eabi-g++", "-std=c++20", "-fno-exceptions", "-fno-rtti", "-fno-threadsafe-statics"]
            objects.append(tree / f"board_{source.name}.o")
            run([*words, *flags, f'-DMINIMAL_MODEL="{model}"', "-c", source, "-o", objects[-1]])
        boards = PLATFORM / "boards"
        run(["arm-none-eabi-g++", *flags, "-nostartfiles", "-Wl,--gc-sections", "-Wl,--no-warn-rwx-segments", f"-L{boards}",
             f"-Wl,-T,{boards / board.replace('-', '_')}.ld", "-Wl,--undefined=_sbrk", *objects, tree / "libcria.a", "-lm",
             "-o", image])
        return run(["qemu-system-arm", "-M", board, "-display", "none", "-monitor", "none", "-serial", "none",
                    "-chardev", "file,id=console,path=/dev/stdout,append=on",
                    "-semihosting-config", "enable=on,target=native,chardev=console", "-kernel", image], stdin=subprocess.DEVNULL)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("installed", "subdirectory", "source_tree", "source_tree_arm", "pip"))
    parser.add_argument("build", type=pathlib.Path)
    for option in ("--compiler", "--cxx-compiler"):
        parser.add_argument(option, required=True)
    parser.add_argument("--launcher", nargs="*", default=[])
    args = parser.parse_args()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="cria_outside_")).resolve()
    try:
        getattr(Check(args, folder), args.what)()
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
