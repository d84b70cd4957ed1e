#!/usr/bin/env python3
"""cria-convert with files made to do harm: pipes, links, giants, lies and control bytes. One line, the right code, no output."""

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

DONE, USAGE, INVALID, IO = 0, 2, 3, 4
SMALL = ["--d-model", "64", "--layers", "1", "--heads", "4", "--kv-heads", "2", "--ffn", "100", "--vocab", "70"]
SECONDS = 300 if "CRIA_EMULATOR" in os.environ else 60  # whatever waits for a pipe waits for ever
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
        return subprocess.run(list(map(str, command)), capture_output=True, timeout=SECONDS, check=False)

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


class NotAFile(Base):
    def replaced(self, name):
        """Each kind of thing that is no file, in the place of a file of the checkpoint."""
        path = self.model / name
        kept = path.read_bytes() if path.exists() else None
        for make in (os.mkfifo, os.mkdir, lambda p: os.symlink("/dev/zero", p), lambda p: os.symlink("/dev/tty", p),
                     lambda p: os.symlink(p.name, p), lambda p: os.symlink("nothing", p)):
            if path.exists() or path.is_symlink():
                path.unlink()
            make(path)
            yield path
            if path.is_dir() and not path.is_symlink():
                path.rmdir()
            else:
                path.unlink()
            if kept is not None:
                path.write_bytes(kept)

    def test_side_files_are_refused_by_name_and_not_waited_for(self):
        for name in SIDE_FILES:
            for path in self.replaced(name):
                with self.subTest(name=name, mode=oct(path.lstat().st_mode)):
                    self.assert_refused(INVALID, name)

    def test_weights_are_refused_by_name_and_not_waited_for(self):
        for path in self.replaced("model.safetensors"):
            with self.subTest(mode=oct(path.lstat().st_mode)):
                self.assert_refused(INVALID, "model.safetensors")

    def test_shards_and_their_index_are_refused_by_name_and_not_waited_for(self):
        self.shard()
        for name in ("b.safetensors", "model.safetensors.index.json"):
            for path in self.replaced(name):
                with self.subTest(name=name, mode=oct(path.lstat().st_mode)):
                    self.assert_refused(INVALID, name)

    def test_a_model_that_is_a_pipe_a_file_or_nothing_is_refused(self):
        shutil.rmtree(self.model)
        os.mkfifo(self.model)
        self.assert_refused(INVALID, "folder")
        os.unlink(self.model)
        self.model.write_bytes(b"GGUF")
        self.assert_refused(INVALID, "folder")
        os.unlink(self.model)
        os.symlink("nothing", self.model)
        self.assert_refused(INVALID, "no such folder")

    def test_an_empty_file_is_refused_by_name(self):
        for name in ["model.safetensors", *SIDE_FILES]:
            if name == "chat_template.jinja":  # one that is left out, with a warning
                continue
            path = self.model / name
            kept = path.read_bytes() if path.exists() else None
            with self.subTest(name=name):
                path.write_bytes(b"")
                self.assert_refused(INVALID, name)
            path.unlink()
            if kept is not None:
                path.write_bytes(kept)


class Giants(Base):
    def test_a_giant_is_refused_by_its_size(self):
        for name in SIDE_FILES:
            path = self.model / name
            kept = path.read_bytes() if path.exists() else None
            with self.subTest(name=name):
                path.touch()
                os.truncate(path, GIANT)
                self.assert_refused(INVALID, name, f"{GIANT} bytes are too many")
            path.unlink()
            if kept is not None:
                path.write_bytes(kept)

    def test_a_giant_index_is_refused_by_its_size(self):
        self.shard()
        os.truncate(self.model / "model.safetensors.index.json", GIANT)
        self.assert_refused(INVALID, "model.safetensors.index.json", "too many")

    def test_a_giant_of_zeros_is_no_safetensors_file(self):
        os.truncate(self.model / "model.safetensors", 0)
        os.truncate(self.model / "model.safetensors", GIANT)
        self.assert_refused(INVALID, "model.safetensors", "not valid JSON")

    def test_a_token_id_does_not_make_a_table(self):
        (self.model / "added_tokens.json").write_text(json.dumps({"x": 4294967295}))
        self.assert_refused(INVALID, "4294967295")


