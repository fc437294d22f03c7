"""The table people read: minimum, median and maximum of all rounds where there are several."""

import statistics

_KB = 1024
# Title, value of one result and of the floor of its round, format.
COLUMNS = [
    ("rows/s", lambda result, floor: result["rows_per_second"], "{:,.0f}"),
    ("records/s", lambda result, floor: result.get("records_per_second"), "{:,.0f}"),
    ("÷ floor", lambda result, floor: result["rows_per_second"] / floor["rows_per_second"],
     "{:.2f}"),
    ("inboxd µs", lambda result, floor: result.get("inboxd_us"), "{:.1f}"),
    ("handler µs", lambda result, floor: result.get("handler_us"), "{:.1f}"),
    ("PostgreSQL µs", lambda result, floor: result["postgres_us"], "{:.1f}"),
    ("WAL B", lambda result, floor: result["wal_bytes"], "{:,.0f}"),
    ("rows/insert", lambda result, floor: result.get("insert_rows"), "{:,.0f}"),
    ("rows/settle", lambda result, floor: result.get("settle_rows"), "{:,.0f}"),
    ("slow path %", lambda result, floor: _percent(result.get("slow_share")), "{:.2f}"),
    ("HOT %", lambda result, floor: _percent(result.get("hot_share")), "{:.1f}"),
    ("peak MiB", lambda result, floor: _mib(result.get("peak_rss_bytes")), "{:.0f}"),
]


def _percent(share):
    return None if share is None else share * 100


def _mib(count):
    return None if count is None else count / _KB / _KB


def markdown(rounds):
    """`rounds`: dictionaries {name of the measurement: result}, each with a `floor`."""
    lines = [["", *(title for title, _, _ in COLUMNS)], ["---"] + ["---:"] * len(COLUMNS)]
    for name in rounds[0]:
        lines.append([name, *(_cell(rounds, name, *column[1:]) for column in COLUMNS)])
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _cell(rounds, name, value, form):
    found = [value(results[name], results["floor"]) for results in rounds]
    if found[0] is None:
        return ""
    if len(found) == 1:
        return form.format(found[0])
    return " / ".join(form.format(pick(found)) for pick in (min, statistics.median, max))
