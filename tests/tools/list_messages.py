#!/usr/bin/env python3
"""Lists each text that reaches a user when something fails, with its place: FILE:LINE: TEXT. {} stands for what is put in.

    python3 tests/tools/list_messages.py [--source FOLDER] [FILE...]

A text is found by how it is raised. An error that is thrown or made, and what is written to stderr, are where texts
arrive. From there the script follows names back: parameters, variables, fields, constants, and what functions return.
Of Python, texts are found in the exceptions that are raised. FILE limits what is printed, not what is read.
"""
import argparse
import collections
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from cpp_tokens import Source  # noqa: E402
from python_messages import messages_of_python  # noqa: E402

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
CPP_FOLDERS = ("converter/", "platforms/hosted/", "quant/", "runtime/")
PYTHON_FOLDERS = ("converter/", "python/cria/")
EXCEPTIONS = {"exception", "runtime_error", "logic_error", "invalid_argument"}
# An error of the option library, and what it asks of a value: a text that says what is wrong.
LIBRARY_ERROR = re.compile(r"^(?:\w*Error|Validator)$")
# A struct of the API in which callers are told what is wrong.
TOLD_STRUCT = re.compile(r"^cria_\w*(?:problem|refusal)$")
TELLER = r"std::function<void\((?:const std::string&|std::string|const char\*)(?: \w+)?\)>"
TELLER_ALIAS = re.compile(r"using (\w+) = " + TELLER)
WORDS = re.compile(r"[a-z]{2,}")


def is_prose(text):
    """Whether a text has words, and a blank: keys, names and formats of numbers have not."""
    return " " in text and WORDS.search(re.sub(r"%[-+ 0#.*\d]*(?:ll|z)?[a-zA-Z]|\\.", " ", text)) is not None


AT_FILE_LEVEL = re.compile(r"k[A-Z]|\w+_$|[A-Z]\w+$")
WRITES = {"write", "fputs", "fwrite", "fprintf"}
COPIES = {"memcpy", "strncpy", "snprintf", "copy_n"}


