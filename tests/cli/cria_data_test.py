"""Commands whose output programs read: info, verify, tokenize, logits, eval, bench."""
import array
import errno
import json
import math
import os
import re
import resource
import shutil
import struct
import subprocess
import tempfile
import unittest
from pathlib import Path

import cria_cli as cli

VOCAB = 2048
REFERENCE = Path(os.environ.get("CRIA_SHARED", cli.SOURCE.parent / "shared")) / "reference"


def logits(*arguments, model=None):
    """Rows of the file that cria logits writes, as bytes."""
    path = cli.folder() / "out.f32"
    result = cli.cria("logits", model or cli.model(), *arguments, "-o", path)
    if result.code != cli.DONE:
        raise AssertionError(result.err)
    data = path.read_bytes()
    path.unlink()
    return data


def highest_is_forgotten():
    """Whether this system lets a process's highest resident memory start again."""
    try:
        with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
            file.write("5")
    except OSError:
        return False
    return True


class Info(unittest.TestCase):
    def assert_sums(self, plan):
        """The sums that cria.h names, for any number of sessions and one workspace."""
        model, session, workspace = plan["model"], plan["session"], plan["workspace"]

        def sum_of(plan_part, *names):
            return sum(plan_part[name + "_bytes"] for name in names)

        self.assertEqual(model["total_bytes"], sum_of(model, "objects", "tokenizer", "weights", "backend"))
        self.assertEqual(session["total_bytes"], sum_of(session, "objects", "kv_cache", "history", "logits"))
        self.assertEqual(workspace["total_bytes"], sum_of(workspace, "objects", "backend") +
                         max(workspace[name + "_bytes"] for name in ("running", "sampling", "encoding")))
        self.assertEqual(plan["total_bytes"], model["total_bytes"] + plan["sessions"] * session["total_bytes"] +
                         max(workspace["total_bytes"], plan["loading_bytes"]))
        self.assertEqual(plan["weights_bytes"], model["weights_bytes"])
        self.assertEqual(plan["kv_cache_bytes"], plan["sessions"] * session["kv_cache_bytes"])
        self.assertEqual(plan["resident_bytes"], plan["total_bytes"] + plan["in_place_bytes"])

    def test_json_holds_the_model_and_the_plan(self):
        result = cli.cria("info", cli.model(), "--json", "--context", "100", "--kv", "f32", "--threads", "3")
        info = json.loads(result.out)
        self.assertEqual(info["file"], cli.model())
        self.assertEqual(info["model"]["file_bytes"], os.path.getsize(cli.model()))
        self.assertEqual(info["model"]["n_parameters"], 3803904)
        self.assertEqual(info["model"]["architecture"], "llama")
        self.assertEqual((info["model"]["weight_format"], info["model"]["group_size"]), ("int4", 32))
        self.assertEqual((info["model"]["max_context"], info["model"]["vocab_size"]), (512, VOCAB))
        self.assertTrue(info["model"]["tokenizer"])
        self.assertEqual(info["model"]["chat_template"], "own")
        self.assertEqual(info["config"]["context"], 100)
        # 5 layers, 2 KV heads of 32, keys and values of 4 bytes.
        self.assertEqual(info["memory_plan"]["kv_cache_bytes"], 5 * 2 * 32 * 2 * 4 * 100)
        k8v4 = json.loads(cli.cria("info", cli.model(), "--json", "--context", "128", "--kv", "k8v4").out)
        self.assertEqual(k8v4["config"]["kv"], "k8v4")
        # Keys of a byte with a scale of 4 bytes, values of half a byte with one of 2.
        self.assertEqual(k8v4["memory_plan"]["kv_cache_bytes"], 5 * 2 * (32 + 4 + 16 + 2) * 128)
        for plan in (info["memory_plan"], *filter(None, info["backend_plans"].values())):
            self.assertEqual(plan["sessions"], 1)
            self.assert_sums(plan)
        self.assertIsInstance(info["metadata"], dict)

    @unittest.skipUnless(REFERENCE.is_dir(), "no $CRIA_SHARED/reference")
    def test_layers_are_shown_by_their_mixer(self):
        for name, mixers, states in (("lfm2", ["short_convolution", "attention"], None),
                                     ("qwen3.5", ["delta_rule", "attention"], "4 of 16 x 16"),
                                     ("granite4-h", ["state_space", "attention"], "6 of 16 x 16"),
                                     ("deepseek-v3", ["latent_attention", "latent_attention"], None)):
            model = cli.converted(REFERENCE / "architectures" / name, "--no-tokenizer", "--weights-of", "q=int8")
            kinds = json.loads(cli.cria("info", model, "--json").out)["model"]["layer_kinds"]
            self.assertEqual([kind["mixer"] for kind in kinds], mixers)
            table = cli.cria("info", model).out
            shown = re.findall(r"(?m)^(mixer|states|heads) +(.*)$", table)
            wanted = []
            for kind in kinds:
                if kind["mixer"] != "attention":
                    wanted.append(("mixer", kind["mixer"]))
                if kind["n_states"]:
                    wanted.append(("states", f"{kind['n_states']} of {kind['key_dim']} x {kind['value_dim']}"))
                elif kind["n_heads"]:
                    wanted.append(("heads", f"{kind['n_heads']}, {kind['n_kv_heads']} for KV, of {kind['key_dim']}"))
            self.assertEqual(shown, wanted)
            self.assertEqual(dict(shown).get("states"), states)
            self.assertLessEqual(max(len(line) for line in re.findall(r"(?m)^(?:mixer|states|heads) .*$", table)), 40)

    @unittest.skipUnless(REFERENCE.is_dir(), "no $CRIA_SHARED/reference")
    def test_matrices_of_states_can_have_a_format_of_their_own(self):
        for name, matrices in (("qwen3.5", ("q", "k", "v", "mixer_gate", "o")), ("granite4-h", ("q", "k", "v", "mixer_gate", "o")),
                               ("lfm2", ("q", "k", "v", "o"))):
            options = [option for matrix in matrices for option in ("--weights-of", f"{matrix}=int8")]
            model = cli.converted(REFERENCE / "architectures" / name, "--no-tokenizer", *options)
            formats = {row["matrix"]: row["format"] for row in json.loads(cli.cria("info", model, "--json").out)["model"]["matrices"]}
            self.assertEqual({matrix: formats[matrix] for matrix in matrices}, dict.fromkeys(matrices, "int8"))

    def test_sessions_share_the_model_and_the_workspace(self):
        for backend in cli.backends():
            with self.subTest(backend=backend):
                model = cli.model(*cli.options_for(backend))
                one = cli.plan_for("--backend", backend, model=model)
                four = cli.plan_for("--backend", backend, "--sessions", "4", model=model)
                self.assertEqual((one["sessions"], four["sessions"]), (1, 4))
                self.assert_sums(four)
                self.assertEqual(four["model"], one["model"])
                self.assertEqual(four["session"], one["session"])
                self.assertEqual(four["loading_bytes"], one["loading_bytes"])
                # One workspace, with room for the logits of all four.
                running = one["workspace"]["running_bytes"]
                self.assertEqual(four["workspace"]["running_bytes"], running + 4 * VOCAB * 4)
                for part in ("objects", "backend", "sampling", "encoding"):
                    self.assertEqual(four["workspace"][part + "_bytes"], one["workspace"][part + "_bytes"])
                self.assertEqual(four["kv_cache_bytes"], 4 * one["kv_cache_bytes"])

    def test_the_table_counts_sessions_too(self):
        plan = cli.plan_for("--backend", "exact", "--sessions", "4")
        table = cli.cria("info", cli.model(), "--backend", "exact", "--sessions", "4").out
        self.assertIn("4 sessions of 512 tokens", table)
        for name in ("total_bytes", "kv_cache_bytes"):
            self.assertIn(f"{plan[name]:,}", table)
        self.assertNotIn("sessions of", cli.cria("info", cli.model(), "--sessions", "1").out)

    def test_numbers_of_sessions_that_cannot_be_are_a_usage_error(self):
        for sessions in ("0", "-1", "1025", "two"):
            self.assertEqual(cli.cria("info", cli.model(), "--sessions", sessions).code, cli.USAGE, sessions)

    def test_the_chosen_backend_decides_the_plan(self):
        plans = {}
        for backend in ("auto", *cli.backends()):
            model = cli.model("--scales", "positive")
            info = json.loads(cli.cria("info", model, "--json", "--backend", backend).out)
            plans[backend] = info["memory_plan"]
            if backend != "auto":
                self.assertEqual(info["backend_plans"][backend], plans[backend])
        self.assertIn(plans.pop("auto"), plans.values())

    def test_an_uncompressed_file_is_used_in_place(self):
        stored = cli.model("--compress", "none")
        mapped = cli.plan_for("--backend", "exact", model=stored)
        copied = cli.plan_for("--backend", "exact", "--no-mmap", model=stored)
        self.assert_sums(mapped)
        self.assert_sums(copied)
        self.assertGreater(mapped["in_place_bytes"], 0)
        self.assertEqual(copied["in_place_bytes"], 0)
        # What is used where it lies is the model's alone: session and workspace are the same.
        self.assertEqual(mapped["in_place_bytes"], copied["model"]["total_bytes"] - mapped["model"]["total_bytes"])
        self.assertEqual(mapped["session"], copied["session"])
        self.assertEqual(mapped["workspace"], copied["workspace"])
        self.assertGreater(copied["total_bytes"], mapped["total_bytes"])

    def test_the_table_names_the_same_total(self):
        total = cli.plan_for("--backend", "exact")["total_bytes"]
        table = cli.cria("info", cli.model(), "--backend", "exact").out
        self.assertIn(f"{total:,}", table)
        self.assertNotIn("xnnpack", table)


