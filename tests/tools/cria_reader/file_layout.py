"""Part 1 of docs/model_format.md: header and sections."""
import struct

from cria_reader.refusal import NOT_A_MODEL, TRUNCATED, UNSUPPORTED_VERSION, Refused, require, require_undamaged
from cria_reader.xxh64 import xxh64

MAGIC = b"CRIA\r\n\x1a\n"
VERSION = 3
HEADER_BYTES, ENTRY_BYTES, CHECKSUM_AT = 64, 32, 56
MOST_SECTIONS = 16
MOST_FILE_BYTES = 1 << 40
ALIGNMENT = 64
CONFIG, TOKENIZER, CHAT, DIRECTORY, CHUNKS, METADATA, DATA = range(1, 8)
REQUIRED = (CONFIG, DIRECTORY, CHUNKS, DATA)


def round_up(value, multiple):
    return -(-value // multiple) * multiple


class Section:
    def __init__(self, data, offset, size, checksum):
        self.offset, self.size, self.checksum = offset, size, checksum
        self.content = memoryview(data)[offset:offset + size]

    def undamaged(self, name):
        require_undamaged(xxh64(self.content) == self.checksum, f"the checksum of the {name}")
        return bytes(self.content)


def read_header(data):
    """The section table's bytes."""
    if len(data) < HEADER_BYTES or data[:len(MAGIC)] != MAGIC:
        raise Refused(NOT_A_MODEL, "the magic")
    _, version, count, file_bytes, reserved, checksum = struct.unpack_from("<8sIIQ32sQ", data)
    if version != VERSION:
        raise Refused(UNSUPPORTED_VERSION, f"version {version}: convert the model again")
    require(1 <= count <= MOST_SECTIONS, "section_count")
    end = HEADER_BYTES + ENTRY_BYTES * count
    if len(data) < end:
        raise Refused(TRUNCATED, "the file ends in its section table")
    table = bytes(data[HEADER_BYTES:end])
    require_undamaged(xxh64(data[:CHECKSUM_AT] + bytes(8) + table) == checksum, "the header's checksum")
    require(not any(reserved), "reserved bytes of the header")
    require(file_bytes <= MOST_FILE_BYTES, "file_bytes")
    if file_bytes > len(data):
        raise Refused(TRUNCATED, "the file is shorter than its header says")
    require(file_bytes == len(data), "the file is longer than its header says")
    return table


def read_sections(data):
    """Sections by kind, each in its place. Of their contents nothing is read."""
    table = read_header(data)
    sections, gaps, end = {}, [], HEADER_BYTES + len(table)
    for kind, reserved, offset, size, checksum in struct.iter_unpack("<IIQQQ", table):
        require(CONFIG <= kind <= DATA and kind not in sections, "the kind of a section")
        require(reserved == 0, "reserved bytes of a section entry")
        require(offset == round_up(end, ALIGNMENT), "the place of a section")
        require(1 <= size <= len(data) - min(offset, len(data)), "the size of a section")
        require(kind != DATA or checksum == 0, "the data section has a checksum")
        gaps.append((end, offset))
        sections[kind] = Section(data, offset, size, checksum)
        end = offset + size
    require(end == len(data), "the last section does not end the file")
    for kind in REQUIRED:
        require(kind in sections, f"section {kind} is missing")
    for begin, gap_end in gaps:
        require_undamaged(not any(data[begin:gap_end]), "a byte between two sections")
    return sections
