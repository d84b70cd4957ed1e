"""What users, files and other programs hand to cria: odd paths, streams without end, escapes, files that change."""
import json
import os
import resource
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import unittest
from pathlib import Path

import cria_cli as cli

sys.path.insert(0, str(cli.SOURCE / "tests" / "tools"))
import make_random_checkpoint  # noqa: E402
from cria_reader.xxh64 import xxh64  # noqa: E402

ONE_LINE = r"\Acria: error: [^\n]+\n\Z"
QUIET = {"NO_COLOR": "1", "TERM": "dumb"}
PROMPT = rb"> \Z"
# Every command, with MODEL where the file's path goes.
COMMANDS = (["info", "MODEL"], ["verify", "MODEL"], ["run", "MODEL", "-p", "a", "-n", "1"], ["chat", "MODEL"],
            ["bench", "MODEL", "-p", "4", "-n", "1", "-r", "1"], ["tokenize", "MODEL"],
            ["logits", "MODEL", "--ids", "1", "-o", "-"], ["embed", "MODEL"], ["eval", "MODEL", "--text", "-"],
            ["eval", "GOOD", "--text", "-", "--reference", "MODEL"])


class Base(unittest.TestCase):
    def setUp(self):
        self.folder = Path(cli.tempfile.mkdtemp(dir=cli.folder()))

    def assert_fails(self, result, codes, *words):
        self.assertIn(result.code, codes, result.err)
        self.assertEqual(result.raw, b"")
        self.assertRegex(result.err, ONE_LINE)
        for word in words:
            self.assertIn(word, result.err)

    def on_every_command(self, path, codes, *words):
        for command in COMMANDS:
            arguments = [{"MODEL": str(path), "GOOD": cli.model()}.get(word, word) for word in command]
            with self.subTest(command=command):
                self.assert_fails(cli.cria(*arguments, stdin="a text\n"), codes, path.name, *words)


class ModelPaths(Base):
    def test_what_is_no_file_is_refused_without_waiting(self):
        pipe = self.folder / "pipe"
        os.mkfifo(pipe)
        self.on_every_command(pipe, [cli.BAD_INPUT], "give a regular file")
        self.on_every_command(self.folder, [cli.BAD_INPUT], "folder")
        self.on_every_command(Path("/dev/zero"), [cli.BAD_INPUT], "give a regular file")
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(self.folder / "socket"))
            self.on_every_command(self.folder / "socket", [cli.IO])
        circle = self.folder / "circle"
        circle.symlink_to("circle")
        self.on_every_command(circle, [cli.IO], "symbolic links")
        (self.folder / "link").symlink_to("nothing")
        self.on_every_command(self.folder / "link", [cli.BAD_INPUT], "no such file")

    def test_files_too_short_to_be_models_are_refused(self):
        for name, data in (("empty", b""), ("byte", b"C"), ("magic", Path(cli.model()).read_bytes()[:8]),
                           ("header", Path(cli.model()).read_bytes()[:64])):
            path = self.folder / name
            path.write_bytes(data)
            self.on_every_command(path, [cli.BAD_INPUT])

    def test_a_file_that_grew_is_refused(self):
        path = self.folder / "grown"
        path.write_bytes(Path(cli.model()).read_bytes() + b"more")
        self.on_every_command(path, [cli.BAD_INPUT])

    def test_a_huge_empty_file_is_refused_at_once(self):
        path = self.folder / "sparse"
        with open(path, "wb") as file:
            file.truncate(1 << 40)  # to read it would take longer than PATIENCE_S
        self.on_every_command(path, [cli.BAD_INPUT])