class SignedScales(unittest.TestCase):
    def test_are_for_exact_alone(self):
        info = json.loads(cli.cria("info", cli.model(), "--json").out)
        self.assertTrue(info["model"]["signed_scales"])
        self.assertIsNone(info["backend_plans"]["xnnpack"])
        refused = cli.cria("run", cli.model(), "-p", "a", "--backend", "xnnpack")
        self.assertEqual((refused.code, refused.out), (cli.BAD_INPUT, ""))
        self.assertIn("--scales positive", refused.err)
        self.assertEqual(refused.err.count("\n"), 1)
        positive = json.loads(cli.cria("info", cli.model("--scales", "positive"), "--json").out)
        self.assertFalse(positive["model"]["signed_scales"])


class Int8G32(unittest.TestCase):
    def test_is_for_exact_alone(self):
        for options, weights in ((("--weights", "int8g32"), "int8g32"),
                                 (("--scales", "positive", "--weights-of", "embedding=int8g32"), "int4")):
            with self.subTest(options=options):
                model = cli.model(*options)
                info = json.loads(cli.cria("info", model, "--json").out)
                self.assertEqual(info["model"]["weight_format"], weights)
                self.assertEqual(info["model"]["embedding_format"], "int8g32")
                formats = {row["matrix"]: (row["format"], row["group_size"], row["count"]) for row in info["model"]["matrices"]}
                self.assertEqual(formats["embedding"], ("int8g32", 32, 1))
                self.assertEqual(formats["down"], (weights, 32, 5))
                table = cli.cria("info", model).out
                self.assertRegex(table, r"(?m)^embedding +int8g32")
                self.assertEqual(bool(re.search(r"(?m)^down +int4 g32$", table)), weights == "int4")
                self.assertEqual(info["model"]["group_size"], 32)
                self.assertFalse(info["model"]["signed_scales"])
                self.assertIsNone(info["backend_plans"]["xnnpack"])
                refused = cli.cria("run", model, "-p", "a", "--backend", "xnnpack")
                self.assertEqual((refused.code, refused.out), (cli.BAD_INPUT, ""))
                self.assertIn("XNNPACK does not support int8g32", refused.err)
                self.assertEqual(cli.cria("run", model, "-p", "a", "-n", "2").code, cli.DONE)


