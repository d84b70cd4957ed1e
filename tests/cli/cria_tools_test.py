#!/usr/bin/env python3
"""Conversations with tools on the command line: cria tokenize --chat --tools, and cria calls."""
import json
import sys
import unittest

import cria_cli as cli

sys.path.insert(0, str(cli.SOURCE / "tests" / "tools"))
from bad_models.text_writer import (CALL_FORM, CALL_START, THINKING_BEGIN, call_form, chat_template, text_model)  # noqa: E402

TEMPLATE = cli.SOURCE / "models" / "demo" / "tools" / "chat_template.jinja"
TOOLS = [{"type": "function", "function": {"name": "now", "description": "The time.", "parameters":
                                           {"type": "object", "properties": {"zone": {"type": "string"}, "at": {"type": "number"}}}}}]
BOS, EOS = "<|begin_of_text|>", "<|eot_id|>"
THINKING_END = 1


def frame(role, text):
    return f"<|start_header_id|>{role}<|end_header_id|>\n\n{text}{EOS}"


OPENED = "<|start_header_id|>assistant<|end_header_id|>\n\n"
LIST = "Tools:\n" + json.dumps(TOOLS[0]["function"])
ASKED = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "When?"}]
# The arguments as clients send them, and as the template prints them: keys in their order, 1.50 as Python has it.
CALL = {"id": "call_1", "type": "function", "function": {"name": "now", "arguments": '{"zone":"UTC", "at": 1.50}'}}
CALLED = '<tool_call>\n{"name": "now", "arguments": {"zone": "UTC", "at": 1.5}}\n</tool_call>'
ANSWERED = [*ASKED, {"role": "assistant", "content": None, "tool_calls": [CALL]},
            {"role": "tool", "tool_call_id": "call_1", "content": "Noon."}]


class Tokenize(unittest.TestCase):
    def setUp(self):
        self.model = cli.model("--chat-template", str(TEMPLATE))
        self.tools = cli.folder() / "tools.json"
        self.tools.write_text(json.dumps(TOOLS))

    def tokenize(self, messages, *options):
        text = messages if isinstance(messages, str) else json.dumps(messages)
        return cli.cria("tokenize", self.model, "--chat", "-", *options, stdin=text)

    def expect_ids(self, text, messages, *options):
        result = self.tokenize(messages, *options)
        self.assertEqual((result.code, result.err), (cli.DONE, ""))
        self.assertEqual(result.out, cli.cria("tokenize", self.model, "--parse-special", stdin=text).out)

    def expect_refused(self, part, messages, *options, code=cli.BAD_INPUT):
        result = self.tokenize(messages, *options)
        self.assertEqual((result.code, result.out), (code, ""), result.err)
        self.assertIn(part, result.err)
        self.assertEqual(result.err.count("\n"), 1)

    def test_tools_calls_and_results_stand_where_the_template_has_them(self):
        head = BOS + frame("system", "Be brief.\n\n" + LIST) + frame("user", "When?")
        self.expect_ids(head + OPENED, ASKED, "--tools", self.tools)
        self.expect_ids(head + frame("assistant", CALLED) + frame("tool", "Noon.") + OPENED, ANSWERED, "--tools", self.tools)
        self.expect_ids(BOS + frame("system", "Be brief.") + frame("user", "When?") + OPENED, ASKED)

    def test_a_request_brings_its_tools(self):
        request = {"model": "x", "messages": ASKED, "tools": TOOLS}
        self.assertEqual(self.tokenize(request).out, self.tokenize(ASKED, "--tools", self.tools).out)
        functions = {"messages": ASKED, "functions": [tool["function"] for tool in TOOLS]}
        self.assertEqual(self.tokenize(functions).out, self.tokenize(request).out)
        self.expect_refused("functions and tools cannot be combined", {**functions, "tools": TOOLS})
        other = [{"type": "function", "function": {"name": "other"}}]
        self.assertEqual(self.tokenize({**request, "tools": other}, "--tools", self.tools).out, self.tokenize(request).out)

    def test_arguments_may_be_an_object(self):
        as_object = json.dumps(ANSWERED).replace(json.dumps(CALL["function"]["arguments"]), CALL["function"]["arguments"])
        self.assertIn('"arguments": {"zone":"UTC", "at": 1.50}', as_object)
        self.assertEqual(self.tokenize(as_object, "--tools", self.tools).out, self.tokenize(ANSWERED, "--tools", self.tools).out)

    def test_ids_that_the_template_does_not_take_are_replaced(self):
        """As the server does it (server_tools_test)."""
        (cli.folder() / "ids.jinja").write_text(cli.IDS_OF_NINE)
        nine = cli.model("--chat-template", str(cli.folder() / "ids.jinja"))

        def tokens(identity, *options):
            call = {"id": identity, "type": "function", "function": {"name": "add", "arguments": {"a": 1}}}
            said = [{"role": "user", "content": "1"}, {"role": "assistant", "content": "", "tool_calls": [call]},
                    {"role": "tool", "tool_call_id": identity, "content": "2"}]
            return cli.cria("tokenize", nine, "--chat", "-", *options, stdin=json.dumps(said).encode())
        for options in ((), ("--closed",)):
            wanted = tokens("call00000", *options)
            self.assertEqual(wanted.code, cli.DONE, wanted.err)
            self.assertEqual(tokens("of_another_kind", *options).out, wanted.out)
            self.assertNotEqual(tokens("abcdefghi", *options).out, wanted.out)

    def test_many_long_calls(self):
        """What a template writes of values is longer than they are."""
        calls = [{"function": {"name": "now", "arguments": {"at": list(range(500))}}}] * 20
        messages = [*ASKED, {"role": "assistant", "tool_calls": calls}]
        ids = self.tokenize(messages, "--tools", self.tools, "--closed").out.split()
        self.assertGreater(len(ids), 20 * 500)

    def test_variables_of_the_template(self):
        for args in ('{"enable_thinking": true}', '{"enable_thinking": false}', "{}"):
            self.assertEqual(self.tokenize(ASKED, "--template-args", args).out, self.tokenize(ASKED).out)
        self.expect_refused("'tone' is not known", ASKED, "--template-args", '{"tone": "kind"}')
        self.expect_refused("--template-args: is not JSON", ASKED, "--template-args", "{")

    def test_what_is_wrong_is_said(self):
        self.expect_refused("message 3 has a call of 'now' whose arguments are not a JSON object",
                            json.dumps(ANSWERED).replace('1.50}', '1.50'), "--tools", self.tools)
        self.tools.write_text('[{"type": "web_search"}]')
        self.expect_refused("tools.json: tool 1 is of the type 'web_search'", ASKED, "--tools", self.tools)
        deep = {}
        for _ in range(35):
            deep = {"a": deep}
        self.tools.write_text(json.dumps([*TOOLS, {"type": "function", "function": {"name": "deep", "parameters": deep}}]))
        self.expect_refused("tool 2 ('deep'): the chat template needs tools that are JSON objects", ASKED, "--tools", self.tools)
        self.tools.write_text('[{"type": "function", "function": {"name": "f", "x": 1e999}}]')
        self.expect_refused("is not JSON: the number that ends at byte 58 is larger than any double; give a list", ASKED, "--tools", self.tools)
        self.tools.write_text("")
        self.expect_refused("tools.json: is empty; give a list", ASKED, "--tools", self.tools)
        result = cli.cria("tokenize", self.model, "--tools", self.tools, stdin="a")
        self.assertEqual(result.code, cli.USAGE)

    def test_a_template_without_tools(self):
        self.model = cli.model("--chat-template", "chatml")
        self.expect_refused("has no place for tools", ASKED, "--tools", self.tools)


