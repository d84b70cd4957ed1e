"""The process that renders chat templates: what it can still do, what ends it, and what happens where there is no Jinja2."""
import json
import os
import subprocess
import sys
import textwrap
import unittest

import cria_cli as cli

SCRIPT = cli.SOURCE / "converter" / "chat_template" / "render_template.py"
CHATML = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
REQUEST = {"messages": [], "tools": None, "variables": {}, "opens_turn": True, "date": [2024, 7, 26]}


def python_with_jinja2():
    """As the converter looks for it."""
    for folder in os.get_exec_path():
        path = os.path.join(folder, "python3")
        if not os.path.isabs(path) or not os.access(path, os.X_OK):
            continue
        if subprocess.run([path, "-I", "-c", "import jinja2"], capture_output=True).returncode == 0:
            return path
    return None


PYTHON = python_with_jinja2()

# Each says what came of it, in one write to standard output; a child of fork must not go on.
ATTEMPTS = {
    "open a file": "os.open('/etc/passwd', os.O_RDONLY)",
    "write a file": "os.open('/tmp/cria_chat_template_process_test', os.O_CREAT | os.O_WRONLY)",
    "look at a file": "os.stat('/etc/passwd')",
    "list a folder": "os.listdir('/')",
    "make a socket": "socket.socket()",
    "make a pipe": "os.pipe()",
    "fork": "os.fork() or os._exit(0)",
    "become a program": "os.execv('/bin/true', ['true'])",
    "start a program": "subprocess.run(['/bin/true'])",
    "signal a process": "os.kill(os.getppid(), 0)",
    "read another file descriptor": "os.read(2, 1)",
    "write another file descriptor": "os.write(2, b'x')",
    "copy a file descriptor": "os.dup(0)",
    "raise a limit": "resource.setrlimit(resource.RLIMIT_NOFILE, (9, 9))",
    "execute memory": "mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)",
    "import a module": "__import__('turtle')",
}
STILL_WORKS = {
    "get memory": "bytearray(1 << 24)",
    "read standard input": "os.read(0, 1)",
    "render": "jinja2.Environment().from_string('{{ 1 + 1 }}').render()",
}


def attempt(what, limits_alone=False):
    """Whether it fails in a process that has given up system calls; None: the kernel has no filters."""
    program = textwrap.dedent(f"""
        import importlib.util, mmap, os, resource, signal, socket, subprocess, jinja2
        spec = importlib.util.spec_from_file_location("render_template", {str(SCRIPT)!r})
        script = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(script)
        script.warm_up()
        if {limits_alone}:
            script.load_libseccomp = lambda: None
        is_filtered = script.give_up_system_calls()
        try:
            {what}
            said = b"done"
        except (OSError, ImportError, ValueError):
            said = b"failed"
        os.write(1, said if is_filtered or {limits_alone} else b"unfiltered")
        os._exit(0)
        """)
    made = subprocess.run([PYTHON, "-I", "-B", "-c", program], input=b"x", capture_output=True, timeout=cli.PATIENCE_S)
    return made.stdout.decode() or f"ended: {made.returncode} {made.stderr.decode()}"


def answers(template, *requests, seconds=5):
    lines = [{"template": template, "tokens": {}}, *requests]
    made = subprocess.run([PYTHON, "-I", "-B", "-c", SCRIPT.read_text(), str(seconds), str(1 << 28), str(1 << 20)],
                          input="".join(json.dumps(line) + "\n" for line in lines), capture_output=True, text=True,
                          timeout=cli.PATIENCE_S)
    return made.returncode, [json.loads(line) for line in made.stdout.splitlines()]


def convert(folder, path=None, *options):
    out = folder / "made.cria"
    environment = dict(os.environ) if path is None else {**os.environ, "PATH": str(path)}
    made = subprocess.run([str(cli.BIN / "cria-convert"), str(cli.DEMO), "-o", str(out), "--quiet", *options],
                          capture_output=True, text=True, timeout=cli.PATIENCE_S, env=environment)
    return made.returncode, made.stderr


