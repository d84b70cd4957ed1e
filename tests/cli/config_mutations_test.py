#!/usr/bin/env python3
"""cria-convert --plan with every family's config.json, changed at random: it is planned, or refused in one line with exit code 3."""
import copy
import json
import os
import re
import resource
import subprocess
import unittest
from pathlib import Path
from random import Random

import cria_cli as cli
from seeds import seeds_of_test

ARCHITECTURES = Path(os.environ.get("CRIA_SHARED", cli.SOURCE.parent / "shared")) / "reference/architectures"
CHANGES = 40 if cli.IS_SANITIZED or cli.IS_EMULATED else 150
MOST_MEMORY = 2 << 30
LINE = re.compile(r"cria-convert: error: [^\x00-\x1f\x7f\u202e]{1,900}\n")
VALUES = (0, 1, -1, 2, 3, 7, 48, 1 << 31, (1 << 32) - 1, 1 << 32, -(1 << 63), 1 << 63, 10**30, 0.5, -0.5, 1e-45, 1e39, 1e308, float("nan"),
          float("inf"), "1", "", "full_attention", "silu", "x" * 1000, "\u00e9\u202e\n\x1b[31m", None, True, False, [], {}, [1], [None], [[]],
          {"a": 1})
LAYERS = ("full_attention", "sliding_attention", "linear_attention", "attention", "conv", "mamba", "sparse", "", None, 1)


def places(value, path=()):
    """Of every value within an object or a list."""
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield (*path, key)
        yield from places(inner, (*path, key))


def change_once(config, random):
    *path, key = random.choice([place for place in places(config) if place[0] not in ("architectures", "model_type")])
    within = config
    for step in path:
        within = within[step]
    old, chance = within[key], random.random()
    if chance < 0.15:
        del within[key]
    elif isinstance(old, list) and chance < 0.7:
        within[key] = random.choice((old[:-1], [*old, "x"], [], old * 2000, [random.choice(LAYERS), *old[1:]], [random.choice(LAYERS)] * len(old)))
    elif isinstance(old, (int, float)) and not isinstance(old, bool) and chance < 0.6:
        within[key] = random.choice((old + 1, old - 1, 2 * old, old * 1000000, -old, old + 0.5, str(old), float(old)))
    else:
        within[key] = copy.deepcopy(random.choice(VALUES))


def limit_memory():
    if not cli.IS_SANITIZED:
        resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))


class ConfigMutations(unittest.TestCase):
    def test_they_are_planned_or_refused_in_one_line(self):
        if not ARCHITECTURES.is_dir():
            self.skipTest(f"no {ARCHITECTURES}")
        names = sorted(path.parent.name for path in ARCHITECTURES.glob("*/config.json"))
        self.assertGreater(len(names), 30)
        folder = cli.folder() / "changed"
        folder.mkdir()
        codes = []
        for seed in seeds_of_test(1):
            random = Random(seed)
            for _ in range(CHANGES):
                name = random.choice(names)
                config = json.loads((ARCHITECTURES / name / "config.json").read_text("utf-8"))
                for _ in range(random.choice((1, 1, 1, 2))):
                    change_once(config, random)
                text = json.dumps(config)
                (folder / "config.json").write_text(text)
                done = subprocess.run([cli.BIN / "cria-convert", folder, "--plan", "--no-tokenizer"], capture_output=True, check=False,
                                      timeout=cli.PATIENCE_S, preexec_fn=limit_memory)
                lines = done.stderr.decode("utf-8").splitlines(keepends=True)
                with self.subTest(name=name, seed=seed, config=text[:3000]):
                    self.assertIn(done.returncode, (0, 3), lines)
                    errors = [line for line in lines if "error" in line]
                    self.assertEqual(len(errors), 1 if done.returncode == 3 else 0, lines)
                    if errors:
                        self.assertRegex(lines[-1], LINE)
                codes.append(done.returncode)
        self.assertGreater(min(codes.count(0), codes.count(3)), CHANGES // 10)


if __name__ == "__main__":
    cli.main()
