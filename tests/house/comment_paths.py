#!/usr/bin/env python3
"""Files that comments and documents name exist. Looked through are the comments of sources, scripts and CMake files, and the
code and links of Markdown pages.

A path that begins with a folder at the root must exist. So must a name with an ending of SUFFIXES: it may be the end of a
path, or begin at the folder of the file that names it. In a path <name>, NAME and * stand for anything, and {a,b} for each.
A module may be named without its ending."""
import functools
import posixpath
import re

from house_common import Sample, main

SUFFIXES = ("S", "c", "cmake", "cpp", "dict", "h", "html", "in", "inc", "json", "jsonl", "ld", "md", "mjs", "py", "sh", "svg",
            "toml", "txt")
# Names with such an ending that are no files of the repository, and why not.
ELSEWHERE = {
    **dict.fromkeys(("config.json", "generation_config.json", "quantize_config.json", "tokenizer.json", "tokenizer_config.json",
                     "special_tokens_map.json", "added_tokens.json", "chat_template.json", "model.safetensors.index.json",
                     "adapter_config.json", "modules.json", "1_Pooling/config.json"), "of a checkpoint's folder"),
    "llama.cpp": "a program",
    "llama2.c": "a program",
    "doc/xxhash_spec.md": "of the xxHash project",
    "UnicodeData.txt": "of the Unicode character database",
    "src/cria_config.h": "scripts/make_source_tree.sh writes it",
    "page_bytes.cpp": "the build writes it",
    "cmake/cria": "where the package for CMake is installed",
    "schema.json": "a user's",
    "main.c": "a user's",
    "mine.c": "a user's",
}
NOT_HERE = ("build", "shared")  # folders beside the repository's own
DATA_FOLDERS = ("models/", "tests/data/")
HISTORY = "CHANGELOG.md"  # names files as they were

SLASHES = (".S", ".c", ".cpp", ".h", ".html", ".inc", ".ld", ".mjs")
HASHES = (".cmake", ".in", ".service", ".sh", ".toml")
HASHES_BY_NAME = ("CMakeLists.txt", ".clang-tidy", ".editorconfig", ".gitignore", "run")
# The last group is a comment. Texts are matched before it, so that what looks like a comment in them is passed over.
COMMENTS = {
    "slashes": re.compile(r'R"(\w*)\([\s\S]*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\''
                          r"|(//[^\n]*|/\*[\s\S]*?\*/|^[ \t]*#error[^\n]*)", re.M),
    "python": re.compile(r'^[ \t]*"""([\s\S]*?)"""|"""(?:\\[\s\S]|[^\\])*?"""|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\''
                         r"|(#[^\n]*)", re.M),
    "hashes": re.compile(r"(?:^|(?<=\s))(#[ \t][^\n]*)", re.M),
}
FENCE = re.compile(r"^```[^\n]*\n([\s\S]*?)^```", re.M)
CODE = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"\]\(([^)\s]+)\)")
PART = r"(?:[\w.*+-]|\{[\w.,*]+\}|<[\w ]+>)+"
PATH = re.compile(rf"(?<![\w/.:$}}>*~@-])(?:\./)?((?:{PART}/)*{PART}/?)(?![\w(])")
KNOWN_ENDING = re.compile(rf"[\w*>}}]\.(?:{'|'.join(SUFFIXES)})$")


class Tree:
    """The files and folders of a repository, also by the ends of their paths."""

    def __init__(self, files):
        self.paths = set()
        for path in files:
            self.paths.update(part.as_posix() for part in (path, *path.parents[:-1]))
        self.tops = {path.parts[0] for path in files if len(path.parts) > 1}
        self.ends = {path[at:] for path in self.paths for at in [0, *(m.end() for m in re.finditer("/", path))]}
        self.modules, self.module_ends = ({re.sub(r"(?<=[^/])\.\w+$", "", name) for name in found}
                                          for found in (self.paths, self.ends))

    @functools.cache
    def has(self, pattern, is_end):
        """Whether there is such a path or, with is_end, an end of one."""
        whole, modules = (self.ends, self.module_ends) if is_end else (self.paths, self.modules)
        if not re.search(r"[*<]|NAME", pattern):
            return pattern in whole or pattern in modules
        words = {"*": "[^/]*", "NAME": "[^/]+"}
        parts = re.split(r"(<[\w ]+>|\*|NAME)", pattern)
        expression = re.compile("".join(words.get(part, ".+") if i % 2 else re.escape(part) for i, part in enumerate(parts)))
        return any(expression.fullmatch(name) for name in whole)


