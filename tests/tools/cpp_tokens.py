"""C++ sources as tokens, functions and structs, as far as following a text through them needs."""
import bisect
import collections
import dataclasses
import re

TOKEN = re.compile(
    r"""(?P<skip>\s+|//[^\n]*|/\*.*?\*/)
      |(?P<raw>R"(?P<mark>[^()\s\\]{0,16})\((?P<inside>.*?)\)(?P=mark)")
      |(?P<string>"(?:[^"\\\n]|\\.)*")
      |(?P<char>'(?:[^'\\\n]|\\.)*')
      |(?P<name>[A-Za-z_]\w*)
      |(?P<number>\.?\d(?:[\w.]|'(?=\w)|(?<=[eEpP])[+-])*)
      |(?P<mark2>->|::|<<=|>>=|<<|\+=|==|!=|<=|>=|&&|\|\||\+\+|--|[^\w\s])""",
    re.VERBOSE | re.DOTALL)
DEFINE = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)(\([^)]*\))?((?:\\\n|[^\n])*)", re.MULTILINE)
DIRECTIVE = re.compile(r"^[ \t]*#(?:\\\n|[^\n])*", re.MULTILINE)
OPEN = {"(": ")", "[": "]", "{": "}"}
CONTROL = {"if", "for", "while", "switch", "catch", "return", "sizeof", "alignof", "decltype", "static_assert", "throw",
           "noexcept", "requires", "constexpr", "new", "delete"}
AFTER_PARAMETERS = {"const", "noexcept", "override", "final", "mutable", "&", "&&"}


@dataclasses.dataclass(frozen=True)
class Token:
    kind: str  # name, string, number, char, mark
    text: str  # of a string what is between its quotes, as it is written
    line: int


@dataclasses.dataclass
class Parameter:
    name: str
    words: list  # of its type

    def can_be_a_text(self):
        return any(word in ("string", "string_view", "char", "ostringstream", "exception") for word in self.words)

    def hands_out(self):
        """Whether the function may change what the caller gave."""
        if "&" in self.words:
            return "const" not in self.words
        n_stars = self.words.count("*")
        return n_stars >= 2 or (n_stars == 1 and "const" not in self.words)


@dataclasses.dataclass
class Function:
    name: str
    parameters: list
    begin: int  # of what is between its braces, in the file's tokens
    end: int
    returns: list  # words before the name


def tokens_of(text, first_line=1):
    lines = [match.start() for match in re.finditer("\n", text)]
    found = []
    for match in TOKEN.finditer(text):
        kind = match.lastgroup
        if kind == "skip":
            continue
        line = first_line + bisect.bisect_left(lines, match.start())
        if match.group("raw") is not None:
            found.append(Token("string", match.group("inside").replace("\n", "\\n"), line))
        elif match.group("string") is not None:
            found.append(Token("string", match.group("string")[1:-1], line))
        elif match.group("char") is not None:
            found.append(Token("char", match.group("char"), line))
        elif match.group("name") is not None:
            found.append(Token("name", match.group("name"), line))
        elif match.group("number") is not None:
            found.append(Token("number", match.group("number"), line))
        else:
            found.append(Token("mark", match.group("mark2"), line))
    return found


