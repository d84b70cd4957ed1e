"""Part 6 of docs/model_format.md: the tokenizer's tables."""
import struct

from cria_reader.file_layout import round_up
from cria_reader.pre_tokenizer_tables import check_tables
from cria_reader.refusal import require

NONE = 0xFFFFFFFF
HEADER_FORMAT, HEADER_BYTES = "<13I12s", 64
FIELDS = ("kind pre_tokenizer flags n_tokens n_sorted n_merges n_added text_bytes bos_token eos_token unknown_token "
          "longest_token pre_tokenizer_bytes").split()
BYTE_LEVEL, SENTENCE_PIECE = 1, 2
WHOLE, STAGES, SPACE_RUNS, METASPACE = 0, 1, 5, 6
PRE_TOKENIZERS = {BYTE_LEVEL: (WHOLE, STAGES), SENTENCE_PIECE: (WHOLE, SPACE_RUNS, METASPACE)}
KNOWN_FLAGS, KNOWN_TOKEN_FLAGS = (1 << 11) - 1, (1 << 7) - 1
STARTS_WITH_BOS, ENDS_WITH_EOS, NORMALIZES = 1, 2, 1 << 10
SPECIAL, ADDED, SWALLOWS_BEFORE, SWALLOWS_BEHIND, AFTER_OTHERS, AFTER_SPACE = (1 << i for i in (0, 2, 3, 4, 5, 6))
MOST_MERGES, MOST_TEXT, MOST_TOKEN_BYTES = 1 << 23, 1 << 26, 4096
MOST_SEARCHED = 2048


class Tokenizer:
    def __init__(self, raw, config):
        require(len(raw) >= HEADER_BYTES, "the size of the tokenizer section")
        *fields, reserved = struct.unpack_from(HEADER_FORMAT, raw)
        self.header = dict(zip(FIELDS, fields))
        require(not any(reserved), "reserved bytes of the tokenizer")
        self.check_header(config)
        self.read_arrays(raw)
        self.check_texts()
        self.check_lookup()
        self.check_merges()
        self.check_byte_tokens()
        self.check_added()
        if self.header["pre_tokenizer"] == STAGES:
            check_tables(self.pre_tokenizer)

    def check_header(self, config):
        h = self.header
        require(h["kind"] in PRE_TOKENIZERS, "the kind of the tokenizer")
        require(h["pre_tokenizer"] in PRE_TOKENIZERS[h["kind"]], "pre_tokenizer")
        require(h["flags"] & ~KNOWN_FLAGS == 0, "flags of the tokenizer")
        require(h["kind"] == BYTE_LEVEL or h["flags"] & NORMALIZES == 0, "normalization of SentencePiece")
        require(h["pre_tokenizer"] == STAGES or h["pre_tokenizer_bytes"] == 0, "pre_tokenizer_bytes")
        require(1 <= h["n_tokens"] <= config["vocab_size"], "n_tokens")
        require(h["n_sorted"] <= h["n_tokens"] and h["n_added"] <= h["n_tokens"], "n_sorted or n_added")
        require(h["n_merges"] <= MOST_MERGES and h["text_bytes"] <= MOST_TEXT, "n_merges or text_bytes")
        for name in ("bos_token", "eos_token", "unknown_token"):
            require(h[name] < h["n_tokens"] or h[name] == NONE, name)
        require(h["flags"] & STARTS_WITH_BOS == 0 or h["bos_token"] != NONE, "bos_token, which texts start with")
        require(h["flags"] & ENDS_WITH_EOS == 0 or h["eos_token"] != NONE, "eos_token, which texts end with")
        require(h["longest_token"] <= MOST_TOKEN_BYTES, "longest_token")

    def read_arrays(self, raw):
        self.pre_tokenizer = b""
        h, at = self.header, HEADER_BYTES
        n = h["n_tokens"]
        for name, form, count in (
                ("token_ends", "I", n), ("token_flags", "B", n), ("sorted_tokens", "I", h["n_sorted"]), ("merge_ends", "I", n),
                ("merges", "III", h["n_merges"]), ("byte_tokens", "I", 256), ("added_tokens", "I", h["n_added"]),
                ("text", "B", h["text_bytes"]), ("pre_tokenizer", "B", h["pre_tokenizer_bytes"])):
            if name == "pre_tokenizer" and count == 0:
                break  # it is not there
            begin, size = round_up(at, 4), count * struct.calcsize("<" + form)
            require(begin + size <= len(raw), f"{name} ends behind the section")
            require(not any(raw[at:begin]), "a byte that aligns an array")
            at = begin + size
            content = raw[begin:at]
            if form == "B":
                setattr(self, name, content)
            else:
                values = struct.iter_unpack("<" + form, content)
                setattr(self, name, list(values) if len(form) > 1 else [value for value, in values])
        require(at == len(raw), "the tokenizer section does not end with its last array")

    def check_texts(self):
        begin, self.texts = 0, []
        for end in self.token_ends:
            require(begin <= end <= len(self.text), "token_ends")
            self.texts.append(self.text[begin:end])
            begin = end
        require(begin == len(self.text), "the last of token_ends")
        require(max(map(len, self.texts), default=0) == self.header["longest_token"], "longest_token")
        require(all(flags & ~KNOWN_TOKEN_FLAGS == 0 for flags in self.token_flags), "token_flags")

    def is_special(self, token):
        return bool(self.token_flags[token] & SPECIAL)

    def plain(self, token):
        """Whether it may be in a table other than added_tokens."""
        return token < len(self.texts) and not self.token_flags[token] & SPECIAL

    def check_lookup(self):
        require(all(map(self.plain, self.sorted_tokens)), "sorted_tokens")
        texts = [self.texts[token] for token in self.sorted_tokens]
        require(all(texts), "a sorted token without text")
        require(all(a < b for a, b in zip(texts, texts[1:])), "the order of sorted_tokens")

    def check_merges(self):
        begin = 0
        for left, end in enumerate(self.merge_ends):
            require(begin <= end <= len(self.merges), "merge_ends")
            of_left = self.merges[begin:end]
            for right, _, result in of_left:
                require(right < len(self.texts) and self.plain(result), "a merge's tokens")
                require(self.texts[left] + self.texts[right] == self.texts[result], "a merge's result")
            require(all(a[0] < b[0] for a, b in zip(of_left, of_left[1:])), "the order of merges")
            begin = end
        require(begin == len(self.merges), "the last of merge_ends")

    def check_byte_tokens(self):
        for byte, token in enumerate(self.byte_tokens):
            require(token == NONE or self.plain(token), "byte_tokens")
            require(token == NONE or self.texts[token] == bytes([byte]), "the text of a byte's token")

    def check_added(self):
        require(all(token < len(self.texts) for token in self.added_tokens), "added_tokens")
        require(all(self.texts[token] for token in self.added_tokens), "an added token without text")
        order = [(text[0], -len(text), text) for text in (self.texts[token] for token in self.added_tokens)]
        require(all(a < b for a, b in zip(order, order[1:])), "the order of added_tokens")
        require(all(self.token_flags[token] & ADDED for token in self.added_tokens), "an added token without bit 2 of the flags")
        lengths = {(text[0], len(text)) for text in (self.texts[token] for token in self.added_tokens)}
        for first in range(256):
            require(sum(n for byte, n in lengths if byte == first) <= MOST_SEARCHED, "too many lengths of added tokens")
