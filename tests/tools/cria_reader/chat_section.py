"""Part 7 of docs/model_format.md: the chat template, and which tokens it makes control tokens."""
import struct

from cria_reader.refusal import require
from cria_reader.tokenizer_section import SPECIAL

HEADER_BYTES = 64
KINDS = range(1, 8)
KNOWN_FLAGS = 15
N_STRINGS, MOST_STRING = 8, 4096
ASSISTANT_SUFFIX = 6
LATE = 1 << 5
BLANKS = b" \t\n\v\f\r"


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


def tokens_in(text, tokenizer):
    """Added tokens that are cut out of a text, in their order: leftmost first, the longest of several."""
    found, at = [], 0
    while at < len(text):
        token = next((t for t in tokenizer.added_tokens if text.startswith(tokenizer.texts[t], at)), None)
        if token is None:
            at += 1
            continue
        found.append(token)
        at += len(tokenizer.texts[token])
    return found


def is_control(token, tokenizer):
    return bool(tokenizer.token_flags[token] & SPECIAL)


def check_control_tokens(config, tokenizer, strings):
    for token in config["end_tokens"]:
        require(token >= len(tokenizer.texts) or is_control(token, tokenizer), "an end token that a text can forge")
    for string in strings:
        for token in tokens_in(string, tokenizer):
            require(is_control(token, tokenizer) or not tokenizer.texts[token].strip(BLANKS),
                    "a token of the chat template that a text can forge")
    if strings:
        in_suffix = [token for token in tokens_in(strings[ASSISTANT_SUFFIX], tokenizer) if is_control(token, tokenizer)]
        require(not in_suffix or in_suffix[0] in config["end_tokens"], "the assistant's suffix begins with no end token")