class Changing(Base):
    def stored(self):
        path = self.folder / "stored.cria"
        shutil.copy(cli.model("--compress", "none"), path)
        return path

    def test_a_mapped_file_that_shrinks_ends_the_program_with_a_line(self):
        path = self.stored()
        with cli.Terminal("chat", path, "--greedy", "--backend", "exact", env=QUIET, columns=10000) as terminal:
            terminal.wait_for(PROMPT)
            os.truncate(path, 4096)
            before = len(terminal.shown)
            terminal.send(b"hello\n")
            self.assertEqual(terminal.finish(), cli.IO)
            # Idle, the program may have come to it before the terminal to its echo.
            line = r"cria: error: [^\n]*stored\.cria: [^\n]*shorter[^\n]*\r\n"
            self.assertRegex(terminal.shown[before:].decode(), rf"\A(hello\r\n{line}|{line}hello\r\n)\Z")

    def test_at_any_moment_it_is_an_answer_a_line_or_bad_input(self):
        path = self.stored()
        whole = path.read_bytes()
        ids = ",".join(str(token * 37 % 2048) for token in range(400))
        codes = set()
        for i in range(4 if cli.IS_EMULATED else 16):
            path.write_bytes(whole)
            out = self.folder / "out.f32"
            command = cli.command_line(["logits", path, "--ids", ids, "-o", out, "--backend", "exact"])
            with subprocess.Popen(command, stderr=subprocess.PIPE) as process:
                time.sleep(0.004 * i)
                os.truncate(path, len(whole) // (2 + i % 3))
                _, errors = process.communicate(timeout=cli.PATIENCE_S)
            codes.add(process.returncode)
            if process.returncode == cli.DONE:
                self.assertEqual(out.stat().st_size, 400 * 2048 * 4)
                out.unlink()
            else:
                self.assertIn(process.returncode, (cli.IO, cli.BAD_INPUT), errors)
                self.assertRegex(errors.decode(), ONE_LINE)
            self.assertEqual(os.listdir(self.folder), ["stored.cria"])
        self.assertTrue(codes - {cli.DONE})

    def test_another_bus_error_is_what_it_always_is(self):
        with cli.Terminal("chat", self.stored(), "--greedy", env=QUIET) as terminal:
            terminal.wait_for(PROMPT)
            os.kill(terminal.pid, signal.SIGBUS)
            self.assertEqual(terminal.finish(), -signal.SIGBUS)


class Texts(Base):
    MOST = 64 << 20

    def commands(self):
        return (["run", cli.model(), "-p", "-"], ["tokenize", cli.model(), "-"], ["eval", cli.model(), "--text", "-"])

    def test_a_stream_without_end_is_refused(self):
        for command in self.commands():
            with open("/dev/zero", "rb") as zeros:
                done = subprocess.run(cli.command_line(command), stdin=zeros, capture_output=True, timeout=cli.PATIENCE_S)
            self.assert_fails(cli.Result(done.returncode, done.stdout, done.stderr.decode()), [cli.BAD_INPUT],
                              "67,108,864 bytes")

    def test_a_pipe_without_end_is_refused(self):
        pipe = self.folder / "pipe"
        os.mkfifo(pipe)

        def write():
            try:
                with open(pipe, "wb", buffering=0) as file:
                    while True:
                        file.write(bytes(1 << 16))
            except BrokenPipeError:
                pass

        for command in (["tokenize", cli.model(), pipe], ["eval", cli.model(), "--text", pipe]):
            writer = threading.Thread(target=write)
            writer.start()
            self.assert_fails(cli.cria(*command), [cli.BAD_INPUT], "67,108,864 bytes")
            writer.join()

    def test_a_huge_file_is_refused_before_it_is_read(self):
        path = self.folder / "sparse"
        with open(path, "wb") as file:
            file.truncate(6 << 30)
        for command in (["tokenize", cli.model(), path], ["eval", cli.model(), "--text", path]):
            self.assert_fails(cli.cria(*command), [cli.BAD_INPUT], "67,108,864 bytes")

    def test_a_long_line_of_a_chat_is_refused(self):
        self.assert_fails(cli.cria("chat", cli.model(), stdin=b"x" * (17 << 20)), [cli.BAD_INPUT], "16 MiB")


class ChatFiles(Base):
    """The layout of a saved conversation is in docs/command_line.md."""
    HEADER = struct.Struct("<8sQ6I")
    MESSAGE = struct.Struct("<4I")
    MESSAGES, TEXT, IN_CONTEXT, PENDING, THINKING, RESERVED = range(2, 8)  # fields of the header
    STATE_CHECKSUM, STATE_HEADER = 16, 48

    def save(self):
        path = self.folder / "good.chat"
        _, shown = cli.talk(lines=["What is a cria?", f"/save {path}"])
        self.assertIn("saved", shown[1])
        return path.read_bytes()

    def parts(self, data):
        """Fields of the header, what its checksum is of, and the state."""
        fields = list(self.HEADER.unpack_from(data))
        body = self.MESSAGE.size * fields[self.MESSAGES] + fields[self.TEXT] + 4 * fields[self.PENDING]
        begin = self.HEADER.size
        return fields, data[begin:begin + body], data[begin + body:]

    def load(self, data_or_path):
        """What /load says, and that the program goes on."""
        path = data_or_path
        if isinstance(path, bytes):
            path = self.folder / "bad.chat"
            path.write_bytes(data_or_path)
        code, shown = cli.talk("-n", "4", lines=[f"/load {path}", "hello"])
        self.assertEqual(code, cli.DONE)
        self.assertTrue(shown[1].strip())
        return shown[0]

    def assert_refused(self, data, *words):
        said = self.load(data)
        self.assertRegex(said, ONE_LINE)
        for word in words:
            self.assertIn(word, said)

    def rebuilt(self, fields, body, state):
        checksum = xxh64(self.HEADER.pack(fields[0], 0, *fields[2:]) + body)
        return self.HEADER.pack(fields[0], checksum, *fields[2:]) + body + state

    def test_counts_and_sums_that_do_not_hold_are_refused(self):
        data = self.save()
        fields, body, state = self.parts(data)
        self.assertEqual(fields[self.MESSAGES:self.TEXT], [2])
        self.assertGreater(fields[self.PENDING], 0)
        self.assertEqual(self.rebuilt(list(fields), body, state), data)
        for index in (self.MESSAGES, self.TEXT, self.IN_CONTEXT, self.PENDING):
            for value in (0, fields[index] + 1, 1 << 20, 1 << 31, (1 << 32) - 1):
                changed = list(fields)
                changed[index] = value
                if index == self.IN_CONTEXT and value == 0:
                    continue  # then what the state holds is read again
                self.assert_refused(self.rebuilt(changed, body, state))
        for index, value in ((self.THINKING, 3), (self.THINKING, 1 << 31), (self.RESERVED, 1)):
            changed = list(fields)
            changed[index] = value
            self.assert_refused(self.rebuilt(changed, body, state))
        for magic in (b"riachat1", b"riachat2", b"criachat", bytes(8)):
            self.assert_refused(self.rebuilt([magic, *fields[1:]], body, state))
        for at in (*range(self.HEADER.size), *range(self.HEADER.size, self.HEADER.size + len(body), 5)):
            self.assert_refused(data[:at] + bytes([data[at] ^ 1]) + data[at + 1:])
        for length in (0, 7, self.HEADER.size - 1, self.HEADER.size, len(data) - len(state), len(data) - 1):
            self.assert_refused(data[:length])
        self.assert_refused(data + b"\0")

    def test_messages_that_cannot_be_are_refused(self):
        fields, body, state = self.parts(self.save())
        first, second = (list(self.MESSAGE.unpack_from(body, i * self.MESSAGE.size)) for i in range(2))
        self.assertEqual((first[0], second[0]), (1, 2))  # user, assistant

        def with_messages(*messages):
            packed = b"".join(self.MESSAGE.pack(*message) for message in messages)
            return self.rebuilt(list(fields), packed + body[len(packed):], state)

        self.assertEqual(with_messages(first, second), self.rebuilt(list(fields), body, state))
        for role in (3, 1 << 31, (1 << 32) - 1):
            self.assert_refused(with_messages(first, [role, *second[1:]]))
        self.assert_refused(with_messages(first, [0, *second[1:]]))  # the system speaks first or never
        for n_bytes in (0, first[1] + 1, (1 << 32) - 1):
            self.assert_refused(with_messages([first[0], n_bytes, *first[2:]], second))
        self.assertGreater(second[2], first[2])
        for position in (513, (1 << 32) - 1):
            self.assert_refused(with_messages(first, [*second[:2], position, 0]))
        self.assert_refused(with_messages([*first[:2], second[2] + 1, 0], second))  # after the second
        answered, cut = 1, 2
        self.assertEqual((first[3], second[3] & answered), (0, answered))
        for marks in (8, 1 << 31, cut):
            self.assert_refused(with_messages(first, [*second[:3], marks]))
        for marks in (answered, answered | cut):
            self.assert_refused(with_messages([*first[:3], marks], second))

    def test_tokens_that_are_none_are_refused(self):
        fields, body, state = self.parts(self.save())
        pending = len(body) - 4 * fields[self.PENDING]
        for at in (pending, len(body) - 4):
            for value in (2048, (1 << 32) - 1):
                other = body[:at] + struct.pack("<I", value) + body[at + 4:]
                self.assert_refused(self.rebuilt(list(fields), other, state))
        # Those of the context are the state's, whose checksum is mended too.
        for at in (self.STATE_HEADER, self.STATE_HEADER + 4):
            changed = bytearray(state)
            struct.pack_into("<I", changed, at, 2048)
            self.assert_refused(self.rebuilt(list(fields), body, bytes(changed)))
            struct.pack_into("<Q", changed, self.STATE_CHECKSUM, 0)
            struct.pack_into("<Q", changed, self.STATE_CHECKSUM, xxh64(bytes(changed)))
            self.assert_refused(self.rebuilt(list(fields), body, bytes(changed)))

    def test_what_is_no_file_or_too_large_is_refused_without_reading(self):
        pipe = self.folder / "pipe"
        os.mkfifo(pipe)
        self.assert_refused(pipe, "is a named pipe")
        self.assert_refused(Path("/dev/zero"), "is a device")
        self.assert_refused(self.folder, "is a folder")
        sparse = self.folder / "sparse"
        with open(sparse, "wb") as file:
            file.truncate(6 << 30)
        self.assert_refused(sparse, "longer than")
        (self.folder / "circle").symlink_to("circle")
        self.assert_refused(self.folder / "circle", "symbolic links")

    def test_a_link_to_a_saved_conversation_is_followed(self):
        self.save()
        (self.folder / "link").symlink_to("good.chat")
        self.assertIn("loaded 2 messages", self.load(self.folder / "link"))

    def test_a_load_that_fails_leaves_the_conversation(self):
        data = self.save()
        (self.folder / "bad.chat").write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
        code, shown = cli.talk("-n", "4", lines=["What is a cria?", f"/load {self.folder}/bad.chat", "/stats"])
        self.assertEqual(code, cli.DONE)
        self.assertIn("error", shown[1])
        self.assertIn("2 messages", shown[2])


class Escapes(Base):
    """On a terminal no control characters of texts and names; elsewhere every byte as it is."""
    TEXT = "a\x1b]0;title\x07b\x1b[2Jc\u009b31md\x7fe\rf\tg"

    def assert_clean(self, shown):
        self.assertNotRegex(shown.replace(b"\r\n", b"\n"), rb"[\x00-\x08\x0b-\x1f\x7f]|\xc2[\x80-\x9f]")

    def test_a_prompt_is_shown_without_them_and_piped_as_it_is(self):
        arguments = ("run", cli.model(), "-p", self.TEXT, "-n", "0", "--verbose")
        self.assertEqual(cli.cria(*arguments).raw, self.TEXT.encode() + b"\n")
        with cli.Terminal(*arguments, env=QUIET) as terminal:
            self.assertEqual(terminal.finish(), cli.DONE)
            self.assert_clean(terminal.shown)
            self.assertIn(b"a?]0;title?b?[2Jc?31md?e?f", terminal.shown)

    def test_names_of_files_are_shown_without_them(self):
        path = self.folder / "m\x1b[31m\u009b\x7f.cria"
        shutil.copy(cli.model(), path)
        for command in (["info", path], ["verify", path], ["run", path, "-p", "a", "-n", "1", "--verbose"],
                        ["info", f"{path}.none\n"], ["bench", path, "-p", "2", "-n", "1", "-r", "1"]):
            with cli.Terminal(*command, env=QUIET) as terminal:
                terminal.finish()
                self.assert_clean(terminal.shown)
                self.assertIn(b"m?[31m??.cria", terminal.shown)
        with cli.Terminal("chat", path, env=QUIET) as terminal:
            terminal.wait_for(PROMPT)
            terminal.send(b"/exit\n")
            terminal.finish()
            self.assert_clean(terminal.shown)
        self.assertIn(str(path).encode(), cli.cria("info", path).raw)
        # An error is one line in a log too.
        self.assertRegex(cli.cria("info", f"{path}.none\n").err, ONE_LINE)

    def test_metadata_is_shown_without_them(self):
        source = self.folder / "s\u009b31m\x7f"
        shutil.copytree(cli.DEMO, source)
        path = self.folder / "m.cria"
        subprocess.run([str(cli.BIN / "cria-convert"), str(source), "-o", str(path), "--quiet"], check=True,
                       timeout=cli.PATIENCE_S)
        plain = cli.cria("info", path, "--json").out
        self.assertEqual(json.loads(plain)["metadata"]["source"], "s?31m?")  # the converter's doing
        with cli.Terminal("info", path, "--json", env=QUIET) as terminal:
            self.assertEqual(terminal.finish(), cli.DONE)
            self.assert_clean(terminal.shown)
            self.assertRegex(terminal.shown, rb'"source": "s[^"]+31m')


class Numbers(Base):
    def test_top_p_of_zero_and_min_p_of_one_are_greedy(self):
        run = ("run", cli.model(), "-p", "Once upon a time", "-n", "24", "--seed", "3", "--temperature", "5")
        greedy = cli.cria("run", cli.model(), "-p", "Once upon a time", "-n", "24", "--greedy").out
        for options in (("--top-p", "0"), ("--top-p", "0", "--top-k", "0", "--min-p", "0"), ("--top-p", "-0.0"),
                        ("--min-p", "1", "--top-p", "1"), ("--top-p", "1e-30")):
            self.assertEqual(cli.cria(*run, *options).out, greedy, options)
        self.assertNotEqual(cli.cria(*run, "--top-p", "1", "--top-k", "0", "--min-p", "0").out, greedy)

    def test_too_many_threads_are_a_usage_error(self):
        self.assert_fails(cli.cria("run", cli.model(), "-p", "a", "--threads", "257"), [cli.USAGE], "--threads", "256")
        self.assert_fails(cli.cria("bench", cli.model(), "--threads", "1,257"), [cli.USAGE], "--threads", "256")

    def overflowing_model(self):
        """The final norm of the demo made so large that logits overflow."""
        source = self.folder / "large"
        shutil.copytree(cli.DEMO, source)
        data = bytearray((source / "model.safetensors").read_bytes())
        length = struct.unpack_from("<Q", data)[0]
        entry = json.loads(data[8:8 + length])["model.norm.weight"]
        self.assertEqual(entry["dtype"], "BF16")
        begin, end = (8 + length + offset for offset in entry["data_offsets"])
        data[begin:end] = b"\x7f\x7f" * ((end - begin) // 2)
        (source / "model.safetensors").write_bytes(data)
        path = self.folder / "large.cria"
        done = subprocess.run([str(cli.BIN / "cria-convert"), str(source), "-o", str(path), "--quiet", "--weights", "f32"],
                              capture_output=True, text=True, timeout=cli.PATIENCE_S)
        self.assertEqual(done.returncode, 0, done.stderr)
        return path

    def test_logits_that_are_no_numbers_are_not_measured(self):
        large = self.overflowing_model()
        text = self.folder / "text"
        text.write_text("Once upon a time there was a fox. " * 20)
        for command in (["eval", large, "--text", text], ["eval", cli.model(), "--text", text, "--reference", large],
                        ["eval", large, "--text", text, "--reference", cli.model(), "--json"]):
            self.assert_fails(cli.cria(*command), [cli.BAD_INPUT], "large.cria", "finite")
        # Nothing else minds.
        self.assertEqual(cli.cria("run", large, "-p", "Once", "-n", "4").code, cli.DONE)


class Memory(Base):
    def test_a_plan_larger_than_the_machine_is_refused_and_shown(self):
        """The context that a small file wishes for is not limited by its size."""
        source = self.folder / "deep"
        make_random_checkpoint.main([str(source), "--d-model", "64", "--layers", "128", "--heads", "4", "--kv-heads", "4",
                                     "--ffn", "32", "--vocab", "70"])
        config = json.loads((source / "config.json").read_text())
        config["max_position_embeddings"] = 1 << 24
        (source / "config.json").write_text(json.dumps(config))
        path = self.folder / "deep.cria"
        subprocess.run([str(cli.BIN / "cria-convert"), str(source), "-o", str(path), "--no-tokenizer", "--quiet",
                        "--context", str(1 << 24)], check=True, timeout=cli.PATIENCE_S)
        self.assertLess(path.stat().st_size, 8_000_000)
        plan = json.loads(cli.cria("info", path, "--json").out)["memory_plan"]["total_bytes"]
        self.assertGreater(plan, 10 ** 11)
        for command in (["run", path, "--ids", "1,2", "-n", "1"], ["logits", path, "--ids", "1", "-o", "-"]):
            self.assert_fails(cli.cria(*command), [cli.MEMORY], f"{plan:,} bytes", "--context")
            self.assertEqual(cli.cria(*command, "--context", "64").code, cli.DONE)

    def test_a_limit_of_address_space_is_told(self):
        if cli.IS_SANITIZED or cli.IS_EMULATED:
            self.skipTest("sanitizers and emulators need more address space than any limit here")
        for megabytes in (24, 32, 48, 64, 96):
            limit = megabytes << 20
            done = subprocess.run(cli.command_line(["run", cli.model("--weights", "f32"), "-p", "a", "-n", "1"]),
                                  preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),
                                  capture_output=True, text=True, timeout=cli.PATIENCE_S)
            self.assertIn(done.returncode, (cli.DONE, cli.MEMORY), done.stderr)
            if done.returncode == cli.MEMORY:
                self.assertRegex(done.stderr, ONE_LINE)


if __name__ == "__main__":
    cli.main()
