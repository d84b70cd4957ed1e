"""Part 4 of docs/model_format.md: the chunks, one behind the other, and their bytes."""
import itertools
import struct

from cria_reader.file_layout import ALIGNMENT, round_up
from cria_reader.refusal import require, require_undamaged
from cria_reader.tensor_list import CHUNK_BYTES
from cria_reader.xxh64 import xxh64
from cria_reader.zstd_frame import decompress

ENTRY_FORMAT = "<QIIIIQ"
ENTRY_BYTES = 32
STORED, ZSTD, ZSTD_APART = 0, 1, 2
MOST_RATIO = 64


def code_of(folded):
    """0, -1, 1, -2 and so on."""
    return -(folded + 1) // 2 if folded % 2 else folded // 2


def joined(lower, upper, bits):
    """The byte whose codes, folded, have these halves in the lower places of each code."""
    ones = (1 << bits // 2) - 1
    codes = [code_of(lower >> at & ones | (upper >> at & ones) << bits // 2) for at in range(0, 8, bits)]
    return codes[0] & 0xFF if bits == 8 else codes[0] + 8 | codes[1] + 8 << 4


# By lower << 8 | upper: the byte of the first half of a chunk, and the one of its second half, whose places are the upper ones.
JOINED = {bits: tuple([joined(i >> 8 >> shift, (i & 0xFF) >> shift, bits) for i in range(1 << 16)] for shift in (0, bits // 2))
          for bits in (4, 8)}


class Chunk:
    def __init__(self, fields):
        self.offset, self.stored, self.raw, self.compression, self.reserved, self.checksum = fields


def read_chunk_table(raw, config, tensors, data_section):
    require(len(raw) % ENTRY_BYTES == 0, "the size of the chunk table")
    chunks = [Chunk(fields) for fields in struct.iter_unpack(ENTRY_FORMAT, raw)]
    places = itertools.chain.from_iterable(tensor.chunks() for tensor in tensors)
    end = data_section.offset
    for chunk in chunks:
        raw_bytes, chunk.value_bits = next(places, (None, 0))
        require(chunk.raw == raw_bytes, "the raw bytes of a chunk")
        require(chunk.raw <= CHUNK_BYTES, "a chunk is too large")
        require(chunk.reserved == 0, "reserved bytes of a chunk")
        require(chunk.compression in (STORED, ZSTD, ZSTD_APART), "the compression of a chunk")
        if chunk.compression != STORED:
            require(chunk.compression == ZSTD or chunk.value_bits, "halves apart of values that have none")
            require(config["compression"] == ZSTD, "a compressed chunk where the config has none")
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
    raw = decompress(stored, chunk.raw)
    if chunk.compression == ZSTD:
        return raw
    half = chunk.raw // 2
    if chunk.value_bits == 16:
        return bytes(itertools.chain.from_iterable(zip(raw[:half], raw[half:])))
    first, second = JOINED[chunk.value_bits]
    return bytes(table[lower << 8 | upper] for table in (first, second) for lower, upper in zip(raw[:half], raw[half:]))


def raw_planes(tensor, chunks, data):
    """The raw bytes of each of a tensor's planes."""
    out = bytearray()
    for chunk in chunks[tensor.first_chunk:tensor.first_chunk + tensor.n_chunks()]:
        stored = data[chunk.offset:chunk.offset + chunk.stored]
        require_undamaged(xxh64(stored) == chunk.checksum, f"the checksum of a chunk of {tensor.name}")
        out += raw_bytes_of(chunk, stored)
    ends = list(itertools.accumulate(tensor.planes, initial=0))
    return [bytes(out[begin:end]) for begin, end in zip(ends, ends[1:])]
