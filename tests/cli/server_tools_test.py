"""Tools: requests as clients send them, calls that are held to their schemas, and what is told of them in both styles.

The demo with a chat template of tools: without training for it, it calls what it must call, with arguments of its own.
"""
import json
import os
import unittest
from pathlib import Path

import jsonschema

import cria_cli as cli
from cria_server import Server

TEMPLATES = Path(os.environ.get("CRIA_SHARED", cli.SOURCE.parent / "shared")) / "reference/chat_templates_tools"
TEMPLATE = cli.DEMO / "tools" / "chat_template.jinja"
CHAT, OLLAMA = "/v1/chat/completions", "/api/chat"


def function(name, properties, required=None, **more):
    parameters = {"type": "object", "properties": properties, "required": list(properties) if required is None else required}
    return {"type": "function", "function": {"name": name, "description": f"Does {name}.", "parameters": parameters, **more}}


ADD = function("add", {"a": {"type": "integer"}, "b": {"type": "integer"}})
LIGHT = function("light", {"room": {"enum": ["kitchen", "hall"]}, "level": {"type": "integer", "minimum": 0, "maximum": 9}})
TOOLS = [ADD, LIGHT]
QUESTION = [{"role": "user", "content": "what is 7 + 8"}]
SCHEMAS = {tool["function"]["name"]: tool["function"]["parameters"] for tool in TOOLS}


def long_model():
    """The demo with a context of its own size eight times."""
    folder = cli.folder() / "long"
    folder.mkdir()
    for file in cli.DEMO.iterdir():
        if file.is_file():
            (folder / file.name).write_bytes(file.read_bytes())
    config = json.loads((folder / "config.json").read_text())
    config["max_position_embeddings"] *= 8
    (folder / "config.json").write_text(json.dumps(config))
    return cli.converted(folder, "--chat-template", str(TEMPLATE))


