#!/usr/bin/env python3
"""What cria-convert says of texts made to do harm: what is told, and control bytes that are not shown."""

import json
import os
import shutil
import struct
import subprocess
import tempfile
import unittest
from pathlib import Path

import cria_cli as cli
from hostile_folder import Base, CONVERT, DONE, hostile, INVALID, IO, TOKENS

CHATML = "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"


class Texts(Base):
    """What the tokenizer's side files say wrongly is told, never passed over."""
    def write(self, name, content):
        (self.model / name).write_text(content if isinstance(content, str) else json.dumps(content))

    def test_a_template_that_is_there_and_cannot_be_used_is_told(self):
        for name, content, reason in (
                ("tokenizer_config.json", {"chat_template": 5}, "neither a text nor a list"),
                ("tokenizer_config.json", {"chat_template": True}, "neither a text nor a list"),
                ("tokenizer_config.json", {"chat_template": {}}, "an object without a text named default"),
                ("tokenizer_config.json", {"chat_template": {"tool_use": CHATML}}, "an object without a text named default"),
                ("tokenizer_config.json", {"chat_template": {"default": ""}}, "named default"),
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
                self.assertIn(b"chat template: own", done.stderr)
                self.assertIn(name.encode(), done.stderr)
                self.assertNotIn(b"will not be available", done.stderr)
                (self.model / name).unlink()

    def test_the_last_of_those_named_default_counts(self):
        """As transformers puts a list into a dictionary, or takes that."""
        tokens = [hostile.piece(text, 0.0, 3) for text in ("<|im_start|>", "<|im_end|>")]
        (self.model / "tokenizer.model").write_bytes(hostile.pieces([*TOKENS, *tokens], 1 << 20))
        named = [{"name": name, "template": text} for name, text in (("default", "{{ 1 // 0 }}"), ("default", CHATML), ("rag", "x"))]
        for template in (named, {"default": CHATML, "rag": "x"}):
            with self.subTest(template=template):
                self.write("tokenizer_config.json", {"chat_template": template})
                done = self.convert()
                self.assertIn(b"chat template: own", done.stderr)
                self.assertNotIn(b"will not be available", done.stderr)

    def test_an_adapter_is_told_from_a_model(self):
        self.write("adapter_config.json", {"peft_type": "LORA"})
        done = self.convert("--quiet")
        self.assertEqual(done.returncode, DONE, done.stderr)
        self.assertIn(b"the folder also has an adapter", done.stderr)
        (self.model / "config.json").unlink()
        done = self.convert("--quiet")
        self.assertEqual(done.returncode, INVALID, done.stderr)
        self.assertIn(b"is an adapter; give the model that it was made for, and this with --lora", done.stderr)

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
        for added in ([{"id": "5", "content": "x"}],
                      [{"id": 1, "content": "b", "special": True}]):
            with self.subTest(added=added):
                self.byte_level(added)
                self.assert_refused(INVALID, f"{self.model}/tokenizer.json: ")
        (self.model / "tokenizer.json").unlink()
        (self.model / "added_tokens.json").write_text(json.dumps({"x": 1 << 21}))
        self.assert_refused(INVALID, f"{self.model}/added_tokens.json: x names token id {1 << 21}, which is too large")
        (self.model / "added_tokens.json").unlink()
        (self.model / "tokenizer_config.json").write_text(json.dumps({"added_tokens_decoder": {f"{1 << 21}": {"content": "x"}}}))
        self.assert_refused(INVALID, f"{self.model}/tokenizer_config.json: added_tokens_decoder names token id {1 << 21}")

    def test_a_byte_that_the_template_makes_special_is_told_so(self):
        self.byte_level([{"id": 2, "content": "<"}], chat_template=CHATML)
        self.set_config(eos_token_id=None, bos_token_id=None)
        line = self.assert_refused(INVALID, f"{self.model}: added token 2 '<'", "chat template")
        self.assertNotIn("eos_token_id", line)

    @unittest.skipIf("CRIA_EMULATOR" in os.environ, "emulated, it takes more processor time than a template may")
    def test_a_template_with_too_long_texts_is_named(self):
        text = CHATML.replace("{% for", "{{ '<|im_start|>system\\n" + "x" * 60000 + "<|im_end|>' }}{% for")
        (self.model / "chat_template.jinja").write_text(text)
        self.assertIn(b"too long", self.convert().stderr)

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
        self.assert_refused(INVALID, "is a folder; give a regular file")
        (self.model / "tokenizer_config.json").rmdir()
        (self.model / "tokenizer_config.json").write_text("{")
        self.assert_refused(INVALID, "not valid JSON at byte 2; download it again")

    def test_a_git_lfs_pointer_is_called_so(self):
        pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'a' * 64}\nsize 538090408\n"
        for name in ("model.safetensors", "config.json", "tokenizer.json", "tokenizer.model", "tokenizer_config.json"):
            path = self.model / name
            kept = path.read_bytes() if path.exists() else None
            with self.subTest(name=name):
                path.write_text(pointer)
                self.assert_refused(INVALID, f"{path}: is a Git LFS pointer, not the file itself; fetch it with git lfs pull")
            path.unlink()
            if kept is not None:
                path.write_bytes(kept)
        self.shard()
        (self.model / "b.safetensors").write_text(pointer)
        self.assert_refused(INVALID, f"{self.model}/b.safetensors: is a Git LFS pointer")
        for name in ("model.gguf", "model.bin"):
            shutil.rmtree(self.model, ignore_errors=True)
            self.model = self.folder / "model" / name
            self.model.parent.mkdir(exist_ok=True)
            self.model.write_text(pointer)
            self.assert_refused(INVALID, f"{self.model}: is a Git LFS pointer")

    def test_a_folder_without_a_file_that_it_needs_says_which(self):
        weight_map = self.shard()
        (self.model / "model.safetensors.index.json").unlink()
        self.assert_refused(INVALID, "neither model.safetensors nor model.safetensors.index.json; download")
        self.write_index(weight_map)
        (self.model / "tokenizer.model").unlink()
        self.assert_refused(INVALID, "no tokenizer.json or tokenizer.model; put it there, or convert with --no-tokenizer")


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
                done = subprocess.run(command, capture_output=True, timeout=cli.PATIENCE_S, check=False)
                self.assertEqual(done.returncode, DONE, done.stderr)
                self.assert_plain(done.stderr)
                source = json.loads((self.folder / "r.json").read_bytes().decode("utf-8"))["source"]
                self.assert_plain(source.encode())
                os.unlink(model / "config.json")
                done = subprocess.run(command, capture_output=True, timeout=cli.PATIENCE_S, check=False)
                self.assertEqual(done.returncode, INVALID)
                self.assert_plain(done.stderr)


if __name__ == "__main__":
    unittest.main()
