#!/usr/bin/env python3
"""cria-convert --method gptq on the demo: what it costs in perplexity, the report, equal bytes, given tokens, Ctrl-C."""
import json
import os
import signal
import subprocess
import time
import unittest
from pathlib import Path

import cria_cli
from cria_cli import BIN, DEMO, DONE, PATIENCE_S, cria, folder, model

# Enough to be better than without; the default takes longer.
TOKENS = ("--calibration-tokens", "4096")


def heldout():
    """The first documents of the demo's held-out text."""
    path = folder() / "heldout.txt"
    if not path.exists():
        text = (DEMO / "heldout.txt").read_text("utf-8")
        path.write_text(text[:12000], "utf-8")
    return path


def compared(path):
    done = cria("eval", path, "--text", heldout(), "--reference", model("--weights", "f32"), "--json")
    assert done.code == DONE, done.err
    return json.loads(done.out)["reference"]


class Calibration(unittest.TestCase):
    def test_its_own_text_brings_the_model_nearer_to_the_float_model(self):
        report = folder() / "gptq.json"
        calibrated = compared(model("--method", "gptq", *TOKENS, "--report", str(report)))
        plain = compared(model())
        print(f"KL: mse {plain['mean_kl']:.5f}, gptq {calibrated['mean_kl']:.5f}")
        self.assertLess(calibrated["mean_kl"], 0.9 * plain["mean_kl"])
        told = json.loads(report.read_text())
        self.assertEqual(told["method"], "gptq")
        self.assertEqual(told["calibration"], {"source": "self", "seed": 1, "tokens": 4096, "held_out_tokens": 512})
        kept = [tensor["rounding"]["kept"] for tensor in told["tensors"] if "rounding" in tensor]
        self.assertEqual(len(kept), 35)
        self.assertGreater(kept.count("gptq"), 30)

    def test_two_threads_write_what_one_does(self):
        models = [model("--method", "gptq", "--calibration-tokens", "1024", "--threads", n) for n in ("1", "2")]
        self.assertEqual(*(Path(path).read_bytes() for path in models))

    def test_tokens_may_be_given(self):
        text = "".join(line[:400] + "\n" for line in (DEMO / "calibration.txt").read_text("utf-8").splitlines()[:40])
        lines = [cria("tokenize", model(), "-", stdin=line).out for line in text.splitlines() if len(line) > 20]
        ids = folder() / "ids.txt"
        ids.write_text("".join(line.strip() + "\n" for line in lines))
        for method in ("gptq", "mse"):
            compared(model("--method", method, "--calibration", str(ids)))

    def test_an_interruption_leaves_nothing(self):
        place = folder() / "interrupted"
        place.mkdir()
        process = subprocess.Popen([str(BIN / "cria-convert"), str(DEMO), "-o", str(place / "m.cria"), "--method", "gptq",
                                    "--calibration-tokens", "1000000"], stderr=subprocess.PIPE)
        end = time.monotonic() + PATIENCE_S
        while not os.listdir(place) and time.monotonic() < end:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=PATIENCE_S)
        self.assertNotEqual(process.returncode, DONE)
        self.assertEqual(os.listdir(place), [])


if __name__ == "__main__":
    cria_cli.main()
