"""Measures cria and llama.cpp in turns on random models of one shape; scripts/compare.sh builds first and says how.

Every figure is the median over rounds; a ratio is the median of the rounds' ratios, because what two programs do
within seconds of each other suffers the same neighbours. Which one begins changes from round to round. XNNPACK's rows,
which have no bar, are of one run after those rounds.

A run writes one file: machine, commit, and each figure with its rounds as soon as it is measured. A run that was
interrupted leaves the figures it has. scripts/measurements_table.py puts the files of docs/measurements into the documents.
"""
import fcntl
import json
import os
import pathlib
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import traceback
import typing

ROOT = pathlib.Path(__file__).resolve().parent.parent
TOOLS = ROOT / "tests/tools"
sys.path.insert(0, str(TOOLS))

from make_random_gguf import ALL_SHAPES, SHAPES_OF_GGUF, token_bytes  # noqa: E402

import measurements  # noqa: E402
from script_arguments import SHARED, OneLineParser, is_program, number, numbers, output_file, program  # noqa: E402

BIN = ROOT / "build/release/bin"
PEERS = SHARED / "tools/peers"

# Least ratios of speeds, cria to llama.cpp; measurements.WITHIN says how much less still counts. Decoding ends where reading
# the weights does: where it misses its ratio, the bar is a share of the plain reads of the same rounds.
PREFILL_BAR = 1.8
DECODE_BAR = 1.30
READS_BAR = 0.95
MEMORY_BAR = 1.10  # peak resident memory to weights and KV cache, at most
PROMPTS = (128, 512)
N_DECODE = 64
DECODE_ROUNDS = 2  # for each round of the rest: short, and at the memory's limit, where the machine's neighbours are felt most
FIRST_PROMPT = 8
MOST_THREADS = 256  # that cria takes
RIVALS = {"int4": "q4_0", "int8": "q8_0"}
Q6_K_BLOCK = 256


class Measured(typing.NamedTuple):
    """What is measured of a shape."""
    weights: tuple = tuple(RIVALS)
    prompts: tuple = PROMPTS
    prefill_bar: float = PREFILL_BAR
    decode_bar: float = DECODE_BAR
    is_whole: bool = True  # XNNPACK, first tokens and conversion, too; else the checkpoint's weights go once they are converted


WITH_EXPERTS = Measured(weights=("int4",), prompts=(128,), prefill_bar=1.5, is_whole=False)
MEASURED = {"llama-3.2-1b": Measured(), "tinyllama-1.1b": Measured(), "smollm-135m": Measured(),
            "qwen3-30b-a3b-4l": WITH_EXPERTS, "deepseek-v2-lite-4l": WITH_EXPERTS,
            **dict.fromkeys(SHAPES_OF_GGUF, WITH_EXPERTS._replace(decode_bar=1.2))}

# After a filled context: a rival's KV cache as it is by default, and in numbers as small as ours.
DEPTH_ROUNDS = 3  # at most: each fills the context anew
DEPTH_RIVALS = {"": ((), 2.0), " (llama.cpp -fa on, KV q8_0)": (("-fa", "on", "-ctk", "q8_0", "-ctv", "q8_0"), 1.3)}

# Of an instruction set: the flag of /proc/cpuinfo, and llama.cpp's backends, of which it takes the best one; of newer sets
# those without AMX.
LEVELS = {"avx2": ("avx2", ("haswell",)), "avxvnni": ("avx_vnni", ("alderlake",)),
          "avx512vnni": ("avx512_vnni", ("icelake", "zen4"))}
NAME_WIDTH = 70  # of the longest row after a context
BACKEND_FOLDER = "usr/lib/x86_64-linux-gnu/ggml/backends0"
PINNED_FOLDER = "pinned"


MISSED, BROKEN = 1, 2  # exit codes: a bar is missed by more than measurements.WITHIN, nothing was measured


def fail(problem):
    print(f"compare: {problem}", file=sys.stderr)
    sys.exit(BROKEN)


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
        fail(f"exit code {process.returncode} of: {' '.join(map(str, command))}\n{err[-2000:]}")
    return out, err, time.monotonic() - started, usage.ru_maxrss * 1024


