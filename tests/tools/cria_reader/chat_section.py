"""Part 7 of docs/model_format.md: the chat template."""
import struct

from cria_reader.refusal import require

HEADER_BYTES = 96
KINDS = range(1, 14)
KNOWN_FLAGS = 0x7FFF
SYSTEM_IN_USER, SYSTEM_IN_LAST = 1, 2
N_PLACES, N_TRIMS = 8, 3
N_STRINGS, MOST_STRING, MOST_DATE = 20, 4096, 64
ASSISTANT_SUFFIX, N_TEXTS, DATE, DATE_FORMAT, LISTS = 6, 15, 15, 16, slice(17, 20)


def read_chat(raw):
    """The strings."""
    require(len(raw) >= HEADER_BYTES, "the size of the chat template section")
    kind, flags, trims, *sizes, reserved = struct.unpack_from(f"<3I{N_STRINGS}I4s", raw)
    require(kind in KINDS, "the kind of the chat template")
    require(flags & ~KNOWN_FLAGS == 0, "flags of the chat template")
    require(flags & (SYSTEM_IN_USER | SYSTEM_IN_LAST) != SYSTEM_IN_USER | SYSTEM_IN_LAST, "two places of the system text")
    require(trims >> 2 * N_PLACES == 0, "trims of the chat template")
    require(all(trims >> 2 * place & 3 < N_TRIMS for place in range(N_PLACES)), "trims of the chat template")
    require(not any(reserved), "reserved bytes of the chat template")
    require(all(size <= MOST_STRING for size in sizes), "a string of the chat template is too long")
    require(HEADER_BYTES + sum(sizes) == len(raw), "the strings do not end the chat template section")
    strings, at = [], HEADER_BYTES
    for size in sizes:
        strings.append(raw[at:at + size])
        at += size
    date, date_format = strings[DATE], strings[DATE_FORMAT]
    require(len(date) <= MOST_DATE and 0 not in date + date_format, "the date of the chat template")
    require(bool(date) == bool(date_format), "the date of the chat template and its format")
    require(date or not any(0 in text for text in strings[:N_TEXTS]), "the place of a date that is not there")
    require(all(not texts or texts[-1] == 0 for texts in strings[LISTS]), "a list of texts does not end")
    return strings
