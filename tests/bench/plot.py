"""Pictures of one result of bench.py --json: `plot.py FILE DIRECTORY` writes an SVG for each of PLOTS.

Bars in the order of the measurements; several rounds show their median. A
measurement that the file does not hold is left out, and a picture without any is not written.
"""

import json
import pathlib
import statistics
import sys
import typing
from xml.sax.saxutils import escape

BATCH = 100  # of the group keys
WIDTH, LABELS, VALUES = 780, 250, 120  # of the picture, of the names left and the numbers right
ROW, BAR, TOP = 26, 16, 44
COLOURS = ["#2f6f9f", "#d08a3c", "#7a9a5b"]
STYLE = ("text{font:13px system-ui,sans-serif;fill:#222}.t{font-weight:600;font-size:15px}"
         "@media(prefers-color-scheme:dark){text{fill:#ddd}}")


class Part(typing.NamedTuple):
    """One colour of a bar."""
    key: str
    name: str
    factor: float = 1
    other: str = ""  # the value is that of the measurement with this behind its name


class Plot(typing.NamedTuple):
    name: str
    title: str
    group: str
    parts: list
    form: str
    beside: bool = False  # each part is a bar of its own, under the other; else they stack
    most: float | None = None  # longer bars are cut, their numbers are not


PLOTS = [
    Plot("rates", "Messages a second, stored and handled", "peers", [Part("rows_per_second", "")], "{:,.0f}"),
    Plot("cpu", "CPU of a message, µs", "peers",
         [Part("client_us", "client"), Part("postgres_us", "PostgreSQL")], "{:,.0f}", most=160),
    Plot("memory", "Most memory of the client, MiB", "peers", [Part("peak_rss_bytes", "", 1 / 2**20)], "{:,.0f}"),
    Plot("latency", "From due to be produced to the handler, ms", "latency",
         [Part("p50_us", "p50", 1e-3), Part("p99_us", "p99", 1e-3), Part("p999_us", "p99.9", 1e-3)],
         "{:,.1f}", beside=True),
    Plot("keys", "Messages a second ÷ those of a bare INSERT", "keys",
         [Part("ratio", "one a delivery"), Part("ratio", "ordered batches of 100", other=f", batch {BATCH}")],
         "{:.2f}", beside=True),
]


def rows_of(plot, rounds):
    """[(label, [value of each part])]"""
    rounds = [results[plot.group] for results in rounds if plot.group in results]
    first = rounds[0] if rounds else {}
    return [(label, [statistics.median(results[label + part.other][part.key] * part.factor for results in rounds)
                     for part in plot.parts])
            for label in first if all(part.key in first.get(label + part.other, {}) for part in plot.parts)]


def bar(x, y, length, height, colour):
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(length, 1):.1f}" height="{height:.1f}" fill="{colour}"/>'


def bars(plot, values, scale, y):
    """One row: its bars, side by side or one under the other."""
    x, height = LABELS, BAR / len(values) if plot.beside else BAR
    for index, value in enumerate(values):
        length = min(value * scale, WIDTH - VALUES - x)
        yield bar(x, y + (index * height if plot.beside else 0), length, height - (plot.beside and 1),
                  COLOURS[index])
        x += 0 if plot.beside else length


def legend(plot):
    x = LABELS
    for part, colour in zip(plot.parts, COLOURS):
        if part.name:
            yield bar(x, TOP - 16, 10, 10, colour)
            yield f'<text x="{x + 15}" y="{TOP - 7}">{escape(part.name)}</text>'
            x += 30 + 7 * len(part.name)


def picture(plot, rows):
    longest = max(max(values) if plot.beside else sum(values) for _, values in rows)
    scale = (WIDTH - LABELS - VALUES) / min(longest, plot.most or longest)
    height = TOP + ROW * len(rows) + 8
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">',
             f"<title>{escape(plot.title)}</title><style>{STYLE}</style>",
             f'<text class="t" x="8" y="20">{escape(plot.title)}</text>', *legend(plot)]
    for index, (label, values) in enumerate(rows):
        y = TOP + ROW * index
        number = " / ".join(plot.form.format(value) for value in values)
        lines += [f'<text x="{LABELS - 8}" y="{y + 13}" text-anchor="end">{escape(label)}</text>',
                  *bars(plot, values, scale, y),
                  f'<text x="{WIDTH - VALUES + 8}" y="{y + 13}">{escape(number)}</text>']
    return "\n".join([*lines, "</svg>"]) + "\n"


def main(source, directory):
    rounds = json.loads(pathlib.Path(source).read_text(encoding="utf-8"))["rounds"]
    for plot in PLOTS:
        rows = rows_of(plot, rounds)
        if rows:
            target = pathlib.Path(directory, f"{plot.name}.svg")
            target.write_text(picture(plot, rows), encoding="utf-8")
            print(target)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: plot.py FILE DIRECTORY")
    main(*sys.argv[1:])