class Cria:
    def __init__(self, folder, isa, measured):
        self.folder = folder
        self.isa = ["--isa", isa] if isa else []
        self.measured = measured
        # XNNPACK takes the best instruction set that it finds, so it has no place in a table of one.
        self.has_xnnpack = measured.is_whole and not isa

    def bench(self, model, threads, prompts, n_decode, backend="auto", depth=0):
        out = run([BIN / "cria", "bench", self.folder / model, "--threads", threads, "-p", ",".join(map(str, prompts)),
                   "-n", n_decode, "-r", 1, "--backend", backend, "--depth", depth, "--json", *self.isa])[0]
        return json.loads(out)["results"][0]

    def prefill(self, model, threads, prompts, backend="auto"):
        rows = self.bench(model, threads, prompts, 1, backend)["prefill"]
        return {row["tokens"]: row["tokens_per_second"]["median"] for row in rows}

    def first_token_seconds(self, model, threads):
        ids = ",".join(str(3 + i) for i in range(FIRST_PROMPT))
        return run([BIN / "cria", "logits", self.folder / model, "--threads", threads, "--ids", ids, "-o", "/dev/null",
                    *self.isa])[2]


class LlamaCpp:
    def __init__(self, folder, peers, isa):
        self.folder = folder
        self.peers = peers
        self.about = {"name": "llama.cpp", "build": None, "commit": None}  # known once it has run
        self.pinned = LEVELS[isa][1] if isa else ()
        if self.pinned:
            self.pin()

    def pin(self):
        """Copies the backends allowed to a folder that stands in for the package's, seen by these runs alone."""
        script = f"rm -rf {PINNED_FOLDER}; mkdir {PINNED_FOLDER}; cd /{BACKEND_FOLDER}; cp " + " ".join(
            f"libggml-cpu-{name}.so" for name in self.pinned) + f" /mnt/{PINNED_FOLDER}"
        run([self.peers, "run", "bash", "-c", script], cwd=self.folder)

    def peers_run(self, *words):
        if not self.pinned:
            return run([self.peers, "run", *words], cwd=self.folder)
        script = f'mount --bind /mnt/{PINNED_FOLDER} /{BACKEND_FOLDER} && exec "$@"'
        return run(["unshare", "--mount", self.peers, "run", "bash", "-c", script, "_", *words], cwd=self.folder)

    def bench(self, model, threads, *words):
        out, _, _, resident = self.peers_run("llama-bench", "-m", model, "-t", threads, "-o", "json", *words)
        rows = json.loads(out)
        self.about.update(build=rows[0].get("build_number"), commit=rows[0].get("build_commit"))
        return rows, resident

    def prefill(self, model, threads, prompts):
        rows = self.bench(model, threads, "-p", ",".join(map(str, prompts)), "-n", 0, "-r", 1)[0]
        return {row["n_prompt"]: row["avg_ts"] for row in rows}

    def decode(self, model, threads, *words):
        rows, resident = self.bench(model, threads, "-p", 0, "-n", N_DECODE, "-r", 1, *words)
        return rows[0]["avg_ts"], resident

    def first_token_seconds(self, model, threads):
        return self.seconds("llama-bench", "-m", model, "-t", threads, "-p", FIRST_PROMPT, "-n", 0, "-r", 1, "--no-warmup")

    def quantize_seconds(self, *words):
        return self.seconds("llama-quantize", *words, "bf16.gguf", "out.gguf", "q4_0", os.cpu_count())

    def seconds(self, *command):
        """Timed inside, so that entering the chroot does not count."""
        return float(self.peers_run("bash", "-c", 'TIMEFORMAT=%R; time "$@"', "_", *command)[1].split()[-1])


