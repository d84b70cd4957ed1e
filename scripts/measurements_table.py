#!/usr/bin/env python3
"""Puts the files of docs/measurements into the documents: the table of docs/performance.md and the one of README.md.

    scripts/measurements_table.py            writes both, between their markers
    scripts/measurements_table.py --check    says which document is not what the files make of it; exit code 1 then

A cell of docs/performance.md has the median of the runs' ratios and, in brackets, the least and the most. README.md shows the newest
whole run of README_KIND, and what other machines have shown. Figures that a file excludes are in neither.
"""
import statistics
import sys

from measurements import AT_MOST, ROOT, load, problems_of
from script_arguments import OneLineParser

BEGIN = "<!-- Made by scripts/measurements_table.py from docs/measurements. -->\n"
END = "<!-- End of what scripts/measurements_table.py makes. -->\n"
README_KIND = "zen4"
# Kinds of machines in the order of columns; others follow by name.
KINDS = {"zen4": "Zen 4", "zen5": "Zen 5", "zen3": "Zen 3", "sapphire-rapids": "Intel"}
LONG_KINDS = {"zen4": "an AMD EPYC (Zen 4)"}
SMALL_KV = "(llama.cpp -fa on, KV q8_0)"
LEVELS = {"avx2": "AVX2", "avxvnni": "AVX-VNNI", "avx512vnni": "AVX-512 VNNI"}
THREADS = ("1 thread", "2 threads")


def each(pattern, *choices):
    return [pattern.format(choice, threads) for choice in choices for threads in THREADS]


# Rows of docs/performance.md: what it says, the shape, the level both programs are held to, and the figures that it takes together.
FIGURES = (
    each("int4 prefill {}, {}", 128, 512, 4096) + ["int4 prefill 8192, 2 threads"] +
    ["int4 decode, 1 thread", "int4 decode, of plain reads, 1 thread", "int4 decode, 2 threads", "int4 decode, of plain reads, 2 threads"] +
    each("int4 decode after 4096{}, {}", "", f" {SMALL_KV}") +
    ["int4 decode after 8192, 2 threads", f"int4 decode after 8192 {SMALL_KV}, 2 threads"] +
    each("int8 prefill {}, {}", 512) +
    ["int8 decode, 1 thread", "int8 decode, of plain reads, 1 thread", "int8 decode, 2 threads", "int8 decode, of plain reads, 2 threads"] +
    each("first token, {}, {}", "compressed", "uncompressed") +
    ["conversion (mse); llama-quantize Q4_0", "conversion (rtn); llama-quantize --pure"] +
    ["int4 peak memory", "int4 peak memory to weights + KV cache", "int8 peak memory to weights + KV cache",
     "KV cache at 4096; f16, computed"])
GROUPS = {
    "int4 prefill": each("int4 prefill {}, {}", 128, 512),
    "int8 prefill": each("int8 prefill {}, {}", 128, 512),
    "int4 decode": each("int4 decode{}, {}", ""),
    "int8 decode": each("int8 decode{}, {}", ""),
    "first token, compressed": each("first token, {}, {}", "compressed"),
}
# Of these less is measured; those with experts are cut to four layers.
OTHER_SHAPES = {"qwen3-30b-a3b-4l": "Qwen3-30B-A3B", "deepseek-v2-lite-4l": "DeepSeek-V2-Lite", "lfm2-1.2b": "LFM2-1.2B",
                "gemma-3-1b": "Gemma 3 1B", "qwen3.5-0.8b": "Qwen3.5-0.8B"}
OTHER_FIGURES = (
    each("int4 prefill {}, {}", 128) +
    ["int4 decode, 1 thread", "int4 decode, of plain reads, 1 thread", "int4 decode, 2 threads", "int4 decode, of plain reads, 2 threads"] +
    each("int4 decode after 4096{}, {}", "") +
    ["int4 weights a token reads; llama.cpp's, computed", "int4 peak memory to weights + KV cache"])