class Flow:
    """What reaches a user, as a set that grows until nothing is added.

    shared      names of constants and fields
    local       (file, function's begin): names of its parameters and variables
    arguments   (function, place): what callers give there
    results     functions whose result it is
    """

    def __init__(self, sources):
        self.sources = sources
        self.shared, self.results, self.arguments = set(), set(), set()
        self.local = collections.defaultdict(set)
        self.names = {}  # of a scope: [(place, name)], those that can matter
        self.found = {}  # (file, begin): (source, begin, end), expressions
        self.macros = {name: (source, body) for source in sources for name, body in source.macros.items()}
        self.errors = self._error_classes()
        self.defined = collections.defaultdict(list)  # name: [(source, function)]
        for source in sources:
            for function in source.functions:
                self.defined[function.name].append((source, function))
        self.text_makers = {name for name, made in self.defined.items() if name and any(
            set(function.returns) & {"char", "string"} for _, function in made)}
        self.takers = {name for name, made in self.defined.items()
                       if any(parameter.hands_out() for _, function in made for parameter in function.parameters)}
        self.types = {}  # struct: its fields
        for source in sources:
            self.types.update(source.structs)
        # What callers of the API are told.
        self.shared |= {"." + field for name, fields in self.types.items() if TOLD_STRUCT.match(name)
                        for field, words in fields if "char" in words}
        # Functions of a text that others are given, to tell it.
        self.tellers = set(TELLER_ALIAS.findall("\n".join(source.whole for source in sources)))
        of_tellers = "|".join([TELLER, *(rf"\b{name}\b&?" for name in sorted(self.tellers))])
        self.tellers = set()
        for source in sources:
            self.tellers |= {name for name in re.findall(rf"(?:{of_tellers})&? (\w+)", source.whole)}

    def _error_classes(self):
        bases = collections.defaultdict(set)
        for source in self.sources:
            for at, token in enumerate(source.tokens):
                if token.text in ("class", "struct") and source.is_name(at + 1) and source.is_mark(at + 2, ":"):
                    end = at + 3
                    while end < len(source.tokens) and not source.is_mark(end, "{"):
                        end += 1
                    bases[source.text(at + 1)] |= {source.text(i) for i in range(at + 3, end)}
        errors = set(EXCEPTIONS)
        while True:
            more = {name for name, of in bases.items() if of & errors} - errors
            if not more:
                return errors
            errors |= more

    def run(self):
        scopes = [(source, scope) for source in self.sources for scope in self._scopes(source)]
        for source, scope in scopes:
            begin, end = self._range(source, scope)
            self.names[self._key(source, scope)] = [
                (at, source.tokens[at].text) for at in range(begin, end)
                if source.tokens[at].kind == "name" and (scope or AT_FILE_LEVEL.match(source.tokens[at].text)
                                                         or source.is_mark(at - 1, "."))]
        for source, scope in scopes:
            self._seed(source, scope)
        while True:
            self._share_fields()
            before = (len(self.shared), len(self.results), len(self.arguments), len(self.found),
                      sum(map(len, self.local.values())))
            for source, scope in scopes:
                self._grow(source, scope)
            after = (len(self.shared), len(self.results), len(self.arguments), len(self.found),
                     sum(map(len, self.local.values())))
            if before == after:
                return self

    def _share_fields(self):
        """A field of a struct that holds a text which reaches a user: refusal->refusal = {...}."""
        taken = {name for name in self.types if self._has_taken_field(name)}
        self.taken_types = taken
        # Functions that take a text to a user, or hand one out.
        self.wanted = COPIES | taken | {name for name, _ in self.arguments} | self.takers
        self.shared |= {"." + field for fields in self.types.values() for field, words in fields
                        if words and words[-1] in taken}

    def _scopes(self, source):
        """The functions, and the file itself (None)."""
        # A lambda is read with the function around it, whose variables it sees, and by itself.
        return [None, *source.functions]

    def _key(self, source, scope):
        return (source.name, scope.begin if scope else -1)

    def _range(self, source, scope):
        return (scope.begin, scope.end) if scope else (0, len(source.tokens))

    def _take(self, source, scope, begin, end):
        """What is in these tokens reaches a user."""
        if (source.name, begin) in self.found and self.found[source.name, begin][2] >= end:
            known = True
        else:
            self.found[source.name, begin] = (source, begin, end)
            known = False
        names = self.local[self._key(source, scope)]
        if known and (source.name, begin, self._key(source, scope)) in names:
            return
        names.add((source.name, begin, self._key(source, scope)))
        for at in range(begin, end):
            if not source.is_name(at):
                continue
            name = source.text(at)
            if source.is_mark(at + 1, "(") or source.is_mark(at + 1, "<"):
                if name not in self.errors:
                    self.results.add(name)
                    names.add(name)
                continue
            if source.is_mark(at - 1, ".") or source.is_mark(at - 1, "->"):
                self.shared.add("." + name)
            elif re.match(r"k[A-Z]", name):
                self.shared.add(name)
            elif name.endswith("_"):
                self.shared.add("." + name)
            else:
                names.add(name)
                if name in self.text_makers:
                    self.results.add(name)

    def _seed(self, source, scope):
        begin, end = self._range(source, scope)
        for at in range(begin, end):
            token = source.tokens[at]
            if token.text == "throw" and scope and not source.is_mark(at + 1, ";"):
                if source.tokens[at + 1].kind == "string":
                    continue  # of what the compiler computes
                stop = self._end_of_statement(source, at, end)
                self._take(source, scope, at + 1, stop)
            elif token.kind == "name" and (token.text in self.errors or LIBRARY_ERROR.match(token.text)):
                if scope is None:
                    continue
                call = at + 1
                if source.is_name(call):
                    call += 1  # ApiError error(...)
                if source.tokens[call].kind == "mark" and source.text(call) in "({" and call in source.partner:
                    if source.text(at - 1) in ("class", "struct", "catch"):
                        continue
                    self._take(source, scope, call + 1, source.partner[call])
            elif token.text in self.tellers and scope and source.is_mark(at + 1, "(") and at + 1 in source.partner:
                self._take(source, scope, at + 2, source.partner[at + 1])
            elif token.text in ("STDERR_FILENO", "stderr", "cerr") and scope:
                first = at
                while first > begin and not (source.tokens[first].kind == "mark" and source.text(first) in ";{}("):
                    first = source.partner.get(first, first) - 1 if source.is_mark(first, ")") else first - 1
                if source.text(first - 1) in WRITES and first in source.partner:
                    self._take(source, scope, first + 1, source.partner[first])
                elif token.text == "cerr":
                    self._take(source, scope, at + 1, self._end_of_statement(source, at, end))

    def _end_of_statement(self, source, at, end):
        while at < end:
            if source.tokens[at].kind == "mark":
                if source.text(at) == ";":
                    return at
                if source.text(at) in ("(", "[", "{"):
                    at = source.partner.get(at, at)
                elif source.text(at) in (")", "]", "}"):
                    return at
            at += 1
        return min(at, end)

    def _is_taken(self, source, scope, at):
        name = source.text(at)
        if source.is_mark(at - 1, ".") or source.is_mark(at - 1, "->") or name.endswith("_"):
            return "." + name in self.shared
        return name in self.shared or name in self.local[self._key(source, scope)]

    def _grow(self, source, scope):
        key = self._key(source, scope)
        begin, end = self._range(source, scope)
        if scope:
            for place, parameter in enumerate(scope.parameters):
                slot = (scope.name, place)
                if parameter.name in self.local[key] and parameter.can_be_a_text():
                    self.arguments.add(slot)
                if slot in self.arguments and parameter.hands_out():
                    self.local[key].add(parameter.name)
            if scope.name in self.results and scope.name:
                for at in range(begin, end):
                    if source.text(at) == "return":
                        self._take(source, scope, at + 1, self._end_of_statement(source, at, end))
                    elif source.text(at) in self.macros:
                        self._take_macro(source.text(at))
        local = self.local[key]
        for at, name in self.names[key]:
            if not (name in local or name in self.wanted or "." + name in self.shared or name in self.shared):
                continue
            if self._is_taken(source, scope, at):
                self._take_value(source, scope, at, end)
            if scope and source.is_mark(at + 1, "("):
                self._follow_call(source, scope, at)
            elif scope and source.is_name(at + 1) and source.is_mark(at + 2, "(") and name in self.types:
                self._follow_call(source, scope, at + 1, name)  # Type name(arguments)
            if name in self.taken_types:
                self._take_rows(source, scope, at, end)
            if scope and name in COPIES and source.is_mark(at + 1, "(") and at + 1 in source.partner:
                first, last = next(source.parts(at + 2, source.partner[at + 1]), (at, at))
                if any(source.is_name(i) and self._is_taken(source, scope, i) for i in range(first, last)):
                    self._take(source, scope, last + 1, source.partner[at + 1])

    def _take_value(self, source, scope, at, end):
        """Of a name that reaches a user: what it is set to here."""
        after = at + 1
        while source.is_mark(after, "["):
            after = source.partner.get(after, after) + 1
        if source.tokens[after].kind != "mark" if after < len(source.tokens) else True:
            return
        mark = source.text(after)
        if mark in ("=", "+=", ":", "<<"):
            if mark == ":" and not (scope and source.is_mark(at - 1, "&") or source.text(at - 1) in ("auto", "string")
                                    or source.is_name(at - 1)):
                return
            self._take(source, scope, after + 1, self._end_of_statement(source, after + 1, end))
        elif mark in ("(", "{") and (source.is_name(at - 1) or source.text(at - 1) in (">", "*", "&", ",", ":", "]")):
            if source.text(at - 1) in ("return", "throw"):
                return
            if after in source.partner:
                self._take(source, scope, after + 1, source.partner[after])
        elif mark in (".", "->") and source.text(after + 1) in ("append", "push_back", "emplace_back", "insert", "assign"):
            call = after + 2
            if call in source.partner:
                self._take(source, scope, call + 1, source.partner[call])

    def _follow_call(self, source, scope, at, type_name=None):
        close = source.partner.get(at + 1)
        if close is None:
            return
        name = type_name or source.text(at)
        parts = list(source.parts(at + 2, close))
        targets = [(from_, function) for from_, function in self.defined.get(name, ())
                   if len(function.parameters) >= len(parts)]
        if not targets:
            return
        for place, (first, last) in enumerate(parts):
            slot = (name, place)
            wanted = any(function.parameters[place].name in self.local[self._key(from_, function)]
                         and function.parameters[place].can_be_a_text() for from_, function in targets)
            if slot in self.arguments and wanted:
                self._take(source, scope, first, last)
            # &name or &object.name, or the name of what the callee may change
            chain = [source.text(i) for i in range(first, last) if not source.is_name(i)]
            if not source.is_name(last - 1) or not set(chain) <= {"&", ".", "->", "*"}:
                continue
            if not self._is_taken(source, scope, last - 1):
                continue
            for from_, function in targets:
                parameter = function.parameters[place]
                if parameter.name and parameter.hands_out():
                    self.local[self._key(from_, function)].add(parameter.name)

    def _has_taken_field(self, type_name):
        return any("." + field in self.shared and ("char" in words or "string" in words or "string_view" in words)
                   for field, words in self.types[type_name])

    def _take_rows(self, source, scope, at, end):
        """Type name = {...}, Type name[] = {...}, Type{...}, and name = {...} of a Type here."""
        after = at + 1
        if source.is_mark(after, "{") and after in source.partner and source.text(at - 1) not in ("struct", "class"):
            return self._take(source, scope, after + 1, source.partner[after])
        while after < end and source.text(after) in ("*", "&", "const", ">"):
            after += 1
        if not source.is_name(after):
            return None
        name = source.text(after)
        if source.is_mark(after + 1, "("):  # a function that returns it
            return None
        last = len(source.tokens) if name.endswith("_") or scope is None else end
        for i in source.places[name]:
            if not after <= i < last:
                continue
            j = i + 1
            while source.is_mark(j, "["):
                j = source.partner.get(j, j) + 1
            if source.is_mark(j, "="):
                j += 1
            if source.is_mark(j, "{") and j in source.partner and j != i:
                self._take(source, scope, j + 1, source.partner[j])
        return None

    def _take_macro(self, name):
        if (name, -1) not in self.found:
            source, body = self.macros[name]
            self.found[name, -1] = (_Body(source.name, body), 0, len(body))


