#!/usr/bin/env python3
"""Where /proc and /sys are not there, as in a chroot or a sandbox, cria runs the same kernels and says the same words."""

import re
import shutil
import subprocess
import sys
import unittest

import cria_cli as cli

# An empty folder over each, seen by this command alone.
HIDE = 'mount -t tmpfs none /proc && mount -t tmpfs none /sys && exec "$@"'
HIDDEN = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", HIDE, "sh"]
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
            hidden = run(*HIDDEN, *line)
            self.assertEqual((hidden.returncode, hidden.stdout), (cli.BAD_INPUT, ""))
            self.assertRegex(hidden.stderr, r"\A[^\n]+: XNNPACK needs /proc/cpuinfo, [^\n]+; try --backend exact\n\Z")

    def test_cores_are_not_said_where_they_are_not_known(self):
        there, hidden = self.both("bench", self.model, "-p", "8", "-n", "4", "-r", "1")
        self.assertRegex(there.stdout + there.stderr, r", \d+ cores?;")
        self.assertRegex(hidden.stdout + hidden.stderr, r", \d+ processors?;")

    def test_the_other_commands_work(self):
        for command in (("info", self.model), ("verify", self.model), ("bench", self.model, "-p", "8", "-n", "4", "-r", "1")):
            self.both(*command)


if __name__ == "__main__":
    reason = why_not()
    if reason:
        print(f"skipped: {reason}", file=sys.stderr)
        sys.exit(cli.SKIP)
    cli.main()
