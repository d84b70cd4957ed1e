#!/usr/bin/env python3
"""A second reader of the model file, written from docs/model_format.md alone (cria_reader/); slow, for small files.

  read_cria.py FILE                      checks everything and prints the config and the tensors as JSON
  read_cria.py FILE --dump NAME OUT      also writes one tensor as float32 [n_matrices][rows][cols], little-endian
  read_cria.py FILE --hashes             also gives the XXH64 of each tensor's float32 values

Exit codes: 0 valid, 1 refused (one line says how), 77 this machine has no libzstd.
"""
import argparse
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from cria_reader.config_fields import FORMAT_NAMES, FORMATS, KIND_FLAGS  # noqa: E402
from cria_reader.model_file import ModelFile  # noqa: E402
from cria_reader.refusal import Refused  # noqa: E402
from cria_reader.roles import ROLE_NAMES  # noqa: E402
from cria_reader.xxh64 import xxh64  # noqa: E402
from cria_reader.zstd_frame import have_zstd  # noqa: E402

REFUSED, SKIPPED = 1, 77


def values_hash(model, tensor):
    return f"{xxh64(b''.join(model.rows(tensor))):016x}"


def format_text(number_format, group):
    return f"{FORMAT_NAMES[number_format]} g{group}" if group else FORMAT_NAMES[number_format]


def matrices_by_role(config):
    """How many matrices of a role, in all kinds of layers, have each format."""
    found = {}
    for count in config["counts"]:
        of_role = found.setdefault(ROLE_NAMES[count["role"]], {})
        name = format_text(*FORMATS[count["format"]])
        of_role[name] = of_role.get(name, 0) + count["count"]
    return found


def readable(config):
    """Without reserved bytes, with flags as names."""
    fields = lambda record: {name: value for name, value in record.items() if not name.startswith("reserved")}
    kinds = [{**fields(kind), "flags": [name for bit, name in enumerate(KIND_FLAGS) if kind["flags"] >> bit & 1]}
             for kind in config["kinds"]]
    counts = matrices_by_role(config)
    return {**{name: value for name, value in fields(config).items() if name != "counts"}, "kinds": kinds, "n_matrices": counts}


def summary(model, with_hashes):
    tensors = []
    for t in model.tensors.values():
        tensors.append({"name": t.name, "format": FORMAT_NAMES[t.format], "n_matrices": t.n_matrices, "rows": t.rows, "cols": t.cols,
                        "chunks": t.n_chunks()})
        if with_hashes:
            tensors[-1]["hash"] = values_hash(model, t)
    return {"config": readable(model.config), "sections": sorted(model.sections),
            "metadata": json.loads(model.metadata) if model.metadata else None, "tensors": tensors}


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--dump", nargs=2, metavar=("NAME", "OUT"))
    parser.add_argument("--hashes", action="store_true")
    options = parser.parse_args(arguments)
    if not have_zstd():
        print("read_cria: no libzstd here, so compressed chunks cannot be read", file=sys.stderr)
        return SKIPPED
    try:
        model = ModelFile(options.file.read_bytes())
    except Refused as refusal:
        print(f"read_cria: {options.file}: {refusal}", file=sys.stderr)
        return REFUSED
    if options.dump:
        name, path = options.dump
        if name not in model.tensors:
            parser.error(f"no tensor {name}")
        with open(path, "wb") as out:
            out.writelines(model.rows(model.tensors[name]))
    print(json.dumps(summary(model, options.hashes), indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
