"""The form of calls of part 7 of docs/model_format.md."""
import struct

from cria_reader.refusal import require

N_STRINGS, N_LISTS, N_KINDS, KNOWN_FLAGS, MOST_ID = 18, 8, 5, 7, 64
HEADER_BYTES = 4 * (2 + N_STRINGS)
MOST_TEXTS, MOST_TEXT = 8, 96
NONE, JSON, PYTHON, TAGS = 0, 1, 2, 4
BARE, NAME_IS_KEY = 1, 2
START, NAME_KEYS, ARGUMENTS_KEYS, CALL_END, END = 4, 5, 6, 15, 16
AROUND_VALUES = slice(12, 15)


def check_text(text):
    require(len(text) <= MOST_TEXT and 0 not in text and text.strip(b" \t\n\r"), "a text of the form of calls")


def check_call_form(raw):
    require(len(raw) >= HEADER_BYTES, "the size of the form of calls")
    kind, flags, *sizes = struct.unpack_from(f"<{2 + N_STRINGS}I", raw)
    require(kind < N_KINDS and flags & 0xFF & ~KNOWN_FLAGS == 0 and flags >> 8 <= MOST_ID, "the kind of the form of calls, or its flags")
    require(HEADER_BYTES + sum(sizes) == len(raw), "the strings do not end the form of calls")
    strings, at = [], HEADER_BYTES
    for size in sizes:
        strings.append(raw[at:at + size])
        at += size
    for texts in filter(None, strings[:N_LISTS]):
        require(texts[-1] == 0 and texts.count(0) <= MOST_TEXTS, "a list of the form of calls")
        for text in texts[:-1].split(b"\0"):
            check_text(text)
    for text in filter(None, strings[N_LISTS:]):
        check_text(text)
    is_json = kind in (JSON, PYTHON)
    require(is_json or not flags & BARE, "calls without a marker")
    require(not strings[START] if kind == NONE else strings[START] or flags & BARE, "the marker of calls")
    require(not is_json or flags & NAME_IS_KEY or strings[NAME_KEYS] and strings[ARGUMENTS_KEYS], "keys of calls")
    require(kind != TAGS or all(strings[AROUND_VALUES]) and (strings[CALL_END] or strings[END]), "tags of calls")
