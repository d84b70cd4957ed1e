"""Writes tokenizer and chat template sections as docs/model_format.md says: a tiny one of each kind, to be changed."""
import collections
import itertools
import struct

from bad_models.model_writer import Model
from cria_reader.config_fields import NONE

BYTE_LEVEL, SENTENCE_PIECE = 1, 2
SPECIAL, RAW_BYTE, ADDED, SWALLOWS_BEFORE, SWALLOWS_BEHIND, AFTER_OTHERS, AFTER_SPACE = (1 << i for i in range(7))
HEADER_FIELDS = ("kind pre_tokenizer flags n_tokens n_sorted n_merges n_added text_bytes bos_token eos_token "
                 "unknown_token longest_token pre_tokenizer_bytes").split()
ARRAYS = "token_ends token_flags sorted_tokens merge_ends merges byte_tokens added_tokens text pre_tokenizer".split()
STAGES = 1
SPACE = "\u2581".encode()

# Byte-level: 0..7. "<e>" ends a turn, "<s>" begins a text.
BYTE_TOKENS = ((b"a", 0), (b"b", 0), (b"ab", 0), (b" ", 0), (b"<e>", SPECIAL | ADDED), (b"<s>", SPECIAL | ADDED),
               (b"abb", 0), (b"<note>", ADDED))
A, B, AB, BLANK, END, BEGIN, ABB, NOTE = range(8)
# SentencePiece: the unknown token, two control tokens, a byte piece, then pieces.
PIECE_TOKENS = ((b"<unk>", 0), (b"<s>", SPECIAL | ADDED), (b"</s>", SPECIAL | ADDED), (b"a", RAW_BYTE), (SPACE, 0),
                (b"b", 0), (SPACE + b"b", 0))


def u32s(values):
    return struct.pack(f"<{len(values)}I", *values)


# The regex " ?[^ ]+| +". Classes: 0 others, 1 the blank; the last column is the end of the text.
WORD_RUNS = (0x80 << 8,)
WORD_STAGES = ((5, 0, 0),)  # states, behavior, inverted
WORD_STATES = ((0, 0, 0), (4, 6, 0), (5, 1, 1), (5, 9, 1), (1, 9, 1))


def word_tables(runs=WORD_RUNS, stages=WORD_STAGES, states=WORD_STATES, of_blank=1, n_classes=2):
    entries = [entry for state in states for entry in state]
    ascii_classes = bytes(of_blank if code == 32 else 0 for code in range(128))
    return (u32s([n_classes, len(runs), len(stages), len(entries)]) + ascii_classes + u32s(runs) +
            b"".join(struct.pack("<IHH", *stage) for stage in stages) + struct.pack(f"<{len(entries)}H", *entries))


class Tokenizer:
    """header and arrays may be changed; bytes() lays them out. What is counted is counted when the object is made."""

    def __init__(self, kind=BYTE_LEVEL, pre_tokenizer=STAGES, flags=0, tokens=BYTE_TOKENS, lookup=(BLANK, A, AB, ABB, B),
                 merges=((A, B, 0, AB), (AB, B, 1, ABB)), byte_tokens=((97, A), (98, B), (32, BLANK)),
                 added=(NOTE, END, BEGIN), bos=BEGIN, eos=END, unknown=NONE, tables=None):
        if tables is None:
            tables = word_tables() if pre_tokenizer == STAGES else b""
        text = b"".join(token for token, _ in tokens)
        self.header = dict(zip(HEADER_FIELDS, (
            kind, pre_tokenizer, flags, len(tokens), len(lookup), len(merges), len(added), len(text), bos, eos, unknown,
            max((len(token) for token, _ in tokens), default=0), len(tables))))
        ends = itertools.accumulate(len(token) for token, _ in tokens)
        n_merges = collections.Counter(left for left, *_ in merges)
        merge_ends = itertools.accumulate(n_merges[i] for i in range(len(tokens)))
        table = dict(byte_tokens)
        self.arrays = dict(zip(ARRAYS, (
            u32s(list(ends)), bytes(flags for _, flags in tokens), u32s(lookup), u32s(list(merge_ends)),
            b"".join(u32s(merge[1:]) for merge in merges), u32s([table.get(byte, NONE) for byte in range(256)]),
            u32s(added), text, tables)))

    def set(self, **fields):
        self.header.update(fields)
        return self

    def put(self, array, index, value, form="<I"):
        raw = bytearray(self.arrays[array])
        struct.pack_into(form, raw, index * struct.calcsize(form), value)
        self.arrays[array] = bytes(raw)
        return self

    def place_of(self, array):
        """Where an array begins in the section."""
        at = 64
        for name in ARRAYS:
            at += -at % 4
            if name == array:
                return at
            at += len(self.arrays[name])
        raise KeyError(array)

    def bytes(self):
        out = bytearray(u32s([self.header[name] for name in HEADER_FIELDS]) + bytes(12))
        for name in ARRAYS:
            if name != "pre_tokenizer" or self.arrays[name]:
                out += bytes(-len(out) % 4) + self.arrays[name]
        return bytes(out)


