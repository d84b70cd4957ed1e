#!/usr/bin/env python3
"""Models of embeddings: what is read of their folders, cria embed, and what refuses them."""
import json
import math
import subprocess
import unittest

import checkpoints
import cria_cli as cli
from cria_cli import BAD_INPUT, BIN, DONE, PATIENCE_S, USAGE, cria

TEXTS = ("Once upon a time there was a fox.", "The bear", "a")
MEAN = {"pooling_mode_mean_tokens": True, "pooling_mode_lasttoken": False, "include_prompt": True}


def convert(folder, *options):
    command = [str(BIN / "cria-convert"), str(folder), "-o", str(cli.folder() / "refused.cria"), *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)


def rows(model, *options, stdin="\n".join(TEXTS)):
    done = cria("embed", model, *options, stdin=stdin)
    assert done.code == DONE, done.err
    return [json.loads(line) for line in done.out.splitlines()]


def length(row):
    return math.sqrt(sum(value * value for value in row))


def cosine(a, b):
    return sum(x * y for x, y in zip(a, b)) / length(a) / length(b)


class Embed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.last = cli.converted(checkpoints.embedding("embed_last"), "--weights", "f32")
        cls.mean = cli.converted(checkpoints.embedding("embed_mean", modules=[checkpoints.TRANSFORMER, checkpoints.POOLING],
                                                       pooling=MEAN, has_front=True), "--weights", "f32")
        cls.plain = cli.converted(checkpoints.embedding("embed_plain", modules=None), "--weights", "f32")

    def test_a_line_is_a_row_of_the_models_width(self):
        found = rows(self.last)
        self.assertEqual([len(row) for row in found], [256] * len(TEXTS))
        for row in found:
            self.assertAlmostEqual(length(row), 1, 5)
        self.assertLess(cosine(found[0], found[1]), 0.999)

    def test_the_same_text_is_the_same_row_however_it_is_given(self):
        wanted = rows(self.last)
        for i, text in enumerate(TEXTS):
            self.assertEqual(rows(self.last, "--text", text), [wanted[i]])
            self.assertEqual(rows(self.last, "--whole", stdin=text), [wanted[i]])
        path = cli.folder() / "lines.txt"
        path.write_bytes("\r\n".join(TEXTS).encode() + b"\r\n")
        self.assertEqual(rows(self.last, path), wanted)
        for options in (("--threads", 2), ("--prefill-chunk", 1), ("--prefill-chunk", 3), ("--context", 64), ("--no-mmap",)):
            self.assertEqual(rows(self.last, *options), wanted, options)
            self.assertEqual(rows(self.mean, *options), rows(self.mean), options)

    def test_a_file_without_pooling_gives_the_last_row_of_length_1(self):
        self.assertEqual(rows(self.plain), rows(self.last))

    def test_a_mean_is_not_made_longer(self):
        found = rows(self.mean)
        self.assertGreater(abs(length(found[0]) - 1), 0.01)
        self.assertLess(cosine(found[0], rows(self.last)[0]), 0.999)

    def test_dimensions_are_the_first_values(self):
        for model, is_unit in ((self.last, True), (self.mean, False)):
            whole, cut = rows(model), rows(model, "--dimensions", 5)
            for row, part in zip(whole, cut):
                self.assertEqual(len(part), 5)
                self.assertGreater(cosine(row[:5], part), 0.999999)
                if is_unit:
                    self.assertAlmostEqual(length(part), 1, 5)
                else:
                    self.assertEqual(part, row[:5])

    def test_info_tells_of_them(self):
        for model, pooling, is_unit, row in ((self.last, "last token", True, "last token, of length 1"),
                                             (self.mean, "mean", False, "mean"), (self.plain, None, False, None)):
            info = json.loads(cria("info", model, "--json").out)["model"]
            self.assertEqual((info["pooling"], info["unit_embeddings"]), (pooling, is_unit))
            told = [line.split(None, 1)[1] for line in cria("info", model).out.splitlines() if line.startswith("embeddings ")]
            self.assertEqual(told, [row] if row else [])

    def test_what_does_not_fit_is_refused_by_its_number(self):
        long = "a fox " * 600
        refused = cria("embed", self.last, stdin=f"short\n{long}\n")
        self.assertEqual((refused.code, refused.err.count("\n")), (BAD_INPUT, 1))
        self.assertRegex(refused.err, r"^cria: error: text 2: \d+ tokens do not fit a context of 512; shorten it, the model takes no more")
        self.assertEqual(len(refused.out.splitlines()), 1)
        for options, said in ((("--dimensions", 257), "--dimensions 257 is more than the 256 that the model's embeddings have"),
                              (("--dimensions", 0), "--dimensions"), (("--text", "a", "--whole"), "--whole"),
                              (("lines.txt", "--text", "a"), "--text")):
            refused = cria("embed", self.last, *options)
            self.assertEqual(refused.code, USAGE, options)
            self.assertIn(said, refused.err)
        self.assertEqual(cria("embed", self.last, stdin=b"").out, "")
        self.assertEqual(len(rows(self.last, "--text", "")), 1)  # what the tokenizer adds is a text
        without = cli.converted(checkpoints.embedding("embed_ids"), "--no-tokenizer")
        self.assertEqual(cria("embed", without).code, BAD_INPUT)

    def test_no_chat_is_held_with_it(self):
        refused = cria("chat", self.last, stdin="hello\n")
        self.assertEqual((refused.code, refused.out), (BAD_INPUT, ""))
        self.assertIn("makes embeddings and does not answer; use cria embed", refused.err)


