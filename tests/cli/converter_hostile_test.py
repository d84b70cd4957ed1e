#!/usr/bin/env python3
"""cria-convert with files made to do harm: pipes, links, giants and lies. One line, the right code, no output."""

import json
import os
import shutil
import struct
import unittest

from hostile_folder import Base, DONE, GIANT, INVALID, SIDE_FILES


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
        self.assert_refused(INVALID, "is a named pipe; give a Hugging Face folder, a .gguf file")
        os.unlink(self.model)
        self.model.write_bytes(b"GGUF")
        self.assert_refused(INVALID, "truncated inside its header, download it again")
        self.model.write_bytes(b"what is this?")
        self.assert_refused(INVALID, "is a file of a kind that is not known; give a Hugging Face folder")
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
                    self.assert_refused(INVALID, name, f"row {row}", arguments=["--quiet", "--weights", weights])
            data[at:at + 2] = kept


if __name__ == "__main__":
    unittest.main()
