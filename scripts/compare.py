"""Measures cria and llama.cpp in turns on random models of one shape; scripts/compare.sh builds first and says how.

Every figure is the median over rounds; a ratio is the median of the rounds' ratios, because what two programs do
within seconds of each other suffers the same neighbours. Which one begins changes from round to round.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
BIN = ROOT / "build/release/bin"

# The least ratio of speeds, cria to llama.cpp, by threads; one more thread count has the bar of two.
DECODE_BARS = {1: 1.30, 2: 1.15}
PREFILL_BAR = 1.8
BANDWIDTH_BAR = 0.85  # of a plain read in the same run, at one thread
MEMORY_BAR = 1.10  # peak resident memory to weights and KV cache, at most
PROMPTS = (128, 512)
N_DECODE = 64
FIRST_PROMPT = 8
RIVALS = {"int4": "q4_0", "int8": "q8_0"}


def run(command, cwd=None):
    """Standard output, seconds and the peak resident bytes of a command and what it waits for."""
    started = time.monotonic()
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen([str(word) for word in command], cwd=cwd, stdout=subprocess.PIPE, stderr=errors, text=True)
        out = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)  # not wait(), which keeps the use of memory to itself
        process.returncode = os.waitstatus_to_exitcode(status)
        errors.seek(0)
        err = errors.read()
    if process.returncode != 0:
        sys.exit(f"compare: exit code {process.returncode} of: {' '.join(map(str, command))}\n{err[-2000:]}")
    return out, err, time.monotonic() - started, usage.ru_maxrss * 1024


class Cria:
    def __init__(self, folder):
        self.folder = folder

    def bench(self, model, threads, prompts, n_decode, backend="auto"):
        out = run([BIN / "cria", "bench", self.folder / model, "--threads", threads, "-p", ",".join(map(str, prompts)),
                   "-n", n_decode, "-r", 1, "--backend", backend, "--json"])[0]
        return json.loads(out)["results"][0]

    def prefill(self, model, threads, backend="auto"):
        rows = self.bench(model, threads, PROMPTS, 1, backend)["prefill"]
        return {row["tokens"]: row["tokens_per_second"]["median"] for row in rows}

    def first_token_seconds(self, model, threads):
        ids = ",".join(str(3 + i) for i in range(FIRST_PROMPT))
        return run([BIN / "cria", "logits", self.folder / model, "--threads", threads, "--ids", ids, "-o", "/dev/null"])[2]


class LlamaCpp:
    def __init__(self, folder, peers):
        self.folder = folder
        self.peers = peers

    def peers_run(self, *words):
        return run([self.peers, *words], cwd=self.folder)

    def bench(self, model, threads, *words):
        out, _, _, resident = self.peers_run("bench", model, "-t", threads, "-o", "json", *words)
        return json.loads(out), resident

    def prefill(self, model, threads):
        rows = self.bench(model, threads, "-p", ",".join(map(str, PROMPTS)), "-n", 0, "-r", 1)[0]
        return {row["n_prompt"]: row["avg_ts"] for row in rows}

    def decode(self, model, threads):
        rows, resident = self.bench(model, threads, "-p", 0, "-n", N_DECODE, "-r", 1)
        return rows[0]["avg_ts"], resident

    def first_token_seconds(self, model, threads):
        """Timed inside, so that entering the chroot does not count."""
        command = f"TIMEFORMAT=%R; time llama-bench -m {model} -t {threads} -p {FIRST_PROMPT} -n 0 -r 1 --no-warmup"
        return float(self.peers_run("run", "bash", "-c", command)[1].split()[-1])

    def quantize_seconds(self, *words):
        return self.peers_run("run", "llama-quantize", *words, "bf16.gguf", "out.gguf", "q4_0", os.cpu_count())[2]


class Table:
    """Rows of measured pairs, printed as they come; a row below its bar is remembered."""

    def __init__(self):
        self.rows = []
        print(f"{'':44} {'cria':>9} {'llama.cpp':>9} {'ratio':>6} {'bar':>6}")

    def add(self, name, pairs, bar, unit, less_is_better=False):
        ratios = [rival / ours if less_is_better else ours / rival for ours, rival in pairs]
        self.put(name, statistics.median(p[0] for p in pairs), statistics.median(p[1] for p in pairs),
                 statistics.median(ratios), bar, unit, len(pairs))

    def put(self, name, ours, rival, ratio, bar, unit, n_rounds, at_most=False):
        fails = bar is not None and (ratio > bar if at_most else ratio < bar)
        self.rows.append({"name": name, "unit": unit, "cria": ours, "rival": rival, "ratio": ratio, "bar": bar,
                          "rounds": n_rounds, "fails": fails})
        limit = "" if bar is None else f"{'<=' if at_most else '>='}{bar:.2f}"
        rival_text = "" if rival is None else f"{rival:.2f}"
        print(f"{name + ', ' + unit:44} {ours:9.2f} {rival_text:>9} {ratio:6.2f} {limit:>6}{'  BELOW' if fails else ''}",
              flush=True)


def in_turns(rounds, first, second):
    """Pairs of first() and second(), taking turns at beginning."""
    pairs = []
    for i in range(rounds):
        if i % 2 == 0:
            a = first()
            b = second()
        else:
            b = second()
            a = first()
        pairs.append((a, b))
    return pairs


def make_models(folder, shape, peers):
    """A checkpoint and what both programs make of it; kept for the next time."""
    folder.mkdir(parents=True, exist_ok=True)
    done = folder / "done"
    if done.exists():
        return
    print(f"making models in {folder}", flush=True)
    run([sys.executable, ROOT / "tests/tools/make_random_checkpoint.py", folder / "hf", "--shape", shape])
    config = json.loads((folder / "hf/config.json").read_text())
    sizes = [config[key] for key in ("hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads",
                                     "intermediate_size", "vocab_size")]
    for kind in ("f16", *RIVALS.values()):
        run([peers, "random-gguf", folder / f"{kind}.gguf", kind, *sizes])
    run([peers, "run", "llama-quantize", "f16.gguf", "bf16.gguf", "bf16"], cwd=folder)
    (folder / "f16.gguf").unlink()
    for weights in RIVALS:
        # Positive scales, so that XNNPACK runs the same file; what is compared takes the same time with either.
        scales = ["--scales", "positive"] if weights == "int4" else []
        run([BIN / "cria-convert", folder / "hf", "-o", folder / f"{weights}.cria", "--weights", weights, "--no-tokenizer",
             "--quiet", *scales])
    run([BIN / "cria-convert", folder / "hf", "-o", folder / "int4-stored.cria", "--compress", "none", "--no-tokenizer",
         "--quiet"])
    done.touch()


def s(threads):
    return f"{threads} thread{'' if threads == 1 else 's'}"


def compare_prefill(table, cria, rival, weights, threads, rounds):
    model = f"{weights}.cria"
    pairs = in_turns(rounds, lambda: cria.prefill(model, threads), lambda: rival.prefill(f"{RIVALS[weights]}.gguf", threads))
    for n in PROMPTS:
        table.add(f"{weights} prefill {n}, {s(threads)}", [(a[n], b[n]) for a, b in pairs], PREFILL_BAR, "tokens/s")
    xnnpack = cria.prefill(model, threads, "xnnpack")
    for n in PROMPTS:
        table.add(f"  xnnpack {n}, {s(threads)}", [(xnnpack[n], b[n]) for _, b in pairs], None, "tokens/s")


def compare_decode(table, cria, rival, weights, threads, rounds):
    model = f"{weights}.cria"
    pairs = in_turns(rounds, lambda: cria.bench(model, threads, (1,), N_DECODE),
                     lambda: rival.decode(f"{RIVALS[weights]}.gguf", threads))
    speed = [(a["decode"]["tokens_per_second"]["median"], b[0]) for a, b in pairs]
    table.add(f"{weights} decode {N_DECODE}, {s(threads)}", speed, DECODE_BARS[min(threads, 2)], "tokens/s")
    reads = [(a["decode"]["bytes_per_second"] / 1e9, a["read_bytes_per_second"] / 1e9) for a, _ in pairs]
    table.put(f"  of what plain reads reach, {s(threads)}", statistics.median(a for a, _ in reads),
              statistics.median(b for _, b in reads), statistics.median(a / b for a, b in reads),
              BANDWIDTH_BAR if threads == 1 else None, "GB/s", rounds)
    xnnpack = cria.bench(model, threads, (1,), N_DECODE, "xnnpack")["decode"]["tokens_per_second"]["median"]
    table.add(f"  xnnpack, {s(threads)}", [(xnnpack, b[0]) for _, b in pairs], None, "tokens/s")
    return pairs


def compare_memory(table, cria, weights, pairs):
    """Peak of the decode runs, to weights and KV cache alone."""
    context = pairs[0][0]["context"]
    info = json.loads(run([BIN / "cria", "info", cria.folder / f"{weights}.cria", "--context", context, "--json"])[0])
    plan = info["memory_plan"]
    need = plan["weights_bytes"] + plan["kv_cache_bytes"]
    peak = statistics.median(a["peak_resident_bytes"] for a, _ in pairs)
    table.put(f"{weights} peak memory to weights + KV cache", peak / 1e6, statistics.median(b[1] for _, b in pairs) / 1e6,
              peak / need, MEMORY_BAR, "MB", len(pairs), at_most=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", required=True, choices=("llama-3.2-1b", "tinyllama-1.1b", "smollm-135m"))
    parser.add_argument("--threads", default="1,2", type=lambda text: [int(n) for n in text.split(",")])
    parser.add_argument("--rounds", default=5, type=int)
    parser.add_argument("--json", type=pathlib.Path, help="also write the rows to this file")
    parser.add_argument("--peers", type=pathlib.Path, default=ROOT.parent / "shared/tools/peers")
    options = parser.parse_args()
    if not options.peers.exists():
        sys.exit(f"compare: {options.peers} is not there; it runs llama.cpp. Give its place with --peers.")
    folder = ROOT / "build/compare" / options.shape
    run([options.peers, "setup"])
    make_models(folder, options.shape, options.peers)
    cria = Cria(folder)
    rival = LlamaCpp(folder, options.peers)

    table = Table()
    for weights in RIVALS:
        for threads in options.threads:
            compare_prefill(table, cria, rival, weights, threads, options.rounds)
            decoded = compare_decode(table, cria, rival, weights, threads, options.rounds)
            if threads == options.threads[0]:
                compare_memory(table, cria, weights, decoded)
    for threads in options.threads:
        # The bar is for the form whose purpose is a fast start.
        for name, model, bar in (("compressed", "int4.cria", None), ("uncompressed", "int4-stored.cria", 1.0)):
            pairs = in_turns(options.rounds, lambda m=model: cria.first_token_seconds(m, threads),
                             lambda: rival.first_token_seconds("q4_0.gguf", threads))
            table.add(f"first token, {name}, {s(threads)}", pairs, bar, "s", less_is_better=True)
    convert = [BIN / "cria-convert", folder / "hf", "-o", folder / "out.cria", "--no-tokenizer", "--quiet"]
    for name, words, bar in (("to Q4_0", (), 1.0), ("with --pure", ("--pure",), None)):
        pairs = in_turns(options.rounds, lambda: run(convert)[2], lambda: rival.quantize_seconds(*words))
        table.add(f"conversion (mse); llama-quantize {name}", pairs, bar, "s", less_is_better=True)
    for name in ("out.cria", "out.gguf"):
        (folder / name).unlink()

    if options.json:
        options.json.write_text(json.dumps({"shape": options.shape, "rows": table.rows}, indent=2) + "\n")
    failed = [row["name"] for row in table.rows if row["fails"]]
    print(f"below the bar: {'; '.join(failed)}" if failed else "every bar is met")
    sys.exit(1 if failed else 0)


main()