class _Body(Source):
    """What a macro stands for."""

    def __init__(self, name, tokens):  # pylint: disable=super-init-not-called
        self.name, self.tokens = name, tokens
        self.partner = self._partners()


def pieces(source, begin, end):
    """Ranges of an expression that are one text each: between ; and braces, and between the items of a list."""
    at = first = begin
    waiting = []  # brackets that are open
    while at < end:
        token = source.tokens[at]
        if token.kind == "mark":
            if token.text in "([":
                waiting.append(at)
            elif token.text in ")]" and waiting:
                waiting.pop()
            elif token.text in ";{}" or (token.text == "," and not waiting):
                yield first, at
                first = at + 1
                if token.text in "{}":
                    waiting = []
        at += 1
    yield first, end


PUT_IN = re.compile(r"^(?:[+()\s]|std::string|_reason|,.*)*$", re.DOTALL)


def rendered(source, begin, end):
    """The text, with {...} for what is put in, and the line of its first words."""
    text, between, line = "", [], None

    def close(is_last):
        words = "".join(between)
        between.clear()
        if PUT_IN.match(words) or (is_last and words.startswith(",")):
            return ""
        if "?" in words or (":" in words.replace("::", "") and "(" not in words):
            return "{" + words.strip("+") + "}"
        return "{}"

    for at in range(begin, end):
        token = source.tokens[at]
        if token.kind == "string":
            if token.text == "" and at + 1 < end:
                between.append("''")
                continue
            text += close(False) + token.text
            line = line or token.line
        else:
            between.append(token.text)
    return text + close(True), line


