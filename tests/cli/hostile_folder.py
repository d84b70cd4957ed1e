"""A small checkpoint that a test of cria-convert spoils, and what a refusal has to look like."""

import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(os.environ.get("CRIA_SOURCE_DIR", Path(__file__).resolve().parents[2]))
BIN = Path(os.environ.get("CRIA_BIN_DIR", ROOT / "build/release/bin"))
CONVERT = BIN / "cria-convert"
sys.path.insert(0, str(ROOT / "tests/tools"))
import hostile_checkpoints as hostile  # noqa: E402
import make_random_checkpoint  # noqa: E402

import cria_cli as cli  # noqa: E402

DONE, USAGE, INVALID, IO = 0, 2, 3, 4
SMALL = ["--d-model", "64", "--layers", "1", "--heads", "4", "--kv-heads", "2", "--ffn", "100", "--vocab", "70"]
SIDE_FILES = ["config.json", "generation_config.json", "tokenizer.json", "tokenizer.model", "tokenizer_config.json",
              "special_tokens_map.json", "added_tokens.json", "chat_template.jinja", "chat_template.json"]
GIANT = 6 << 30
TOKENS = [hostile.piece("<unk>", 0.0, 2), hostile.piece("<s>", 0.0, 3), hostile.piece("</s>", 0.0, 3),
          hostile.piece("a", 0.0)]


class Base(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.models = tempfile.TemporaryDirectory()
        cls.source = Path(cls.models.name) / "small"
        make_random_checkpoint.main([str(cls.source), *SMALL])
        (cls.source / "tokenizer.model").write_bytes(hostile.pieces(TOKENS, 1 << 20))

    @classmethod
    def tearDownClass(cls):
        cls.models.cleanup()

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.model = self.folder / "model"
        shutil.copytree(self.source, self.model)
        self.output = self.folder / "m.cria"

    def convert(self, *arguments, output=None):
        command = [CONVERT, self.model, "-o", output or self.output, "--threads", "2", *arguments]
        return subprocess.run(list(map(str, command)), capture_output=True, timeout=cli.PATIENCE_S, check=False)

    def assert_refused(self, code, *words, arguments=(), output=None):
        done = self.convert(*arguments, output=output)
        lines = done.stderr.decode("utf-8")
        self.assertEqual(done.returncode, code, lines)
        self.assertEqual(done.stdout, b"")
        self.assertRegex(lines, r"\A(cria-convert: warning: [^\n]+\n)*cria-convert: error: [^\n]+\n\Z")
        self.assert_plain(done.stderr)
        for word in words:
            self.assertIn(word, lines)
        self.assertEqual(os.listdir(self.folder), ["model"])
        return lines

    def assert_plain(self, data):
        text = data.decode("utf-8")
        self.assertNotRegex(text, "[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f]")
        self.assertLess(max(map(len, text.splitlines()), default=0), 1000)

    def set_config(self, **settings):
        path = self.model / "config.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **settings}))

    def shard(self, names=("a.safetensors", "b.safetensors")):
        """Turns the weights into two shards; returns their index."""
        data = (self.model / "model.safetensors").read_bytes()
        length = struct.unpack_from("<Q", data)[0]
        header = json.loads(data[8:8 + length])
        header.pop("__metadata__", None)
        weight_map = {name: names[i % 2] for i, name in enumerate(header)}
        for shard in names:
            out, body = {}, b""
            for name, entry in header.items():
                if weight_map[name] == shard:
                    begin, end = (8 + length + at for at in entry["data_offsets"])
                    out[name] = {**entry, "data_offsets": [len(body), len(body) + end - begin]}
                    body += data[begin:end]
            (self.model / shard).write_bytes(hostile.safetensors(json.dumps(out)) + body)
        (self.model / "model.safetensors").unlink()
        self.write_index(weight_map)
        return weight_map

    def write_index(self, weight_map):
        (self.model / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
