#!/usr/bin/env python3
"""Makes the Debian packages of a build and checks them: contents, lintian, and what they do once installed."""
import argparse
import gzip
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.request

SOURCE = pathlib.Path(__file__).resolve().parents[2]
PACKAGES = ("cria", "libcria0", "libcria-dev", "python3-cria")
SECONDS = 300
SKIP = 77
SERVICE = "usr/lib/systemd/system/cria-serve.service"
MOST_EXPOSURE = 20  # tenths, as systemd-analyze security counts
# In libcria-dev.
EXAMPLES = {"minimal": ("minimal.c", "model.S"), "two_conversations": ("two_conversations.c",)}
# Of two_conversations.
TWO_PROMPTS = ("Once upon a time the llama", "Once upon a time there was a fox")


def contents(triplet, is_static, libraries):
    """The files of each package."""
    lib = f"usr/lib/{triplet}"
    doc = "usr/share/doc"
    programs = {"usr/bin/cria", "usr/bin/cria-convert", "usr/share/man/man1/cria.1.gz", "usr/share/man/man1/cria-convert.1.gz"}
    programs |= {f"{doc}/cria/{name}" for name in ("README.md", "SECURITY.md", "CHANGELOG.md", "copyright", "changelog.gz")}
    programs |= {f"{doc}/cria/{path.relative_to(SOURCE)}" for path in (SOURCE / "docs").rglob("*")
                 if path.suffix in (".md", ".json", ".svg", ".png")}
    programs.add(SERVICE)
    if is_static:
        programs.add("usr/share/lintian/overrides/cria")
    shared = {f"{lib}/lib{name}.so.{version}" for name in ("cria", "cria_host") for version in ("0", "0.1.0")}
    shared |= {f"{doc}/libcria0/copyright", f"{doc}/libcria0/changelog.gz"}
    development = {"usr/include/cria.h", "usr/include/cria_call_grammar.h", "usr/include/cria_calls.h",
                   "usr/include/cria_chat.h", "usr/include/cria_json.h", f"{lib}/libcria.a",
                   f"{lib}/libcria.so", f"{lib}/pkgconfig/cria.pc", f"{lib}/cmake/cria/cria-config.cmake",
                   f"{lib}/cmake/cria/cria-config-version.cmake"}
    development |= {f"{lib}/cria/lib{name}.a" for name in libraries}
    development |= {f"{doc}/libcria-dev/{name}" for name in ("embedding.md", "copyright", "changelog.gz")}
    development |= {f"{doc}/libcria-dev/examples/{name}/{source}" for name, sources in EXAMPLES.items() for source in sources}
    module = {f"usr/lib/python3/dist-packages/cria/{path.name}" for path in (SOURCE / "python/cria").iterdir() if path.is_file()}
    module |= {f"{doc}/python3-cria/{name}" for name in ("python.md", "copyright", "changelog.gz")}
    module |= {f"{doc}/python3-cria/examples/{path.name}" for path in (SOURCE / "examples/python").glob("*.py")}
    return {"cria": programs, "libcria0": shared, "libcria-dev": development, "python3-cria": module}


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
    same(f"{deb.name}: architecture", fields["Architecture"], "all" if package == "python3-cria" else architecture)
    for field in ("Version", "Section", "Maintainer", "Description", "Installed-Size"):
        if not fields.get(field):
            sys.exit(f"{deb.name}: no {field}")
    rows = [line.split(None, 5) for line in output(["dpkg-deb", "-c", deb]).splitlines()]
    found = {row[5].removeprefix("./").split(" -> ")[0] for row in rows if not row[0].startswith("d")}
    if found != wanted:
        sys.exit(f"{deb.name}: missing {sorted(wanted - found)}, unexpected {sorted(found - wanted)}")
    scripts = set(re.findall(r"^ .* \* +(\w+) +#!/bin/sh$", output(["dpkg-deb", "-I", deb]), re.MULTILINE))
    if package == "cria":  # those of libcria0 are CPack's
        same(f"{deb.name}: scripts", scripts, {"postinst", "prerm", "postrm"})
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


