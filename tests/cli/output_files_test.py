"""Files that the programs write: whole or not at all, whatever disturbs them, and nothing else changed."""
import os
import random
import re
import resource
import shutil
import signal
import stat
import subprocess
import time
import unittest
from pathlib import Path

import cria_cli as cli

TEMPORARY = re.compile(r"cria-[0-9a-f]{16}\.tmp\Z")
PROMPT = rb">(?:\x1b\[0m)? \Z"
IDS = ",".join(str(token * 37 % 2048) for token in range(400))
RANDOM = random.Random(5)


class Files(unittest.TestCase):
    def setUp(self):
        self.folder = Path(cli.tempfile.mkdtemp(dir=cli.folder()))
        self.path = self.folder / "out"

    def left(self):
        """What is in the folder, but for what a kill leaves."""
        return sorted(name for name in os.listdir(self.folder) if not TEMPORARY.match(name))

    def commands(self):
        """Each program's way to write a file, long enough to be disturbed."""
        return {"logits": cli.command_line(["logits", cli.model(), "--ids", IDS, "-o", self.path]),
                "convert": [str(cli.BIN / "cria-convert"), str(cli.DEMO), "-o", str(self.path), "--quiet",
                            "--level", "9", "--threads", "1"]}

    def save(self, path, after=None):
        """Saves a conversation of one line on a terminal; gives the exit code."""
        with cli.Terminal("chat", cli.model(), "--greedy", "--seed", "1") as terminal:
            terminal.wait_for(PROMPT)
            terminal.send(b"hello\n")
            end = terminal.wait_for(rb"hello\r\n")
            end = terminal.wait_for(PROMPT, end)
            terminal.send(f"/save {path}\n".encode())
            if after is not None:
                after(terminal)
            else:
                terminal.wait_for(rb"\(saved", end)
                terminal.send(b"/exit\n")
            return terminal.finish()


