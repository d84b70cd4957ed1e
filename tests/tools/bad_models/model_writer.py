"""Writes tiny model files as docs/model_format.md says, whole or with one thing changed on the way.

A model begins as a Model: its config as a dictionary, each tensor's raw planes, each other section's bytes. file() lays it
out. What a change there cannot reach is changed in the laid-out File, whose mend() makes all checksums hold again.
"""
import struct

from bad_models import frames
from bad_models.draw import Draw
from cria_reader.xxh64 import xxh64

VERSION = 2
MAGIC = b"CRIA\r\n\x1a\n"
CONFIG, TOKENIZER, CHAT, DIRECTORY, CHUNKS, METADATA, DATA = range(1, 8)
USUAL_ORDER = (CONFIG, TOKENIZER, CHAT, DIRECTORY, CHUNKS, DATA, METADATA)
NONE = 0xFFFFFFFF
F32, F16, BF16, INT8, INT4, INT4NL, INT8G32 = range(1, 8)
TIED, QKV_BIAS, OUTPUT_BIAS, MLP_BIAS, QK_NORM, LONG_ROPE, SIGNED_SCALES = 1, 2, 4, 8, 16, 32, 64
CHUNK_BYTES = 1 << 18
SECTION_BYTES, ENTRY_BYTES = 32, 32
STORED = 0

# Where fields lie: offset and format of struct.
CONFIG_FIELDS = {name: (4 * i, "<f" if name in ("rms_epsilon", "embedding_multiplier", "residual_multiplier",
                                                "attention_multiplier", "logits_divisor", "rope_factor") else "<I")
                 for i, name in enumerate(
    "architecture flags n_layers d_model n_heads n_kv_heads head_dim d_ff vocab_size max_context planned_context "
    "sliding_window rms_epsilon embedding_multiplier residual_multiplier attention_multiplier logits_divisor "
    "rope_factor compression bos_token n_end_tokens".split())}
CONFIG_FIELDS |= {name: (436 + 4 * i, "<I") for i, name in enumerate(
    "rotary_dim original_context no_rope_period no_rope_low no_rope_high".split())}
# Places of a row of the config's n_matrices.
FORMATS = ((F32, 0), (F16, 0), (BF16, 0), (INT8, 0), (INT4, 32), (INT4, 64), (INT4, 128),
           (INT4NL, 32), (INT4NL, 64), (INT4NL, 128), (INT8G32, 32))
FORMAT_PLACES, COUNTS_AT, MOST_COUNTED = 16, 148, 0xFFFF
MATRICES = "embedding q k v o gate up down lm_head".split()
ROLES = ("rope embedding attention_norm q k v o ffn_norm gate up down final_norm lm_head q.bias k.bias v.bias o.bias "
         "gate.bias up.bias down.bias q_norm k_norm rope_long").split()


