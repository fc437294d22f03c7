#!/usr/bin/env python3
"""Draws docs/figures/*.svg from the text files beside them.    tools/figures.py

A figure is a text file of one statement a line; `#` begins a comment:

    title TEXT                              for screen readers
    size WIDTH HEIGHT                       in pixels
    KIND NAME X Y WIDTH HEIGHT TEXT         a box; KIND is a key of BOXES; `|` in TEXT begins a new line
    arrow END [X,Y…] END [at X,Y TEXT]      END is NAME:SIDE[:OFFSET], OFFSET in pixels from the middle of the side

An SVG needs no program to read it. tests/lint/rule_figures.py checks that each one is up to date.
"""

import html
import pathlib
import re

FIGURES = pathlib.Path(__file__).resolve().parents[1] / "docs/figures"
LINE = 16
BOXES = {
    "group": 'fill="#f4f6f8" stroke="#8a97a5" stroke-dasharray="4 3"',
    "part": 'fill="#dbe9f6" stroke="#33658a"',
    "state": 'fill="#dbe9f6" stroke="#33658a"',
    "end": 'fill="#dff0e0" stroke="#3b7a45"',
    "failed": 'fill="#f8dedd" stroke="#a33b36"',
    "other": 'fill="#ffffff" stroke="#555555"',
}
HEAD = """\
<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" \
font-family="sans-serif" font-size="13" role="img">
<title>{title}</title>
<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto">\
<path d="M0,0 L8,4 L0,8 z" fill="#333333"/></marker></defs>
<rect width="{width}" height="{height}" fill="#ffffff"/>
"""


def statements(text):
    """[(word, rest of the line)] of a figure."""
    lines = (line.strip() for line in text.splitlines())
    return [tuple(line.split(None, 1)) for line in lines if line and not line.startswith("#")]


def boxes(text):
    """{name: (kind, x, y, width, height, words)}."""
    found = {}
    for word, rest in statements(text):
        if word in BOXES:
            name, *numbers, words = rest.split(None, 5)
            found[name] = (word, *map(int, numbers), words)
    return found


def draw(text):
    """The SVG of a figure."""
    one = {word: rest for word, rest in statements(text) if word in ("title", "size")}
    width, height = one["size"].split()
    known = boxes(text)
    out = [HEAD.format(width=width, height=height, title=html.escape(one["title"]))]
    out += [_box(*box) for box in known.values()]
    out += [_arrow(known, rest) for word, rest in statements(text) if word == "arrow"]
    return "".join(out) + "</svg>\n"


def _box(kind, x, y, width, height, words):
    lines = words.split("|")
    top = y + 20 if kind == "group" else y + (height - LINE * (len(lines) - 1)) // 2 + 5
    return (f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="6" {BOXES[kind]}/>\n'
            + _words(lines, x + width // 2, top, ' font-weight="bold"'))


def _words(lines, x, y, bold=""):
    return "".join(f'<text x="{x}" y="{y + LINE * number}" text-anchor="middle"{bold if number == 0 else ""}>'
                   f"{html.escape(line)}</text>\n" for number, line in enumerate(lines))


def _arrow(known, rest):
    path, _, label = rest.partition(" at ")
    points = " ".join(f"{x},{y}" for x, y in (_point(known, word) for word in path.split()))
    line = f'<polyline points="{points}" fill="none" stroke="#333333" marker-end="url(#tip)"/>\n'
    if not label:
        return line
    place, words = label.split(None, 1)
    x, y = map(int, place.split(","))
    return line + _words(words.split("|"), x, y)


def _point(known, word):
    if re.fullmatch(r"\d+,\d+", word):
        return tuple(map(int, word.split(",")))
    name, side, *offset = word.split(":")
    _, x, y, width, height, _ = known[name]
    along = int(offset[0]) if offset else 0
    return {"left": (x, y + height // 2 + along), "right": (x + width, y + height // 2 + along),
            "top": (x + width // 2 + along, y), "bottom": (x + width // 2 + along, y + height)}[side]


if __name__ == "__main__":
    for source in sorted(FIGURES.glob("*.txt")):
        source.with_suffix(".svg").write_text(draw(source.read_text(encoding="utf-8")), encoding="utf-8")