def alternatives(pattern):
    found = re.search(r"\{([^}]*)\}", pattern)
    if not found:
        return [pattern]
    return [text for word in found[1].split(",") for text in alternatives(pattern[:found.start()] + word + pattern[found.end():])]


def is_missing(tree, folder, named, only_from_root):
    """None for a word that names no file or folder of the repository's; else whether what it names is missing."""
    path = named.rstrip("./")
    first = re.sub(r"^(?:\.\./)+", "", path).split("/")[0]
    if path in ELSEWHERE or first in NOT_HERE:
        return None
    paths = alternatives(path)
    from_root = "/" in path and path.startswith(first) and first in tree.tops
    if not from_root and (only_from_root or not all(KNOWN_ENDING.search(text) for text in paths)):
        return None
    return not all(tree.has(text, False) or tree.has(posixpath.normpath(posixpath.join(folder, text)), False)
                   or (not from_root and tree.has(text, True)) for text in paths)


def texts_of(path, text):
    """(place, text, whether only paths from the root count) of what may name files."""
    if path.suffix == ".md":
        blocks = list(FENCE.finditer(text))
        yield from ((block.start(1), block[1], True) for block in blocks)
        for block in reversed(blocks):  # the rest, each character in its place
            text = text[:block.start()] + re.sub(r"[^\n]", " ", block[0]) + text[block.end():]
        yield from ((found.start(1), found[1], False) for found in CODE.finditer(text))
        return
    if path.suffix in SLASHES:
        kind = "slashes"
    elif path.suffix == ".py":
        kind = "python"
    elif path.suffix in HASHES or path.name in HASHES_BY_NAME:
        kind = "hashes"
    else:
        return
    for found in COMMENTS[kind].finditer(text):
        comment = found[found.lastindex] if found.lastindex else None
        if comment and not found[0].startswith('R"'):
            yield found.start(found.lastindex), comment, False


def problems_of(tree, path, text):
    """For each path that a file names: what is wrong with it, or None."""
    folder = path.parent.as_posix()
    for at, words, only_from_root in texts_of(path, text):
        for found in PATH.finditer(words):
            missing = is_missing(tree, folder, found[1], only_from_root)
            if missing is not None:
                yield f"{path}:{text.count(chr(10), 0, at + found.start()) + 1}: no {found[1].rstrip('.')}" if missing else None
    if path.suffix == ".md":
        for found in LINK.finditer(text):
            target = found[1].split("#")[0]
            if target and ":" not in target:
                there = posixpath.normpath(posixpath.join(folder, target)) in tree.paths
                yield None if there else f"{path}:{text.count(chr(10), 0, found.start()) + 1}: no {target}, a link"


def check(context):
    files = context.files()
    tree = Tree(files)
    found = [problem for path in files if not path.as_posix().startswith(DATA_FOLDERS) and path.as_posix() != HISTORY
             for problem in problems_of(tree, path, context.text(path))]
    return [problem for problem in found if problem], len(found)


def names(name, files, reason):
    return Sample(name, {"quant/block.h": "", "quant/block.cpp": "", "tests/unit/quant/block_test.cpp": "", "scripts/a.py": "",
                         "docs/adr/1.md": "", **files}, reason)