class Table:
    """Rows of measured pairs, printed as they come. A run with a path is written there with each row, so that nothing is lost
    when the next one fails."""

    def __init__(self, run=None, path=None):
        self.run = run or {"figures": []}
        self.path = path
        print(f"{'':{NAME_WIDTH}} {'cria':>9} {'llama.cpp':>9} {'ratio':>6} {'bar':>6}")

    def add(self, name, pairs, bar, unit, less_is_better=False, **more):
        """A row of rounds, and whether its bar counts as met."""
        ratio_of = measurements.RIVAL_TO_OURS if less_is_better else measurements.OURS_TO_RIVAL
        return self.put(name, statistics.median(p[0] for p in pairs), statistics.median(p[1] for p in pairs),
                        measurements.ratio_of_rounds(pairs, ratio_of), bar, unit, len(pairs), ratio_of=ratio_of, rounds=pairs, **more)

    def put(self, name, ours, rival, ratio, bar, unit, n_rounds, ratio_of=measurements.OURS_TO_RIVAL, or_next=None, **more):
        """Blanks before a name belong to the printed table. or_next: the row that is judged instead if this one misses."""
        if or_next:
            more["or"] = or_next
        figure = measurements.new_figure(name.strip(), unit, ours, rival, ratio, ratio_of, bar, n_rounds, **more)
        self.run["figures"].append(figure)
        verdict = figure["verdict"]
        is_missed = measurements.is_missed(verdict)
        limit = "" if bar is None else f"{'<=' if more.get('at_most') else '>='}{bar:.2f}"
        said = f"  {verdict}, or the next" if is_missed and or_next else f"  {verdict or ''}"
        line = f"{name + ', ' + unit:{NAME_WIDTH}} {ours:9.2f} {rival:9.2f} {ratio:6.2f} {limit:>6}{said}"
        print(line.rstrip(), flush=True)
        if self.path is not None:
            measurements.write(self.path, self.run)
        return not is_missed

    def end(self):
        self.run["complete"] = True
        if self.path is not None:
            measurements.write(self.path, self.run)

    def missed(self):
        return [f["name"] for f in self.run["figures"] if measurements.is_missed(f["verdict"]) and "or" not in f]

    def near(self):
        return [f["name"] for f in self.run["figures"] if f["verdict"] == measurements.NEAR]


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


STORED = "int4-stored.cria"


def make_models(folder, shape):
    """A checkpoint and what both programs make of it; kept for the next time, cria's while its converter is the same."""
    weights = MEASURED[shape].weights
    done = folder / "done"
    if not done.exists():
        print(f"making models in {folder}", flush=True)
        for kind in [RIVALS[name] for name in weights] + ["bf16"] * MEASURED[shape].is_whole:
            run([sys.executable, TOOLS / "make_random_gguf.py", folder / f"{kind}.gguf", "--shape", shape, "--type", kind])
        done.touch()
    converted = folder / "converted"
    if not converted.exists() or converted.stat().st_mtime < (BIN / "cria-convert").stat().st_mtime:
        if shape in SHAPES_OF_GGUF:  # both programs have the same file
            run([BIN / "cria-convert", folder / "q4_0.gguf", "-o", folder / "int4.cria", "--weights", "int4", "--no-tokenizer", "--quiet"])
        else:
            convert_checkpoint(folder, shape)
        converted.touch()


def convert_checkpoint(folder, shape):
    checkpoint = folder / "hf"
    if not any(checkpoint.glob("*.safetensors")):
        run([sys.executable, TOOLS / "make_random_checkpoint.py", checkpoint, "--shape", shape])
    measured = MEASURED[shape]
    for weights in measured.weights:
        # Positive scales, so that XNNPACK runs the same file; what is compared takes the same time with either.
        scales = ["--scales", "positive"] if weights == "int4" else []
        run([BIN / "cria-convert", checkpoint, "-o", folder / f"{weights}.cria", "--weights", weights, "--no-tokenizer",
             "--quiet", *scales])
    if measured.is_whole:
        run([BIN / "cria-convert", checkpoint, "-o", folder / STORED, "--compress", "none", "--no-tokenizer", "--quiet"])
        return
    for path in checkpoint.glob("*.safetensors*"):
        path.unlink()


def s(threads):
    return f"{threads} thread{'' if threads == 1 else 's'}"


