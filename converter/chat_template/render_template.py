"""Renders conversations with a chat template, with the settings of Jinja2 that transformers has.

    python3 -I -B -c THIS_TEXT SECONDS MEMORY_BYTES TEXT_BYTES

cria-convert starts it (converter/chat_template/renderer.cpp). Standard input and output are lines of JSON:

    in   {"template": text, "tokens": {name: text}}
    out  {"literals": [text], "tested": [text], "numbers": [n], "reads": [name]}       or {"error": line}
    in   {"messages": [...], "tools": [...] or null, "variables": {...}, "opens_turn": true, "date": [year, month, day]}
    out  {"text": text, "depends": what, "dates": [format]}                            or {"error": line, "dates": [format]}

and so on, after a first line out, {"jinja2": version}, or null and no more where Python lacks a module. Before it reads a
template it has given up all system calls but those that read its input, write its output, get memory and end.
"""
import os
import sys

try:
    import ctypes
    import datetime
    import json
    import resource
    import signal

    from jinja2 import TemplateError, __version__, nodes
    from jinja2.ext import Extension, loopcontrols
    from jinja2.meta import find_undeclared_variables
    from jinja2.sandbox import ImmutableSandboxedEnvironment
    from jinja2.visitor import NodeTransformer
except ImportError:
    os.write(1, b'{"jinja2": null}\n')
    sys.exit()

# --- limits ----------------------------------------------------------------------------------------------------

PR_SET_PDEATHSIG, PR_SET_NO_NEW_PRIVS = 1, 38
PROT_EXEC = 4
# Of libseccomp.
ALLOW, REFUSE = 0x7FFF0000, 0x00050001  # the latter with EPERM
EQUAL, MASKED_EQUAL = 4, 7
# System calls that stay, and what their arguments have to be: (index, mask or None, value).
READ, WRITE = (0, None, 0), (0, None, 1)
NOT_EXECUTABLE = (2, PROT_EXEC, 0)
KEPT_CALLS = {
    "read": READ, "write": WRITE, "mmap": NOT_EXECUTABLE, "mmap2": NOT_EXECUTABLE, "mprotect": NOT_EXECUTABLE,
    "setitimer": (0, None, signal.ITIMER_PROF), "munmap": None, "mremap": None, "brk": None, "madvise": None, "futex": None, "futex_time64": None,
    "rt_sigreturn": None, "sigreturn": None, "restart_syscall": None, "exit": None, "exit_group": None,
}


class Comparison(ctypes.Structure):
    """struct scmp_arg_cmp"""
    _fields_ = [("index", ctypes.c_uint), ("how", ctypes.c_int), ("a", ctypes.c_uint64), ("b", ctypes.c_uint64)]


def limit(what, most):
    hard = resource.getrlimit(what)[1]
    if hard != resource.RLIM_INFINITY:
        most = min(most, hard)
    resource.setrlimit(what, (most, most))


def limit_resources(seconds, memory_bytes):
    limit(resource.RLIMIT_CORE, 0)
    limit(resource.RLIMIT_CPU, seconds)
    limit(resource.RLIMIT_AS, memory_bytes)


def begin_rendering(seconds):
    """From here on the process has a tenth of its processor time until the next call; then a signal ends it."""
    signal.setitimer(signal.ITIMER_PROF, seconds / 10)


def load_libseccomp():
    """None where there is none."""
    try:
        library = ctypes.CDLL("libseccomp.so.2")
    except OSError:
        return None
    library.seccomp_init.restype = ctypes.c_void_p
    library.seccomp_rule_add_array.argtypes = (ctypes.c_void_p, ctypes.c_uint32, ctypes.c_int, ctypes.c_uint,
                                               ctypes.POINTER(Comparison))
    library.seccomp_load.argtypes = (ctypes.c_void_p,)
    return library