def check_documents(root):
    """Links of the installed documents lead somewhere; those of the package cria may say where something is in the sources."""
    doc = root / "usr/share/doc"
    pages = [page for package in PACKAGES for page in (doc / package).rglob("*.md")]
    same("README.md and server.md are there", [(doc / "cria" / name).is_file() for name in ("README.md", "docs/server.md")], [True, True])
    dangling = []
    for page in pages:
        for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
            there = page.parent / link
            in_sources = (SOURCE / page.parent.relative_to(doc / "cria") / link) if page.is_relative_to(doc / "cria") else None
            is_of_sources = in_sources is not None and in_sources.exists() and not in_sources.resolve().is_relative_to(SOURCE / "docs")
            if not there.exists() and not is_of_sources:
                dangling.append(f"{page.relative_to(doc)}: {link}")
    same("links that lead nowhere", dangling, [])
    for page in (root / "usr/share/man/man1").iterdir():
        for name in re.findall(r"^/usr/share/doc/[\w/.-]+\.md", gzip.decompress(page.read_bytes()).decode(), re.MULTILINE):
            same(f"{page.name}: {name}", (root / name[1:]).is_file(), True)
    print(f"{len(pages)} documents")


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


def check_service(root, folder):
    """The unit means something to systemd, shuts the server in, and was neither enabled nor started."""
    enabled = [path for path in (root / "etc").rglob("*cria*")] if (root / "etc").exists() else []
    same("units enabled by the package", enabled, [])
    if shutil.which("systemd-analyze") is None:
        print("cria-serve.service: not checked, no systemd-analyze here")
        return
    unit = folder / "cria-serve.service"
    unit.write_text((root / SERVICE).read_text().replace("/usr/bin/cria", str(root / "usr/bin/cria")))
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", unit], capture_output=True, text=True, timeout=SECONDS, check=False)
    same("systemd-analyze verify", (done.returncode, done.stdout + done.stderr), (0, ""))  # unknown names are only told
    lines = output(["systemd-analyze", "security", "--offline=true", f"--threshold={MOST_EXPOSURE}", unit]).splitlines()
    print(lines[-1].strip())


def check_service_starts(root, emulator, folder):
    """The unit's command line, with its variables put in as systemd does, is one that cria takes: it answers, and SIGTERM
    is its end."""
    unit = (root / SERVICE).read_text()
    values = dict(re.findall(r"^Environment=(\w+)=(.*)$", unit, re.MULTILINE))
    same("the unit's variables", sorted(values), ["CRIA_MODEL", "CRIA_OPTIONS"])
    same("options", values["CRIA_OPTIONS"], "")
    same("what starts it", re.search(r"^ExecStart=(.*)$", unit, re.MULTILINE).group(1), "/usr/bin/cria serve ${CRIA_MODEL} $CRIA_OPTIONS")
    for options in ((), ("--sessions", "2")):  # the port is not the default one, which another program may have
        server = subprocess.Popen([*emulator, root / "usr/bin/cria", "serve", folder / "demo.cria", *options, "--port", "0"],
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            address = next((line.split()[-1] for line in server.stdout if line.startswith("listening on http://")), None)
            if address is None:
                sys.exit(f"the service did not start: {server.stderr.read()}")
            request = urllib.request.Request(f"{address}/v1/chat/completions", json.dumps(
                {"messages": [{"role": "user", "content": "What is a cria?"}], "temperature": 0}).encode())
            with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=SECONDS) as answer:
                text = json.load(answer)["choices"][0]["message"]["content"]
            server.terminate()
            same("the service after SIGTERM", server.wait(SECONDS), 0)
        finally:
            server.kill()
            server.communicate()
        if "llama" not in text:
            sys.exit(f"the service said nothing to the point: {text}")
    print(f"cria serve: {text}")