class Shards(Base):
    def test_links_to_files_are_read(self):
        self.shard()
        (self.folder / "blobs").mkdir()
        os.rename(self.model / "b.safetensors", self.folder / "blobs/1")
        os.symlink("../blobs/1", self.model / "b.safetensors")
        done = self.convert("--quiet")
        self.assertEqual((done.returncode, done.stderr), (DONE, b""))

    def test_names_that_lead_elsewhere_are_refused(self):
        weight_map = self.shard()
        name = next(iter(weight_map))
        for shard in ("../../etc/passwd", "/etc/passwd", "..", ".", "", "a\0b", "x/../a.safetensors", "n" * 300, 5, None, []):
            with self.subTest(shard=shard):
                self.write_index({**weight_map, name: shard})
                self.assert_refused(INVALID, "index.json", name, "no plain file name")

    def test_a_missing_or_shortened_shard_is_named(self):
        weight_map = self.shard()
        size = (self.model / "b.safetensors").stat().st_size
        os.truncate(self.model / "b.safetensors", size - 1)
        self.assert_refused(INVALID, "b.safetensors", "truncated")
        os.unlink(self.model / "b.safetensors")
        self.assert_refused(INVALID, "b.safetensors", "missing")
        self.write_index({name: "c.safetensors" for name in weight_map})
        self.assert_refused(INVALID, "c.safetensors", "missing")

    def test_one_file_under_two_names_is_read(self):
        weight_map = self.shard()
        os.symlink("a.safetensors", self.model / "c.safetensors")
        first = next(name for name, shard in weight_map.items() if shard == "a.safetensors")
        self.write_index({**weight_map, first: "c.safetensors"})
        self.assertEqual(self.convert("--quiet").returncode, DONE)

    def test_more_shards_than_files_can_be_open_are_refused(self):
        self.shard()
        self.write_index({f"t{i}": f"{i}.safetensors" for i in range(100000)})
        self.assert_refused(INVALID, "index.json", "100000 shards", "512")


