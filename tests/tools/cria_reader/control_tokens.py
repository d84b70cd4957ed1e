"""Which tokens no text may encode to: the end tokens, and what a chat template is made of (parts 6 and 7)."""
from cria_reader.refusal import require
from cria_reader.tokenizer_section import AFTER_OTHERS, AFTER_SPACE, SENTENCE_PIECE, SWALLOWS_BEFORE, SWALLOWS_BEHIND

SPACE = "\u2581".encode()
# Unicode's property White_Space, and U+2581.
WHITE = {*range(9, 14), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000, 0x2581}


def is_white(text):
    try:
        return all(ord(character) in WHITE for character in text.decode("utf-8"))
    except UnicodeDecodeError:
        return False


def end_of(token, text, at, folds):
    """Where a token's bytes end in the text that has them at a place; None. With folds a space stands for U+2581."""
    while token:
        if at == len(text):
            return None
        taken = SPACE if folds and text[at] == ord(" ") else text[at:at + 1]
        if not token.startswith(taken):
            return None
        token = token[len(taken):]
        at += 1
    return at


def without_white(text, after, before):
    """The text's bytes from after to before, less the white space that a neighbour swallows at an end."""
    characters = [chr(code).encode() for code in WHITE - {0x2581}]
    begin, end = after[0], before[0]
    while after[1] and (size := max((len(c) for c in characters if text[begin:end].startswith(c)), default=0)):
        begin += size
    while before[1] and (size := max((len(c) for c in characters if text[begin:end].endswith(c)), default=0)):
        end -= size
    return begin, end


def cut(text, tokenizer, tokens, folds):
    """The tokens found in a text, leftmost first and the longest of several, and what is between them: bytes."""
    parts, begin, at = [], 0, 0
    while at < len(text):
        token, end = next(((t, end) for t in tokens if (end := end_of(tokenizer.texts[t], text, at, folds))), (None, None))
        if token is None:
            at += 1
            continue
        flags = tokenizer.token_flags[token]
        if flags & AFTER_SPACE:
            before = text[begin:at]
            at -= 1 if before.endswith(b" ") else len(SPACE) if before.endswith(SPACE) else 0
        _, at = without_white(text, (begin, False), (at, flags & SWALLOWS_BEFORE))
        parts += [text[begin:at], token]
        at, _ = without_white(text, (end, flags & SWALLOWS_BEHIND), (len(text), False))
        begin = at
    return [*parts, text[begin:]]


def tokens_in(text, tokenizer, with_space):
    """Added tokens in a string of the template, in order; with a space in front of each part or none."""
    first = [t for t in tokenizer.added_tokens if not tokenizer.token_flags[t] & AFTER_OTHERS]
    late = [t for t in tokenizer.added_tokens if tokenizer.token_flags[t] & AFTER_OTHERS]
    for part in cut(text, tokenizer, first, False):
        if isinstance(part, int):
            yield part
            continue
        part = (b" " if with_space and part else b"") + part
        folds = tokenizer.header["kind"] == SENTENCE_PIECE
        yield from (token for token in cut(part, tokenizer, late, folds) if isinstance(token, int))


def template_tokens(text, tokenizer, with_space):
    return [token for token in tokens_in(text, tokenizer, with_space) if not is_white(tokenizer.texts[token])]


def check_control_tokens(config, tokenizer, chat):
    for token in config["end_tokens"]:
        require(token >= len(tokenizer.texts) or not tokenizer.texts[token] or tokenizer.is_special(token),
                "an end token that a text can forge")
    unknown = tokenizer.header["unknown_token"]
    require(unknown not in config["end_tokens"], "unknown_token is an end token")
    for string in chat.texts if chat else []:
        for with_space in (False, True):
            for token in template_tokens(string, tokenizer, with_space):
                require(tokenizer.is_special(token), "a token of the chat template that a text can forge")
                require(token != unknown, "unknown_token is a token of the chat template")
    if chat:
        behind = template_tokens(chat.behind_answer, tokenizer, with_space=False)
        require(not behind or behind[0] in config["end_tokens"], "an answer's joint begins with no end token")