class Disturbed(Files):
    def while_it_writes(self, command, act):
        """Calls act(process) once the program writes; gives its exit code and what it said."""
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
            end = time.monotonic() + cli.PATIENCE_S
            while len(os.listdir(self.folder)) < 2 and process.poll() is None and time.monotonic() < end:
                time.sleep(0.0005)
            act(process)
            lines = process.communicate(timeout=cli.PATIENCE_S)[1]
            return process.returncode, lines

    def in_time(self, disturb):
        """What disturb gives; again where a busy machine let the program be done before."""
        for _ in range(50):
            code, lines = disturb()
            if code != cli.DONE:
                return code, lines
        return self.fail("it is always done before it is disturbed")

    def test_a_signal_leaves_the_old_file_alone(self):
        for name, command in self.commands().items():
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                with self.subTest(program=name, signal=number):
                    def interrupt():
                        self.path.write_text("before")
                        return self.while_it_writes(command, lambda process: process.send_signal(number))

                    self.assertEqual(self.in_time(interrupt)[0], -number)
                    self.assertEqual(self.path.read_text(), "before")
                    self.assertEqual(os.listdir(self.folder), ["out"])

    def test_a_report_never_tells_of_a_model_that_is_not_in_place(self):
        """A folder takes the name of one of two outputs once both are being written."""
        report = self.folder / "report"
        command = [*self.commands()["convert"], "--report", str(report)]
        for taken, left in ((self.path, ["out"]), (report, ["out", "report"])):
            with self.subTest(taken=taken.name):
                def take(_):
                    try:
                        taken.mkdir()
                    except FileExistsError:
                        pass

                def disturb():
                    for path in self.folder.iterdir():
                        path.unlink()
                    return self.while_it_writes(command, take)

                code, lines = self.in_time(disturb)
                self.assertEqual(code, cli.IO, lines)
                self.assertRegex(lines, rf"\Acria-convert: error: {taken}: cannot write: [^\n]*\n\Z")
                self.assertEqual(sorted(os.listdir(self.folder)), left)
                self.assertEqual(f"the model {self.path} is in place" in lines, taken == report)
                taken.rmdir()
        self.assertEqual(cli.cria("verify", self.path).code, cli.DONE)

    def test_a_kill_leaves_the_old_file_or_the_new_one(self):
        for name, command in self.commands().items():
            with self.subTest(program=name):
                self.path.write_text("before")
                started = time.monotonic()
                subprocess.run(command, check=True, capture_output=True, timeout=cli.PATIENCE_S)
                seconds = time.monotonic() - started
                wanted = self.path.read_bytes()
                for _ in range(4 if cli.IS_EMULATED else 12):
                    self.path.write_text("before")
                    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
                        time.sleep(RANDOM.uniform(0, 1.1 * seconds))
                        process.kill()
                    self.assertTrue(self.path.read_bytes() in (b"before", wanted))
                    self.assertEqual(self.left(), ["out"])
                subprocess.run(command, check=True, capture_output=True, timeout=cli.PATIENCE_S)
                self.assertTrue(self.path.read_bytes() == wanted)

    def test_save_is_whole_whatever_ends_the_chat(self):
        self.assertEqual(self.save(self.path), cli.DONE)
        wanted = self.path.read_bytes()
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGKILL) * 2:
            self.path.write_text("before")

            def disturb(terminal):
                time.sleep(RANDOM.uniform(0, 0.004))
                os.kill(terminal.pid, number)

            self.assertEqual(self.save(self.path, disturb), -number)
            self.assertTrue(self.path.read_bytes() in (b"before", wanted))
            self.assertEqual(self.left(), ["out"])
            if number != signal.SIGKILL:
                self.assertEqual(os.listdir(self.folder), ["out"])
            for name in os.listdir(self.folder):
                if name != "out":
                    (self.folder / name).unlink()

    def test_ctrl_c_while_a_chat_saves_does_not_disturb_it(self):
        self.assertEqual(self.save(self.path), cli.DONE)
        wanted = self.path.read_bytes()
        self.path.unlink()

        def disturb(terminal):
            # The first time the conversation is saved; Ctrl-C at the prompt after it leaves.
            for _ in range(3):
                os.kill(terminal.pid, signal.SIGINT)
                time.sleep(0.001)
            terminal.send(b"/exit\n")  # should all have come before that prompt, which forgets them

        # A signal that comes while the program is leaving ends it.
        self.assertIn(self.save(self.path, disturb), (cli.DONE, -signal.SIGINT))
        if self.path.exists():  # else Ctrl-C came before the line was read
            self.assertTrue(self.path.read_bytes() == wanted)
        self.assertIn(os.listdir(self.folder), (["out"], []))

    def test_a_file_size_limit_is_an_io_error_at_every_write(self):
        for name, command in self.commands().items():
            self.path.unlink(missing_ok=True)
            subprocess.run(command, check=True, capture_output=True, timeout=cli.PATIENCE_S)
            size = self.path.stat().st_size
            # The thread sanitizer writes a file of its own while it starts.
            for limit in (0, 1, 4096, size // 3, size // 2, size - 1)[1 if cli.IS_THREAD_SANITIZED else 0:]:
                with self.subTest(program=name, limit=limit):
                    self.path.write_text("before")
                    done = subprocess.run(command, capture_output=True, text=True, timeout=cli.PATIENCE_S, preexec_fn=(
                        lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))))
                    self.assertEqual(done.returncode, cli.IO, done.stderr)
                    self.assertRegex(done.stderr, r"\Acria(-convert)?: error: [^\n]*out: [^\n]*File too large[^\n]*\n\Z")
                    self.assertEqual(self.path.read_text(), "before")
                    self.assertEqual(os.listdir(self.folder), ["out"])

    def test_a_full_disk_is_an_io_error(self):
        commands = self.commands()
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", self.folder],
                                 capture_output=True, check=False)
        if mounted.returncode != 0:
            self.skipTest("needs the right to mount a small disk")
        try:
            self.path.write_text("before")
            for name, command in commands.items():
                with self.subTest(program=name):
                    done = subprocess.run(command, capture_output=True, text=True, timeout=cli.PATIENCE_S)
                    self.assertEqual(done.returncode, cli.IO, done.stderr)
                    self.assertRegex(done.stderr, r"\Acria(-convert)?: error: [^\n]*No space left[^\n]*\n\Z")
                    self.assertEqual(self.path.read_text(), "before")
                    self.assertEqual(os.listdir(self.folder), ["out"])

            def told(terminal):
                terminal.wait_for(rb"No\s+space\s+left")
                terminal.send(b"/exit\n")

            (self.folder / "filler").write_bytes(bytes(250_000))
            self.assertEqual(self.save(self.path, told), cli.DONE)
            self.assertEqual(self.path.read_text(), "before")
            self.assertEqual(sorted(os.listdir(self.folder)), ["filler", "out"])
        finally:
            subprocess.run(["umount", self.folder], check=True)


