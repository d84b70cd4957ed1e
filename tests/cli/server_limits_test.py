"""Rows of docs/server.md's table of limits: what one request may ask for, and what others hear meanwhile."""
import json
import socket
import threading
import unittest

import checkpoints
import cria_cli as cli
from cria_server import Server


class Limits(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = cls.enterClassContext(Server("--sessions", 2, "--queue", 2))

    def complete(self, **fields):
        return self.server.post("/completion", {"prompt": "a", "n_predict": 1, **fields})

    def refuses(self, param, **fields):
        answer = self.complete(**fields)
        self.assertEqual((answer.status, answer.error["param"]), (400, param), answer.raw[:200])
        return answer.error["message"]

    def test_response_fields(self):
        self.assertIn("64", self.refuses("response_fields", response_fields=[f"f{i}" for i in range(65)]))
        self.refuses("response_fields", response_fields=["x" * 257])
        wanted = ["timings/prompt_n", "stop_type", "generation_settings/stop", "content", "stop_type", "none", "content/x", "timings/none",
                  "generation_settings/none", "", "/", "generation_settings/", "timings"]
        body = self.complete(response_fields=wanted, stop=["\x01" * 1024] * 64).body
        self.assertEqual(list(body), ["timings/prompt_n", "stop_type", "generation_settings/stop", "content", "timings"])
        self.assertEqual(body["generation_settings/stop"], ["\x01" * 1024] * 64)
        self.assertEqual(body["timings/prompt_n"], body["timings"]["prompt_n"])

    # What a choice is told with is the same whatever their number, and nothing is made for those that are not asked for.
    def test_response_fields_of_many_choices(self):
        whole = self.complete(prompt=["a", "b"], n=2, return_tokens=True)
        self.assertEqual([choice["index"] for choice in whole.body], [0, 1, 2, 3])
        parts = self.complete(prompt=["a", "b"], n=2, response_fields=["index", "prompt"]).body
        self.assertEqual(parts, [{"index": i, "prompt": whole.body[i]["prompt"]} for i in range(4)])

    def test_logit_bias(self):
        n_vocab = self.server.get("/v1/models").body["data"][0]["meta"]["n_vocab"]
        self.assertIn(str(n_vocab), self.refuses("logit_bias", logit_bias=[[1, 1]] * (n_vocab + 1)))
        self.refuses("logit_bias", logit_bias=[["x" * 1025, 1]])
        # All of them are in the space of one vocabulary, whatever their texts are.
        rows = [["~" * 1024, 1e-3]] * (n_vocab // 2)
        answer = self.complete(prompt=["a"] * 4, n=1, logit_bias=rows)
        self.assertEqual(answer.status, 200, answer.raw[:200])

    def test_stop_strings(self):
        self.refuses("stop", stop=["x"] * 65)
        self.refuses("stop", stop="x" * 1025)
        self.assertEqual(self.complete(stop=["x" * 1024] * 64).status, 200)

    def test_prompts_beyond_the_queue(self):
        self.refuses("prompt", prompt=["a"] * 5)

    def test_texts_of_a_list(self):
        texts = ["ab " * 4000] * 90
        self.assertEqual(self.server.post("/tokenize", {"content": texts[:80]}).status, 200)
        for path, name in (("/tokenize", "content"), ("/completion", "prompt")):
            answer = self.server.post(path, {name: texts})
            self.assertEqual((answer.status, answer.error["param"]), (400, name))
            self.assertIn("together", answer.error["message"])
        nested = self.server.post("/completion", {"prompt": [[texts, 1]]})
        self.assertEqual(nested.status, 400)

    # Others come first, however many long texts wait, in the order in which they are answered.
    def test_long_texts_let_short_ones_pass(self):
        told = []
        begun = threading.Semaphore(0)

        def ask(name, content):
            data = json.dumps({"content": content}).encode()
            connection = self.server.connection()
            connection.request("POST", "/tokenize", data)
            begun.release()
            self.assertEqual(connection.getresponse().status, 200)
            told.append(name)
            connection.close()

        threads = [threading.Thread(target=ask, args=("long", ["ab" * 8000] * 60)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for _ in threads:
            begun.acquire(timeout=cli.PATIENCE_S)
        ask("short", "a")
        self.complete(prompt="b")
        told.append("answer")
        for thread in threads:
            thread.join()
        self.assertEqual(told[-1], "long", told)
        self.assertLess(told.index("short"), 3, told)

    def test_a_full_queue_refuses_before_it_reads(self):
        slow = {"n_predict": 2000, "ignore_eos": True, "stream": True}
        connections = []
        for i in range(4):
            connection = self.server.connection()
            connection.request("POST", "/completion", json.dumps({"prompt": f"{i}", **slow}))
            connections.append(connection)
        while True:  # until all four are there
            answer = self.complete(json_schema={"type": "no type"})
            if answer.status == 429:
                break
            self.assertEqual(answer.status, 400)
        for connection in connections:
            connection.close()
        while (status := self.complete().status) == 429:  # until it is seen that they left
            pass
        self.assertEqual(status, 200)


# A few ids can be a long text, here of one token that has as many bytes as any.
class LongTexts(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        text = "x" * 4096
        folder, ids = checkpoints.odd_byte_level("long", [text])
        cls.id = ids[text]
        tokenizer = json.loads((folder / "tokenizer.json").read_text())
        cls.control = tokenizer["added_tokens"][-1]["content"] = "<|" + "y" * 96 + "|>"
        (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
        (folder / "tokenizer_config.json").write_text("{}")
        cls.server = cls.enterClassContext(Server("--sessions", 2, "--queue", 60, model=cli.converted(folder)))

    def test_what_is_told_of_tokens(self):
        for n, status in ((4000, 200), (4200, 413)):
            self.assertEqual(self.server.post("/detokenize", {"tokens": [self.id] * n}).status, status)
            self.assertEqual(self.server.post("/tokenize", {"content": [self.id] * n, "with_pieces": True}).status, status)
        several = {"prompt": [[self.id] * 500] * 10, "n_predict": 1}
        answer = self.server.post("/completion", several)
        self.assertEqual((answer.status, answer.error["param"]), (400, "prompt"))
        self.assertEqual(self.server.post("/completion", {**several, "response_fields": ["content"]}).status, 200)

    # An error about tokens that are fewer than the context would say nothing.
    def test_long_texts_of_few_tokens(self):
        self.assertEqual(self.server.post("/completion", {"prompt": self.control * 100, "n_predict": 1}).status, 200)
        for prompt in (self.control * 200, [self.control * 200, 1]):
            error = self.server.post("/completion", {"prompt": prompt, "n_predict": 1}).error
            self.assertEqual((error["code"], error["type"]), (400, "invalid_request_error"))
            self.assertIn("more than 16384 bytes", error["message"])
        self.assertEqual(self.server.post("/completion", {"prompt": self.control * 600}).error["type"], "exceed_context_size_error")

    def unread(self, body):
        client = socket.socket()
        self.addCleanup(client.close)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.settimeout(cli.PATIENCE_S)
        client.connect((self.server.host, self.server.port))
        body = json.dumps(body).encode()
        client.sendall(b"POST /completion HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        return client

    # 2 MB each, which are twice there while they are sent, of 64 MiB.
    def holds_few(self, statuses, clients):
        self.assertEqual(set(statuses), {b"200", b"503"})
        self.assertLess(statuses.count(b"200"), 25)
        for client in clients:
            client.close()
        self.server.wait_until_idle()
        self.assertEqual(self.server.post("/completion", {"prompt": "a", "n_predict": 1}).status, 200)

    def test_prompts_that_are_told_at_the_end_of_streams(self):
        clients, statuses = [], []
        for _ in range(50):
            clients.append(self.unread({"prompt": [self.id] * 500, "n_predict": 1, "stream": True}))
            statuses.append(clients[-1].recv(12)[9:])
        self.holds_few(statuses, clients)

    def test_prompts_that_come_at_once(self):
        clients = [self.unread({"prompt": [self.id] * 500, "n_predict": 1}) for _ in range(50)]
        self.holds_few([client.recv(12)[9:] for client in clients], clients)


if __name__ == "__main__":
    unittest.main()