class Outputs(Base):
    def test_an_output_that_is_a_part_of_the_checkpoint_is_refused(self):
        self.shard()
        (self.model / "added_tokens.json").write_text("{}")
        before = {path.name: path.read_bytes() for path in self.model.iterdir()}
        for name in [*SIDE_FILES, "model.safetensors", "model.safetensors.index.json", "a.safetensors"]:
            with self.subTest(name=name):
                self.assert_refused(USAGE, name, "part of the checkpoint", output=self.model / name)
                self.assert_refused(USAGE, name, "part of the checkpoint", output=self.model / ".." / "model" / name)
                self.assert_refused(USAGE, name, "part of the checkpoint", arguments=["--report", self.model / name])
        self.assertEqual({path.name: path.read_bytes() for path in self.model.iterdir()}, before)

    def test_an_output_that_is_linked_with_the_checkpoint_is_refused(self):
        (self.model / "added_tokens.json").write_text("{}")
        for name in ("added_tokens.json", "model.safetensors"):
            before = (self.model / name).read_bytes()
            for link in (os.symlink, os.link):
                with self.subTest(name=name, link=link.__name__):
                    path = self.model / f"link-{name}-{link.__name__}"
                    link(self.model / name, path)
                    self.assert_refused(USAGE, "link", "part of the checkpoint", output=path)
                    self.assertEqual((self.model / name).read_bytes(), before)
                    path.unlink()

    def test_one_file_under_two_names_is_not_both_outputs(self):
        self.output.write_bytes(b"old")
        other = self.folder / "r.json"
        for link in (os.symlink, os.link):
            with self.subTest(link=link.__name__):
                link(self.output, other)
                done = self.convert("--report", other)
                self.assertEqual(done.returncode, USAGE, done.stderr)
                self.assertIn(b"both", done.stderr)
                self.assertEqual(self.output.read_bytes(), b"old")
                other.unlink()

    def test_links_to_one_name_that_nothing_has_are_not_both_outputs(self):
        first, second, deep = self.folder / "first", self.folder / "second", self.folder / "deep"
        (self.folder / "inner").mkdir()
        os.symlink("m.cria", first)
        os.symlink("inner/../first", second)
        os.symlink("..", self.folder / "inner/up")
        os.symlink("inner/up/second", deep)
        paths = self.output, first, second, deep
        for output in paths:
            for report in paths:
                with self.subTest(output=output.name, report=report.name):
                    done = self.convert("--report", report, output=output)
                    self.assertEqual(done.returncode, USAGE, done.stderr)
                    self.assertIn(b"both", done.stderr)
                    self.assertFalse(self.output.exists())

    def test_a_link_to_a_file_that_the_checkpoint_may_have_is_refused(self):
        os.symlink("model", self.folder / "again")
        link = self.folder / "link"
        before = sorted(os.listdir(self.model))
        for name in ("generation_config.json", "model.safetensors.index.json", "chat_template.jinja"):
            for target in (self.model / name, f"again/../model/{name}", f"again/{name}"):
                with self.subTest(target=str(target)):
                    os.symlink(target, link)
                    for arguments in ({"output": link}, {"arguments": ["--report", link]}):
                        done = self.convert(*arguments.get("arguments", ()), output=arguments.get("output"))
                        self.assertEqual(done.returncode, USAGE, done.stderr)
                        self.assertIn(b"part of the checkpoint", done.stderr)
                    link.unlink()
        self.assertEqual(sorted(os.listdir(self.model)), before)

    def test_files_beside_the_weights_are_not_replaced(self):
        (self.folder / "blobs").mkdir()
        (self.model / "original").mkdir()
        others = {"merges.txt": b"a b\n", "pytorch_model.bin": b"PK", "model.gguf": b"GGUF", "original/params.json": b"{}",
                  "empty": b"", "results.json": b'{\n  "architecture": "LlamaForCausalLM",\n  "score": 1\n}\n'}
        for name, content in others.items():
            (self.model / name).write_bytes(content)
        (self.folder / "blobs/1").write_bytes(b"kept")
        os.symlink("../blobs/1", self.model / "linked")
        os.symlink("model/merges.txt", self.folder / "into")
        for path in (*(self.model / name for name in others), self.model / "linked", self.folder / "blobs/1",
                     self.folder / "into"):
            for arguments in ({"output": path}, {"arguments": ["--report", path]}):
                with self.subTest(path=path, **arguments):
                    done = self.convert(*arguments.get("arguments", ()), output=arguments.get("output"))
                    self.assertEqual(done.returncode, USAGE, done.stderr)
                    self.assertRegex(done.stderr, b"not replaced; choose another name or remove it")
        for name, content in others.items():
            self.assertEqual((self.model / name).read_bytes(), content)
        self.assertEqual((self.folder / "blobs/1").read_bytes(), b"kept")

    def test_what_the_converter_made_beside_the_weights_is_replaced(self):
        output, report = self.model / "m.cria", self.model / "m.json"
        for _ in range(2):
            done = self.convert("--quiet", "--report", report, output=output)
            self.assertEqual((done.returncode, done.stderr), (DONE, b""))
        for arguments in (["--report", output], []):
            done = self.convert(*arguments, output=self.output if arguments else report)
            self.assertEqual(done.returncode, USAGE, done.stderr)
        (self.folder / "elsewhere").write_bytes(b"old")
        self.assertEqual(self.convert(output=self.folder / "elsewhere").returncode, DONE)

    def test_an_output_has_a_name_and_is_no_standard_output(self):
        for arguments in (["--report", ""], ["--report", "-"], ["-o", "-"]):
            with self.subTest(arguments=arguments):
                command = [CONVERT, self.model, *([] if "-o" in arguments else ["-o", self.output]), *arguments]
                done = subprocess.run(list(map(str, command)), capture_output=True, timeout=SECONDS, check=False,
                                      cwd=self.folder)
                self.assertEqual(done.returncode, USAGE, done.stderr)
                self.assertRegex(done.stderr, rb"\Acria-convert: error: [^\n]*give a file name[^\n]*\n\Z")
                self.assertEqual(os.listdir(self.folder), ["model"])