def filter_system_calls(library):
    """False where the kernel has no filters."""
    rules = library.seccomp_init(REFUSE)
    for name, wanted in KEPT_CALLS.items():
        call = library.seccomp_syscall_resolve_name(name.encode())
        if call < 0:  # this machine has none of the name
            continue
        comparisons = (Comparison * 1)()
        if wanted:
            index, mask, value = wanted
            comparisons[0] = (index, EQUAL, value, 0) if mask is None else (index, MASKED_EQUAL, mask, value)
        if library.seccomp_rule_add_array(rules, ALLOW, call, 1 if wanted else 0, comparisons) != 0:
            raise OSError(f"no rule for {name}")
    return library.seccomp_load(rules) == 0


def give_up_system_calls():
    """From here on no file, process or connection can be made. Whether the kernel sees to that, or only limits."""
    library = load_libseccomp() if sys.platform == "linux" else None
    if sys.platform == "linux":
        libc = ctypes.CDLL(None)
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    os.closerange(3, 1 << 16)
    for what in (resource.RLIMIT_NPROC, resource.RLIMIT_FSIZE, resource.RLIMIT_NOFILE):
        limit(what, 0)
    return library is not None and filter_system_calls(library)


# --- what a template asks of texts -----------------------------------------------------------------------------

# What these make of a text shows in the conversations that templates are tried with.
PLAIN_FILTERS = {"trim", "string", "safe", "escape", "e", "forceescape", "default", "d", "join", "tojson", "replace", "indent",
                 "length", "count", "format", "items"}
PLAIN_METHODS = {"strip", "lstrip", "rstrip", "split", "rsplit", "replace", "startswith", "endswith", "join", "format",
                 "removeprefix", "removesuffix"}
TELLING_METHODS = {name for name in dir(str) if not name.startswith("_")} - PLAIN_METHODS
TELLING_TESTS = {"lower", "upper", "<", "<=", ">", ">=", "lt", "le", "gt", "ge", "lessthan", "greaterthan"}
ORDER = {"lt", "lteq", "gt", "gteq"}
# What a message says, by the keys of its parts.
SAID = {"content", "reasoning_content", "arguments"}
# More than any number of a template, for texts whose length it asks for.
MORE_CHARACTERS = 10_000_000


def cuts_one(node):
    """Whether it is [1:] or [:-1]: what they cut off shows in every text."""
    if not isinstance(node, nodes.Slice) or node.step is not None:
        return False
    one, minus_one = nodes.Const(1), nodes.Neg(nodes.Const(1))
    return (node.start, node.stop) in ((one, None), (None, minus_one))


class Watch(NodeTransformer):
    """Puts the filter WATCH before whatever would tell more of a text than that it stands there."""

    FILTER = "watched text"  # no template can name it

    def watched(self, node, what):
        return nodes.Filter(node, self.FILTER, [nodes.Const(what)], [], None, None)

    def visit_Filter(self, node):
        self.generic_visit(node)
        if node.name not in PLAIN_FILTERS:
            node.node = self.watched(node.node, f"what {node.name} makes of a text")
        return node

    def visit_Test(self, node):
        self.generic_visit(node)
        if node.name in TELLING_TESTS:
            node.node = self.watched(node.node, f"whether a text is {node.name}")
        return node

    def visit_Getattr(self, node):
        self.visit_looked_into(node, node.attr)
        if node.attr in TELLING_METHODS:
            node.node = self.watched(node.node, f"what {node.attr} makes of a text")
        return node

    def visit_looked_into(self, node, key):
        """A member of the first or last item: characters have none, so it tells that the text has one, no more."""
        item = node.node
        is_end = isinstance(item, nodes.Getitem) and item.arg in (nodes.Const(0), nodes.Neg(nodes.Const(1)))
        if is_end and not hasattr(str, key):
            self.generic_visit(item)
        else:
            self.generic_visit(node)

    def visit_Getitem(self, node):
        if isinstance(node.arg, nodes.Const) and isinstance(node.arg.value, str):
            self.visit_looked_into(node, node.arg.value)
        else:
            self.generic_visit(node)
        is_key = isinstance(node.arg, nodes.Const) and isinstance(node.arg.value, str)
        is_watched = node.arg.value in TELLING_METHODS if is_key else not cuts_one(node.arg)
        if is_watched:
            node.node = self.watched(node.node, "the characters of a text")
        return node

    def visit_Compare(self, node):
        self.generic_visit(node)
        if any(operand.op in ORDER for operand in node.ops):
            node.expr = self.watched(node.expr, "the order of texts")
            for operand in node.ops:
                operand.expr = self.watched(operand.expr, "the order of texts")
        return node

    def visit_Mod(self, node):
        self.generic_visit(node)
        node.left = self.watched(node.left, "what a text says as a format")
        return node

    def visit_For(self, node):
        self.generic_visit(node)
        node.iter = self.watched(node.iter, "the characters of a text")
        return node


