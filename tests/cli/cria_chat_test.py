"""cria chat: through a pipe each line is a message and answers are all that is shown; on a terminal there are commands."""
import json
import os
import re
import stat
import struct
import subprocess
import unittest

import checkpoints
import cria_cli as cli

LETTERS = "bcfghjkl"  # none that a role or a control string has


def write_letters_checkpoint(folder):
    """Eight letters are all the tokens there are: the template's strings give none."""
    folder.mkdir()
    width, ffn = 32, 32
    shapes = {"model.embed_tokens.weight": [len(LETTERS), width], "model.norm.weight": [width]}
    for name in ("input_layernorm", "post_attention_layernorm"):
        shapes[f"model.layers.0.{name}.weight"] = [width]
    for name in ("q", "k", "v", "o"):
        shapes[f"model.layers.0.self_attn.{name}_proj.weight"] = [width, width]
    for name, shape in (("gate", [ffn, width]), ("up", [ffn, width]), ("down", [width, ffn])):
        shapes[f"model.layers.0.mlp.{name}_proj.weight"] = shape
    header, data = {}, b""
    for name, shape in shapes.items():
        values = [(i * 37 % 101 - 50) / 100 for i in range(shape[0] * shape[-1] if len(shape) > 1 else shape[0])]
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + 4 * len(values)]}
        data += struct.pack(f"<{len(values)}f", *values)
    text = json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
    (folder / "config.json").write_text(json.dumps({
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "hidden_size": width,
        "intermediate_size": ffn, "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 2,
        "head_dim": 16, "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
        "vocab_size": len(LETTERS), "tie_word_embeddings": True}))
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    (folder / "tokenizer.json").write_text(json.dumps({
        "version": "1.0", "added_tokens": [], "normalizer": None, "pre_tokenizer": byte_level, "post_processor": None,
        "decoder": byte_level,
        "model": {"type": "BPE", "vocab": {letter: i for i, letter in enumerate(LETTERS)}, "merges": []}}))
    (folder / "tokenizer_config.json").write_text(json.dumps({
        "chat_template": "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + "
                         "message['content'] | trim + '<|im_end|>' + '\\n' }}{% endfor %}"}))


def chat(*arguments, lines, model=None, **keywords):
    return cli.cria("chat", model or cli.model(), "--greedy", *arguments,
                    stdin="".join(line + "\n" for line in lines), **keywords)


def thinking_model(special):
    """The demo with two of its tokens renamed, so that it begins what it answers to "hi" with a thought."""
    folder = cli.folder() / f"thinking_{special}"
    if not folder.exists():
        folder.mkdir()
        for file in cli.DEMO.iterdir():
            if file.is_file() and file.name != "tokenizer.json":
                (folder / file.name).write_bytes(file.read_bytes())
        tokenizer = json.loads((cli.DEMO / "tokenizer.json").read_text("utf-8"))
        taken = {"Hello": "<think>", "\u0120meet": "</think>"}
        pairs = tokenizer["model"]["merges"]
        tokenizer["model"]["merges"] = [pair for pair in pairs if not taken.keys() & {*pair, "".join(pair)}]
        for name, text in taken.items():
            tokenizer["added_tokens"].append({**tokenizer["added_tokens"][0], "id": tokenizer["model"]["vocab"].pop(name),
                                              "content": text, "special": special})
        (folder / "tokenizer.json").write_text(json.dumps(tokenizer), "utf-8")
    return cli.converted(folder)


