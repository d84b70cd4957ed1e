#!/usr/bin/env python3
"""Embeddings from the server: OpenAI's and Ollama's words, what is counted, what is refused."""
import base64
import json
import math
import re
import struct
import threading
import time
import unittest

import checkpoints
import cria_cli as cli
from cria_server import Server

TEXTS = ["Once upon a time there was a fox.", "The bear", "a"]
BOS, EOS = 2042, 2043


def length(row):
    return math.sqrt(sum(value * value for value in row))


class Embeddings(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.model = cli.converted(checkpoints.embedding("served"), "--weights", "f32")
        cls.server = cls.enterClassContext(Server("--sessions", 4, "--alias", "demo", "--backend", "exact", model=cls.model))
        done = cli.cria("embed", cls.model, "--backend", "exact", stdin="\n".join(TEXTS))
        cls.rows = [json.loads(line) for line in done.out.splitlines()]

    def ask(self, **members):
        return self.server.post("/v1/embeddings", {"model": "demo", **members})

    def ollama(self, path="/api/embed", **members):
        return self.server.post(path, {"model": "demo", **members})

    def tokens(self, text):
        return self.server.post("/tokenize", {"content": text, "add_special": True}).body["tokens"]

    def refuses(self, answer, status, said):
        self.assertEqual(answer.status, status, answer.raw)
        error = answer.error
        self.assertIn(said, error if isinstance(error, str) else error["message"])

    def test_a_text_or_a_list_is_what_the_program_says(self):
        one = self.ask(input=TEXTS[0])
        n = len(self.tokens(TEXTS[0]))
        self.assertEqual(one.body, {"object": "list", "model": "demo", "usage": {"prompt_tokens": n, "total_tokens": n},
                                    "data": [{"object": "embedding", "index": 0, "embedding": self.rows[0]}]})
        many = self.ask(input=TEXTS)
        self.assertEqual([row["index"] for row in many.body["data"]], [0, 1, 2])
        self.assertEqual([row["embedding"] for row in many.body["data"]], self.rows)
        self.assertEqual(many.body["usage"]["prompt_tokens"], sum(len(self.tokens(text)) for text in TEXTS))

    def test_order_and_bits_are_kept_for_more_texts_than_sessions(self):
        for n in (2, 5, 16, 33):
            found = self.ask(input=[TEXTS[i * i % 3] for i in range(n)]).body["data"]
            self.assertEqual([row["index"] for row in found], list(range(n)))
            self.assertEqual([row["embedding"] for row in found], [self.rows[i * i % 3] for i in range(n)])

    def test_token_ids_are_taken_as_they_are(self):
        ids = [self.tokens(text) for text in TEXTS]
        self.assertEqual(ids[2][0], BOS)
        self.assertEqual(ids[2][-1], EOS)
        self.assertEqual([row["embedding"] for row in self.ask(input=ids).body["data"]], self.rows)
        self.assertEqual(self.ask(input=ids[1]).body["data"][0]["embedding"], self.rows[1])
        self.assertNotEqual(self.ask(input=ids[1][:-1]).body["data"][0]["embedding"], self.rows[1])

    def test_base64_holds_the_same_floats(self):
        for dimensions in (1, 2, 3, 256):
            floats = self.ask(input=TEXTS, dimensions=dimensions).body["data"]
            told = self.ask(input=TEXTS, dimensions=dimensions, encoding_format="base64").body["data"]
            for row, text in zip(floats, told):
                values = struct.unpack(f"<{dimensions}f", base64.b64decode(text["embedding"], validate=True))
                self.assertEqual(struct.pack(f"<{dimensions}f", *row["embedding"]), struct.pack(f"<{dimensions}f", *values))

    def test_dimensions_keep_the_length(self):
        cut = self.ask(input=TEXTS[0], dimensions=7).body["data"][0]["embedding"]
        self.assertEqual(len(cut), 7)
        self.assertAlmostEqual(length(cut), 1, 5)
        for a, b in zip(cut, self.rows[0]):
            self.assertAlmostEqual(a, b / length(self.rows[0][:7]), 5)
        self.assertEqual(self.ollama(input=TEXTS[0], dimensions=7).body["embeddings"], [cut])

    def test_ollama_has_them_too(self):
        found = self.ollama(input=TEXTS)
        self.assertEqual(found.body["embeddings"], self.rows)
        self.assertEqual(found.body["model"], "demo")
        self.assertEqual(found.body["prompt_eval_count"], sum(len(self.tokens(text)) for text in TEXTS))
        self.assertGreater(found.body["total_duration"], 1000)
        self.assertEqual(self.ollama(input=TEXTS[1]).body["embeddings"], [self.rows[1]])
        self.assertEqual(self.ollama("/api/embeddings", prompt=TEXTS[1]).body, {"embedding": self.rows[1]})
        self.assertEqual(self.ollama(input=[]).body, {"model": "demo", "embeddings": []})
        self.assertEqual(self.ollama("/api/embeddings", prompt="").body, {"embedding": []})
        self.refuses(self.ollama(input=3), 400, "invalid input type")
        self.refuses(self.ollama(input=["a", 3]), 400, "invalid input type")
        self.refuses(self.server.post("/api/embed", {"model": "other", "input": "a"}), 404, "model 'other' not found; this server has 'demo'")

    def test_a_long_text_is_cut_before_its_end_or_refused(self):
        long = "a fox and a bear " * 400
        ids = self.tokens(long)
        self.assertGreater(len(ids), 512)
        self.refuses(self.ask(input=["a", long]), 400, "context")
        self.refuses(self.ollama(input=long, truncate=False), 400, "context")
        cut = self.ollama(input=long)
        self.assertEqual(cut.body["prompt_eval_count"], 512)
        wanted = self.ask(input=ids[:511] + [EOS]).body["data"][0]["embedding"]
        self.assertEqual(cut.body["embeddings"], [wanted])
        # So long that no workspace takes it at once.
        self.assertEqual(self.ollama(input=long * 40).body["embeddings"], [wanted])
        self.assertEqual(self.ask(input=ids[:512]).body["usage"]["prompt_tokens"], 512)

    def test_what_is_wrong_is_named(self):
        for members, said in (({}, "input is missing"), ({"input": []}, "input is an empty list"), ({"input": ""}, "input has an empty text"),
                              ({"input": ["a", ""]}, "input has an empty text"), ({"input": [[]]}, "input has an empty list"),
                              ({"input": {"a": 1}}, "input must be a text"), ({"input": [2048]}, "input"), ({"input": [1, "a"]}, "input"),
                              ({"input": "a", "dimensions": 0}, "dimensions"), ({"input": "a", "dimensions": 257}, "dimensions"),
                              ({"input": "a", "encoding_format": "int8"}, "encoding_format"), ({"input": ["a"] * 2049}, "2049 texts")):
            answer = self.ask(**members)
            self.refuses(answer, 400, said)
            self.assertIn(answer.error["param"], ("input", "dimensions", "encoding_format"))

    def test_the_model_says_what_it_is_and_holds_no_chats(self):
        self.assertEqual(self.server.post("/api/show", {"model": "demo"}).body["capabilities"], ["embedding"])
        messages = [{"role": "user", "content": "hello"}]
        self.refuses(self.server.post("/v1/chat/completions", {"messages": messages}), 501, "makes embeddings")
        self.refuses(self.ollama("/api/chat", messages=messages), 501, "makes embeddings")


class Company(unittest.TestCase):
    """A model of chats, with another pooling beside it."""

    def test_chats_and_embeddings_do_not_change_each_other(self):
        mean = {"pooling_mode_mean_tokens": True}
        for model in (cli.model(), cli.converted(checkpoints.embedding("served_mean", pooling=mean), "--weights", "f32")):
            with Server("--sessions", 2, "--backend", "exact", model=model) as server:
                embed = lambda: [row["embedding"] for row in server.post("/v1/embeddings", {"input": TEXTS * 4}).body["data"]]
                write = lambda: server.post("/completion", {"prompt": TEXTS[0], "n_predict": 24, "temperature": 0}).body["content"]
                rows, text = embed(), write()
                self.assertEqual(rows[:3] * 4, rows)
                found = []
                threads = [threading.Thread(target=lambda ask=ask: found.append(ask())) for ask in (embed, write) * 4]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
                self.assertEqual(sum(answer == rows for answer in found), 4)
                self.assertEqual(sum(answer == text for answer in found), 4)

    def test_a_client_that_leaves_ends_its_request(self):
        texts = [f"{i} " + "a fox and a bear " * 20 for i in range(2000)]
        n_all = 100 * len(texts)  # at the least: a token a word
        for path in ("/v1/embeddings", "/api/embed"):
            with Server("--sessions", 1, "--backend", "exact", "--metrics", "--alias", "demo") as server:
                connection = server.connection()
                connection.request("POST", path, json.dumps({"model": "demo", "input": texts}).encode())
                deadline = time.monotonic() + cli.PATIENCE_S
                while self.n_read(server) == 0:
                    self.assertLess(time.monotonic(), deadline)
                connection.close()
                self.assertEqual(server.post(path, {"model": "demo", "input": "a"}).status, 200)
                self.assertLess(self.n_read(server), n_all)

    @staticmethod
    def n_read(server):
        return int(re.search(r"prompt_tokens_total (\d+)", server.get("/metrics").raw.decode())[1])


if __name__ == "__main__":
    cli.main()