def compare_prefill(table, cria, rival, weights, threads, rounds):
    model = f"{weights}.cria"
    prompts, bar = cria.measured.prompts, cria.measured.prefill_bar
    pairs = in_turns(rounds, lambda: cria.prefill(model, threads, prompts),
                     lambda: rival.prefill(f"{RIVALS[weights]}.gguf", threads, prompts))
    for n in prompts:
        table.add(f"{weights} prefill {n}, {s(threads)}", [(a[n], b[n]) for a, b in pairs], bar, "tokens/s")
    xnnpack = cria.prefill(model, threads, prompts, "xnnpack") if cria.has_xnnpack else {}
    for n in xnnpack:
        put_xnnpack(table, f"  {weights} prefill {n} by XNNPACK, {s(threads)}", xnnpack[n], [b[n] for _, b in pairs])


def compare_decode(table, cria, rival, weights, threads, rounds):
    model = f"{weights}.cria"
    pairs = in_turns(rounds, lambda: cria.bench(model, threads, (1,), N_DECODE),
                     lambda: rival.decode(f"{RIVALS[weights]}.gguf", threads))
    if any(a["read_bytes_per_second"] is None for a, _ in pairs):
        fail("cria bench had no memory to measure plain reads, which the bar of decoding needs; free 256 MB")
    speeds = [(a["decode"]["tokens_per_second"]["median"], b[0]) for a, b in pairs]
    share = f"{weights} decode, of plain reads, {s(threads)}"
    is_met = table.add(f"{weights} decode, {s(threads)}", speeds, cria.measured.decode_bar, "tokens/s", or_next=share)
    reads = [(a["decode"]["bytes_per_second"] / 1e9, a["read_bytes_per_second"] / 1e9) for a, _ in pairs]
    table.add(f"  {share}", reads, None if is_met else READS_BAR, "GB/s")
    if cria.has_xnnpack:
        xnnpack = cria.bench(model, threads, (1,), N_DECODE, "xnnpack")["decode"]["tokens_per_second"]["median"]
        put_xnnpack(table, f"  {weights} decode by XNNPACK, {s(threads)}", xnnpack, [b[0] for _, b in pairs])
    return pairs


def put_xnnpack(table, name, ours, rivals):
    rival = statistics.median(rivals)
    table.put(name, ours, rival, ours / rival, None, "tokens/s", 1)


def compare_depth(table, cria, rival, weights, threads, rounds, depth):
    """A prompt of so many tokens, and decoding after them."""
    model, gguf = f"{weights}.cria", f"{RIVALS[weights]}.gguf"
    rounds = min(rounds, DEPTH_ROUNDS)
    pairs = in_turns(rounds, lambda: cria.prefill(model, threads, (depth,)), lambda: rival.prefill(gguf, threads, (depth,)))
    table.add(f"{weights} prefill {depth}, {s(threads)}", [(a[depth], b[depth]) for a, b in pairs], cria.measured.prefill_bar,
              "tokens/s")
    for name, (words, bar) in DEPTH_RIVALS.items():
        pairs = in_turns(rounds, lambda: cria.bench(model, threads, (1,), N_DECODE, depth=depth),
                         lambda w=words: rival.decode(gguf, threads, "-d", depth, *w)[0])
        speed = [(a["decode"]["tokens_per_second"]["median"], b) for a, b in pairs]
        table.add(f"{weights} decode after {depth}{name}, {s(threads)}", speed, bar, "tokens/s")
    # What a token reads half-way, of depth + N_DECODE / 2 positions; the rival's by its shape.
    positions = depth + N_DECODE // 2
    ours = pairs[0][0]["decode"]["kv_bytes_per_token"] / positions * depth
    f16 = f16_kv_bytes(cria.folder, depth)
    name = f"KV cache at {depth}; f16, computed"
    if name not in (figure["name"] for figure in table.run["figures"]):  # the same with any number of threads
        table.put(f"  {name}", ours / 1e6, f16 / 1e6, ours / f16, None, "MB", 1)


def config_of(folder):
    return json.loads((folder / "hf/config.json").read_text())


