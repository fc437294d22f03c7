"""Every metric, log event, alert and error code is explained in docs/, and what is explained there exists.

An operator must be able to find every word.
"""

import re

METRICS, EVENTS, ALERTS = "docs/metrics.md", "docs/log-events.md", "docs/alerts.md"
_LOGGED = re.compile(r"\blog_(?:debug|info|warn|error)\(\s*(?P<first>[^,;]*)|\blog_(?:at|write)\(\w+,\s*(?P<second>[^,;]*)")
_QUOTED = re.compile(r'"([a-z][a-z0-9_]+)"')
# Events that are listed in a table in the sources and logged from there.
_TABLE = re.compile(r'\[PG_ERROR_\w+\] = \{ "(\w+)"')
_CODE = re.compile(r'"([A-Z][A-Z_]{3,})"')
_SQL_CODE = re.compile(r"\b(?:error_code|ERRCODE) = (?:CASE [^']*)?'([A-Z][A-Z0-9_]+)'")
_FAULT = re.compile(r"\bFAULT_\w+ = -(\d+)")


def problems(tree):
    if not tree.has(METRICS):
        return
    yield from _compare(tree, METRICS, None, _metrics(tree), "metric")
    yield from _compare(tree, ALERTS, None, _alerts(tree), "alert")
    yield from _compare(tree, EVENTS, "event", _events(tree), "log event")
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


def _metrics(tree):
    return set(re.findall(r"=\s*(?:COUNTER|GAUGE|HISTOGRAM)\(\s*\"(\w+)\"", tree.text("src/report/meters.c")))


def _alerts(tree):
    return set(re.findall(r"- alert: (\w+)", tree.text("deploy/prometheus/rules.yaml")))


def _events(tree):
    found = set()
    for path in tree.paths("src/*.c"):
        if path == "src/base/log.c":
            continue
        text = tree.text(path)
        for match in _LOGGED.finditer(text):
            found.update(_QUOTED.findall(match["first"] or match["second"] or ""))
        found.update(_TABLE.findall(text) if "log_" in text else ())
    return found


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
