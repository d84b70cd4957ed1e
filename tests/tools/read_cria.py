#!/usr/bin/env python3
"""A second reader of the model file, written from docs/model_format.md alone; slow, and only for small files.

  read_cria.py FILE                      checks everything and prints the config and the tensors as JSON
  read_cria.py FILE --dump NAME OUT      also writes one tensor as float32 [rows][cols], little-endian

Exit codes: 0 valid, 1 broken (one line says how), 77 the file is compressed and this machine has no zstd.
"""

import argparse
import json
import shutil
import struct
import subprocess
import sys

MAGIC = b"CRIA\r\n\x1a\n"
VERSION = 1
ALIGNMENT = 64
CHUNK_RAW_BYTES = 1 << 18
NONE = 0xFFFFFFFF
SKIPPED = 77

CONFIG, TOKENIZER, CHAT, DIRECTORY, CHUNKS, METADATA, DATA = range(1, 8)
REQUIRED = (CONFIG, DIRECTORY, CHUNKS, DATA)
F32, F16, BF16, INT8, INT4 = range(1, 6)
FORMAT_NAMES = {F32: "f32", F16: "f16", BF16: "bf16", INT8: "int8", INT4: "int4"}
STORED, ZSTD = 0, 1
TIED, QKV_BIAS, OUTPUT_BIAS, MLP_BIAS = 1, 2, 4, 8

CONFIG_FIELDS = (
    "architecture flags n_layers d_model n_heads n_kv_heads head_dim d_ff vocab_size max_context "
    "planned_context sliding_window rms_epsilon embedding_multiplier residual_multiplier "
    "attention_multiplier logits_divisor rope_factor compression bos_token n_end_tokens").split()
MATRICES = "embedding q k v o gate up down lm_head".split()
ROLES = ("rope.inverse_frequencies embedding attention_norm q k v o ffn_norm gate up down final_norm lm_head "
         "q.bias k.bias v.bias o.bias gate.bias up.bias down.bias").split()


class Broken(Exception):
    pass


def require(condition, problem):
    if not condition:
        raise Broken(problem)


# --- XXH64, from its specification ---------------------------------------------------------------------------------

M64 = (1 << 64) - 1
P1, P2, P3, P4, P5 = (11400714785074694791, 14029467366897019727, 1609587929392839161, 9650029242287828579,
                      2870177450012600261)


def rotate(x, n):
    return ((x << n) | (x >> (64 - n))) & M64


def xxh64_round(lane, value):
    return rotate((lane + value * P2) & M64, 31) * P1 & M64


