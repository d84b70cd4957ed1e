"""The server in Ollama's words: its endpoints, its streams of lines, its errors."""
import datetime
import json
import unittest

import cria_cli as cli
from cria_server import Server

HELLO = [{"role": "user", "content": "hello"}]
OPTIONS = {"seed": 1, "num_predict": 8, "num_ctx": 4096}
CHAT, GENERATE = "/api/chat", "/api/generate"
ASKED = {CHAT: {"messages": HELLO}, GENERATE: {"prompt": "Once upon a time"}}
COUNTS = {"total_duration", "prompt_eval_count", "prompt_eval_duration", "eval_count", "eval_duration"}


def text_of(answer):
    return answer["message"]["content"] if "message" in answer else answer["response"]


class Ollama(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = cls.enterClassContext(Server("--sessions", 2, "--alias", "demo", "--backend", "exact"))

    def ask(self, path, **members):
        return self.server.post(path, {"model": "demo", "options": OPTIONS, **ASKED[path], **members})

    def lines(self, path, **members):
        answer = self.ask(path, **members)
        self.assertEqual((answer.status, answer.headers["Content-Type"]), (200, "application/x-ndjson"))
        self.assertTrue(answer.raw.endswith(b"\n"))
        return [json.loads(line) for line in answer.raw[:-1].split(b"\n")]

    def refuses(self, answer, status, error):
        self.assertEqual((answer.status, answer.body), (status, {"error": error}))

    def test_clients_and_browsers_begin_at_the_same_address(self):
        for accept in ("*/*", "application/json"):
            running = self.server.get("/", headers={"Accept": accept})
            self.assertEqual((running.status, running.raw, running.headers["Vary"]), (200, b"Ollama is running", "Accept"))
        self.assertEqual(self.server.request("HEAD", "/").raw, b"")
        page = self.server.get("/", headers={"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"})
        self.assertTrue(page.raw.startswith(b"<!doctype html>"))
        self.assertTrue(self.server.get("/index.html").raw.startswith(b"<!doctype html>"))
        self.assertRegex(self.server.get("/api/version").body["version"], r"\A0\.\d+\.\d+\Z")

    def test_the_model_is_listed_shown_and_loaded(self):
        models = self.server.get("/api/tags").body["models"]
        self.assertEqual([model["model"] for model in models], ["demo:latest"])
        model = models[0]
        self.assertEqual(model["name"], "demo:latest")
        self.assertRegex(model["digest"], r"\A[0-9a-f]{64}\Z")
        self.assertLess(datetime.datetime.fromisoformat(model["modified_at"][:26]), datetime.datetime.utcnow())
        self.assertEqual(model["details"]["families"], [model["details"]["family"]])
        shown = self.server.post("/api/show", {"model": "demo"}).body
        self.assertEqual((shown["details"], shown["capabilities"]), (model["details"], ["completion"]))
        family = shown["model_info"]["general.architecture"]
        self.assertGreater(shown["model_info"][family + ".context_length"], 0)
        self.assertIn("eot_id", shown["template"])
        self.assertIn("temperature 0.8\n", shown["parameters"])
        self.assertEqual(self.server.post("/api/show", {"name": "demo:latest", "verbose": True}).body, shown)
        self.refuses(self.server.post("/api/show", {"model": "other"}), 404, "model 'other' not found; this server has 'demo'")
        loaded = self.server.get("/api/ps").body["models"][0]
        self.assertEqual((loaded["model"], loaded["digest"], loaded["size_vram"]), ("demo:latest", model["digest"], 0))
        self.assertEqual(loaded["context_length"], self.server.get("/props").body["default_generation_settings"]["n_ctx"])

    def test_a_stream_is_a_line_an_object(self):
        for path in (CHAT, GENERATE):
            *pieces, last = self.lines(path)
            self.assertTrue(pieces)
            whole = self.ask(path, stream=False)
            self.assertEqual(whole.headers["Content-Type"], "application/json; charset=utf-8")
            self.assertEqual("".join(map(text_of, pieces)), text_of(whole.body))
            for piece in pieces:
                self.assertEqual(set(piece), {"model", "created_at", "message" if path == CHAT else "response", "done"})
                self.assertIs(piece["done"], False)
            for end in (last, whole.body):
                self.assertEqual((end["model"], end["done"], end["done_reason"], end["eval_count"]), ("demo", True, "length", 8))
                self.assertEqual(COUNTS - set(end), set())
                self.assertGreater(end["total_duration"], 1000)
                self.assertRegex(end["created_at"], r"\A\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z\Z")
            self.assertEqual(text_of(last), "")
            if path == CHAT:
                self.assertEqual({piece["message"]["role"] for piece in [*pieces, last, whole.body]}, {"assistant"})

    def test_an_answer_is_that_of_the_other_styles(self):
        chat = self.server.chat(seed=1, max_tokens=8).body["choices"][0]["message"]["content"]
        self.assertEqual(text_of(self.ask(CHAT, stream=False).body), chat)
        text = self.server.post("/completion", {"prompt": "Once upon a time", "seed": 1, "n_predict": 8}).body["content"]
        self.assertEqual(text_of(self.ask(GENERATE, stream=False, raw=True).body), text)

    def test_a_format_holds_the_answer(self):
        schema = {"type": "object", "properties": {"age": {"type": "integer", "minimum": 0, "maximum": 9}}, "required": ["age"],
                  "additionalProperties": False}
        for path in (CHAT, GENERATE):
            *pieces, last = self.lines(path, format=schema, options={"seed": 3, "temperature": 2})
            self.assertIn(json.loads("".join(map(text_of, pieces)))["age"], range(10))
            self.assertEqual(last["done_reason"], "stop")

    def test_stop_strings_end_an_answer(self):
        whole = text_of(self.ask(CHAT, stream=False, options={**OPTIONS, "temperature": 0, "num_predict": 20}).body)
        stop = whole[4:6]
        cut = self.ask(CHAT, stream=False, options={**OPTIONS, "temperature": 0, "num_predict": 20, "stop": [stop]}).body
        self.assertEqual((text_of(cut), cut["done_reason"]), (whole[:whole.index(stop)], "stop"))

    def test_without_a_text_nothing_is_made(self):
        for path, empty in ((CHAT, {"messages": []}), (GENERATE, {"prompt": ""})):
            for keep_alive, reason in (("5m", "load"), (0, "unload")):
                answer = self.ask(path, **empty, keep_alive=keep_alive)
                self.assertEqual(answer.status, 200)
                self.assertEqual((answer.body["done"], answer.body["done_reason"], text_of(answer.body)), (True, reason, ""))
        self.assertEqual(self.ask(CHAT, stream=False).status, 200)  # it stays

    def test_errors_are_texts(self):
        self.refuses(self.ask(CHAT, model="other"), 404, "model 'other' not found; this server has 'demo'")
        self.refuses(self.ask(CHAT, think=True), 400, "\"demo\" does not support thinking")
        self.refuses(self.ask(CHAT, options={"temperature": "hot"}), 400, "temperature must be a number from 0 to 100")
        self.refuses(self.ask(GENERATE, suffix="end"), 400, "suffix is not supported")
        self.refuses(self.server.post(CHAT, b"{"), 400, "the body is not JSON; the error ends at byte 2")
        self.refuses(self.server.get("/api/nothing"), 404, "there is nothing at this path")
        wrong = self.server.get(CHAT)
        self.refuses(wrong, 405, "this path takes another method; use POST, OPTIONS")
        self.assertEqual(wrong.headers["Allow"], "POST, OPTIONS")
        self.refuses(self.server.request("POST", CHAT, b"x" * (5 << 20)), 413, "the body is longer than 4194304 bytes")
        self.refuses(self.server.get("/api/tags", headers={"Host": "evil.example"}), 403,
                     "this server does not answer to the name in Host; --allow-origin adds one")

    def test_a_chat_that_does_not_fit_is_refused(self):
        with Server("--context", 12, "--alias", "demo") as small:
            answer = small.post(CHAT, {"model": "demo", "messages": HELLO * 8})
            self.assertEqual(answer.status, 400)
            self.assertIn("exceeds the available context size of 12 tokens", answer.body["error"])

    def test_models_are_neither_fetched_nor_changed(self):
        pulled = self.server.post("/api/pull", {"model": "demo:latest"})
        self.assertEqual((pulled.status, pulled.body), (200, {"status": "success"}))
        error = "this server has one model, 'demo:latest', and cannot load or change others"
        self.refuses(self.server.post("/api/pull", {"model": "other"}), 501, error)
        for method, path in (("POST", "/api/push"), ("POST", "/api/create"), ("POST", "/api/copy"), ("DELETE", "/api/delete")):
            self.refuses(self.server.request(method, path, {"model": "demo"}), 501, error)

    def test_a_client_that_leaves_frees_its_session(self):
        connection = self.server.connection()
        connection.request("POST", CHAT, json.dumps({"model": "demo", "messages": HELLO, "options": {"temperature": 0}, "format": "json"}))
        response = connection.getresponse()
        self.assertTrue(response.readline())
        connection.close()
        response.close()
        self.server.wait_until_idle()

    def test_keys_are_needed_where_answers_are_made(self):
        keys = cli.folder() / "ollama_keys"
        keys.write_text("secret\n")
        with Server("--api-key-file", keys, "--alias", "demo") as server:
            for path in ("/", "/api/version", "/api/tags"):
                self.assertEqual(server.get(path).status, 200, path)
            message = "the API key is missing or wrong; send it as Authorization: Bearer KEY"
            for method, path in (("GET", "/api/ps"), ("POST", "/api/show"), ("POST", CHAT), ("DELETE", "/api/delete")):
                self.refuses(server.request(method, path, {"model": "demo"}), 401, message)
            shown = server.post("/api/show", {"model": "demo"}, headers={"Authorization": "Bearer secret"})
            self.assertEqual(shown.status, 200)

    def test_a_model_without_tokenizer_completes_nothing(self):
        with Server("--alias", "ids", model=cli.model("--no-tokenizer")) as server:
            self.assertEqual(server.post("/api/show", {"model": "ids"}).body["capabilities"], [])
            self.assertEqual(server.post(CHAT, {"model": "ids", "messages": HELLO}).status, 501)
            self.assertEqual(server.post(GENERATE, {"model": "ids", "prompt": "a"}).status, 501)


if __name__ == "__main__":
    cli.main()
