#!/usr/bin/env python3
"""The server's page is one small file that takes nothing from elsewhere, and that makes elements without parsing markup."""
import re

from house_common import Sample, main

FOLDER = "platforms/hosted/serve/page"
MOST_BYTES = 150_000
NAMESPACE = "http://www.w3.org/2000/svg"  # a name, never fetched
# What parses or runs a string.
PARSERS = r"\b(innerHTML|outerHTML|insertAdjacentHTML|setHTMLUnsafe|parseHTMLUnsafe|createContextualFragment|DOMParser|srcdoc|eval|Function|document\.write)\b"
SHAPE = re.compile(r"(?s)(.*)<style nonce=\"CRIA_NONCE\">(.*)</style>(.*)<script nonce=\"CRIA_NONCE\">(.*)</script>(.*)")


def problems_of(text):
    if len(text.encode()) > MOST_BYTES:
        yield f"{len(text.encode())} bytes, more than {MOST_BYTES}"
    for address in re.findall(r"\w{0,8}://[^\s\"'`)]*", text.replace(NAMESPACE, "")):
        yield f"an address: {address}"
    shape = SHAPE.fullmatch(text)
    if not shape or text.count("<script") != 1 or text.count("<style") != 1 or text.count("CRIA_NONCE") != 2:
        yield "not one style and one script, each with the nonce"
        return
    style, script = shape[2], shape[4]
    for tag in re.findall(r"<[a-z][^>]*>", shape[1] + shape[3] + shape[5]):
        for name, value in re.findall(r"\s([a-z-]+)=\"([^\"]*)\"", tag):
            if name.startswith("on") or name == "style":
                yield f"an attribute that the policy forbids: {name}"
            if name in ("src", "href", "action") and not value.startswith(("#", "data:image/svg+xml,")):
                yield f"an address: {name} {value}"
    for found in re.findall(r"url\(|@import", style):
        yield f"a style that fetches: {found}"
    for found in re.findall(PARSERS, script):
        yield f"a string that is parsed: {found}"


def check(context):
    problems = []
    files = [path for path in context.files() if path.as_posix().startswith(FOLDER + "/")]
    for path in files:
        if path.name != "index.html":
            problems.append(f"{path}: the page is one file")
            continue
        problems += [f"{path}: {problem}" for problem in problems_of(context.text(path))]
    return problems, len(files)


def page(head="", style="", body="", script=""):
    return {f"{FOLDER}/index.html": f'<!doctype html>{head}<style nonce="CRIA_NONCE">{style}</style>{body}<script nonce="CRIA_NONCE">{script}</script>\n'}


SAMPLES = [
    Sample("plain", page('<link rel="icon" href="data:image/svg+xml,x">', "b {}", '<a href="#x">', f'const x = "{NAMESPACE}", y = /^https?:\\/\\//;'), None),
    Sample("large", page(body="x" * MOST_BYTES), "more than"),
    Sample("a second file", {**page(), f"{FOLDER}/logo.svg": "x"}, "one file"),
    Sample("an address in a text", page(script='fetch("https://example.org")'), "an address"),
    Sample("an address of a file", page('<link href="font.css">'), "an address"),
    Sample("a handler", page(body='<b onclick="x()">'), "policy forbids: onclick"),
    Sample("a style of an element", page(body='<b style="x">'), "policy forbids: style"),
    Sample("a style that fetches", page(style="b { background: url(x) }"), "a style that fetches"),
    Sample("markup from a string", page(script="node.innerHTML = x;"), "parsed: innerHTML"),
    Sample("code from a string", page(script="eval(x);"), "parsed: eval"),
    Sample("a second script", page(body="<script>x</script>"), "not one style and one script"),
    Sample("no nonce", {f"{FOLDER}/index.html": "<style></style><script></script>\n"}, "not one style and one script"),
    Sample("the nonce elsewhere", page(body="CRIA_NONCE"), "not one style and one script"),
]

if __name__ == "__main__":
    main(check, SAMPLES)