class Verify(unittest.TestCase):
    def test_says_good(self):
        result = cli.cria("verify", cli.model())
        self.assertEqual(result.code, cli.DONE)
        self.assertIn("good", result.out)
        self.assertEqual(result.err, "")


class Tokenize(unittest.TestCase):
    def test_gives_the_ids_of_the_reference(self):
        compared = 0
        for row in cli.golden():
            if not isinstance(row["prompt"], str):
                continue
            result = cli.cria("tokenize", cli.model(), "--special", stdin=row["prompt"])
            self.assertEqual(result.out, " ".join(map(str, row["prompt_ids"])) + "\n")
            self.assertEqual(cli.cria("tokenize", cli.model(), "-", stdin=row["prompt"]).out.split(),
                             [str(token) for token in row["prompt_ids"][1:]])
            compared += 1
        self.assertGreater(compared, 0)

    def test_a_whole_file_is_one_text(self):
        path = cli.folder() / "two.txt"
        path.write_text("Once upon a time\n\nthere was a fox.\n")
        from_file = cli.cria("tokenize", cli.model(), path)
        self.assertEqual(from_file.out, cli.cria("tokenize", cli.model(), stdin=path.read_bytes()).out)
        self.assertEqual(from_file.out.count("\n"), 1)
        self.assertEqual(cli.cria("tokenize", cli.model(), stdin="").out, "\n")

    def test_special_tokens_are_parsed_only_when_asked(self):
        text = "<|eot_id|>"
        self.assertEqual(cli.cria("tokenize", cli.model(), "--parse-special", stdin=text).out, "2046\n")
        self.assertNotIn("2046", cli.cria("tokenize", cli.model(), stdin=text).out.split())

    def test_long_texts_and_any_bytes_are_taken(self):
        text = (cli.DEMO / "heldout_plain.txt").read_bytes()
        result = cli.cria("tokenize", cli.model(), stdin=text)
        self.assertEqual(result.code, cli.DONE, result.err)
        self.assertGreater(len(result.out.split()), 1000)
        self.assertEqual(cli.cria("tokenize", cli.model(), stdin=bytes(range(256)) * 20).code, cli.DONE)


