"""cria serve --prefix-cache: what prompts have in common is read once, also after a restart, and no byte of an answer shows it."""
import itertools
import json
import os
import shutil
import signal
import string
import time
import unittest
from pathlib import Path

import checkpoints
import cria_cli as cli
from cria_server import Server

QUESTIONS = ["what is 7 + 8", "who are you and where do you live", "tell me a story about a fox"]


def long_context_model():
    """The demo model with room for 16,384 positions: what it says there makes no sense, and is always the same."""
    folder = cli.folder() / "long"
    if not folder.exists():
        shutil.copytree(cli.DEMO, folder)
        config = json.loads((folder / "config.json").read_text("utf-8"))
        config["max_position_embeddings"] = 16384
        (folder / "config.json").write_text(json.dumps(config), "utf-8")
    return cli.converted(folder, "--context", "16384")


def tools(n):
    """The system text of an agent with n tools, 500 characters each."""
    texts = []
    for i in range(n):
        properties = {f"field_{i}_{k}": {"type": "string", "description": f"the {k}. value that tool {i} is called with"} for k in range(4)}
        texts.append(json.dumps({"name": f"tool_{i}", "description": "It looks things up and says what it found.",
                                 "parameters": {"type": "object", "properties": properties}}))
    return "These are the tools:\n" + "\n".join(texts)


