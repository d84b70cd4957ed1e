"""Adapters as peft saves them, merged while converting: as the same sum made here gives."""
import array
import json
import random
import re
import shutil
import struct
import subprocess
import unittest

import cria_cli as cli

PREFIX = "base_model.model."
QUERY = "model.layers.0.self_attn.q_proj"
DOWN = "model.layers.1.mlp.down_proj"
EMBEDDING = "model.embed_tokens"
QUICK = {"formats": ("f32",), "threads_of": (2,)}  # for what other tests have in all formats


def read_tensors(path):
    """{name: (shape, float values)} of a safetensors file of BF16 and F32."""
    data = path.read_bytes()
    size, = struct.unpack("<Q", data[:8])
    tensors = {}
    for name, entry in json.loads(data[8:8 + size]).items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        body = data[8 + size + begin:8 + size + end]
        if entry["dtype"] == "BF16":
            halves = array.array("H", body)
            values = array.array("f", array.array("I", (half << 16 for half in halves)).tobytes())
        else:
            values = array.array("f", body)
        tensors[name] = (entry["shape"], values)
    return tensors


def write_tensors(path, tensors):
    header, body = {}, b""
    for name, (shape, values) in tensors.items():
        data = array.array("f", values).tobytes()
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + body)


class Lora(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.tensors = read_tensors(cli.DEMO / "model.safetensors")
        cls.random = random.Random(5)

    def setUp(self):
        self.folder = cli.folder() / self.id().rsplit(".", 1)[1]
        self.folder.mkdir()

    def factors(self, rows, cols):
        """Values of which all sums are exact."""
        return [rows, cols], [self.random.randint(-8, 8) / 64 for _ in range(rows * cols)]

    def adapter(self, name, config, tensors):
        folder = self.folder / name
        folder.mkdir()
        (folder / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA", "r": 2, "lora_alpha": 4, **config}))
        write_tensors(folder / "adapter_model.safetensors", tensors)
        return folder

    def linear(self, module, rank):
        rows, cols = self.tensors[module + ".weight"][0]
        return {f"{PREFIX}{module}.lora_A.weight": self.factors(rank, cols),
                f"{PREFIX}{module}.lora_B.weight": self.factors(rows, rank)}

    def add(self, merged, name, left, right, scale):
        shape, values = merged[name]
        rank = right[0][0]
        for row in range(shape[0]):
            for col in range(shape[1]):
                total = sum(left[1][row * rank + r] * right[1][r * shape[1] + col] for r in range(rank))
                values[row * shape[1] + col] += scale * total

    def merged_folder(self, merged):
        folder = self.folder / "merged"
        shutil.copytree(cli.DEMO, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("model.safetensors", "*.txt", "recipe", "*.jsonl"))
        write_tensors(folder / "model.safetensors", merged)
        return folder

    def copy(self):
        return {name: (shape, array.array("f", values)) for name, (shape, values) in self.tensors.items()}

    def untied(self):
        """The same weights with an output layer by itself."""
        merged = self.copy()
        shape, values = merged[EMBEDDING + ".weight"]
        return {**merged, "lm_head.weight": (shape, array.array("f", values))}

    def convert(self, model, name, *options):
        path = self.folder / name
        made = subprocess.run([str(cli.BIN / "cria-convert"), str(model), "-o", str(path), "--quiet", "--chat-template", "none",
                               *map(str, options)], capture_output=True, text=True, timeout=cli.PATIENCE_S)
        return made, path

    def expect_merged(self, merged, *options, formats=("f32", "int4"), threads_of=(1, 3)):
        """Adapters and their sums give one model, whatever the format and the threads."""
        whole = self.merged_folder(merged)
        for weights in formats:
            made, wanted = self.convert(whole, f"wanted_{weights}.cria", "--weights", weights)
            self.assertEqual(made.returncode, cli.DONE, made.stderr)
            for threads in threads_of:
                made, got = self.convert(cli.DEMO, f"{weights}_{threads}.cria", "--weights", weights, "--threads", threads, *options)
                self.assertEqual(made.returncode, cli.DONE, made.stderr)
                for path, file in ((got, "got.f32"), (wanted, "wanted.f32")):
                    result = cli.cria("logits", path, "--ids", "1,2,3,4", "-o", self.folder / file)
                    self.assertEqual(result.code, cli.DONE, result.err)
                self.assertEqual((self.folder / "got.f32").read_bytes(), (self.folder / "wanted.f32").read_bytes(), f"{weights} {threads}")

    def refused(self, word, *options, code=cli.BAD_INPUT):
        made, path = self.convert(cli.DEMO, "refused.cria", *options)
        self.assertEqual(made.returncode, code, made.stderr)
        self.assertIn(word, made.stderr)
        self.assertEqual(made.stderr.count("\n"), 1)
        self.assertFalse(path.exists())

    def test_factors_of_layers_with_their_own_ranks_are_added(self):
        tensors = {**self.linear(QUERY, 2), **self.linear(DOWN, 4)}
        folder = self.adapter("a", {"rank_pattern": {"down_proj": 4}, "alpha_pattern": {DOWN: 16}, "lora_dropout": float("nan"),
                                    "trainable_token_indices": None, "layer_replication": [], "loftq_config": {}, "use_dora": False, "of_tomorrow": 0,
                                    "qalora_group_size": 16, "megatron_core": "megatron.core", "lora_bias": 0, "bias": "none"}, tensors)
        merged = self.copy()
        for module, scale in ((QUERY, 2.0), (DOWN, 4.0)):
            self.add(merged, module + ".weight", tensors[f"{PREFIX}{module}.lora_B.weight"],
                     tensors[f"{PREFIX}{module}.lora_A.weight"], scale)
        self.expect_merged(merged, "--lora", folder)

    def test_two_adapters_one_rank_stabilized_with_a_scale(self):
        first, second = self.linear(QUERY, 2), self.linear(QUERY, 4)
        merged = self.copy()
        for tensors, scale in ((first, 2.0), (second, 0.5 * 8 / 2)):
            self.add(merged, QUERY + ".weight", tensors[f"{PREFIX}{QUERY}.lora_B.weight"],
                     tensors[f"{PREFIX}{QUERY}.lora_A.weight"], scale)
        self.expect_merged(merged, "--lora", self.adapter("a", {}, first), "--lora",
                           str(self.adapter("b", {"r": 4, "lora_alpha": 8, "use_rslora": True}, second)) + ":0.5")

    def test_an_embedding_and_saved_modules(self):
        rows, cols = self.tensors[EMBEDDING + ".weight"][0]
        a, b = self.factors(2, rows), self.factors(cols, 2)
        norm = self.tensors["model.norm.weight"]
        saved = (norm[0], [value * 2 for value in norm[1]])
        folder = self.adapter("a", {}, {f"{PREFIX}{EMBEDDING}.lora_embedding_A": a, f"{PREFIX}{EMBEDDING}.lora_embedding_B": b,
                                        PREFIX + "model.norm.weight": saved})
        left = [rows, 2], [a[1][r * rows + row] for row in range(rows) for r in range(2)]
        right = [2, cols], [b[1][col * 2 + r] for r in range(2) for col in range(cols)]
        merged = self.untied()
        self.add(merged, EMBEDDING + ".weight", left, right, 2.0)
        merged["model.norm.weight"] = (norm[0], array.array("f", saved[1]))
        self.expect_merged(merged, "--lora", folder)

    def embedding_factors(self):
        """Factors of the embedding as peft stores them, with what is added to its rows."""
        rows, cols = self.tensors[EMBEDDING + ".weight"][0]
        a, b = self.factors(2, rows), self.factors(cols, 2)
        left = [rows, 2], [a[1][r * rows + row] for row in range(rows) for r in range(2)]
        right = [2, cols], [b[1][col * 2 + r] for r in range(2) for col in range(cols)]
        return {f"{PREFIX}{EMBEDDING}.lora_embedding_A": a, f"{PREFIX}{EMBEDDING}.lora_embedding_B": b}, left, right

    def other_embedding(self):
        shape, values = self.tensors[EMBEDDING + ".weight"]
        return shape, array.array("f", (value + self.random.randint(-8, 8) / 64 for value in values))

    def test_one_of_two_tied_matrices_is_changed_alone(self):
        """The model's output layer is its embedding; peft changes the one that the adapter names."""
        new = self.other_embedding()
        for name, target in (("embed", EMBEDDING), ("head", "lm_head")):
            with self.subTest(saved=name):
                merged = self.untied()
                merged[target + ".weight"] = new
                self.expect_merged(merged, "--lora", self.adapter(name, {"modules_to_save": [target]}, {f"{PREFIX}{target}.weight": new}), **QUICK)
        with self.subTest("factors of the head"):
            rows, cols = self.tensors[EMBEDDING + ".weight"][0]
            a, b = self.factors(2, cols), self.factors(rows, 2)
            merged = self.untied()
            self.add(merged, "lm_head.weight", b, a, 2.0)
            folder = self.adapter("factors", {}, {PREFIX + "lm_head.lora_A.weight": a, PREFIX + "lm_head.lora_B.weight": b})
            self.expect_merged(merged, "--lora", folder, **QUICK)
        with self.subTest("both with one"):
            merged = self.copy()
            merged[EMBEDDING + ".weight"] = new
            folder = self.adapter("tied", {"modules_to_save": ["embed_tokens"], "ensure_weight_tying": True}, {f"{PREFIX}{EMBEDDING}.weight": new})
            self.expect_merged(merged, "--lora", folder, **QUICK)

    def test_a_plan_counts_both_of_two_matrices_that_were_one(self):
        """What --plan says without weights is what the conversion says with them."""
        new, other = self.other_embedding(), self.other_embedding()
        factors, _, _ = self.embedding_factors()
        saved = {target: {f"{PREFIX}{target}.weight": new} for target in (EMBEDDING, "lm_head")}
        keeps = {"ensure_weight_tying": True}
        cases = (("layers", {}, self.linear(QUERY, 2), 1), ("embedding", {}, saved[EMBEDDING], 2), ("head", {}, saved["lm_head"], 2),
                 ("factors", {}, factors, 2), ("kept", keeps, saved[EMBEDDING], 1), ("same", {}, {**saved[EMBEDDING], **saved["lm_head"]}, 1),
                 ("different", keeps, {**saved[EMBEDDING], f"{PREFIX}lm_head.weight": other}, 2))
        totals = set()
        for name, config, tensors, n_matrices in cases:
            with self.subTest(name):
                options = "--lora", self.adapter(name, config, tensors), "--weights", "f32"
                texts = [self.said(*options, "--plan"), self.said(*options, "-o", self.folder / "a.cria")]
                plan, made = (re.search(r"memory to run it.*?total +\S+ MB +(\d+) bytes", text, re.DOTALL)[1] for text in texts)
                self.assertEqual(plan, made)
                totals.add((n_matrices, plan))
        self.assertEqual(sorted(n for n, _ in totals), [1, 2], totals)

    def said(self, *options):
        done = subprocess.run([str(cli.BIN / "cria-convert"), str(cli.DEMO), *map(str, options)], capture_output=True, text=True,
                              timeout=cli.PATIENCE_S)
        self.assertEqual(done.returncode, cli.DONE, done.stderr)
        return done.stdout + done.stderr

    def test_a_plan_refuses_what_is_no_adapter(self):
        folder = self.adapter("a", {"use_dora": True}, self.linear(QUERY, 2))
        done = subprocess.run([str(cli.BIN / "cria-convert"), str(cli.DEMO), "--lora", str(folder), "--plan"], capture_output=True,
                              text=True, timeout=cli.PATIENCE_S)
        self.assertEqual(done.returncode, cli.BAD_INPUT, done.stderr)
        self.assertIn("use_dora", done.stderr)

    def test_a_base_beside_its_factors(self):
        """As peft stores them: of the whole model, or one that takes its place."""
        tensors, left, right = self.embedding_factors()
        beside = f"{PREFIX}{EMBEDDING}.base_layer.weight"
        old, new = self.tensors[EMBEDDING + ".weight"], self.other_embedding()
        for name, base in (("same", old), ("other", new)):
            with self.subTest(name):
                merged = self.copy()
                merged[EMBEDDING + ".weight"] = (base[0], array.array("f", base[1]))
                merged["lm_head.weight"] = base
                self.add(merged, EMBEDDING + ".weight", left, right, 1.0)
                folder = self.adapter(name, {"target_modules": ["embed_tokens"]}, {**tensors, beside: base})
                self.expect_merged(merged, "--lora", f"{folder}:0.5", **QUICK)

    def test_the_first_pattern_that_fits_counts(self):
        tensors = {**self.linear(QUERY, 2), **self.linear(DOWN, 2)}
        cases = (({"self_attn.q_proj": 16, "q_proj": 1}, 8.0, 2.0), ({"q_proj": 1, "self_attn.q_proj": 16}, 0.5, 2.0),
                 ({"z.*": 1, "[a-q]_proj": 16, ".*": 8}, 8.0, 4.0), ({"^model.layers.0.self_attn.q_proj$": 16, "^q_proj|down_x": 1}, None, None))
        for i, (pattern, query, down) in enumerate(cases):
            with self.subTest(pattern=pattern):
                folder = self.adapter(str(i), {"alpha_pattern": pattern}, tensors)
                if query is None:
                    self.refused("a pattern that is not read", "--lora", folder)
                    continue
                merged = self.copy()
                for module, scale in ((QUERY, query), (DOWN, down)):
                    self.add(merged, module + ".weight", tensors[f"{PREFIX}{module}.lora_B.weight"],
                             tensors[f"{PREFIX}{module}.lora_A.weight"], scale)
                self.expect_merged(merged, "--lora", folder, **QUICK)

    def test_what_changed_the_base_is_refused_and_what_did_not_is_merged(self):
        tensors = self.linear(QUERY, 2)
        for init in ("pissa", "pissa_niter_4", "olora", "corda", "loftq", "lora_ga", "OLoRA", "of_tomorrow", 1):
            with self.subTest(init=init):
                self.refused("init_lora_weights", "--lora", self.adapter(f"bad_{init}", {"init_lora_weights": init}, tensors))
        for init in (True, False, None, "gaussian", "Gaussian", "eva", "orthogonal", "mica"):
            with self.subTest(init=init):
                made, _ = self.convert(cli.DEMO, "a.cria", "--lora", self.adapter(f"good_{init}", {"init_lora_weights": init}, tensors))
                self.assertEqual(made.returncode, cli.DONE, made.stderr)

    def test_wrappers_of_an_adapted_model_are_passed_over(self):
        tensors = self.linear(QUERY, 2)
        merged = self.copy()
        self.add(merged, QUERY + ".weight", tensors[f"{PREFIX}{QUERY}.lora_B.weight"], tensors[f"{PREFIX}{QUERY}.lora_A.weight"], 2.0)
        wrapped = {name.replace(PREFIX, PREFIX + "_orig_mod."): tensor for name, tensor in tensors.items()}
        self.expect_merged(merged, "--lora", self.adapter("a", {}, wrapped), **QUICK)

    def test_what_is_no_sum_of_this_model_is_refused(self):
        good = self.linear(QUERY, 2)
        a, b = f"{PREFIX}{QUERY}.lora_A.weight", f"{PREFIX}{QUERY}.lora_B.weight"
        nan = (good[a][0], [float("nan")] + good[a][1][1:])
        cases = (
            ("peft_type", {"peft_type": "IA3"}, good), ("use_dora", {"use_dora": True}, good),
            ("fan_in_fan_out", {"fan_in_fan_out": True}, good), ("rank 2", {"r": 3}, good),
            ("one of its two factors", {}, {a: good[a]}), ("do not fit", {}, {a: good[a], b: self.factors(64, 3)}),
            ("does not have", {}, {k.replace("layers.0", "layers.99"): v for k, v in good.items()}),
            ("shape", {}, {a: self.factors(2, 8), b: good[b]}), ("no factor", {}, {**good, PREFIX + QUERY + ".bias": ([1], [0.0])}),
            ("lora_A.other.weight is no factor", {}, {k.replace(".weight", ".other.weight"): v for k, v in good.items()}),
            ("infinite", {}, {a: nan, b: good[b]}), ("pattern", {"rank_pattern": {"(?=q)q_proj|^k": 2}}, good),
            ("lora_bias", {"lora_bias": True}, good), ("use_qalora", {"use_qalora": True}, good),
            ("layer_replication", {"layer_replication": [[0, 1], [0, 2]]}, good), ("arrow_config", {"arrow_config": {"top_k": 3}}, good),
            ("trainable_token_indices", {"trainable_token_indices": {"embed_tokens": [1]}}, good),
            ("megatron_config", {"megatron_config": {"x": 1}}, good), ("use_bdlora", {"use_bdlora": {"nblocks": 2}}, good),
            ("velora_config", {"velora_config": {"x": 1}}, good), ("use_of_tomorrow", {"use_of_tomorrow": True}, good), ("more than 256", {"rank_pattern": {f"\\w{i}": 2 for i in range(257)}}, good),
            ("kasa_config", {"kasa_config": {"x": 1}}, good), ("monteclora_config", {"monteclora_config": {"x": 1}}, good),
            ("lora_alpha", {"lora_alpha": float("inf")}, good), ("Infinity", {"alpha_pattern": {"q_proj": float("inf")}}, good),
            ("lora_alpha", {"lora_alpha": "x"}, good), ("no tensors", {}, {}),
            ("target_parameters", {"target_parameters": ["x"]}, good), ("rank", {"r": 0}, good),
        )
        for i, (word, config, tensors) in enumerate(cases):
            with self.subTest(word=word):
                self.refused(word, "--lora", self.adapter(str(i), config, tensors))

    def test_more_patterns_than_can_be_compared_are_refused(self):
        tensors = {f"{PREFIX}model.layers.{i}.x.lora_{side}.weight": ([1, 1], [1.0]) for i in range(3000) for side in "AB"}
        folder = self.adapter("many", {"alpha_pattern": {f"m{i}": 1 for i in range(2000)}}, tensors)
        self.refused("3000 modules, and its config 2000 patterns", "--lora", folder)

    def test_folders_that_hold_no_adapter(self):
        empty = self.folder / "empty"
        empty.mkdir()
        self.refused("adapter_config.json", "--lora", empty)
        (empty / "adapter_config.json").write_text("{}")
        self.refused("adapter_model.safetensors", "--lora", empty)
        (empty / "adapter_model.bin").write_text("")
        self.refused("PyTorch", "--lora", empty)
        for wish in ("", ":", "nowhere", f"{empty}:x", f"{empty}:inf", f"{empty}:"):
            with self.subTest(wish=wish):
                self.refused("--lora", "--lora", wish, code=cli.USAGE)
        self.refused("nowhere", "--lora", "nowhere:1")
        good = self.adapter("good", {}, self.linear(QUERY, 2))
        self.refused("part of the checkpoint", "--lora", good, "--report", good / "adapter_config.json", code=cli.USAGE)


if __name__ == "__main__":
    unittest.main()
