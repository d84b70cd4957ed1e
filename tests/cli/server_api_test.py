"""The server's endpoints: what they take, what they answer, what they refuse."""
import json
import random
import unittest
import urllib.parse

import checkpoints
import cria_cli as cli
from cria_server import Server

HELLO = [{"role": "user", "content": "hello"}]
PROMPT = "Once upon a time"


class Basics(unittest.TestCase):
    def test_it_tells_its_memory_and_itself(self):
        with Server("--sessions", 2, "--context", 128, "--alias", "demo") as server:
            self.assertIn("2 sessions of 128 positions", server.told)
            self.assertEqual(server.get("/health").body, {"status": "ok"})
            props = server.get("/props").body
            self.assertEqual(props["total_slots"], 2)
            self.assertEqual(props["default_generation_settings"]["n_ctx"], 128)
            self.assertEqual(props["default_generation_settings"]["params"]["temperature"], 0.8)
            self.assertEqual(props["bos_token"], "<|begin_of_text|>")
            self.assertIn("eot_id", props["chat_template"])
            self.assertTrue(props["model_path"].endswith(".cria"))
            models = server.get("/v1/models").body
            self.assertEqual(models["data"][0]["id"], "demo")
            self.assertEqual(models["data"][0]["owned_by"], "cria")
            self.assertIsInstance(models["data"][0]["created"], int)
            self.assertEqual(server.get("/v1/models/demo").body["id"], "demo")
            self.assertEqual(server.get("/v1/models/other").status, 404)
            slots = server.get("/slots").body
            self.assertEqual([(s["id"], s["n_ctx"], s["is_processing"]) for s in slots], [(0, 128, False), (1, 128, False)])
            self.assertEqual(server.get("/metrics").status, 501)

    def test_the_least_context_is_two_positions(self):
        result = cli.cria("serve", cli.model(), "--port", "0", "--context", "1")
        self.assertEqual(result.code, cli.USAGE)
        self.assertRegex(result.err, r"\Acria: error: --context 1 has no room for a prompt and an answer; the least is 2\n\Z")
        with Server("--context", 2) as server:
            self.assertEqual(server.post("/completion", {"prompt": [5]}).body["tokens_predicted"], 2)

    def test_more_context_is_advised_where_the_model_has_it(self):
        with Server("--context", 8) as server:
            message = server.post("/completion", {"prompt": [5] * 8}).error["message"]
            self.assertTrue(message.endswith("; shorten it or raise --context"), message)

    def test_metrics_are_opted_in(self):
        with Server("--metrics") as server:
            server.chat(max_tokens=4)
            text = server.get("/metrics").raw.decode()
            self.assertIn("\ncria_generated_tokens_total 4\n", text)

    def test_paths_and_methods(self):
        with Server() as server:
            self.assertEqual(server.get("/nothing").status, 404)
            self.assertEqual(server.get("/nothing").error["type"], "not_found_error")
            wrong = server.get("/v1/chat/completions")
            self.assertEqual((wrong.status, wrong.headers["Allow"]), (405, "POST, OPTIONS"))
            self.assertEqual(server.post("/health", {}).status, 405)
            self.assertEqual(server.request("HEAD", "/health").raw, b"")
            html = {"Accept": "text/html"}
            page = server.get("/", headers=html)
            self.assertTrue(page.raw.startswith(b"<!doctype html>"))
            self.assertNotIn(b"CRIA_NONCE", page.raw)
            self.assertIn("default-src 'none'", page.headers["Content-Security-Policy"])
            self.assertEqual(page.headers["X-Content-Type-Options"], "nosniff")
            self.assertNotEqual(page.raw, server.get("/", headers=html).raw)  # a word of its own for each answer

    def test_escapes_in_targets(self):
        folder = cli.folder() / "names"
        folder.mkdir(exist_ok=True)
        for name in ("my model.cria", "100%.cria", "m\u00e9.cria"):
            (folder / name).symlink_to(cli.model())
            with Server(model=str(folder / name)) as server:
                path = "/v1/models/" + urllib.parse.quote(name)
                self.assertEqual(server.get(path).body["id"], name)
                self.assertEqual(server.get(path + "?a=%20").body["id"], name)
                self.assertEqual(server.get("/%76%31/model%73/" + urllib.parse.quote(name)).status, 200)
        with Server("--alias", "org/name") as server:
            for path, status in (("/v1/models/org/name", 200), ("/v1/models/org%2Fname", 200), ("/v1/models/org%2fname", 200), ("/v1/models/org%252Fname", 404),
                                 ("/v1/models%2Forg/name", 404), ("/v1%2Fmodels", 404), ("/v1%2Fmodels/org/name", 404), ("%2Fhealth", 400), ("/%68ealth", 200), ("/health%2F", 404),
                                 ("/v1/models/org%00name", 400), ("/health%", 400), ("/health%2", 400), ("/health%zz", 400), ("/health?%zz", 400),
                                 ("/health?a=%00", 400), ("/health%0A", 404), ("/health%20", 404), ("/slots?fail_on_no_slot=%31", 200), ("/%70rops?x", 200)):
                self.assertEqual(server.get(path).status, status, path)

    def test_tokens_that_are_parts_of_characters_are_told_as_bytes(self):
        """Whatever else their bytes look like."""
        odd = {"<0x\u00ff\u00fe>": b"<0x\xff\xfe>", "<0xZ\u00fe>": b"<0xZ\xfe>", "\u00e2\u0138\u00fe": b"\xe2\x96\xfe", "<0x41>": b"<0x41>"}
        folder, ids = checkpoints.odd_byte_level("odd", odd)
        self.told_as_bytes(cli.converted(folder), {ids[text]: raw for text, raw in odd.items()})
        bytes_ = {3 + byte: bytes([byte]) for byte in range(256)}
        self.told_as_bytes(cli.converted(checkpoints.sentencepiece("pieces")), bytes_)

    def told_as_bytes(self, model, tokens):
        with Server(model=model) as server:
            pieces = server.post("/tokenize", {"content": list(tokens), "with_pieces": True}).body["tokens"]
            told = {row["id"]: row["piece"].encode() if isinstance(row["piece"], str) else bytes(row["piece"]) for row in pieces}
            self.assertEqual(told, tokens)
            for path, asked in (("/completion", {"n_probs": 2}), ("/v1/completions", {"logprobs": 2}),
                                ("/v1/chat/completions", {"logprobs": True, "top_logprobs": 2})):
                prompt = {"messages": HELLO} if "chat" in path else {"prompt": "a"}
                for token in list(tokens)[:3]:
                    body = {**prompt, **asked, "max_tokens": 2, "ignore_eos": True, "logit_bias": [[token, 100]]}
                    answer = server.post(path, body).body
                    rows = answer.get("completion_probabilities") or answer["choices"][0]["logprobs"]["content"]
                    self.assertEqual([bytes(row["bytes"]) for row in rows], [tokens[token]] * 2)
                    self.assertTrue(server.stream(path, body))

    def test_a_model_without_tokenizer_continues_ids(self):
        with Server(model=cli.model("--no-tokenizer")) as server:
            done = server.post("/completion", {"prompt": [1, 2, 3], "n_predict": 4, "temperature": 0, "return_tokens": True})
            self.assertEqual(done.status, 200)
            self.assertEqual(len(done.body["tokens"]), 4)
            self.assertEqual(server.chat().status, 501)
            self.assertEqual(server.post("/tokenize", {"content": "a"}).status, 501)


