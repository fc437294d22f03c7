"""Every metric, log event, alert and error code is explained in docs/, and what is explained there exists.

An operator must be able to find every word. The row of a metric begins with what the table of meters says. The row of a log event has
the levels of its calls, and names no field that it does not have. The row of an alert has its severity.
"""

import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))

import metrics_page  # pylint: disable=wrong-import-position

METRICS, EVENTS, ALERTS = metrics_page.PAGE, "docs/log-events.md", "docs/alerts.md"
_CALL = re.compile(r"\blog_(debug|info|warn|error|at|write)\(")
_FIELD = re.compile(r'\bLOG_(?:STR|INT)\(\s*"(\w+)"')
_QUOTED = re.compile(r'"([a-z][a-z0-9_]+)"')
# Events that are listed in a table in the sources and logged from there.
_TABLE = re.compile(r'\[PG_ERROR_\w+\] = \{ "(\w+)"')
_CODE = re.compile(r'"([A-Z][A-Z_]{3,})"')
_SQL_CODE = re.compile(r"\b(?:error_code|ERRCODE) = (?:CASE [^']*)?'([A-Z][A-Z0-9_]+)'")
_FAULT = re.compile(r"\bFAULT_\w+ = -(\d+)")


def problems(tree):
    if not tree.has(METRICS):
        return
    table = tree.text(metrics_page.TABLE)
    yield from _compare(tree, METRICS, None, set(metrics_page.meters(table)), "metric")
    if tree.text(METRICS) != metrics_page.page(table, tree.text(METRICS)):
        yield METRICS, 1, "is not up to date: run tools/metrics_page.py"
    yield from _compare(tree, ALERTS, None, _alerts(tree), "alert")
    events = _events(tree)
    yield from _compare(tree, EVENTS, "event", set(events), "log event")
    yield from _check_events(tree, events)
    yield from _check_alerts(tree)
    yield from _compare(tree, EVENTS, "code", _codes(tree), "error code")
    yield from _compare(tree, EVENTS, "SQLSTATE", _sqlstates(tree), "SQLSTATE")
    yield from _compare(tree, EVENTS, "exit code", _exit_codes(tree), "exit code")


def _compare(tree, document, column, known, kind):
    explained = {}
    for name, number in _explained(tree, document, column):
        if name in explained:
            yield document, number, f"explains the {kind} {name} twice; a merge may have kept both versions"
        explained[name] = number
    for name in sorted(known - set(explained)):
        yield document, 1, f"does not explain the {kind} {name}"
    for name in sorted(set(explained) - known):
        yield document, explained[name], f"explains the {kind} {name}, which does not exist"


def _explained(tree, document, column):
    """(name, line) of the first column of the tables; with `column` of those so headed."""
    heading = None
    before = ""
    for number, line in tree.lines(document):
        if re.match(r"\|[-|]+$", line):
            heading = before.split("|")[1].strip()
        elif line.startswith("|") and heading and column in (None, heading):
            cell = line.split("|")[1].strip()
            yield re.match(r"`?([\w]+)", cell)[1], number
        elif not line.startswith("|"):
            heading = None
        before = line


def _alerts(tree):
    return set(re.findall(r"- alert: (\w+)", tree.text("deploy/prometheus/rules.yaml")))


class _Event:
    """What the calls of an event have. any_level, any_field: a call has others, too, which are known only when it runs."""

    def __init__(self):
        self.levels, self.fields = set(), set()
        self.any_level = self.any_field = False


def _events(tree):
    """{name: _Event} of all calls."""
    found = {}
    for path in tree.paths("src/*.c"):
        if path == "src/base/log.c":
            continue
        text = tree.text(path)
        of_table = _TABLE.findall(text)
        for match in _CALL.finditer(text):
            arguments = _arguments(text, match.end())
            level = match[1] if match[1] not in ("at", "write") else _level(arguments.pop(0))
            fields = _FIELD.findall(" ".join(arguments[1:]))
            for name in _QUOTED.findall(arguments[0]) or of_table:
                event = found.setdefault(name, _Event())
                event.levels.add(level)
                event.any_level |= level is None
                event.fields.update(fields)
                event.any_field |= len(fields) < len(arguments) - 1
    return found


def _level(argument):
    return argument[4:].lower() if re.fullmatch(r"LOG_[A-Z]+", argument) else None


def _arguments(text, start):
    """The arguments of a call, from behind its parenthesis."""
    depth, quoted, last, found = 1, False, start, []
    for match in re.compile(r"\\.|.", re.S).finditer(text, start):
        char = match[0]
        quoted ^= char == '"'
        depth += 0 if quoted else (char in "({[") - (char in ")}]")
        if not quoted and (depth == 0 or (depth == 1 and char == ",")):
            found.append(text[last:match.start()].strip())
            last = match.end()
        if depth == 0:
            return found
    return found


def _check_events(tree, events):
    every_field = set().union(*(event.fields for event in events.values()))
    for name, number, cells in _rows(tree, EVENTS, "level"):
        event = events.get(name)
        if event is None:
            continue
        levels = set(re.findall(r"\b(?:debug|info|warn|error)\b", cells[1]))
        if not event.any_level and levels != event.levels:
            yield EVENTS, number, f"{name} has the level {', '.join(sorted(event.levels))}, not {cells[1]}"
        named = set(re.findall(r"`([a-z_]+)`", " ".join(cells[2:])))
        for field in sorted((named & every_field) - event.fields if not event.any_field else ()):
            yield EVENTS, number, f"names {field}, which {name} does not have"


def _check_alerts(tree):
    rules = re.findall(r"- alert: (\w+)(.*?)(?=- alert: |\Z)", tree.text("deploy/prometheus/rules.yaml"), re.S)
    severities = {name: re.search(r"severity: (\w+)", rule)[1] for name, rule in rules if "severity: " in rule}
    for name, number, cells in _rows(tree, ALERTS, "severity"):
        if severities.get(name, cells[1]) != cells[1]:
            yield ALERTS, number, f"{name} has the severity {severities[name]}, not {cells[1]}"


def _rows(tree, document, second):
    """(name, line, cells) of the tables whose second column is headed so."""
    inside, before = False, ""
    for number, line in tree.lines(document):
        if re.match(r"\|[-|]+$", line):
            inside = before.split("|")[2].strip() == second
        elif not line.startswith("|"):
            inside = False
        elif inside:
            cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
            yield re.match(r"`?(\w+)", cells[0])[1], number, cells
        before = line


def _codes(tree):
    found = set()
    for path in tree.paths("src/dispatch/*.c", "src/store/claims/settle.c"):
        found.update(_CODE.findall(tree.text(path)))
    return found | {code for code in _sql_codes(tree) if not code.startswith("IB")}


def _sqlstates(tree):
    return {code for code in _sql_codes(tree) if code.startswith("IB")}


def _sql_codes(tree):
    return {code for path in tree.paths("sql/functions/*.sql", "sql/queries/*.sql")
            for code in _SQL_CODE.findall(tree.text(path))}


def _exit_codes(tree):
    """Exit codes are negated faults; out of memory has the code of an internal error."""
    faults = set(_FAULT.findall(tree.text("src/base/err.h")))
    return (faults - {"71"}) | {"0"}
