"""Measures what formats and methods lose on trained models, cria's and llama.cpp's; scripts/quality.sh builds first and
says how.

llama.cpp's quantized weights are widened to f32 bit for bit (cria-convert reads GGUF) and run by the same program with
f32 activations and KV cache: its side loses by weights alone. cria's side is what users run: int8 activations and KV
cache. All are compared with the same checkpoint's f32 file on the same tokens.
"""
import json
import math
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile

import quality_plot
from script_arguments import SHARED, OneLineParser, existing, is_program, output_file, program

ROOT = pathlib.Path(__file__).resolve().parent.parent
BIN = ROOT / "build/release/bin"

# The models' embeddings are their output layers too.
TABLE = ("--weights-of", "embedding=int8g32")
# Label -> options of cria-convert.
CRIA = {
    "int8": ("--weights", "int8"),
    "int8g32": ("--weights", "int8g32"),
    "int4 rtn": ("--method", "rtn"),
    "int4 positive": ("--scales", "positive"),
    "int4": (),
    "int4 g64": ("--group-size", "64"),
    "int4nl": ("--weights", "int4nl"),
    "int4 gptq": ("--method", "gptq"),
    "int4 g64 gptq": ("--method", "gptq", "--group-size", "64"),
    "int4nl gptq": ("--method", "gptq", "--weights", "int4nl"),
    "int4, table int8g32": TABLE,
    "int4 gptq, table int8g32": ("--method", "gptq", *TABLE),
    "int4nl gptq, table int8g32": ("--method", "gptq", "--weights", "int4nl", *TABLE),
    "int4 --bits 5": ("--bits", "5"),
    "int4 --bits 5 gptq": ("--bits", "5", "--method", "gptq"),
}
# Label -> arguments of llama-quantize: options, type.
LLAMA = {
    "Q8_0": ((), "q8_0"),
    "Q5_K_M": ((), "q5_k_m"),
    "Q4_K_M": ((), "q4_k_m"),
    "Q4_K_S": ((), "q4_k_s"),
    "Q4_1": ((), "q4_1"),
    "Q4_0": ((), "q4_0"),
    "Q4_0 --pure": (("--pure",), "q4_0"),
    "IQ4_NL --pure": (("--pure",), "iq4_nl"),
}
# Whose excess is the measure of cria's at the same bits: all in 4 bits, and with the table in 8.
RIVALS = ("Q4_0 --pure", "Q4_0")
# What a document of the demo's text begins with.
BEGIN = "<|begin_of_text|>"
# How far apart bits a weight may be to be called the same.
SAME_BITS = 0.1


def run(command, cwd=None):
    """Standard output and standard error."""
    done = subprocess.run([str(word) for word in command], cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"quality: exit code {done.returncode} of: {' '.join(map(str, command))}\n{done.stderr[-2000:]}")
    return done.stdout, done.stderr


def reference_models(shared):
    trained = shared / "reference/trained"
    corpus = shared / "reference/corpus"
    return {
        "story": Model("story", trained / "story-hf", corpus / "tinystories_train_head_197KB.txt"),
        "stories260K": Model("stories260K", trained / "stories260K/stories260K.bin", corpus / "tinystories_train_head_197KB.txt",
                             gguf=trained / "stories260K/stories260K.gguf", most_bytes=80000,
                             options=("--tokenizer", trained / "stories260K/tok512.bin")),
        "demo": Model("demo", ROOT / "models/demo", ROOT / "models/demo/heldout.txt"),
    }


class Model:
    """A checkpoint, a text that it was not trained on, and what is measured on it."""

    def __init__(self, name, source, text, gguf=None, most_bytes=None, options=()):
        self.name, self.source, self.text, self.gguf = name, source, text, gguf
        self.most_bytes, self.options = most_bytes, options
        self.rows = []

    def prepare(self, folder):
        self.folder = folder / self.name
        self.folder.mkdir()
        if self.most_bytes is not None:
            part = self.folder / "text.txt"
            part.write_bytes(self.text.read_bytes()[:self.most_bytes])
            self.text = part
        self.reference = self.folder / "f32.cria"
        run([BIN / "cria-convert", self.source, "-o", self.reference, "--weights", "f32", "--quiet", *self.options])
        # Ids, a document a line: a GGUF may cut text into other tokens than the checkpoint it was made of.
        self.ids = self.folder / "ids.txt"
        self.ids.write_text("".join(self.tokens(document) + "\n" for document in documents(self.text.read_text())))

    def tokens(self, document):
        options = "--parse-special" if document.startswith(BEGIN) else "--special"
        done = subprocess.run([BIN / "cria", "tokenize", self.reference, "-", options], input=document, capture_output=True,
                              text=True, check=True)
        return " ".join(done.stdout.split())

    def measure(self, label, file, bits, side, *options):
        out, _ = run([BIN / "cria", "eval", file, "--ids", self.ids, "--reference", self.reference, "--json",
                      "--backend", "exact", *options])
        result = json.loads(out)["reference"]
        row = {"model": self.name, "side": side, "label": label, "bits": bits,
               "excess": result["perplexity_ratio"] - 1, "excess_error": result["perplexity_ratio_error"],
               "kl": result["mean_kl"], "kl_error": result["mean_kl_error"],
               "top1": result["top1_agreement"], "top1_error": result["top1_agreement_error"]}
        self.rows.append(row)
        print(f"| {self.name} | {label} | {bits:.2f} | {100 * row['excess']:.2f} ± {100 * row['excess_error']:.2f} | "
              f"{row['kl']:.5f} ± {row['kl_error']:.5f} | {100 * row['top1']:.1f} |", flush=True)

    def measure_cria(self, label, options):
        file = self.folder / "cria.cria"
        run([BIN / "cria-convert", self.source, "-o", file, "--quiet", *self.options, *options])
        bits = json.loads(run([BIN / "cria", "info", file, "--json"])[0])["model"]["bits_per_weight"]
        self.measure(label, file, bits, "cria")

    def make_gguf(self, peers):
        target = self.folder / "f32.gguf"
        if self.gguf is not None:
            shutil.copy(self.gguf, target)
            return
        shutil.copytree(self.source, self.folder / "hf")
        name_table(self.folder / "hf/model.safetensors")
        run([peers, "gguf", "hf", "f32.gguf", "f32"], cwd=self.folder)

    def measure_llama(self, label, options, kind, peers):
        _, said = run([peers, "run", "llama-quantize", *options, "f32.gguf", "out.gguf", kind, os.cpu_count()], cwd=self.folder)
        bits = float(re.search(r"quant size .*\(([0-9.]+) BPW\)", said).group(1))
        file = self.folder / "llama.cria"
        run([BIN / "cria-convert", self.folder / "out.gguf", "-o", file, "--weights", "f32", "--quiet"])
        self.measure(label, file, bits, "llama.cpp", "--kv", "f32")


