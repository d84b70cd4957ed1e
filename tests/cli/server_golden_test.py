"""The server's answers are those of tests/data/golden/server_answers.json, byte for byte, on every processor.

server_golden_test.py --write    makes that file anew
"""
import json
import sys
import unittest

import cria_cli as cli
from cria_server import Server

GOLDEN = cli.SOURCE / "tests/data/golden/server_answers.json"
CHAT, TEXT, NATIVE = "/v1/chat/completions", "/v1/completions", "/completion"
ANIMAL = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 8}, "age": {"type": "integer", "minimum": 0,
          "maximum": 30}}, "required": ["name", "age"], "additionalProperties": False}
# name: path and request
REQUESTS = {
    "greedy chat": (CHAT, {"messages": [{"role": "user", "content": "What is a cria?"}], "temperature": 0}),
    "drawn chat": (CHAT, {"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Tell me a story."}],
                          "seed": 13, "temperature": 1.1, "max_tokens": 32}),
    "probabilities": (CHAT, {"messages": [{"role": "user", "content": "hello"}], "seed": 3, "max_tokens": 4, "logprobs": True,
                             "top_logprobs": 3}),
    "document": (CHAT, {"messages": [{"role": "user", "content": "Who are you?"}], "seed": 5, "temperature": 1.5, "max_tokens": 64,
                        "response_format": {"type": "json_schema", "json_schema": {"name": "animal", "schema": ANIMAL}}}),
    "drawn text": (TEXT, {"prompt": "Once upon a time", "seed": 7, "max_tokens": 24, "top_k": 5, "frequency_penalty": 0.5}),
    "native": (NATIVE, {"prompt": "The llama", "seed": 9, "n_predict": 16, "min_p": 0.1}),
}
# What differs from one answer to the next, or is told of the server.
NOT_THE_ANSWER = ("id", "created", "timings", "model", "generation_settings", "system_fingerprint")


def piece(event):
    """What an event of a stream adds to the text, and its end."""
    choice = event["choices"][0] if event.get("choices") else {}
    text = choice["delta"].get("content") if "delta" in choice else choice.get("text", event.get("content"))
    return [text, choice.get("finish_reason", event.get("stop_type"))]


def answers(server):
    """Each asked whole, and then as a stream."""
    found = {}
    for name, (path, request) in REQUESTS.items():
        whole = server.post(path, request)
        assert whole.status == 200, whole.raw
        answer = json.loads(whole.raw, parse_float=str)  # as it is written
        events = [event for event in server.stream(path, request) if event != "[DONE]"]
        found[name] = {"whole": {key: value for key, value in answer.items() if key not in NOT_THE_ANSWER},
                       "stream": [piece(event) for event in events]}
    return found


def model_server():
    return Server("--backend", "exact", "--context", 256, "--sessions", 1)


class Golden(unittest.TestCase):
    def test_every_processor_gives_the_same_bytes(self):
        wanted = json.loads(GOLDEN.read_text())
        self.assertEqual(sorted(wanted), sorted(REQUESTS))
        with model_server() as server:
            found = answers(server)
        for name in REQUESTS:
            with self.subTest(name):
                self.assertEqual(found[name], wanted[name])


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        with model_server() as running:
            GOLDEN.write_text(json.dumps(answers(running)).replace("}, \"", "},\n\"") + "\n")
    else:
        cli.main()
