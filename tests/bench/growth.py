"""Does a large table, or one that vacuum cannot clean, slow inboxd down? The usual run, with other rows in the table."""

import contextlib
import functools

import endtoend
import filling
import report
from group import Group
from records import Shape

SMOKE_SHARE = 100  # a smoke test has so many times fewer rows before
LONGER, LONG = 3, 20  # times the usual messages while a snapshot is held, and with --long
EMPTY, FREE = "empty", "no snapshot"
# Ingest must not pause because of the waiting rows: the cost is measured.
CONFIGURATION = {"ingest": {"max_pending": 10_000_000}}


def _measure(servers, options, *, kind=None, count=0, during=None, times=1):
    shape = Shape(options.messages * (LONG if options.long and times > 1 else times))
    before = count // SMOKE_SHARE if options.smoke else count

    def prepare(connection):
        if kind:
            filling.fill(connection, shape.topic(), before, kind)

    return {"before": before,
            **endtoend.measure(servers, endtoend.Scenario(shape, configuration=CONFIGURATION,
                                                          prepare=prepare, during=during))}


def _much_processed(servers, options, *, count):
    """Only with --long: 50 million rows take some 60 GB."""
    if not options.long:
        return None
    return _measure(servers, options, kind=filling.PROCESSED, count=count)


def _retention(servers, options):
    """Rows that are to be deleted; the run says how many were."""
    left = []

    @contextlib.contextmanager
    def counting(connection):
        yield
        left.append(connection.execute("SELECT count(*) FROM inbox.inbox_messages"
                                       " WHERE source = 'before'").fetchone()[0])

    result = _measure(servers, options, kind=filling.EXPIRED, count=500_000, during=counting)
    return {**result, "deleted": result["before"] - left[0]}


@contextlib.contextmanager
def old_snapshot(connection):
    """A transaction that stays open: vacuum cannot remove rows that are deleted from now on."""
    with type(connection).connect(connection.info.dsn, autocommit=True) as reader:
        reader.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        seen = reader.execute("SELECT count(*) FROM inbox.inbox_messages").fetchone()
        yield
        again = reader.execute("SELECT count(*) FROM inbox.inbox_messages").fetchone()
        assert seen == again, "the snapshot was not held"
        reader.execute("ROLLBACK")


def _with(**scenario):
    return functools.partial(_measure, **scenario)


COLUMNS = [report.column("rows before", "before", "{:,}"),
           report.column("deleted", "deleted", "{:,}"),
           report.column("records", "records", "{:,}"), report.RATE, report.RATIO, *report.COSTS,
           *report.BATCHES, *report.PATHS, report.PEAK]
GROUP = Group(
    "growth", "the usual run in a table that holds other rows already", EMPTY, COLUMNS,
    [(EMPTY, _with()),
     ("10 million processed", _with(kind=filling.PROCESSED, count=10_000_000)),
     ("50 million processed", functools.partial(_much_processed, count=50_000_000)),
     ("1 million waiting", _with(kind=filling.WAITING, count=1_000_000)),
     ("100,000 dead", _with(kind=filling.DEAD, count=100_000)),
     ("100,000 behind a blocked key", _with(kind=filling.BLOCKED, count=100_000)),
     ("retention deletes", _retention)])
SNAPSHOT = Group(
    "snapshot", "a longer run while a transaction holds a snapshot from before it", FREE, COLUMNS[2:],
    [(FREE, _with(times=LONGER)),
     ("old snapshot", _with(times=LONGER, during=old_snapshot))])
