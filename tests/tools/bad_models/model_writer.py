"""Writes tiny model files as docs/model_format.md says, whole or with one thing changed on the way.

A model begins as a Model: its config as a dictionary, each tensor's raw planes, each other section's bytes. file() lays it
out. What a change there cannot reach is changed in the laid-out File, whose mend() makes all checksums hold again.
"""
import array
import struct
import sys

from bad_models import frames
from bad_models.draw import Draw
from bad_models.kinds import COUNTED, config_of
from cria_reader.config_fields import (BF16, BIT1, BIT2, COUNT, F16, F32, FORMATS, INT4, INT4NL, INT8, INT8G32, KIND, LAYERS_ALIGNMENT,
                                       NIBBLES, ROPE_TABLE, SCALARS, SIGNED_SCALES)
from cria_reader.roles import MATRIX, VECTOR, all_shapes, n_matrices
from cria_reader.xxh64 import xxh64

VERSION = 3
MAGIC = b"CRIA\r\n\x1a\n"
CONFIG, TOKENIZER, CHAT, DIRECTORY, CHUNKS, METADATA, DATA = range(1, 8)
USUAL_ORDER = (CONFIG, TOKENIZER, CHAT, DIRECTORY, CHUNKS, DATA, METADATA)
CHUNK_BYTES = 1 << 18
SECTION_BYTES, ENTRY_BYTES = 32, 32
STORED = 0
TILE_ROWS = 16
LINE_INPUTS = 4  # of a row, in the 64 bytes of a line
MATRICES = "embedding q k v o gate up down lm_head".split()  # of a Llama

FLOAT_FORMS = {F32: "<f", F16: "<e"}
# Bits of a code, the multiple to which inputs are padded where no group says it, what pads, the codes that are drawn, their values.
UNEVEN = (-32, -25, -20, -16, -12, -8, -5, -3, 0, 2, 5, 8, 11, 15, 20, 28)
CODED = {
    INT8: (8, 0, {code & 0xFF: code for code in range(-127, 128)}),
    INT8G32: (8, 0, {code & 0xFF: code for code in range(-127, 128)}),
    INT4: (4, 8, {code + 8: code for code in range(-8, 8)}),
    INT4NL: (4, 8, dict(enumerate(UNEVEN))),
    BIT1: (1, 0, {0: -1, 1: 1}),
    BIT2: (2, 0, {code: code - 1 for code in range(4)})}
INT8_PADDING = 32


