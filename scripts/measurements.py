"""Measurements as data: how a figure is judged, what machine this is, and the files of docs/measurements.

docs/measurements/README.md describes the fields.
"""
import datetime
import json
import math
import os
import pathlib
import re
import statistics
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs/measurements"
SCHEMA = 1

# A bar counts as met within this share of it: the ratios of shared machines move by more from run to run.
WITHIN = 0.05
MET, NEAR = "met", f"within {100 * WITHIN:.0f} %"
OURS_TO_RIVAL, RIVAL_TO_OURS = "cria/rival", "rival/cria"

# Instruction sets by the flags of /proc/cpuinfo, in rising order.
FLAGS = {"sse4_1": "sse4.1", "avx2": "avx2", "avx_vnni": "avxvnni", "avx512_vnni": "avx512vnni",
         "asimd": "neon", "asimddp": "dotprod", "i8mm": "i8mm"}
# Intel's processors of family 6.
INTEL_MODELS = {85: "skylake-server", 106: "icelake-server", 108: "icelake-server", 143: "sapphire-rapids", 207: "emerald-rapids",
                173: "granite-rapids", 174: "granite-rapids", 151: "alderlake", 154: "alderlake", 183: "raptorlake",
                186: "raptorlake", 190: "alderlake-n"}

RUN_KEYS = ("schema", "source", "date", "commit", "modified", "command", "machine", "shape", "level", "rival", "complete", "figures")
RUN_EXTRAS = ("time", "decimals", "remark", "notes")
FIGURE_KEYS = ("name", "unit", "cria", "rival", "ratio", "ratio_of", "bar", "verdict", "n_rounds", "rounds")
FIGURE_EXTRAS = ("range", "bar_is", "or", "planned", "of_peak", "excluded")
AT_MOST = "at most"


def verdict_of(ratio, bar, at_most=False):
    """Whether a ratio meets its bar; a miss in percent of the bar, rounded up. A ratio that is no number misses."""
    if bar is None:
        return None
    if ratio is None or math.isnan(ratio):
        return "missed: no number"
    if ratio <= bar if at_most else ratio >= bar:
        return MET
    if ratio <= bar * (1 + WITHIN) if at_most else ratio >= bar * (1 - WITHIN):
        return NEAR
    return f"missed by {math.ceil(round(100 * abs(ratio / bar - 1), 6))} %"


def is_missed(verdict):
    return verdict not in (None, MET, NEAR)


def ratio_of_rounds(rounds, ratio_of):
    """The median of the rounds' ratios: what two programs do within seconds of each other has the same neighbours."""
    return statistics.median(ours / rival if ratio_of == OURS_TO_RIVAL else rival / ours for ours, rival in rounds)


def kind_of(vendor, family, model, name):
    """What a processor's core is called; its name, in words joined by dashes, where this does not know it."""
    if vendor == "AuthenticAMD" and family == 25:
        return "zen4" if 0x10 <= model < 0x20 or model >= 0x60 else "zen3"
    if vendor == "AuthenticAMD" and family == 26:
        return "zen5"
    if vendor == "GenuineIntel" and family == 6 and model in INTEL_MODELS:
        return INTEL_MODELS[model]
    return re.sub(r"[^a-z0-9]+", "-", (name or "unknown").lower()).strip("-") or "unknown"


def this_machine():
    try:
        listed = subprocess.run(["lscpu"], capture_output=True, text=True, check=False, env=os.environ | {"LC_ALL": "C"}).stdout
    except OSError:  # no util-linux
        listed = ""
    fields = dict(reversed(re.findall(r"^\s*([^:\n]+):\s*(.*?)\s*$", listed, re.M)))  # of two kinds of cores the first
    number = lambda key: int(fields[key]) if fields.get(key, "").isdigit() else -1
    name = fields.get("Model name")
    flags = set(pathlib.Path("/proc/cpuinfo").read_text().split())
    return {"name": name, "kind": kind_of(fields.get("Vendor ID"), number("CPU family"), number("Model"), name),
            "levels": [level for flag, level in FLAGS.items() if flag in flags], "cores": os.cpu_count()}


def git(*words):
    """What git says of this repository; None where it says nothing."""
    try:  # root may measure in the folder of somebody else
        done = subprocess.run(["git", "-c", "safe.directory=*", "-C", ROOT, *words], capture_output=True, text=True, check=False)
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def new_run(shape, level, command, rival):
    """A run that has no figures yet. `rival` is kept, not copied: it may be filled in later."""
    now = datetime.datetime.now(datetime.timezone.utc)
    changes = git("status", "--porcelain", "--untracked-files=no", "--", ".", ":!docs", ":!*.md")
    return {"schema": SCHEMA, "source": "scripts/compare.py", "date": f"{now:%Y-%m-%d}", "time": f"{now:%H:%M}",
            "commit": git("rev-parse", "--short=7", "HEAD"),
            "modified": None if changes is None else bool(changes),
            "command": command, "machine": this_machine(), "shape": shape, "level": level, "rival": rival, "complete": False,
            "figures": []}


