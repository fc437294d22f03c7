"""The table of results: minimum, median and maximum if there are several rounds."""

import statistics

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


def markdown(group, rounds):
    """`rounds`: dictionaries {name of the measurement: result} of one group."""
    lines = [["", *(title for title, _, _ in group.columns)],
             ["---"] + ["---:"] * len(group.columns)]
    for name in rounds[0]:
        lines.append([name, *(_cell([results[name] for results in rounds], *entry[1:])
                              for entry in group.columns)])
    table = "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
    compared = f" Ratio: to {group.base}." if group.base else ""
    return f"{group.name}: {group.title}.{compared}\n\n{table}"


def _cell(results, value, form):
    found = [value(result) for result in results]
    if None in found:
        return ""
    if len(found) == 1:
        return form.format(found[0])
    return " / ".join(form.format(pick(found)) for pick in (min, statistics.median, max))