class Numbers(Base):
    def test_settings_out_of_range_are_named_as_the_file_names_them(self):
        for key, value in (("num_hidden_layers", 1 << 31), ("num_hidden_layers", 0), ("num_hidden_layers", -1),
                           ("num_hidden_layers", 1 << 64), ("num_hidden_layers", 1e300), ("num_hidden_layers", "1"),
                           ("hidden_size", 0), ("hidden_size", 1 << 31), ("hidden_size", []),
                           ("num_attention_heads", 0), ("num_attention_heads", 1 << 30),
                           ("num_key_value_heads", 3), ("num_key_value_heads", 0), ("head_dim", 15), ("head_dim", 0),
                           ("head_dim", 1 << 31), ("intermediate_size", 0), ("intermediate_size", 4294967295),
                           ("vocab_size", 0), ("vocab_size", 4294967295), ("max_position_embeddings", 0),
                           ("max_position_embeddings", 4294967295), ("rms_norm_eps", -1), ("rms_norm_eps", 1e308),
                           ("rms_norm_eps", {}), ("rope_theta", 1e308), ("rope_theta", 0), ("rope_theta", -1),
                           ("rope_theta", 1e-320), ("bos_token_id", 70), ("eos_token_id", 4294967295),
                           ("eos_token_id", list(range(17))), ("tie_word_embeddings", 1), ("hidden_act", "gelu")):
            with self.subTest(key=key, value=value):
                self.set_config(**{key: value})
                self.assert_refused(INVALID, "config.json", key)
                self.set_config(**{key: json.loads((self.source / "config.json").read_text()).get(key)})

    def test_scaling_out_of_range_is_named(self):
        llama3 = {"rope_type": "llama3", "factor": 8, "low_freq_factor": 1, "high_freq_factor": 4,
                  "original_max_position_embeddings": 128}
        yarn = {"rope_type": "yarn", "factor": 4, "original_max_position_embeddings": 128}
        for good in (llama3, yarn, {"rope_type": "linear", "factor": 2}):
            self.set_config(rope_scaling=good)
            self.assertEqual(self.convert("--quiet").returncode, DONE, good)
            self.output.unlink()
            for key in good:
                for value in (1e308, -1, "x", [], 1e-308) if key != "rope_type" else ("x", 5):
                    with self.subTest(key=key, value=value, kind=good["rope_type"]):
                        self.set_config(rope_scaling={**good, key: value})
                        self.assert_refused(INVALID, "config.json", "rope")
                        self.output.unlink(missing_ok=True)

    def test_a_number_that_no_double_holds_is_refused(self):
        for number in ("1e999", "-1e999", "1e99999999999999999999", "NaN", "Infinity", "0x10", "1" + "0" * 400):
            with self.subTest(number=number):
                text = (self.source / "config.json").read_text()
                (self.model / "config.json").write_text(text.replace('"rope_theta": 10000.0', f'"rope_theta": {number}'))
                self.assert_refused(INVALID, "config.json")

    def test_a_weight_that_is_no_number_is_told_with_tensor_and_row(self):
        name = "model.layers.0.mlp.down_proj.weight"
        data = bytearray((self.model / "model.safetensors").read_bytes())
        length = struct.unpack_from("<Q", data)[0]
        begin = 8 + length + json.loads(data[8:8 + length])[name]["data_offsets"][0]
        for row, column, bits in ((0, 0, 0x7FC0), (37, 99, 0x7F80), (63, 50, 0xFF80)):
            at = begin + 2 * (row * 100 + column)
            kept = bytes(data[at:at + 2])
            struct.pack_into("<H", data, at, bits)
            (self.model / "model.safetensors").write_bytes(data)
            for weights in ("int4", "int8", "f16", "f32"):
                with self.subTest(row=row, weights=weights):
                    self.assert_refused(INVALID, name, f"row {row}", arguments=["--weights", weights])
            data[at:at + 2] = kept


CHATML = "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"