class Thinking(unittest.TestCase):
    BEHIND = " you. Ask me something or ask for a story.\n"
    TAGGED = "<think>! Nice to</think>"

    def test_through_a_pipe_thoughts_are_as_the_model_wrote_them_or_hidden(self):
        for special, thought in ((False, self.TAGGED), (True, "! Nice to")):
            model = thinking_model(special)
            for option in ((), ("--thinking", "dim"), ("--thinking", "plain")):
                self.assertEqual(chat(*option, lines=["hi"], model=model).out, thought + self.BEHIND)
            self.assertEqual(chat("--thinking", "hide", lines=["hi"], model=model).out, self.BEHIND.lstrip())
            # A thought that was cut is a line all the same.
            self.assertEqual(chat("--thinking", "hide", "-n", "2", lines=["hi", "hi"], model=model).out.count("\n"), 2)
        self.assertEqual(chat("--thinking", "loud", lines=["hi"]).code, cli.USAGE)

    def test_on_a_terminal_thoughts_are_dim(self):
        for special, thought in ((False, self.TAGGED), (True, "! Nice to")):
            for option, wanted in (((), f"\x1b[2m{thought}\x1b[0m{self.BEHIND}"), (("--thinking", "plain"), thought + self.BEHIND)):
                with cli.Terminal("chat", thinking_model(special), "--greedy", *option) as terminal:
                    end = terminal.wait_for(rb"> ?\Z|m \Z")
                    terminal.send(b"hi\n")
                    begin = terminal.wait_for(rb"hi\r\n", end)
                    terminal.wait_for(rb"story\.\r\n", begin)
                    terminal.send(b"\x04")
                    self.assertEqual(terminal.finish(), cli.DONE)
                    self.assertTrue(terminal.shown[begin:].decode().replace("\r\n", "\n").startswith(wanted), terminal.shown)

    def test_a_hidden_thought_is_told_on_a_terminal_while_it_lasts(self):
        with cli.Terminal("chat", thinking_model(False), "--greedy", "--thinking", "hide") as terminal:
            terminal.wait_for(rb"m \Z")
            terminal.send(b"hi\n")
            terminal.wait_for(rb"\rthinking  \d+ tokens\x1b\[K\r\x1b\[Kyou\. Ask me")
            terminal.send(b"\x04")
            self.assertEqual(terminal.finish(), cli.DONE)
            self.assertNotIn(b"Nice", terminal.shown)


SWITCHED = """{%- for message in messages %}
{{- '<|start_header_id|>' + message.role + '<|end_header_id|>\\n\\n' + message.content | trim + '<|eot_id|>' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{%- if enable_thinking is defined %}{{ 'Once upon a time' if enable_thinking else 'The sun' }}{% endif %}{% endif %}"""


class ThinkingSwitch(unittest.TestCase):
    """A template that opens the answer with other words as thinking is switched."""

    @classmethod
    def setUpClass(cls):
        path = cli.folder() / "switched.jinja"
        path.write_text(SWITCHED)
        cls.model = cli.model("--chat-template", str(path))

    def test_on_and_off_open_other_answers(self):
        usual, on, off = (chat(*options, lines=["hello", "hello"], model=self.model).out
                          for options in ((), ("--thinking", "on"), ("--thinking", "off")))
        self.assertEqual(len({usual, on, off}), 3)
        # Both turns are opened so, and what was answered stays as it was said.
        self.assertEqual(off.splitlines()[0], chat("--thinking", "off", lines=["hello"], model=self.model).out.rstrip("\n"))

    def test_without_a_switch_nothing_changes(self):
        self.assertEqual(chat("--thinking", "off", lines=["hello"]).out, chat(lines=["hello"]).out)

    def test_it_is_turned_while_one_talks(self):
        wanted = {name: chat("--thinking", name, lines=["hello"], model=self.model).out.encode().rstrip(b"\n") for name in ("on", "off")}
        with cli.Terminal("chat", self.model, "--greedy", "--thinking", "on") as terminal:
            end = terminal.wait_for(rb"> ?\Z|m \Z")
            for line, told in ((b"hello", wanted["on"]), (b"/reset", b"(a new conversation)"), (b"/set thinking off", b""), (b"hello", wanted["off"]),
                               (b"/set", b"thinking           off"), (b"/set thinking maybe", b"'maybe' is not on, off or auto"),
                               (b"/set thinking", b"needs a value")):
                terminal.send(line + b"\n")
                if told:
                    end = terminal.wait_for(re.escape(told), end)
            terminal.send(b"\x04")
            self.assertEqual(terminal.finish(), cli.DONE)


