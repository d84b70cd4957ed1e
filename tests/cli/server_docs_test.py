"""Every block of docs/server.md that calls the server does what it says."""
import json
import re
import shutil
import subprocess
import unittest

import cria_cli as cli
from cria_server import Server

BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.M | re.S)


class Docs(unittest.TestCase):
    def test_each_block_runs(self):
        if not shutil.which("curl"):
            self.skipTest("no curl")
        blocks = BLOCK.findall((cli.SOURCE / "docs" / "server.md").read_text("utf-8"))
        told = ""
        with Server("--metrics", "--alias", "demo", model=cli.model("--chat-template", str(cli.DEMO / "tools" / "chat_template.jinja"))) as server:
            for block in blocks:
                commands = re.split(r"^(?=curl )", block, flags=re.M)
                for command in filter(None, commands):
                    here = command.replace("localhost:8080", f"127.0.0.1:{server.port}").replace("curl ", "curl --fail -i ", 1)
                    done = subprocess.run(["bash", "-c", here], capture_output=True, text=True, timeout=cli.PATIENCE_S)
                    self.assertEqual(done.returncode, 0, (command, done.stdout, done.stderr))
                    head, _, body = done.stdout.partition("\n\n")
                    self.assertIn(" 200 OK", head)
                    if "application/json" in head:
                        json.loads(body)
                    if "x-ndjson" in head:
                        self.assertIs(json.loads(body.splitlines()[-1])["done"], True)
                    if "event-stream" in head:
                        self.assertTrue(body.rstrip().endswith("data: [DONE]"))
                    told += command
        for path in ("/v1/chat/completions", "/v1/completions", "/completion", "/v1/models", "/health", "/props", "/slots", "/tokenize",
                     "/detokenize", "/apply-template", "/metrics", "/api/chat", "/api/generate", "/api/tags", "/api/show", "/api/ps",
                     "/api/version"):
            self.assertRegex(told, re.escape(path) + r"[ \n]", path)

    def test_its_figures_are_the_program_s(self):
        text = (cli.SOURCE / "docs" / "server.md").read_text("utf-8")
        limits = (cli.SOURCE / "platforms" / "hosted" / "serve" / "http_server.h").read_text("utf-8")

        def limit(name):
            return re.search(rf"\b{name} = ([^;]+);", limits)[1]

        self.assertIn(f"| connections | {limit('n_connections')};", text)
        self.assertIn(f"| a connection that asks nothing | {limit('idle_seconds')} s |", text)
        self.assertIn(f"header of a request | 16 KiB, {limit('header_seconds')} s", text)
        self.assertIn(f"body | 4 MiB, {limit('body_seconds')} s", text)
        self.assertIn(f"each {limit('comment_seconds')} s without", text)
        self.assertIn(f"| an answer that is not taken | {limit('drain_seconds')} s for 64 KiB", text)
        self.assertIn("| 48 KiB are kept;", text)
        self.assertEqual((limit("header_bytes"), limit("body_bytes"), limit("text_bytes"), limit("ahead_bytes")),
                         ("size_t{16} << 10", "size_t{4} << 20", "size_t{64} << 10", "size_t{48} << 10"))


if __name__ == "__main__":
    cli.main()