@unittest.skipUnless(PYTHON, "no python3 with jinja2")
class Process(unittest.TestCase):
    def test_a_filter_of_system_calls_holds(self):
        if attempt("pass") == "unfiltered":
            self.skipTest("no libseccomp, or a kernel without filters")
        for name, what in ATTEMPTS.items():
            with self.subTest(name):
                self.assertEqual(attempt(what), "failed")
        for name, what in STILL_WORKS.items():
            with self.subTest(name):
                self.assertEqual(attempt(what), "done")

    def test_without_a_filter_limits_hold(self):
        for name in ("open a file", "write a file", "make a socket", "make a pipe", "copy a file descriptor", "import a module"):
            with self.subTest(name):
                self.assertEqual(attempt(ATTEMPTS[name], limits_alone=True), "failed")

    def test_what_never_ends_is_ended(self):
        for template in ("{{ 10 ** (10 ** 9) }}", "{% for a in range(90000) %}{% for b in range(90000) %}{% endfor %}{% endfor %}"):
            code, said = answers(template, REQUEST, seconds=1)
            self.assertLess(code, 0, template)
            self.assertLessEqual(len(said), 2)

    def test_what_is_no_template_ends_with_a_line(self):
        for template in ("{% if %}", "{{", "{{ " + "(" * 50000, "{% endfor %}", "\0{{ 'x' | nobody }}"):
            code, said = answers(template, REQUEST)
            self.assertEqual(code, 0, template[:20])
            self.assertTrue("error" in said[-1], said)

    def test_a_process_without_anybody_ends(self):
        code, said = answers(CHATML)
        self.assertEqual((code, len(said)), (0, 2))


@unittest.skipIf(cli.IS_EMULATED, "the emulator is found by PATH")
class Absence(unittest.TestCase):
    def setUp(self):
        self.folder = cli.folder() / self.id().rsplit(".", 1)[-1]
        self.folder.mkdir()

    def test_without_python_names_still_work(self):
        code, err = convert(self.folder, self.folder)
        self.assertEqual(code, cli.DONE, err)
        self.assertIn("needs Python and Jinja2", err)
        self.assertIn("python3-jinja2", err)
        self.assertEqual(sum("chat template" in line for line in err.splitlines()), 1)
        code, err = convert(self.folder, self.folder, "--chat-template", "llama3")
        self.assertEqual((code, err), (cli.DONE, ""))

    def test_without_jinja2(self):
        # An environment of its own, with Python's own modules alone.
        (self.folder / "bin").mkdir()
        (self.folder / "bin" / "python3").symlink_to(os.path.realpath(PYTHON or sys.executable))
        (self.folder / "pyvenv.cfg").write_text(
            f"home = {os.path.dirname(os.path.realpath(PYTHON or sys.executable))}\ninclude-system-site-packages = false\n")
        code, err = convert(self.folder, self.folder / "bin")
        self.assertEqual(code, cli.DONE, err)
        self.assertRegex(err, "the chat template needs Jinja2 to be applied: cria chat will not be available; install the package "
                              "python3-jinja2 and convert again, or give --chat-template NAME\n")

    @unittest.skipUnless(PYTHON, "no python3 with jinja2")
    def test_only_programs_of_absolute_folders_are_started(self):
        """A script, as of a version manager, or what lies in the current folder, is passed over."""
        witness = self.folder / "was_started"
        script = self.folder / "python3"
        script.write_text(f"#!/bin/sh\ntouch {witness}\n")
        script.chmod(0o755)
        before = os.getcwd()
        os.chdir(self.folder)
        try:
            code, err = convert(self.folder, f"{self.folder}:.::{os.path.dirname(PYTHON)}")
        finally:
            os.chdir(before)
        self.assertEqual((code, err), (cli.DONE, ""))
        self.assertFalse(witness.exists())


if __name__ == "__main__":
    cli.main()