def strings_in(value, skipped=frozenset()):
    """Every string of a JSON value, keys too, but for the values of some keys."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, member in value.items():
            yield key
            if key not in skipped:
                yield from strings_in(member, skipped)
    elif isinstance(value, list):
        for item in value:
            yield from strings_in(item, skipped)


class Constants:
    """The constants of a template, by where they stand."""

    MOST = 10**9  # a number that is larger counts no messages either

    def __init__(self, tree, environment):
        self.context = nodes.EvalContext(environment)
        self.literals, self.tested, self.numbers = set(), set(), set()
        for node in tree.iter_child_nodes():
            self.visit(node, False)

    def visit(self, node, is_tested):
        if isinstance(node, (nodes.Compare, nodes.Call, nodes.Filter, nodes.Test, nodes.CondExpr)):
            is_tested = True
        elif isinstance(node, nodes.Output):
            is_tested = False
        elif isinstance(node, nodes.Stmt):
            is_tested = True
        if isinstance(node, nodes.Expr) and not isinstance(node, nodes.TemplateData):
            self.note(node, is_tested)
        for field, child in node.iter_fields():
            is_key = isinstance(node, nodes.Getitem) and field == "arg"
            for each in child if isinstance(child, list) else [child]:
                if isinstance(each, nodes.Node):
                    self.visit(each, is_tested and not is_key)

    def note(self, node, is_tested):
        try:
            value = node.as_const(self.context)
        except Exception:
            return
        if isinstance(value, str):
            self.literals.add(value)
            if is_tested:
                self.tested.add(value)
            if len(value) <= 2 and value.isascii() and value.isdigit():
                self.numbers.add(int(value))  # compared as the text that a number is written as
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            self.numbers.add(int(min(abs(value), self.MOST)))


# --- rendering -------------------------------------------------------------------------------------------------


class Generation(Extension):
    """{% generation %}: around what the assistant said, for training; prints what is in it."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.CallBlock(self.call_method("printed"), [], [], body).set_lineno(line)

    def printed(self, caller):
        return caller()


def raise_exception(message):
    raise TemplateError(message)


def to_json(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


class ChatEnvironment(ImmutableSandboxedEnvironment):
    def __init__(self):
        super().__init__(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])
        self.filters |= {"tojson": to_json, "length": self.length, "count": self.length, Watch.FILTER: self.watch}
        self.globals |= {"raise_exception": raise_exception, "strftime_now": self.strftime_now}
        self.known = frozenset()  # texts that are not what a message says
        self.begin(datetime.datetime(2024, 7, 26), ())

    def begin(self, now, known):
        """A conversation."""
        self.now, self.spoken_of, self.depends, self.dates = now, set(known), "", []
        self.added_length = None  # to the length of what is said, once it was asked for

    def is_said(self, value):
        # Digits alone may be what a macro counted. Conversations that a template is tried with have more in them.
        is_number = isinstance(value, str) and value.isdecimal() and len(value) < 10
        return isinstance(value, str) and value and not is_number and value not in self.known and value not in self.spoken_of

    def watch(self, value, what):
        if self.is_said(value):
            self.depends = self.depends or what
        return value

    def length(self, value):
        n = len(value)
        if self.is_said(value):
            self.added_length = self.added_length or 0
            n += self.added_length
        return n

    def strftime_now(self, format):
        text = self.now.strftime(format)
        self.dates.append(format)
        return text

    def call_filter(self, name, value, *args, **kwargs):
        """Of map, which is told a filter's name."""
        if name not in PLAIN_FILTERS:
            self.watch(value, f"what {name} makes of a text")
        return super().call_filter(name, value, *args, **kwargs)

    def call_test(self, name, value, *args, **kwargs):
        """Of select and the like."""
        if name in TELLING_TESTS:
            self.watch(value, f"whether a text is {name}")
        return super().call_test(name, value, *args, **kwargs)

    def handle_exception(self, source=None):
        """As it is: nobody reads where in the template it was."""
        raise