SAMPLES = [
    names("a path", {"runtime/a.h": "// quant/block.h, quant/, quant/block and ./scripts/a.py.\n"}, None),
    names("a missing path", {"runtime/a.h": "int a;\n// As quant/blocks.h.\n"}, "runtime/a.h:2: no quant/blocks.h"),
    names("a path that moved", {"runtime/a.h": "/* Of a\n * quant/old/block.h */\n"}, "runtime/a.h:2: no quant/old/block.h"),
    names("a missing folder", {"runtime/a.h": "// tests/golden has them.\n"}, "no tests/golden"),
    names("a name", {"runtime/a.h": "int a;  // block.h, unit/quant/block_test.cpp\n"}, None),
    names("a missing name", {"runtime/a.h": "int a;  // blocks.h\n"}, "runtime/a.h:1: no blocks.h"),
    names("the end of a missing path", {"runtime/a.h": "// unit/block_test.cpp\n"}, "no unit/block_test.cpp"),
    names("from its own folder", {"tests/unit/a.cpp": "// quant/block_test.cpp\n"}, None),
    names("sets", {"runtime/a.h": "// quant/block.{h,cpp}, quant/*.h, quant/<name>.cpp, scripts/NAME.py\n"}, None),
    names("a set that lacks one", {"runtime/a.h": "// quant/block.{h,c}\n"}, "no quant/block.{h,c}"),
    names("a set of nothing", {"runtime/a.h": "// quant/scalar*.h\n"}, "no quant/scalar*.h"),
    names("up and down", {"tests/unit/a.cpp": "// ../unit/quant/block_test.cpp, ../../shared/x.md\n"}, None),
    names("up and nowhere", {"tests/unit/a.cpp": "// ../quant/block_test.cpp\n"}, "no ../quant/block_test.cpp"),
    names("words and numbers", {"runtime/a.h": "// and/or, 1/2, x.h(), /proc/x.h, https://x/quant/x.h, $x/y.py, block.h:3\n"}, None),
    names("what lies elsewhere", {"runtime/a.h": "// llama.cpp, config.json, build/x.cpp, ../shared/design.md; block.h\n"}, None),
    names("a reason to stop", {"runtime/a.cpp": '#error "See quant/x.h."\n'}, "runtime/a.cpp:1: no quant/x.h"),
    names("a text", {"runtime/a.cpp": 'auto a = "// quant/x.h"; auto b = R"(// y.h)"; char c = \'"\'; /* block.h */\n'}, None),
    names("behind a text", {"runtime/a.cpp": 'char c = \'"\'; auto a = "\\"";  // quant/x.h "\n'}, "no quant/x.h"),
    names("a comment of Python", {"scripts/b.py": 'A = "# x.h"\nB = """\\\nx.h\n"""\nC = 1  # block.h\n'}, None),
    names("a stale comment of Python", {"scripts/b.py": "A = '#'  # quant/x.h\n"}, "scripts/b.py:1: no quant/x.h"),
    names("a stale docstring", {"scripts/b.py": 'def f():\n    """A\n    quant/x.h."""\n'}, "scripts/b.py:3: no quant/x.h"),
    names("a stale comment of a script", {"scripts/b.sh": "cd quant/y.h  # block.h\n# quant/x.h\n"}, "scripts/b.sh:2: no quant/x.h"),
    names("a stale comment of CMake", {"quant/CMakeLists.txt": "set(x y.cpp)  # x.cpp\n"}, "no x.cpp"),
    names("a page", {"docs/a.md": "quant/x.h `block.h` [a](adr/1.md#b) [c](../quant/block.h) [d](https://x/y.md) [e](#f)\n"}, None),
    names("a stale name on a page", {"docs/a.md": "a\n`block.h` and `x.h`\n"}, "docs/a.md:2: no x.h"),
    names("a stale link", {"docs/a.md": "a\n[b](1.md)\n"}, "docs/a.md:2: no 1.md, a link"),
    names("a stale command on a page", {"docs/a.md": "```sh\ncc x.c\nscripts/x.py\n```\n"}, "docs/a.md:3: no scripts/x.py"),
    names("history and data", {"CHANGELOG.md": "`x.h`\n", "models/a.py": "# x.h\n", "quant/b.h": "// block.h\n"}, None),
]

if __name__ == "__main__":
    main(check, SAMPLES)
