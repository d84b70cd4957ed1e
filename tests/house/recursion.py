#!/usr/bin/env python3
"""No function of libcria.a calls itself, directly or through others: a file cannot make the stack grow by nesting.

The call graph is read from the machine code (objdump), so it is that of the build at hand, inlining included. Calls
through pointers are not in it: those are the kernels, the backends and the caller's hooks, none of which calls back.
The library's own sort may: its depth is at most twice the logarithm of the number of elements.
"""
import re
import subprocess

from house_common import Sample, build_archive, main

MEMBER = re.compile(r"^(\S+\.o):\s+file format")
SECTION = re.compile(r"^Disassembly of section (\S+):")
FUNCTION = re.compile(r"^([0-9a-f]+) <(.+)>:$")
# address, bytes, mnemonic, operands; a "bl" of Arm is a call as well as "call".
BRANCH = re.compile(r"^\s+[0-9a-f]+:\s.*?\b(callq?|blx?|jmpq?|b|b\.w|b\.n)\s+\S*\s*(?:<([^>+]+)(\+0x[0-9a-f]+)?>)?")
RELOCATION = re.compile(r"^\s+[0-9a-f]+: R_\w+\s+(\S+?)([-+]0x[0-9a-f]+)?$")
CALLS = {"call", "callq", "bl", "blx"}
BOUNDED = re.compile(r"_ZSt16__introsort_loop")
ARCHIVES = ("libcria.a", "libcria_quant.a")


def function_of(name):
    """The parts that the compiler split off a function belong to it."""
    return re.sub(r"(\.(cold|part|isra|constprop)(\.\d+)?)+$", "", name)


class Graph:
    """Functions by (member, name); a function that no member defines under this key is looked up by its name alone."""

    def __init__(self):
        self.calls = {}

    def resolve(self, member, name):
        if (member, name) in self.calls:
            return (member, name)
        return next((key for key in self.by_name.get(name, [])), None)

    def finish(self):
        self.by_name = {}
        for member, name in self.calls:
            self.by_name.setdefault(name, []).append((member, name))
        for key, targets in self.calls.items():
            resolved = {(self.resolve(key[0], name), is_call) for name, is_call in targets}
            # A jump back into the function itself is a loop.
            self.calls[key] = {target for target, is_call in resolved if target and (is_call or target != key)}


def read_graph(objdump, archive):
    text = subprocess.run([objdump, "-d", "-r", "--no-show-raw-insn", str(archive)],
                          capture_output=True, text=True, check=True).stdout
    graph = Graph()
    member = here = pending = None
    for line in text.splitlines():
        if match := MEMBER.match(line):
            member, here, pending = match.group(1), None, None
        elif SECTION.match(line):
            here = pending = None
        elif match := FUNCTION.match(line):
            here, pending = (member, function_of(match.group(2))), None
            graph.calls.setdefault(here, set())
        elif (match := RELOCATION.match(line)) and here and pending:
            if not match.group(1).startswith("."):
                graph.calls[here].discard(pending)
                graph.calls[here].add((function_of(match.group(1)), pending[1]))
            pending = None
        elif (match := BRANCH.match(line)) and here:
            mnemonic, name, offset = match.groups()
            pending = (function_of(name or ""), mnemonic in CALLS)
            # Into the middle of a function goes only a loop or a part that was split off.
            if name and not offset:
                graph.calls[here].add(pending)
        else:
            pending = None
    graph.finish()
    return graph


def cycles(graph):
    """Groups of functions that reach each other (Tarjan's components, without recursion)."""
    index, low, on_stack, stack, found = {}, {}, set(), [], []
    for root in graph:
        work = [(root, iter(graph[root]))] if root not in index else []
        if work:
            index[root] = low[root] = len(index)
            stack.append(root)
            on_stack.add(root)
        while work:
            node, targets = work[-1]
            for target in targets:
                if target not in index:
                    index[target] = low[target] = len(index)
                    stack.append(target)
                    on_stack.add(target)
                    work.append((target, iter(graph[target])))
                    break
                if target in on_stack:
                    low[node] = min(low[node], index[target])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    group = []
                    while not group or group[-1] != node:
                        group.append(stack.pop())
                        on_stack.discard(group[-1])
                    if len(group) > 1 or node in graph[node]:
                        found.append(group)
    return found


def check(context):
    problems = []
    n_functions = 0
    for archive in (context.build / "lib" / name for name in ARCHIVES):
        if not archive.is_file():
            continue
        graph = read_graph(re.sub(r"nm$", "objdump", context.nm), archive).calls
        n_functions += len(graph)
        for group in cycles(graph):
            if len(group) > 1 or not BOUNDED.match(group[0][1]):
                problems.append(f"{group[0][0]}: recursion through {', '.join(sorted(name for _, name in group))}")
    return problems, n_functions


OPAQUE = "extern \"C\" int work(int*);\n"


def functions(name, text, reason):
    return Sample(name, {"runtime/a.cpp": OPAQUE + text}, reason)


SAMPLES = [
    functions("a function that calls itself",
              "int down(int n, int* p) { int x[9]; work(x); return n == 0 ? work(p) : down(n - 1, x); }", "recursion through _Z4downiPi"),
    functions("two functions that call each other",
              "int b(int n);\n__attribute__((noinline)) int a(int n) { int x[9]; return n < 1 ? 0 : work(x) + b(n - 1) * 2; }\n"
              "__attribute__((noinline)) int b(int n) { int x[9]; return n < 1 ? 0 : work(x) + a(n - 1) * 3; }",
              "recursion through _Z1ai, _Z1bi"),
    functions("static functions that call each other",
              "static int b(int n);\n"
              "static __attribute__((noinline)) int a(int n) { int x[9]; return n < 1 ? 0 : work(x) + b(n - 1) * 2; }\n"
              "static __attribute__((noinline)) int b(int n) { int x[9]; return n < 1 ? 0 : work(x) + a(n - 1) * 3; }\n"
              "int user(int n) { return a(n); }", "recursion through"),
    functions("a chain of calls",
              "__attribute__((noinline)) int a(int n) { int x[9]; return work(x) + n; }\n"
              "__attribute__((noinline)) int b(int n) { return a(n) + a(n + 1); }\nint c(int n) { return b(n) + a(n); }", None),
    functions("a loop", "int sum(int n) { int s = 0; for (int i = 0; i < n; ++i) s += work(&i); return s; }", None),
    Sample("functions of one name in two members",
           {"runtime/a.cpp": OPAQUE + "static __attribute__((noinline)) int help(int n) { int x[9]; return work(x) + n; }\n"
            "int first(int n) { return help(n) + help(n + 1); }\n",
            "runtime/b.cpp": "int first(int n);\n"
            "static __attribute__((noinline)) int help(int n) { return first(n) + 1; }\nint second(int n) { return help(n) * help(n + 2); }\n"},
           None),
]

if __name__ == "__main__":
    main(check, SAMPLES, build_archive)
