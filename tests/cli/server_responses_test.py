"""/v1/responses: items in, items out, and the events of a stream, which together tell what the whole answer does."""
import json
import unittest

import cria_cli as cli
from cria_server import Server

PATH, CHAT = "/v1/responses", "/v1/chat/completions"
ADD = {"type": "function", "name": "add", "description": "Does add.", "strict": None,
       "parameters": {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "required": ["a", "b"]}}
AS_CHAT = {"type": "function", "function": {name: ADD[name] for name in ("name", "description", "parameters")}}
QUESTION = "what is 7 + 8"


def text_of(response):
    return "".join(part["text"] for item in response["output"] if item["type"] == "message" for part in item["content"])


def without_ids(response):
    """What two answers to one request have in common."""
    told = {name: value for name, value in response.items() if name not in ("id", "created_at", "usage")}
    told["output"] = [{name: value for name, value in item.items() if name not in ("id", "call_id")} for item in response["output"]]
    return told


class Responses(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        model = cli.converted(cli.DEMO, "--lora", str(cli.DEMO / "tools"), "--chat-template", str(cli.DEMO / "tools" / "chat_template.jinja"))
        cls.server = cls.enterClassContext(Server("--sessions", 2, "--alias", "demo", "--backend", "exact", model=model))

    def ask(self, **members):
        answer = self.server.post(PATH, {"input": QUESTION, "temperature": 0, "max_output_tokens": 60, **members})
        self.assertEqual(answer.status, 200, answer.raw)
        return answer.body

    def chat(self, messages, **members):
        answer = self.server.post(CHAT, {"messages": messages, "temperature": 0, "max_tokens": 60, **members})
        self.assertEqual(answer.status, 200, answer.raw)
        return answer.body["choices"][0]["message"]

    def events(self, **members):
        """Each checked to have its type as its name, and its number."""
        connection = self.server.connection()
        self.addCleanup(connection.close)
        connection.request("POST", PATH, json.dumps({"input": QUESTION, "temperature": 0, "max_output_tokens": 60, "stream": True, **members}))
        raw = connection.getresponse().read().decode()
        events = []
        for block in raw.split("\n\n")[:-1]:
            lines = [line for line in block.split("\n") if not line.startswith(":")]
            if not lines:
                continue
            event = json.loads(lines[1].removeprefix("data: "))
            self.assertEqual(lines[0], "event: " + event["type"])
            self.assertEqual(event["sequence_number"], len(events))
            events.append(event)
        return events

    def refuses(self, param, said, **members):
        answer = self.server.post(PATH, {"input": QUESTION, **members})
        self.assertEqual((answer.status, answer.error["param"]), (400, param), answer.raw)
        self.assertIn(said, answer.error["message"])

    # Answers --------------------------------------------------------------------------------------------------------

    def test_a_text_is_answered_as_a_chat_is(self):
        response = self.ask(input="hello", instructions="You are brief.")
        message = self.chat([{"role": "system", "content": "You are brief."}, {"role": "user", "content": "hello"}])
        self.assertEqual(text_of(response), message["content"])
        self.assertEqual((response["object"], response["status"], response["model"]), ("response", "completed", "demo"))
        self.assertEqual(response["instructions"], "You are brief.")
        self.assertIsNone(response["incomplete_details"])
        usage = response["usage"]
        self.assertEqual(usage["total_tokens"], usage["input_tokens"] + usage["output_tokens"])

    def test_items_are_the_messages_that_they_stand_for(self):
        items = [{"role": "developer", "content": [{"type": "input_text", "text": "Be "}, {"type": "input_text", "text": "brief."}]},
                 {"type": "message", "role": "user", "content": QUESTION},
                 {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "add", "arguments": '{"a":7,"b":8}'},
                 {"type": "function_call_output", "call_id": "c1", "output": "15"}]
        messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": QUESTION},
                    {"role": "assistant", "tool_calls": [{"id": "c1", "function": {"name": "add", "arguments": '{"a":7,"b":8}'}}]},
                    {"role": "tool", "tool_call_id": "c1", "content": "15"}]
        self.assertEqual(text_of(self.ask(input=items, tools=[ADD])), self.chat(messages, tools=[AS_CHAT])["content"])
        items += [{"role": "assistant", "content": [{"type": "output_text", "text": "15", "annotations": []}]},
                  {"role": "user", "content": "hello"}]
        messages += [{"role": "assistant", "content": "15"}, {"role": "user", "content": "hello"}]
        self.assertEqual(text_of(self.ask(input=items, tools=[ADD])), self.chat(messages, tools=[AS_CHAT])["content"])

    def test_calls_are_items(self):
        response = self.ask(tools=[ADD])
        self.assertEqual([item["type"] for item in response["output"]], ["function_call"])
        call = response["output"][0]
        self.assertEqual((call["name"], json.loads(call["arguments"]), call["status"]), ("add", {"a": 7, "b": 8}, "completed"))
        answer = self.ask(input=[{"role": "user", "content": QUESTION}, call,
                                 {"type": "function_call_output", "call_id": call["call_id"], "output": "15"}], tools=[ADD])
        self.assertIn("15", text_of(answer))

    def test_a_choice_is_kept(self):
        for choice in ("required", {"type": "function", "name": "add"}):
            response = self.ask(input="hello", tools=[ADD], tool_choice=choice, parallel_tool_calls=False)
            self.assertEqual([item["type"] for item in response["output"]], ["function_call"])
            self.assertEqual(response["tool_choice"], choice)
        self.assertEqual([item["type"] for item in self.ask(tools=[ADD], tool_choice="none")["output"]], ["message"])

    def test_a_document_of_a_schema(self):
        schema = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 1, "maximum": 9}}, "required": ["n"],
                  "additionalProperties": False}
        response = self.ask(text={"format": {"type": "json_schema", "name": "n", "schema": schema, "strict": True}})
        self.assertIn(json.loads(text_of(response))["n"], range(1, 10))
        self.assertIsInstance(json.loads(text_of(self.ask(text={"format": {"type": "json_object"}}, temperature=1, seed=1,
                                                          max_output_tokens=400))), dict)

    def test_an_answer_that_is_cut_says_so(self):
        for response in (self.ask(input="hello", max_output_tokens=2), self.events(input="hello", max_output_tokens=2)[-1]["response"]):
            self.assertEqual((response["status"], response["incomplete_details"]), ("incomplete", {"reason": "max_output_tokens"}))
            self.assertEqual(response["output"][0]["status"], "incomplete")
            self.assertEqual(response["usage"]["output_tokens"], 2)

    # Streams ----------------------------------------------------------------------------------------------------------

    def test_a_stream_tells_what_the_whole_answer_is(self):
        for members in ({"input": "hello"}, {"tools": [ADD]}, {"input": "hello", "tools": [ADD]}):
            events = self.events(**members)
            self.assertEqual([event["type"] for event in events[:2]], ["response.created", "response.in_progress"])
            self.assertEqual(events[-1]["type"], "response.completed")
            self.assertEqual(without_ids(events[-1]["response"]), without_ids(self.ask(**members)))

    def test_the_events_of_a_text(self):
        events = self.events(input="hello")[2:]
        text = text_of(events[-1]["response"])
        deltas = [event for event in events if event["type"] == "response.output_text.delta"]
        self.assertEqual("".join(event["delta"] for event in deltas), text)
        self.assertEqual([event["type"] for event in events if event not in deltas],
                         ["response.output_item.added", "response.content_part.added", "response.output_text.done",
                          "response.content_part.done", "response.output_item.done", "response.completed"])
        item = events[-1]["response"]["output"][0]
        self.assertEqual({event["item_id"] for event in events if "item_id" in event}, {item["id"]})
        self.assertEqual(events[-2]["item"], item)

    def test_the_events_of_a_call(self):
        events = self.events(tools=[ADD])[2:]
        deltas = [event["delta"] for event in events if event["type"] == "response.function_call_arguments.delta"]
        self.assertEqual(json.loads("".join(deltas)), {"a": 7, "b": 8})
        kinds = [event["type"] for event in events if not event["type"].endswith("delta")]
        self.assertEqual(kinds, ["response.output_item.added", "response.function_call_arguments.done", "response.output_item.done",
                                 "response.completed"])
        self.assertEqual(events[0]["item"]["call_id"], events[-2]["item"]["call_id"])

    # What is wrong ----------------------------------------------------------------------------------------------------

    def test_what_is_wrong_is_named(self):
        def refuses_item(said, item):
            self.refuses("input", said, input=[{"role": "user", "content": "hi"}, item])
        self.refuses("input", "input must be", input=None)
        self.refuses("input", "input must be", input=[])
        self.refuses("input", "input must be", input=3)
        refuses_item("item 2 is not an object", 3)
        refuses_item("item 2 has the role 'tool'", {"role": "tool", "content": "x"})
        refuses_item("item 2 has no content", {"role": "user"})
        refuses_item("item 2 has a part of the type 'input_image'", {"role": "user", "content": [{"type": "input_image"}]})
        refuses_item("item 2 has a part without a type", {"role": "user", "content": [{"text": "hi"}]})
        refuses_item("item 2 is of the type 'web_search_call'", {"type": "web_search_call"})
        refuses_item("nothing is stored", {"type": "item_reference", "id": "msg_1"})
        refuses_item("item 2 has no text as its arguments", {"type": "function_call", "call_id": "1", "name": "f", "arguments": {}})
        refuses_item("item 2 is a call without a name", {"type": "function_call", "call_id": "1", "arguments": "{}"})
        refuses_item("not a JSON object", {"type": "function_call", "call_id": "1", "name": "f", "arguments": "[1"})
        refuses_item("item 2 has a content that is neither", {"type": "function_call_output", "call_id": "1", "output": 3})
        deep = '{"a":' * 40 + "1" + "}" * 40
        refuses_item("the chat template needs arguments", {"type": "function_call", "call_id": "1", "name": "f", "arguments": deep})
        self.refuses("tools", "tool 1 is of the type 'web_search'; only functions are known", tools=[{"type": "web_search"}])
        for wrong in (AS_CHAT, 3, {"type": "function"}, {"name": "f"}, {"type": "function", "name": None}):
            self.refuses("tools", 'tool 2 is no function with a name; give {"type": "function", "name": ...}', tools=[ADD, wrong])
        self.refuses("tool_choice", "names 'sub', which is no tool of the request; it has add", tools=[ADD],
                     tool_choice={"type": "function", "name": "sub"})
        self.refuses("tool_choice", "names no function", tools=[ADD], tool_choice={"type": "function", "name": ""})
        self.refuses("tools", "tool 1 ('add') has a strict that is neither true nor false", tools=[{**ADD, "strict": "yes"}])
        self.refuses("tools", "tool 2 ('sub') has a description that is not a text", tools=[ADD, {**ADD, "name": "sub", "description": 3}])
        odd = {"type": "object", "properties": {"a/b": {"type": "object", "patternProperties": {"^a": {}}}}}
        self.refuses("tools", "tool 2 ('sub'): in /parameters/properties/a~1b: \"patternProperties\" is not supported",
                     tools=[ADD, {**ADD, "name": "sub", "strict": True, "parameters": odd}])
        self.refuses("metadata", "metadata must be", metadata="x")
        schema = {"type": "json_schema", "name": "x", "schema": {"type": "object"}}
        self.refuses("strict", "strict must be", text={"format": {**schema, "strict": 1}})
        self.refuses("description", "description must be", text={"format": {**schema, "description": []}})
        self.refuses("previous_response_id", "not stored", previous_response_id="resp_1")
        self.refuses("background", "not stored", background=True)
        self.refuses("text.format", "of the type 'xml'", text={"format": {"type": "xml"}})
        self.refuses("text.format", "text.format has no type", text={"format": {}})
        self.refuses("top_logprobs", "not supported", top_logprobs=2)


if __name__ == "__main__":
    unittest.main()