ROWS = ([(name, "llama-3.2-1b", None, [name]) for name in FIGURES] +
        [(f"{label}: {name}", shape, None, [name]) for shape, label in OTHER_SHAPES.items() for name in OTHER_FIGURES] +
        [(f"135M, {LEVELS[level]}: {group}", "smollm-135m", level, names) for group, names in GROUPS.items() for level in LEVELS])
README_SHAPE = "llama-3.2-1b"
README_ROWS = (
    ("prefill of 512 tokens, 2 threads, tokens/s", "int4 prefill 512, 2 threads"),
    ("decode, 2 threads, tokens/s (memory-bound in both)", "int4 decode, 2 threads"),
    ("decode after 4,096 tokens, 1 thread, tokens/s", f"int4 decode after 4096 {SMALL_KV}, 1 thread"),
    ("first token from a compressed file, 1 thread, s", "first token, compressed, 1 thread"),
    ("peak memory, MB (planned: {planned:.0f})", "int4 peak memory"),
)


def figures_of(runs, shape, level, names, kinds):
    """(run, figure) of those that count."""
    return [(run, figure) for run in runs if run["shape"] == shape and run["level"] == level and run["machine"]["kind"] in kinds
            for figure in run["figures"] if figure["name"] in names and "excluded" not in figure]


def ends_of(figure):
    return figure["range"] if "range" in figure else (figure["ratio"], figure["ratio"])


def cell(found):
    if not found:
        return ""
    digits = min(run.get("decimals", 2) for run, _ in found)
    least = min(ends_of(figure)[0] for _, figure in found)
    most = max(ends_of(figure)[1] for _, figure in found)
    ratios = [figure["ratio"] for _, figure in found if figure["ratio"] is not None]
    ends = f"{least:.{digits}f} to {most:.{digits}f}"
    if not ratios:
        return ends
    median = f"{statistics.median(ratios):.{digits}f}"
    return median if least == most else f"{median} ({ends})"


def bar_of(runs, shape, level, names):
    """Of the newest figure that has one."""
    with_bar = [figure for run in runs if run["shape"] == shape and run["level"] == level for figure in run["figures"]
                if figure["name"] in names and figure["bar"] is not None]
    if not with_bar:
        return ""
    newest = with_bar[-1]
    return f"{'≤' if newest.get('bar_is') == AT_MOST else '≥'} {newest['bar']:.2f}{' or the next' if 'or' in newest else ''}"


def table_of(runs):
    """Of docs/performance.md."""
    kinds = [kind for kind in KINDS if any(run["machine"]["kind"] == kind for run in runs)]
    kinds += sorted({run["machine"]["kind"] for run in runs} - set(kinds))
    lines = []
    dates = {kind: [run["date"] for run in runs if run["machine"]["kind"] == kind] for kind in kinds}
    lines.append(["runs", "", *(f"{len(dates[kind])}, {span(dates[kind])}" for kind in kinds)])
    for label, shape, level, names in ROWS:
        cells = [cell(figures_of(runs, shape, level, names, (kind,))) for kind in kinds]
        if any(cells):
            lines.append([label, bar_of(runs, shape, level, names), *cells])
    head = f"| ratio | bar | {' | '.join(KINDS.get(kind, kind) for kind in kinds)} |\n{'|---' * (2 + len(kinds))}|\n"
    return head + "".join(f"| {' | '.join(line)} |\n" for line in lines) + "\n" + left_out(runs)


def span(dates):
    first, last = min(dates), max(dates)
    if first == last:
        return first
    month = len("2026-11")
    return f"{first} to {last[month + 1:] if first[:month] == last[:month] else last}"


def left_out(runs):
    """Why which figures are in no cell."""
    places = {}
    for run in runs:
        for figure in run["figures"]:
            if "excluded" in figure:
                of_kind = places.setdefault((figure["excluded"], KINDS.get(run["machine"]["kind"], run["machine"]["kind"])), [])
                of_kind.append(run["date"])
    return "".join(f"- Left out, {kind}, {span(dates)}, figures: {len(dates)}. Reason: {reason}.\n"
                   for (reason, kind), dates in places.items())