class Texts(Base):
    """What the tokenizer's side files say wrongly is told, never passed over."""
    def write(self, name, content):
        (self.model / name).write_text(content if isinstance(content, str) else json.dumps(content))

    def test_a_template_that_is_there_and_cannot_be_used_is_told(self):
        for name, content, reason in (
                ("tokenizer_config.json", {"chat_template": 5}, "neither a text nor a list"),
                ("tokenizer_config.json", {"chat_template": True}, "neither a text nor a list"),
                ("tokenizer_config.json", {"chat_template": {}}, "neither a text nor a list"),
                ("tokenizer_config.json", {"chat_template": ""}, "is empty"),
                ("tokenizer_config.json", {"chat_template": []}, "without a text named default"),
                ("tokenizer_config.json", {"chat_template": [{"name": "rag", "template": CHATML}]}, "named default"),
                ("tokenizer_config.json", {"chat_template": [{"name": "default", "template": ""}]}, "named default"),
                ("chat_template.json", {"chat_template": [5]}, "named default"), ("chat_template.json", {}, "has no"),
                ("chat_template.json", {"chat_template": None}, "has no"), ("chat_template.jinja", "", "is empty")):
            with self.subTest(name=name, content=content):
                self.write(name, content)
                done = self.convert("--quiet", "--report", self.folder / "r.json")
                self.assertEqual(done.returncode, DONE, done.stderr)
                told, unavailable = done.stderr.decode().splitlines()
                self.assertRegex(told, rf"\Acria-convert: warning: {name}[: ].*{reason}.* is left out\Z")
                self.assertIn("cria chat will not be available", unavailable)
                self.assertEqual(len(json.loads((self.folder / "r.json").read_text())["warnings"]), 2)
                (self.model / name).unlink()

    def test_a_template_that_cannot_be_used_hides_no_other(self):
        tokens = [hostile.piece(text, 0.0, 3) for text in ("<|im_start|>", "<|im_end|>")]
        (self.model / "tokenizer.model").write_bytes(hostile.pieces([*TOKENS, *tokens], 1 << 20))
        for name, content in (("chat_template.jinja", ""), ("chat_template.json", {"chat_template": 5})):
            with self.subTest(name=name):
                self.write("tokenizer_config.json", {"chat_template": CHATML})
                self.write(name, content)
                done = self.convert()
                self.assertIn(b"chat template: chatml", done.stderr)
                self.assertIn(name.encode(), done.stderr)
                self.assertNotIn(b"will not be available", done.stderr)
                (self.model / name).unlink()

    def test_no_template_is_no_mistake(self):
        for content in ({}, {"chat_template": None}):
            self.write("tokenizer_config.json", content)
            self.assertEqual(self.convert("--quiet").stderr, b"")

    def test_a_token_of_a_wrong_type_is_refused(self):
        for name in ("tokenizer_config.json", "special_tokens_map.json"):
            for key in ("bos_token", "eos_token"):
                for value in (5, True, False, [], ["</s>"], {}, {"content": 5}, {"content": None}):
                    with self.subTest(name=name, key=key, value=value):
                        self.write(name, {key: value})
                        self.assert_refused(INVALID, name, key, "must be a text or an object")
                for value in (None, "</s>", {"content": "</s>"}, ""):
                    with self.subTest(name=name, key=key, value=value):
                        self.write(name, {key: value})
                        self.assertEqual(self.convert("--quiet").stderr, b"")
                        self.output.unlink()
            (self.model / name).unlink()


