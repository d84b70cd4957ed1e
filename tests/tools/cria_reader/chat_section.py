"""Part 7 of docs/model_format.md: the chat template, and which tokens it makes control tokens."""
import struct

from cria_reader.refusal import require
from cria_reader.template_tokens import is_blank, tokens_in
from cria_reader.tokenizer_section import SPECIAL

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


def check_control_tokens(config, tokenizer, strings):
    special = {token for token, flags in enumerate(tokenizer.token_flags) if flags & SPECIAL}
    unknown = tokenizer.header["unknown_token"]
    for token in config["end_tokens"]:
        has_text = token < len(tokenizer.texts) and tokenizer.texts[token]
        require(not has_text or token in special, "an end token that a text can forge")
        require(token != unknown, "an end token that unknown text gives")
    for string in strings[:DEFAULT_SYSTEM]:
        for space in (False, True):
            for token in tokens_in(string, tokenizer, space):
                if not is_blank(tokenizer.texts[token]):
                    require(token in special, "a token of the chat template that a text can forge")
                    require(token != unknown, "a token of the chat template that unknown text gives")
    if strings:
        suffix = tokens_in(strings[ASSISTANT_SUFFIX], tokenizer, False)
        end = next((token for token in suffix if not is_blank(tokenizer.texts[token])), None)
        require(end is None or end in config["end_tokens"], "the assistant's suffix begins with no end token")
