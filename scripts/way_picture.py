#!/usr/bin/env python3
"""Draws docs/images/way.svg: the way from a checkpoint's file to a token.

    scripts/way_picture.py            writes the picture
    scripts/way_picture.py --check    compares it

Below each box is the source that does it, as docs/architecture.md names it.
"""
import sys
from html import escape
from pathlib import Path

from script_arguments import OneLineParser

ROOT = Path(__file__).resolve().parents[1]
PICTURE = ROOT / "docs/images/way.svg"

# Rows of boxes, from left to right: title, when it happens, boxes of (what, where). A box without a place is a file or a text.
ROWS = (
    ("Convert", "once, on a workstation",
     (("checkpoint", ""), ("read", "open_checkpoint"), ("quantize", "tensor_encoder"), ("compress, write", "model_writer"), ("model.cria", ""))),
    ("Open", "once a process",
     (("model.cria", ""), ("check the head", "loading/file_index"), ("plan memory", "decode/planning"), ("load, check", "decode/load"),
      ("make sessions", "decode/start"))),
    ("Read a prompt", "many tokens a step",
     (("text", ""), ("chat template", "text/chat_template"), ("tokens", "text/tokenizer_encode"), ("steps of chunks", "decode/step"),
      ("KV cache", "blocks/kv_cache"))),
    ("Answer", "one token a step",
     (("token", ""), ("layers", "decode/decoder"), ("logits", "decode/decoder"), ("draw", "decode/sampler"), ("text", "text/tokenizer_decode"))),
)
WIDTH, LEFT, BOX, GAP, HIGH, STRIDE, TOP = 960, 158, 136, 24, 54, 92, 16
HEIGHT = TOP + STRIDE * len(ROWS) + 12
HEAD = f"""<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">
<title>From a checkpoint's file to a token</title>
<style>
text {{ font: 14px system-ui, "DejaVu Sans", Helvetica, sans-serif; fill: #2b2622; }}
.small {{ font-size: 11px; fill: #6b6259; }} .row {{ font-weight: bold; }} .box {{ fill: #fffaf3; stroke: #a0522d; }}
.data {{ fill: #efe3d5; stroke: #c9b8a4; }} .line {{ fill: none; stroke: #6b6259; stroke-width: 1.4; marker-end: url(#tip); }}
</style>
<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8z" fill="#6b6259"/></marker></defs>
<rect width="{WIDTH}" height="{HEIGHT}" rx="8" fill="#faf6f0"/>
"""


def left_of(column):
    return LEFT + column * (BOX + GAP)


def drawn():
    parts = [HEAD]
    for number, (title, when, boxes) in enumerate(ROWS):
        y = TOP + number * STRIDE
        parts.append(f'<text class="row" x="14" y="{y + 25}">{escape(title)}</text>\n')
        parts.append(f'<text class="small" x="14" y="{y + 42}">{escape(when)}</text>\n')
        for column, (what, where) in enumerate(boxes):
            x, middle = left_of(column), left_of(column) + BOX / 2
            parts.append(f'<rect class="{"box" if where else "data"}" x="{x}" y="{y}" width="{BOX}" height="{HIGH}" rx="6"/>\n')
            parts.append(f'<text x="{middle}" y="{y + (24 if where else 32)}" text-anchor="middle">{escape(what)}</text>\n')
            if where:
                parts.append(f'<text class="small" x="{middle}" y="{y + 42}" text-anchor="middle">{escape(where)}</text>\n')
            if column:
                parts.append(f'<path class="line" d="M{x - GAP + 2} {y + HIGH / 2}H{x - 2}"/>\n')
    # The drawn token is the next step's: from "draw" back to "token".
    y = TOP + (len(ROWS) - 1) * STRIDE + HIGH
    first, last = left_of(0) + BOX / 2, left_of(3) + BOX / 2
    parts.append(f'<path class="line" d="M{last} {y + 1}v14H{first}v-12"/>\n')
    parts.append(f'<text class="small" x="{(first + last) / 2}" y="{y + 28}" text-anchor="middle">until an end token, or the last of -n</text>\n')
    # The KV cache of prompts is what the layers of the answer attend to.
    y = TOP + 2 * STRIDE + HIGH
    parts.append(f'<path class="line" d="M{left_of(4) + BOX / 2} {y + 1}v18H{left_of(1) + BOX / 2}v16"/>\n')
    return "".join(parts) + "</svg>\n"


def main():
    parser = OneLineParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare with the picture, and write nothing")
    args = parser.parse_args()
    if not args.check:
        PICTURE.write_text(drawn(), "utf-8")
    elif not PICTURE.exists() or PICTURE.read_text("utf-8") != drawn():
        sys.exit("way_picture: docs/images/way.svg is not what the script draws; run scripts/way_picture.py")


if __name__ == "__main__":
    main()
