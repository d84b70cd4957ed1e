"""What the command-line tests of cria share: the programs, a model converted once, a terminal."""
import fcntl
import json
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
import unittest
from pathlib import Path

BIN = Path(os.environ.get("CRIA_BIN_DIR", "build/release/bin"))
SOURCE = Path(os.environ.get("CRIA_SOURCE_DIR", Path(__file__).resolve().parents[2]))
TEST_DATA = Path(os.environ.get("CRIA_TEST_DATA", "build/release/tests/data"))
DEMO = SOURCE / "models" / "demo"
CRIA = str(BIN / "cria")
SKIP = 77
# In a cross build the programs are wrappers of this emulator (tests/CMakeLists.txt).
IS_EMULATED = "CRIA_EMULATOR" in os.environ
# Long sweeps try a part of their cases, as tests/support/sampling.h says.
IS_SAMPLED = os.environ.get("CRIA_TEST_ONE_IN", "1") != "1"
# The thread sanitizer's programs are some twenty times slower; all sanitizers' hold memory of their own.
_PROGRAM = b"" if IS_EMULATED or not Path(CRIA).exists() else Path(CRIA).read_bytes()
IS_THREAD_SANITIZED = b"__tsan_init" in _PROGRAM
IS_SANITIZED = IS_THREAD_SANITIZED or b"__asan_init" in _PROGRAM or b"__ubsan_handle" in _PROGRAM
del _PROGRAM
# How long tests wait for what always comes, in whatever language else the product is asked: it is spent only where something
# hangs. The longest single command takes some seconds at rest; two cores that four other programs want take ten times as long.
PATIENCE_S = 900 if IS_EMULATED or IS_SANITIZED else 300

DONE, USAGE, BAD_INPUT, IO, MEMORY, INCOMPLETE, INTERRUPTED = 0, 2, 3, 4, 5, 6, 130

# A chat template that takes calls and results whose ids have nine characters alone, as Mistral Small's does.
_IS_NINE = "{% if not id or id|length != 9 %}{{ raise_exception('id') }}{% endif %}"
IDS_OF_NINE = ("{% if tools %}{% for t in tools %}{{ t | tojson }}{% endfor %}{% endif %}{% for m in messages %}"
               "{% if m.role == 'tool' %}{% set id = m.tool_call_id %}" + _IS_NINE + "[result {{ id }}]{{ m.content }}"
               "{% elif m.tool_calls %}[assistant]{% for c in m.tool_calls %}{% set id = c.id %}" + _IS_NINE +
               '<tool_call>\n{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}, "id": "{{ id }}"}'
               "\n</tool_call>{% endfor %}{% else %}[{{ m.role }}]{{ m.content }}{% endif %}</s>{% endfor %}"
               "{% if add_generation_prompt %}[assistant]{% endif %}")

# One whose markers have characters of several bytes: an answer may be cut inside of one.
WIDE_MARKERS = ("{% if tools %}{% for t in tools %}{{ t | tojson }}{% endfor %}{% endif %}{% for m in messages %}"
                "{% if m.role == 'tool' %}[result]{{ m.content }}{% elif m.tool_calls %}[assistant]{% for c in m.tool_calls %}"
                '<\uff5ccall\uff5c>\n{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}\n<\uff5cend\uff5c>'
                "{% endfor %}{% else %}[{{ m.role }}]{{ m.content }}{% endif %}</s>{% endfor %}"
                "{% if add_generation_prompt %}[assistant]{% endif %}")

_folder = None
_models = {}


def folder():
    """A folder for this test's files, removed by main."""
    global _folder
    if _folder is None:
        _folder = Path(tempfile.mkdtemp(prefix="cria_cli_"))
    return _folder


def model(*options):
    """The demo model converted with these options of cria-convert; once for each list of them."""
    return converted(DEMO, *options)


def converted(checkpoint, *options):
    """The same of another checkpoint."""
    key = (checkpoint, *options)
    if key not in _models:
        path = folder() / f"{checkpoint.name}{len(_models)}.cria"
        command = [str(BIN / "cria-convert"), str(checkpoint), "-o", str(path), "--quiet", *options]
        made = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
        if made.returncode != 0:
            raise RuntimeError(f"{command}: {made.returncode}\n{made.stderr}")
        _models[key] = str(path)
    return _models[key]


class Result:
    def __init__(self, code, out, err):
        self.code, self.raw, self.err = code, out, err

    @property
    def out(self):
        return self.raw.decode("utf-8")


def command_line(arguments):
    """One thread unless a test asks for more: threads that wait for each other crawl on a busy machine."""
    arguments = [str(argument) for argument in arguments]
    opens_session = arguments and arguments[0] in ("info", "run", "chat", "bench", "tokenize", "calls", "logits", "embed", "eval",
                                                   "serve")
    if opens_session and "--threads" not in arguments and "--help" not in arguments:
        arguments += ["--threads", "1"]
    return [CRIA, *arguments]


