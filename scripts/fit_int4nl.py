#!/usr/bin/env python3
"""Fits the sixteen values of int4nl (kInt4NlValues in quant/number_formats.h).

    scripts/fit_int4nl.py [--groups 100] [--rounds 10] [MODEL.safetensors ...]

The weights are groups of 32: of each file's matrices, of a Gauss distribution and of Student's t with 5 and 10 degrees of
freedom, the same number of each. A round gives every group the scale that the converter's search would (fractions of the
covering scale, of either sign, then least squares, rounded to bf16, here the least squared error), and then every value
the mean of what it stands for. Values are multiples of 1/32 of the largest, so that sums of eight products with
activations fit 16 bits, and the one in the middle is zero. At last each value moves by one as long as the error falls.
"""
import array
import bisect
import json
import random
import struct
import sys

from script_arguments import OneLineParser, existing, number

GROUP = 32
LARGEST = 32
VALUES = 16
ZERO = 8
FACTORS = (1.06, 1.03, 1.0, 0.97, 0.94, 0.91, 0.88, 0.85, 0.82, 0.79, 0.76, 0.72, 0.68, 0.64)
START = (-1.0, -0.82, -0.66, -0.52, -0.39, -0.28, -0.17, -0.08, 0.0, 0.08, 0.16, 0.25, 0.36, 0.49, 0.65, 0.87)


def bf16(value):
    word, = struct.unpack("<I", struct.pack("<f", value))
    word += 0x7FFF + (word >> 16 & 1)
    return struct.unpack("<f", struct.pack("<I", word & 0xFFFF0000))[0]


def groups_of_file(path, n, draw):
    """n groups of the matrices of a safetensors file, which are F32 or BF16 and have a multiple of 32 columns."""
    with open(path, "rb") as file:
        size, = struct.unpack("<Q", file.read(8))
        tensors = [t for name, t in json.loads(file.read(size)).items() if name != "__metadata__"]
        tensors = [t for t in tensors if len(t["shape"]) == 2 and t["shape"][1] % GROUP == 0]
        counts = [t["shape"][0] * t["shape"][1] // GROUP for t in tensors]
        for tensor in draw.choices(tensors, counts, k=n):
            width = {"F32": 4, "BF16": 2}[tensor["dtype"]]
            place = draw.randrange(tensor["shape"][0] * tensor["shape"][1] // GROUP)
            file.seek(8 + size + tensor["data_offsets"][0] + place * GROUP * width)
            raw = file.read(GROUP * width)
            if width == 2:
                raw = struct.pack(f"<{GROUP}I", *(word << 16 for word in struct.unpack(f"<{GROUP}H", raw)))
            yield array.array("f", raw)


def groups_of_t(freedom, n, draw):
    """Student's t; Gauss's distribution where freedom is None."""
    def value():
        below = 1.0 if freedom is None else (draw.gammavariate(freedom / 2, 2) / freedom) ** 0.5
        return draw.gauss(0, 1) / below
    for _ in range(n):
        yield [value() for _ in range(GROUP)]


def places(group, middles, scale):
    return [bisect.bisect_left(middles, w / scale) for w in group]


def error_of(group, table, middles, scale):
    return sum((w - table[k] * scale) ** 2 for w, k in zip(group, places(group, middles, scale)))


def search(group, table):
    """The scale of a group and its error."""
    middles = [(a + b) / 2 for a, b in zip(table, table[1:])]
    low, high = min(group), max(group)
    covering = max(high / table[-1], low / table[0]), min(high / table[0], low / table[-1])
    best, least = 0.0, sum(w * w for w in group)
    def attempt(scale):
        nonlocal best, least
        scale = bf16(scale)
        error = error_of(group, table, middles, scale) if scale else least
        if error < least:
            best, least = scale, error
    for factor in FACTORS:
        for scale in covering:
            attempt(scale * factor)
    if best:
        values = [table[k] for k in places(group, middles, best)]
        below = sum(q * q for q in values)
        if below:
            attempt(sum(w * q for w, q in zip(group, values)) / below)
    return best, least


def total_error(sources, table):
    return sum(sum(search(group, table)[1] for group in groups) / size for groups, size in sources)


def improved(sources, table):
    """Each value becomes the mean of what it stands for; a source counts as much as another."""
    middles = [(a + b) / 2 for a, b in zip(table, table[1:])]
    above, below = [0.0] * VALUES, [0.0] * VALUES
    for groups, size in sources:
        for group in groups:
            scale, _ = search(group, table)
            if not scale:
                continue
            for w, k in zip(group, places(group, middles, scale)):
                above[k] += w * scale / size
                below[k] += scale * scale / size
    values = [a / b if b else old for a, b, old in zip(above, below, table)]
    values[ZERO] = 0.0
    largest = max(map(abs, values))
    return [value / largest for value in values]


def descend(sources, table):
    """Integers, moved one by one while that helps."""
    least = total_error(sources, table)
    moved = True
    while moved:
        moved = False
        for k in (k for k in range(VALUES) if k != ZERO):
            for step in (-1, 1):
                changed = table[:k] + [table[k] + step] + table[k + 1:]
                if abs(changed[k]) > LARGEST or sorted(set(changed)) != changed:
                    continue
                error = total_error(sources, changed)
                if error < least:
                    table, least, moved = changed, error, True
    return table


def main():
    parser = OneLineParser(description=__doc__)
    parser.add_argument("models", nargs="*", type=existing)
    parser.add_argument("--groups", type=number(1, 10**6), default=100)
    parser.add_argument("--rounds", type=number(0, 1000), default=10)
    args = parser.parse_args()
    draw = random.Random(4)
    sources = [list(groups_of_t(freedom, args.groups, draw)) for freedom in (None, 5, 10)]
    sources += [list(groups_of_file(path, args.groups, draw)) for path in args.models]
    sources = [(groups, sum(w * w for group in groups for w in group)) for groups in sources]
    table = list(START)
    for _ in range(args.rounds):
        table = improved(sources, table)
        print(" ".join(f"{value:.4f}" for value in table), file=sys.stderr, flush=True)
    table = [round(value * LARGEST) for value in table]
    print(f"rounded {table}: {total_error(sources, table):.5f}", file=sys.stderr, flush=True)
    table = descend(sources, table)
    even = list(range(-VALUES // 2, VALUES // 2))
    print(f"{table}: {total_error(sources, table) / total_error(sources, even):.4f} of the error of even values")


if __name__ == "__main__":
    main()
