"""A chunk that is one zstd frame. The header is read here (RFC 8878); libzstd, which every Debian has, does the rest."""
import ctypes
import functools

from cria_reader.refusal import require

MAGIC = b"\x28\xb5\x2f\xfd"
SINGLE_SEGMENT, RESERVED_BIT, DICTIONARY_BITS = 1 << 5, 1 << 3, 3
MOST_WINDOW = 1 << 18
DICTIONARY_BYTES = (0, 1, 2, 4)
SIZE_BYTES = (0, 2, 4, 8)


@functools.cache
def library():
    """libzstd, or None."""
    for name in ("libzstd.so.1", "libzstd.1.dylib"):
        try:
            loaded = ctypes.CDLL(name)
        except OSError:
            continue
        for function in ("ZSTD_decompress", "ZSTD_findFrameCompressedSize"):
            getattr(loaded, function).restype = ctypes.c_size_t
        return loaded
    return None


def have_zstd():
    return library() is not None


def field_bytes(descriptor):
    """Of the window, the dictionary and the content size, which follow a frame's magic and descriptor."""
    single = descriptor & SINGLE_SEGMENT
    return 0 if single else 1, DICTIONARY_BYTES[descriptor & DICTIONARY_BITS], SIZE_BYTES[descriptor >> 6] or (1 if single else 0)


def header_bytes(descriptor):
    return len(MAGIC) + 1 + sum(field_bytes(descriptor))


def check_header(frame, raw_bytes):
    require(frame[:4] == MAGIC and len(frame) > 6, "a chunk is no zstd frame")
    descriptor, at = frame[4], 5
    n_window, n_dictionary, n = field_bytes(descriptor)
    window = 0
    if n_window:
        exponent, mantissa = frame[at] >> 3, frame[at] & 7
        window = (1 << (10 + exponent)) // 8 * (8 + mantissa)
        at += n_window
    dictionary = int.from_bytes(frame[at:at + n_dictionary], "little")
    at += n_dictionary
    size = int.from_bytes(frame[at:at + n], "little") + (256 if n == 2 else 0)
    require(descriptor & RESERVED_BIT == 0, "the reserved bit of a frame")
    require(dictionary == 0, "a frame uses a dictionary")
    require(n > 0, "a frame does not state its content size")
    require(size == raw_bytes, "a frame states another content size than its chunk")
    require(max(window, 0 if n_window else size) <= MOST_WINDOW, "a frame's window is too large")


def decompress(frame, raw_bytes):
    zstd, frame = library(), bytes(frame)
    check_header(frame, raw_bytes)
    size = zstd.ZSTD_findFrameCompressedSize(frame, ctypes.c_size_t(len(frame)))
    require(size == len(frame), "a chunk is not one whole frame")
    raw = ctypes.create_string_buffer(raw_bytes)
    n = zstd.ZSTD_decompress(raw, ctypes.c_size_t(raw_bytes), frame, ctypes.c_size_t(len(frame)))
    require(n == raw_bytes, "a frame does not decompress to its chunk's raw bytes")
    return raw.raw
