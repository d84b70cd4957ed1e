"""Chat templates from a checkpoint to token ids: cria-convert --chat-template, cria tokenize --chat."""
import json
import resource
import subprocess
import unittest

import cria_cli as cli

TEMPLATES = cli.SOURCE / "tests" / "data" / "chat_templates"
BOS, EOS = "<|begin_of_text|>", "<|eot_id|>"
MESSAGES = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "  Who? "},
            {"role": "assistant", "content": "I."}, {"role": "user", "content": "Why\nso?"}]


def tokenize_chat(model, messages, *options):
    return cli.cria("tokenize", model, "--chat", "-", *options, stdin=messages if isinstance(messages, str) else json.dumps(messages))


def convert(*arguments):
    command = [str(cli.BIN / "cria-convert"), str(cli.DEMO), *(str(argument) for argument in arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=cli.PATIENCE_S)


def tokenize_text(model, text):
    return cli.cria("tokenize", model, "--parse-special", stdin=text).out


class ChatTemplates(unittest.TestCase):
    def expect_ids(self, model, text, messages, *options):
        result = tokenize_chat(model, messages, *options)
        self.assertEqual((result.code, result.err), (cli.DONE, ""))
        self.assertEqual(result.out, tokenize_text(model, text))

    def expect_refused(self, model, messages, part, code=None, options=()):
        result = tokenize_chat(model, messages, *options)
        self.assertEqual(result.code, cli.BAD_INPUT if code is None else code, result.err)
        self.assertEqual(result.out, "")
        self.assertIn(part, result.err)
        self.assertEqual(result.err.count("\n"), 1)

    def test_a_conversation_is_the_text_of_its_template(self):
        head = f"{BOS}<|start_header_id|>system<|end_header_id|>\n\nBe brief.{EOS}"
        turns = "".join(f"<|start_header_id|>{role}<|end_header_id|>\n\n{text}{EOS}"
                        for role, text in (("user", "Who?"), ("assistant", "I."), ("user", "Why\nso?")))
        opened = "<|start_header_id|>assistant<|end_header_id|>\n\n"
        self.expect_ids(cli.model(), head + turns + opened, MESSAGES)
        self.expect_ids(cli.model(), head + turns, MESSAGES, "--closed")
        self.expect_ids(cli.model(), head + turns + opened, {"model": "x", "messages": MESSAGES})
        parts = [{"role": "user", "content": [{"type": "text", "text": "Wh"}, {"type": "text", "text": "o?"}]}]
        self.assertEqual(tokenize_chat(cli.model(), parts).out, tokenize_chat(cli.model(), [{"role": "user", "content": "Who?"}]).out)

    def test_one_byte_order_mark_is_passed_over(self):
        text = json.dumps(MESSAGES)
        self.assertEqual(tokenize_chat(cli.model(), "\ufeff" + text).out, tokenize_chat(cli.model(), text).out)
        for none in ("\ufeff\ufeff" + text, text + "\0", text + "\0]"):
            self.expect_refused(cli.model(), none, "not JSON")

    def test_metadata_says_why_tools_are_not_stored(self):
        path = cli.folder() / "shouted.jinja"
        path.write_text("{% for t in tools or [] %}{{ t.function.name | upper }}{% endfor %}{% for m in messages %}"
                        "[{{ m.role }}]{{ m.content }}{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}")
        told = json.loads(cli.cria("info", "--json", cli.model("--chat-template", str(path))).out)["metadata"]
        self.assertEqual(told["chat_template_tools_problem"], "writes tools in a way that the file cannot store")
        self.assertNotIn("chat_template_tools_problem", json.loads(cli.cria("info", "--json", cli.model()).out)["metadata"])

    def test_a_template_file_and_its_date(self):
        path = TEMPLATES / "dated_headers.jinja"
        model = cli.model("--chat-template", str(path))
        text = (f"{BOS}<|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December 2023\nToday Date: %s\n\n{EOS}"
                f"<|start_header_id|>user<|end_header_id|>\n\na{EOS}")
        asked = [{"role": "user", "content": "a"}]
        self.expect_ids(model, text % "26 Jul 2024", asked, "--closed")
        self.expect_ids(model, text % "05 Jan 2026", asked, "--closed", "--date", "2026-01-05")
        for day in ("2026-02-30", "today", "5", "2026-1-5"):
            self.expect_refused(model, asked, "give YYYY-MM-DD", cli.USAGE, ("--date", day))
        self.expect_refused(cli.model(), asked, "no date that can be changed", options=("--date", "2026-01-05"))
        info = json.loads(cli.cria("info", model, "--json").out)
        self.assertEqual(info["model"]["chat_template"], "file")

    def test_what_a_template_refuses(self):
        model = cli.model("--chat-template", str(TEMPLATES / "no_system.jinja"))
        self.expect_refused(model, MESSAGES, "takes no system text in this conversation")
        self.expect_refused(model, MESSAGES[2:], "takes no assistant's text in this place")
        chat = cli.cria("chat", model, "--system", "Be brief.", stdin="hello\n")
        self.assertEqual(chat.code, cli.BAD_INPUT)
        self.assertIn("takes no system text in this conversation", chat.err)

    def test_bad_messages(self):
        for text, part in (("[", "is not JSON"), ("3", "not a list"), ("[3]", "message 1 is not an object"), ("[{}]", "has no role"),
                           ('[{"role":"user"}]', "has no content"), ('[{"role":"robot","content":"a"}]', "the role 'robot'"),
                           ('[{"role":"user","content":3}]', "neither a text"), ("[" * 100, "nested too deep"),
                           ('[{"role":"user","content":[{"type":"image_url"}]}]', "reads only text"), ("[]", "needs a message"),
                           ('[{"role":"user","content":"a","tool_calls":[{}]}]', "only an assistant"),
                           ('{"tools":{},"messages":[{"role":"user","content":"a"}]}', "tools must be a list"),
                           ('[{"role":"user","content":"[[[[[[[[[[[[]"},3]', "message 2 is not an object")):
            self.expect_refused(cli.model(), text, part)

    def test_many_messages_are_refused_in_time_that_grows_as_they_do(self):
        """A parser that is watched went through the list again for each of its objects: 15 s for this one."""
        model = cli.model()
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        self.expect_refused(model, "[" + ",".join(["{}"] * 200_000) + "]", "too many messages")
        self.assertLess(resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before, 5)

    def test_no_template_no_guess(self):
        model = cli.model("--chat-template", "none")
        self.expect_refused(model, MESSAGES, "--chat-template")
        chat = cli.cria("chat", model, stdin="hello\n")
        self.assertEqual(chat.code, cli.BAD_INPUT)
        self.assertIn("--chat-template", chat.err)

    def test_a_template_that_cannot_be_stored(self):
        out = cli.folder() / "counted.cria"
        made = convert("-o", out, "--chat-template", TEMPLATES / "counted.jinja", "--quiet")
        self.assertEqual(made.returncode, cli.DONE)
        self.assertIn("cannot store, with ", made.stderr)
        self.assertIn("--chat-template", made.stderr)
        self.expect_refused(out, MESSAGES, "no chat template")

    def test_names(self):
        made = convert("-o", cli.folder() / "x.cria", "--chat-template", "nobody")
        self.assertEqual(made.returncode, cli.USAGE)
        self.assertIn("llama3.2", made.stderr)
        model = cli.model("--chat-template", "alpaca")
        self.expect_ids(model, f"{BOS}Be brief.\n\n### Instruction:\nWho?\n\n### Response:\nI.{EOS}\n\n"
                               "### Instruction:\nWhy\nso?\n\n### Response:\n", MESSAGES)


if __name__ == "__main__":
    cli.main()
