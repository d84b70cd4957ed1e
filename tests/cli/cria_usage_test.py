"""Exit codes and messages: one line, on standard error, with the code that scripts rely on."""
import os
import re
import resource
import subprocess
import unittest

import cria_cli as cli

COMMANDS = ("info", "verify", "run", "chat", "bench", "tokenize", "logits", "embed", "eval", "serve")


class Usage(unittest.TestCase):
    def assert_fails(self, result, code, *words):
        self.assertEqual(result.code, code, result.err)
        self.assertEqual(result.raw, b"")
        self.assertRegex(result.err, r"\Acria: error: [^\n]+\n\Z")
        for word in words:
            self.assertIn(word, result.err)

    def test_help_and_version_go_to_standard_output(self):
        for arguments in (["--help"], ["--version"], ["run", "--help"], ["chat", "--help"], ["serve", "--help"]):
            result = cli.cria(*arguments)
            self.assertEqual(result.code, cli.DONE)
            self.assertEqual(result.err, "")
            self.assertTrue(result.out.endswith("\n"))
            self.assertLessEqual(max(map(len, result.out.split("\n"))), 80)

    def test_help_names_values_as_people_do(self):
        """Not as the option library calls their types."""
        for command in COMMANDS:
            self.assertNotRegex(cli.cria(command, "--help").out, r"\b(U?INT|FLOAT|TEXT:\w+)\b")

    def test_wrong_options_are_usage_errors(self):
        self.assert_fails(cli.cria(), cli.USAGE, "--help")
        self.assert_fails(cli.cria("jump"), cli.USAGE, "jump")
        self.assert_fails(cli.cria("run", "m.cria"), cli.USAGE, "-p")
        self.assert_fails(cli.cria("run", "m.cria", "-p", "a", "--threads", "0"), cli.USAGE, "--threads", "256")
        self.assert_fails(cli.cria("run", "m.cria", "-p", "a", "--temperature", "-1"), cli.USAGE, "--temperature")
        self.assert_fails(cli.cria("run", "m.cria", "-p", "a", "--isa", "avx9"), cli.USAGE, "scalar")
        self.assert_fails(cli.cria("chat", "m.cria", "--kv", "int3"), cli.USAGE, "int8, k8v4, f32")

    def test_an_option_without_its_value_is_a_usage_error(self):
        """Of every command, as its help lists them; an empty prompt is a prompt."""
        needed = {"run": ["-p", "a"], "logits": ["--ids", "1", "-o", "-"], "eval": ["--text", os.devnull]}
        texts = {("run", "--prompt"), ("logits", "--text"), ("embed", "--text")}
        n_tried = 0
        for command in COMMANDS:
            for line in cli.cria(command, "--help").out.split("\n"):
                option = re.match(r"\s+(?:-\w, ?)?(--[a-z-]+) [A-Z]", line)
                if not option or (command, option[1]) in texts:
                    continue
                with self.subTest(command=command, option=option[1]):
                    is_needed = option[1] in ("--ids", "--text", "--output", "--prompt")
                    others = [] if is_needed else needed.get(command, [])
                    if command == "tokenize" and option[1] in ("--date", "--tools", "--template-args"):
                        others = ["--chat", "-"]
                    if option[1] == "--tool-choice":
                        others = [*others, "--tools", os.devnull]
                    self.assert_fails(cli.cria(command, "m.cria", *others, option[1], ""), cli.USAGE, option[1] + ": ")
                    n_tried += 1
            self.assert_fails(cli.cria(command, "", *needed.get(command, [])), cli.USAGE, "M.cria: must not be empty")
        self.assertLess(60, n_tried)

    def test_a_list_with_an_empty_place_is_a_usage_error(self):
        for command, option in (("bench", "--sessions"), ("bench", "--threads"), ("bench", "--prompt"), ("run", "--ids"),
                                ("logits", "--ids")):
            others = ["-o", "-"] if command == "logits" else []
            for value in ("1,,2", "1,2,", ",1", ",", "1, 2", "1,0x2", "1;2"):
                self.assert_fails(cli.cria(command, "m.cria", *others, option, value), cli.USAGE, option + ": ", "is not a number from")

    def test_a_context_the_model_was_not_trained_for_is_a_usage_error(self):
        self.assert_fails(cli.cria("info", cli.model(), "--context", "513"), cli.USAGE, "513", "512")

    def test_an_id_outside_the_vocabulary_is_a_usage_error(self):
        self.assert_fails(cli.cria("run", cli.model(), "--ids", "1,2048"), cli.USAGE, "2048")
        out = cli.folder() / "no.f32"
        self.assert_fails(cli.cria("logits", cli.model(), "--ids", "2048", "-o", out), cli.USAGE, "2048")
        self.assertFalse(out.exists())

    def test_every_command_refuses_a_file_that_is_not_there(self):
        missing = cli.folder() / "missing.cria"
        for command in (["info"], ["verify"], ["run", "-p", "a"], ["chat"], ["bench"], ["tokenize"],
                        ["logits", "--ids", "1", "-o", "-"], ["embed"], ["eval", "--text", os.devnull], ["serve"]):
            result = cli.cria(command[0], missing, *command[1:])
            self.assert_fails(result, cli.BAD_INPUT, str(missing))

    def test_what_is_no_model_is_bad_input(self):
        text = cli.folder() / "text.cria"
        text.write_text("This is a letter, not a model.\n" * 100)
        empty = cli.folder() / "empty.cria"
        empty.write_bytes(b"")
        for path in (text, empty, cli.folder(), os.devnull):
            for command in (["info"], ["verify"], ["run", "-p", "a"]):
                self.assert_fails(cli.cria(command[0], path, *command[1:]), cli.BAD_INPUT, str(path))

    def test_a_shortened_or_changed_file_is_bad_input(self):
        data = open(cli.model(), "rb").read()
        short = cli.folder() / "short.cria"
        short.write_bytes(data[:-1])
        self.assert_fails(cli.cria("info", short), cli.BAD_INPUT, str(short))
        changed = cli.folder() / "changed.cria"
        middle = len(data) // 2  # of the weights
        changed.write_bytes(data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1:])
        self.assert_fails(cli.cria("verify", changed), cli.BAD_INPUT, str(changed), "damaged")
        self.assert_fails(cli.cria("run", changed, "-p", "a"), cli.BAD_INPUT, str(changed))

    def test_a_model_without_tokenizer_says_so(self):
        bare = cli.model("--no-tokenizer")
        self.assert_fails(cli.cria("run", bare, "-p", "a"), cli.BAD_INPUT, "tokenizer")
        self.assert_fails(cli.cria("chat", bare, stdin="a\n"), cli.BAD_INPUT, "tokenizer")
        self.assert_fails(cli.cria("tokenize", bare, stdin="a"), cli.BAD_INPUT, "tokenizer")
        self.assertEqual(cli.cria("run", bare, "--ids", "1,2", "-n", "1", "--greedy").code, cli.DONE)

    def test_a_prompt_longer_than_the_context_says_what_to_do(self):
        result = cli.cria("run", cli.model(), "--context", "16", "-p", "a story " * 20)
        self.assert_fails(result, cli.BAD_INPUT, "16", "--context")

    def test_a_full_disk_is_an_io_error(self):
        if not os.path.exists("/dev/full"):
            self.skipTest("no /dev/full")
        for command in (["info", cli.model()], ["run", cli.model(), "-p", "a", "-n", "4"],
                        ["logits", cli.model(), "--ids", "1", "-o", "-"]):
            with open("/dev/full", "wb") as full:
                done = subprocess.run(cli.command_line(command), stdout=full, stderr=subprocess.PIPE, timeout=cli.PATIENCE_S)
            self.assertEqual(done.returncode, cli.IO, done.stderr)
            self.assertTrue(done.stderr.endswith(b"; free some space or write elsewhere\n"), done.stderr)

    def test_a_folder_or_a_missing_folder_cannot_be_written(self):
        logits = ["logits", cli.model(), "--ids", "1", "-o"]
        self.assert_fails(cli.cria(*logits, cli.folder()), cli.BAD_INPUT, "folder")
        self.assert_fails(cli.cria(*logits, cli.folder() / "none" / "x"), cli.IO, "; make the folder first")

    def test_too_little_memory_says_how_much_is_needed(self):
        if cli.IS_SANITIZED or cli.IS_EMULATED:
            self.skipTest("sanitizers and emulators need more address space than any limit here")
        plan = cli.json.loads(cli.cria("info", cli.model("--weights", "f32"), "--json", "--threads", "1").out)
        needed = plan["memory_plan"]["total_bytes"]
        # Address space for the program, but not for the arena.
        limit = needed + 4_000_000

        def narrow():
            resource.setrlimit(resource.RLIMIT_AS, (limit, limit))

        done = subprocess.run([cli.CRIA, "run", cli.model("--weights", "f32"), "-p", "a", "--threads", "1"],
                              preexec_fn=narrow, capture_output=True, text=True, timeout=cli.PATIENCE_S)
        self.assertEqual(done.returncode, cli.MEMORY, done.stderr)
        self.assertIn(f"{needed:,} bytes", done.stderr)


if __name__ == "__main__":
    cli.main()