def documents(text):
    """Parts that begin with a beginning written out; the whole text where there is none."""
    return [BEGIN + part for part in text.split(BEGIN) if part] if text.startswith(BEGIN) else [text]


def name_table(path):
    """A tied table stored as lm_head.weight alone gets the embedding's name, which llama.cpp asks for."""
    if not path.is_file():
        return
    data = path.read_bytes()
    size = struct.unpack_from("<Q", data)[0]
    header = json.loads(data[8:8 + size])
    if "model.embed_tokens.weight" in header or "lm_head.weight" not in header:
        return
    header["model.embed_tokens.weight"] = header.pop("lm_head.weight")
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.chmod(0o644)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data[8 + size:])


def shares(models, rival_label):
    """Of each of cria's rows: model, its excess by the rival's, its KL by the rival's, where both take the same bits."""
    found = {}
    for model in models:
        rival = next((row for row in model.rows if row["label"] == rival_label), None)
        for row in model.rows:
            if rival is None or row["side"] != "cria" or abs(row["bits"] - rival["bits"]) > SAME_BITS:
                continue
            # An excess may be negative by chance: then nothing can be said of its share.
            share = row["excess"] / rival["excess"] if min(row["excess"], rival["excess"]) > 0 else None
            found.setdefault(row["label"], []).append((model.name, share, row["kl"] / rival["kl"]))
    return found


def mean_text(shares_by_model):
    """Geometric mean, then each model's."""
    known = [(name, share) for name, share in shares_by_model if share is not None]
    if not known:
        return "no share (below zero)"
    mean = math.exp(sum(math.log(share) for _, share in known) / len(known))
    each = ", ".join(f"{name} {'below zero' if share is None else f'{share:.2f}'}" for name, share in shares_by_model)
    return f"{mean:.2f} ({each})"


def main():
    parser = OneLineParser(prog="scripts/quality.sh", description=__doc__)
    parser.add_argument("--models", default="story,stories260K,demo")
    parser.add_argument("--model", action="append", default=[], type=existing)
    parser.add_argument("--text", action="append", default=[], type=existing)
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("--peers", type=program)
    parser.add_argument("--json", type=output_file)
    parser.add_argument("--plot", type=output_file)
    parser.add_check()
    arguments = parser.parse_args()
    if len(arguments.model) != len(arguments.text):
        parser.error("each --model wants a --text")
    peers = arguments.peers or SHARED / "tools/peers"
    known = reference_models(SHARED)
    names = [name for name in arguments.models.split(",") if name]
    for name in names:
        if name not in known:
            parser.error(f"--models knows {', '.join(known)}, not {name}")
    models = [known[name] for name in names]
    for model in models:
        if not model.source.exists():
            parser.error(f"{model.source} is not there; set CRIA_SHARED, or name others with --models, --model")
    models += [Model(path.name, path, text) for path, text in zip(arguments.model, arguments.text)]
    if not models:
        parser.error("there is nothing to measure; name models with --models, or --model and --text")
    if not arguments.no_peers and not is_program(peers):
        parser.error(f"{peers} is no program that is there; give --peers, or --no-peers to measure cria alone")
    if arguments.check:
        return

    print("| model | weights | bits a weight | perplexity over f32, % | KL divergence | same likeliest token, % |\n"
          "|---|---|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory() as scratch:
        for model in models:
            model.prepare(pathlib.Path(scratch))
            for label, options in CRIA.items():
                model.measure_cria(label, options)
            if not arguments.no_peers:
                run([peers, "setup"])
                model.make_gguf(peers)
                for label, (options, kind) in LLAMA.items():
                    model.measure_llama(label, options, kind, peers)
    rows = [row for model in models for row in model.rows]
    for rival in RIVALS:
        for label, found in shares(models, rival).items():
            excess = mean_text([(name, share) for name, share, _ in found])
            kl = mean_text([(name, share) for name, _, share in found])
            print(f"{label}: of {rival}'s excess at the same bits {excess}, of its KL {kl}")
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n")
    if arguments.plot:
        arguments.plot.write_text(quality_plot.drawing(rows))


main()
