#!/usr/bin/env python3
"""cria-convert from outside: exit codes, one line for an error, quiet and report, terminal and interruption."""

import fcntl
import json
import os
import pty
import random
import re
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
import unittest
from pathlib import Path

ROOT = Path(os.environ.get("CRIA_SOURCE_DIR", Path(__file__).resolve().parents[2]))
BIN = Path(os.environ.get("CRIA_BIN_DIR", ROOT / "build/release/bin"))
CONVERT = BIN / "cria-convert"
sys.path.insert(0, str(ROOT / "tests/tools"))
import make_random_checkpoint  # noqa: E402
from cria_reader.model_file import ModelFile, verdict  # noqa: E402
from cria_reader.refusal import OK  # noqa: E402
from cria_reader.zstd_frame import have_zstd  # noqa: E402

import cria_cli as cli  # noqa: E402

USAGE, INVALID, IO = 2, 3, 4
SMALL = ["--d-model", "64", "--layers", "1", "--heads", "4", "--kv-heads", "2", "--ffn", "100", "--vocab", "70"]
LARGE = ["--d-model", "1024", "--layers", "2", "--heads", "16", "--kv-heads", "4", "--ffn", "4096", "--vocab", "32000"]
if cli.IS_EMULATED:  # still long enough to be disturbed, and larger than the small disk
    LARGE = ["--d-model", "512", "--layers", "1", "--heads", "8", "--kv-heads", "4", "--ffn", "2048", "--vocab", "8000"]


def run(*arguments, **options):
    return subprocess.run([CONVERT, *map(str, arguments)], capture_output=True, text=True, timeout=cli.PATIENCE_S,
                          check=False, **options)