class Logits(unittest.TestCase):
    def test_the_file_has_a_row_for_every_id(self):
        data = logits("--ids", "1,5,9")
        self.assertEqual(len(data), 3 * VOCAB * 4)
        self.assertTrue(all(map(math.isfinite, struct.unpack(f"<{3 * VOCAB}f", data))))

    def test_they_are_those_of_the_reference(self):
        row = cli.golden()[0]
        data = logits("--ids", ",".join(map(str, row["prompt_ids"])), "--kv", "f32", model=cli.model("--weights", "f32"))
        last = struct.unpack(f"<{VOCAB}f", data[-VOCAB * 4:])
        for token, wanted in zip(row["top5_ids"], row["top5_logits"]):
            self.assertLess(abs(last[token] - wanted), 1e-4 * (1 + abs(wanted)))

    def test_threads_chunks_contexts_and_compression_change_no_bit(self):
        ids = ",".join(str(token * 37 % VOCAB) for token in range(70))
        wanted = logits("--ids", ids, "--backend", "exact")
        self.assertEqual(len(wanted), 70 * VOCAB * 4)
        for options in (("--threads", "2"), ("--threads", "3"), ("--prefill-chunk", "1"), ("--prefill-chunk", "7"),
                        ("--prefill-chunk", "70"), ("--context", "70"), ("--context", "512"), ("--no-mmap",)):
            self.assertEqual(logits("--ids", ids, "--backend", "exact", *options), wanted, options)
        self.assertEqual(logits("--ids", ids, "--backend", "exact", model=cli.model("--compress", "none")), wanted)

    def test_text_is_encoded_with_special_tokens(self):
        text = "Once upon a time"
        ids = cli.cria("tokenize", cli.model(), "--special", stdin=text).out.split()
        self.assertEqual(logits("--text", text), logits("--ids", ",".join(ids)))

    def test_minus_writes_to_standard_output(self):
        result = cli.cria("logits", cli.model(), "--ids", "7", "-o", "-")
        self.assertEqual(result.raw, logits("--ids", "7"))

    def test_a_failure_leaves_no_file(self):
        path = cli.folder() / "none.f32"
        result = cli.cria("logits", cli.model(), "--ids", "1,2,3", "--context", "2", "-o", path)
        self.assertEqual(result.code, cli.BAD_INPUT)
        self.assertEqual(list(cli.folder().glob("none.f32*")), [])


