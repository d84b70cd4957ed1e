#!/usr/bin/env python3
"""Where /proc and /sys are not there, as in a chroot or a sandbox, or say nothing, cria runs the same kernels and says the same
words."""

import re
import shutil
import subprocess
import sys
import unittest

import cria_cli as cli

# An empty folder over each, seen by this command alone.
HIDE = 'mount -t tmpfs none /proc && mount -t tmpfs none /sys && exec "$@"'
UNSHARE = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]
HIDDEN = [*UNSHARE, HIDE, "sh"]
# What a sandbox or lxcfs may show: a /proc/cpuinfo with this text, or that cannot be read (a folder), beside the processors' real
# folder, an empty one, or one with lists of these texts.
CPUINFO = {"empty": ": > cpuinfo", "a folder": "mkdir cpuinfo", "one line without an end": "printf x > cpuinfo",
           "no processor": "printf 'flags\t: fpu\nprocessor\t: \n' > cpuinfo",
           "one processor": "printf 'processor\t: 0\nmodel name\t: a CPU\n\n' > cpuinfo"}
LISTS = {"real": "", "none": ":", "empty": ": > possible; : > present", "no lists": "echo x > possible; echo - > present",
         "one": "echo 0 > possible; echo 0 > present"}


def shown(cpuinfo, lists):
    """The beginning of a command that sees these."""
    bind_lists = f"mkdir cpus && cd cpus && {{ {lists}; }} && cd .. && mount --bind cpus /sys/devices/system/cpu && " if lists else ""
    bind_cpuinfo = "if [ -d cpuinfo ]; then mount -t tmpfs none /proc; else mount --bind cpuinfo /proc/cpuinfo; fi && "
    make = f"cd \"$(mktemp -d)\" && mount -t tmpfs none . && cd . && {cpuinfo} && "
    return [*UNSHARE, f'd=$PWD && {make}{bind_lists}{bind_cpuinfo}cd "$d" && exec "$@"', "sh"]
PROMPT = ("--prompt", "Once upon a time", "-n", "16", "--greedy", "--verbose")


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, timeout=cli.PATIENCE_S, check=False)


def why_not():
    """Why nothing can be hidden here; an empty text where it can."""
    if cli.IS_SANITIZED or cli.IS_EMULATED:
        return "sanitizers and emulators read /proc themselves"
    if shutil.which("unshare") is None:
        return "there is no unshare"
    done = run(*HIDDEN, "true")
    return done.stderr.strip() or f"unshare: {done.returncode}" if done.returncode != 0 else ""


class WithoutProc(unittest.TestCase):
    def setUp(self):
        self.model = cli.model()

    def both(self, *arguments):
        command = cli.command_line(arguments)
        there, hidden = run(*command), run(*HIDDEN, *command)
        self.assertEqual((there.returncode, hidden.returncode), (cli.DONE, cli.DONE), hidden.stderr)
        return there, hidden

    def test_the_kernels_and_the_words_are_the_same(self):
        for backend in ("exact", "auto"):
            there, hidden = self.both("run", self.model, *PROMPT, "--backend", backend)
            self.assertEqual(there.stdout, hidden.stdout)
            kernels = [re.search(r", ([^,]+ kernels[^,]*),", done.stderr).group(1) for done in (there, hidden)]
            self.assertEqual(*kernels)

    def test_no_library_complains(self):
        _, hidden = self.both("run", self.model, *PROMPT[:-1])
        self.assertRegex(hidden.stderr, r"\Aprefill [^\n]+\n\Z")  # cria's own

    def test_what_xnnpack_lacks_is_said(self):
        model = cli.model("--weights", "int4", "--scales", "positive")
        for command in (("run", model, *PROMPT), ("info", model), ("bench", model, "-p", "8", "-n", "4", "-r", "1")):
            line = cli.command_line((*command, "--backend", "xnnpack"))
            if run(*line).returncode != cli.DONE:
                self.skipTest("this build has no XNNPACK")
            for hidden in (HIDDEN, shown(CPUINFO["empty"], LISTS["none"])):
                done = run(*hidden, *line)
                self.assertEqual((done.returncode, done.stdout), (cli.BAD_INPUT, ""))
                self.assertRegex(done.stderr, r"\A[^\n]+: XNNPACK needs /proc/cpuinfo, [^\n]+; try --backend exact\n\Z")

    def test_cores_are_not_said_where_they_are_not_known(self):
        there, hidden = self.both("bench", self.model, "-p", "8", "-n", "4", "-r", "1")
        self.assertRegex(there.stdout + there.stderr, r", \d+ cores?;")
        self.assertRegex(hidden.stdout + hidden.stderr, r", \d+ processors?;")

    def test_what_says_nothing_of_processors_ends_no_command(self):
        whole = run(*cli.command_line(("run", self.model, *PROMPT))).stdout
        int4 = cli.model("--weights", "int4", "--scales", "positive")  # which XNNPACK takes
        for name, cpuinfo in CPUINFO.items():
            for list_name, lists in LISTS.items():
                with self.subTest(cpuinfo=name, lists=list_name):
                    hidden = shown(cpuinfo, lists)
                    version = run(*hidden, *cli.command_line(("--version",)))
                    self.assertEqual((version.returncode, version.stderr), (cli.DONE, ""))
                    if list_name == "none":
                        done = run(*hidden, *cli.command_line(("run", self.model, *PROMPT)))
                        self.assertEqual((done.returncode, done.stdout), (cli.DONE, whole), done.stderr)
                        for form in ((), ("--json",)):
                            info = run(*hidden, *cli.command_line(("info", int4, *form)))
                            self.assertEqual((info.returncode, info.stderr), (cli.DONE, ""))

    def test_the_other_commands_work(self):
        for command in (("info", self.model), ("verify", self.model), ("bench", self.model, "-p", "8", "-n", "4", "-r", "1")):
            self.both(*command)


if __name__ == "__main__":
    reason = why_not()
    if reason:
        print(f"skipped: {reason}", file=sys.stderr)
        sys.exit(cli.SKIP)
    cli.main()
