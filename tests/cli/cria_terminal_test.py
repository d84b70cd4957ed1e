"""cria on a terminal: Ctrl-C, Ctrl-D, narrow windows, colours."""
import os
import re
import signal
import stat
import termios
import time
import unittest

import cria_cli as cli

PROMPT = rb">(?:\x1b\[0m)? \Z"
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

    def test_ctrl_c_behind_half_a_line_drops_the_line(self):
        for env, keeps in ((None, cli.edits_lines()), ({"TERM": "dumb"}, False)):
            with cli.Terminal("chat", cli.model(), env=env) as terminal:
                terminal.wait_for(PROMPT)
                terminal.send(b"half a li")
                before = terminal.wait_for(rb"half a li")
                terminal.send(b"\x03")
                if keeps:  # a terminal that edits the line itself does not tell whether there was one
                    terminal.wait_for(PROMPT, before)
                    terminal.send(b"\x03")
                self.assertEqual(terminal.finish(), cli.DONE)
                self.assertNotIn(b"error", terminal.shown)

    def test_an_error_does_not_end_the_conversation(self):
        with cli.Terminal("chat", cli.model(), "--greedy", "--context", "64") as terminal:
            terminal.wait_for(PROMPT)
            for line, words in ((b"/jump", rb"not a command"), (b"/load /none/x", rb"no such file"),
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

    def test_a_long_prompt_shows_how_much_of_it_is_read(self):
        """From a second on, in place, wiped before the first token; on a terminal alone."""
        slow = ("--backend", "exact", "--isa", "scalar", "--threads", "1", "--prefill-chunk", "4", "-n", "2", "--greedy")
        prompt = "story " * 250
        line = rb"\rreading +\d+ %  \d+ of \d+ tokens\x1b\[K"
        run = ("run", cli.model(*SLOW), "-p", prompt, *slow)
        for columns in (80, 20):
            with cli.Terminal(*run, columns=columns) as terminal:
                self.assertEqual(terminal.finish(), cli.DONE)
                if columns == 80:
                    self.assertRegex(terminal.shown, line)
                *drawn, last = terminal.shown.split(b"\r\x1b[K")[0].split(b"\r")
                self.assertGreater(len(drawn), 2)
                for each in (*drawn, last):
                    self.assertLess(len(ESCAPE.sub(b"", each)), columns)
                self.assertTrue(terminal.shown.split(b"\r\x1b[K")[1].startswith(prompt[:40].encode()))
        result = cli.cria(*run)
        self.assertNotIn("reading", result.err)
        with cli.Terminal(*run, env={"TERM": "dumb"}) as terminal:
            self.assertEqual(terminal.finish(), cli.DONE)
            self.assertNotIn(b"reading", terminal.shown)
        with cli.Terminal("chat", cli.model(*SLOW), *slow) as terminal:
            terminal.wait_for(PROMPT)
            terminal.send(prompt.encode() + b"\n")
            end = terminal.wait_for(line)
            end = terminal.wait_for(rb"\r\x1b\[K", end)
            terminal.wait_for(PROMPT, end)
            terminal.send(b"\x04")
            self.assertEqual(terminal.finish(), cli.DONE)

    def test_ctrl_c_while_a_prompt_is_read_wipes_the_line(self):
        slow = ("--backend", "exact", "--isa", "scalar", "--threads", "1", "--prefill-chunk", "4")
        with cli.Terminal("run", cli.model(*SLOW), "-p", "story " * 400, *slow) as terminal:
            terminal.wait_for(rb"\rreading")
            terminal.send(b"\x03")
            self.assertEqual(terminal.finish(), cli.INTERRUPTED)
            self.assertIn(b"\r\x1b[K", terminal.shown)
            self.assertIn(b"prefill 0 tokens", terminal.shown)

    def test_what_comes_before_a_message_is_read_while_nothing_is_typed(self):
        """The answers stay what they are; less is read between Enter and the first token, and with the answer's end."""
        system = "You are a llama that knows what a cria is and says so."
        lines = ("What is a cria?", "Tell me more.", "Thanks!")
        piped = cli.cria("chat", cli.model(), "--greedy", "--system", system, stdin="\n".join(lines) + "\n").out.split("\n")
        # On a busy machine what is read ahead is read later.
        for pause in (0.3, 3, 20):
            n_read = self.read_counts(system, lines, piped, pause)
            if n_read["1", True] == n_read["2", True] == n_read["3", True] and n_read["1", False][0] - n_read["1", True][0] > 10:
                break
        self.assertEqual(n_read["2", True], n_read["1", True])
        self.assertEqual(n_read["3", True], n_read["1", True])
        least = [a - b for a, b in zip(n_read["1", False], n_read["1", True])]
        self.assertGreater(least[0], 10)  # the system text

    def read_counts(self, system, lines, piped, pause):
        """How many tokens were read between Enter and the end of each answer: by threads, and whether there was time before."""
        n_read = {}
        for threads, waits in (("1", False), ("1", True), ("2", True), ("3", True)):
            with cli.Terminal("chat", cli.model(), "--greedy", "--system", system, "--threads", threads, columns=200,
                              env={"NO_COLOR": "1"}) as terminal:
                # Typed before the program looks, a message finds it without a moment to itself.
                end = terminal.wait_for(PROMPT) if waits else 0
                counts = []
                for line, answer in zip(lines, piped):
                    if waits:
                        time.sleep(pause)
                        # Half a line keeps nothing from being read, and is not disturbed by it.
                        for part in (line[:4], line[4:] + "\n"):
                            terminal.send(part.encode())
                            time.sleep(pause / 3)
                        # Its echo must not stand in the middle of the answer.
                        terminal.wait_for(re.escape(answer.encode()), end)
                    terminal.send((b"" if waits else line.encode() + b"\n") + b"/stats\n")
                    end = terminal.wait_for(rb"last answer: \d+ tokens", end)
                    self.assertIn(answer.encode(), terminal.shown)
                    counts.append(int(terminal.shown[:end].split()[-2]))
                    end = terminal.wait_for(PROMPT, end)
                terminal.send(b"\x04")
                self.assertEqual(terminal.finish(), cli.DONE)
            n_read[threads, waits] = counts
        return n_read

    def test_a_line_can_be_continued_and_a_text_have_many_lines(self):
        wanted = cli.cria("chat", cli.model(), "--greedy", "--system", "one\ntwo", stdin="hello\n").out.strip()
        self.assertTrue(wanted)
        for env in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
            with cli.Terminal("chat", cli.model(), "--greedy", env=env) as terminal:
                terminal.wait_for(PROMPT)
                end = 0
                for line, prompt in ((b"/system one\\", b"\\. "), (b"two", b"> "), (b"/system", b"> "), (b'/system """', b"\\. "),
                                     (b"one", b"\\. "), (b'two"""', b"> "), (b"/system", b"> "), (b'"""/reset', b"\\. "),
                                     (b"hello\\", b"\\. "), (b'"""', b"> "), (b"/stats", b"> ")):
                    terminal.send(line + b"\n")
                    end = terminal.wait_for(re.escape(line) + rb"\r\n", end)
                    end = terminal.wait_for(prompt + rb"\Z", end)
                shown = terminal.shown
                self.assertEqual(shown.count(b"one\r\ntwo\r\n"), 2)
                self.assertIn(b"3 messages", shown)  # the block was one, though it began with a slash
                # Ctrl-C drops what was begun, Ctrl-D leaves.
                terminal.send(b"half\\\n")
                end = terminal.wait_for(rb"\. \Z", end)
                terminal.send(b"\x03")
                end = terminal.wait_for(PROMPT, terminal.wait_for(rb"\^C\r\n", end))
                terminal.send(b"/stats\n")
                end = terminal.wait_for(rb"3 messages", end)
                terminal.wait_for(PROMPT, end)
                terminal.send(b'"""\n')
                terminal.wait_for(rb"\. \Z", end)
                terminal.send(b"\x04")
                self.assertEqual(terminal.finish(), cli.DONE)

    def test_a_piped_output_on_a_terminal_has_plain_lines(self):
        """Standard input a terminal, standard output none: no editing, and the answers alone in the pipe."""
        wanted = cli.cria("chat", cli.model(), "--greedy", stdin="hello\n").raw
        out = cli.folder() / "answers"
        with cli.Terminal("chat", cli.model(), "--greedy", env={"TERM": "xterm"}, stdout=out) as terminal:
            end = terminal.wait_for(PROMPT)
            terminal.send(b"hello\n")
            end = terminal.wait_for(rb"hello\r\n", end)
            terminal.wait_for(PROMPT, end)
            terminal.send(b"/exit\n")
            self.assertEqual(terminal.finish(), cli.DONE)
        self.assertEqual(out.read_bytes(), wanted)

    def test_a_piped_input_on_a_terminal_takes_no_commands(self):
        with cli.Terminal("chat", cli.model(), "--greedy", stdin=b"/help\nhello\n") as terminal:
            self.assertEqual(terminal.finish(), cli.DONE)
            self.assertNotIn(b"/save FILE", terminal.shown)
            self.assertNotIn(b"> ", terminal.shown)


@unittest.skipUnless(cli.edits_lines(), "this build has no line editor")
class Editing(unittest.TestCase):
    LEFT, UP, DOWN, HOME, END = b"\x1b[D", b"\x1b[A", b"\x1b[B", b"\x01", b"\x05"

    def typed(self, *keys, columns=80, env=None, options=()):
        """Types /system and these keys; gives what the program then says the system text is."""
        with cli.Terminal("chat", cli.model(), "--greedy", *options, columns=columns, env={"NO_COLOR": "1", **(env or {})}) as terminal:
            end = terminal.wait_for(PROMPT)
            terminal.send(b"/system " + b"".join(keys) + b"\n")
            end = terminal.wait_for(rb"a\s+new\s+conversation", end)
            end = terminal.wait_for(PROMPT, end)
            terminal.send(b"/system\n")
            begin = terminal.wait_for(rb"/system\r\n", end)
            terminal.wait_for(PROMPT, begin)
            terminal.send(b"\x04")
            self.assertEqual(terminal.finish(), cli.DONE)
            return b" ".join(terminal.shown[begin:].rsplit(b"> ", 1)[0].split()).decode()

    def test_cursor_keys_move_and_rub_out_whole_characters(self):
        self.assertEqual(self.typed(b"acd", self.LEFT * 2, b"b"), "abcd")
        han = "\u4f60\u597d\u4e16\u754c".encode()
        self.assertEqual(self.typed(han, self.LEFT * 2, b"\x7f"), "\u4f60\u4e16\u754c")
        self.assertEqual(self.typed("e\u00e9\U0001f642".encode(), b"\x7f", b"x"), "e\u00e9x")
        self.assertEqual(self.typed(b"xb", self.LEFT * 2, b"\x04a", self.END, b"c"), "abc")

    def test_a_narrow_terminal_edits_long_lines(self):
        han = "\u4f60\u597d" * 30
        self.assertEqual(self.typed(han.encode(), self.LEFT * 59, b"a", columns=20).replace(" ", ""), "\u4f60a" + han[1:])

    def test_bytes_that_are_not_utf8_become_one_sign_each(self):
        self.assertEqual(self.typed(b"a\xff\xfeb\xe4\xbdc"), "a\ufffd\ufffdb\ufffdc")

    def test_lines_longer_than_a_terminal_hands_over(self):
        text = "word " * 1200
        self.assertEqual(self.typed(text.encode(), columns=200, options=("--context", "512")), text.strip())

    def test_the_arrow_keys_go_through_earlier_lines_of_this_and_other_chats(self):
        state = cli.folder() / "arrows"
        env = {"NO_COLOR": "1", "XDG_STATE_HOME": str(state)}

        def run(lines, wanted, *options):
            with cli.Terminal("chat", cli.model(), *options, env=env) as terminal:
                end = terminal.wait_for(PROMPT)
                for keys in lines:
                    terminal.send(keys + b"\n")
                    end = terminal.wait_for(rb"\r\n", end)
                    end = terminal.wait_for(PROMPT, end)
                self.assertIn(wanted, terminal.shown)
                terminal.send(b"\x04")
                self.assertEqual(terminal.finish(), cli.DONE)

        run([b"/system one", b"/system two", self.UP * 2, b"/system"], b"one\r\n")
        history = state / "cria" / "history"
        self.assertEqual(history.read_text(), "/system one\n/system two\n/system one\n/system\n")
        self.assertEqual(stat.S_IMODE(history.stat().st_mode), 0o600)
        before = history.read_bytes()
        run([self.UP * 3 + b"/reset"], b"(a new conversation)", "--no-history")  # there is nothing to go back to
        self.assertEqual(history.read_bytes(), before)
        run([self.UP * 3], b"two\r\n(a new conversation)")

    def test_a_history_that_cannot_be_is_told_once(self):
        state = cli.folder() / "odd"
        history = state / "cria" / "history"
        history.mkdir(parents=True)
        with cli.Terminal("chat", cli.model(), "--greedy", columns=1000, env={"NO_COLOR": "1", "XDG_STATE_HOME": str(state)}) as terminal:
            end = terminal.wait_for(PROMPT)
            for line in (b"/stats", b"/reset"):
                terminal.send(line + b"\n")
                end = terminal.wait_for(re.escape(line) + rb"\r\n", end)
                end = terminal.wait_for(PROMPT, end)
            terminal.send(b"\x04")
            self.assertEqual(terminal.finish(), cli.DONE)
            self.assertEqual(terminal.shown.count(b"warning"), 1)
        self.assertEqual(list(history.iterdir()), [])

    def test_edit_shows_the_message_to_be_changed(self):
        with cli.Terminal("chat", cli.model(), "--greedy", "-n", "4", env={"NO_COLOR": "1"}) as terminal:
            end = terminal.wait_for(PROMPT)
            terminal.send(b"hello cria\n")
            end = terminal.wait_for(PROMPT, end + 14)
            terminal.send(b"/edit\n")
            end = terminal.wait_for(rb"> hello cria", end)
            terminal.send(b"\x7f" * 4 + b"llama\n")
            end = terminal.wait_for(rb"llama\r\n", end)
            end = terminal.wait_for(PROMPT, end)
            terminal.send(b"/edit\n")
            end = terminal.wait_for(rb"> hello llama", end)
            terminal.send(b"\x03")
            end = terminal.wait_for(PROMPT, end)
            terminal.send(b"/stats\n")
            end = terminal.wait_for(rb"2 messages", end)
            terminal.wait_for(PROMPT, end)
            terminal.send(b"\x04")
            self.assertEqual(terminal.finish(), cli.DONE)

    def test_a_signal_leaves_the_terminal_as_it_was(self):
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            with cli.Terminal("chat", cli.model()) as terminal:
                before = termios.tcgetattr(terminal.descriptor)[3]
                terminal.wait_for(PROMPT)
                self.assertNotEqual(termios.tcgetattr(terminal.descriptor)[3], before)
                os.kill(terminal.pid, number)
                end = time.monotonic() + cli.PATIENCE_S
                while termios.tcgetattr(terminal.descriptor)[3] != before and time.monotonic() < end:
                    time.sleep(0.01)
                self.assertEqual(termios.tcgetattr(terminal.descriptor)[3], before)
                self.assertEqual(terminal.finish(), -number)

    def test_stopped_and_continued_it_goes_on_editing(self):
        with cli.Terminal("chat", cli.model(), env={"NO_COLOR": "1"}) as terminal:
            end = terminal.wait_for(PROMPT)
            terminal.send(b"/sta")
            terminal.wait_for(rb"/sta", end)
            os.kill(terminal.pid, signal.SIGTSTP)
            while os.waitpid(terminal.pid, os.WUNTRACED | os.WNOHANG)[0] == 0:
                time.sleep(0.01)
            os.kill(terminal.pid, signal.SIGCONT)
            terminal.send(b"ts\n")
            end = terminal.wait_for(rb"0 messages", end)
            terminal.wait_for(PROMPT, end)
            terminal.send(b"\x04")
            self.assertEqual(terminal.finish(), cli.DONE)


class Plain(unittest.TestCase):
    def test_without_a_terminal_there_are_no_colours(self):
        result = cli.cria("chat", cli.model(), "--greedy", "--verbose", stdin="hello\n", env={"TERM": "xterm"})
        self.assertTrue(result.err)
        self.assertNotIn("\x1b", result.out + result.err)


if __name__ == "__main__":
    cli.main()
