#!/usr/bin/env python3
"""Writes what src/report/meters.c says of each metric into its row of docs/metrics.md.    tools/metrics_page.py

A row begins with the name and the labels, the kind and the help text of the table. What follows <br>, and the last cell, are written
by hand. tests/lint/rule_signals.py checks that the page is up to date.
"""

import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[1]
TABLE, PAGE = "src/report/meters.c", "docs/metrics.md"
_TEXT = r'"(?:[^"\\]|\\.)*"'
_METER = re.compile(rf"=\s*(COUNTER|GAUGE|HISTOGRAM)\(\s*({_TEXT}),\s*((?:{_TEXT}\s*)+)([^()]*)\)")
_CELLS = re.compile(r"(?<!\\)\|")


def meters(source):
    """{name: (name with its labels, kind, help)} of the table."""
    found = {}
    for kind, name, words, labels in _METER.findall(source):
        name = name.strip('"')
        words = "".join(text[1:-1] for text in re.findall(_TEXT, words))
        labels = re.findall(r'"(\w+)"', labels)
        found[name] = (f"`{name}{{{','.join(labels)}}}`" if labels else f"`{name}`", kind.lower(), words)
    return found


def page(source, text):
    """The page with the rows that the table gives."""
    known = meters(source)

    def row(line):
        cells = [cell.strip() for cell in _CELLS.split(line)[1:-1]]
        name = re.match(r"`?(\w*)", cells[0])[1] if len(cells) == 4 else None
        if name not in known:
            return line
        title, kind, words = known[name]
        _, mark, details = cells[2].partition("<br>")
        return f"| {title} | {kind} | {words}{mark}{details} | {cells[3]} |".replace("|  |", "| |")

    return "\n".join(row(line) if line.startswith("|") else line for line in text.split("\n"))


def main():
    path = ROOT / PAGE
    path.write_text(page((ROOT / TABLE).read_text(encoding="utf-8"), path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