class Eval(unittest.TestCase):
    @unittest.skipIf(cli.IS_EMULATED, "minutes of emulation; the next test has a part of the text")
    def test_perplexity_is_that_of_the_reference(self):
        wanted = json.loads((cli.DEMO / "eval.json").read_text())["f32"]["heldout"]
        result = cli.cria("eval", cli.model("--weights", "f32"), "--text", cli.DEMO / "heldout.txt", "--json", "--kv", "f32")
        self.assertEqual(result.code, cli.DONE, result.err)
        got = json.loads(result.out)
        self.assertEqual(got["documents"], wanted["documents"])
        self.assertEqual(got["tokens"], wanted["tokens"])
        # eval.json gives five digits.
        self.assertAlmostEqual(got["mean_nll"], wanted["mean_nll"], delta=2e-5)
        self.assertAlmostEqual(got["perplexity"], math.exp(got["mean_nll"]), delta=1e-9)

    def test_exact_gives_the_same_number_on_every_target(self):
        text = cli.folder() / "part.txt"
        text.write_bytes((cli.DEMO / "heldout.txt").read_bytes()[:6000])
        for options, wanted in (((), 0.5179422111391091), (("--weights", "f32"), 0.5195188069157701)):
            kv = "f32" if options else "int8"
            result = cli.cria("eval", cli.model(*options), "--text", text, "--json", "--kv", kv, "--backend", "exact")
            got = json.loads(result.out)
            self.assertEqual((got["documents"], got["tokens"]), (14, 1090))
            # The logits are the same to the bit; exp and log are the C library's.
            self.assertAlmostEqual(got["mean_nll"], wanted, delta=1e-12)

    def test_halves_score_what_follows_the_middle_of_each_window(self):
        text = cli.folder() / "halves.txt"
        text.write_bytes((cli.DEMO / "heldout.txt").read_bytes()[:1500])
        options = ("--context", "32", "--protocol", "halves", "--json")
        got = json.loads(cli.cria("eval", cli.model(), "--text", text, *options).out)
        ids = [int(i) for i in cli.cria("tokenize", cli.model(), "--special", text).out.split()]
        wanted = []
        for begin in range(0, len(ids) - 31, 32):
            window = [ids[0]] + ids[begin + 1:begin + 32]
            path = cli.folder() / "halves.f32"
            named = ",".join(str(i) for i in window)
            self.assertEqual(cli.cria("logits", cli.model(), "--ids", named, "-o", path).code, cli.DONE)
            values = array.array("f", path.read_bytes())
            size = len(values) // 32
            for i in range(17, 32):
                row = values[(i - 1) * size:i * size]
                top = max(row)
                wanted.append(top + math.log(sum(math.exp(v - top) for v in row)) - row[window[i]])
        self.assertEqual(got["tokens"], len(wanted))
        mean = sum(wanted) / len(wanted)
        self.assertAlmostEqual(got["mean_nll"], mean, delta=1e-6)
        error = math.sqrt(sum((v - mean) ** 2 for v in wanted) / (len(wanted) - 1) / len(wanted))
        self.assertAlmostEqual(got["perplexity_error"], got["perplexity"] * error, delta=1e-5)

    def test_ids_are_measured_as_their_text(self):
        text = cli.folder() / "ids.txt"
        text.write_text("Once upon a time, there was a young owl. He lived in a small village.")
        ids = cli.folder() / "ids.ids"
        ids.write_text(cli.cria("tokenize", cli.model(), text).out)
        by_text = json.loads(cli.cria("eval", cli.model(), "--text", text, "--json").out)
        by_ids = json.loads(cli.cria("eval", cli.model(), "--ids", ids, "--json").out)
        self.assertEqual(by_ids["mean_nll"], by_text["mean_nll"])
        self.assertEqual(by_ids["tokens"], by_text["tokens"])
        for content, word in (("1 2\n3 x\n", "line 2 is not a list"), ("1\n99999999\n", "line 2 has a token id that is not below"),
                              ("-1", "line 1 is not a list"), ("", "no tokens"), ("99999999999999", "line 1 has a token id that"),
                              ("1 2 3\0 4\n", "line 1 is not a list of token ids; give numbers")):
            ids.write_text(content)
            result = cli.cria("eval", cli.model(), "--ids", ids)
            self.assertEqual(result.code, cli.BAD_INPUT, content)
            self.assertIn(f"{ids}: ", result.err)
            self.assertIn(word, result.err)
        ids.write_text("1\n")
        self.assertIsNone(json.loads(cli.cria("eval", cli.model(), "--ids", ids, "--json").out)["perplexity_error"])
        for options in ((), ("--text", text, "--ids", ids)):
            self.assertEqual(cli.cria("eval", cli.model(), *options).code, cli.USAGE)
        short = cli.cria("eval", cli.model(), "--text", text, "--protocol", "halves", "--context", "256")
        self.assertEqual(short.code, cli.BAD_INPUT)
        self.assertIn("longer text", short.err)

    def test_a_model_agrees_with_itself(self):
        text = cli.folder() / "short.txt"
        text.write_text("Once upon a time, there was a young owl. He lived in a small village.")
        f32 = cli.model("--weights", "f32")
        result = json.loads(cli.cria("eval", f32, "--text", text, "--reference", f32, "--json").out)
        self.assertEqual(result["reference"]["top1_agreement"], 1.0)
        self.assertLess(abs(result["reference"]["mean_kl"]), 1e-9)
        self.assertEqual(result["reference"]["perplexity"], result["perplexity"])
        table = cli.cria("eval", cli.model(), "--text", text, "--reference", f32)
        self.assertIn("KL divergence", table.out)
        self.assertEqual(table.code, cli.DONE)

    def test_a_reference_has_the_model_s_tokens(self):
        text = cli.folder() / "short.txt"
        text.write_text("Once upon a time, there was a young owl.")
        source = cli.folder() / "other_tokens"
        shutil.copytree(cli.DEMO, source)
        path = source / "tokenizer.json"
        tokenizer = json.loads(path.read_text())
        vocabulary = tokenizer["model"]["vocab"]
        first, second = sorted(vocabulary, key=vocabulary.get)[-2:]
        vocabulary[first], vocabulary[second] = vocabulary[second], vocabulary[first]
        path.chmod(0o644)
        path.write_text(json.dumps(tokenizer))
        swapped = cli.converted(source)
        for pair in ((cli.model(), swapped), (swapped, cli.model())):
            result = cli.cria("eval", pair[0], "--text", text, "--reference", pair[1])
            self.assertEqual((result.code, result.out), (cli.BAD_INPUT, ""))
            self.assertIn(f"{pair[1]}: its tokenizer differs from {pair[0]}'s at token {vocabulary[second]}; ", result.err)
        # Nothing is to be compared where one has no tokenizer.
        without = cli.converted(cli.DEMO, "--no-tokenizer")
        self.assertEqual(cli.cria("eval", cli.model(), "--text", text, "--reference", without).code, cli.DONE)
        ids = cli.folder() / "reference.ids"
        ids.write_text("1 2 3")
        self.assertEqual(cli.cria("eval", without, "--ids", ids, "--reference", cli.model()).code, cli.DONE)

    def test_a_reference_may_have_a_shorter_context(self):
        text = cli.folder() / "short.txt"
        text.write_text("Once upon a time, there was a young owl. " * 20)
        source = cli.folder() / "short_context"
        shutil.copytree(cli.DEMO, source)
        config = json.loads((source / "config.json").read_text())
        (source / "config.json").chmod(0o644)
        (source / "config.json").write_text(json.dumps({**config, "max_position_embeddings": 64}))
        short = cli.converted(source, "--weights", "f32")
        for pair in ((cli.model(), short), (short, cli.model())):
            result = cli.cria("eval", pair[0], "--text", text, "--reference", pair[1], "--json")
            self.assertEqual(result.code, cli.DONE, result.err)
            self.assertEqual(json.loads(result.out)["window_tokens"], 64)
        asked = cli.cria("eval", cli.model(), "--text", text, "--reference", short, "--context", "128")
        self.assertEqual(asked.code, cli.USAGE)

    def test_a_kv_format_is_compared_with_another(self):
        text = cli.folder() / "short.txt"
        text.write_text("Once upon a time, there was a young owl. He lived in a small village.")
        f32 = cli.model("--weights", "f32")

        def divergence(kv, of_reference):
            result = cli.cria("eval", f32, "--text", text, "--reference", f32, "--kv", kv, "--reference-kv", of_reference, "--json")
            return json.loads(result.out)["reference"]["mean_kl"]

        self.assertLess(abs(divergence("k8v4", "k8v4")), 1e-9)
        int8, k8v4 = divergence("int8", "f32"), divergence("k8v4", "f32")
        self.assertGreater(int8, 1e-9)
        self.assertGreater(k8v4, 3 * int8)
        self.assertLess(k8v4, 0.005)
        self.assertEqual(cli.cria("eval", f32, "--text", text, "--reference-kv", "f32").code, cli.USAGE)

    def test_windows_are_as_long_as_the_context(self):
        text = cli.DEMO / "heldout_plain.txt"
        short = cli.folder() / "part.txt"
        short.write_bytes(text.read_bytes()[:3000])
        tokens = len(cli.cria("tokenize", cli.model(), short).out.split())
        for context in (2, 17, 64):
            result = json.loads(cli.cria("eval", cli.model(), "--text", short, "--context", context, "--json").out)
            self.assertEqual(result["tokens"], tokens)
            self.assertEqual(result["windows"], math.ceil(tokens / (context - 1)))

    def test_texts_without_tokens_are_bad_input(self):
        self.assertEqual(cli.cria("eval", cli.model(), "--text", "-", stdin="").code, cli.BAD_INPUT)


