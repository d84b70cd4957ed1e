#!/usr/bin/env python3
"""The second reader gets the runtime's numbers from every tensor, to the bit.

Both are held to tests/data/golden/tensor_hashes.txt: the runtime by tests/system/tensor_values_test.cpp.
"""
import concurrent.futures
import os
import struct
import sys
import unittest
from pathlib import Path

import cria_cli as cli

sys.path.insert(0, str(cli.SOURCE / "tests/tools"))
from cria_reader.model_file import ModelFile  # noqa: E402
from cria_reader.xxh64 import xxh64  # noqa: E402
from cria_reader.zstd_frame import have_zstd  # noqa: E402

GOLDEN = cli.SOURCE / "tests" / "data" / "golden"
MODELS = {"demo": cli.DEMO, "odd-sizes": GOLDEN / "odd-sizes", "mistral-sliding-window": GOLDEN / "mistral-sliding-window"}
FORMATS = {"f32": ("f32",), "f16": ("f16",), "bf16": ("bf16",), "int8": ("int8",),
           "int4g32": ("int4", "--scales", "positive"), "int4g64": ("int4", "--group-size", "64", "--scales", "positive"),
           "int4g128": ("int4", "--group-size", "128", "--scales", "positive"), "int4g32s": ("int4",), "int4nlg32s": ("int4nl",),
           "int8g32": ("int8g32",)}


def model_hash(path):
    """Hash of the hashes of the tensors' values, in their order."""
    model = ModelFile(Path(path).read_bytes())
    hashes = [xxh64(b"".join(model.rows(tensor))) for tensor in model.tensors.values()]
    return f"{xxh64(struct.pack(f'<{len(hashes)}Q', *hashes)):016x}"


@unittest.skipUnless(have_zstd(), "no libzstd here")
class Values(unittest.TestCase):
    def test_are_the_runtimes(self):
        expected = dict(line.split() for line in (GOLDEN / "tensor_hashes.txt").read_text("utf-8").splitlines())
        self.assertEqual(len(expected), len(MODELS) * len(FORMATS))
        paths = {f"{name}/{label}": cli.converted(folder, "--no-tokenizer", "--weights", *options)
                 for name, folder in MODELS.items() for label, options in FORMATS.items()}
        with concurrent.futures.ProcessPoolExecutor(os.cpu_count()) as pool:
            found = dict(zip(paths, pool.map(model_hash, paths.values())))
        self.assertEqual(found, expected)


if __name__ == "__main__":
    cli.main()