class Places(Files):
    def writes(self):
        """Writes to self.path by each program, one after the other."""
        for name, command in self.commands().items():
            yield name, lambda command=command: subprocess.run(command, check=True, capture_output=True,
                                                               timeout=cli.PATIENCE_S)
        yield "save", lambda: self.assertEqual(self.save(self.path), cli.DONE)

    def test_a_private_file_stays_private(self):
        for name, write in self.writes():
            with self.subTest(program=name):
                self.path.write_text("before")
                self.path.chmod(0o600)
                write()
                self.assertGreater(self.path.stat().st_size, 6)
                self.assertEqual(stat.S_IMODE(self.path.stat().st_mode), 0o600)

    def test_a_link_is_followed_and_stays_a_link(self):
        for name, write in self.writes():
            for is_there in (True, False):
                with self.subTest(program=name, is_there=is_there):
                    target = self.folder / "inner" / "target"
                    target.parent.mkdir()
                    if is_there:
                        target.write_text("before")
                    self.path.symlink_to("inner/target")
                    write()
                    self.assertTrue(self.path.is_symlink())
                    self.assertFalse(target.is_symlink())
                    self.assertGreater(target.stat().st_size, 6)
                    self.assertEqual(os.listdir(target.parent), ["target"])
                    target.unlink()
                    target.parent.rmdir()
                    self.path.unlink()

    def test_a_circle_of_links_is_an_io_error(self):
        self.path.symlink_to("out")
        for name, command in self.commands().items():
            done = subprocess.run(command, capture_output=True, text=True, timeout=cli.PATIENCE_S)
            self.assertEqual(done.returncode, cli.IO, (name, done.stderr))
            self.assertIn("symbolic links", done.stderr)

    def test_a_planted_link_under_a_temporary_name_is_not_followed(self):
        """Names that were used once: of the process, which a planter sees."""
        victim = self.folder / "victim"
        victim.write_text("precious")
        command = self.commands()["logits"]
        script = f'ln -s victim "{self.path}.$$.tmp"; ln -s victim "{self.path}.tmp-$$"; exec "$@"'
        subprocess.run(["sh", "-c", script, "sh", *command], check=True, timeout=cli.PATIENCE_S)
        self.assertEqual(victim.read_text(), "precious")
        self.assertFalse(self.path.is_symlink())

    def test_the_model_is_not_written_over(self):
        shutil.copy(cli.model(), self.path)
        (self.folder / "link").symlink_to("out")
        before = self.path.read_bytes()
        for name in ("out", "link"):
            done = cli.cria("logits", self.path, "--ids", "1", "-o", self.folder / name)
            self.assertEqual((done.code, done.raw), (cli.USAGE, b""))
            self.assertRegex(done.err, r"\Acria: error: [^\n]*is the model itself[^\n]*\n\Z")
            _, shown = cli.talk(lines=[f"/save {self.folder}/{name}"], model_path=self.path)
            self.assertIn("is the model itself", shown[0])
            self.assertTrue(self.path.read_bytes() == before)

    @unittest.skipIf(cli.IS_EMULATED, "the emulator takes the free numbers for itself")
    def test_closed_standard_descriptors_do_not_get_into_a_file(self):
        for name, command in self.commands().items():
            command = [word for word in command if word != "--quiet"]
            subprocess.run(command, check=True, capture_output=True, timeout=cli.PATIENCE_S)
            wanted = self.path.read_bytes()
            self.path.unlink()
            for closed in ("2>&-", ">&-", "<&- >&-", "<&- >&- 2>&-"):
                with self.subTest(program=name, closed=closed):
                    done = subprocess.run(["sh", "-c", f'"$@" {closed}', "sh", *command], capture_output=True,
                                          timeout=cli.PATIENCE_S)
                    self.assertEqual(done.returncode, cli.DONE)
                    self.assertTrue(self.path.read_bytes() == wanted)
        done = subprocess.run(["sh", "-c", '"$@" >&-', "sh", *cli.command_line(["info", cli.model()])],
                              capture_output=True, text=True, timeout=cli.PATIENCE_S)
        self.assertEqual(done.returncode, cli.IO)
        self.assertIn("standard output", done.stderr)

    def test_pipes_devices_and_standard_output_are_written_in_place(self):
        command = self.commands()["logits"]
        subprocess.run(command, check=True, timeout=cli.PATIENCE_S)
        wanted = self.path.read_bytes()
        for name in ("-", "/dev/stdout"):
            done = subprocess.run([name if word == str(self.path) else word for word in command], capture_output=True,
                                  timeout=cli.PATIENCE_S)
            self.assertEqual(done.returncode, cli.DONE)
            self.assertTrue(done.stdout == wanted, name)
        pipe = self.folder / "pipe"
        os.mkfifo(pipe)
        with subprocess.Popen([str(pipe) if word == str(self.path) else word for word in command]) as process:
            self.assertTrue(pipe.read_bytes() == wanted)
            self.assertEqual(process.wait(cli.PATIENCE_S), cli.DONE)
        self.assertTrue(pipe.is_fifo())
        convert = [str(pipe) if word == str(self.path) else word for word in self.commands()["convert"]]
        done = subprocess.run(convert, capture_output=True, text=True, timeout=cli.PATIENCE_S)
        self.assertEqual(done.returncode, cli.IO)
        self.assertIn("regular", done.stderr)


if __name__ == "__main__":
    cli.main()
