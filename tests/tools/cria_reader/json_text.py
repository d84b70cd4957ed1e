"""Whether bytes are JSON (RFC 8259) in UTF-8 that nests so deep and no deeper; without recursion."""
import re

BLANK = re.compile(r"[ \t\r\n]*")
STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"')
SCALAR = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|true|false|null")
CLOSING = {"[": "]", "{": "}"}


def skip(text, at):
    return BLANK.match(text, at).end()


def is_json(raw, deepest):
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        return False
    stack, at = [], 0
    while True:
        # A value begins here.
        at = skip(text, at)
        if at == len(text):
            return False
        opening = text[at]
        if opening in CLOSING:
            if len(stack) == deepest:
                return False
            at = skip(text, at + 1)
            if text[at:at + 1] == CLOSING[opening]:
                at += 1
            else:
                stack.append(opening)
                at = key(text, at) if opening == "{" else at
                if at is None:
                    return False
                continue
        else:
            found = STRING.match(text, at) or SCALAR.match(text, at)
            if not found:
                return False
            at = found.end()
        # A value ended here.
        while True:
            at = skip(text, at)
            if not stack:
                return at == len(text)
            if text[at:at + 1] != CLOSING[stack[-1]]:
                break
            stack.pop()
            at += 1
        if text[at:at + 1] != ",":
            return False
        at = key(text, skip(text, at + 1)) if stack[-1] == "{" else at + 1
        if at is None:
            return False


def key(text, at):
    """After a key and its colon, or None."""
    found = STRING.match(text, at)
    at = skip(text, found.end()) if found else len(text)
    return at + 1 if text[at:at + 1] == ":" else None
