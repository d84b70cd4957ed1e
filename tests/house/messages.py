#!/usr/bin/env python3
"""Texts that reach a user are plain: none has a phrase of the list below. tests/tools/list_messages.py finds them by how they are
raised; the samples also show that it finds each way."""
import re
import sys

from house_common import REPOSITORY, Sample, main

sys.path.insert(0, str(REPOSITORY / "tests" / "tools"))
from list_messages import messages_of  # noqa: E402

# What is hard to read, and what to write.
PHRASES = (
    (r"\b(?:is|are) none of\b", "is not one of"),
    (r"(?<!left )(?<!leave )\balone\b(?!:)", "only"),
    (r"\bbehind\b(?! (?:a|the) (?:proxy|firewall))", "after"),
    (r"\bbut where\b", "unless"),
    (r"\bof (?:its|their|your|his) own\b", "own"),
    (r"\b(?:has|have) not(?:$|[;,.])", "does not have"),
    (r"\bthat there is not\b", "unknown"),
    (r"\bthat (?:is|are) none\b", "what is wrong with it"),
    (r"\bstands (?:twice|too often|beside|alone)\b", "appears, or is not supported beside"),
    (r"\banew\b", "again"),
    (r"\b(?:is|are) no (?:JSON|UTF-8|list|object|number|text|string|file|folder)\b", "is not a"),
)
PLAIN_INSTEAD = [(re.compile(phrase), instead) for phrase, instead in PHRASES]


def check(context):
    listed = messages_of(context.source)
    problems = [f'{name}:{line}: "{found.group(0)}" in: {text}; write: {instead}'
                for name, line, text in listed for phrase, instead in PLAIN_INSTEAD
                if (found := phrase.search(text))]
    return problems, len(listed)


def sample(name, source, rejected_for, file="converter/a.cpp"):
    return Sample(name, {file: source}, rejected_for)


ERROR = "class AnError : public std::exception {};\n"
SAMPLES = [
    sample("a plain error", ERROR + 'void f() { throw AnError("the file is empty; give another"); }\n', None),
    sample("thrown", ERROR + 'void f() { throw AnError("a b is none of c"); }\n', '"is none of"'),
    sample("in two literals", ERROR + 'void f() { throw AnError("a b is none "\n    "of c"); }\n', '"is none of"'),
    sample("by a function", ERROR + 'void fail(const std::string& why) { throw AnError("x: " + why); }\n'
                                    'void f() { fail("it reads text alone"); }\n', '"alone"'),
    sample("by two functions", ERROR + 'void fail(const char* why) { throw AnError(why); }\n'
                                       'void refuse(int n, const char* what) { if (n) fail(what); }\n'
                                       'void f() { refuse(3, "the end is behind it"); }\n', '"behind"'),
    sample("by a lambda", ERROR + 'void f() { const auto fail = [](const char* why) { throw AnError(why); };\n'
                                  'fail("the end is behind it"); }\n', '"behind"'),
    sample("a variable", ERROR + 'void f(bool b) { std::string why = "a b"; if (b) why += ", read anew";\n'
                                 'throw AnError(why); }\n', '"anew"'),
    sample("a constant", ERROR + 'constexpr const char* kWhy = "the name stands twice";\n'
                                 'void f() { throw AnError(kWhy); }\n', '"stands twice"'),
    sample("a result", ERROR + 'const char* check(int n) { return n ? "the list is behind it" : nullptr; }\n'
                               'void f() { if (const char* wrong = check(1)) throw AnError(wrong); }\n', '"behind"'),
    sample("a table", ERROR + 'struct Row { int key; const char* text; };\n'
                              'constexpr Row kRows[] = {{1, "it works but where it does not"}};\n'
                              'void f() { for (const Row& row : kRows) throw AnError(row.text); }\n', '"but where"'),
    sample("a field", ERROR + 'struct Problem { int place; const char* reason; };\n'
                              'bool g(Problem* problem) { problem->reason = "the place is none of it"; return false; }\n'
                              'void f() { Problem problem; if (!g(&problem)) throw AnError(problem.reason); }\n', '"is none of"'),
    sample("a struct", ERROR + 'struct Problem { int place; const char* reason; };\n'
                               'bool g(Problem* problem) { *problem = {0, "the place is none of it"}; return false; }\n'
                               'void f() { Problem problem; if (!g(&problem)) throw AnError(problem.reason); }\n', '"is none of"'),
    sample("a macro's list", ERROR + '#define LIST(X) X(A, "done") \\\n  X(B, "the text stands alone")\n'
                                     'const char* text(int s) { switch (s) { LIST(ROW) } return "unknown"; }\n'
                                     'void f() { throw AnError(text(1)); }\n', '"alone"'),
    sample("a warning", 'void warn(const std::string& line) { std::fprintf(stderr, "%s", line.c_str()); }\n'
                        'void f() { warn("the file is read anew"); }\n', '"anew"'),
    sample("warnings in a list", 'void tell(const std::vector<std::string>& lines) {\n'
                                 'for (const std::string& line : lines) std::fputs(line.c_str(), stderr); }\n'
                                 'void f() { std::vector<std::string> warnings; warnings.push_back("a file is read anew");\n'
                                 'for (const std::string& line : warnings) std::fputs(line.c_str(), stderr); }\n', '"anew"'),
    sample("what no user sees", ERROR + 'const char* kHelp = "the end is behind it";\n'
                                        'void f() { throw AnError("the file is empty"); }\n', None),
    sample("a comment", ERROR + '// The end is behind it.\nvoid f() { throw AnError("the file is empty"); }\n', None),
    sample("what is left alone", ERROR + 'void f() { throw AnError("a file is left alone; move it"); }\n', None),
    sample("Python", 'def f():\n    raise ValueError(f"{f} is none of them")\n', '"is none of"', "python/cria/a.py"),
    sample("a Python class", 'class AnError(Exception):\n    def __init__(self):\n'
                             '        super().__init__("the end is behind it")\n', '"behind"', "python/cria/a.py"),
    sample("plain Python", 'NAMES = "the end is behind it"\nraise ValueError("no names are given")\n', None, "python/cria/a.py"),
]

if __name__ == "__main__":
    main(check, SAMPLES)