def round_up(value, multiple):
    return -(-value // multiple) * multiple


def tiny_config(**changes):
    """The smallest model there can be, but for its 16 tokens, which are one tile."""
    config = {
        "architecture": 1, "flags": TIED, "n_layers": 1, "d_model": 1, "n_heads": 1, "n_kv_heads": 1, "head_dim": 2,
        "d_ff": 1, "vocab_size": 16, "max_context": 32, "planned_context": 16, "sliding_window": 0,
        "rms_epsilon": 1e-5, "embedding_multiplier": 1.0, "residual_multiplier": 1.0, "attention_multiplier": 0.5,
        "logits_divisor": 1.0, "rope_factor": 1.0, "rotary_dim": 0, "original_context": 0, "no_rope_period": 0,
        "no_rope_low": 0, "no_rope_high": 0, "compression": 0, "bos_token": NONE, "n_end_tokens": 0,
        "end_tokens": [], "formats": {}, "counts": {}}
    unknown = changes.keys() - config.keys()
    if unknown:
        raise ValueError(f"no such field: {unknown}")
    return {**config, **changes}


def config_bytes(config):
    raw = bytearray(512)
    for name, (offset, form) in CONFIG_FIELDS.items():
        struct.pack_into(form, raw, offset, config[name])
    struct.pack_into(f"<{len(config['end_tokens'])}I", raw, 84, *config["end_tokens"])
    for i, name in enumerate(MATRICES):
        struct.pack_into(f"<{FORMAT_PLACES}H", raw, COUNTS_AT + 2 * FORMAT_PLACES * i, *matrix_counts(config, name))
    return raw


def matrix_counts(config, name):
    """How many matrices of a role have each format. config["counts"] says otherwise for roles it names."""
    if name in config["counts"]:
        return config["counts"][name]
    n = 1 if name in ("embedding", "lm_head") else config["n_layers"]
    if name == "lm_head" and config["flags"] & TIED:
        n = 0
    counts = [0] * FORMAT_PLACES
    for layer in range(min(n, MOST_COUNTED)):
        counts[FORMATS.index(matrix_format(config, name, layer))] += 1
    return counts


def matrix_format(config, name, layer):
    """config["formats"] has a format for a role, or a list of them by layer."""
    chosen = config["formats"].get(name, (F32, 0))
    return chosen[layer] if isinstance(chosen, list) else chosen


def canonical_tensors(c):
    """(role, layer, rows, cols, is_matrix) of every tensor, in order."""
    d, q, kv, ff = c["d_model"], c["n_heads"] * c["head_dim"], c["n_kv_heads"] * c["head_dim"], c["d_ff"]
    frequencies = (c["rotary_dim"] or c["head_dim"]) // 2
    yield "rope", NONE, 1, frequencies, False
    if c["flags"] & LONG_ROPE:
        yield "rope_long", NONE, 1, frequencies, False
    yield "embedding", NONE, c["vocab_size"], d, True
    for layer in range(c["n_layers"]):
        yield "attention_norm", layer, 1, d, False
        for role, rows, cols, bias in (("q", q, d, QKV_BIAS), ("k", kv, d, QKV_BIAS), ("v", kv, d, QKV_BIAS),
                                       ("o", d, q, OUTPUT_BIAS), ("ffn_norm", 1, d, 0), ("gate", ff, d, MLP_BIAS),
                                       ("up", ff, d, MLP_BIAS), ("down", d, ff, MLP_BIAS)):
            yield role, layer, rows, cols, role != "ffn_norm"
            if c["flags"] & bias:
                yield role + ".bias", layer, 1, rows, False
            if role == "v" and c["flags"] & QK_NORM:
                yield "q_norm", layer, 1, c["head_dim"], False
                yield "k_norm", layer, 1, c["head_dim"], False
    yield "final_norm", NONE, 1, d, False
    if not c["flags"] & TIED:
        yield "lm_head", NONE, c["vocab_size"], d, True


def f32(values):
    return struct.pack(f"<{len(values)}f", *values)


def bf16(value):
    return struct.pack("<f", value)[2:]


def weight_planes(number_format, group, rows, cols, draw, has_signed_scales):
    """Planes of a matrix in layout tile16; what pads is zero."""
    tiles = round_up(rows, 16) // 16
    inside = lambda tile, c, r: c < cols and tile * 16 + r < rows
    if number_format in (F32, F16, BF16):
        write = {F32: lambda v: f32([v]), F16: lambda v: struct.pack("<e", v), BF16: bf16}[number_format]
        return [b"".join(write(draw.uniform(-1, 1) if inside(tile, c, r) else 0.0)
                         for tile in range(tiles) for c in range(cols) for r in range(16))]
    if number_format in (INT8, INT8G32):
        padded = round_up(cols, 32)
        codes = bytearray(tiles * 16 * padded)
        for tile, c, r in ((t, c, r) for t in range(tiles) for c in range(cols) for r in range(16)):
            if inside(tile, c, r):
                codes[tile * 16 * padded + c // 4 * 64 + 4 * r + c % 4] = draw.randint(-127, 127) & 0xFF
        if number_format == INT8G32:
            return [bytes(codes), group_scales(tiles, padded // group, lambda row: draw.uniform(0.001, 0.01) if row < rows else 0.0)]
        return [bytes(codes), f32([draw.uniform(0.001, 0.01) if i < rows else 0.0 for i in range(tiles * 16)])]
    padded = round_up(cols, group)
    codes = bytearray(b"\x88" * (tiles * 8 * padded))
    for tile, c, r in ((t, c, r) for t in range(tiles) for c in range(cols) for r in range(16)):
        if inside(tile, c, r):
            at = tile * 8 * padded + c // 32 * 256 + c % 16 // 4 * 64 + 4 * r + c % 4
            code, shift = draw.randint(0, 15), 4 if c % 32 >= 16 else 0
            codes[at] = codes[at] & (0xF0 >> shift) | code << shift
    sign = lambda: -1 if has_signed_scales and draw.random() < 0.5 else 1
    return [bytes(codes), group_scales(tiles, padded // group, lambda row: sign() * draw.uniform(0.01, 0.1) if row < rows else 0.0)]


def group_scales(tiles, groups, value_of_row):
    return b"".join(bf16(value_of_row(tile * 16 + r)) for tile in range(tiles) for _ in range(groups) for r in range(16))


class Model:
    """tensors: [role, layer, rows, cols, format, group, planes]; sections: bytes by kind, but those it computes itself."""

    def __init__(self, tokenizer=None, chat=None, metadata=None, order=USUAL_ORDER, frame=None, **config):
        self.config = tiny_config(**config)
        self.texts = {TOKENIZER: tokenizer, CHAT: chat, METADATA: metadata}
        self.order, self.frame = order, frame
        draw = Draw(1)
        self.tensors = []
        for role, layer, rows, cols, is_matrix in canonical_tensors(self.config):
            number_format, group = matrix_format(self.config, role, layer) if is_matrix else (F32, 0)
            planes = (weight_planes(number_format, group, rows, cols, draw, self.config["flags"] & SIGNED_SCALES) if is_matrix
                      else [f32([draw.uniform(0.5, 1) for _ in range(cols)])])
            self.tensors.append([role, layer, rows, cols, number_format, group, planes])

    def plane(self, role, index=0):
        """A plane to change: (get it, then hand it to set_plane)."""
        return bytearray(next(t for t in self.tensors if t[0] == role)[6][index])

    def set_plane(self, role, raw, index=0):
        next(t for t in self.tensors if t[0] == role)[6][index] = bytes(raw)
        return self

    def contents_of(self, kind, raw):
        """What a section holds; a derived class may change it."""
        return raw

    def file(self):
        """Lays the model out. frame(raw, role) may give a chunk's zstd frame, bytes, frames.UpperBits or frames.Parts; None leaves it stored."""
        directory, stored = bytearray(), []
        for role, layer, rows, cols, number_format, group, planes in self.tensors:
            first = len(stored)
            for plane in planes:
                for at in range(0, len(plane), CHUNK_BYTES):
                    raw = plane[at:at + CHUNK_BYTES]
                    frame = self.frame(raw, role) if self.frame else None
                    stored.append((raw, frame))
            directory += struct.pack("<HHIB3sIIIIIQ", ROLES.index(role), group, layer, number_format, bytes(3), rows, cols,
                                     first, len(stored) - first, 0, sum(map(len, planes)))
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
