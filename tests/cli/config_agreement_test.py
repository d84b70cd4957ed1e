"""Config sections of random kinds of layers, and such with a field changed: quant and the second reader say the same of each."""
import os
import random
import struct
import subprocess
import sys
import unittest
from pathlib import Path

TOOLS = Path(__file__).resolve().parents[1] / "tools"
sys.path.insert(0, str(TOOLS))
from bad_models import config_limits  # noqa: E402
from bad_models.kinds import config_of  # noqa: E402
from bad_models.model_writer import config_bytes, counts_needed  # noqa: E402
from cria_reader.config_fields import COUNT, FORMATS, KIND, SCALARS  # noqa: E402
from cria_reader.model_config import check_config_size, read_config  # noqa: E402
from cria_reader.refusal import Refused  # noqa: E402
from cria_reader.roles import MATRIX, all_shapes  # noqa: E402
from cria_reader.tensor_list import Tensor  # noqa: E402
import random_kinds  # noqa: E402
from seeds import seeds_of_test  # noqa: E402

PROBE = Path(os.environ.get("CRIA_BINARY_DIR", "build/release")) / "tests/bin/config_probe"
SEED = 20261128
N_CONFIGS = 250
N_CHANGES = 12  # of each


def probe(sections):
    """What quant says of each: "refused FIELD", or lines of tensors."""
    lines = "".join(f"{section.hex()}\n" for section in sections)
    done = subprocess.run([PROBE], input=lines, capture_output=True, text=True, check=True)
    found = iter(done.stdout.splitlines())
    for line in found:
        verdict, rest = line.split(" ", 1)
        yield line if verdict == "refused" else [next(found) for _ in range(int(rest))]


def second_reader(section):
    try:
        check_config_size(len(section))
        config = read_config(section)
    except Refused as refusal:
        return f"refused {refusal.problem}"
    counted = {}
    for count in config["counts"]:
        counted.setdefault((count["kind"], count["role"]), []).append(FORMATS[count["format"]])
    return [line_of(layer, kind, shape, counted) for layer, kind, shape in all_shapes(config)]


def line_of(layer, kind, shape, counted):
    formats = counted[kind, shape.number] if shape.form == MATRIX else FORMATS[:1]
    planes = [(*Tensor(layer, shape, matrix_format).planes, 0) for matrix_format in formats]
    sizes = " ".join(f"{codes}+{scales}" for codes, scales, *_ in planes)
    return f"{shape.number} {layer} {kind} {shape.count} {shape.rows} {shape.cols} {sizes}"


def random_section(seed):
    """Of a config whose matrices have any formats."""
    chance = random_kinds.Chance(seed)
    config = random_kinds.random_config(chance)
    formats = random_kinds.random_formats(chance, config)
    found = {}
    for layer, kind, shape in all_shapes(config):
        if shape.form == MATRIX:
            chosen = formats[shape.name]
            place = FORMATS.index(chosen[layer] if isinstance(chosen, list) else chosen)
            found[kind, shape.number, place] = found.get((kind, shape.number, place), 0) + 1
    counts = [{"kind": kind, "role": role, "format": place, "count": n} for (kind, role, place), n in sorted(found.items())]
    return config_bytes(config_of(**config, counts=counts))


def changed(section, generator):
    """One to three fields of it have other values; sometimes the length is another."""
    for _ in range(generator.choice((1, 1, 1, 2, 3))):
        section = changed_once(section, generator)
        if len(section) % COUNT.size or len(section) < SCALARS.size:
            break
    return section


def changed_once(section, generator):
    raw = bytearray(section)
    _, n_kinds, n_counts = struct.unpack_from("<3I", raw, 8)
    kinds_at = SCALARS.size
    layers_at, counts_at = kinds_at + KIND.size * n_kinds, len(raw) - COUNT.size * n_counts
    part = generator.choice("scalars kind kind kind layers counts length".split())
    if part == "length" or not kinds_at < layers_at < counts_at < len(raw):
        return bytes(raw[:generator.randrange(len(raw))] if generator.random() < 0.5 else raw + bytes(generator.choice((1, 8))))
    if part == "layers":
        raw[generator.randrange(layers_at, counts_at)] = generator.choice((0, 1, n_kinds - 1, n_kinds, 255))
        return bytes(raw)
    begin, record = {"scalars": (0, SCALARS), "kind": (kinds_at + KIND.size * generator.randrange(n_kinds), KIND),
                     "counts": (counts_at + COUNT.size * generator.randrange(n_counts), COUNT)}[part]
    offset, form = record.places[generator.choice(list(record.places))]
    change_value(raw, begin + offset, form, generator)
    return bytes(raw)


def change_value(raw, at, form, generator):
    """Of a number, or of one byte of several."""
    if form in "BHI":
        most = (1 << 8 * struct.calcsize(form)) - 1
        value = struct.unpack_from("<" + form, raw, at)[0]
        values = [0, 1, 2, 3, 4, 255, 256, 512, 1024, most, value + 1, value - 1, 2 * value, value ^ 1 << generator.randrange(27)]
        return struct.pack_into("<" + form, raw, at, generator.choice(values) & most)
    if form == "f":
        values = [0.0, -0.0, 0.5, 1.0, -1.0, 1e-45, 3.4e38, float("inf"), float("-inf"), float("nan")]
        return struct.pack_into("<f", raw, at, generator.choice(values))
    at += generator.randrange(struct.calcsize("<" + form))
    raw[at] = generator.choice((0, 1, 128, 255))
    return None


class ConfigAgreementTest(unittest.TestCase):
    def agree(self, sections):
        """The verdicts; a field's name is the first that a reader happens to look at."""
        verdicts = list(probe(sections))
        self.assertEqual(len(verdicts), len(sections))
        for section, found in zip(sections, verdicts):
            wanted = second_reader(section)
            is_taken = not isinstance(wanted, str)
            self.assertEqual(not isinstance(found, str), is_taken, f"quant: {found}, second reader: {wanted}\n{section.hex()}")
            if is_taken:
                self.assertEqual(found, wanted, section.hex())
        return [not isinstance(found, str) for found in verdicts]

    def test_random_kinds(self):
        for seed in seeds_of_test(SEED):
            with self.subTest(seed=seed):
                sections = [random_section(seed + i) for i in range(N_CONFIGS)]
                self.assertTrue(all(self.agree(sections)))

    def test_random_kinds_with_a_field_changed(self):
        for seed in seeds_of_test(SEED):
            with self.subTest(seed=seed):
                generator = random.Random(seed)
                sections = [changed(random_section(seed + i), generator) for i in range(N_CONFIGS) for _ in range(N_CHANGES)]
                are_taken = self.agree(sections)
                self.assertGreater(are_taken.count(True), 200)
                self.assertGreater(are_taken.count(False), 1000)

    def test_each_field_at_its_limits_and_beyond(self):
        """With the names of fields: here one alone is wrong."""
        trials = list(config_limits.trials())
        sections = [config_bytes({**trial.config, "counts": trial.config["counts"] or counts_needed(trial.config)}) for trial in trials]
        for trial, found in zip(trials, self.agree(sections)):
            self.assertEqual(found, trial.fault is None, trial.name)
        self.assertGreater(len(trials), 500)


if __name__ == "__main__":
    if not PROBE.exists():
        print("config_probe is not built", file=sys.stderr)
        sys.exit(77)
    unittest.main()