class Source:
    """One file: its tokens without directives, its macros, functions and structs."""

    def __init__(self, name, text):
        self.name = name
        self.whole = text
        self.macros = {}
        for match in DEFINE.finditer(text):
            line = text.count("\n", 0, match.start(3)) + 1
            self.macros[match.group(1)] = tokens_of(match.group(3).replace("\\\n", " \n"), line)
        self.tokens = tokens_of(DIRECTIVE.sub(lambda match: "\n" * match.group(0).count("\n"), text))
        self.partner = self._partners()
        self.places = collections.defaultdict(list)  # name: where it stands
        for at, token in enumerate(self.tokens):
            if token.kind == "name":
                self.places[token.text].append(at)
        self.functions = list(self._functions())
        self.structs = dict(self._structs())

    def _partners(self):
        partner, waiting = {}, []
        for at, token in enumerate(self.tokens):
            if token.kind != "mark":
                continue
            if token.text in OPEN:
                waiting.append(at)
            elif token.text in OPEN.values() and waiting:
                begin = waiting.pop()
                partner[begin], partner[at] = at, begin
        return partner

    def text(self, at):
        return self.tokens[at].text if 0 <= at < len(self.tokens) else ""

    def is_mark(self, at, text):
        return 0 <= at < len(self.tokens) and self.tokens[at].kind == "mark" and self.tokens[at].text == text

    def is_name(self, at):
        return 0 <= at < len(self.tokens) and self.tokens[at].kind == "name"

    def parts(self, begin, end, separator=","):
        """Ranges between separators that no bracket holds."""
        at = first = begin
        while at < end:
            if self.tokens[at].kind == "mark":
                if self.text(at) in OPEN:
                    at = min(self.partner.get(at, at), end)
                elif self.text(at) == separator:
                    yield first, at
                    first = at + 1
            at += 1
        if first < end:
            yield first, end

    def parameters(self, begin, end):
        for first, last in self.parts(begin, end):
            names = [at for at in range(first, last) if self.tokens[at].kind == "name"]
            if names and len(names) > 1:
                words = [self.text(at) for at in range(first, last)]
                yield Parameter(words[names[-1] - first], words[:names[-1] - first])
            else:
                yield Parameter("", [self.text(at) for at in range(first, last)])

    def _functions(self):
        for at in range(len(self.tokens)):
            if not self.is_mark(at, "{"):
                continue
            close = self._close_of_parameters(at - 1)
            begin = self.partner.get(close)
            if begin is None:
                continue
            name, returns = "", []
            if self.is_name(begin - 1) and self.text(begin - 1) not in CONTROL:
                name = self.text(begin - 1)
                first = begin - 2
                while first >= 0 and not (self.tokens[first].kind == "mark" and self.text(first) in ";{}"):
                    returns.append(self.text(first))
                    first -= 1
            elif self.is_mark(begin - 1, "]") and self.partner.get(begin - 1) is not None:
                capture = self.partner[begin - 1]
                if self.is_mark(capture - 1, "=") and self.is_name(capture - 2):
                    name = self.text(capture - 2)
            else:
                continue
            yield Function(name, list(self.parameters(begin + 1, close)), at + 1, self.partner.get(at, at), returns)

    def _close_of_parameters(self, at):
        """The ) of the parameters before a body that follows at, -1 where none is."""
        first = at
        while at >= 0 and first - at < 400:
            if self.is_mark(at, ")") or self.is_mark(at, "}"):
                begin = self.partner.get(at, -1)
                # A member's initializer: name(...) after , or :
                if self.is_name(begin - 1) and (self.is_mark(begin - 2, ",") or self.is_mark(begin - 2, ":")):
                    at = begin - 3
                    continue
                return at if self.is_mark(at, ")") else -1
            if self.text(at) in AFTER_PARAMETERS:
                at -= 1
                continue
            # A lambda's or function's result: -> type
            back = at
            while back > at - 12 and (self.tokens[back].kind == "name" or self.text(back) in ("::", "<", ">", "*", "&")):
                back -= 1
            if self.is_mark(back, "->") and back < at:
                at = back - 1
                continue
            return -1
        return -1

    def _structs(self):
        """name: [(field, words of its type)]"""
        for at in range(len(self.tokens)):
            if self.text(at) not in ("struct", "class") or not self.is_name(at + 1):
                continue
            begin = at + 2
            while begin < len(self.tokens) and not (self.tokens[begin].kind == "mark" and self.text(begin) in "{;(>=,)"):
                begin += 1
            if not self.is_mark(begin, "{"):
                continue
            fields = []
            for first, last in self.parts(begin + 1, self.partner.get(begin, begin), ";"):
                words = [self.text(i) for i in range(first, last)]
                if "(" in words:
                    continue
                for mark in ("=", "{", "["):
                    if mark in words:
                        words = words[:words.index(mark)]
                if len(words) > 1:
                    fields.append((words[-1], words[:-1]))
            yield self.text(at + 1), fields