class Talk(unittest.TestCase):
    """cria run and cria chat with --tools: calls of the demo, which was not trained to make any."""

    def setUp(self):
        self.model = cli.model("--chat-template", str(TEMPLATE))
        self.tools = cli.folder() / "talk_tools.json"
        self.tools.write_text(json.dumps([{"type": "function", "function": {"name": "light", "parameters": {
            "type": "object", "properties": {"room": {"enum": ["kitchen", "hall"]}}, "required": ["room"]}}}]))
        self.options = ("--tools", self.tools, "--tool-choice", "required", "--seed", "1")

    def run_tools(self, *options):
        return cli.cria("run", self.model, "-p", "light", *self.options, *options)

    def test_a_model_without_calls_says_what_to_do(self):
        result = cli.cria("run", cli.model(), "-p", "light", "--tools", self.tools)
        self.assertEqual(result.code, cli.BAD_INPUT)
        self.assertRegex(result.err, r"does not say how the model writes calls of tools; [^\n]* --chat-template\n\Z")

    def chat(self, *lines):
        return cli.cria("chat", self.model, *self.options, "-n", "200", stdin="".join(line + "\n" for line in lines))

    def test_a_call_that_is_cut_is_shown_as_far_as_it_came(self):
        whole = self.run_tools()
        self.assertEqual(whole.code, cli.DONE, whole.err)
        first = json.loads(whole.out.splitlines()[0])
        self.assertEqual(first["name"], "light")
        for n_tokens in (3, 8, 12):
            cut = self.run_tools("-n", n_tokens)
            self.assertEqual(cut.code, cli.INCOMPLETE, cut.err)
            self.assertIn("cria: warning: the call is not finished: --max-tokens ended it; give a larger -n\n", cut.err)
            self.assertTrue(cut.out.strip(), n_tokens)
            self.assertTrue('<tool_call>\n{"name": "light", "arguments": {"room": "'.startswith(cut.out.strip()[:20]), cut.out)

    def test_a_choice_is_one_that_there_is(self):
        for command in (("run", "-p", "light"), ("chat",)):
            name, *options = command
            result = cli.cria(name, self.model, *options, "--tools", self.tools, "--tool-choice", "nope")
            self.assertEqual((result.code, result.out), (cli.USAGE, ""), result.err)
            self.assertIn("talk_tools.json has no tool 'nope'; give auto, none, required or one of: light\n", result.err)
        strict = json.loads(self.tools.read_text())
        strict[0]["function"] |= {"strict": True, "parameters": {"type": "object", "patternProperties": {"^a": {}}}}
        self.tools.write_text(json.dumps(strict))
        result = self.run_tools()
        self.assertEqual(result.code, cli.BAD_INPUT)
        self.assertIn("talk_tools.json: tool 1 ('light'): in /parameters: \"patternProperties\" is not supported", result.err)

    def test_standard_input_is_read_once(self):
        for command, said in ((("run", "-p", "-"), "only one of -p and --tools can read standard input"),
                              (("chat",), "--tools: standard input has the messages; give a file"),
                              (("tokenize", "--chat", "-"), "only one of --chat and --tools can read standard input"),
                              (("calls", "-"), "only one of the answer and --tools can be standard input")):
            name, *options = command
            result = cli.cria(name, self.model, *options, "--tools", "-", stdin=self.tools.read_text())
            self.assertEqual((result.code, result.out), (cli.USAGE, ""), result.err)
            self.assertIn(said, result.err)

    def test_lines_of_a_pipe_may_be_commands(self):
        asked = self.chat("light")
        calls = asked.out.splitlines()
        self.assertTrue(calls and asked.code == cli.DONE, asked.err)
        # Where a result is awaited: the conversation begins anew, and its first answer is the same.
        again = self.chat("light", "/reset", "light")
        self.assertEqual(again.code, cli.DONE, again.err)
        self.assertEqual(json.loads(again.out.splitlines()[0]), json.loads(calls[0]))
        self.assertGreater(len(again.out.splitlines()), len(calls))
        for word in ("/exit", "/quit"):
            self.assertEqual(self.chat("light", word, "dark").out, asked.out)
        # A result, however it begins.
        results = [" /reset"] * len(calls)
        self.assertGreater(len(self.chat("light", *results).out.splitlines()), len(calls))