class Prefixes(unittest.TestCase):
    def setUp(self):
        self.folder = Path(cli.tempfile.mkdtemp(dir=cli.folder()))
        self.states = self.folder / "states"

    def server(self, *options, model=None):
        return Server("--prefix-cache", self.states, *options, model=model)

    def ask(self, server, question, system):
        """The answer's text, how many tokens were read for it, and how many the prompt has."""
        answer = server.post("/v1/chat/completions", {"messages": [{"role": "system", "content": system}, {"role": "user", "content": question}],
                                                      "max_tokens": 12, "temperature": 0.7, "seed": 3})
        self.assertEqual(answer.status, 200, answer.raw)
        usage = answer.body["usage"]
        n_cached = usage["prompt_tokens_details"]["cached_tokens"]
        return answer.body["choices"][0]["message"]["content"], usage["prompt_tokens"] - n_cached, usage["prompt_tokens"]

    def kept(self):
        return sorted(self.states.glob("prefix-*.state"))

    def wait_for_states(self, n):
        end = time.monotonic() + cli.PATIENCE_S
        while len(self.kept()) < n:
            self.assertLess(time.monotonic(), end, "no state is written")
            time.sleep(0.02)

    def test_forty_tools_are_read_once(self):
        model = long_context_model()
        system = tools(40)
        self.assertGreater(len(system), 20000)
        with Server(model=model) as server:
            plain = [self.ask(server, question, system)[0] for question in QUESTIONS]
        with self.server(model=model) as server:
            text, n_first, n_prompt = self.ask(server, QUESTIONS[0], system)
            self.assertEqual((text, n_first), (plain[0], n_prompt))
            self.assertEqual(self.kept(), [])
            text, n_second, _ = self.ask(server, QUESTIONS[1], system)
            self.assertEqual(text, plain[1])
            self.assertLess(n_second, 0.05 * n_first)
        self.assertEqual(len(self.kept()), 1)
        with self.server(model=model) as server:
            self.assertIn("prefixes on the disk: 1 of this model", server.told)
            for question, wanted in zip(QUESTIONS, plain):
                text, n_again, _ = self.ask(server, question, system)
                self.assertEqual(text, wanted)
                self.assertLess(n_again, 0.05 * n_first)
        # With another KV format it is another model's.
        with self.server("--kv", "k8v4", model=model) as server:
            self.assertIn("prefixes on the disk: 0 of this model", server.told)

    def test_states_of_layers_are_kept_and_found(self):
        model = cli.converted(checkpoints.lfm2("lfm2_served", 1024), "--scales", "positive")
        system = "You know many stories. " * 12
        for backend in cli.backends():
            shutil.rmtree(self.states, ignore_errors=True)
            options = ("--backend", backend)
            plain = []
            for question in QUESTIONS:
                with Server(*options, model=model) as server:
                    plain.append(self.ask(server, question, system)[0])
            with self.server(*options, model=model) as server:
                text, n_first, n_prompt = self.ask(server, QUESTIONS[0], system)
                self.assertEqual((text, n_first), (plain[0], n_prompt))
                self.assertEqual(self.ask(server, QUESTIONS[0], system)[:2], (plain[0], 1))  # the same again
                text, n_second, _ = self.ask(server, QUESTIONS[1], system)
                self.assertEqual(text, plain[1])
                self.assertLess(n_second, n_first // 2 if backend == "exact" else n_first)
            self.assertEqual(len(self.kept()), 1)
            with self.server(*options, model=model) as server:
                self.assertIn("prefixes on the disk: 1 of this model", server.told)
                for question, wanted in zip(QUESTIONS, plain):
                    text, n_again, _ = self.ask(server, question, system)
                    self.assertEqual(text, wanted)
                    self.assertLess(n_again, n_first)

    def test_states_are_kept_with_any_number_of_snapshots(self):
        model = cli.converted(checkpoints.lfm2("lfm2_places", 1024), "--weights", "int8")
        system = "You know many stories. " * 40
        # Nearer to the end of the system text than that is to the beginning.
        common = "Here is what you should know before you answer. " * 8
        for has_common, n in itertools.product((True, False), ("1", "2", "3")):
            with self.subTest(has_common=has_common, n=n):
                questions = [common * has_common + question for question in QUESTIONS]
                shutil.rmtree(self.states, ignore_errors=True)
                options = ("--snapshots", n, "--sessions", "1")
                with self.server(*options, model=model) as server:
                    n_lead = self.ask(server, "a", system)[2] - 20  # at most
                    texts = [self.ask(server, question, system)[0] for question in questions]
                    end = time.monotonic() + cli.PATIENCE_S
                    others = itertools.cycle(string.ascii_lowercase[1:])  # none begins as another
                    while len(self.kept()) < 1 + has_common:  # while one is written no other is kept
                        self.assertLess(time.monotonic(), end, "no state is written")
                        self.ask(server, common * has_common + next(others), system)
                kept = [int.from_bytes(path.read_bytes()[120:128], "little") for path in self.kept()]
                self.assertGreater(max(kept, default=0), n_lead + 64 * has_common)
                with self.server(*options, model=model) as server:
                    text, n_read, _ = self.ask(server, questions[1], system)
                    self.assertEqual(text, texts[1])
                    self.assertLess(n_read, 64)
        with self.server("--snapshots", "0", model=model) as server:
            self.assertIn("--snapshots 0: no more are kept", server.told)
            self.assertLess(self.ask(server, questions[1], system)[1], 64)

    def test_a_state_from_the_disk_leaves_the_seed_to_the_request(self):
        system = "You know many stories. " * 12

        def answers(server, seed):
            answer = server.post("/v1/chat/completions", {
                "messages": [{"role": "system", "content": system}, {"role": "user", "content": QUESTIONS[2]}],
                "max_tokens": 12, "temperature": 2, "seed": seed, "n": 2})
            self.assertEqual(answer.status, 200, answer.raw)
            return [choice["message"]["content"] for choice in answer.body["choices"]], answer.body["usage"]

        with self.server() as server:
            for question in QUESTIONS[:2]:
                self.ask(server, question, system)
        wanted = []
        for seed in (8, 9):
            with Server("--sessions", "2") as server:
                wanted.append(answers(server, seed)[0])
        self.assertEqual(len({*wanted[0], *wanted[1]}), 3)  # the second choice of one is the first of the other
        for seed, texts in zip((8, 9), wanted):
            with self.server("--sessions", "2") as server:
                found, usage = answers(server, seed)
                self.assertEqual(found, texts)
                self.assertGreater(usage["prompt_tokens_details"]["cached_tokens"], 60)

    def test_several_at_once_after_a_restart(self):
        system = "You know many stories. " * 12
        with Server() as server:
            plain = [self.ask(server, question, system)[0] for question in QUESTIONS]
        with self.server() as server:
            for question in QUESTIONS[:2]:
                self.ask(server, question, system)
        with self.server("--sessions", "3") as server:
            connections = []
            for question in QUESTIONS:
                connection = server.connection()
                connection.request("POST", "/v1/chat/completions", json.dumps(
                    {"messages": [{"role": "system", "content": system}, {"role": "user", "content": question}], "max_tokens": 12,
                     "temperature": 0.7, "seed": 3}))
                connections.append(connection)
            for connection, wanted in zip(connections, plain):
                body = json.loads(connection.getresponse().read())
                connection.close()
                self.assertEqual(body["choices"][0]["message"]["content"], wanted)
                self.assertGreater(body["usage"]["prompt_tokens_details"]["cached_tokens"], 60)

    def test_what_is_being_written_is_written_or_nothing(self):
        system = "You know many stories. " * 12
        with self.server() as server:
            for question in QUESTIONS[:2]:
                self.ask(server, question, system)
            server.stop(signal.SIGTERM)
        self.assertEqual([path.suffix for path in self.states.iterdir()], [".state"])

    def test_a_killed_server_s_states_are_found(self):
        system = "You know many stories. " * 12
        with self.server() as server:
            for question in QUESTIONS[:2]:
                self.ask(server, question, system)
            self.wait_for_states(1)
            server.stop(signal.SIGKILL)
        with self.server() as server:
            _, n_read, n_prompt = self.ask(server, QUESTIONS[2], system)
            self.assertLess(n_read, n_prompt // 2)

    def test_folders_that_cannot_be(self):
        file = self.folder / "file"
        file.write_text("a file")
        everybodys = self.folder / "everybodys"
        everybodys.mkdir()
        everybodys.chmod(0o777)
        for folder, code, words in ((file, cli.BAD_INPUT, "is a regular file"), (everybodys, cli.BAD_INPUT, "everybody may write"),
                                    (self.folder / "none" / "below", cli.IO, "cannot make this folder")):
            result = cli.cria("serve", cli.model(), "--port", "0", "--prefix-cache", folder)
            self.assertEqual(result.code, code, result.err)
            self.assertRegex(result.err, r"\Acria: error: [^\n]+\n\Z")
            self.assertIn(words, result.err)
        result = cli.cria("serve", cli.model(), "--prefix-cache-size", "5")
        self.assertEqual(result.code, cli.USAGE)
        for size in ("0", "-1", "x"):
            result = cli.cria("serve", cli.model(), "--prefix-cache", self.states, "--prefix-cache-size", size)
            self.assertEqual(result.code, cli.USAGE)

    def test_hostile_files_are_left_alone(self):
        self.states.mkdir()
        names = [self.states / f"prefix-{i:016x}.state" for i in range(6)]
        secret = self.folder / "secret"
        secret.write_bytes(b"criaprm3" + bytes(1000))
        names[0].symlink_to(secret)
        names[1].write_bytes(b"")
        os.mkfifo(names[2])
        names[3].mkdir()
        names[4].symlink_to("/dev/zero")
        names[5].write_bytes(b"a letter")
        (self.states / "notes.txt").write_text("mine")
        with self.server() as server:
            for question in QUESTIONS:
                self.ask(server, question, "You know many stories. " * 12)
            self.wait_for_states(7)
            server.stop()
            self.assertEqual(sum("not used" in line for line in server.log), 1, server.log)
        self.assertEqual(secret.read_bytes(), b"criaprm3" + bytes(1000))
        self.assertEqual((self.states / "notes.txt").read_text(), "mine")

    def test_how_far_the_reading_is_is_told(self):
        with Server(model=long_context_model()) as server:
            connection = server.connection()
            connection.request("POST", "/v1/chat/completions", json.dumps(
                {"messages": [{"role": "user", "content": tools(12)}], "max_tokens": 2, "stream": True}))
            comments, slots = [], []
            for line in connection.getresponse():
                line = line.decode().rstrip("\n")
                if line.startswith(": reading"):
                    comments.append(line)
                    slots = slots or [slot for slot in server.get("/slots").body if slot["is_processing"]]
            connection.close()
            self.assertRegex(comments[0], r"\A: reading \d+ of \d+\Z")
            n_read, n_prompt = (int(word) for word in comments[0].split()[2::2])
            self.assertEqual(len(slots), 1)
            self.assertGreaterEqual(slots[0]["n_read"], n_read)
            self.assertEqual(slots[0]["n_prompt"], n_prompt)


if __name__ == "__main__":
    cli.main()