def f16_kv_bytes(folder, n_positions):
    config = config_of(folder)
    n_rows = config["num_hidden_layers"] * n_positions
    if "kv_lora_rank" in config:  # a compressed row is keys and values of all heads
        return 2 * (config["kv_lora_rank"] + config["qk_rope_head_dim"]) * n_rows
    head_dim = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    return 4 * head_dim * config["num_key_value_heads"] * n_rows


def compare_reads(table, shape, weights, pairs):
    """The weights that a token reads; the rival's by its tensors."""
    decode = pairs[0][0]["decode"]
    ours, theirs = decode["bytes_per_token"] - decode["kv_bytes_per_token"], token_bytes(shape, RIVALS[weights])
    table.put(f"  {weights} weights a token reads; llama.cpp's, computed", ours / 1e6, theirs / 1e6, ours / theirs, None, "MB", 1)


def compare_memory(table, cria, weights, pairs):
    """Peak of the decode runs: beside llama.cpp's, and to weights and KV cache alone, which has a bar. What is used in place, in
    the file, is resident once it was read."""
    context = pairs[0][0]["context"]
    info = json.loads(run([BIN / "cria", "info", cria.folder / f"{weights}.cria", "--context", context, "--json"])[0])
    plan = info["memory_plan"]
    need = plan["weights_bytes"] + plan["in_place_bytes"] + plan["kv_cache_bytes"]
    peaks = [(a["peak_resident_bytes"], b[1]) for a, b in pairs]
    if None in (ours for ours, _ in peaks):
        fail("cria bench does not know its peak of resident memory, which has a bar")
    planned = measurements.rounded((pairs[0][0]["memory_plan_bytes"] + pairs[0][0]["in_place_bytes"]) / 1e6)
    table.add(f"{weights} peak memory", [(ours / 1e6, rival / 1e6) for ours, rival in peaks], None, "MB", planned=planned)
    table.add(f"{weights} peak memory to weights + KV cache", [(ours / 1e6, need / 1e6) for ours, _ in peaks], MEMORY_BAR, "MB",
              at_most=True)


def read_options():
    parser = OneLineParser(description=__doc__, epilog=(
        f"A bar is met, {measurements.NEAR} (which counts as met), or missed by N %, always of the bar: the ratios of shared\n"
        "machines move by more than that from run to run.\n"
        f"Exit codes: 0, every bar counts as met; {MISSED}, one is missed; {BROKEN}, it could not be measured."))
    parser.add_argument("--shape", required=True, choices=tuple(MEASURED), metavar="NAME",
                        help=f"{', '.join(MEASURED)}; -4l: cut to four layers")
    parser.add_argument("--threads", default="1,2", type=numbers(1, MOST_THREADS),
                        help="numbers of threads, each measured by itself; default: %(default)s")
    parser.add_argument("--isa", choices=tuple(LEVELS), help="both programs use this instruction set; default: the best")
    parser.add_argument("--depth", default="0", type=numbers(0, 2**20),
                        help="also a prompt of so many tokens, and decoding after it; 0, the default: all else, which "
                             "other depths alone leave out")
    parser.add_argument("--rounds", default=5, type=number(1, 1000),
                        help=f"turns of each pair, and {DECODE_ROUNDS} times as many of decoding; default: %(default)s; "
                             f"after a depth at most {DEPTH_ROUNDS}, as each fills the context anew")
    parser.add_argument("--json", type=output_file,
                        help="write the run to this file; default: docs/measurements/DATE-MACHINE-SHAPE-COMMIT.json, a new one")
    parser.add_argument("--peers", type=program, help="the program that runs llama.cpp; default: tools/peers of $CRIA_SHARED")
    parser.add_check()
    options = parser.parse_args()
    if options.peers is None and not is_program(PEERS):
        fail(f"{PEERS}, which runs llama.cpp, is no program that is there; give its place with --peers")
    options.peers = options.peers or PEERS
    check_depths(options.shape, options.depth)
    if os.geteuid() != 0:
        fail("not root, which llama.cpp's chroot needs; use sudo")
    if options.isa:
        flags = set(pathlib.Path("/proc/cpuinfo").read_text().split())
        if LEVELS[options.isa][0] not in flags:
            able = ", ".join(isa for isa, (flag, _) in LEVELS.items() if flag in flags) or "none of these levels"
            fail(f"--isa {options.isa}: this CPU has no {LEVELS[options.isa][0]}; it has {able}")
        if shutil.which("unshare") is None:
            fail(f"--isa {options.isa}: no program unshare, which shows llama.cpp one backend; install util-linux")
    return options