def cria(*arguments, stdin=b"", env=None):
    """Runs cria to its end without a terminal."""
    if isinstance(stdin, str):
        stdin = stdin.encode("utf-8")
    done = subprocess.run(command_line(arguments), input=stdin, capture_output=True, timeout=PATIENCE_S,
                          env={**os.environ, **(env or {})})
    return Result(done.returncode, done.stdout, done.stderr.decode("utf-8"))


def backends():
    """Names of the backends that this build has."""
    plans = json.loads(cria("info", model(*options_for("xnnpack")), "--json").out)["backend_plans"]
    return [name for name, plan in plans.items() if plan is not None]


def plan_for(*options, model=None):
    """What cria info says of memory; without a model, of the usual one."""
    result = cria("info", model or converted(DEMO), "--json", *options)
    if result.code != DONE:
        raise AssertionError(result.err)
    return json.loads(result.out)["memory_plan"]


def options_for(backend):
    """Of cria-convert, for an int4 model that the backend runs."""
    return ("--scales", "positive") if backend == "xnnpack" else ()


def golden():
    return json.loads((DEMO / "golden.json").read_text("utf-8"))["prompts"]


def edits_lines():
    """Whether this build edits lines on a terminal."""
    return "line editing: libedit" in cria("--version").out


class Terminal:
    """cria on a pseudo terminal."""

    def __init__(self, *arguments, columns=80, env=None, stdin=None, stdout=None):
        """stdin: bytes that come through a pipe instead; stdout: a file that takes the place of the terminal's."""
        self.shown = b""
        command = command_line(arguments)
        # The history of lines of whoever runs the tests stays as it is.
        variables = {**os.environ, "TERM": "xterm", "XDG_STATE_HOME": str(folder() / "state"), **(env or {})}
        if not env or "NO_COLOR" not in env:
            variables.pop("NO_COLOR", None)
        self.pid, self.descriptor = pty.fork()
        if self.pid == 0:
            # The size is set before the program can ask for it.
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
            try:
                if stdout is not None:
                    os.dup2(os.open(stdout, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), 1)
                if stdin is not None:
                    reader, writer = os.pipe()
                    os.write(writer, stdin)
                    os.close(writer)
                    os.dup2(reader, 0)
                os.execve(CRIA, command, variables)
            finally:
                os._exit(127)  # or two processes would run the tests

    def _read(self, seconds):
        ready, _, _ = select.select([self.descriptor], [], [], seconds)
        if not ready:
            return False
        try:
            data = os.read(self.descriptor, 65536)
        except OSError:  # the other side is closed
            return False
        self.shown += data
        return bool(data)

    def wait_for(self, pattern, start=0):
        """Reads until the bytes shown from start on match; gives the match's end."""
        end = time.monotonic() + PATIENCE_S
        while True:
            found = re.compile(pattern, re.S).search(self.shown, start)
            if found:
                return found.end()
            if time.monotonic() > end or not self._read(PATIENCE_S):
                raise AssertionError(f"no {pattern!r} in {self.shown[start:]!r}")

    def send(self, text):
        os.write(self.descriptor, text)

    def finish(self):
        """Reads to the end; gives the exit code."""
        while self._read(PATIENCE_S):
            pass
        end = time.monotonic() + PATIENCE_S
        while True:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid != 0:
                break
            if time.monotonic() > end:
                raise AssertionError(f"still running after {self.shown!r}")
            time.sleep(0.01)
        os.close(self.descriptor)
        self.descriptor = -1
        return os.waitstatus_to_exitcode(status)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.descriptor >= 0:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            os.close(self.descriptor)


def talk(*arguments, lines, model_path=None, pause=0):
    """Each line at the prompt of cria chat on a terminal, pause seconds after it; gives the exit code and what was shown after
    each line, without progress: it is drawn, and wiped, only where reading takes long."""
    shown = []
    # So wide that nothing is wrapped; the terminal's line editing takes 4095 bytes.
    with Terminal("chat", model_path or model(), "--greedy", *arguments, columns=10000, env={"NO_COLOR": "1"}) as terminal:
        start = terminal.wait_for(rb"> \Z")
        for line in lines:
            time.sleep(pause)
            terminal.send(line.encode() + b"\n")
            start = terminal.wait_for(re.escape(line.encode()) + rb"\r\n", start)
            if line in ("/exit", "/quit"):
                break
            end = terminal.wait_for(rb"> \Z", start)
            left = re.sub(rb"\r[^\r\n\x1b]*\x1b\[K", b"", terminal.shown[start:end - 2])
            shown.append(left.decode("utf-8").replace("\r\n", "\n"))
            start = end
        else:
            terminal.send(b"\x04")
        return terminal.finish(), shown


def main():
    """Runs the calling module's tests; skips them all where there is nothing to test."""
    for name in ("cria", "cria-convert"):
        if not (BIN / name).exists():
            print(f"skipped: {BIN / name} is not built")
            sys.exit(SKIP)
    try:
        program = unittest.main(module="__main__", exit=False, verbosity=2)
    finally:
        if _folder is not None:
            shutil.rmtree(_folder, ignore_errors=True)
    sys.exit(0 if program.result.wasSuccessful() and program.result.testsRun > 0 else 1)
