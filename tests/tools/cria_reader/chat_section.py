"""Part 7 of docs/model_format.md: the chat template."""
import struct

from cria_reader.refusal import require

HEADER_BYTES = 64
KINDS = range(1, 8)
KNOWN_FLAGS = 15
N_STRINGS, MOST_STRING = 8, 4096
ASSISTANT_SUFFIX, DEFAULT_SYSTEM = 6, 7


def read_chat(raw):
    """The eight strings."""
    require(len(raw) >= HEADER_BYTES, "the size of the chat template section")
    kind, flags, *sizes, reserved = struct.unpack_from(f"<2I{N_STRINGS}I24s", raw)
    require(kind in KINDS, "the kind of the chat template")
    require(flags & ~KNOWN_FLAGS == 0, "flags of the chat template")
    require(not any(reserved), "reserved bytes of the chat template")
    require(all(size <= MOST_STRING for size in sizes), "a string of the chat template is too long")
    require(HEADER_BYTES + sum(sizes) == len(raw), "the strings do not end the chat template section")
    strings, at = [], HEADER_BYTES
    for size in sizes:
        strings.append(raw[at:at + size])
        at += size
    return strings