def messages_of_cpp(texts):
    """[(file, line, text)] of {file: its text}, in order."""
    flow = Flow([Source(name, text) for name, text in texts.items()]).run()
    found = {}
    for source, begin, end in flow.found.values():
        if isinstance(source, _Body):
            parts = [(at, at + 1) for at in range(begin, end) if source.tokens[at].kind == "string"]
        else:
            parts = pieces(source, begin, end)
        for first, last in parts:
            strings = [token for token in source.tokens[first:last] if token.kind == "string"]
            if not any(is_prose(token.text) for token in strings):
                continue
            text, line = rendered(source, first, last)
            key = (source.name, line)
            if len(text) > len(found.get(key, "")):
                found[key] = text
    # A part that is also found with what is around it is listed once.
    return sorted((name, line, text) for (name, line), text in found.items())


def sources_of(folder):
    listed = subprocess.run(["git", "-C", str(folder), "ls-files", "-z"], capture_output=True, check=False)
    if listed.returncode == 0 and (folder / ".git").exists():
        names = [name.decode() for name in listed.stdout.split(b"\0") if name]
    else:
        names = [path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()]
    return sorted(name for name in names if (folder / name).is_file())


def messages_of(folder):
    """[(file, line, text)] of a repository."""
    names = sources_of(folder)

    def texts(folders, endings):
        return {name: (folder / name).read_text(encoding="utf-8", errors="replace") for name in names
                if name.startswith(folders) and name.endswith(endings)}

    found = messages_of_cpp(texts(CPP_FOLDERS, (".h", ".cpp", ".inc")))
    return sorted(found + messages_of_python(texts(PYTHON_FOLDERS, (".py",))))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", type=pathlib.Path, default=REPOSITORY)
    parser.add_argument("files", nargs="*", metavar="FILE", help="print the texts of these files or folders only")
    args = parser.parse_args()
    listed = [row for row in messages_of(args.source.resolve())
              if not args.files or row[0].startswith(tuple(args.files))]
    for name, line, text in listed:
        print(f"{name}:{line}: {text}")
    print(f"{len(listed)} texts", file=sys.stderr)
    return 0 if listed else 1


if __name__ == "__main__":
    sys.exit(main())