class Tools(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        model = long_model()
        cls.server = cls.enterClassContext(Server("--sessions", 2, "--alias", "demo", "--backend", "exact", model=model))
        cls.plain = cls.enterClassContext(Server())

    def ask(self, **members):
        answer = self.server.post(CHAT, {"messages": QUESTION, "tools": TOOLS, "max_tokens": 300, **members})
        self.assertEqual(answer.status, 200, answer.raw)
        return answer.body["choices"][0]

    def events(self, **members):
        return self.server.stream(CHAT, {"messages": QUESTION, "tools": TOOLS, "max_tokens": 300, **members})

    def refuses(self, member, said, **members):
        answer = self.server.post(CHAT, {"messages": QUESTION, "tools": TOOLS, **members})
        self.assertEqual((answer.status, answer.error["param"]), (400, member), answer.raw)
        self.assertIn(said, answer.error["message"])

    def check_calls(self, choice, names=("add", "light")):
        calls = choice["message"]["tool_calls"]
        self.assertGreaterEqual(len(calls), 1)
        for call in calls:
            self.assertEqual(call["type"], "function")
            self.assertRegex(call["id"], r"\A[0-9a-z]{9}\Z")
            self.assertIn(call["function"]["name"], names)
            jsonschema.validate(json.loads(call["function"]["arguments"]), SCHEMAS[call["function"]["name"]])
        return calls

    # What is asked ------------------------------------------------------------------------------------------------

    def test_what_must_be_called_is(self):
        for seed in range(8):
            choice = self.ask(tool_choice="required", seed=seed, temperature=2.0, parallel_tool_calls=False)
            self.assertEqual(choice["finish_reason"], "tool_calls")
            self.assertIsNone(choice["message"]["content"])
            self.assertEqual(len(self.check_calls(choice)), 1)

    def test_one_tool_is_named(self):
        for seed in range(4):
            choice = self.ask(tool_choice={"type": "function", "function": {"name": "light"}}, seed=seed, parallel_tool_calls=False)
            self.check_calls(choice, ["light"])

    def test_a_stop_text_inside_a_call_ends_the_answer_there(self):
        """Nothing of the call is told, in no way."""
        for stop in ('"arguments"', "_call>", "tool_c"):
            members = {"tool_choice": "required", "stop": stop, "parallel_tool_calls": False, "seed": 1}
            choice = self.ask(**members)
            self.assertEqual(choice["finish_reason"], "stop")
            self.assertFalse(choice["message"].get("content") or choice["message"].get("tool_calls"), choice)
            for event in self.events(**members):
                for each in event["choices"] if event != "[DONE]" else []:
                    self.assertFalse(each["delta"].get("content"), event)

    def test_nothing_of_a_marker_is_told_wherever_it_is_cut(self):
        path = cli.folder() / "wide.jinja"
        path.write_text(cli.WIDE_MARKERS)
        with Server(model=cli.model("--chat-template", str(path))) as server:
            for n_tokens in range(1, 40):
                asked = {"messages": QUESTION, "tools": [ADD], "max_tokens": n_tokens, "tool_choice": "required", "seed": 1}
                choice = server.post(CHAT, asked).body["choices"][0]
                self.assertEqual((n_tokens, choice["message"].get("content") or "", choice["finish_reason"]), (n_tokens, "", "length"))

    def test_ids_of_another_kind_than_the_templates_are_replaced(self):
        """As Mistral Small's template, which takes ids of nine characters alone."""
        path = cli.folder() / "ids.jinja"
        path.write_text(cli.IDS_OF_NINE)
        history = [*QUESTION, {"role": "assistant", "content": None, "tool_calls": [
            {"id": "call_of_another_kind", "type": "function", "function": {"name": "add", "arguments": '{"a": 7, "b": 8}'}}]},
            {"role": "tool", "tool_call_id": "call_of_another_kind", "content": "15"}]
        with Server(model=cli.model("--chat-template", str(path))) as server:
            said = server.post("/apply-template", {"messages": history, "tools": [ADD]})
            self.assertEqual(said.status, 200, said.raw)
            self.assertEqual(said.body["prompt"].count("call00000"), 2)
            self.assertNotIn("another", said.body["prompt"])
            asked = {"messages": QUESTION, "tools": [ADD], "max_tokens": 200, "tool_choice": "required", "seed": 1}
            for call in server.post(CHAT, asked).body["choices"][0]["message"].get("tool_calls", []):
                self.assertRegex(call["id"], r"\A[0-9A-Za-z]{9}\Z")

    def test_members_of_tools_have_their_kinds(self):
        for wrong, said in (({"strict": "true"}, "tool 1 ('add') has a strict"), ({"description": {}}, "tool 1 ('add') has a description")):
            other = {**ADD["function"], **wrong}
            self.refuses("tools", said, tools=[{"type": "function", "function": other}])
            self.refuses("functions", said, tools=None, functions=[other])
        self.ask(tools=[function("f", {}, strict=None, description=None)], tool_choice="none", max_tokens=4)
        schema = {"type": "json_schema", "json_schema": {"schema": {"type": "object"}, "strict": "true"}}
        self.refuses("strict", "strict must be", tools=None, response_format=schema)

    def test_none_means_text(self):
        for seed in range(4):
            choice = self.ask(tool_choice="none", seed=seed, temperature=2.0)
            self.assertNotIn("tool_calls", choice["message"])
            self.assertNotIn("<tool_call>", choice["message"]["content"])

    def test_auto_is_the_default(self):
        for seed in range(3):
            self.assertEqual(self.ask(seed=seed)["message"]["content"], self.ask(seed=seed, tool_choice="auto")["message"]["content"])

    def test_functions_are_what_tools_were(self):
        members = {"tools": None, "functions": [ADD["function"]], "function_call": {"name": "add"}}
        choice = self.ask(**members)
        self.assertEqual(choice["finish_reason"], "function_call")
        self.assertEqual(choice["message"]["function_call"]["name"], "add")
        jsonschema.validate(json.loads(choice["message"]["function_call"]["arguments"]), SCHEMAS["add"])

    def test_a_schema_that_is_not_understood(self):
        odd = function("odd", {"x": {"type": "string"}}, patternProperties={"^a": {}})
        odd["function"]["parameters"]["patternProperties"] = {"^a": {"type": "string"}}
        strict = json.loads(json.dumps(odd))
        strict["function"]["strict"] = True
        self.refuses("tools", "tool 2 ('odd'): in /parameters: \"patternProperties\" is not supported", tools=[ADD, strict])
        self.refuses("functions", "tool 1 ('odd'): in /parameters: ", tools=None, functions=[strict["function"]])
        asked = {"tools": [odd], "tool_choice": "required", "parallel_tool_calls": False, "temperature": 1}
        choices = [self.ask(seed=seed, **asked) for seed in range(8)]  # any object: some have no end
        called = [choice["message"]["tool_calls"][0] for choice in choices if choice["finish_reason"] == "tool_calls"]
        self.assertNotEqual(called, [])
        for call in called:
            self.assertIsInstance(json.loads(call["function"]["arguments"]), dict)

    def test_arguments_are_free_where_a_tool_is_not_strict(self):
        """Of the names that the schema has, or others: the demo makes some up."""
        free = function("free", {"n": {"enum": [1]}})
        free["function"]["strict"] = False
        held = function("free", {"n": {"enum": [1]}})
        asked = {"tool_choice": "required", "parallel_tool_calls": False, "temperature": 1.5}
        for seed in range(4):
            call = self.ask(tools=[held], seed=seed, **asked)["message"]["tool_calls"][0]
            self.assertEqual(call["function"]["arguments"], '{"n":1}')
        others = [self.ask(tools=[free], seed=seed, **asked)["message"].get("tool_calls") for seed in range(4)]
        self.assertTrue(any(calls is None or calls[0]["function"]["arguments"] != '{"n":1}' for calls in others))

    def test_what_is_wrong_is_named(self):
        self.refuses("tools", "tool 1", tools=[{"type": "function"}])
        self.refuses("tools", "tool 2", tools=[ADD, 3])
        self.refuses("tools", "list", tools={"a": 1})
        self.refuses("tools", "tool 2 is called 'add', as one before it", tools=[ADD, ADD])
        for name in ("", "n" * 129):
            self.refuses("tools", "tool 1 has no name of 1 to 128 bytes", tools=[function(name, {})])
        for choice in ("required", {"type": "function", "function": {"name": "add"}}):
            self.refuses("tool_choice", "needs tools", tools=[], tool_choice=choice)
        self.refuses("tool_choice", "is 'add'; give auto, none, required or an object with a function's name", tool_choice="add")
        self.refuses("tool_choice", "names 'sub', which is no tool of the request; it has add, light",
                     tool_choice={"type": "function", "function": {"name": "sub"}})
        for choice in ({"type": "function"}, {"type": "function", "function": {"name": ""}}, {"type": "function", "name": ""}, {}, [], 3):
            self.refuses("tool_choice", "tool_choice names no function; give its name, or auto", tool_choice=choice)
        of_functions = {"tools": None, "functions": [ADD["function"]]}
        self.refuses("function_call", "function_call names no function; give its name, or auto", function_call={"name": ""}, **of_functions)
        self.refuses("function_call", "is 'required'; give auto, none or an object", function_call="required", **of_functions)
        self.refuses("functions", "functions and tools cannot be combined; send tools", functions=[LIGHT["function"]])
        self.refuses("function_call", "is of functions; with tools send tool_choice", function_call="none")
        self.refuses("tool_choice", "is of tools; with functions send function_call", tool_choice="none", **of_functions)
        self.ask(functions=[], function_call="auto", max_tokens=2)
        self.refuses("tools", "document", response_format={"type": "json_object"})
        self.refuses("chat_template_kwargs", "enable_thinking", chat_template_kwargs={"tone": "kind"})
        self.refuses("messages", "message 2", messages=[*QUESTION, {"role": "assistant", "tool_calls": [{"function": {}}]}])
        answer = self.plain.post(CHAT, {"messages": QUESTION, "tools": TOOLS})
        self.assertEqual((answer.status, answer.error["param"]), (400, "tools"))
        self.assertIn("the model calls no tools", answer.error["message"])

    def test_a_tool_that_the_template_does_not_take_is_named(self):
        """Deeper than a template writes: the message is about the tool, and so is the member."""
        deep = {"type": "object"}
        for _ in range(40):
            deep = {"type": "object", "properties": {"a": deep}}
        other = {"name": "sub", "parameters": deep}
        said = "tool 2 ('sub'): the chat template needs tools that are JSON objects, at most 32 deep"
        self.refuses("tools", said, tools=[ADD, {"type": "function", "function": other}])
        self.refuses("functions", said, tools=None, functions=[ADD["function"], other])
        answer = self.server.post(OLLAMA, {"model": "demo", "messages": QUESTION, "tools": [ADD, {"type": "function", "function": other}]})
        self.assertEqual((answer.status, answer.body["error"]), (400, said))
        answer = self.server.post("/v1/responses", {"input": "hi", "tools": [{"type": "function", **other}]})
        self.assertEqual((answer.status, answer.error["param"]), (400, "tools"))
        self.assertIn("tool 1 ('sub'): the chat template needs", answer.error["message"])

    def test_what_is_wrong_with_arguments_is_said(self):
        for arguments, why in (("[1]", "not a JSON object"), ('{"a":1e999}', "the number that ends at byte 10 is larger than any double"),
                               ('{"a":"\\ud800"}', "is a surrogate without its other half")):
            call = {"id": "a", "type": "function", "function": {"name": "add", "arguments": arguments}}
            self.refuses("messages", why, messages=[*QUESTION, {"role": "assistant", "tool_calls": [call]}])
            item = {"type": "function_call", "call_id": "a", "name": "add", "arguments": arguments}
            answer = self.server.post("/v1/responses", {"input": [{"role": "user", "content": "hi"}, item]})
            self.assertEqual((answer.status, answer.error["param"]), (400, "input"))
            self.assertIn(why, answer.error["message"])
        body = '{"model": "demo", "messages": [{"role": "user", "content": "\\ud800"}]}'
        for path in (CHAT, OLLAMA, "/v1/responses"):
            self.assertIn("is a surrogate without its other half", self.server.post(path, body.encode()).raw.decode())

    @unittest.skipUnless(TEMPLATES.is_dir(), "no $CRIA_SHARED/reference")
    def test_templates_of_families(self):
        def served(name):
            return self.enterContext(Server(model=cli.model("--chat-template", str(TEMPLATES / f"{name}.jinja"))))
        call = {"id": "call_abc", "type": "function", "function": {"name": "add", "arguments": '{"a": 7, "b": 8}'}}
        result = {"role": "tool", "tool_call_id": "call_abc", "content": "15"}
        told = {"role": "assistant", "content": "15"}
        calls = {"role": "assistant", "tool_calls": [call]}
        for name in ("mistral-small-3.2", "mistral-7b-v0.3", "kimi-k2"):
            server = served(name)
            def asked(*messages, server=server):
                return server.post("/apply-template", {"messages": [*QUESTION, *messages], "tools": [ADD]})
            self.assertEqual(asked(calls, result).status, 200, name)
            self.assertEqual(asked(calls, result, told, QUESTION[0]).status, 200, name)  # asked again
            wrong = [((calls, told, QUESTION[0]), "calls without their results"), ((calls, QUESTION[0]), "calls without their results"),
                     (({**result, "tool_call_id": None},), "results without calls")]
            if name != "kimi-k2":  # which takes a result of any id
                wrong.append(((result,), "results without calls"))
            for messages, why in wrong:
                answer = asked(*messages)
                self.assertEqual((name, answer.status, answer.error["param"]), (name, 400, "messages"), answer.raw)
                self.assertIn("the chat template takes no " + why, answer.error["message"])
        server = served("qwen3-coder-30b")
        texts = set()
        for description in ("Adds.", " Adds.\n", "\tAdds. "):
            tool = {"type": "function", "function": {"name": "add", "description": description, "parameters": {
                "type": "object", "properties": {"a": {"type": "integer", "description": description}}}}}
            answer = server.post("/apply-template", {"messages": QUESTION, "tools": [tool]})
            self.assertEqual(answer.status, 200, answer.raw)
            texts.add(answer.body["prompt"])
        self.assertEqual(len(texts), 1)
        prompts = [server.post("/apply-template", {"messages": QUESTION, "tools": [{"type": "function", "function": {"name": "now", **more}}]}).body
                   for more in ({}, {"description": None})]
        self.assertEqual(prompts[0], prompts[1])

    # What is told -------------------------------------------------------------------------------------------------

    def test_a_stream_joins_to_the_answer(self):
        for seed in range(4):
            asked = {"tool_choice": "required", "seed": seed, "parallel_tool_calls": False}
            whole = self.ask(**asked)
            events = self.events(**asked)
            self.assertEqual(events[-1], "[DONE]")
            choices = [event["choices"][0] for event in events[:-1] if event["choices"]]
            self.assertEqual([c["finish_reason"] for c in choices if c["finish_reason"]], [whole["finish_reason"]])
            calls = [c["delta"]["tool_calls"] for c in choices if "tool_calls" in c["delta"]]
            self.assertTrue(all(len(each) == 1 for each in calls))
            first = calls[0][0]
            self.assertEqual((first["index"], first["type"], first["function"]["arguments"]), (0, "function", ""))
            self.assertTrue(first["id"])
            self.assertEqual(first["function"]["name"], whole["message"]["tool_calls"][0]["function"]["name"])
            joined = "".join(each[0]["function"]["arguments"] for each in calls)
            self.assertEqual(joined, whole["message"]["tool_calls"][0]["function"]["arguments"])

    def test_a_call_that_is_cut_is_no_call(self):
        for limit in (3, 8, 12):
            choice = self.ask(tool_choice="required", max_tokens=limit)
            self.assertEqual(choice["finish_reason"], "length")
            self.assertEqual(choice["message"].get("tool_calls", []), [])

    def test_usage_counts_forced_tokens(self):
        answer = self.server.post(CHAT, {"messages": QUESTION, "tools": [ADD], "tool_choice": "required", "parallel_tool_calls": False})
        arguments = answer.body["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"]
        self.assertGreater(answer.body["usage"]["completion_tokens"], len(arguments) // 8)

    def test_forced_tokens_change_no_byte(self):
        """Who asks for probabilities has every token go through the model alone."""
        for seed in range(4):
            asked = {"tool_choice": "required", "seed": seed, "temperature": 0, "parallel_tool_calls": False}
            forced, drawn = self.ask(**asked), self.ask(logprobs=True, **asked)
            self.assertEqual([c["function"] for c in forced["message"]["tool_calls"]], [c["function"] for c in drawn["message"]["tool_calls"]])

    def test_long_runs_of_forced_tokens_change_no_byte_either(self):
        """A name that takes many tokens, more than are found at once."""
        name = "qzx_" + "wvk_jq" * 9
        tool = function(name, {"zq" * 20: {"enum": ["kitchen", "hall"]}, "n": {"type": "integer"}})
        for seed in range(3):
            asked = {"tools": [tool], "tool_choice": {"type": "function", "function": {"name": name}}, "seed": seed, "temperature": 1.0,
                     "parallel_tool_calls": False}
            forced, drawn = (self.ask(**asked, **more)["message"]["tool_calls"] for more in ({}, {"logprobs": True}))
            self.assertEqual([call["function"] for call in forced], [call["function"] for call in drawn])

    def test_answers_beside_each_other_are_the_same(self):
        alone = self.ask(tool_choice="required", seed=5, parallel_tool_calls=False)
        many = self.server.post(CHAT, {"messages": QUESTION, "tools": TOOLS, "tool_choice": "required", "seed": 5, "n": 2, "max_tokens": 300,
                                       "parallel_tool_calls": False}).body["choices"]
        self.assertEqual(many[0]["message"]["tool_calls"][0]["function"], alone["message"]["tool_calls"][0]["function"])

    # Whole exchanges ----------------------------------------------------------------------------------------------

    def test_ten_rounds(self):
        messages = [{"role": "system", "content": "Be brief."}, *QUESTION]
        for turn in range(10):
            choice = self.ask(messages=messages, tool_choice="required", seed=turn, parallel_tool_calls=False)
            calls = self.check_calls(choice)
            messages.append(choice["message"])
            messages += [{"role": "tool", "tool_call_id": call["id"], "content": str(turn)} for call in calls]
        last = self.ask(messages=messages, tool_choice="none")
        self.assertIsInstance(last["message"]["content"], str)

    def test_as_home_assistant_asks(self):
        self.assertEqual(self.server.get("/v1/models").status, 200)
        probe = {"model": "demo", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 3,
                 "tools": [{"type": "function", "function": {"name": "test", "description": "t",
                                                             "parameters": {"type": "object", "properties": {}}}}]}
        self.assertEqual(self.server.post(CHAT, probe).status, 200)
        self.assertEqual(self.server.stream(CHAT, probe)[-1], "[DONE]")
        call = {"id": "x1", "type": "function", "function": {"name": "light", "arguments": "{\"room\": \"hall\", \"level\": 3}"}}
        history = [{"role": "system", "content": "You are at home."}, {"role": "user", "content": "light please"},
                   {"role": "assistant", "content": None, "tool_calls": [call]},
                   {"role": "tool", "tool_call_id": "x1", "content": "{\"success\": true}"}]
        events = self.server.stream(CHAT, {"model": "demo", "messages": history, "tools": TOOLS, "max_tokens": 20, "top_p": 1.0,
                                           "temperature": 1.0, "user": "somebody"})
        self.assertEqual(events[-1], "[DONE]")
        task = {"model": "demo", "messages": QUESTION, "response_format": {"type": "json_schema", "json_schema": {
            "name": "sum", "strict": True, "schema": SCHEMAS["add"]}}}
        jsonschema.validate(json.loads(self.server.post(CHAT, task).body["choices"][0]["message"]["content"]), SCHEMAS["add"])

    def test_arguments_are_a_text_or_an_object(self):
        prompts = []
        for arguments in ('{"b": 1, "a": 2.50}', {"b": 1, "a": 2.5}):
            call = {"id": "a", "type": "function", "function": {"name": "add", "arguments": arguments}}
            body = {"messages": [*QUESTION, {"role": "assistant", "content": None, "tool_calls": [call]},
                                 {"role": "tool", "tool_call_id": "a", "content": "3"}], "tools": TOOLS}
            prompts.append(self.server.post("/apply-template", body).body["prompt"])
        self.assertIn('{"b": 1, "a": 2.5}', prompts[0])
        self.assertEqual(prompts[0], prompts[1])

    # Ollama's words -----------------------------------------------------------------------------------------------

    def test_capabilities_are_true(self):
        self.assertEqual(self.server.post("/api/show", {"model": "demo"}).body["capabilities"], ["completion", "tools"])
        self.assertNotIn("tools", self.plain.get("/api/tags").body["models"][0]["capabilities"])

    def test_ollama_tells_calls_as_objects(self):
        history = [{"role": "user", "content": "light please"},
                   {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "light", "arguments": {"room": "hall", "level": 3}}}]},
                   {"role": "tool", "tool_name": "light", "content": "done"}]
        members = {"model": "demo", "messages": history, "tools": TOOLS, "options": {"seed": 1, "num_predict": 300}}
        whole = self.server.post(OLLAMA, {**members, "stream": False, "tool_choice": "required"}).body
        lines = [json.loads(line) for line in self.server.post(OLLAMA, {**members, "tool_choice": "required"}).raw.splitlines()]
        self.assertEqual((whole["done"], whole["done_reason"]), (True, lines[-1]["done_reason"]))
        told = [call for line in lines for call in line["message"].get("tool_calls", [])]
        self.assertEqual(told, whole["message"]["tool_calls"])
        self.assertIsInstance(told[0]["function"]["arguments"], dict)
        self.assertEqual({line["message"]["role"] for line in lines}, {"assistant"})


if __name__ == "__main__":
    cli.main()
