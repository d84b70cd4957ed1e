"""Parts 6 and 7 of docs/model_format.md: the added tokens that trusted text gives (steps 1 and 2 of encoding)."""
from cria_reader.tokenizer_section import SENTENCE_PIECE

STRIP_LEFT, STRIP_RIGHT, LATE, AFTER_SPACE = 1 << 3, 1 << 4, 1 << 5, 1 << 6
SPACE, MARK = b" ", "\u2581".encode()
# Unicode's property White_Space.
WHITE = [chr(code).encode() for code in
         (*range(0x09, 0x0E), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000)]


def skip_left(text, begin, least):
    while found := [len(space) for space in WHITE if text[least:begin].endswith(space)]:
        begin -= max(found)
    return begin


def skip_right(text, end):
    while found := [len(space) for space in WHITE if text.startswith(space, end)]:
        end += max(found)
    return end


class Search:
    """Added tokens of one stage in a text; with folds a space of the text reads as U+2581."""

    def __init__(self, tokenizer, text, late):
        self.tokenizer, self.text = tokenizer, text
        folds = late and tokenizer.header["kind"] == SENTENCE_PIECE
        self.tokens = [t for t in tokenizer.added_tokens if bool(tokenizer.token_flags[t] & LATE) == late]
        # The bytes as they read, and of those that a character of the text starts with, or any other byte: its place.
        self.read, self.places = b"", {}
        for place in range(len(text)):
            self.places[len(self.read)] = place
            byte = text[place:place + 1]
            self.read += MARK if folds and byte == SPACE else byte
        self.places[len(self.read)] = len(text)

    def find(self, least):
        """(begin, end, token) of the leftmost at or behind a place, the longest of several; None."""
        for at, place in sorted(self.places.items()):
            if place < least or place == len(self.text):
                continue
            for token in self.tokens:  # longest first
                text = self.tokenizer.texts[token]
                if self.read.startswith(text, at) and at + len(text) in self.places:
                    return self.with_spaces(token, least, place, self.places[at + len(text)])
        return None

    def with_spaces(self, token, least, begin, end):
        flags = self.tokenizer.token_flags[token]
        if flags & AFTER_SPACE:
            before = self.text[least:begin]
            begin -= 1 if before.endswith(SPACE) else len(MARK) if before.endswith(MARK) else 0
        if flags & STRIP_LEFT:
            begin = skip_left(self.text, begin, least)
        if flags & STRIP_RIGHT:
            end = skip_right(self.text, end)
        return begin, end, token


def cut(tokenizer, text, late):
    """Each token of a stage with the text between it and the one before: (text, token); the last token is None."""
    search, at = Search(tokenizer, text, late), 0
    while at < len(text):
        match = search.find(at)
        if not match:
            break
        begin, end, token = match
        yield text[at:begin], token
        at = end
    yield text[at:], None


def tokens_in(text, tokenizer, space):
    """The tokens in their order; with space one is put in front of each part between tokens of the first stage."""
    for part, token in cut(tokenizer, text, False):
        if part:
            yield from (late for _, late in cut(tokenizer, SPACE * space + part, True) if late is not None)
        if token is not None:
            yield token


def is_blank(text):
    while text:
        space = next((space for space in (*WHITE, MARK) if text.startswith(space)), None)
        if space is None:
            return False
        text = text[len(space):]
    return True
