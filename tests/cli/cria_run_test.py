"""cria run: what it prints where, and what does not change a token."""
import os
import re
import signal
import subprocess
import time
import unittest

import cria_cli as cli

PROMPT = "Once upon a time"


def run(*arguments, **keywords):
    return cli.cria("run", cli.model(), *arguments, **keywords)


class Run(unittest.TestCase):
    def test_continues_the_prompt_on_standard_output_and_times_on_standard_error(self):
        result = run("-p", PROMPT, "-n", "16", "--greedy")
        self.assertEqual(result.code, cli.DONE)
        self.assertTrue(result.out.startswith(PROMPT))
        self.assertGreater(len(result.out), len(PROMPT) + 10)
        self.assertTrue(result.out.endswith("\n"))
        self.assertRegex(result.err, r"prefill \d+ tokens, [\d.]+ tokens/s; first token after [\d.]+ s; "
                                     r"decode 16 tokens, [\d.]+ tokens/s")

    def test_no_echo_prints_the_continuation_alone(self):
        with_echo = run("-p", PROMPT, "-n", "16", "--greedy")
        without = run("-p", PROMPT, "-n", "16", "--greedy", "--no-echo")
        self.assertEqual(with_echo.out, PROMPT + without.out)

    def test_reads_the_prompt_from_standard_input(self):
        wanted = run("-p", PROMPT, "-n", "16", "--greedy")
        for text in (PROMPT, PROMPT + "\n", PROMPT + "\r\n"):
            self.assertEqual(run("-p", "-", "-n", "16", "--greedy", stdin=text).out, wanted.out)
        path = cli.folder() / "prompt.txt"
        path.write_text(PROMPT + "\n")
        with open(path, "rb") as file:
            done = subprocess.run(cli.command_line(["run", cli.model(), "-p", "-", "-n", "16", "--greedy"]), stdin=file,
                                  capture_output=True, timeout=cli.PATIENCE_S)
        self.assertEqual(done.stdout, wanted.raw)

    def test_greedy_tokens_are_those_of_the_reference(self):
        f32 = cli.model("--weights", "f32")
        compared = 0
        for row in cli.golden():
            ids = ",".join(map(str, row["prompt_ids"]))
            result = cli.cria("run", f32, "--ids", ids, "-n", len(row["greedy_ids"]), "--greedy", "--ignore-end",
                              "--no-echo", "--kv", "f32")
            self.assertEqual(result.out, " ".join(map(str, row["greedy_ids"])) + "\n")
            compared += 1
        self.assertGreater(compared, 0)

    def test_ids_are_echoed_before_those_that_follow(self):
        result = run("--ids", "2042,5,9", "-n", "2", "--greedy", "--ignore-end")
        self.assertRegex(result.out, r"\A2042 5 9 \d+ \d+\n\Z")

    def test_stops_at_an_end_token(self):
        question = cli.golden()[0]
        ids = ",".join(map(str, question["prompt_ids"]))
        result = run("--ids", ids, "--greedy", "--no-echo")
        self.assertEqual(result.code, cli.DONE)
        self.assertLess(len(result.out.split()), 100)

    def test_stops_when_the_context_is_full(self):
        result = run("-p", PROMPT, "--context", "24", "--greedy", "--ignore-end")
        self.assertEqual(result.code, cli.DONE)
        self.assertIn("the context is full", result.err)

    def test_minus_n_zero_prints_the_prompt_alone(self):
        self.assertEqual(run("-p", PROMPT, "-n", "0").out, PROMPT + "\n")

    def test_the_same_seed_gives_the_same_text(self):
        options = ("-p", PROMPT, "-n", "40", "--temperature", "1.2")
        texts = {run(*options, "--seed", seed).out for seed in (1, 2, 3, 4)}
        self.assertGreater(len(texts), 1)
        first = run(*options)
        seed = re.search(r"seed (\d+)", first.err).group(1)
        self.assertEqual(run(*options, "--seed", seed).out, first.out)

    def test_threads_chunks_and_the_file_do_not_change_a_token(self):
        wanted = run("-p", PROMPT, "-n", "16", "--greedy", "--backend", "exact").out
        for options in (("--threads", "2"), ("--threads", "3"), ("--prefill-chunk", "1"), ("--prefill-chunk", "3"),
                        ("--context", "64"), ("--no-mmap",)):
            self.assertEqual(run("-p", PROMPT, "-n", "16", "--greedy", "--backend", "exact", *options).out, wanted)
        stored = cli.model("--compress", "none")
        for options in ((), ("--no-mmap",)):
            result = cli.cria("run", stored, "-p", PROMPT, "-n", "16", "--greedy", "--backend", "exact", *options)
            self.assertEqual(result.out, wanted)

    def test_special_tokens_in_the_prompt_are_text_unless_asked_for(self):
        text = "<|begin_of_text|>" + PROMPT
        plain = cli.cria("run", cli.model(), "-p", text, "-n", "1", "--greedy")
        parsed = cli.cria("run", cli.model(), "-p", text, "-n", "1", "--greedy", "--parse-special")
        count = {name: int(re.search(r"prefill (\d+)", result.err).group(1))
                 for name, result in (("plain", plain), ("parsed", parsed))}
        usual = int(re.search(r"prefill (\d+)", run("-p", PROMPT, "-n", "1", "--greedy").err).group(1))
        self.assertEqual(count["parsed"], usual)
        self.assertGreater(count["plain"], usual)

    def test_ends_quietly_when_the_reader_goes_away(self):
        command = f"'{cli.CRIA}' run '{cli.model()}' -p '{PROMPT}' --ignore-end --greedy --threads 1 | head -c 30; echo ${{PIPESTATUS[0]}}"
        done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=cli.PATIENCE_S)
        self.assertEqual(done.stdout[:30], run("-p", PROMPT, "-n", "16", "--greedy").out[:30])
        self.assertEqual(done.stdout[30:], "0\n")
        self.assertNotIn("error", done.stderr)
        command = f"'{cli.CRIA}' info '{cli.model()}' | head -1; echo ${{PIPESTATUS[0]}}"
        done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=cli.PATIENCE_S)
        self.assertEqual(done.stdout, cli.model() + "\n0\n")

    def test_text_is_streamed(self):
        """The first words arrive while the program is held up by a full pipe."""
        with subprocess.Popen(cli.command_line(["run", cli.model(), "-p", PROMPT, "--greedy", "--ignore-end"]),
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
            text = b""
            while len(text) < len(PROMPT) + 1:
                piece = os.read(process.stdout.fileno(), 4096)
                self.assertTrue(piece)
                text += piece
            process.stdout.read()
        self.assertEqual(process.returncode, cli.DONE)

    def test_no_half_characters_are_printed(self):
        result = cli.cria("run", cli.model(), "-p", "\U0001F999 na\u00efve", "-n", "60", "--temperature", "3", "--top-p", "1",
                          "--top-k", "0", "--min-p", "0", "--seed", "5", "--ignore-end")
        result.raw.decode("utf-8")
        self.assertEqual(result.code, cli.DONE)

    def test_ctrl_c_ends_it_with_a_whole_line_and_130(self):
        with subprocess.Popen(cli.command_line(["run", cli.model(), "-p", PROMPT, "--backend", "exact", "--ignore-end"]),
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            text = b""
            while len(text) < len(PROMPT) + 1:
                text += os.read(process.stdout.fileno(), 4096)
            process.send_signal(signal.SIGINT)
            rest, errors = process.communicate(timeout=cli.PATIENCE_S)
        # The whole context may have been filled before the signal came.
        self.assertIn(process.returncode, (cli.INTERRUPTED, cli.DONE))
        self.assertTrue((text + rest).endswith(b"\n"))
        self.assertIn(b"decode", errors)


if __name__ == "__main__":
    cli.main()