class Base(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.models = tempfile.TemporaryDirectory()
        cls.model = Path(cls.models.name) / "small"
        make_random_checkpoint.main([str(cls.model), *SMALL])

    @classmethod
    def tearDownClass(cls):
        cls.models.cleanup()

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.output = self.folder / "m.cria"

    def convert(self, *arguments, **options):
        return run(self.model, "-o", self.output, "--no-tokenizer", *arguments, **options)

    def assert_refused(self, done, code, *words):
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertEqual(done.stdout, "")
        self.assertRegex(done.stderr, r"\Acria-convert: error: [^\n]+\n\Z")
        for word in words:
            self.assertIn(word, done.stderr)
        self.assertEqual(os.listdir(self.folder), [])


class Usage(Base):
    def test_help_and_version_go_to_standard_output(self):
        done = run("--help")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        for option in ("--plan", "--weights", "--weights-of", "--group-size", "--method", "--scales", "--calibration", "--calibration-tokens",
                       "--lora", "--context", "--no-tokenizer", "--compress", "--level",
                       "--report", "--threads", "--quiet", "--list-architectures"):
            self.assertIn(option, done.stdout)
        self.assertNotRegex(done.stdout, r"\b(U?INT|FLOAT|TEXT)\b")  # the option library's words
        for later in ("--rotate", "--tune"):
            self.assertNotIn(later, done.stdout)
        done = run("--version")
        version = re.search(r"project\(cria VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text()).group(1)
        self.assertEqual(done.stdout, f"cria-convert {version}\n")

    def test_an_option_without_its_value_is_refused_by_name(self):
        plain = {"--plan", "--no-tokenizer", "--quiet", "--list-architectures", "--version", "--help"}
        options = sorted(set(re.findall(r"--[a-z-]+", run("--help").stdout)) - plain)
        self.assertLess(8, len(options), options)
        for option in options:
            with self.subTest(option=option):
                done = run("model", *([] if option == "--output" else ["-o", "m.cria"]), option, "")
                self.assertEqual((done.returncode, done.stdout), (USAGE, ""), done.stderr)
                self.assertRegex(done.stderr, rf"\Acria-convert: error: [^\n]*{option}: [^\n]+\n\Z")
        for arguments in (("", "-o", "m.cria"), ("", "--plan")):
            done = run(*arguments)
            self.assertEqual((done.returncode, done.stdout), (USAGE, ""))
            self.assertIn("MODEL: must not be empty", done.stderr)

    def test_the_list_of_architectures_stands_alone(self):
        for surplus, named in ((["foo"], "MODEL"), (["foo", "bar"], "bar"), (["--plan"], "--plan"), (["-o", "m.cria"], "--output")):
            for arguments in (["--list-architectures", *surplus], [*surplus, "--list-architectures"]):
                done = run(*arguments)
                self.assertEqual((done.returncode, done.stdout), (USAGE, ""), arguments)
                self.assertRegex(done.stderr, rf"\Acria-convert: error: [^\n]*{named}[^\n]*\n\Z")
        self.assertIn("MODEL is required", run().stderr)

    def test_the_architectures_are_listed_without_a_model(self):
        done = run("--list-architectures")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        lines = done.stdout.splitlines()
        for line, parts in zip(lines, (("Llama", "LlamaForCausalLM", "Falcon3"), ("Mistral",), ("Granite",),
                                       ("Qwen2ForCausalLM", "Qwen2.5"), ("Qwen3ForCausalLM",), ("SmolLM3",),
                                       ("Phi3ForCausalLM", "Phi-4-mini"), ("GraniteMoeHybridForCausalLM", "tiny-h"),
                                       ("GPT2LMHeadModel", "DistilGPT-2"), ("MixtralForCausalLM",), ("Qwen2MoeForCausalLM",),
                                       ("Qwen3MoeForCausalLM",), ("OlmoeForCausalLM",), ("GraniteMoeForCausalLM",),
                                       ("DeepseekV2ForCausalLM", "V2-Lite"), ("DeepseekV3ForCausalLM",), ("MiniCPMForCausalLM",),
                                       ("Ministral3ForCausalLM",), ("Ernie4_5ForCausalLM", "dense"), ("Exaone4ForCausalLM",),
                                       ("Olmo2ForCausalLM",), ("Olmo3ForCausalLM",), ("BitNetForCausalLM",),
                                       ("Gemma2ForCausalLM",), ("Gemma3ForCausalLM", "270M"),
                                       ("Lfm2ForCausalLM", "1.2B"), ("Lfm2MoeForCausalLM", "8B-A1B"), ("Qwen3_5ForCausalLM",),
                                       ("Qwen3_5MoeForCausalLM",), ("Qwen3NextForCausalLM",), ("Gemma4ForCausalLM", "E2B")), strict=True):
            for part in parts:
                self.assertIn(part, line)

    def test_an_architecture_that_is_not_read_is_refused_with_the_list(self):
        other = Path(self.models.name) / "other"
        other.mkdir(exist_ok=True)
        (other / "config.json").write_text(json.dumps({"architectures": ["PhiMoEForCausalLM"], "model_type": "phimoe"}))
        self.assert_refused(run(other, "-o", self.output), INVALID, "PhiMoEForCausalLM", "mixture of experts",
                            "this converter reads Llama, Mistral, Granite, Qwen2, Qwen3, SmolLM3, Phi-3, Granite 4, GPT-2, Mixtral")

    def test_mistakes_are_usage_errors(self):
        for arguments, word in (([], "MODEL"), ([self.model], "--plan"), ([self.model, "-o", self.output, "--frob"], "--frob")):
            with self.subTest(arguments=arguments):
                self.assert_refused(run(*arguments), USAGE, word)
        for arguments, word in ((["--weights", "int5"], "int5"), (["--weights"], "--weights"),
                                (["--group-size", "48"], "48"), (["--method", "awq"], "awq"),
                                (["--method", "gptq", "--weights", "int8"], "--method gptq"),
                                (["--calibration", "ids.txt", "--weights", "f32"], "--calibration"),
                                (["--calibration", "ids.txt", "--method", "rtn"], "--calibration"),
                                (["--calibration", ""], "--calibration"),
                                (["--calibration-tokens", "1000"], "--calibration-tokens"),
                                (["--method", "gptq", "--calibration-tokens", "255"], "--calibration-tokens"),
                                (["--bits", "3.9"], "--bits"), (["--bits", "5", "--weights", "bf16"], "--bits"),
                                (["--compress", "lz4"], "lz4"), (["--level", "0"], "--level"),
                                (["--context", "0"], "--context"), (["--context", "x"], "x"),
                                (["--context", "4096"], "4096"), (["--threads", "0"], "--threads"),
                                (["--rotate"], "--rotate"), (["more"], "more"),
                                (["--weights", "int8", "--group-size", "32"], "--group-size"),
                                (["--weights", "int8g32", "--group-size", "64"], "--group-size 64: int8g32 has no such groups"),
                                (["--weights", "int8g32", "--scales", "signed"], "--scales belongs to weights of int4 and int4nl"),
                                (["--weights", "int8g32", "--method", "gptq"], "--method gptq"),
                                (["--weights", "bit1", "--method", "mse"], "--method belongs to weights of int8, int4, int4nl and int8g32"),
                                (["--weights", "bit2", "--group-size", "32"], "--group-size 32: bit2 has no such groups"),
                                (["--weights-of", "down"], "is not MATRIX=NAME"), (["--weights-of", ""], "--weights-of"),
                                (["--weights-of", "norm=int8"], "norm is not one of: embedding, q, k, v, o, gate, up, down, lm_head"),
                                (["--weights-of", "down=int9"], "int9 is not one of: f32, f16, bf16, int8, int4, int4nl, int8g32, bit1 and bit2"),
                                (["--weights-of", "q=int8", "--weights-of", "q=int4"], "is given twice"),
                                (["--weights", "f32", "--method", "rtn"], "--method"),
                                (["--weights", "int8", "--scales", "signed"], "--scales"), (["--scales", "odd"], "odd"),
                                (["--compress", "none", "--level", "1"], "--level")):
            with self.subTest(arguments=arguments):
                self.assert_refused(self.convert(*arguments), USAGE, word)

    def test_models_that_are_none_are_invalid_input(self):
        self.assert_refused(run("/nonexistent", "-o", self.output), INVALID, "/nonexistent")
        gguf = self.model.parent / "model.gguf"
        gguf.write_bytes(b"GGUF")
        self.assert_refused(run(gguf, "-o", self.output), INVALID, "model.gguf", "truncated")
        self.assert_refused(run(self.folder, "-o", self.output), INVALID, "config.json")
        self.assert_refused(run(self.model, "-o", self.output), INVALID, "--no-tokenizer")

    def test_an_output_that_cannot_be_written_is_an_io_error(self):
        self.assert_refused(run(self.model, "-o", self.model, "--no-tokenizer"), IO, "folder")
        self.assert_refused(self.convert("--report", self.folder / "none/r.json"), IO, "r.json")

    def test_control_characters_of_a_checkpoint_stay_out_of_the_line(self):
        bad = self.folder.parent / (self.folder.name + "-bad")
        bad.mkdir()
        self.addCleanup(lambda: subprocess.run(["rm", "-r", bad], check=True))
        (bad / "config.json").write_text(json.dumps({"architectures": ["Evil\u001b[31m\nForCausalLM"]}))
        done = run(bad, "-o", self.output)
        self.assert_refused(done, INVALID, "Evil?[31m?ForCausalLM")


class Plan(Base):
    """--plan: what would be done, without the weights."""

    def plan(self, model, *arguments):
        return run(model, "--plan", "--no-tokenizer", *arguments)

    def bare(self):
        """A folder with the config alone."""
        folder = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, folder)
        shutil.copy(self.model / "config.json", folder / "config.json")
        return folder

    def test_what_it_says_is_what_a_conversion_says_and_takes(self):
        before = self.plan(self.bare())
        self.assertEqual((before.returncode, before.stderr), (0, ""))
        self.assertEqual(os.listdir(self.folder), [])
        done = self.convert("--report", self.folder / "r.json")
        report = json.loads((self.folder / "r.json").read_text())
        self.assertIn(before.stdout.split("\n", 1)[1], done.stderr)
        self.assertIn(str(report["memory_plan"]["total_bytes"]) + " bytes", before.stdout)

    def test_options_count_and_writing_ones_are_refused(self):
        smaller = self.plan(self.bare(), "--weights", "int8", "--context", "64")
        self.assertIn("int8 (mse)", smaller.stdout)
        self.assertIn("memory to run it (64 tokens", smaller.stdout)
        for option in (["-o", self.output], ["--report", self.output], ["--quiet"]):
            self.assert_refused(self.plan(self.model, *option), USAGE, "--plan")

    def test_what_cannot_be_converted_is_refused(self):
        self.assert_refused(self.plan("/nonexistent"), INVALID, "/nonexistent")
        self.assert_refused(run(self.model, "--plan"), INVALID, "--no-tokenizer")

    def test_standard_output_that_fails_is_an_io_error(self):
        with open("/dev/full", "w") as full:
            done = subprocess.run([CONVERT, self.model, "--plan", "--no-tokenizer"], stdout=full,
                                  stderr=subprocess.PIPE, text=True)
        self.assertEqual(done.returncode, IO)
        self.assertRegex(done.stderr, r"\Acria-convert: error: standard output: [^\n]+\n\Z")


class Output(Base):
    def test_the_summary_is_on_standard_error_without_escapes(self):
        done = self.convert()
        self.assertEqual((done.returncode, done.stdout), (0, ""))
        for words in ("int4 in groups of 32, scales of either sign (mse)", "SQNR", "lost most", "memory to run it (2048 tokens", "total"):
            self.assertIn(words, done.stderr)
        self.assertNotRegex(done.stderr, r"[\r\x1b]")
        self.assertEqual(os.listdir(self.folder), ["m.cria"])

    def test_quiet_prints_nothing(self):
        done = self.convert("--quiet")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))

    def test_the_report_has_what_the_summary_has(self):
        done = self.convert("--report", self.folder / "r.json", "--context", "100", "--weights", "int8")
        self.assertEqual(done.returncode, 0, done.stderr)
        report = json.loads((self.folder / "r.json").read_text())
        self.assertEqual(report["file_bytes"], self.output.stat().st_size)
        self.assertEqual(report["weights"], "int8")
        self.assertEqual(report["config"]["context"], 100)
        plan = report["memory_plan"]
        parts = ("objects", "tokenizer", "weights", "backend", "kv_cache", "history", "logits", "step")
        self.assertEqual(plan["total_bytes"], sum(plan[part + "_bytes"] for part in parts))
        # Embedding and output layer, q, o, k, v, gate, up, down, three norms.
        self.assertEqual(report["n_parameters"], 2 * 70 * 64 + 2 * 64 * 64 + 2 * 32 * 64 + 3 * 100 * 64 + 3 * 64)
        self.assertGreater(report["sqnr_db"], 43.5)  # measured: 44.4
        self.assertEqual([t["name"] for t in report["tensors"]][:3],
                         ["rope", "embedding", "layers.0.mixer_norm"])

    def test_every_format_is_read_by_the_second_reader(self):
        for weights in ("int4", "int8", "int8g32", "f16", "bf16", "f32"):
            for compress in ("none", "zstd"):
                with self.subTest(weights=weights, compress=compress):
                    self.assertEqual(self.convert("--weights", weights, "--compress", compress).returncode, 0)
                    self.assert_reads_back(weights, compress)

    def test_single_matrices_have_formats_of_their_own(self):
        done = self.convert("--group-size", "64", "--weights-of", "embedding=int8g32", "--weights-of", "v=int4nl",
                            "--weights-of", "lm_head=bf16", "--compress", "none")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("int4 in groups of 64; embedding: int8g32; v: int4nl in groups of 64; lm_head: bf16",
                      done.stderr)
        read = subprocess.run([sys.executable, ROOT / "tests/tools/read_cria.py", self.output], capture_output=True, text=True)
        self.assertEqual((read.returncode, read.stderr), (0, ""))
        counts = json.loads(read.stdout)["config"]["n_matrices"]
        self.assertEqual({name: f for name, f in counts.items() if f != {"int4 g64": 1}},
                         {"embedding": {"int8g32 g32": 1}, "v": {"int4nl g64": 1}, "lm_head": {"bf16": 1}})

    def test_the_second_reader_refuses_every_flipped_bit_it_is_shown(self):
        self.assertEqual(self.convert("--compress", "none").returncode, 0)
        data = bytearray(self.output.read_bytes())
        places = random.Random(9)
        # Header, section table, config and directory, then anywhere.
        for at in [*range(0, 700, 7), *(places.randrange(len(data)) for _ in range(60))]:
            data[at] ^= 1 << places.randrange(8)
            self.assertNotEqual(verdict(data)[0], OK, f"byte {at}")
            data[:] = self.output.read_bytes()

    def assert_reads_back(self, weights, compress):
        if compress != "none" and not have_zstd():
            self.skipTest("no libzstd here")
        model = ModelFile(self.output.read_bytes())
        self.assertEqual(model.config["kinds"][0]["d_ff"], 100)
        self.assertEqual(model.is_compressed(), compress != "none")
        found = [value for row in model.rows(model.tensors["layers.0.down"]) for value, in struct.iter_unpack("<f", row)]
        want = self.source_values("model.layers.0.mlp.down_proj.weight")
        self.assertEqual(len(found), len(want))
        # Half a step of the coarsest scale: the largest weight (5 deviations of 0.02) over 7 or 127; int4 with mse
        # may clip more.
        bound = {"int4": 0.05, "int8": 0.1 / 127, "int8g32": 0.1 / 127, "f16": 1e-4, "bf16": 0, "f32": 0}[weights]
        self.assertLessEqual(max(abs(a - b) for a, b in zip(found, want)), bound)

    def source_values(self, name):
        data = (self.model / "model.safetensors").read_bytes()
        length = struct.unpack_from("<Q", data)[0]
        begin, end = json.loads(data[8:8 + length])[name]["data_offsets"]
        bits = struct.iter_unpack("<H", data[8 + length + begin:8 + length + end])
        return [struct.unpack("<f", struct.pack("<I", b << 16))[0] for b, in bits]


