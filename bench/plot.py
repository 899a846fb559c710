#!/usr/bin/env python3
"""Draws measurements as bars, or as curves over a size, in SVG without any library.

    bench/plot.py quantizers FILE.json > quantizers.svg   fractions of a device copy, from the JSON lines of `bench/gpu run OUT bench`
    bench/plot.py products FILE.json > products.svg       TFLOP/s, equal beside ragged groups, from the same
    bench/plot.py torch FILE.json > torch.svg             ours beside torch, from the JSON of bench/compare_torch.py
    bench/plot.py page PAGE.md HEADING > picture.svg      the first table of figures behind a heading of docs/performance, where the
                                                          figures stand; COLUMNS=2,4,9 in the environment chooses columns

The pictures of docs/performance and of README.md are made by `bench/plot.py all`, from the tables of docs/performance.

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
import html
import json
import math
import os
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COLORS = ["#4269d0", "#efb118", "#6cc5b0", "#ff725c", "#a463f2", "#97bbf5"]
WIDTH, LEFT, ROW, GAP, TOP = 760, 250, 13, 9, 66


def head_of(title, note, names, height):
    """What a picture begins with: the title, the note and the colors of the names."""
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="11">']
    out += [f'<rect width="{WIDTH}" height="{height}" fill="white"/>', f'<text x="10" y="20" font-size="15">{html.escape(title)}</text>']
    out.append(f'<text x="10" y="37" fill="#555">{html.escape(note)}</text>')
    x = LEFT
    for name, color in zip(names, COLORS):
        out.append(f'<rect x="{x}" y="46" width="10" height="10" fill="{color}"/><text x="{x + 14}" y="55">{html.escape(name)}</text>')
        x += 30 + 7 * len(name)
    return out


def svg(title, note, names, rows, line=None):
    """Bars: rows are (label, [value or None, ...]), one value for each name. `line` is where a rule stands, such as 1.0."""
    top = max(value for _, values in rows for value in values if value is not None) * 1.1
    scale = (WIDTH - LEFT - 60) / top
    height = TOP + sum(ROW * len(values) + GAP for _, values in rows) + 8
    out = head_of(title, note, names, height)
    y = TOP
    for label, values in rows:
        middle = y + ROW * len(values) / 2 + 4
        out.append(f'<text x="{LEFT - 8}" y="{middle}" text-anchor="end">{html.escape(label)}</text>')
        for value, color in zip(values, COLORS):
            if value is not None:
                width, shown = value * scale, f"{value:.0f}" if value >= 10 else f"{value:.2f}"
                out.append(f'<rect x="{LEFT}" y="{y}" width="{width:.1f}" height="{ROW - 2}" fill="{color}"/>')
                out.append(f'<text x="{LEFT + width + 4:.1f}" y="{y + ROW - 3}" font-size="10">{shown}</text>')
            y += ROW
        y += GAP
    if line is not None:
        at = LEFT + line * scale
        out.append(f'<line x1="{at:.1f}" y1="{TOP - 4}" x2="{at:.1f}" y2="{height - 8}" stroke="#888" stroke-dasharray="3 3"/>')
    return "\n".join(out + ["</svg>"]) + "\n"


def curves(title, note, names, panels):
    """Panels side by side, both axes logarithmic: panels are (label, [(x, [value or None, ...]), ...]), one value for each name."""
    xs = sorted({x for _, points in panels for x, _ in points})
    values = [value for _, points in panels for _, found in points for value in found if value is not None]
    ticks = [step * 10**power for power in range(7) for step in (1, 2, 5)]
    low, high = max(t for t in ticks if t <= min(values)), min(t for t in ticks if t >= max(values))
    left, top, tall, width = 40, TOP + 24, 300, (WIDTH - 50) / len(panels)
    out = head_of(title, note, names, top + tall + 36)
    at_y = lambda value: top + tall * (1 - math.log(value / low) / math.log(high / low))
    for i, (label, points) in enumerate(panels):
        begin, wide = left + i * width, width - 24
        at_x = lambda x: begin + wide * math.log(x / xs[0]) / math.log(xs[-1] / xs[0])
        out.append(f'<text x="{begin + wide / 2:.1f}" y="{top - 8}" text-anchor="middle">{html.escape(label)}</text>')
        for tick in (t for t in ticks if low <= t <= high):
            out.append(f'<line x1="{begin:.1f}" y1="{at_y(tick):.1f}" x2="{begin + wide:.1f}" y2="{at_y(tick):.1f}" stroke="#ddd"/>')
            if i == 0:
                out.append(f'<text x="{left - 6}" y="{at_y(tick) + 4:.1f}" text-anchor="end">{tick}</text>')
        for x in (x for x in xs if math.log2(x / xs[0]) % 2 == 0):
            out.append(f'<text x="{at_x(x):.1f}" y="{top + tall + 16}" text-anchor="middle" font-size="10">{x:g}</text>')
        for name, color in enumerate(COLORS[: len(names)]):
            found = [(at_x(x), at_y(row[name])) for x, row in points if row[name] is not None]
            out.append(f'<polyline points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in found)}" fill="none" stroke="{color}" stroke-width="1.5"/>')
            out += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="{color}"/>' for x, y in found]
    return "\n".join(out + ["</svg>"]) + "\n"


def number(text):
    found = re.fullmatch(r"\**(\d+(?:\.\d+)?)\**(?: .*)?", text.strip())
    return float(found[1]) if found else None


def table(page, heading):
    """The head and the rows of the first table with figures behind a heading, or behind a line that begins so."""
    lines = (ROOT / page).read_text().splitlines()
    start = next(i for i, line in enumerate(lines) if line.lstrip("# ").startswith(heading))
    begin = next(i for i in range(start, len(lines)) if lines[i].startswith("|"))
    end = next((i for i in range(begin, len(lines)) if not lines[i].startswith("|")), len(lines))
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[begin:end]]
    return cells[0], cells[2:]


def from_page(title, page, heading, columns=None, names=None, line=None):
    head, rows = table(page, heading)
    first = next(i for i in range(len(head)) if number(rows[0][i]) is not None)
    columns = columns or range(first, len(head))
    bars = [(" ".join(filter(None, row[:first])), [number(row[i]) for i in columns]) for row in rows]
    return svg(title, f"from {page}", names or [head[i] for i in columns], bars, line)


def curves_from_page(title, page, heading, columns):
    """A panel for each text of the table's first column, over the numbers of the second one."""
    head, rows = table(page, heading)
    panels = {}
    for row in rows:
        panels.setdefault(row[0], []).append((number(row[1]), [number(row[i]) for i in columns]))
    label = lambda text: f"{head[0]}: {text}; over {head[1]}"
    return curves(title, f"from {page}", [head[i] for i in columns], [(label(text), points) for text, points in panels.items()])