class Calls(unittest.TestCase):
    def setUp(self):
        self.model = cli.folder() / "calls.cria"
        form = call_form(strings={THINKING_BEGIN: b"<think>\0", THINKING_END: b"</think>\0"})
        self.model.write_bytes(bytes(text_model(chat=chat_template(strings={CALL_FORM: form})).file().data))

    def calls(self, answer, *options, model=None):
        return cli.cria("calls", model or self.model, *options, stdin=answer)

    def expect(self, answer, *options, **wanted):
        result = self.calls(answer, *options)
        self.assertEqual((result.code, result.err), (cli.DONE, ""))
        self.assertEqual(json.loads(result.out), {"content": None, "reasoning": None, "calls": [], "complete": True} | wanted)
        return result.out

    def test_an_answer_is_taken_apart(self):
        self.expect("Hello.\n", content="Hello.")
        self.expect("", content=None)
        call = '<tool_call>{"name": "now", "arguments": {"b": 1.50, "a": "x"}}</tool_call>'
        out = self.expect(f"<think>Hm.</think>Look. {call}\n{call}", content="Look.", reasoning="Hm.",
                          calls=[{"name": "now", "arguments": {"b": 1.5, "a": "x"}}] * 2)
        self.assertIn('{"b":1.50,"a":"x"}', out)  # its own digits and order

    def test_what_the_prompt_opened(self):
        self.expect("Hm.</think>Now.", "--opened", "<think>\n", content="Now.", reasoning="Hm.")
        self.expect("Hm.", "--opened", "<think>", reasoning="Hm.", complete=False)

    def test_an_answer_that_ends_inside_a_call_is_cut(self):
        for cut in ("<tool_call>", '<tool_call>{"name": "no', '<tool_call>{"name": "now", "arguments": {"b": 1'):
            self.expect(cut, content=cut, complete=False)

    def test_tools_say_what_is_a_text(self):
        tools = cli.folder() / "of_calls.json"
        tools.write_text(json.dumps(TOOLS))
        self.expect('<tool_call>{"name": "now", "arguments": {}}</tool_call>', "--tools", tools, calls=[{"name": "now", "arguments": {}}])
        tools.write_text("{")
        result = self.calls("a", "--tools", tools)
        self.assertEqual((result.code, result.out), (cli.BAD_INPUT, ""))
        self.assertIn("of_calls.json: is not a list of tools", result.err)
        self.assertEqual(self.calls("a", "--tools", "-").code, cli.USAGE)

    def test_a_file_that_says_nothing_of_calls(self):
        path = cli.folder() / "silent.cria"
        path.write_bytes(bytes(text_model(chat=chat_template()).file().data))
        result = self.calls("a", model=path)
        self.assertEqual((result.code, result.out), (cli.BAD_INPUT, ""))
        self.assertIn("does not say how the model writes calls", result.err)

    def test_a_form_that_is_none_is_refused_when_the_file_is_opened(self):
        path = cli.folder() / "wrong.cria"
        path.write_bytes(bytes(text_model(chat=chat_template(strings={CALL_FORM: call_form(strings={CALL_START: b"x"})})).file().data))
        result = self.calls("a", model=path)
        self.assertEqual((result.code, result.out), (cli.BAD_INPUT, ""))
        self.assertIn("breaks a rule of its format", result.err)


if __name__ == "__main__":
    cli.main()