def sentence_piece(**changes):
    return Tokenizer(**{**dict(
        kind=SENTENCE_PIECE, pre_tokenizer=0, flags=1 << 3 | 1 << 4, tokens=PIECE_TOKENS, lookup=(0, 5, 4, 6),
        merges=((4, 5, 0, 6),), byte_tokens=((97, 3),), added=(2, 1), bos=1, eos=2, unknown=0), **changes})


START, SYSTEM, LATER, USER, THINKING, ANSWER, CALL, RESULT, OPEN, END_OF_TALK = range(10)
N_STRINGS, N_STYLES = 15, 7
TOOL, DATE, DATE_FORMAT, NOT_IN_USER, CALL_FORM = 5, 7, 8, 10, 14


class Rule:
    """One of a template's, with its joint. at and n_bytes say where the joint lies, unless it is laid out."""

    def __init__(self, left, right, joint=b"", places=0, values=0, trims=0, leaves_out=0, at=None, n_bytes=None):
        self.left, self.right, self.joint, self.places, self.values = left, right, joint, places, values
        self.trims, self.leaves_out, self.at, self.n_bytes = trims, leaves_out, at, n_bytes

    def bytes(self, at):
        at = at if self.at is None else self.at
        n_bytes = len(self.joint) if self.n_bytes is None else self.n_bytes
        return struct.pack("<HHIIIHBB", self.left, self.right, self.places, self.values, at, n_bytes, self.trims, self.leaves_out)


def turns(start=b"<s>", user=b"", behind_user=b"", answer=b"", behind_answer=b"<e>"):
    """A question and an answer take turns, each framed for itself."""
    before = ((START, start), (USER, behind_user), (ANSWER, behind_answer))
    behind = ((USER, user), (ANSWER, answer), (OPEN, answer), (END_OF_TALK, b""))
    return tuple(Rule(1 << left, 1 << right, first + last) for left, first in before for right, last in behind)


def chat_template(kind=5, flags=0, rules=turns(), strings=None, sizes=None, n_rules=None, styles=bytes(4 * N_STYLES), not_blank=0,
                  id_characters=0, result_trims=0):
    """strings: texts by their place; that of the joints is made of the rules. sizes: those of strings, by their place."""
    texts = [b""] * N_STRINGS
    packed = b""
    for rule in rules:
        packed += rule.bytes(len(texts[0]))
        texts[0] += rule.joint
    for which, text in (strings or {}).items():
        texts[which] = text
    counts = [len(text) for text in texts]
    for which, size in (sizes or {}).items():
        counts[which] = size
    header = u32s([kind, flags, len(rules) if n_rules is None else n_rules, *counts]) + styles
    return header + struct.pack("<HBB", not_blank, id_characters, result_trims) + packed + b"".join(texts)


# Strings of a form of calls. Its usual one is that of <tool_call>{"name": ..., "arguments": ...}</tool_call>.
THINKING_BEGIN, CALL_START, NAME_KEYS, ARGUMENTS_KEYS, CALLS_END = 0, 4, 5, 6, 16
N_CALL_STRINGS = 18
USUAL_CALLS = {CALL_START: b"<tool_call>\0", NAME_KEYS: b"name\0", ARGUMENTS_KEYS: b"arguments\0", CALLS_END: b"</tool_call>"}


def call_form(kind=1, flags=0, strings=None, sizes=None):
    texts = {**USUAL_CALLS, **(strings or {})}
    counts = [(sizes or {}).get(i, len(texts.get(i, b""))) for i in range(N_CALL_STRINGS)]
    return u32s([kind, flags, *counts]) + b"".join(texts[i] for i in sorted(texts))


def text_model(tokenizer=None, chat=None, **config):
    """A model that is run on text: of the byte-level tokenizer unless another is given."""
    tokenizer = Tokenizer() if tokenizer is None else tokenizer
    defaults = {"bos_token": BEGIN, "end_tokens": [END]}
    return Model(tokenizer=tokenizer if isinstance(tokenizer, bytes) else tokenizer.bytes(), chat=chat,
                 **{**defaults, **config})