def plain(value):
    """Three digits or all before the point."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def short(ratio):
    return f"{ratio:.1f}" if ratio >= 1 else f"{ratio:.2f}"


def on_others(runs, name, ratio):
    """Least and most ratio of the other kinds of machines, with what is to be remarked of it."""
    kinds = {run["machine"]["kind"] for run in runs} - {README_KIND}
    ends = [(value, run) for run, figure in figures_of(runs, README_SHAPE, None, [name], kinds) for value in ends_of(figure)]
    if not ends:
        return ""
    low, high = min(ends, key=lambda end: end[0]), max(ends, key=lambda end: end[0])
    if {f"{low[0]:.2f}", f"{high[0]:.2f}"} == {f"{ratio:.2f}"}:
        return "the same"
    texts = []
    for value, run in (low, high):
        remark = f" ({KINDS.get(run['machine']['kind'], run['machine']['kind'])}, {run['remark']})" if "remark" in run else ""
        texts.append(short(value) + remark)
    return texts[0] if texts[0] == texts[1] else " to ".join(texts)


def summary_of(named_runs):
    """Of README.md: the newest run that has all of its rows."""
    def complete(run):
        found = {figure["name"]: figure for figure in run["figures"] if "excluded" not in figure and None not in
                 (figure["cria"], figure["rival"], figure["ratio"])}
        return found if all(name in found for _, name in README_ROWS) else None
    whole = [(name, run) for name, run in named_runs if run["shape"] == README_SHAPE and run["level"] is None and
             run["machine"]["kind"] == README_KIND and complete(run)]
    if not whole:
        sys.exit(f"measurements_table: no run on {README_KIND} has all rows of README's table")
    file, newest = whole[-1]
    figures = complete(newest)
    cores = {2: "two"}.get(newest["machine"]["cores"], newest["machine"]["cores"])
    text = (f"Llama 3.2 1B shape, int4, {cores} cores of {LONG_KINDS[README_KIND]}, beside llama.cpp {newest['rival']['build']} (Q4_0), "
            f"medians of interleaved runs,\n[{newest['date']}](docs/measurements/{file}.json). "
            "After 4,096 tokens llama.cpp has `-fa on` and a KV cache of q8_0.\n\n"
            "| | cria | llama.cpp | ratio | least and greatest ratio elsewhere |\n|---|---|---|---|---|\n")
    for label, name in README_ROWS:
        figure = figures[name]
        others = on_others([run for _, run in named_runs], name, figure["ratio"])
        text += (f"| {label.format(planned=figure.get('planned') or 0)} | {plain(figure['cria'])} | {plain(figure['rival'])} | "
                 f"{short(figure['ratio'])} | {others} |\n")
    return text


def with_part(text, part):
    """A document with what stands between its markers replaced; None where it has none."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    return before + begin + "\n" + part + "\n" + end + after if begin and end else None


def main():
    parser = OneLineParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare with the documents, and write nothing")
    args = parser.parse_args()
    named_runs = load()
    wrong = [f"docs/measurements/{name}.json: {problem}" for name, run in named_runs for problem in problems_of(name, run)]
    if wrong:
        sys.exit("\n".join(wrong))
    parts = {ROOT / "docs/performance.md": table_of([run for _, run in named_runs]), ROOT / "README.md": summary_of(named_runs)}
    for path, part in parts.items():
        text = path.read_text()
        wanted = with_part(text, part)
        if wanted is None:
            wrong.append(f"{path.name}: a marker is missing")
        elif args.check and wanted != text:
            wrong.append(f"{path.name}: not what the files of docs/measurements make; run scripts/measurements_table.py")
        elif not args.check:
            path.write_text(wanted)
    sys.exit("\n".join(wrong) or 0)


if __name__ == "__main__":
    main()