def what_went_wrong(error):
    name = type(error).__name__
    if isinstance(error, TemplateError) and str(error):
        return str(error)
    return f"{name}: {error}" if str(error) else name


class ChatTemplate:
    def __init__(self, source, tokens, text_bytes):
        self.environment = ChatEnvironment()
        tree = self.environment.parse(source)
        self.constants = Constants(tree, self.environment)
        self.environment.known = frozenset(self.constants.literals | set(tokens.values()))
        tree = Watch().visit(tree)
        tree.set_environment(self.environment)
        self.reads = find_undeclared_variables(tree) - set(self.environment.globals)
        self.template = self.environment.from_string(tree)
        self.tokens = tokens
        self.text_bytes = text_bytes

    def described(self):
        constants = self.constants
        return {"literals": writable(constants.literals), "tested": writable(constants.tested),
                "numbers": sorted(constants.numbers), "reads": writable(self.reads)}

    def text_of(self, conversation):
        text = self.template.render({**self.tokens, "tools": conversation["tools"], "documents": None,
                                     "messages": conversation["messages"], "add_generation_prompt": conversation["opens_turn"],
                                     **conversation["variables"]})
        if len(text) > self.text_bytes:
            raise ValueError("the text is too long")
        text.encode()  # half of a character is none
        return text

    def rendered(self, conversation):
        environment = self.environment
        known = {*strings_in(conversation["messages"], SAID), *strings_in(conversation["tools"]),
                 *strings_in(conversation["variables"])}
        environment.begin(datetime.datetime(*conversation["date"]), known)
        try:
            text = self.text_of(conversation)
            if environment.added_length == 0 and not environment.depends:
                environment.added_length = MORE_CHARACTERS
                if self.outcome(conversation) != text:
                    environment.depends = "the length of a text"
        except Exception as error:
            return {"error": what_went_wrong(error), "dates": environment.dates}
        return {"text": text, "depends": environment.depends, "dates": environment.dates}

    def outcome(self, conversation):
        try:
            return self.text_of(conversation)
        except Exception:
            return None


def writable(texts):
    """Those that are UTF-8."""
    return sorted(text for text in texts if not any("\ud800" <= character <= "\udfff" for character in text))


def answer(value):
    line = json.dumps(value, ensure_ascii=True).encode() + b"\n"
    while line:
        line = line[os.write(1, line):]


def lines():
    """Of standard input, only by read."""
    rest = b""
    while piece := os.read(0, 1 << 16):
        *whole, rest = (rest + piece).split(b"\n")
        yield from whole


def warm_up():
    """Python loads some of itself when it is first used: codecs, names of days."""
    conversation = {"messages": [], "tools": None, "variables": {}, "opens_turn": True, "date": (2024, 7, 26)}
    ChatTemplate("{{ 'a' ~ strftime_now('%A') | tojson }}{{ raise_exception('') }}", {}, 0).rendered(conversation)


def main():
    seconds, memory_bytes, text_bytes = (int(argument) for argument in sys.argv[1:])
    limit_resources(seconds, memory_bytes)
    warm_up()
    give_up_system_calls()
    answer({"jinja2": __version__})
    requests = (json.loads(line) for line in lines())
    first = next(requests, None)
    if first is None:
        return
    begin_rendering(seconds)
    try:
        template = ChatTemplate(first["template"], first["tokens"], text_bytes)
    except Exception as error:
        answer({"error": what_went_wrong(error)})
        return
    answer(template.described())
    for conversation in requests:
        begin_rendering(seconds)
        answer(template.rendered(conversation))


if __name__ == "__main__":
    main()
