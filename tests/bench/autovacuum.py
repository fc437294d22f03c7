"""Do other autovacuum settings for the table make inboxd faster than PostgreSQL's defaults? A longer run, in which the
server checks every few seconds whether a vacuum is due."""

import contextlib
import functools

import endtoend
import filling
import report
from group import Group
from records import Shape

SMOKE_SHARE = 100
LONGER = 4  # times the usual messages
BEFORE = 3_000_000
BASE = "as PostgreSQL has it"
_OFTEN = ("autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200000,"
          " autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 200000")
_STATISTICS = ("SELECT autovacuum_count, n_dead_tup FROM pg_stat_user_tables"
               " WHERE relname = 'inbox_messages'")


def _configure(connection, change):
    connection.execute(f"ALTER SYSTEM {change}")
    connection.execute("SELECT pg_reload_conf()")


@contextlib.contextmanager
def _in_a_hurry(seen, connection):
    """Also stores the statistics at the end of the run in `seen`."""
    _configure(connection, "SET autovacuum_naptime = '5s'")
    try:
        yield
        vacuums, dead = connection.execute(_STATISTICS).fetchone()
        seen.update(vacuums=vacuums, dead_versions=dead)
    finally:
        _configure(connection, "RESET autovacuum_naptime")


def _measure(servers, options, *, settings=None):
    shape = Shape(options.messages * (1 if options.smoke else LONGER))
    before = BEFORE // SMOKE_SHARE if options.smoke else BEFORE
    seen = {}

    def prepare(connection):
        filling.fill(connection, shape.topic(), before, filling.PROCESSED)
        if settings:
            connection.execute(f"ALTER TABLE inbox.inbox_messages SET ({settings})")

    result = endtoend.measure(servers, endtoend.Scenario(
        shape, prepare=prepare, during=functools.partial(_in_a_hurry, seen)))
    return {"before": before, **result, **seen}


COLUMNS = [report.column("rows before", "before", "{:,}"), report.column("records", "records", "{:,}"),
           report.RATE, report.RATIO, *report.COSTS, report.column("vacuums", "vacuums", "{:,}"),
           report.column("dead versions", "dead_versions", "{:,}")]
GROUP = Group(
    "autovacuum", "a longer run in a table that is vacuumed more or less often", BASE, COLUMNS,
    [(BASE, _measure),
     ("every 200,000 rows", functools.partial(_measure, settings=_OFTEN)),
     ("never", functools.partial(_measure, settings="autovacuum_enabled = off"))])