def check_library(root, triplet, compiler, emulator, folder):
    """The examples, built with what is installed alone, say what cria run says of their prompts."""
    libraries = root / f"usr/lib/{triplet}"
    environment = {**os.environ, "PKG_CONFIG_LIBDIR": str(libraries / "pkgconfig")}

    def flags(*options):
        return output(["pkg-config", "--cflags", "--libs", *options, "cria"], env=environment).split()

    model = folder / "stored.cria"
    output([*emulator, root / "usr/bin/cria-convert", SOURCE / "models/demo", "-o", model, "--compress", "none", "--quiet"])

    def said(prompt):
        return output([*emulator, root / "usr/bin/cria", "run", model, "-p", prompt, "-n", "24", "--greedy", "--no-echo",
                       "--backend", "exact", "--threads", "1"])

    def example(name, *options):
        program = folder / name
        output([compiler, "-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror", *options,
                *(root / "usr/share/doc/libcria-dev/examples" / name / source for source in EXAMPLES[name]), "-o", program,
                *flags(*(("--static",) if "-static" in options else ()))])
        return program

    minimal = example("minimal", "-static", f'-DMINIMAL_MODEL="{model}"')
    same("minimal", output([*emulator, minimal]), said("Once upon a time"))
    wanted = "".join(f"{prompt}:{said(prompt)}" for prompt in TWO_PROMPTS)
    two = example("two_conversations", "-static")
    text = output([*emulator, two, model])
    same("two_conversations", text, wanted)
    two = example("two_conversations")
    loader = [*emulator, "-L", f"/usr/{triplet}", "-E", f"LD_LIBRARY_PATH={libraries}"] if emulator else []
    same("two_conversations with libcria.so.0", output([*loader, two, model], env={**os.environ, "LD_LIBRARY_PATH": str(libraries)}),
         wanted)
    print(f"examples built with libcria-dev: {text.strip()}")


def check_shared(root, triplet, architecture):
    """Pages of 16 KB are what some 64-bit Arm kernels have; what is not of the headers is not shown."""
    wanted = {"libcria.so.0": (SOURCE / "runtime/include/cria_symbols.txt").read_text().split(),
              "libcria_host.so.0": ["cria_host_call_problem_text", "cria_host_calls_taken", "cria_host_cancel", "cria_host_close",
                                    "cria_host_conversation_close", "cria_host_conversation_read", "cria_host_json_problem_text", "cria_host_open"]}
    for name in wanted:
        listed = output(["readelf", "-lW", root / f"usr/lib/{triplet}/{name}"])
        least = min(int(align, 16) for align in re.findall(r"^ +LOAD .*(0x[0-9a-f]+)$", listed, re.MULTILINE))
        if architecture == "arm64" and least < 0x4000:
            sys.exit(f"{name}: segments are aligned to {least:#x}")
        print(f"{name}: segments aligned to {least:#x}")
        # By readelf, which reads every machine's. Names of the version script and what is only used are left out.
        rows = [line.split() for line in output(["readelf", "--dyn-syms", "-W", root / f"usr/lib/{triplet}/{name}"]).splitlines()]
        shown = sorted(row[7].split("@")[0] for row in rows if len(row) >= 8 and row[4] in ("GLOBAL", "WEAK") and row[6] != "UND")
        same(f"symbols of {name}", shown, wanted[name])


def check_python(root, folder):
    """The module finds the library that lies beside it in the same root."""
    environment = {name: value for name, value in os.environ.items() if name != "CRIA_LIBRARY"}
    code = "import cria, sys; print(cria.__file__, cria.Model(sys.argv[1]).chat('What is a cria?', temperature=0))"
    text = output([sys.executable, "-c", code, folder / "demo.cria"],
                  env={**environment, "PYTHONPATH": str(root / "usr/lib/python3/dist-packages"), "PYTHONDONTWRITEBYTECODE": "1"},
                  cwd=folder)
    print(f"python3-cria: {text.strip()}")
    if not text.startswith(str(root)) or "llama" not in text:
        sys.exit("the Python module said nothing to the point")


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
        check_documents(root)
        output(["cmake", "--install", args.build, "--prefix", folder / "prefix", "--component", "cria"])
        same("units of an installation that is no package", list((folder / "prefix").rglob("*.service")), [])
        check_service(root, folder)
        check_service_starts(root, args.run.split(), folder)
        check_library(root, args.triplet, args.compiler, args.run.split(), folder)
        check_shared(root, args.triplet, args.architecture)
        if not args.run:
            check_python(root, folder)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
