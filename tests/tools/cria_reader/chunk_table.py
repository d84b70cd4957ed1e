"""Part 4 of docs/model_format.md: the chunks, one after the other, and their bytes."""
import itertools
import struct

from cria_reader.config_fields import COMPRESSED_BUT_STAYING, NOT_COMPRESSED
from cria_reader.file_layout import ALIGNMENT, round_up
from cria_reader.refusal import require, require_undamaged
from cria_reader.tensor_list import CHUNK_BYTES
from cria_reader.xxh64 import xxh64
from cria_reader.zstd_frame import decompress

ENTRY_FORMAT = "<QIIIIQ"
ENTRY_BYTES = 32
STORED, ZSTD, ZSTD_UPPER_BITS, ZSTD_PARTS = range(4)
MOST_RATIO = 64
# Of codes of four and eight bits: their upper bits, and for each quarter but the last pairs of a place of these and one of its own.
UPPER = {4: 0b0100, 8: 0b01100000}
TRADES = {4: (((2, 3),), ((2, 1),), ((2, 0),)), 8: (((6, 4), (5, 3)), ((6, 2), (5, 1)), ((6, 7), (5, 0)))}


class CodeTables:
    """What becomes of a byte of codes."""

    def __init__(self, bits):
        def table(function):
            return [function(byte) for byte in range(256)]

        places = range(0, 8, bits)
        self.upper = sum(UPPER[bits] << at for at in places)
        self.to_last, self.to_upper = ([table(lambda byte, pairs=pairs: sum((byte >> at + pair[source] & 1) << at + pair[1 - source]
                                                                          for at in places for pair in pairs))
                                        for pairs in TRADES[bits]] for source in (0, 1))
        # Upper bits have the sign's bit put against them.
        self.turned = table(lambda byte: byte ^ sum(UPPER[bits] << at for at in places if byte >> at + bits - 1 & 1))


TABLES = {bits: CodeTables(bits) for bits in TRADES}


def upper_bytes(value_bits, n):
    return {0: 0, 16: n // 2}.get(value_bits, n // 4)


def put_together(lower, upper, value_bits):
    """Values of whose bits the upper ones are apart."""
    if value_bits == 16:
        turned = [high << 8 | low for low, high in zip(lower, upper)]
        return struct.pack(f"<{len(turned)}H", *(value >> 1 | (value & 1) << 15 for value in turned))
    tables, n = TABLES[value_bits], len(upper)
    quarters = [lower[i * n:(i + 1) * n] for i in range(3)]
    out = bytearray()
    for quarter, to_upper in zip(quarters, tables.to_upper):
        out += bytes(tables.turned[low & ~tables.upper | to_upper[high]] for low, high in zip(quarter, upper))
    first, second, third = tables.to_last
    return bytes(out) + bytes(tables.turned[high & tables.upper | first[a] | second[b] | third[c]]
                              for high, a, b, c in zip(upper, *quarters))


class Chunk:
    def __init__(self, fields):
        self.offset, self.stored, self.raw, self.compression, self.reserved, self.checksum = fields


def may_be_compressed(config, tensor):
    stays = config["compression"] == COMPRESSED_BUT_STAYING and tensor.stays()
    return config["compression"] != NOT_COMPRESSED and not stays


def read_chunk_table(raw, config, tensors, data_section):
    require(len(raw) % ENTRY_BYTES == 0, "the size of the chunk table")
    chunks = [Chunk(fields) for fields in struct.iter_unpack(ENTRY_FORMAT, raw)]
    places = ((*chunk, may_be_compressed(config, tensor)) for tensor in tensors for chunk in tensor.chunks())
    end = data_section.offset
    for chunk in chunks:
        raw_bytes, chunk.value_bits, may_be_frame = next(places, (None, 0, False))
        require(chunk.raw == raw_bytes, "the raw bytes of a chunk")
        require(chunk.raw <= CHUNK_BYTES, "a chunk is too large")
        require(chunk.reserved == 0, "reserved bytes of a chunk")
        require(STORED <= chunk.compression <= ZSTD_PARTS, "the compression of a chunk")
        chunk.upper = upper_bytes(chunk.value_bits, chunk.raw)
        if chunk.compression != STORED:
            require(chunk.compression == ZSTD or chunk.upper, "upper bits apart of values that have none")
            require(chunk.compression != ZSTD_UPPER_BITS or chunk.stored > chunk.raw - chunk.upper, "a chunk without a frame")
            require(may_be_frame, "a compressed chunk where the config has none")
            require(chunk.stored < chunk.raw <= MOST_RATIO * chunk.stored, "the stored bytes of a compressed chunk")
        else:
            require(chunk.stored == chunk.raw, "the stored bytes of a chunk")
        require(chunk.offset == round_up(end, ALIGNMENT), "the place of a chunk")
        end = chunk.offset + chunk.stored
    require(next(places, None) is None, "the chunk table lacks chunks")
    require(end == data_section.offset + data_section.size, "the data section does not end with the last chunk")
    return chunks


def check_gaps(chunks, data):
    for before, chunk in zip(chunks, chunks[1:]):
        require_undamaged(not any(data[before.offset + before.stored:chunk.offset]), "a byte between two chunks")


def raw_bytes_of(chunk, stored):
    if chunk.compression == STORED:
        return stored
    n_lower = chunk.raw - chunk.upper
    if chunk.compression == ZSTD_UPPER_BITS:
        return put_together(stored[:n_lower], decompress(stored[n_lower:], chunk.upper), chunk.value_bits)
    raw = decompress(stored, chunk.raw)
    return raw if chunk.compression == ZSTD else put_together(raw[:n_lower], raw[n_lower:], chunk.value_bits)


def raw_planes(tensor, chunks, data):
    """The raw bytes of each of a tensor's planes."""
    out = bytearray()
    for chunk in chunks[tensor.first_chunk:tensor.first_chunk + tensor.n_chunks()]:
        stored = data[chunk.offset:chunk.offset + chunk.stored]
        require_undamaged(xxh64(stored) == chunk.checksum, f"the checksum of a chunk of {tensor.name}")
        out += raw_bytes_of(chunk, stored)
    ends = list(itertools.accumulate(tensor.planes, initial=0))
    return [bytes(out[begin:end]) for begin, end in zip(ends, ends[1:])]