def xxh64(data):
    data = bytes(data)
    n, at = len(data), 0
    if n >= 32:
        lanes = [(P1 + P2) & M64, P2, 0, -P1 & M64]
        for words in struct.iter_unpack("<4Q", data[:n // 32 * 32]):
            lanes = [xxh64_round(lane, word) for lane, word in zip(lanes, words)]
        at = n // 32 * 32
        h = sum(rotate(lane, r) for lane, r in zip(lanes, (1, 7, 12, 18))) & M64
        for lane in lanes:
            h = ((h ^ xxh64_round(0, lane)) * P1 + P4) & M64
    else:
        h = P5
    h = (h + n) & M64
    while at + 8 <= n:
        h = (rotate(h ^ xxh64_round(0, struct.unpack_from("<Q", data, at)[0]), 27) * P1 + P4) & M64
        at += 8
    if at + 4 <= n:
        h = (rotate(h ^ (struct.unpack_from("<I", data, at)[0] * P1 & M64), 23) * P2 + P3) & M64
        at += 4
    for byte in data[at:]:
        h = rotate(h ^ (byte * P5 & M64), 11) * P1 & M64
    h = (h ^ (h >> 33)) * P2 & M64
    h = (h ^ (h >> 29)) * P3 & M64
    return h ^ (h >> 32)


# --- zstd ----------------------------------------------------------------------------------------------------------

def have_zstd():
    try:
        import zstandard  # noqa: F401
        return True
    except ImportError:
        return shutil.which("zstd") is not None


def decompress(frame, raw_bytes):
    try:
        import zstandard
        raw = zstandard.ZstdDecompressor().decompress(frame, max_output_size=raw_bytes)
    except ImportError:
        done = subprocess.run(["zstd", "-dcq"], input=frame, capture_output=True, check=False)
        require(done.returncode == 0, "a chunk is no zstd frame")
        raw = done.stdout
    require(len(raw) == raw_bytes, "a chunk has another size than its entry says")
    return raw


# --- the file ------------------------------------------------------------------------------------------------------

def round_up(value, multiple):
    return -(-value // multiple) * multiple


class Tensor:
    """One entry of the directory, with the sizes that follow from it."""

    def __init__(self, fields, is_matrix):
        (self.role, self.group_size, self.layer, self.format, reserved, self.rows, self.cols, self.first_chunk,
         self.n_chunks, reserved2, self.raw_bytes) = fields
        require(not any(reserved) and reserved2 == 0, "reserved bytes of a tensor are not zero")
        require(self.format in FORMAT_NAMES and self.role < len(ROLES), "unknown tensor role or format")
        self.is_matrix = is_matrix
        name = ROLES[self.role]
        self.name = name if self.layer == NONE else f"layers.{self.layer}.{name}"
        tiles = round_up(self.rows, 16) // 16
        if not is_matrix:
            self.padded, self.tile_codes, self.tile_scales, tiles = self.cols, self.cols * 4, 0, 1
        elif self.format == INT4:
            self.padded = round_up(self.cols, self.group_size)
            self.tile_codes, self.tile_scales = self.padded * 8, self.padded // self.group_size * 32
        elif self.format == INT8:
            self.padded = round_up(self.cols, 32)
            self.tile_codes, self.tile_scales = self.padded * 16, 64
        else:
            self.padded = self.cols
            self.tile_codes, self.tile_scales = self.cols * 16 * (4 if self.format == F32 else 2), 0
        self.code_bytes, self.scale_bytes = tiles * self.tile_codes, tiles * self.tile_scales

    def plane_chunks(self):
        """Raw bytes of each chunk: the planes are cut apart one after the other."""
        for plane in (self.code_bytes, self.scale_bytes):
            for at in range(0, plane, CHUNK_RAW_BYTES):
                yield min(CHUNK_RAW_BYTES, plane - at)


class ModelFile:
    def __init__(self, data):
        self.data = data
        self.read_header()
        self.read_config()
        self.read_chunk_table()
        self.read_directory()

    def read_header(self):
        data = self.data
        require(len(data) >= 64, "shorter than a header")
        magic, version, count, file_bytes, reserved, checksum = struct.unpack_from("<8sIIQ32sQ", data)
        require(magic == MAGIC, "magic is wrong")
        require(version == VERSION, f"version {version} is not {VERSION}")
        require(1 <= count <= 16 and 64 + 32 * count <= len(data), "section count is wrong")
        require(file_bytes == len(data), "file size differs from the header's")
        require(not any(reserved), "reserved bytes of the header are not zero")
        table = data[64:64 + 32 * count]
        require(xxh64(data[:56] + bytes(8) + table) == checksum, "checksum of the header is wrong")
        self.sections, end = {}, 64 + 32 * count
        for kind, zero, offset, size, section_sum in struct.iter_unpack("<IIQQQ", table):
            require(zero == 0, "reserved bytes of a section are not zero")
            require(CONFIG <= kind <= DATA and kind not in self.sections, "a section's kind is unknown or double")
            require(size > 0 and offset == round_up(end, ALIGNMENT), "a section is out of place")
            require(not any(data[end:offset]), "a gap between sections is not zero")
            end = offset + size
            require(end <= len(data), "a section ends behind the file")
            content = data[offset:end]
            require((0 if kind == DATA else xxh64(content)) == section_sum, f"checksum of section {kind} is wrong")
            self.sections[kind] = (offset, content)
        require(end == len(data), "the last section does not end the file")
        for kind in REQUIRED:
            require(kind in self.sections, f"section {kind} is missing")

    def section(self, kind):
        return self.sections[kind][1] if kind in self.sections else None

    def read_config(self):
        raw = self.section(CONFIG)
        require(len(raw) == 256, "config has a wrong size")
        self.config = dict(zip(CONFIG_FIELDS, struct.unpack_from("<12I6f3I", raw)))
        end_tokens = struct.unpack_from("<16I", raw, 84)
        n = self.config["n_end_tokens"]
        require(n <= 16 and not any(end_tokens[n:]), "end tokens are wrong")
        self.config["end_tokens"] = list(end_tokens[:n])
        formats = list(struct.iter_unpack("<BBH", raw[148:184]))
        require(all(reserved == 0 for _, reserved, _ in formats), "reserved bytes of a matrix format are not zero")
        self.matrix_formats = dict(zip(MATRICES, [(f, group) for f, _, group in formats]))
        require(not any(raw[184:]), "reserved bytes of the config are not zero")

    def expected_tensors(self):
        """(role, layer, rows, cols, is_matrix) in the canonical order."""
        c = self.config
        d, q, kv, ff = c["d_model"], c["n_heads"] * c["head_dim"], c["n_kv_heads"] * c["head_dim"], c["d_ff"]
        bias = lambda role, layer, n, flag: [(role, layer, 1, n, False)] if c["flags"] & flag else []
        yield "rope.inverse_frequencies", NONE, 1, c["head_dim"] // 2, False
        yield "embedding", NONE, c["vocab_size"], d, True
        for i in range(c["n_layers"]):
            yield "attention_norm", i, 1, d, False
            for role, rows, cols, flag in (("q", q, d, QKV_BIAS), ("k", kv, d, QKV_BIAS), ("v", kv, d, QKV_BIAS),
                                           ("o", d, q, OUTPUT_BIAS)):
                yield role, i, rows, cols, True
                yield from bias(role + ".bias", i, rows, flag)
            yield "ffn_norm", i, 1, d, False
            for role, rows, cols in (("gate", ff, d), ("up", ff, d), ("down", d, ff)):
                yield role, i, rows, cols, True
                yield from bias(role + ".bias", i, rows, MLP_BIAS)
        yield "final_norm", NONE, 1, d, False
        if not c["flags"] & TIED:
            yield "lm_head", NONE, c["vocab_size"], d, True

    def read_directory(self):
        raw = self.section(DIRECTORY)
        require(len(raw) % 40 == 0, "directory has a wrong size")
        entries = list(struct.iter_unpack("<HHIB3sIIIIIQ", raw))
        expected = list(self.expected_tensors())
        require(len(entries) == len(expected), "directory has a wrong number of tensors")
        self.tensors, chunk = {}, 0
        for fields, (role, layer, rows, cols, is_matrix) in zip(entries, expected):
            tensor = Tensor(fields, is_matrix)
            found = (ROLES[tensor.role], tensor.layer, tensor.rows, tensor.cols)
            require(found == (role, layer, rows, cols), f"tensor {found} where {role} is expected")
            wanted = self.matrix_formats[role] if is_matrix else (F32, 0)
            require((tensor.format, tensor.group_size) == wanted, f"{tensor.name} has another format than the config")
            sizes = list(tensor.plane_chunks())
            require(tensor.raw_bytes == sum(sizes), f"{tensor.name} has wrong raw bytes")
            require((tensor.first_chunk, tensor.n_chunks) == (chunk, len(sizes)), f"{tensor.name} has wrong chunks")
            table = [entry[2] for entry in self.chunks[chunk:chunk + len(sizes)]]
            require(table == sizes, f"{tensor.name} is cut into wrong chunks")
            chunk += len(sizes)
            self.tensors[tensor.name] = tensor
        require(chunk == len(self.chunks), "chunk table has chunks of no tensor")

    def read_chunk_table(self):
        raw = self.section(CHUNKS)
        require(len(raw) % 32 == 0, "chunk table has a wrong size")
        self.chunks = list(struct.iter_unpack("<QIIIIQ", raw))
        begin, content = self.sections[DATA]
        end = begin
        for offset, stored, raw_bytes, compression, reserved, _ in self.chunks:
            require(reserved == 0, "reserved bytes of a chunk are not zero")
            require(offset == round_up(end, ALIGNMENT), "a chunk is out of place")
            require(not any(self.data[end:offset]), "a gap between chunks is not zero")
            require(0 < raw_bytes <= CHUNK_RAW_BYTES, "a chunk has wrong raw bytes")
            require(compression in (STORED, ZSTD), "a chunk has an unknown compression")
            require(0 < stored < raw_bytes if compression == ZSTD else stored == raw_bytes, "a chunk has wrong sizes")
            require(compression == STORED or self.config["compression"] == ZSTD, "a chunk is compressed")
            end = offset + stored
        require(end == begin + len(content), "data does not end with the last chunk")

    def is_compressed(self):
        return any(chunk[3] == ZSTD for chunk in self.chunks)

    def raw(self, tensor):
        """The planes of a tensor: (codes, scales)."""
        out = bytearray()
        for offset, stored, raw_bytes, compression, _, checksum in \
                self.chunks[tensor.first_chunk:tensor.first_chunk + tensor.n_chunks]:
            content = self.data[offset:offset + stored]
            require(xxh64(content) == checksum, f"checksum of a chunk of {tensor.name} is wrong")
            out += decompress(content, raw_bytes) if compression == ZSTD else content
        return bytes(out[:tensor.code_bytes]), bytes(out[tensor.code_bytes:])

    def rows(self, tensor):
        """The values of a tensor, row by row."""
        codes, scales = self.raw(tensor)
        if not tensor.is_matrix:
            yield list(struct.unpack(f"<{tensor.cols}f", codes))
            return
        for row in range(tensor.rows):
            yield [value(tensor, codes, scales, row, col) for col in range(tensor.cols)]


def bf16(raw, at):
    return struct.unpack("<f", b"\0\0" + raw[at:at + 2])[0]


def value(t, codes, scales, row, col):
    """One weight of a matrix in layout tile16."""
    tile, r = divmod(row, 16)
    at = tile * t.tile_codes
    if t.format == INT4:
        block, in_block = divmod(col, 32)
        line, half = (in_block // 4) % 4, in_block // 16
        byte = codes[at + block * 256 + line * 64 + 4 * r + in_block % 4]
        scale = bf16(scales, tile * t.tile_scales + (col // t.group_size * 16 + r) * 2)
        return ((byte >> 4 if half else byte & 0x0F) - 8) * scale
    if t.format == INT8:
        code = struct.unpack_from("<b", codes, at + col // 4 * 64 + 4 * r + col % 4)[0]
        return code * struct.unpack_from("<f", scales, tile * 64 + r * 4)[0]
    element = col * 16 + r
    if t.format == F32:
        return struct.unpack_from("<f", codes, at + element * 4)[0]
    if t.format == F16:
        return struct.unpack_from("<e", codes, at + element * 2)[0]
    return bf16(codes, at + element * 2)


def summary(model):
    return {
        "config": model.config,
        "matrix_formats": {name: [FORMAT_NAMES.get(f, f), group] for name, (f, group) in model.matrix_formats.items()},
        "sections": sorted(model.sections),
        "metadata": json.loads(model.section(METADATA) or b"null"),
        "tensors": [{"name": t.name, "format": FORMAT_NAMES[t.format], "rows": t.rows, "cols": t.cols,
                     "chunks": t.n_chunks} for t in model.tensors.values()],
    }


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file")
    parser.add_argument("--dump", nargs=2, metavar=("NAME", "OUT"))
    options = parser.parse_args(arguments)
    with open(options.file, "rb") as source:
        data = source.read()
    try:
        model = ModelFile(data)
        if model.is_compressed() and not have_zstd():
            print("read_cria: no zstd here, so compressed chunks cannot be read", file=sys.stderr)
            return SKIPPED
        for tensor in model.tensors.values():
            model.raw(tensor)
        if options.dump:
            require(options.dump[0] in model.tensors, f"no tensor {options.dump[0]}")
            with open(options.dump[1], "wb") as out:
                for row in model.rows(model.tensors[options.dump[0]]):
                    out.write(struct.pack(f"<{len(row)}f", *row))
    except Broken as problem:
        print(f"read_cria: {options.file}: {problem}", file=sys.stderr)
        return 1
    print(json.dumps(summary(model), indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
