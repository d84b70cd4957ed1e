#!/usr/bin/env python3
"""Makes the Debian packages of a build and checks them: contents, lintian, and what they do once installed."""
import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parents[2]
PACKAGES = ("cria", "libcria-dev")
SECONDS = 300
SKIP = 77
# Of examples/two_conversations.
TWO_PROMPTS = ("Once upon a time the llama", "Once upon a time there was a fox")


def contents(triplet, is_static, libraries):
    """The files of each package."""
    lib = f"usr/lib/{triplet}"
    doc = "usr/share/doc"
    programs = {"usr/bin/cria", "usr/bin/cria-convert", "usr/share/man/man1/cria.1.gz", "usr/share/man/man1/cria-convert.1.gz"}
    programs |= {f"{doc}/cria/{name}" for name in ("README.md", "command_line.md", "server.md", "memory.md", "copyright", "changelog.gz")}
    if is_static:
        programs.add("usr/share/lintian/overrides/cria")
    development = {"usr/include/cria.h", "usr/include/cria_chat.h", "usr/include/cria_json.h", f"{lib}/libcria.a", f"{lib}/pkgconfig/cria.pc"}
    development |= {f"{lib}/cria/lib{name}.a" for name in libraries}
    development |= {f"{doc}/libcria-dev/copyright", f"{doc}/libcria-dev/changelog.gz"}
    return {"cria": programs, "libcria-dev": development}


def output(command, **options):
    """What a command prints; a failure ends the check."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=SECONDS, check=False, **options)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


def same(what, found, wanted):
    if found != wanted:
        sys.exit(f"{what}: {found}, not {wanted}")


def check_contents(deb, package, architecture, wanted):
    fields = dict(line.split(": ", 1) for line in output(["dpkg-deb", "-f", deb]).splitlines() if re.match(r"\S+: ", line))
    same(f"{deb.name}: package", fields["Package"], package)
    same(f"{deb.name}: architecture", fields["Architecture"], architecture)
    for field in ("Version", "Section", "Maintainer", "Description", "Installed-Size"):
        if not fields.get(field):
            sys.exit(f"{deb.name}: no {field}")
    rows = [line.split(None, 5) for line in output(["dpkg-deb", "-c", deb]).splitlines()]
    found = {row[5].removeprefix("./") for row in rows if not row[0].startswith("d")}
    if found != wanted:
        sys.exit(f"{deb.name}: missing {sorted(wanted - found)}, unexpected {sorted(found - wanted)}")
    print(f"{deb.name}: {len(found)} files, {deb.stat().st_size} bytes; Depends: {fields.get('Depends', 'nothing')}")


def check_lintian(debs):
    done = subprocess.run(["lintian", "--fail-on", "error", "--allow-root", *map(str, debs)], capture_output=True, text=True,
                          timeout=SECONDS, check=False)
    print(done.stdout, end="")
    if done.returncode != 0:
        sys.exit(f"lintian: {done.returncode} {done.stderr}")
    print("lintian: no errors")


def install(debs, root):
    """By dpkg, with a database of its own. What the packages depend on is the host's or nothing."""
    (root / "var/lib/dpkg/updates").mkdir(parents=True)
    (root / "var/lib/dpkg/info").mkdir()
    for name in ("status", "available"):
        (root / "var/lib/dpkg" / name).touch()
    output(["dpkg", f"--root={root}", f"--log={root}/log", "--force-architecture", "--force-depends", "--force-not-root",
            "--force-script-chrootless", "-i", *debs])
    for package in PACKAGES:
        status = output(["dpkg-query", f"--admindir={root}/var/lib/dpkg", "-W", "-f", "${Status}\n", package]).strip()
        same(f"{package} after dpkg -i", status, "install ok installed")


def check_programs(root, emulator, folder):
    cria = [*emulator, root / "usr/bin/cria"]
    model = folder / "demo.cria"
    output([*emulator, root / "usr/bin/cria-convert", SOURCE / "models/demo", "-o", model, "--quiet"])
    text = output([*cria, "run", model, "-p", "Once upon a time", "-n", "16", "--greedy", "--threads", "1"])
    print(f"cria run: {text.strip()}")
    answer = output([*cria, "chat", model, "--greedy", "--threads", "1"], input="What is a cria?\n")
    print(f"cria chat: {answer.strip()}")
    if not text.strip() or "llama" not in answer:
        sys.exit("the programs said nothing to the point")


def check_library(root, triplet, compiler, emulator, folder):
    """The examples, built with what is installed alone, say what cria run says of their prompts."""
    environment = {**os.environ, "PKG_CONFIG_LIBDIR": str(root / f"usr/lib/{triplet}/pkgconfig"),
                   "PKG_CONFIG_SYSROOT_DIR": str(root)}
    flags = output(["pkg-config", "--cflags", "--libs", "cria"], env=environment).split()
    model = folder / "stored.cria"
    output([*emulator, root / "usr/bin/cria-convert", SOURCE / "models/demo", "-o", model, "--compress", "none", "--quiet"])

    def said(prompt):
        return output([*emulator, root / "usr/bin/cria", "run", model, "-p", prompt, "-n", "24", "--greedy", "--no-echo",
                       "--backend", "exact", "--threads", "1"])

    def example(name, sources, *options):
        program = folder / name
        output([compiler, "-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-static", *options,
                *(SOURCE / "examples" / name / source for source in sources), "-o", program, *flags])
        return [*emulator, program]

    minimal = example("minimal", ("minimal.c", "model.S"), f'-DMINIMAL_MODEL="{model}"')
    same("minimal", output(minimal), said("Once upon a time"))
    two = example("two_conversations", ("two_conversations.c",))
    text = output([*two, model])
    same("two_conversations", text, "".join(f"{prompt}:{said(prompt)}" for prompt in TWO_PROMPTS))
    print(f"examples built with libcria-dev: {text.strip()}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", type=pathlib.Path)
    for option in ("--architecture", "--triplet", "--compiler", "--run"):
        parser.add_argument(option, required=True)
    args = parser.parse_args()
    missing = [tool for tool in ("cpack", "dpkg-deb", "lintian", "pkg-config") if shutil.which(tool) is None]
    if missing:
        print(f"skipped: no {', '.join(missing)} here (scripts/setup.sh --package installs them)")
        sys.exit(SKIP)
    made = args.build / "packages"
    shutil.rmtree(made, ignore_errors=True)
    output(["cpack", "--config", args.build / "CPackConfig.cmake"])
    is_static = args.run != ""
    libraries = ["zstd"] if is_static else ["XNNPACK", "microkernels-prod", "pthreadpool", "cpuinfo", "zstd"]
    wanted = contents(args.triplet, is_static, libraries)
    debs = [next(made.glob(f"{package}_*.deb")) for package in PACKAGES]
    for deb, package in zip(debs, PACKAGES):
        check_contents(deb, package, args.architecture, wanted[package])
    check_lintian(debs)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="cria_package_"))
    try:
        root = folder / "root"
        install(debs, root)
        check_programs(root, args.run.split(), folder)
        check_library(root, args.triplet, args.compiler, args.run.split(), folder)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
