"""Random changes of valid files, with checksums that hold again: what nobody thought of when the cases were written."""
import struct

from bad_models.model_writer import CHAT, CHUNKS, CONFIG, DATA, DIRECTORY, ENTRY_BYTES, METADATA, SECTION_BYTES, TOKENIZER, File
from cria_reader.xxh64 import xxh64
from cria_reader.zstd_frame import MAGIC, header_bytes

# How often a change is in a section, where a file has it.
WEIGHTS = {CONFIG: 4, TOKENIZER: 6, CHAT: 3, DIRECTORY: 3, CHUNKS: 4, METADATA: 2, DATA: 6}
SECTION_TABLE = 0
TABLE_WEIGHT = 2


def opened(data):
    """A File of bytes that are a valid one."""
    count = struct.unpack_from("<I", data, 12)[0]
    entries = [struct.unpack_from("<IIQQQ", data, 64 + SECTION_BYTES * i) for i in range(count)]
    return File(bytearray(data), entries)


def place(file, draw):
    """Bytes [begin, end) to change something in."""
    weights = {SECTION_TABLE: TABLE_WEIGHT, **{kind: WEIGHTS[kind] for kind in file.order}}
    kind = draw.choices(list(weights), list(weights.values()))[0]
    if kind == SECTION_TABLE:
        return 8, 64 + SECTION_BYTES * len(file.order)
    # Headers of sections are small and decide much.
    size = min(file.size[kind], 128) if draw.random() < 0.3 else file.size[kind]
    return file.begin[kind], file.begin[kind] + size


def change(file, draw):
    """Changes one field or byte, or swaps two bytes; gives the places."""
    begin, end = place(file, draw)
    at = draw.randrange(begin, end)
    how = draw.randrange(5)
    if how < 2 and at - at % 4 + 4 <= len(file.data):  # a field
        at -= at % 4
        value = struct.unpack_from("<I", file.data, at)[0]
        other = (value + draw.choice((1, -1, 2, 64, -64)), draw.choice((0, 1, 0xFFFFFFFF, 0x7FFFFFFF, 0x7FC00000)))[how]
        struct.pack_into("<I", file.data, at, other & 0xFFFFFFFF)
    elif how == 2:
        file.data[at] ^= 1 << draw.randrange(8)
    elif how == 3:
        file.data[at] = draw.choice((0, 1, 0x20, 0x7F, 0x80, 0xFF))
    else:
        other = draw.randrange(begin, end)
        file.data[at], file.data[other] = file.data[other], file.data[at]
        return [at, other]
    return [at]


def stream_of(valid, entry):
    """Where, in a valid file, a chunk has the stream of its frame: (begin, end), after the frame's header."""
    offset, stored, _, compression = struct.unpack_from("<Q3I", valid, entry)
    end = offset + stored
    if compression == 0:
        return end, end
    # Lower bits may come before the frame.
    frame = valid.index(MAGIC, offset, end)
    return frame + header_bytes(valid[frame + len(MAGIC)]), end


def mend_chunks(file, valid, places):
    """The checksums of chunks that have bytes at these places; not where a stream is damaged: what it unpacks to, or whether it is
    refused, differs between versions of libzstd."""
    for i in file.chunks():
        entry = file.begin[CHUNKS] + ENTRY_BYTES * i
        offset, stored = struct.unpack_from("<QI", file.data, entry)
        touched = any(offset <= at + 3 and at < offset + stored or entry <= at < entry + ENTRY_BYTES for at in places)
        if not touched or offset + stored > len(file.data):
            continue
        begin, end = stream_of(valid, entry)
        if file.data[begin:end] == valid[begin:end]:
            struct.pack_into("<Q", file.data, entry + 24, xxh64(file.data[offset:offset + stored]))


def changed(data, draw):
    """The bytes of a valid file, one to three places changed, or its length."""
    file = opened(data)
    places = [at for _ in range(draw.choice((1, 1, 1, 2, 3))) for at in change(file, draw)]
    mend_chunks(file, data, places)
    if draw.random() < 0.04:
        file.resize(max(64 + SECTION_BYTES * len(file.order), len(file.data) + draw.choice((-64, -1, 1, 64))))
    if struct.unpack_from("<I", file.data, 12)[0] == len(file.order):
        file.mend_sections()
    return bytes(file.data)