class Folders(unittest.TestCase):
    def test_a_class_without_output_layer_needs_none(self):
        ids = {"architectures": ["LlamaModel"], "tie_word_embeddings": False}
        folder = checkpoints.embedding("headless", config=ids)
        model = cli.converted(folder, "--weights", "f32")
        same = cli.converted(checkpoints.embedding("headed"), "--weights", "f32")
        self.assertEqual(rows(model), rows(same))
        # Without pooling it would be needed.
        refused = convert(checkpoints.embedding("headless_plain", config=ids, modules=None))
        self.assertEqual(refused.returncode, BAD_INPUT)
        self.assertIn("lm_head.weight", refused.stderr)

    def test_other_ways_to_say_it_are_read(self):
        for name, pooling, wanted in (("by_name", {"pooling_mode": "mean"}, "mean"),
                                      ("cls", {"pooling_mode_cls_token": True}, "first token"),
                                      ("both", {"pooling_mode": "lasttoken", "pooling_mode_lasttoken": True}, "last token")):
            model = cli.converted(checkpoints.embedding(name, pooling=pooling))
            self.assertEqual(json.loads(cria("info", model, "--json").out)["model"]["pooling"], wanted)

    def test_what_would_change_results_is_refused_by_name(self):
        dense = {"idx": 3, "name": "3", "path": "3_Dense", "type": "sentence_transformers.models.Dense"}
        parts = (checkpoints.TRANSFORMER, checkpoints.POOLING, checkpoints.NORMALIZE)
        for i, (changes, said) in enumerate((
                ({"modules": [*parts, dense]}, "modules.json: type 'sentence_transformers.models.Dense' is not read here"),
                ({"modules": [parts[0], parts[2], parts[1]]}, "modules.json: type"),
                ({"modules": [*parts, parts[2]]}, "modules.json: type"),
                ({"modules": [parts[1]], "pooling": {"pooling_mode_max_tokens": True}}, "pooling_mode_max_tokens is set"),
                ({"modules": [parts[0], {**parts[1], "path": "../1_Pooling"}]}, "is not 1_Pooling"),
                ({"modules": {"a": 1}}, "modules.json: is not a list of modules"),
                ({"pooling": {}}, "pooling_mode names no pooling"),
                ({"pooling": {**MEAN, "pooling_mode_cls_token": True}}, "pooling_mode_cls_token is set, which is not supported"),
                ({"pooling": {"pooling_mode_lasttoken": True, "word_embedding_dimension": 255}}, "255 is not the hidden_size"),
                ({"pooling": {**MEAN, "include_prompt": False}}, "include_prompt is false"),
                ({"config": {"is_causal": False}}, "is_causal is false"))):
            refused = convert(checkpoints.embedding(f"refused{i}", **changes))
            self.assertEqual(refused.returncode, BAD_INPUT, said)
            self.assertIn(said, refused.stderr)
            self.assertEqual(refused.stderr.count("error:"), 1)


if __name__ == "__main__":
    cli.main()