def round_up(value, multiple):
    return -(-value // multiple) * multiple


def config_bytes(config):
    """config: of kinds.config_of, complete."""
    counted = {name: len(config[items]) for name, items in COUNTED.items()}
    scalars = {**config, **{name: config[name] or n for name, n in counted.items()}}
    tables = b"".join(ROPE_TABLE.write(table) for table in config["rope_tables"])
    layers = bytes(config["layers"])
    return (SCALARS.write({**scalars, "end_tokens": config["end_tokens"], "rope_tables": tables}) +
            b"".join(KIND.write(kind) for kind in config["kinds"]) +
            layers + bytes(round_up(len(layers), LAYERS_ALIGNMENT) - len(layers)) +
            b"".join(COUNT.write(count) for count in config["counts"]))


def counts_of(tensors):
    """What a config counts of tensors."""
    found = {}
    for tensor in tensors:
        if tensor.shape.form == MATRIX:
            key = (tensor.kind, tensor.shape.number, FORMATS.index(tensor.matrix_format))
            found[key] = found.get(key, 0) + 1
    return [{"kind": kind, "role": role, "format": place, "count": n} for (kind, role, place), n in sorted(found.items())]


def counts_needed(config):
    """Counts of a config whose matrices are all f32; none where it has no tensors that can be counted."""
    try:
        return [{"kind": kind, "role": role, "format": 0, "count": n} for (kind, role), n in sorted(n_matrices(config).items())]
    except (IndexError, KeyError, OverflowError):
        return []


def f32(values):
    return struct.pack(f"<{len(values)}f", *values)


def bf16(value):
    return struct.pack("<f", value)[2:]


def float_bytes(number_format, value):
    return bf16(value) if number_format == BF16 else struct.pack(FLOAT_FORMS[number_format], value)


def value_of(raw, number_format):
    return struct.unpack("<f", b"\0\0" + raw)[0] if number_format == BF16 else struct.unpack(FLOAT_FORMS[number_format], raw)[0]


class Tensor:
    """Planes in layout tile16, where what pads is zero, and in plain order the values that they hold."""

    def __init__(self, layer, kind, shape, matrix_format, draw, has_signed_scales=False):
        self.layer, self.kind, self.shape, self.matrix_format = layer, kind, shape, matrix_format
        self.number_format, self.group = matrix_format
        if shape.form == VECTOR:
            self.values = array.array("f", [draw.uniform(0.5, 1) for _ in range(shape.cols)])
            self.planes = [f32(self.values)]
            return
        self.values = array.array("f")
        matrices = [self.coded(draw, has_signed_scales) if self.number_format in CODED else self.floats(draw)
                    for _ in range(shape.count)]
        self.planes = [b"".join(planes) for planes in zip(*matrices)]

    def value_bytes(self):
        """As little-endian f32."""
        values = array.array("f", self.values)
        if sys.byteorder == "big":
            values.byteswap()
        return values.tobytes()

    def floats(self, draw):
        """The plane of one matrix."""
        size, cols = struct.calcsize(FLOAT_FORMS.get(self.number_format, "e")), self.shape.cols
        plane = bytearray(round_up(self.shape.rows, TILE_ROWS) * cols * size)
        for row in range(self.shape.rows):
            tile, r = divmod(row, TILE_ROWS)
            for c in range(cols):
                raw = float_bytes(self.number_format, draw.uniform(-1, 1))
                at = ((tile * cols + c) * TILE_ROWS + r) * size
                plane[at:at + size] = raw
                self.values.append(value_of(raw, self.number_format))
        return [plane]

    def coded(self, draw, has_signed_scales):
        """The planes of one matrix: codes, scales."""
        bits, blank, numbers = CODED[self.number_format]
        rows, cols, codes = self.shape.rows, self.shape.cols, list(numbers)
        padded = round_up(cols, self.group or INT8_PADDING)
        group, tile_bytes = self.group or padded, padded * TILE_ROWS * bits // 8
        n_groups, block_inputs = padded // group, 128 // bits
        scale_format = F32 if self.number_format == INT8 else F16 if self.number_format in (BIT1, BIT2) else BF16
        are_signed = self.number_format in (BIT1, BIT2) or has_signed_scales and self.number_format in NIBBLES
        scale_bytes = struct.calcsize(FLOAT_FORMS.get(scale_format, "e"))
        plane = bytearray(bytes([sum(blank << shift for shift in range(0, 8, bits))]) *
                          (round_up(rows, TILE_ROWS) // TILE_ROWS * tile_bytes))
        scales = bytearray(round_up(rows, TILE_ROWS) * n_groups * scale_bytes)
        for row in range(rows):
            tile, r = divmod(row, TILE_ROWS)
            of_row = []
            for g in range(n_groups):
                sign = -1 if are_signed and draw.random() < 0.5 else 1
                raw = float_bytes(scale_format, sign * draw.uniform(0.01, 0.1))
                at = ((tile * n_groups + g) * TILE_ROWS + r) * scale_bytes
                scales[at:at + scale_bytes] = raw
                of_row.append(value_of(raw, scale_format))
            for c in range(cols):
                code = codes[draw.randint(0, len(codes) - 1)]
                at = tile * tile_bytes + c // block_inputs * 256 + c // LINE_INPUTS % 4 * 64 + LINE_INPUTS * r + c % LINE_INPUTS
                shift = c % block_inputs // 16 * bits
                plane[at] = plane[at] & ~((1 << bits) - 1 << shift) | code << shift
                self.values.append(numbers[code] * of_row[c // group])
        return [plane, scales]


class Model:
    """tensors: in order; texts: bytes of sections by kind, but those it computes itself.

    formats: (number format, group) of a role, or a list of them by layer; f32 where it says nothing. changes: of kinds.config_of.
    """

    def __init__(self, tokenizer=None, chat=None, metadata=None, order=USUAL_ORDER, frame=None, formats=None, seed=1, config=None,
                 **changes):
        self.config = dict(config or config_of(**changes))
        self.texts = {TOKENIZER: tokenizer, CHAT: chat, METADATA: metadata}
        self.order, self.frame = order, frame
        draw = Draw(seed)
        self.tensors = []
        for layer, kind, shape in all_shapes(self.config):
            chosen = (formats or {}).get(shape.name, (F32, 0)) if shape.form == MATRIX else (F32, 0)
            self.tensors.append(Tensor(layer, kind, shape, chosen[layer] if isinstance(chosen, list) else chosen, draw,
                                       self.config["flags"] & SIGNED_SCALES))
        if self.config["counts"] is None:
            self.config["counts"] = counts_of(self.tensors)

    def tensor(self, role):
        """The first of a role."""
        return next(tensor for tensor in self.tensors if tensor.shape.name == role)

    def plane(self, role, index=0):
        """A plane to change: (get it, then hand it to set_plane)."""
        return bytearray(self.tensor(role).planes[index])

    def set_plane(self, role, raw, index=0):
        self.tensor(role).planes[index] = bytes(raw)
        return self

    def contents_of(self, kind, raw):
        """What a section holds; a derived class may change it."""
        return raw

    def file(self):
        """Lays the model out. frame(raw, role) may give a chunk's zstd frame, bytes, frames.UpperBits or frames.Parts; None leaves it stored."""
        directory, stored = bytearray(), []
        for tensor in self.tensors:
            first, shape = len(stored), tensor.shape
            for plane in tensor.planes:
                for at in range(0, len(plane), CHUNK_BYTES):
                    raw = bytes(plane[at:at + CHUNK_BYTES])
                    stored.append((raw, self.frame(raw, shape.name) if self.frame else None))
            directory += struct.pack("<HHIB3sIIIIIQ", shape.number, tensor.group, tensor.layer, tensor.number_format, bytes(3),
                                     shape.rows, shape.cols, first, len(stored) - first, shape.count, sum(map(len, tensor.planes)))
        contents = {CONFIG: config_bytes(self.config), DIRECTORY: directory, CHUNKS: bytes(ENTRY_BYTES * len(stored)),
                    DATA: b"", **{kind: raw for kind, raw in self.texts.items() if raw is not None}}
        order = [kind for kind in self.order if kind in contents]
        out = bytearray(64 + SECTION_BYTES * len(order))
        entries, table = [], bytearray()
        for kind in order:
            contents[kind] = self.contents_of(kind, contents[kind])
            out += bytes(round_up(len(out), 64) - len(out))
            begin = len(out)
            if kind == DATA:
                for raw, frame in stored:
                    out += bytes(round_up(len(out), 64) - len(out))
                    content = raw if frame is None else frame
                    table += struct.pack("<QIIIIQ", len(out), len(content), len(raw), STORED if frame is None else frames.compression_of(frame), 0, 0)
                    out += content
            else:
                out += contents[kind]
            entries.append((kind, 0, begin, len(out) - begin, 0))
        struct.pack_into("<8sIIQ", out, 0, MAGIC, VERSION, len(order), len(out))
        for i, entry in enumerate(entries):
            struct.pack_into("<IIQQQ", out, 64 + SECTION_BYTES * i, *entry)
        begin = next(entry[2] for entry in entries if entry[0] == CHUNKS)
        out[begin:begin + len(table)] = table
        return File(out, entries).mend()


class File:
    """Bytes of a file and where its sections were laid, whatever its table says after a change."""

    def __init__(self, data, entries):
        self.data = data
        self.order = [entry[0] for entry in entries]
        self.begin = {entry[0]: entry[2] for entry in entries}
        self.size = {entry[0]: entry[3] for entry in entries}

    def entry_at(self, kind):
        return 64 + SECTION_BYTES * self.order.index(kind)

    def put(self, at, form, *values):
        struct.pack_into(form, self.data, at, *values)
        return self

    def put_in(self, kind, at, form, *values):
        return self.put(self.begin[kind] + at, form, *values)

    def get_in(self, kind, at, form):
        return struct.unpack_from(form, self.data, self.begin[kind] + at)[0]

    def chunks(self):
        return range(self.size[CHUNKS] // ENTRY_BYTES)

    def mend(self):
        """Makes checksums hold, of what the tables point to where that lies in the file."""
        data = self.data
        for i in self.chunks():
            at = self.begin[CHUNKS] + ENTRY_BYTES * i
            offset, stored = struct.unpack_from("<QI", data, at)
            if offset + stored <= len(data):
                struct.pack_into("<Q", data, at + 24, xxh64(data[offset:offset + stored]))
        return self.mend_sections()

    def mend_sections(self):
        data = self.data
        count = struct.unpack_from("<I", data, 12)[0]
        for i in range(min(count, len(self.order))):
            at = 64 + SECTION_BYTES * i
            kind, _, offset, size = struct.unpack_from("<IIQQ", data, at)
            if kind != DATA and offset + size <= len(data):
                struct.pack_into("<Q", data, at + 24, xxh64(data[offset:offset + size]))
        return self.mend_header()

    def mend_header(self):
        data = self.data
        end = 64 + SECTION_BYTES * struct.unpack_from("<I", data, 12)[0]
        struct.pack_into("<Q", data, 56, xxh64(data[:56] + bytes(8) + data[64:end]))
        return self

    def resize(self, n_bytes):
        """Cuts the file or adds zeros, and lets the header say so."""
        del self.data[n_bytes:]
        self.data += bytes(n_bytes - len(self.data))
        return self.put(16, "<Q", n_bytes)
