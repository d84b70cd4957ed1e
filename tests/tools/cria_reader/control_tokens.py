"""Which tokens no text may encode to: the end tokens, and what a chat template is made of (parts 6 and 7)."""
from cria_reader.chat_section import ASSISTANT_SUFFIX, DEFAULT_SYSTEM
from cria_reader.refusal import require
from cria_reader.tokenizer_section import AFTER_OTHERS, SENTENCE_PIECE, SWALLOWS_BEFORE, SWALLOWS_BEHIND

SPACE = "\u2581".encode()
# Unicode's property White_Space, and U+2581.
WHITE = {*range(9, 14), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000, 0x2581}


def is_white(text):
    try:
        return all(ord(character) in WHITE for character in text.decode("utf-8"))
    except UnicodeDecodeError:
        return False


def white_at_start(text):
    """Bytes of white space that a text begins with."""
    n = 0
    while n < len(text):
        size = next((size for size in (1, 2, 3) if is_white(text[n:n + size])), 0)
        if size == 0:
            break
        n += size
    return n


def white_at_end(text):
    n = 0
    while n < len(text):
        size = next((size for size in (1, 2, 3) if is_white(text[len(text) - n - size:len(text) - n])), 0)
        if size == 0 or n + size > len(text):
            break
        n += size
    return n


def cut(text, tokenizer, tokens):
    """The tokens found in a text, leftmost first and the longest of several, and what is between them: bytes."""
    parts, begin, at = [], 0, 0
    while at < len(text):
        token = next((t for t in tokens if text.startswith(tokenizer.texts[t], at)), None)
        if token is None:
            at += 1
            continue
        before = text[begin:at]
        if tokenizer.token_flags[token] & SWALLOWS_BEFORE:
            before = before[:len(before) - white_at_end(before)]
        parts += [before, token]
        at += len(tokenizer.texts[token])
        if tokenizer.token_flags[token] & SWALLOWS_BEHIND:
            at += white_at_start(text[at:])
        begin = at
    return [*parts, text[begin:]]


def tokens_in(text, tokenizer, with_space):
    """Added tokens in a string of the template, in order; with a space in front of each part or none."""
    first = [t for t in tokenizer.added_tokens if not tokenizer.token_flags[t] & AFTER_OTHERS]
    late = [t for t in tokenizer.added_tokens if tokenizer.token_flags[t] & AFTER_OTHERS]
    for part in cut(text, tokenizer, first):
        if isinstance(part, int):
            yield part
            continue
        part = (b" " if with_space and part else b"") + part
        if tokenizer.header["kind"] == SENTENCE_PIECE:
            part = part.replace(b" ", SPACE)
        yield from (token for token in cut(part, tokenizer, late) if isinstance(token, int))


def template_tokens(text, tokenizer, with_space):
    return [token for token in tokens_in(text, tokenizer, with_space) if not is_white(tokenizer.texts[token])]


def check_control_tokens(config, tokenizer, strings):
    for token in config["end_tokens"]:
        require(token >= len(tokenizer.texts) or not tokenizer.texts[token] or tokenizer.is_special(token),
                "an end token that a text can forge")
    unknown = tokenizer.header["unknown_token"]
    require(unknown not in config["end_tokens"], "unknown_token is an end token")
    for string in strings[:DEFAULT_SYSTEM]:
        for with_space in (False, True):
            for token in template_tokens(string, tokenizer, with_space):
                require(tokenizer.is_special(token), "a token of the chat template that a text can forge")
                require(token != unknown, "unknown_token is a token of the chat template")
    if strings:
        in_suffix = template_tokens(strings[ASSISTANT_SUFFIX], tokenizer, with_space=False)
        require(not in_suffix or in_suffix[0] in config["end_tokens"], "the assistant's suffix begins with no end token")
