#!/usr/bin/env python3
"""Draws docs/images/chat.svg: a conversation with the demo model, as a terminal shows it.

    scripts/chat_picture.py build/release/bin            writes the picture
    scripts/chat_picture.py build/release/bin --check    compares it with what the program says now

The demo model is converted as scripts/demo.sh does it. `cria chat --greedy` runs in a terminal of 110 columns, and always
gives the same answers.
"""
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import tempfile
import termios
import time
from html import escape
from pathlib import Path

from script_arguments import OneLineParser, existing, is_program

ROOT = Path(__file__).resolve().parents[1]
PICTURE = ROOT / "docs/images/chat.svg"
DEMO = ROOT / "models/demo"
COLUMNS = 110
PATIENCE_S = 120
QUESTIONS = ("What is a cria?", "What is a KV cache?", "what is 7 + 8")
COMMAND = "cria chat demo.cria --greedy"
PROMPT = re.compile(rb"\n(?:\x1b\[[0-9;]*m)*> ?(?:\x1b\[[0-9;]*m)* ?\Z")
ESCAPE = re.compile(r"\x1b\[([0-9;]*)([A-Za-z])")

# Of the picture, in pixels.
FONT_SIZE, ROW_HEIGHT, CHARACTER_WIDTH, MARGIN, TITLE_HEIGHT = 13, 19, 7.83, 18, 34
STYLES = {"": "plain", "2": "dim", "1;32": "mark"}
HEAD = """<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img">
<title>cria chat on a terminal, with the demo model</title>
<style>
text {{ font: {font}px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; white-space: pre; }}
.plain {{ fill: #e9e2d8; }} .dim {{ fill: #9c9388; }} .mark {{ fill: #8cc265; font-weight: bold; }} .title {{ fill: #c9bfb2; font-size: 13px; }}
</style>
<rect width="{width}" height="{height}" rx="9" fill="#2b2622"/>
<rect width="{width}" height="{title}" rx="9" fill="#3d3630"/>
<circle cx="20" cy="17" r="6" fill="#c0705a"/><circle cx="40" cy="17" r="6" fill="#cfa75f"/><circle cx="60" cy="17" r="6" fill="#86a873"/>
<text class="title" x="{middle}" y="22" text-anchor="middle">cria</text>
"""


def shown_by(program, model, home):
    """The bytes that the program writes to its terminal while the questions are asked."""
    process, terminal = pty.fork()
    if process == 0:
        environment = {"TERM": "xterm-256color", "HOME": home, "LC_ALL": "C.UTF-8"}
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 40, COLUMNS, 0, 0))
        os.chdir(model.parent)
        os.execve(program, [program, "chat", model.name, "--greedy", "--no-history", "--threads", "1"], environment)
    shown = bytearray()

    def read_until(is_done):
        end = time.monotonic() + PATIENCE_S
        while not is_done():
            if not select.select([terminal], [], [], max(0, end - time.monotonic()))[0]:
                sys.exit(f"chat_picture: {program} gave no answer within {PATIENCE_S} s")
            try:
                part = os.read(terminal, 4096)
            except OSError:  # the terminal was closed
                part = b""
            if not part:
                sys.exit(f"chat_picture: {program} ended early: {shown.decode('utf-8', 'replace')[-200:]!r}")
            shown.extend(part)

    read_until(lambda: PROMPT.search(shown))
    for question in QUESTIONS:
        before = len(shown) + len(question) + len("\r\n")
        os.write(terminal, question.encode() + b"\r")
        read_until(lambda: len(shown) > before and PROMPT.search(shown, before))  # pylint: disable=cell-var-from-loop
    os.write(terminal, b"\x04")
    os.close(terminal)
    os.waitpid(process, 0)
    return bytes(shown)


def rows_of(shown):
    """Rows of (character, style), as a terminal of COLUMNS columns has them."""
    rows, style, at = [[]], "", 0
    text = shown.decode("utf-8")
    position = 0
    while position < len(text):
        found = ESCAPE.match(text, position)
        if found:
            position = found.end()
            if found[2] == "m":
                style = "" if found[1] in ("", "0") else found[1]
            elif found[2] == "K":
                del rows[-1][at:]
            continue
        letter = text[position]
        position += 1
        if letter == "\n":
            rows.append([])
            at = 0
        elif letter == "\r":
            at = 0
        elif letter == "\b":
            at = max(0, at - 1)
        else:
            if at == COLUMNS:
                rows.append([])
                at = 0
            rows[-1][at:at + 1] = [(letter, style)]
            at += 1
    return rows


def svg_of(rows):
    width = round(COLUMNS * CHARACTER_WIDTH + 2 * MARGIN)
    height = TITLE_HEIGHT + MARGIN + len(rows) * ROW_HEIGHT
    parts = [HEAD.format(width=width, height=height, font=FONT_SIZE, title=TITLE_HEIGHT, middle=width // 2)]
    for number, row in enumerate(rows):
        runs = []
        for letter, style in row:
            if runs and runs[-1][1] == style:
                runs[-1][0] += letter
            else:
                runs.append([letter, style])
        spans = "".join(f'<tspan class="{STYLES[style]}">{escape(text)}</tspan>' for text, style in runs)
        parts.append(f'<text x="{MARGIN}" y="{TITLE_HEIGHT + MARGIN + number * ROW_HEIGHT + 6}">{spans}</text>\n')
    return "".join(parts) + "</svg>\n"


def drawn(programs):
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder, "demo.cria")
        subprocess.run([programs / "cria-convert", DEMO, "-o", model, "--quiet", "--lora", DEMO / "tools",
                        "--chat-template", DEMO / "tools/chat_template.jinja"], check=True)
        rows = rows_of(shown_by(str(programs / "cria"), model, folder))
    command = [(letter, "1;32") for letter in "$ "] + [(letter, "") for letter in COMMAND]
    spaced = [command]
    for row in rows:
        if row[:1] == [(">", "1;32")]:
            spaced.append([])
        spaced.append(row)
    return svg_of(spaced)


def main():
    parser = OneLineParser(description=__doc__)
    parser.add_argument("programs", type=existing, help="the folder of cria and cria-convert")
    parser.add_argument("--check", action="store_true", help="compare with the picture, and write nothing")
    args = parser.parse_args()
    for name in "cria", "cria-convert":
        if not is_program(args.programs / name):
            parser.error(f"{args.programs} has no {name}")
    picture = drawn(args.programs)
    if not args.check:
        PICTURE.write_text(picture, "utf-8")
    elif not PICTURE.exists() or PICTURE.read_text("utf-8") != picture:
        sys.exit("chat_picture: docs/images/chat.svg is not what cria says; run scripts/chat_picture.py")


if __name__ == "__main__":
    main()