def from_lines(path, value, title, line):
    """The JSON lines of bench/gpu: a row for each variant and shape; with equal and ragged groups, a bar each."""
    rows, names = {}, []
    for text in Path(path).read_text().splitlines():
        entry = json.loads(text)
        groups = entry["groups"] if entry["groups"] in ("equal", "ragged") else "all"
        names += [groups] if groups not in names else []
        for case in entry["result"]["cases"]:
            if value in case:
                shape = " ".join("x".join(map(str, sizes)) for sizes in list(case["arguments"].values())[:1])
                rows.setdefault(f"{entry['variant']} {shape}", {})[groups] = case[value]
    return svg(title, f"from {Path(path).name}", names, [(label, [bars.get(n) for n in names]) for label, bars in rows.items()], line)


def from_comparison(path):
    """The JSON of compare_torch.py: each row has the rates of some products, TFLOP/s by name."""
    found = [row for row in json.loads(Path(path).read_text()) if row.get("rates")]
    names = list(dict.fromkeys(name for row in found for name in row["rates"]))[: len(COLORS)]
    label = lambda row: " ".join([row["what"], "x".join(map(str, row["shape"])), str(row["groups"])])
    rows = [(label(row), [row["rates"].get(name) for name in names]) for row in found]
    return svg("Grouped FP8 products, TFLOP/s", f"from {Path(path).name}", names, rows)


PICTURES = {
    "docs/performance/quantizers.svg": lambda: from_page(
        "Quantizers of expert weights: speed as a fraction of a device copy", "docs/performance/quantize.md", "Expert weights:", [2, 5],
        ["one expert (8192, 5120)", "eight experts"], 1.0),
    "docs/performance/products.svg": lambda: from_page(
        "Grouped FP8 product, forward, fast sums: TFLOP/s on an H200", "docs/performance/grouped_product.md", "Forward, TFLOP/s:", [2, 3, 8],
        ["torch FP8", "moe-opt FP8", "torch bf16"]),
    "docs/performance/ragged.svg": lambda: from_page(
        "Grouped FP8 product: how many times as fast as torch, equal and ragged groups", "docs/performance/grouped_product.md",
        "Ratios to torch", [2, 3], ["fast sums", "promoted sums"], 1.0),
    "docs/performance/mixed.svg": lambda: curves_from_page(
        "Four-bit weights beside bf16 and FP8: microseconds on an H200", "docs/performance/mixed_product.md", "One layer",
        [2, 3, 4, 5, 6]),
}


def main():
    what, rest = (sys.argv[1:2] or ["help"])[0], sys.argv[2:]
    columns = [int(c) for c in os.environ["COLUMNS"].split(",")] if "," in os.environ.get("COLUMNS", "") else None
    if what == "all":
        for path, draw in PICTURES.items():
            (ROOT / path).write_text(draw())
    elif what == "quantizers" and len(rest) == 1:
        sys.stdout.write(from_lines(rest[0], "fraction", "Speed as a fraction of a device copy", 1.0))
    elif what == "products" and len(rest) == 1:
        sys.stdout.write(from_lines(rest[0], "tflops_per_s", "TFLOP/s, equal and ragged groups", None))
    elif what == "torch" and len(rest) == 1:
        sys.stdout.write(from_comparison(rest[0]))
    elif what == "page" and len(rest) == 2:
        sys.stdout.write(from_page(rest[1], rest[0], rest[1], columns))
    else:
        sys.exit(__doc__)


main()
