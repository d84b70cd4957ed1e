"""Draws scripts/quality.sh's rows as SVG: a panel for each model, bits a weight across, KL divergence up."""
import math

WIDTH, HEIGHT = 560, 520  # of a panel
LEFT, RIGHT, TOP, BOTTOM = 64, 16, 36, 48
COLOURS = {"cria": "#b5452c", "llama.cpp": "#2c6fb5"}


def ticks(low, high):
    """1, 2, 5 and their decades between two numbers."""
    found = []
    for exponent in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1):
        found += [step * 10.0**exponent for step in (1, 2, 5) if low <= step * 10.0**exponent <= high]
    return found


def text(x, y, content, anchor="middle", size=11, colour="#333"):
    return (f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" fill="{colour}" '
            f'font-family="sans-serif">{content}</text>')


def place_labels(points):
    """Heights of labels so that none lies on another: from the top down, at least a line apart."""
    placed = []
    for x, y, row in sorted(points, key=lambda point: point[1]):
        label_y = y + 3
        while any(abs(label_y - other) < 10 and abs(x - other_x) < 110 for other_x, other in placed):
            label_y += 2
        placed.append((x, label_y))
        yield x, y, label_y, row


def panel(name, rows, left):
    low_bits, high_bits = 4, math.ceil(max([9, *(row["bits"] for row in rows)]))
    kl = [row["kl"] for row in rows if row["kl"] > 0]
    low, high = min(kl) * 0.7, max(kl) * 1.4
    across = lambda bits: left + LEFT + (bits - low_bits) / (high_bits - low_bits) * (WIDTH - LEFT - RIGHT)
    up = lambda value: HEIGHT - BOTTOM - math.log(value / low) / math.log(high / low) * (HEIGHT - TOP - BOTTOM)
    parts = [text(left + WIDTH / 2, 20, name, size=14)]
    for bits in range(low_bits, high_bits + 1):
        x = across(bits)
        parts.append(f'<line x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{HEIGHT - BOTTOM}" stroke="#ddd"/>')
        parts.append(text(x, HEIGHT - BOTTOM + 16, bits))
    for value in ticks(low, high):
        y = up(value)
        parts.append(f'<line x1="{left + LEFT}" y1="{y:.1f}" x2="{left + WIDTH - RIGHT}" y2="{y:.1f}" stroke="#ddd"/>')
        parts.append(text(left + LEFT - 6, y + 4, f"{value:g}", "end"))
    parts.append(text(left + WIDTH / 2, HEIGHT - 12, "bits a weight, all in"))
    points = [(across(row["bits"]), up(row["kl"]), row) for row in rows if row["kl"] > 0]
    for x, y, label_y, row in place_labels(points):
        colour = COLOURS[row["side"]]
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}"/>')
        parts.append(f'<line x1="{x:.1f}" y1="{y:.1f}" x2="{x + 16:.1f}" y2="{label_y - 3:.1f}" stroke="{colour}" stroke-width="0.5"/>')
        parts.append(text(x + 18, label_y, row["label"], "start", 9, colour))
    return parts


def drawing(rows):
    names = list(dict.fromkeys(row["model"] for row in rows))
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH * len(names)}" height="{HEIGHT}">',
             '<rect width="100%" height="100%" fill="#fff"/>',
             text(12, 20, "KL divergence", "start", 12)]
    for i, name in enumerate(names):
        parts += panel(name, [row for row in rows if row["model"] == name], i * WIDTH)
    return "\n".join([*parts, "</svg>"]) + "\n"
