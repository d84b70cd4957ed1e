#!/usr/bin/env python3
"""Each promise of SECURITY.md ends with the names of tests that hold it, "(Held by `open_verify_agree_test`, ...)", and they exist:
files of tests by their names without endings, with the name of one test behind a dot where it is about that alone."""
import re

from house_common import Sample, main

PAGE = "SECURITY.md"
HEADING = "## What is promised"
HELD_BY = re.compile(r"\(Held by ((?:`[^`]+`(?:, (?:and )?| and )?)+)\.\)$")


def promises_of(text):
    """The items of the list below the heading, each on one line."""
    section = text.partition(HEADING)[2].partition("\n## ")[0]
    items = re.findall(r"^- (.*(?:\n  .*)*)", section, re.MULTILINE)
    return [" ".join(item.split()) for item in items]


def check(context):
    tests = {path.stem: path for path in context.files(".cpp", ".py") if {"tests"} & set(path.parts)}
    problems = []
    promises = promises_of(context.text(PAGE)) if (context.source / PAGE).exists() else []
    for promise in promises:
        held = HELD_BY.search(promise)
        title = promise[:40]
        if held is None:
            problems.append(f"{PAGE}: '{title}...' does not end with the tests that hold it")
            continue
        for name in re.findall(r"`([^`]+)`", held[1]):
            stem, _, case = name.partition(".")
            if stem not in tests:
                problems.append(f"{PAGE}: '{title}...': there is no test {stem}")
            elif case and not re.search(rf"\b{re.escape(case)}\b", context.text(tests[stem])):
                problems.append(f"{PAGE}: '{title}...': {stem} has no {case}")
    return problems, len(promises)


def page(*lines):
    return "\n".join(["# Security", "", HEADING, "", "Words.", "", *lines, "", "## Else", "", "- No promise.", ""])


TEST = {"tests/system/a_test.cpp": "TEST(A, Holds) {}\n"}
SAMPLES = [
    Sample("held", {**TEST, PAGE: page("- **It** holds", "  always. (Held by `a_test`, `a_test.Holds`.)")}, None),
    Sample("two, of which one is not held", {**TEST, PAGE: page("- One. (Held by `a_test`.)", "- Two holds.")}, "'Two holds....' does not end"),
    Sample("a test that is gone", {**TEST, PAGE: page("- One. (Held by `a_test`, `b_test`.)")}, "there is no test b_test"),
    Sample("a case that is gone", {**TEST, PAGE: page("- One. (Held by `a_test.Hold`.)")}, "a_test has no Hold"),
]

if __name__ == "__main__":
    main(check, SAMPLES)
