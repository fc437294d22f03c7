"""The table of results: minimum, median and maximum if there are several rounds, or medians alone."""

import statistics
import typing

from group import BEFORE

_KB = 1024


def column(title, key, form, factor=1):
    """A column with `key` of a result; empty if the result lacks it."""

    def value(result):
        found = result.get(key)
        return None if found is None else found * factor

    return title, value, form


RATE = column("rows/s", "rows_per_second", "{:,.0f}")
RECORDS = column("records/s", "records_per_second", "{:,.0f}")
RATIO = column("ratio", "ratio", "{:.2f}")
COSTS = [column("inboxd µs", "inboxd_us", "{:.1f}"), column("handler µs", "handler_us", "{:.1f}"),
         column("PostgreSQL µs", "postgres_us", "{:.1f}"), column("WAL B", "wal_bytes", "{:,.0f}")]
BATCHES = [column("rows/insert", "insert_rows", "{:,.0f}"),
           column("rows/settle", "settle_rows", "{:,.0f}")]
PATHS = [column("slow path %", "slow_share", "{:.2f}", 100),
         column("HOT %", "hot_share", "{:.1f}", 100)]
PEAK = column("peak MiB", "peak_rss_bytes", "{:.0f}", 1 / _KB / _KB)


class Matrix(typing.NamedTuple):
    """A table of ratios: each cell is a measurement."""
    title: str
    rows: list
    columns: list
    name: typing.Callable  # (row, column) -> measurement


def markdown(group, rounds, medians=False):
    """`rounds`: dictionaries {name of the measurement: result} of one group."""
    picks = (statistics.median,) if medians else (min, statistics.median, max)
    return "\n\n".join([*_matrices(group, rounds), _details(group, rounds, picks), *_comparisons(group, rounds, picks)])


def summary(group, rounds):
    """The content of the tables for programs: minimum, median and maximum of all rounds."""
    compared = [key for _, key in group.compared]
    return {"measurements": {name: {key: _spread([results[name][key] for results in rounds])
                                    for key in dict.fromkeys(["rows_per_second", "ratio", *compared])
                                    if all(key in results[name] for results in rounds)}
                             for name in _in_all(rounds)},
            "comparisons": {f"{name} ÷ {other}": {key: _spread(found) for key in compared
                                                  if (found := _quotients(rounds, name, other, key))}
                            for name, other in _compared(group, rounds)}}


def _in_all(rounds):
    """The measurements with a result in every round. A program that cannot be installed has none."""
    return [name for name in rounds[0] if all(name in results for results in rounds)]


def _spread(found):
    return {"min": min(found), "median": statistics.median(found), "max": max(found)}


def _matrices(group, rounds):
    for matrix in group.matrices:
        rows = [[row, *(_ratio_and_rate(rounds, matrix.name(row, column)) for column in matrix.columns)]
                for row in matrix.rows]
        rows = [row for row in rows if any(row[1:])]
        if rows:
            yield f"{group.name}: {matrix.title}; median of {len(rounds)}.\n\n" + _table(["", *matrix.columns], rows)


def _ratio_and_rate(rounds, name):
    if name not in _in_all(rounds):
        return ""
    ratio, rate = (statistics.median(results[name][key] for results in rounds)
                   for key in ("ratio", "rows_per_second"))
    return f"{ratio:.2f} ({rate:,.0f}/s)"


def _compared(group, rounds):
    """The comparisons of the group, and those with the build before."""
    pairs = group.comparisons + [(name.removesuffix(BEFORE), name) for name in rounds[0] if name.endswith(BEFORE)]
    return [(name, other) for name, other in pairs if {name, other} <= set(_in_all(rounds))]


def _quotients(rounds, name, other, key):
    """Of each round; nothing if a round has no such value."""
    pairs = [(results[name].get(key), results[other].get(key)) for results in rounds]
    return [one / another for one, another in pairs] if all(one is not None and another for one, another in pairs) else []


def _comparisons(group, rounds, picks):
    rows = [[name, other, *(_shown(_quotients(rounds, name, other, key), "{:.2f}", picks) for _, key in group.compared)]
            for name, other in _compared(group, rounds)]
    if rows:
        yield (f"{group.name}: values of one over those of another.\n\n"
               + _table(["", "over", *(title for title, _ in group.compared)], rows))


def _details(group, rounds, picks):
    rows = [[name, *(_cell([results[name] for results in rounds], *entry[1:], picks) for entry in group.columns)]
            for name in _in_all(rounds)]
    compared = f" Ratio: to {group.base}." if isinstance(group.base, str) else ""
    return f"{group.name}: {group.title}.{compared}\n\n" + _table(["", *(title for title, _, _ in group.columns)], rows)


def _table(titles, rows):
    lines = [titles, ["---"] + ["---:"] * (len(titles) - 1), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _cell(results, value, form, picks):
    found = [value(result) for result in results]
    if None in found:
        return ""
    return _shown(found, form, picks)


def _shown(found, form, picks):
    if not found:
        return ""
    if len(found) == 1:
        return form.format(found[0])
    return " / ".join(form.format(pick(found)) for pick in picks)
