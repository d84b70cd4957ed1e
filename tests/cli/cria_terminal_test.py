"""cria on a terminal: Ctrl-C, Ctrl-D, narrow windows, colours."""
import re
import unittest

import cria_cli as cli

PROMPT = rb"> (?:\x1b\[0m)?\Z"
ESCAPE = re.compile(rb"\x1b\[[0-9;]*[A-Za-z]")
# Slow enough that Ctrl-C finds the program in the middle of an answer: f32 weights on the scalar kernels, one thread.
SLOW = ("--weights", "f32")
LONG_ANSWER = ("--backend", "exact", "--isa", "scalar", "--threads", "1", "--temperature", "1.5", "--seed", "3")


def widest(shown):
    """Columns of the widest line, as a terminal counts them: escapes take none, a carriage return starts again."""
    text = ESCAPE.sub(b"", shown).replace(b"\r\n", b"\n").decode("utf-8", "replace")
    return max(len(part) for line in text.split("\n") for part in line.split("\r"))


class Terminal(unittest.TestCase):
    def test_a_conversation_and_ctrl_d(self):
        with cli.Terminal("chat", cli.model(), "--greedy") as terminal:
            terminal.wait_for(PROMPT)
            self.assertIn(b"/help", terminal.shown)
            before = len(terminal.shown)
            terminal.send(b"hello\n")
            terminal.wait_for(PROMPT, before + len("hello\r\n"))
            answer = cli.cria("chat", cli.model(), "--greedy", stdin="hello\n").out.strip()
            self.assertIn(answer.encode(), terminal.shown)
            terminal.send(b"\x04")
            self.assertEqual(terminal.finish(), cli.DONE)

    def test_ctrl_c_stops_the_answer_and_not_the_program(self):
        with cli.Terminal("chat", cli.model(*SLOW), *LONG_ANSWER) as terminal:
            terminal.wait_for(PROMPT)
            stopped = 0
            for _ in range(8):
                before = len(terminal.shown)
                terminal.send(b"Tell me a story about a brave fox.\n")
                start = terminal.wait_for(rb"fox\.\r\n", before)
                # Into the answer: some words of it are there.
                terminal.wait_for(rb"\w+ \w+ ", start)
                terminal.send(b"\x03")
                terminal.wait_for(PROMPT, start)
                stopped += b"(stopped)" in terminal.shown[start:]
                if stopped == 2:
                    break
            self.assertGreater(stopped, 0)
            before = len(terminal.shown)
            terminal.send(b"hello\n")
            end = terminal.wait_for(rb"hello\r\n", before)
            terminal.wait_for(rb"\w+", end)
            terminal.wait_for(PROMPT, end)
            # Ctrl-C at the prompt leaves.
            terminal.send(b"\x03")
            self.assertEqual(terminal.finish(), cli.DONE)

    def test_ctrl_c_behind_half_a_line_leaves_too(self):
        with cli.Terminal("chat", cli.model()) as terminal:
            terminal.wait_for(PROMPT)
            terminal.send(b"half a li\x03")
            self.assertEqual(terminal.finish(), cli.DONE)

    def test_an_error_does_not_end_the_conversation(self):
        with cli.Terminal("chat", cli.model(), "--greedy", "--context", "64") as terminal:
            terminal.wait_for(PROMPT)
            for line, words in ((b"/jump", rb"no command"), (b"/load /none/x", rb"no such file"),
                                (b"/save /none/x", rb"cannot write"), (b"story " * 100, rb"does not fit")):
                before = len(terminal.shown)
                terminal.send(line + b"\n")
                end = terminal.wait_for(words.replace(b" ", rb"\s+"), before)
                terminal.wait_for(PROMPT, end)
            before = len(terminal.shown)
            terminal.send(b"hello\n")
            end = terminal.wait_for(rb"hello\r\n", before)
            terminal.wait_for(rb"Hello", end)
            terminal.wait_for(PROMPT, end)
            terminal.send(b"/exit\n")
            self.assertEqual(terminal.finish(), cli.DONE)

    def test_forty_columns_are_enough_for_everything_but_the_answers(self):
        """Every notice, table and progress line fits; a path is shown whole."""
        path = cli.folder() / "m.cria"
        if not path.exists():
            path.symlink_to(cli.model())
        with cli.Terminal("chat", path, "--greedy", "-n", "1", "--verbose", columns=40) as terminal:
            terminal.wait_for(PROMPT)
            for command in (b"/help", b"/stats", b"/reset", b"/system", b"/jump", b"hello"):
                before = len(terminal.shown)
                terminal.send(command + b"\n")
                terminal.wait_for(PROMPT, before + len(command) + 2)
            terminal.send(b"\x04")
            self.assertEqual(terminal.finish(), cli.DONE)
            text = b"\n".join(line for line in terminal.shown.split(b"\n") if str(path).encode() not in line)
            self.assertLessEqual(widest(text), 40, terminal.shown)
        for command in (["info", path], ["verify", path], ["bench", path, "-p", "4", "-n", "2", "-r", "1"],
                        ["run", path, "-p", "Once", "-n", "2", "--greedy"]):
            with cli.Terminal(*command, columns=40) as terminal:
                self.assertEqual(terminal.finish(), cli.DONE)
                text = b"\n".join(line for line in terminal.shown.split(b"\n")
                                  if str(path).encode() not in line and b"cria 0" not in line)
                self.assertLessEqual(widest(text), 40, terminal.shown)

    def test_progress_is_drawn_in_place_and_wiped(self):
        large = cli.model("--weights", "f32", "--compress", "none")
        with cli.Terminal("verify", large, columns=12) as terminal:
            self.assertEqual(terminal.finish(), cli.DONE)
            self.assertIn(b"\rverifying", terminal.shown)
            drawn = terminal.shown.split(b"\r")[1:-1]
            self.assertTrue(drawn)
            for line in drawn:
                if line.startswith(b"verifying"):
                    self.assertLess(len(ESCAPE.sub(b"", line)), 12)
            self.assertIn(b"\r\x1b[K", terminal.shown)
        self.assertEqual(cli.cria("verify", large).err, "")

    def test_colours_are_used_on_a_terminal_unless_no_color_is_set(self):
        shown = {}
        for name, env in (("usual", {}), ("NO_COLOR", {"NO_COLOR": "1"}), ("dumb", {"TERM": "dumb"})):
            with cli.Terminal("chat", cli.model(), "--greedy", env=env) as terminal:
                terminal.wait_for(PROMPT)
                terminal.send(b"hello\n")
                end = terminal.wait_for(rb"hello\r\n")
                terminal.wait_for(PROMPT, end)
                terminal.send(b"/exit\n")
                self.assertEqual(terminal.finish(), cli.DONE)
                shown[name] = terminal.shown
        self.assertIn(b"\x1b[", shown["usual"])
        self.assertNotIn(b"\x1b", shown["NO_COLOR"])
        self.assertNotIn(b"\x1b", shown["dumb"])

    def test_without_a_terminal_there_are_no_colours(self):
        result = cli.cria("chat", cli.model(), "--greedy", "--verbose", stdin="hello\n", env={"TERM": "xterm"})
        self.assertTrue(result.err)
        self.assertNotIn("\x1b", result.out + result.err)


if __name__ == "__main__":
    cli.main()