def name_of(run):
    """Of a run's file, without a number for the second one."""
    return "-".join(filter(None, (run["date"], run["machine"]["kind"], run["shape"], run["level"], run["commit"] or "unknown")))


def new_path(run):
    first = FOLDER / f"{name_of(run)}.json"
    path, n = first, 1
    while path.exists():
        n += 1
        path = first.with_name(f"{first.stem}-{n}.json")
    return path


def new_figure(name, unit, ours, rival, ratio, ratio_of, bar, n_rounds, rounds=None, at_most=False, **extras):
    ratio = rounded(ratio)
    figure = {"name": name, "unit": unit, "cria": rounded(ours), "rival": rounded(rival), "ratio": ratio,
              "ratio_of": ratio_of, "bar": bar, "verdict": verdict_of(ratio, bar, at_most), "n_rounds": n_rounds,
              "rounds": rounds and [[rounded(value) for value in pair] for pair in rounds]}
    return figure | ({"bar_is": AT_MOST} if at_most else {}) | extras


def rounded(value):
    """Five digits; None for what is no number, which JSON does not know."""
    return float(f"{value:.5g}") if value is not None and math.isfinite(value) else None


def text_of(run):
    """As JSON with a figure on each line."""
    head = {key: value for key, value in run.items() if key != "figures"}
    figures = ",\n".join("    " + json.dumps(figure) for figure in run["figures"])
    return json.dumps(head, indent=2)[:-2] + ',\n  "figures": [\n' + figures + "\n  ]\n}\n"


def write(path, run):
    """The whole file at once, so that whoever interrupts leaves the one before."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    part.write_text(text_of(run))
    part.replace(path)


def load():
    """Files' names with what they hold, in the order of time."""
    runs = [(path.stem, json.loads(path.read_text())) for path in sorted(FOLDER.glob("*.json"))]
    return sorted(runs, key=lambda named: (named[1]["date"], named[1].get("time") or ""))


def problems_of(name, run):
    """What is wrong with a file."""
    def keys(what, found, wanted, extras):
        yield from (f"{what} has no {key}" for key in wanted if key not in found)
        yield from (f"{what} has {key}, which means nothing" for key in found if key not in wanted + extras)
    problems = list(keys("the run", run, RUN_KEYS, RUN_EXTRAS))
    problems += [problem for figure in run.get("figures", ()) for problem in
                 keys(f"the figure {figure.get('name')!r}", figure, FIGURE_KEYS, FIGURE_EXTRAS)]
    if problems:
        return problems
    if run["schema"] != SCHEMA:
        problems.append(f"schema is {run['schema']}, not {SCHEMA}")
    if not re.fullmatch(re.escape(name_of(run)) + r"(-[2-9]|-[1-9]\d+)?", name):
        problems.append(f"its name does not begin with {name_of(run)}")
    names = [figure["name"] for figure in run["figures"]]
    problems += [f"two figures are called {name!r}" for name in sorted(set(names)) if names.count(name) > 1]
    for figure in run["figures"]:
        problems += [f"{figure['name']}: {problem}" for problem in problems_of_figure(figure, names)]
    return problems


def problems_of_figure(figure, names):
    ratio, rounds = figure["ratio"], figure["rounds"]
    if figure["ratio_of"] not in (OURS_TO_RIVAL, RIVAL_TO_OURS):
        yield f"ratio_of is {figure['ratio_of']}"
    elif rounds is not None:
        if len(rounds) != figure["n_rounds"]:
            yield f"{len(rounds)} rounds, not {figure['n_rounds']}"
        elif not math.isclose(ratio, ratio_of_rounds(rounds, figure["ratio_of"]), rel_tol=1e-3):
            yield f"the ratio {ratio} is not the median of the rounds"
    if "range" in figure and not (ratio is None and figure["bar"] is None and figure["range"][0] <= figure["range"][1]):
        yield "a range stands for a ratio that is not known, and has no bar"
    if figure["verdict"] != verdict_of(ratio, figure["bar"], figure.get("bar_is") == AT_MOST):
        yield f"the verdict {figure['verdict']} is not that of {ratio} and {figure['bar']}"
    if "or" in figure and figure["or"] not in names:
        yield f"there is no figure {figure['or']!r}"
