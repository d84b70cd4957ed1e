#!/usr/bin/env python3
"""Where cria-convert writes: never over a part of the checkpoint, whatever links and names lead there."""

import os
import subprocess
import unittest

import cria_cli as cli
from hostile_folder import Base, CONVERT, DONE, SIDE_FILES, USAGE


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
                    self.assertRegex(done.stderr, b"that cria-convert made; choose another name or remove it")
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
                done = subprocess.run(list(map(str, command)), capture_output=True, timeout=cli.PATIENCE_S, check=False,
                                      cwd=self.folder)
                self.assertEqual(done.returncode, USAGE, done.stderr)
                self.assertRegex(done.stderr, rb"\Acria-convert: error: [^\n]*(give a file name|must not be empty)[^\n]*\n\Z")
                self.assertEqual(os.listdir(self.folder), ["model"])


if __name__ == "__main__":
    unittest.main()