class Bench(unittest.TestCase):
    def test_json_has_a_result_for_each_number_of_threads(self):
        result = cli.cria("bench", cli.model(), "-p", "4,8", "-n", "3", "--threads", "1,2", "-r", "2", "--json")
        self.assertEqual(result.code, cli.DONE, result.err)
        bench = json.loads(result.out)
        self.assertEqual([row["threads"] for row in bench["results"]], [1, 2])
        for row in bench["results"]:
            self.assertEqual([speed["tokens"] for speed in row["prefill"]], [4, 8])
            for speed in (*row["prefill"], row["decode"]):
                spread = speed["tokens_per_second"]
                self.assertLess(0, spread["min"])
                self.assertLessEqual(spread["min"], spread["median"])
                self.assertLessEqual(spread["median"], spread["max"])
            self.assertGreater(row["decode"]["bytes_per_token"], 2_000_000)
            self.assertGreater(row["read_bytes_per_second"], 1_000_000)
            self.assertLessEqual(row["open_seconds"], row["first_token_seconds"])
        first, second = (row["peak_resident_bytes"] for row in bench["results"])
        self.assertTrue(1_000_000 < first < 100_000_000, first)
        # The buffer of the plain reads, 256 MB, is not counted as the model's; a sanitizer keeps notes of an eighth of it.
        notes = (256 << 20) // 8 if cli.IS_SANITIZED else 0
        if highest_is_forgotten():
            self.assertTrue(1_000_000 < second < 100_000_000 + notes, second)
        else:
            self.assertIsNone(second)

    def test_depths_stand_behind_tokens(self):
        options = ("-p", "4,9", "-n", "3", "--threads", "2", "-r", "2")
        result = cli.cria("bench", cli.model(), *options, "--depth", "100,0,7", "--json")
        self.assertEqual(result.code, cli.DONE, result.err)
        row, = json.loads(result.out)["results"]
        self.assertEqual([behind["depth"] for behind in row["depths"]], [100, 0, 7])
        self.assertEqual(row["decode"], row["depths"][0]["decode"])
        self.assertEqual(row["prefill"], row["depths"][0]["prefill"])
        for behind in row["depths"]:
            self.assertEqual([speed["tokens"] for speed in behind["prefill"]], [4, 9])
            for speed in (*behind["prefill"], behind["decode"]):
                self.assertLess(0, speed["tokens_per_second"]["min"])
        # A decoded token reads the KV cache of what stands before it: the depth and half of n.
        at_hundred, at_zero, at_seven = (behind["decode"]["kv_bytes_per_token"] for behind in row["depths"])
        self.assertEqual(at_hundred, 101 * at_zero)
        self.assertEqual(at_seven, 8 * at_zero)
        self.assertIn("after 100 tokens", cli.cria("bench", cli.model(), *options, "--depth", "100").out)

    def test_the_example_of_the_help_runs(self):
        example = cli.cria("bench", "--help").out.split("Example: cria ")[1].split()
        done = cli.cria(*(cli.model() if word == "demo.cria" else word for word in example), "-r", "1")
        self.assertEqual(done.code, cli.DONE, done.err)

    def test_a_depth_takes_room_in_the_context(self):
        options = ("-p", "4", "-n", "3", "-r", "1", "--context", "32")
        self.assertEqual(cli.cria("bench", cli.model(), *options, "--depth", "28").code, cli.DONE)
        # The last token decoded is not read.
        exact = ("-p", "4", "-n", "4", "-r", "1", "--context", "32", "--depth", "28")
        self.assertEqual(cli.cria("bench", cli.model(), *exact).code, cli.DONE)
        refused = cli.cria("bench", cli.model(), *options, "--depth", "29")
        self.assertEqual((refused.code, refused.out), (cli.USAGE, ""))
        self.assertIn("--depth", refused.err)
        # The usual prompts become as short as the room that is left.
        result = cli.cria("bench", cli.model(), "-n", "3", "-r", "1", "--depth", "500", "--json")
        self.assertEqual(result.code, cli.DONE, result.err)
        self.assertEqual([speed["tokens"] for speed in json.loads(result.out)["results"][0]["prefill"]], [12])

    def test_sessions_decode_together(self):
        options = ("-p", "4", "-n", "3", "--threads", "2", "-r", "2", "--backend", "exact")
        result = cli.cria("bench", cli.model(), *options, "--sessions", "1,3", "--json")
        self.assertEqual(result.code, cli.DONE, result.err)
        row, = json.loads(result.out)["results"]
        self.assertEqual([speed["sessions"] for speed in row["sessions"]], [1, 3])
        for speed in row["sessions"]:
            spread = speed["tokens_per_second"]
            self.assertLess(0, spread["min"])
            self.assertLessEqual(spread["min"], spread["median"])
            self.assertLessEqual(spread["median"], spread["max"])
        plan = cli.plan_for("--backend", "exact", "--threads", "2", "--sessions", "3")
        self.assertEqual(row["memory_plan_bytes"], plan["total_bytes"])
        alone = json.loads(cli.cria("bench", cli.model(), *options, "--json").out)["results"][0]
        self.assertNotIn("sessions", alone)
        self.assertLess(alone["memory_plan_bytes"], row["memory_plan_bytes"])
        self.assertIn("3 sessions", cli.cria("bench", cli.model(), *options, "--sessions", "3").out)

    @unittest.skipIf(cli.IS_SANITIZED or cli.IS_EMULATED, "sanitizers and emulators read what such a process may not")
    def test_a_peak_that_the_system_does_not_forget_is_not_said_again(self):
        """A program that its user may not read may not write what forgets the highest. Its second row is after plain reads."""
        with tempfile.TemporaryDirectory() as folder:
            program, model = Path(folder) / "cria", Path(folder) / "demo.cria"
            shutil.copy(cli.CRIA, program)
            shutil.copy(cli.model(), model)
            model.chmod(0o644)
            program.chmod(0o111)
            Path(folder).chmod(0o711)
            other = {"user": 65534, "group": 65534, "extra_groups": []} if os.getuid() == 0 else {}
            for option in ((), ("--json",)):
                command = [program, "bench", model, "-p", "4", "-n", "2", "-r", "1", "--threads", "1,1", *option]
                try:
                    done = subprocess.run(command, capture_output=True, text=True, timeout=cli.PATIENCE_S, cwd="/", **other)
                except OSError as error:
                    if error.errno not in (errno.EACCES, errno.EPERM, errno.EINVAL):  # the last: no such user in this namespace
                        raise
                    self.skipTest("no program of this folder runs here, or none as another user")
                self.assertEqual(done.returncode, cli.DONE, done.stderr)
                if option:
                    first, second = (row["peak_resident_bytes"] for row in json.loads(done.stdout)["results"])
                    self.assertLess(first, 100_000_000)
                    self.assertIsNone(second)
                else:
                    self.assertEqual(done.stdout.count("  peak resident unknown: "), 1)

    def test_no_memory_to_measure_plain_reads_costs_only_that_figure(self):
        if cli.IS_SANITIZED or cli.IS_EMULATED:
            self.skipTest("sanitizers and emulators need more address space than any limit here")
        command = [cli.CRIA, "bench", cli.model(), "-p", "4", "-n", "2", "-r", "1", "--threads", "1"]

        def narrow():
            resource.setrlimit(resource.RLIMIT_AS, (200_000_000, 200_000_000))  # plain reads want 256 MB
        for option, figure in (([], "no memory to measure plain reads"), (["--json"], '"read_bytes_per_second": null')):
            done = subprocess.run([*command, *option], preexec_fn=narrow, capture_output=True, text=True, timeout=cli.PATIENCE_S)
            self.assertEqual(done.returncode, cli.DONE, done.stderr)
            self.assertIn(figure, done.stdout)

    def test_lengths_that_do_not_fit_are_a_usage_error(self):
        many = cli.cria("bench", cli.model(), "-p", "513", "-n", "1")
        self.assertEqual(many.code, cli.USAGE)
        self.assertIn("give fewer tokens, the model takes no more", many.err)
        self.assertEqual(cli.cria("bench", cli.model(), "-p", "8", "-n", "600").code, cli.USAGE)
        few = cli.cria("bench", cli.model(), "-p", "200", "-n", "1", "--context", "128")
        self.assertIn("give fewer tokens or a larger --context", few.err)

    def test_xnnpack_is_not_given_the_name_of_other_kernels(self):
        command = ["bench", cli.model("--weights", "int8"), "-p", "4", "-n", "2", "-r", "1", "--isa", "scalar", "--backend"]
        told = {"exact": ", exact, scalar kernels\n", "xnnpack": ", xnnpack, scalar kernels elsewhere\n"}
        for backend in cli.backends():
            self.assertIn(told[backend], cli.cria(*command, backend).out)


if __name__ == "__main__":
    cli.main()