class Chat(unittest.TestCase):
    def test_prints_the_answer_and_nothing_else(self):
        result = chat(lines=["hello"])
        self.assertEqual(result.code, cli.DONE)
        self.assertEqual(result.err, "")
        self.assertRegex(result.out, r"\A[A-Z][^\n]+[.!?]\n\Z")

    def test_a_shell_pipe_works(self):
        done = subprocess.run(f"echo hello | '{cli.CRIA}' chat '{cli.model()}' --greedy --threads 1", shell=True, capture_output=True,
                              timeout=cli.PATIENCE_S)
        self.assertEqual(done.returncode, cli.DONE)
        self.assertEqual(done.stdout.decode(), chat(lines=["hello"]).out)

    def test_answers_as_the_reference_does(self):
        f32 = cli.model("--weights", "f32")
        compared = 0
        for row in cli.golden():
            messages = row["prompt"]
            if isinstance(messages, str) or any(message["role"] == "assistant" for message in messages):
                continue
            system = [message["content"] for message in messages if message["role"] == "system"]
            options = ["--system", system[0]] if system else []
            answer = row["greedy_text"].split("<|eot_id|>")[0].split("<|end_of_text|>")[0]
            result = chat("--kv", "f32", *options, lines=[messages[-1]["content"]], model=f32)
            # Stories may be longer than the reference, which stops after a number of tokens.
            self.assertTrue(result.out.startswith(answer.strip()), (result.out, answer))
            compared += 1
        self.assertGreaterEqual(compared, 4)

    def test_remembers_the_conversation(self):
        result = chat(lines=["What is a cria?", "Tell me more."])
        alone = chat(lines=["Tell me more."])
        answers = result.out.split("\n")
        self.assertEqual(len(answers), 3)
        self.assertNotEqual(answers[1], alone.out.strip())

    def test_reset_forgets_it(self):
        code, shown = cli.talk(lines=["What is a cria?", "/reset", "Tell me more."])
        self.assertEqual(code, cli.DONE)
        self.assertEqual(shown[2], chat(lines=["Tell me more."]).out)

    def test_a_last_line_without_newline_and_empty_lines(self):
        wanted = chat(lines=["hello"]).out
        self.assertEqual(cli.cria("chat", cli.model(), "--greedy", stdin="\n  \r\nhello").out, wanted)
        self.assertEqual(cli.cria("chat", cli.model(), "--greedy", stdin="").raw, b"")

    def test_long_answers_end_at_minus_n_and_the_conversation_goes_on(self):
        result = chat("-n", "3", lines=["What is a cria?", "hello"])
        first, second, _ = result.out.split("\n")
        self.assertTrue(chat(lines=["What is a cria?"]).out.startswith(first))
        self.assertTrue(first and second)

    def test_exit_ends_it(self):
        self.assertEqual(cli.talk(lines=["/exit", "hello"]), (cli.DONE, []))
        self.assertEqual(cli.talk(lines=["/quit", "hello"]), (cli.DONE, []))

    def test_help_and_stats_go_to_standard_error(self):
        _, shown = cli.talk(lines=["hello", "/help", "/stats"])
        self.assertIn("/save FILE", shown[1])
        self.assertIn("tokens/s", shown[2])

    def test_an_unknown_command_is_told(self):
        code, shown = cli.talk(lines=["/jump"])
        self.assertEqual(code, cli.DONE)
        self.assertRegex(shown[0], r"\Acria: error: /jump is not a command[^\n]*\n\Z")

    def test_piped_lines_are_messages_whatever_they_start_with(self):
        """Text from elsewhere writes no file, reads none and ends nothing."""
        folder = cli.folder() / "piped"
        folder.mkdir()
        victim = folder / "victim"
        victim.write_text("precious")
        for line in (f"/save {victim}", f"/save {folder}/new", f"/load {victim}", "/exit", "/quit", "/help", "/system x",
                     "/jump"):
            result = chat("-n", "3", lines=[line, "hello"])
            self.assertEqual((result.code, result.err), (cli.DONE, ""), line)
            # As a terminal takes it after a space.
            self.assertEqual(result.out, chat("-n", "3", lines=[" " + line, "hello"]).out)
        self.assertEqual(victim.read_text(), "precious")
        self.assertEqual([path.name for path in folder.iterdir()], ["victim"])

    def test_help_of_the_program_says_so(self):
        self.assertIn("Through a pipe each line is a message", cli.cria("chat", "--help").out)

    def test_a_slash_behind_a_space_is_a_message(self):
        _, shown = cli.talk(lines=[" /jump is what?"])
        self.assertEqual(shown[0], chat(lines=[" /jump is what?"]).out)

    def test_the_system_text_can_be_given_shown_and_changed(self):
        system = "You are cria, a tiny assistant."
        wanted = chat("--system", system, lines=["What is a KV cache?"]).out
        _, shown = cli.talk(lines=[f"/system {system}", "/system", "What is a KV cache?"])
        self.assertIn(system, shown[1])
        self.assertEqual(shown[2], wanted)

    def test_a_full_context_forgets_the_oldest_exchanges_and_goes_on(self):
        questions = ["What is a cria?", "What is quantization?", "Tell me a story about a brave fox.",
                     "What is a KV cache?", "What is 7 + 8?", "How do I stop?"] * 3
        result = chat("--system", "You are cria, a tiny assistant.", "--context", "200", lines=questions)
        self.assertEqual(result.code, cli.DONE, result.err)
        self.assertIn("the context of 200 tokens was full", result.err)
        answers = result.out.rstrip("\n").split("\n")
        self.assertGreaterEqual(len(answers), len(questions))
        self.assertTrue(all(answers))

    def test_learned_positions_are_read_again_where_the_context_was_full(self):
        model = cli.converted(checkpoints.gpt2("gpt2", 128), "--weights", "int8")
        questions = ["What is a cria?", "What is quantization?", "What is a KV cache?", "How do I stop?"] * 3
        answers = []
        for options in ((), ("--exact-context",)):
            result = cli.cria("chat", model, "--greedy", "-n", "24", "--backend", "exact", *options, stdin="\n".join(questions))
            self.assertEqual(result.code, cli.DONE, result.err)
            self.assertRegex(result.err, r"(?m)^\(the context of 128 tokens was full: forgot the oldest \d+ exchanges? and read the rest "
                                         r"again, whose positions cannot move\)$")
            answers.append(result.raw)
        self.assertEqual(*answers)
        result = cli.cria("chat", model, "--context", "129", stdin="")
        self.assertEqual(result.code, cli.USAGE)
        self.assertIn("--context 129 is more than the 128 positions of the model", result.err)

    def test_states_are_read_again_where_the_context_was_full(self):
        model = cli.converted(checkpoints.lfm2("lfm2_of_128", 128), "--weights", "int8")
        questions = ["What is a cria?", "What is quantization?", "What is a KV cache?", "How do I stop?"] * 3
        result = cli.cria("chat", model, "--greedy", "-n", "24", stdin="\n".join(questions))
        self.assertEqual(result.code, cli.DONE, result.err)
        self.assertRegex(result.err, r"(?m)^\(the context of 128 tokens was full: forgot the oldest \d+ exchanges? and read the rest again, "
                                     r"as no exchange can be taken out of its layers' state\)$")
        self.assertNotIn("positions", result.err)

    def test_an_answer_again_reads_the_last_token_alone(self):
        for model in (cli.model(), cli.converted(checkpoints.lfm2("lfm2_again", 512), "--weights", "int8")):
            _, shown = cli.talk("--system", "You are cria, a tiny assistant.", "-n", "8", model_path=model,
                                lines=["What is a cria?", "/regen", "/stats", "Tell me more.", "/regen", "/stats"])
            for stats in (shown[2], shown[5]):
                self.assertIn("last answer: 1 tokens read", stats)

    def test_regen_undo_and_edit_keep_the_conversation_that_is_left(self):
        """What follows is what a conversation of the messages that are left gives."""
        first, second, third = "What is a cria?", "Tell me more.", "Thanks!"
        wanted = chat("--backend", "exact", lines=[first, third]).out.rstrip("\n").split("\n")
        _, shown = cli.talk("--backend", "exact", lines=[first, second, "/undo", third])
        self.assertIn("2 messages are left", shown[2])
        self.assertEqual(shown[3].strip(), wanted[1])
        _, shown = cli.talk("--backend", "exact", lines=[first, second, f"/edit {third}", "/stats"])
        self.assertEqual(shown[2].strip(), wanted[1])
        self.assertIn("4 messages", shown[3])
        _, shown = cli.talk("--backend", "exact", lines=[first, "/regen", "/regen", third])
        for again in shown[1:3]:
            self.assertIn("greedy", again)
            self.assertEqual(again.split("\n", 1)[1], shown[0])
        self.assertEqual(shown[3].strip(), wanted[1])

    def test_regen_draws_another_answer(self):
        lines = ["/set temperature 2", "/set top-k 0", "/set seed 4", "Tell me a story.", "/regen", "/regen"]
        _, shown = cli.talk("-n", "20", lines=lines)
        self.assertEqual(len(set(shown[3:])), 3, shown)
        _, again = cli.talk("-n", "20", lines=lines)
        self.assertEqual(again, shown)

    def test_without_a_message_there_is_nothing_to_take_back(self):
        _, shown = cli.talk("--system", "You are cria.", lines=["/undo", "/regen", "/edit", "/edit x"])
        for line in shown:
            self.assertEqual(line, "cria: error: there is no message yet; write one first\n")

    def test_an_edit_that_cannot_be_said_leaves_the_exchange(self):
        wanted = chat("--context", "128", lines=["What is a cria?", "Thanks!"]).out.rstrip("\n").split("\n")
        _, shown = cli.talk("--context", "128", lines=["What is a cria?", "/edit " + "story " * 200, "/stats", "Thanks!"])
        self.assertIn("does not fit", shown[1])
        self.assertIn("2 messages", shown[2])
        self.assertEqual(shown[3].strip(), wanted[1])

    def test_undo_behind_a_full_context_says_what_stays_forgotten(self):
        questions = ["What is quantization?"] * 6
        _, shown = cli.talk("--context", "128", "-n", "24", lines=[*questions, "/undo", "Who are you?"])
        self.assertIn("forgot the oldest", "".join(shown[:6]))
        self.assertIn("no room for stays forgotten", shown[6])
        self.assertTrue(shown[7].strip())

    def test_settings_are_those_of_the_command_line(self):
        _, shown = cli.talk("-n", "30", lines=["/set", "/set temperature 2", "/set top-k 0", "/set top-p 1", "/set min-p 0", "/set seed 3",
                                               "/set", "Tell me a story."])
        self.assertIn("greedy             on\n", shown[0])
        self.assertIn("max-tokens         30\n", shown[0])
        self.assertEqual(shown[1:6], [""] * 5)
        for line in ("greedy             off", "temperature        2", "seed               3"):
            self.assertIn(line + "\n", shown[6])
        wanted = cli.cria("chat", cli.model(), "--temperature", "2", "--top-k", "0", "--top-p", "1", "--min-p", "0", "--seed", "3",
                          "-n", "30", stdin="Tell me a story.\n").out
        self.assertEqual(shown[7], wanted)

    def test_a_wrong_setting_is_told_and_changes_nothing(self):
        lines = ["/set temperature 101", "/set heat 1", "/set temperature", "/set top-k -1", "/set seed x", "/set greedy maybe",
                 "/set\ttop-k 3", "/help me", "/"]
        _, shown = cli.talk(lines=[*lines[:6], *lines[7:], "/set"])
        for line in shown[:-1]:
            self.assertRegex(line, r"\Acria: error: [^\n]+\n\Z")
        wrong = cli.cria("run", cli.model(), "-p", "a", "--temperature", "101")
        self.assertIn(shown[0].removeprefix("cria: error: ").strip(), wrong.err)
        self.assertIn("needs a value: /set temperature X, from 0 to 100", shown[2])
        self.assertIn("greedy             on\n", shown[-1])
        self.assertIn("temperature        0.8\n", shown[-1])

    def test_what_is_no_command_is_told_how_it_becomes_a_message(self):
        _, shown = cli.talk("-n", "4", lines=["/ hi", "/etc/passwd is a file", "/set", " / hi"])
        for name, line in zip(("/", "/etc/passwd"), shown):
            self.assertEqual(line, f"cria: error: {name} is not a command; /help lists them. A space before the "
                                   "/ makes the line a message\n")
        self.assertNotIn("error", shown[3])

    def test_advice_fits_what_was_given(self):
        long = cli.folder() / "long"
        with open(long, "wb") as file:
            file.truncate(1 << 40)
        pipe = cli.folder() / "a pipe"
        os.mkfifo(pipe)
        _, shown = cli.talk(lines=[f"/load {long}", f"/load {pipe}", f"/load {cli.folder()}"])
        self.assertRegex(shown[0], r"long: is longer than the [0-9,]+ bytes that are read; give a file that /save wrote\n\Z")
        self.assertIn("a pipe: is a named pipe; give a file that /save wrote", shown[1])
        self.assertIn(": is a folder; give a file that /save wrote", shown[2])

    def test_help_names_every_command_in_forty_columns(self):
        _, shown = cli.talk(lines=["/help"])
        for name in ("help", "reset", "system", "regen", "undo", "edit", "set", "save", "load", "stats", "exit", "quit"):
            self.assertIn("/" + name, shown[0])
        self.assertLessEqual(max(map(len, shown[0].split("\n"))), 40)

    def test_penalties_change_what_is_drawn(self):
        plain = chat("-n", "60", lines=["Tell me a story."]).out
        for option in ("--frequency-penalty", "--presence-penalty"):
            self.assertNotEqual(chat("-n", "60", option, "2", lines=["Tell me a story."]).out, plain)
            self.assertEqual(chat("-n", "60", option, "0", lines=["Tell me a story."]).out, plain)
            self.assertEqual(cli.cria("chat", cli.model(), option, "11").code, cli.USAGE)

    def test_piped_lines_neither_go_on_nor_leave_a_history(self):
        state = cli.folder() / "untouched"
        wanted = chat("-n", "4", lines=["one\\ ", '""" ', "two"]).out
        result = cli.cria("chat", cli.model(), "--greedy", "-n", "4", stdin='one\\\n"""\ntwo\n', env={"XDG_STATE_HOME": str(state)})
        self.assertEqual(result.out, wanted)
        self.assertEqual(len(result.out.rstrip("\n").split("\n")), 3)
        self.assertFalse(state.exists())

    def test_what_follows_a_full_context_is_what_the_last_exchanges_alone_give(self):
        """The context that is left is the one the kept messages make, not a leftover."""
        result = chat("--context", "128", "-n", "24", "--backend", "exact",
                      lines=["What is quantization?"] * 6)
        self.assertEqual(result.code, cli.DONE)
        self.assertIn("forgot", result.err)
        answers = result.out.strip().split("\n")
        self.assertEqual(len(answers), 6)

    def test_a_message_that_cannot_fit_is_refused(self):
        result = chat("--context", "64", lines=["a long story " * 100])
        self.assertEqual(result.code, cli.BAD_INPUT)
        self.assertRegex(result.err, r"\Acria: error: [^\n]*64 tokens[^\n]*\n\Z")

    def test_an_answer_that_fills_the_context_is_cut_and_says_so(self):
        result = chat("--context", "40", lines=["Tell me a story about a brave fox.", "hello"])
        self.assertEqual(result.code, cli.DONE, result.err)
        self.assertIn("cut", result.err)

    def test_saved_conversations_go_on_as_if_never_left(self):
        path = cli.folder() / "talk.chat"
        questions = ["What is a cria?", "Tell me more.", "Thanks!"]
        wanted = chat("--backend", "exact", lines=questions).out.rstrip("\n").split("\n")
        code, shown = cli.talk("--backend", "exact", lines=[questions[0], f"/save {path}"])
        self.assertEqual((code, shown[1]), (cli.DONE, f"(saved {path})\n"))
        self.assertEqual(stat.S_IMODE(path.stat().st_mode), 0o600)
        for options in ((), ("--threads", "2"), ("--context", "300")):
            _, shown = cli.talk("--backend", "exact", *options, lines=[f"/load {path}", *questions[1:]])
            self.assertEqual(shown[0], "(loaded 2 messages)\n")
            self.assertEqual("".join(shown[1:]).rstrip("\n").split("\n"), wanted[1:])
        self.assertEqual([name.name for name in cli.folder().glob("talk.chat*")], ["talk.chat"])

    def assert_load_fails(self, path, *words, options=(), model=None):
        """One line says why, and the conversation is empty and goes on."""
        code, shown = cli.talk("--backend", "exact", *options, lines=["What is a cria?", f"/load {path}", "/stats", "hello"],
                               model_path=model)
        self.assertEqual(code, cli.DONE)
        self.assertRegex(shown[1], r"\Acria: error: [^\n]+\n\Z")
        for word in words:
            self.assertIn(word, shown[1])
        self.assertTrue(shown[3].strip())

    def test_a_saved_conversation_of_another_model_or_format_is_refused(self):
        path = cli.folder() / "other.chat"
        self.assertEqual(cli.talk(lines=["hello", f"/save {path}"])[1][1], f"(saved {path})\n")
        self.assert_load_fails(path, model=cli.model("--weights", "int8"))
        self.assert_load_fails(path, options=("--kv", "f32"))
        self.assert_load_fails(path, "context of 16 tokens; raise --context", options=("--context", "16"))
        path.write_bytes(path.read_bytes()[:-1])
        self.assert_load_fails(path)
        self.assert_load_fails(f"{path}.none", "no such file")
        _, shown = cli.talk(lines=["/load", f"/save {cli.folder()}/none/x"])
        self.assertIn("needs a file name", shown[0])
        self.assertIn("cannot write", shown[1])

    def test_the_seed_decides_the_answers(self):
        def answer(seed):
            return cli.cria("chat", cli.model(), "--temperature", "2", "--top-k", "0", "--top-p", "1", "--min-p", "0",
                            "--seed", seed, "-n", "30", stdin="Tell me a story.\n").raw

        self.assertEqual(answer(1), answer(1))
        self.assertGreater(len({answer(seed) for seed in range(4)}), 1)

    def test_a_model_without_chat_template_says_what_to_use(self):
        # The same checkpoint without its template.
        source = cli.folder() / "no_template"
        if not source.exists():
            source.mkdir()
            for file in cli.DEMO.iterdir():
                if file.is_file() and file.name != "tokenizer_config.json":
                    (source / file.name).write_bytes(file.read_bytes())
            config = json.loads((cli.DEMO / "tokenizer_config.json").read_text())
            config.pop("chat_template")
            (source / "tokenizer_config.json").write_text(json.dumps(config))
        path = cli.folder() / "no_template.cria"
        made = subprocess.run([str(cli.BIN / "cria-convert"), str(source), "-o", str(path), "--quiet"],
                              capture_output=True, text=True, timeout=cli.PATIENCE_S)
        self.assertEqual(made.returncode, 0, made.stderr)
        result = chat(lines=["hello"], model=str(path))
        self.assertEqual(result.code, cli.BAD_INPUT)
        self.assertRegex(result.err, r"\Acria: error: [^\n]*chat template; use cria run, or convert again with --chat-template [^\n]*\n\Z")
        self.assertEqual(cli.cria("run", path, "-p", "Once", "-n", "2").code, cli.DONE)

    def letters_model(self):
        source, path = cli.folder() / "letters", cli.folder() / "letters.cria"
        if not path.exists():
            write_letters_checkpoint(source)
            made = subprocess.run([str(cli.BIN / "cria-convert"), str(source), "-o", str(path), "--quiet"],
                                  capture_output=True, text=True, timeout=cli.PATIENCE_S)
            self.assertEqual(made.returncode, 0, made.stderr)
        return str(path)

    def test_a_message_without_tokens_ends_a_script(self):
        for message in ("!", "\u00a0", "!" * 1000, " /reset"):
            result = chat("-n", "4", lines=[message], model=self.letters_model())
            self.assertEqual(result.code, cli.BAD_INPUT, message)
            self.assertEqual(result.raw, b"")
            self.assertRegex(result.err, r"\Acria: error: [^\n]*no token[^\n]*\n\Z")
            later = chat("-n", "4", lines=["bch", message], model=self.letters_model())
            self.assertEqual(later.code, cli.BAD_INPUT, message)
            self.assertEqual(later.raw, chat("-n", "4", lines=["bch"], model=self.letters_model()).raw)

    def test_on_a_terminal_a_message_without_tokens_leaves_the_conversation_as_it_was(self):
        with cli.Terminal("chat", self.letters_model(), "--greedy", "-n", "4") as terminal:
            seen = terminal.wait_for(rb">\S* \Z")
            for line in (b"!\n", b"\xc2\xa0\n", b"/reset\n", b"!\n", b"bch\n", b"!\n"):
                terminal.send(line)
                seen = terminal.wait_for(rb"\n[^\n]*>\S* \Z", seen)
            terminal.send(b"/stats\n")
            terminal.wait_for(rb"2 messages", seen)
            terminal.send(b"/exit\n")
            self.assertEqual(terminal.finish(), cli.DONE)
            self.assertEqual(terminal.shown.count(b"no token"), 4)


if __name__ == "__main__":
    cli.main()