class Disturbed(Base):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.model = Path(cls.models.name) / "large"
        make_random_checkpoint.main([str(cls.model), *LARGE])

    def test_a_signal_leaves_nothing_behind(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            with self.subTest(signal=number):
                command = [CONVERT, self.model, "-o", self.output, "--no-tokenizer", "--quiet"]
                for _ in range(50):  # a busy machine may let it be done before the signal comes
                    with subprocess.Popen(command, stderr=subprocess.PIPE) as process:
                        end = time.monotonic() + cli.PATIENCE_S
                        while not os.listdir(self.folder) and process.poll() is None and time.monotonic() < end:
                            time.sleep(0.002)
                        process.send_signal(number)
                        process.communicate(timeout=cli.PATIENCE_S)
                    if process.returncode != 0:
                        break
                    self.output.unlink()
                self.assertEqual(process.returncode, -number)
                self.assertEqual(os.listdir(self.folder), [])

    def test_a_file_size_limit_is_an_io_error(self):
        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))

        self.assert_refused(self.convert("--quiet", preexec_fn=limit), IO, "m.cria", "File too large")

    def test_too_few_descriptors_are_an_io_error(self):
        """Wherever they run out: at an input, at the pipe from the process that tries the template."""
        if cli.IS_SANITIZED or cli.IS_EMULATED:
            self.skipTest("emulators and sanitizers need descriptors of their own")
        refused = 0
        for most in range(3, 64):
            done = run(ROOT / "models/demo", "-o", self.output, "--quiet",
                       preexec_fn=lambda n=most: resource.setrlimit(resource.RLIMIT_NOFILE, (n, n)))
            if "error while loading shared libraries" in done.stderr:
                continue
            if done.returncode == 0:
                break
            self.assert_refused(done, IO, "Too many open files; raise ulimit -n")
            refused += 1
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertGreater(refused, 1)

    def test_a_full_disk_is_an_io_error(self):
        disk = Path(self.models.name) / "disk"
        disk.mkdir()
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", disk], capture_output=True,
                                 check=False)
        if mounted.returncode != 0:
            self.skipTest("needs the right to mount a small disk")
        try:
            done = run(self.model, "-o", disk / "m.cria", "--no-tokenizer", "--quiet")
            left = os.listdir(disk)
        finally:
            subprocess.run(["umount", disk], check=True)
        self.assert_refused(done, IO, "m.cria", "No space left")
        self.assertEqual(left, [])

    def test_the_progress_line_fits_a_narrow_terminal(self):
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 40, 0, 0))
        command = [CONVERT, self.model, "-o", self.output, "--no-tokenizer"]
        with subprocess.Popen(command, stderr=slave, env={**os.environ, "TERM": "xterm"}) as process:
            os.close(slave)
            shown = b""
            while True:
                try:
                    piece = os.read(master, 4096)
                except OSError:
                    break
                if not piece:
                    break
                shown += piece
            process.wait(cli.PATIENCE_S)
        os.close(master)
        self.assertEqual(process.returncode, 0)
        bars = re.findall(rb"\r([^\r\n]*?)\x1b\[K", shown)
        self.assertTrue(any(b"%" in bar for bar in bars))
        self.assertLess(max(map(len, bars)), 40)


if __name__ == "__main__":
    unittest.main()