def check_depths(shape, depths):
    context = ALL_SHAPES[shape]["context"]
    for depth in depths:
        if depth and shape in SHAPES_OF_GGUF:
            fail("--depth: the KV cache of layers of several kinds is not computed")
        if depth + N_DECODE > context:
            fail(f"--depth {depth} and {N_DECODE} tokens more do not fit the {context} positions of this shape")


def main():
    options = read_options()
    if options.check:
        return 0
    folder = ROOT / "build/compare" / options.shape
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            fail(f"{folder}: another comparison is running there; wait for its end")
        return compare(options, folder)


def compare(options, folder):
    measurements.FOLDER.mkdir(parents=True, exist_ok=True)
    run([options.peers, "setup"])
    make_models(folder, options.shape)
    of_shape = MEASURED[options.shape]
    cria = Cria(folder, options.isa, of_shape)
    rival = LlamaCpp(folder, options.peers, options.isa)

    command = shlex.join(["scripts/compare.sh", *sys.argv[1:]])
    measured = measurements.new_run(options.shape, options.isa, command, rival.about)
    path = options.json or measurements.new_path(measured)
    table = Table(measured, path)
    for threads in options.threads:
        for depth in filter(None, options.depth):
            compare_depth(table, cria, rival, "int4", threads, options.rounds, depth)
    for weights in of_shape.weights if 0 in options.depth else ():
        for threads in options.threads:
            compare_prefill(table, cria, rival, weights, threads, options.rounds)
            decoded = compare_decode(table, cria, rival, weights, threads, DECODE_ROUNDS * options.rounds)
            if threads == options.threads[0]:
                compare_memory(table, cria, weights, decoded)
                compare_reads(table, options.shape, weights, decoded)
    if of_shape.is_whole and 0 in options.depth:
        compare_first_tokens(table, cria, rival, options)
        compare_conversion(table, folder, rival, options.rounds)

    table.end()
    missed, near = table.missed(), table.near()
    print(f"missed: {'; '.join(missed)}" if missed else "every bar is met")
    if near:
        print(f"{measurements.NEAR} of their bars, which counts: {'; '.join(near)}")
    print(f"written: {path}")
    return MISSED if missed else 0


def compare_first_tokens(table, cria, rival, options):
    for threads in options.threads:
        for name, model in (("compressed", "int4.cria"), ("uncompressed", STORED)):
            pairs = in_turns(options.rounds, lambda m=model: cria.first_token_seconds(m, threads),
                             lambda: rival.first_token_seconds("q4_0.gguf", threads))
            table.add(f"first token, {name}, {s(threads)}", pairs, 1.0, "s", less_is_better=True)


def compare_conversion(table, folder, rival, rounds):
    convert = [BIN / "cria-convert", folder / "hf", "-o", folder / "out.cria", "--no-tokenizer", "--quiet"]
    # Like with like: both search scales, or neither does. llama-quantize does for Q6_K, its output matrix, alone, which rows of
    # any other length become Q8_0 in.
    mse_bar = 1.0 if config_of(folder)["hidden_size"] % Q6_K_BLOCK == 0 else None
    for name, method, words, bar in (("Q4_0", "mse", (), mse_bar), ("--pure", "rtn", ("--pure",), 1.0)):
        pairs = in_turns(rounds, lambda: run([*convert, "--method", method])[2], lambda: rival.quantize_seconds(*words))
        table.add(f"conversion ({method}); llama-quantize {name}", pairs, bar, "s", less_is_better=True)
    for name in ("out.cria", "out.gguf"):
        (folder / name).unlink(missing_ok=True)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except OSError as error:
        fail(error)
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception:  # a 1 would say that a bar is missed
        traceback.print_exc()
        sys.exit(BROKEN)