class Endpoints(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = cls.enterClassContext(Server("--sessions", 3, "--queue", 8))

    def refuses(self, path, data, param=None, status=400):
        answer = self.server.post(path, data)
        self.assertEqual(answer.status, status, (data, answer.raw))
        self.assertEqual(set(answer.error) & {"message", "type", "param", "code"}, {"message", "type", "param", "code"})
        self.assertEqual(answer.error["code"], status)
        if param:
            self.assertEqual(answer.error["param"], param, answer.raw)
        return answer.error

    def test_a_chat_is_answered(self):
        body = self.server.chat(max_tokens=8, model="mine").body
        self.assertTrue(body["id"].startswith("chatcmpl-"))
        self.assertEqual((body["object"], body["model"]), ("chat.completion", "mine"))
        self.assertTrue(body["system_fingerprint"].startswith("b"))
        choice = body["choices"][0]
        self.assertEqual((choice["message"]["role"], choice["finish_reason"]), ("assistant", "length"))
        self.assertEqual(body["usage"]["completion_tokens"], 8)
        self.assertEqual(body["usage"]["total_tokens"], body["usage"]["prompt_tokens"] + 8)
        again = self.server.chat(max_tokens=8).body
        self.assertEqual(again["usage"]["prompt_tokens_details"]["cached_tokens"], again["usage"]["prompt_tokens"] - 1)
        self.assertEqual(again["choices"][0]["message"], choice["message"])

    def test_a_stream_has_the_text_of_the_whole(self):
        whole = self.server.chat(max_tokens=12).body
        events = self.server.stream("/v1/chat/completions", {"messages": HELLO, "seed": 1, "max_tokens": 12,
                                                              "stream_options": {"include_usage": True}})
        self.assertEqual(events[-1], "[DONE]")
        self.assertEqual(events[0]["choices"][0]["delta"], {"role": "assistant", "content": None})
        self.assertEqual(events[-2]["choices"], [])
        self.assertEqual(events[-2]["usage"]["completion_tokens"], 12)
        self.assertEqual(events[-3]["choices"][0]["finish_reason"], "length")
        self.assertEqual(events[-3]["choices"][0]["delta"], {})
        self.assertIn("predicted_per_second", events[-3]["timings"])
        text = "".join(e["choices"][0]["delta"]["content"] for e in events[1:-3])
        self.assertEqual(text, whole["choices"][0]["message"]["content"])
        self.assertEqual(len({e["id"] for e in events[:-1]}), 1)

    def test_the_wire_is_what_openai_s_clients_read(self):
        """Events as their decoders take them apart: fields of lines, a blank line at the end of each, comments passed over."""
        connection = self.server.connection()
        body = {"model": "any", "messages": HELLO, "seed": 1, "max_tokens": 6, "stream": True, "stream_options": {"include_usage": True}}
        connection.request("POST", "/v1/chat/completions", json.dumps(body), {
            "Content-Type": "application/json", "Accept": "application/json", "Authorization": "Bearer sk-none"})
        response = connection.getresponse()
        self.assertEqual(response.status, 200)
        self.assertEqual(response.headers.get_content_type(), "text/event-stream")
        events, fields = [], []
        for line in response.read().decode().split("\n"):
            if line == "" and fields:
                events.append(fields)
                fields = []
            elif line and not line.startswith(":"):
                name, colon, value = line.partition(": ")
                self.assertEqual((name, colon), ("data", ": "))
                fields.append(value)
        connection.close()
        self.assertEqual(fields, [])  # the last event is ended too
        self.assertTrue(all(len(fields) == 1 for fields in events))
        self.assertEqual(events.pop(), ["[DONE]"])
        chunks = [json.loads(data) for (data,) in events]
        for chunk in chunks:
            self.assertEqual((chunk["object"], type(chunk["created"]), chunk["model"]), ("chat.completion.chunk", int, "any"))
        self.assertEqual(len({(chunk["id"], chunk["created"]) for chunk in chunks}), 1)
        *told, usage = chunks
        self.assertEqual((usage["choices"], usage["usage"]["completion_tokens"]), ([], 6))
        self.assertTrue(all(len(chunk["choices"]) == 1 and chunk["choices"][0]["index"] == 0 for chunk in told))
        self.assertTrue(all(chunk.get("usage") is None for chunk in told))
        self.assertEqual([chunk["choices"][0]["finish_reason"] for chunk in told], [None] * (len(told) - 1) + ["length"])
        self.assertEqual([chunk["choices"][0]["delta"].get("role") for chunk in told], ["assistant"] + [None] * (len(told) - 1))

    def test_a_comment_comes_before_the_first_event(self):
        connection = self.server.connection()
        connection.request("POST", "/v1/chat/completions", json.dumps({"messages": HELLO, "stream": True, "max_tokens": 1}))
        self.assertTrue(connection.getresponse().read().startswith(b": "))
        connection.close()

    def test_text_completions(self):
        body = self.server.post("/v1/completions", {"prompt": PROMPT, "max_tokens": 6, "seed": 3, "echo": True}).body
        self.assertEqual(body["object"], "text_completion")
        self.assertTrue(body["choices"][0]["text"].startswith(PROMPT))
        events = self.server.stream("/v1/completions", {"prompt": PROMPT, "max_tokens": 6, "seed": 3})
        text = "".join(e["choices"][0]["text"] for e in events[:-1])
        self.assertEqual(PROMPT + text, body["choices"][0]["text"])
        many = self.server.post("/v1/completions", {"prompt": [PROMPT, PROMPT], "n": 2, "max_tokens": 3, "seed": 3}).body
        self.assertEqual([c["index"] for c in many["choices"]], [0, 1, 2, 3])
        self.assertEqual(many["choices"][0]["text"], many["choices"][2]["text"])

    def test_timings_of_pieces_are_those_of_the_end(self):
        many = {"prompt": [PROMPT, "The llama"], "n": 2, "stream": True, "timings_per_token": True, "n_predict": 5, "seed": 3}
        self.server.stream("/completion", many)  # then much is held
        events = self.server.stream("/completion", many)
        ends = {e["index"]: e["timings"] for e in events if e["stop"]}
        self.assertEqual(len(ends), 4)
        self.assertTrue(any(end["cache_n"] > 0 for end in ends.values()))
        for event in events:
            for name in ("cache_n", "prompt_n", "prompt_ms"):
                self.assertEqual(event["timings"][name], ends[event["index"]][name], name)

    def test_the_native_form(self):
        native = {"prompt": PROMPT, "n_predict": 5, "seed": 3, "cache_prompt": True, "id_slot": -1}
        body = self.server.post("/completion", native).body
        self.assertEqual((body["stop"], body["stop_type"], body["tokens_predicted"]), (True, "limit", 5))
        self.assertEqual((body["tokens"], body["truncated"], body["stopping_word"]), ([], False, ""))
        self.assertEqual(body["generation_settings"]["n_predict"], 5)
        self.assertEqual(body["generation_settings"]["seed"], 3)
        with_tokens = self.server.post("/completion", {**native, "return_tokens": True}).body
        self.assertEqual(len(with_tokens["tokens"]), 5)
        events = self.server.stream("/completion", native)
        self.assertEqual("".join(e["content"] for e in events), body["content"])
        self.assertTrue(events[-1]["stop"] and not any(e["stop"] for e in events[:-1]))
        ids = self.server.post("/tokenize", {"content": PROMPT, "add_special": True}).body["tokens"]
        both = self.server.post("/completion", {**native, "prompt": [ids, PROMPT, {"prompt_string": PROMPT}]}).body
        self.assertEqual([each["content"] for each in both], [body["content"]] * 3)
        mixed = self.server.post("/completion", {**native, "prompt": [ids[0], PROMPT]}).body
        self.assertIsInstance(mixed["content"], str)
        some = self.server.post("/completion", {**native, "response_fields": ["content", "generation_settings/n_predict"]}).body
        self.assertEqual(some, {"content": body["content"], "generation_settings/n_predict": 5})
        self.assertEqual(self.server.post("/completion", {**native, "n_predict": 0}).body["content"], "")

    def test_probabilities(self):
        body = self.server.chat(max_tokens=5, temperature=0, logprobs=True, top_logprobs=3).body
        rows = body["choices"][0]["logprobs"]["content"]
        self.assertEqual("".join(row["token"] for row in rows), body["choices"][0]["message"]["content"])
        for row in rows:
            self.assertEqual(bytes(row["bytes"]).decode(), row["token"])
            self.assertEqual(len(row["top_logprobs"]), 3)
            self.assertLessEqual(row["logprob"], 0)
            self.assertEqual(row["top_logprobs"][0]["id"], row["id"])
        bare = self.server.chat(max_tokens=5, logprobs=True).body["choices"][0]["logprobs"]["content"]
        self.assertEqual([row["top_logprobs"] for row in bare], [[]] * 5)
        native = self.server.post("/completion", {"prompt": PROMPT, "n_predict": 4, "n_probs": 10}).body
        self.assertEqual([len(row["top_logprobs"]) for row in native["completion_probabilities"]], [10] * 4)

    def test_choices_have_seeds_that_follow_each_other(self):
        three = self.server.chat(max_tokens=10, n=3, seed=5, temperature=1.5).body["choices"]
        for i, choice in enumerate(three):
            one = self.server.chat(max_tokens=10, seed=5 + i, temperature=1.5).body["choices"][0]
            self.assertEqual(choice["message"], one["message"])
        self.refuses("/v1/chat/completions", {"messages": HELLO, "n": 4}, "n")

    def test_stop_strings(self):
        whole = self.server.chat(max_tokens=16).body["choices"][0]["message"]["content"]
        word = whole.split()[2]
        cut = self.server.chat(max_tokens=16, stop=["", word]).body["choices"][0]
        self.assertEqual((cut["message"]["content"], cut["finish_reason"]), (whole[:whole.index(word)], "stop"))
        none = self.server.chat(max_tokens=16, stop="").body["choices"][0]
        self.assertEqual(none["message"]["content"], whole)
        held = self.server.chat(max_tokens=16, stop=[whole + "!"]).body["choices"][0]
        self.assertEqual(held["message"]["content"], whole)
        native = self.server.post("/completion", {"prompt": PROMPT, "n_predict": 5, "temperature": 0}).body["content"]
        stop = native.split()[-1]
        ended = self.server.post("/completion", {"prompt": PROMPT, "n_predict": 5, "temperature": 0, "stop": [stop]}).body
        self.assertEqual((ended["stop_type"], ended["stopping_word"]), ("word", stop))

    def test_biases_in_every_form(self):
        ids = self.server.post("/tokenize", {"content": "Hello"}).body["tokens"]
        self.assertEqual(len(ids), 1)
        usual = self.server.chat(max_tokens=1, temperature=0).body["choices"][0]["message"]["content"]
        self.assertEqual(usual, "Hello")
        for bias in ({str(ids[0]): -100}, {"Hello": -100}, [[ids[0], False]], [["Hello", -100]]):
            other = self.server.chat(max_tokens=1, temperature=0, logit_bias=bias).body["choices"][0]["message"]["content"]
            self.assertNotEqual(other, usual, bias)
        for bias in ({"99999": 1}, {"9" * 30: 1}, {"-" + "9" * 30: 1}, [[99999, 1]], [[-1, 1]], {"1": "x"}, [[1]], 5, {"long " * 10000: False}):
            self.refuses("/v1/chat/completions", {"messages": HELLO, "logit_bias": bias}, "logit_bias")

    def test_biases_that_leave_no_token(self):
        n_vocab = self.server.get("/v1/models").body["data"][0]["meta"]["n_vocab"]
        every = [[i, False] for i in range(n_vocab)]
        self.refuses("/completion", {"prompt": "a", "n_predict": 2, "logit_bias": every}, "logit_bias")
        numbers = {"json_schema": {"type": "integer"}}
        self.refuses("/completion", {"prompt": "a", "logit_bias": every, **numbers}, "logit_bias")
        space = self.server.post("/tokenize", {"content": " a"}).body["tokens"][0]
        rest = [row for row in every if row[0] != space]
        body = self.server.post("/completion", {"prompt": "a", "n_predict": 2, "logit_bias": rest, "return_tokens": True}).body
        self.assertEqual(body["tokens"], [space] * 2)
        # What is left is not what the schema wants.
        error = self.refuses("/completion", {"prompt": "a", "n_predict": 2, "logit_bias": rest, **numbers}, "logit_bias")
        self.assertIn("schema", error["message"])
        # Two of -3e38 for one token are -infinity.
        self.refuses("/completion", {"prompt": "a", "n_predict": 2, "logit_bias": [*rest, [" a a", -3e38]]}, "logit_bias")
        self.refuses("/completion", {"prompt": "a", "logit_bias": [*every, [1, 1]]}, "logit_bias")
        events = self.server.stream("/completion", {"prompt": "a", "logit_bias": rest, **numbers})
        self.assertEqual(events[-1]["error"]["param"], "logit_bias")

    def test_documents_of_a_schema(self):
        schema = {"type": "object", "properties": {"z": {"type": "integer"}, "a": {"enum": ["x", "y"]}}, "required": ["z", "a"]}
        forms = ({"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}},
                 {"response_format": {"type": "json_object", "schema": schema}}, {"json_schema": schema})
        for form in forms:
            choice = self.server.chat(temperature=1.5, **form).body["choices"][0]
            self.assertEqual(choice["finish_reason"], "stop")
            self.assertEqual(list(json.loads(choice["message"]["content"])), ["z", "a"])
        cut = self.server.chat(max_tokens=2, **forms[0]).body["choices"][0]
        self.assertEqual(cut["finish_reason"], "length")
        anything = self.server.chat(response_format={"type": "json_object"}, max_tokens=200).body["choices"][0]
        self.assertTrue(anything["message"]["content"].startswith("{"))
        for format_ in ({"type": "sound"}, {"type": "json_schema"}, {"type": "json_schema", "json_schema": {}}, "json",
                        {"type": "json_object", "schema": 123}, {"type": "json_object", "schema": {"type": "hiccup"}},
                        {"type": "json_object", "schema": {"patternProperties": {"a": {}}}}):
            self.refuses("/v1/chat/completions", {"messages": HELLO, "response_format": format_})
        self.assertEqual(self.refuses("/v1/chat/completions", {"messages": HELLO, "response_format": {}})["message"],
                         "response_format has no type; text, json_object and json_schema are known")
        # One of two would be the schema of another request.
        for format_ in ({"type": "json_object"}, {"type": "json_schema", "json_schema": {"schema": {"type": "null"}}}):
            self.refuses("/completion", {"prompt": "a", "json_schema": {"type": "null"}, "response_format": format_}, "response_format")
        self.assertIn("patternProperties", self.refuses("/completion", {"prompt": "a", "json_schema": {"patternProperties": {"a": {}}}})["message"])

    def test_a_byte_order_mark_takes_no_schema_off(self):
        mark = b"\xef\xbb\xbf"
        schema = {"enum": ["yes"]}
        named = {"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}}
        for path in ("/completion", "/v1/completions", "/v1/chat/completions"):
            prompt = {"messages": HELLO} if "chat" in path else {"prompt": PROMPT}
            for form in (named, {"response_format": {"type": "json_object", "schema": schema}}, {"json_schema": schema}):
                body = json.dumps({**prompt, **form, "temperature": 2.0, "seed": 1}).encode()
                plain, marked = self.server.post(path, body), self.server.post(path, mark + body)
                self.assertEqual((plain.status, marked.status), (200, 200))
                choice = lambda body: body.get("content") or body["choices"][0].get("text") or body["choices"][0]["message"]["content"]
                self.assertEqual([choice(plain.body), choice(marked.body)], ['"yes"'] * 2)
            bad = json.dumps({**prompt, "json_schema": {"patternProperties": {"a": {}}}}).encode()
            for body in (bad, mark + bad, mark + mark + bad):
                self.refuses(path, body)

    def test_of_a_schema_that_is_there_twice_the_last_counts(self):
        for form in ('{"json_schema": %s, "json_sch\\u0065ma": %s}', '{"json_sch\\u0065ma": %s, "json_schema": %s}',
                     '{"response_format": {"type": "json_object", "schema": %s, "sch\\u0065ma": %s}}'):
            format_ = json.loads(form % ("1", "1"))
            text = form % ('{"enum": ["no"]}', '{"enum": ["yes"]}')
            body = {"prompt": PROMPT} if "json_schema" in format_ else {"messages": HELLO}
            path = "/completion" if "prompt" in body else "/v1/chat/completions"
            answer = self.server.request("POST", path, (json.dumps(body)[:-1] + "," + text[1:]).encode()).body
            self.assertEqual(answer.get("content") or answer["choices"][0]["message"]["content"], '"yes"', text)

    def test_seeds_have_64_bits(self):
        for seed in (-2**63, -2, 0, 2**63, 2**64 - 1):
            told = self.server.post("/completion", {"prompt": "a", "n_predict": 1, "seed": seed}).body["generation_settings"]["seed"]
            self.assertEqual(told, seed % 2**64)
        for seed in (2**64, -2**63 - 1):
            error = self.refuses("/completion", {"prompt": "a", "seed": seed}, "seed")
            self.assertEqual(error["message"], "seed must be a whole number from -9223372036854775808 to 18446744073709551615")

    def test_without_a_seed_one_is_drawn(self):
        for seed in (b"", b', "seed": -1', b', "seed": null'):
            bodies = [self.server.request("POST", "/completion", b'{"prompt": "a", "n_predict": 1%s}' % seed).body for _ in range(4)]
            self.assertEqual(len({body["generation_settings"]["seed"] for body in bodies}), 4, seed)

    def test_conversations_that_are_none(self):
        image = [{"type": "image_url", "image_url": {"url": "data:"}}]
        for messages in (None, "text", [], [123], [{}], [{"role": 1, "content": "a"}], [{"role": "user"}],
                         [{"role": "user", "content": None}], [{"role": "user", "content": 1}], [{"role": "tool", "content": "a"}],
                         [{"role": "robot", "content": "a"}], [{"role": "user", "content": image}],
                         [{"role": "user", "content": [{"type": "text"}]}], HELLO + [{}]):
            self.refuses("/v1/chat/completions", {"messages": messages}, "messages")
            self.refuses("/apply-template", {"messages": messages}, "messages")

    def test_values_out_of_range_or_of_another_kind(self):
        for name, values in {
            "temperature": (-1, 101, "1", True), "top_p": (-0.1, 1.1), "min_p": (2,), "top_k": (-2, 1.5), "n": (0, -1, "1"),
            "seed": ("1", 1.5), "max_tokens": (-2, "8", 1.5), "stop": (1, [1], {}), "frequency_penalty": (11,),
            "presence_penalty": (-11,), "repeat_penalty": (-1,), "stream": ("true", 1), "top_logprobs": (21, -1),
            "stream_options": (1,), "logprobs": ("yes",), "model": (1,),
        }.items():
            for value in values:
                self.refuses("/v1/chat/completions", {"messages": HELLO, "logprobs": True, name: value}, name)
        self.refuses("/v1/chat/completions", {"messages": HELLO, "top_logprobs": 2}, "top_logprobs")
        self.refuses("/v1/chat/completions", {"messages": HELLO, "tools": [{"type": "function"}]}, "tools")
        self.refuses("/v1/completions", {"prompt": "a", "echo": True, "logprobs": 1}, "echo")
        self.refuses("/completion", {"prompt": "a", "grammar": "root ::= [a]"}, "grammar")
        self.refuses("/completion", {"prompt": "a", "lora": [{"id": 0, "scale": 1.0}]}, "lora")
        self.refuses("/completion", {"prompt": "a [img-1]", "image_data": [{"id": 1, "data": ""}]}, "image_data")

    def test_null_is_absent_and_what_is_unknown_is_ignored(self):
        names = ("temperature", "top_p", "max_tokens", "stop", "n", "seed", "stream", "stream_options", "logit_bias", "logprobs",
                 "top_logprobs", "response_format", "tools", "model", "user")
        nothing = {name: None for name in names}
        body = self.server.post("/v1/chat/completions", {"messages": HELLO, **nothing, "max_completion_tokens": 3, "surprise": {"a": 1}})
        self.assertEqual(body.body["usage"]["completion_tokens"], 3)

    def test_what_clients_send_besides_changes_nothing(self):
        history = [*HELLO, {"role": "assistant", "content": "Hi."}, *HELLO]
        more = [*HELLO, {"role": "assistant", "content": "Hi.", "reasoning_content": "A greeting.", "tool_calls": [], "refusal": None}, *HELLO]
        asked = {"messages": history, "temperature": 0, "max_tokens": 4}
        besides = {"user": "somebody", "metadata": {"a": "b"}, "store": False, "parallel_tool_calls": True, "tools": []}
        plain, told = (self.server.post("/v1/chat/completions", body) for body in (asked, {**asked, **besides, "messages": more}))
        self.assertEqual((told.status, told.body["choices"]), (200, plain.body["choices"]))
        silent = [*HELLO, {"role": "assistant", "content": None}, *HELLO]
        self.assertEqual(self.server.post("/v1/chat/completions", {**asked, "messages": silent}).status, 200)

    def test_content_in_parts_and_roles(self):
        parts = [{"type": "text", "text": "hel"}, {"type": "text", "text": "lo"}]
        text = self.server.post("/apply-template", {"messages": [{"role": "user", "content": parts}]}).body["prompt"]
        self.assertEqual(text, self.server.post("/apply-template", {"messages": HELLO}).body["prompt"])
        for role in ("system", "developer"):
            told = self.server.post("/apply-template", {"messages": [{"role": role, "content": "Be kind."}, *HELLO]}).body["prompt"]
            self.assertIn("<|start_header_id|>system", told)

    def test_prompts_that_are_none(self):
        for prompt in (None, 1, [], [[]], {}, [1, 99999], [1, -1], [1, 1.5], [1, None],
                       {"prompt_string": "a", "multimodal_data": ["a"]}):
            for path in ("/completion", "/v1/completions"):
                self.refuses(path, {"prompt": prompt}, "prompt")

    def test_tokens_and_back(self):
        text = "This is a test with unicode 媽 and emoji 🤗"
        ids = self.server.post("/tokenize", {"content": text}).body["tokens"]
        self.assertEqual(self.server.post("/detokenize", {"tokens": ids}).body["content"], text)
        pieces = self.server.post("/tokenize", {"content": text, "with_pieces": True}).body["tokens"]
        self.assertEqual([p["id"] for p in pieces], ids)
        joined = b"".join(p["piece"].encode() if isinstance(p["piece"], str) else bytes(p["piece"]) for p in pieces)
        self.assertEqual(joined.decode(), text)
        with_bos = self.server.post("/tokenize", {"content": text, "add_special": True}).body["tokens"]
        self.assertEqual(with_bos[1:], ids)
        unread = self.server.post("/tokenize", {"content": "<|eot_id|>", "parse_special": False}).body["tokens"]
        self.assertGreater(len(unread), 1)
        self.assertEqual(len(self.server.post("/tokenize", {"content": "<|eot_id|>"}).body["tokens"]), 1)
        self.refuses("/detokenize", {"tokens": [99999]}, "tokens")
        self.refuses("/detokenize", {"tokens": "1"}, "tokens")
        whole = self.server.post("/detokenize", b'{"tokens": [%d.0]}' % ids[0]).body["content"]
        self.assertEqual(whole, self.server.post("/detokenize", {"tokens": ids[:1]}).body["content"])
        for content in (1, {}, True):
            self.assertIn("text", self.refuses("/tokenize", {"content": content}, "content")["message"])
        long = self.refuses("/tokenize", {"content": "a b " * 300_000}, "content")
        self.assertEqual(long["type"], "invalid_request_error")
        self.assertIn("16384 bytes", long["message"])

    def test_a_prompt_s_text_is_text_where_it_is_said_to_be(self):
        def n_prompt(path, prompt, **more):
            body = self.server.post(path, {"prompt": prompt, "max_tokens": 1, **more}).body
            return body["usage"]["prompt_tokens"] if "usage" in body else body["tokens_evaluated"]

        prompts = ("a<|eot_id|>", {"prompt_string": "a<|eot_id|>"}, ["a<|eot_id|>", 1], [1, "a<|eot_id|>"], ["a", "<|eot_id|>"])
        for path in ("/completion", "/completions", "/v1/completions"):
            for prompt in prompts[:-1]:
                parsed, as_text = n_prompt(path, prompt), n_prompt(path, prompt, parse_special=False)
                self.assertEqual(n_prompt(path, prompt, parse_special=True), parsed)
                self.assertGreater(as_text, parsed + 3, (path, prompt))
            self.refuses(path, {"prompt": "a", "parse_special": 1}, "parse_special")
            plain = self.server.post("/tokenize", {"content": "a<|eot_id|>", "parse_special": False, "add_special": True}).body["tokens"]
            self.assertEqual(n_prompt(path, "a<|eot_id|>", parse_special=False), len(plain))
        # Of a list of prompts each.
        told = [self.server.post("/v1/completions", {"prompt": list(prompts[-1]), "max_tokens": 1, "parse_special": parses}).body["usage"]["prompt_tokens"]
                for parses in (True, False)]
        self.assertGreater(told[1], told[0] + 3)

    def test_the_template_s_text_is_what_a_prompt_counts(self):
        for messages in (HELLO, [{"role": "system", "content": "Be kind. 媽"}, *HELLO, {"role": "assistant", "content": "Hi!"}, *HELLO]):
            text = self.server.post("/apply-template", {"messages": messages}).body["prompt"]
            counted = self.server.post("/v1/chat/completions", {"messages": messages, "max_tokens": 1}).body["usage"]["prompt_tokens"]
            for special in (True, False):
                ids = self.server.post("/tokenize", {"content": text, "add_special": special, "parse_special": True}).body["tokens"]
                self.assertEqual(len(ids), counted)

    def test_the_template_s_text_whatever_the_tokenizer(self):
        chance = random.Random(5)
        pieces = ["a", " ", "  ", "\n", "\t", "hello", "<", "|", "\u00e9", "\U0001f999", "\u2581", "\ufffd", "\0", "\r\n", "\u0301", "A\u030a", "the cat"]
        conversations = [[{"role": ("user", "assistant")[i % 2], "content": "".join(chance.choices(pieces, k=chance.randrange(7)))}
                          for i in range(chance.choice((1, 1, 3, 5)))] for _ in range(60)]
        for model in (cli.model(), cli.converted(checkpoints.sentencepiece("knows_all")),
                      cli.converted(checkpoints.sentencepiece("knows_little", knows_all=False))):
            with Server(model=model) as server:
                for messages in conversations:
                    text = server.post("/apply-template", {"messages": messages}).body["prompt"]
                    ids = server.post("/tokenize", {"content": text}).body["tokens"]
                    counted = server.chat(messages=messages, max_tokens=1).body["usage"]["prompt_tokens"]
                    self.assertEqual(len(ids), counted, (model, messages, text))
                    self.assertTrue(all(message["content"].strip() in text for message in messages))
        with Server(model=cli.converted(checkpoints.sentencepiece("normalized", is_normalized=True))) as server:
            refused = server.post("/apply-template", {"messages": HELLO})
            self.assertEqual((refused.status, refused.error["type"]), (501, "not_supported_error"))
            self.assertIn("after a space", refused.error["message"])

    def test_a_prompt_that_is_too_long(self):
        for n in (600, 5000, 100_000):
            for stream in (False, True):
                error = self.refuses("/v1/chat/completions", {"messages": [{"role": "user", "content": "word " * n}], "stream": stream})
                self.assertEqual((error["type"], error["n_ctx"]), ("exceed_context_size_error", 512))
                self.assertGreaterEqual(error["n_prompt_tokens"], max(512, n))
                self.assertIn("exceeds the available context size", error["message"])
                self.assertTrue(error["message"].endswith("; shorten it, the model takes no more"), error["message"])
        many = [{"role": role, "content": "Book"} for role in ("user", "assistant")] * 500
        self.assertEqual(self.refuses("/v1/chat/completions", {"messages": many})["type"], "exceed_context_size_error")
        self.assertEqual(self.refuses("/completion", {"prompt": [1] * 512})["n_prompt_tokens"], 512)

    def test_an_answer_that_fills_the_context_is_cut(self):
        body = self.server.post("/completion", {"prompt": [1] * 500, "ignore_eos": True, "n_predict": -1}).body
        self.assertEqual((body["truncated"], body["stop_type"]), (True, "limit"))
        chat = self.server.chat(ignore_eos=True).body
        self.assertEqual(chat["choices"][0]["finish_reason"], "length")


if __name__ == "__main__":
    cli.main()