class Lines(Base):
    """Errors say where."""
    def byte_level(self, added, **config):
        vocab = {character: i for i, character in enumerate("ab<c")}
        (self.model / "tokenizer.json").write_text(json.dumps({
            "model": {"type": "BPE", "vocab": vocab, "merges": []}, "added_tokens": added,
            "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False}}))
        (self.model / "tokenizer_config.json").write_text(json.dumps(config))

    def test_the_tokenizers_file_is_named(self):
        for added in ([{"id": 1 << 21, "content": "x"}], [{"id": 0, "content": "xy"}],
                      [{"id": 1, "content": "b", "special": True}]):
            with self.subTest(added=added):
                self.byte_level(added)
                self.assert_refused(INVALID, f"{self.model}/tokenizer.json: ")
        (self.model / "tokenizer.json").unlink()
        (self.model / "added_tokens.json").write_text(json.dumps({"x": 1 << 21}))
        self.assert_refused(INVALID, f"{self.model}: token id {1 << 21}")

    def test_a_byte_that_the_template_makes_special_is_told_so(self):
        self.byte_level([{"id": 2, "content": "<"}], chat_template=CHATML)
        self.set_config(eos_token_id=None, bos_token_id=None)
        line = self.assert_refused(INVALID, f"{self.model}: added token 2 '<'", "chat template")
        self.assertNotIn("eos_token_id", line)

    def test_a_template_with_too_long_texts_is_named(self):
        text = CHATML.replace("{% for", "{{ '<|im_start|>system\\n" + "x" * 5000 + "<|im_end|>' }}{% for")
        (self.model / "chat_template.jinja").write_text(text)
        self.assertIn("too long", self.convert().stderr)

    def test_a_missing_tensor_is_missing_somewhere(self):
        self.set_config(num_hidden_layers=2)
        self.assert_refused(INVALID, f"{self.model}: the checkpoint has no tensor")

    def test_a_folder_that_cannot_be_looked_up_is_not_one_that_is_missing(self):
        self.model = self.folder / ("n" * 300)
        for argument in (self.model, self.folder / "model/loop"):
            if argument != self.model:
                os.symlink("loop", argument)
                self.model = argument
            line = self.assert_refused(IO, f"{argument}: cannot be looked up: ")
            self.assertNotIn("no such folder", line)

    @unittest.skipIf(os.geteuid() != 0 or "CRIA_EMULATOR" in os.environ, "needs the right to become another user")
    def test_a_folder_that_may_not_be_searched_is_not_one_that_is_missing(self):
        self.folder.chmod(0o700)
        nobody = 65534
        program = Path(tempfile.mkdtemp()) / "cria-convert"
        self.addCleanup(shutil.rmtree, program.parent)
        shutil.copy(CONVERT, program)
        program.parent.chmod(0o755)
        done = subprocess.run([program, self.model, "-o", "/dev/null"], capture_output=True, user=nobody, check=False)
        self.assertEqual(done.returncode, IO, done.stderr)
        self.assertIn(b"Permission denied", done.stderr)

    def test_common_errors_say_what_to_do(self):
        (self.model / "tokenizer_config.json").mkdir()
        self.assert_refused(INVALID, "is not a regular file; download it again")
        (self.model / "tokenizer_config.json").rmdir()
        (self.model / "tokenizer_config.json").write_text("{")
        self.assert_refused(INVALID, "not valid JSON at byte 2; download it again")


EVIL = "\x1b]0;title\x07\x1b[31m\r\n\u009b2J\u202eevil\x7f"


class ControlBytes(Base):
    def test_texts_of_each_file_are_shown_without_control_bytes_and_cut(self):
        long = EVIL + "x" * 100000
        vocab = {"a": 0, "b": 1}
        byte_level = {"type": "ByteLevel", "add_prefix_space": False}

        def tokenizer(**others):
            model = {"type": "BPE", "vocab": vocab, "merges": [], **others.pop("model", {})}
            return {"model": model, "pre_tokenizer": byte_level, **others}

        def safetensors(entries):
            return hostile.safetensors(json.dumps(entries))

        entry = {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}
        for name, content in (
                ("config.json", {"architectures": [long]}), ("config.json", {"model_type": long}),
                ("config.json", {"architectures": ["LlamaForCausalLM"], "hidden_act": long}),
                ("config.json", {"architectures": ["LlamaForCausalLM"], "num_hidden_layers": long}),
                ("config.json", {"architectures": ["LlamaForCausalLM"], "num_hidden_layers": {long: long}}),
                ("config.json", {**json.loads((self.source / "config.json").read_text()),
                                 "rope_scaling": {"rope_type": long}}),
                ("config.json", '{"%s":1,"%s":2}' % (("k" * 100000,) * 2)),
                ("tokenizer.json", {"model": {"type": long}}), ("tokenizer.json", tokenizer(normalizer={"type": long})),
                ("tokenizer.json", tokenizer(model={"merges": [[long, "a"]]})),
                ("tokenizer.json", tokenizer(model={"vocab": {long: -1}})),
                ("tokenizer.json", tokenizer(model={"vocab": {long: 1, long + "x": 1}})),
                ("tokenizer.json", tokenizer(model={"unk_token": long})),
                ("tokenizer.json", tokenizer(added_tokens=[{"id": 5, "content": long, "single_word": True}])),
                ("tokenizer.json", tokenizer(added_tokens=[{"id": 0, "content": long}])),
                ("tokenizer.json", tokenizer(pre_tokenizer={"type": "Split", "pattern": {"Regex": long}})),
                ("tokenizer.json", tokenizer(post_processor={"type": long})),
                ("tokenizer.json", tokenizer(decoder={"type": long})),
                ("tokenizer_config.json", {"added_tokens_decoder": {long: {}}}),
                ("tokenizer_config.json", {"added_tokens_decoder": {"5": {"content": [long]}}}),
                ("tokenizer_config.json", {"chat_template": long * 5}),
                ("added_tokens.json", {long: "x"}), ("added_tokens.json", [long]),
                ("tokenizer.model", hostile.pieces([hostile.piece(long, 0.0, 9)], 1 << 20)),
                ("tokenizer.model", hostile.pieces([hostile.piece(long, float("nan"))], 1 << 20)),
                ("tokenizer.model", hostile.pieces([hostile.piece(b"\x1b\xff\xfe", 0.0, 6)], 1 << 20)),
                ("tokenizer.model", hostile.field(2, b"\x18\x02") + hostile.piece("a", 0.0)
                 + hostile.field(3, hostile.field(1, long.encode()) + hostile.field(2, b"x"))),
                ("model.safetensors", safetensors({long: 5})), ("model.safetensors", safetensors({"a": {"dtype": long}})),
                ("model.safetensors", safetensors({"a": {**entry, "dtype": long}}) + b"abcd"),
                ("model.safetensors", safetensors({long: entry, long + "2": entry}) + b"abcd"),
                ("model.safetensors", safetensors({long: entry})),
                ("model.safetensors.index.json", {"weight_map": {long: "../x"}}),
                ("model.safetensors.index.json", {"weight_map": {long: "a.safetensors"}}),
                ("model.safetensors.index.json", {"weight_map": {"x": "\x1b[31m\u009b"}})):
            with self.subTest(name=name, content=str(content)[:60]):
                shutil.rmtree(self.model)
                shutil.copytree(self.source, self.model)
                if "index" in name:
                    os.rename(self.model / "model.safetensors", self.model / "a.safetensors")
                data = content if isinstance(content, bytes) else (
                    content if isinstance(content, str) else json.dumps(content)).encode()
                (self.model / name).write_bytes(data)
                self.assert_refused(INVALID)

    def test_warnings_are_shown_without_control_bytes_and_cut(self):
        data = (self.model / "model.safetensors").read_bytes()
        length = struct.unpack_from("<Q", data)[0]
        header = json.loads(data[8:8 + length])
        for i in range(9):
            header[EVIL + str(i) + "x" * 100000] = {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}
        (self.model / "model.safetensors").write_bytes(hostile.safetensors(json.dumps(header)) + data[8 + length:])
        done = self.convert("--report", self.folder / "r.json")
        self.assertEqual(done.returncode, DONE)
        self.assertIn(b"9 tensor(s)", done.stderr)
        self.assert_plain(done.stderr)
        report = (self.folder / "r.json").read_bytes()
        self.assertLess(len(report), 20000)
        self.assertEqual(len(json.loads(report.decode("utf-8"))["warnings"]), 1)

    def test_the_name_of_the_folder_is_text_too(self):
        for name in (b"evil\x1b]0;t\x07\n\xc2\x9b", b"not utf-8 \xff\xfe", b"n" * 200):
            with self.subTest(name=name):
                model = Path(os.fsdecode(os.fsencode(self.folder) + b"/" + name))
                shutil.copytree(self.source, model)
                command = [CONVERT, model, "-o", self.output, "--report", self.folder / "r.json"]
                done = subprocess.run(command, capture_output=True, timeout=SECONDS, check=False)
                self.assertEqual(done.returncode, DONE, done.stderr)
                self.assert_plain(done.stderr)
                source = json.loads((self.folder / "r.json").read_bytes().decode("utf-8"))["source"]
                self.assert_plain(source.encode())
                os.unlink(model / "config.json")
                done = subprocess.run(command, capture_output=True, timeout=SECONDS, check=False)
                self.assertEqual(done.returncode, INVALID)
                self.assert_plain(done.stderr)


if __name__ == "__main__":
    unittest.main()
