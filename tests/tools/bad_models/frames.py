"""zstd frames put together by hand (RFC 8878), so that they are the same bytes wherever they are made."""
import struct

from cria_reader.xxh64 import xxh64

MAGIC = b"\x28\xb5\x2f\xfd"
SKIPPABLE = b"\x50\x2a\x4d\x18"
SINGLE_SEGMENT, RESERVED_BIT, HAS_CHECKSUM = 1 << 5, 1 << 3, 1 << 2
RAW_BLOCK, RLE_BLOCK, RESERVED_BLOCK = 0, 1, 3
MOST_IN_BLOCK = 1 << 17


class UpperBits(bytes):
    """Lower bits of values, then a frame of their upper bits."""


class Parts(bytes):
    """A frame of the lower bits of values, then of their upper bits."""


def compression_of(stored):
    return 2 if isinstance(stored, UpperBits) else 3 if isinstance(stored, Parts) else 1


def block(kind, size, content, is_last=True):
    return struct.pack("<I", int(is_last) | kind << 1 | size << 3)[:3] + content


def content_size(n):
    """The field and the bits of the descriptor that say how long it is."""
    if n < 256:
        return b"", struct.pack("<B", n), 0
    if n < 256 + (1 << 16):
        return b"", struct.pack("<H", n - 256), 1 << 6
    return b"", struct.pack("<I", n), 2 << 6


def header(n, descriptor=0):
    """Of a frame of a single segment, whose window is its content."""
    _, field, bits = content_size(n)
    return MAGIC + bytes([SINGLE_SEGMENT | bits | descriptor]) + field


def rle_frame(n, byte, descriptor=0):
    """n times one byte."""
    out, left = header(n, descriptor), n
    while left > MOST_IN_BLOCK:
        out += block(RLE_BLOCK, MOST_IN_BLOCK, byte, is_last=False)
        left -= MOST_IN_BLOCK
    return out + block(RLE_BLOCK, left, byte)


def raw_then_rle_frame(content, n, byte):
    """content, then one byte up to n of them."""
    out, left = header(n) + block(RAW_BLOCK, len(content), content, is_last=False), n - len(content)
    while left > MOST_IN_BLOCK:
        out += block(RLE_BLOCK, MOST_IN_BLOCK, byte, is_last=False)
        left -= MOST_IN_BLOCK
    return out + block(RLE_BLOCK, left, byte)


def checked_frame(n, byte, error=0):
    checksum = xxh64(byte * n) & 0xFFFFFFFF
    return rle_frame(n, byte, HAS_CHECKSUM) + struct.pack("<I", checksum ^ error)


def windowed_frame(n, byte, window_log, states_size=True):
    """With a window of its own, larger than the content."""
    window = bytes([(window_log - 10) << 3])
    # A content size of four bytes, or none.
    descriptor, field = (2 << 6, struct.pack("<I", n)) if states_size else (0, b"")
    return MAGIC + bytes([descriptor]) + window + field + block(RLE_BLOCK, n, byte)


def dictionary_frame(n, byte, dictionary):
    return MAGIC + bytes([SINGLE_SEGMENT | 1]) + bytes([dictionary, n]) + block(RLE_BLOCK, n, byte)
