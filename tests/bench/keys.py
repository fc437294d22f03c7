"""Few keys and hot keys: the rate when messages must wait for earlier messages of their key.

A case is a distribution of the keys. Each case is measured with one message per delivery and with batches, and compared
with two consumers that have no queue; each of these with the database as it is, with slow commits, and with a database
that is far away. Ratios are to a bare INSERT that is measured immediately before, once per case and database. A
measurement stops after --seconds. It then counts the messages processed so far; their order is checked in any case.
"""

import functools
import typing

import complete
import endtoend
import environments
import floor
import report
import sidebyside
import slowpath
from fleet import Fleet, Handler, program
from group import Group
from growth import old_snapshot
from records import REPEATS_OF, Shape

ROUNDS = 5
SECONDS, SMOKE_SECONDS = 15, 3
BATCH = 100
FLOOR, ONE, BATCHES = "bare INSERT", "", f"batch {BATCH}"
# The name in this group, and the name in sidebyside.py.
PEERS = {"Go, inline": "Go, inline", "Parallel Consumer": "Parallel Consumer, batches of 500"}
NEAR, SLOW, FAR = "", "commits of 5 ms", "2 ms away"
ENVIRONMENTS = {NEAR: environments.near, SLOW: environments.slow_commits, FAR: environments.far_away}

CASES = {"10,000 keys": {}, "1,000 keys": {"keys": 1_000}, "100 keys": {"keys": 100}, "10 keys": {"keys": 10},
         "1 key": {"keys": 1}, "Zipf": {"zipf": True}}
UNIFORM, ONE_KEY = "10,000 keys", "1 key"
# On the topic of UNIFORM. The peers are not measured again: "Go, inline" always processes in this order.
PARTITION = "order partition"
SPREAD, SPREAD_PARTITIONS = "24 partitions", 24
INSTANCES = {"1 instance": 1, "4 instances": 4, "24 instances": 24}
WAITING, SNAPSHOT = "rows that wait", "old snapshot"
# With one key and slow commits, inbox.max_unsettled_per_key is the limit.
UNSETTLED, MOST_UNSETTLED = "512 unsettled", 512


class Plan(typing.NamedTuple):
    """One measurement of inboxd."""
    shape: dict
    ordering: str = "key"
    batch: int = 1
    instances: int = 1
    unsettled: int | None = None  # inbox.max_unsettled_per_key
    during: typing.Callable | None = None  # as in endtoend.Scenario


class _Handler(Handler):
    """order_handler, which checks the order."""

    def __init__(self, sidecar, batch, name, *, keyed):
        self._keyed = str(int(keyed))
        super().__init__(sidecar, batch, name)

    def command(self, sidecar, batch, count):
        return [program("tests", "bench", "order_handler"), sidecar.socket_path, str(batch), self._keyed, count]


def _limit(options):
    return options.seconds or (SMOKE_SECONDS if options.smoke else SECONDS)


def _inboxd(servers, options, *, plan):
    shape = Shape(options.messages, **plan.shape)
    topic = servers.topic(shape)
    handler = functools.partial(_Handler, keyed=plan.ordering == "key")
    inbox = {"ordering": plan.ordering}
    if plan.unsettled:
        inbox["max_unsettled_per_key"] = plan.unsettled
    with servers.sidecar({"inbox": inbox, "kafka": {"topics": [topic]}}) as sidecar:
        database = sidecar.configuration["postgres"]["dbname"]
        with servers.postgres.connect(database) as connection, \
                Fleet(sidecar, plan.instances, plan.batch, handler) as fleet:
            watch = endtoend.Watch(servers, fleet, connection)
            if plan.during is None:
                return _run(watch, shape, plan, _limit(options))
            with plan.during(connection):
                return _run(watch, shape, plan, _limit(options))


def _run(watch, shape, plan, limit):
    watch.fleet.start()
    watch.fleet.wait_assigned(watch.connection, shape.partitions)
    before = watch.costs()
    finished = watch.wait_done(shape.distinct(), shape.messages, limit)
    until = "infinity" if finished else watch.now()
    after, peak, counters = watch.costs(), watch.fleet.peak_memory(), watch.fleet.counters()
    counted = watch.fleet.stop()
    run = complete.Run(shape, shape.distinct(), watch.first_seq)
    complete.check_order(watch.connection, run, plan.ordering, counted)
    if finished:
        complete.check(watch.connection, run, counters, {"distinct": counted["deliveries"]})
    rows, seconds, slow = watch.done_until(until)
    return {"messages": rows, "share": rows / shape.distinct(), "seconds": round(seconds, 3),
            "rows_per_second": rows / seconds, "run_rows": counted["deliveries"] / counted["runs"],
            **{name: (after[name] - before[name]) / rows for name in before},
            "slow_share": slow / rows, "hot_share": watch.hot_share(rows), "peak_rss_bytes": peak,
            **endtoend.batches("insert", counters, "inboxd_ingest_batch_seconds",
                               endtoend.total(counters, "inboxd_messages_received_total")),
            **endtoend.batches("settle", counters, "inboxd_settle_seconds",
                               endtoend.total(counters, "inboxd_deliveries_total", outcome="done"))}


def _peer(servers, options, *, shape, peer):
    return sidebyside.measure(servers, peer, Shape(options.messages, **shape), _limit(options))


def _floor(servers, options):
    return floor.measure(servers, options.messages, repeats_of=REPEATS_OF)


def _waiting(servers, options, *, ordering, during=None):
    return slowpath.measure(servers, options, before=slowpath.WAITING, ordering=ordering, during=during)


def _named(*parts):
    return ", ".join(part for part in parts if part)


def _within(environment, run, **arguments):
    def measure(servers, options):
        with ENVIRONMENTS[environment](servers):
            return run(servers, options, **arguments)
    return measure


def _case(case, environment):
    """(name, run, base) of the measurements of a case with one database."""
    shape, ordering = CASES.get(case, {}), "partition" if case == PARTITION else "key"
    base = _named(case, FLOOR, environment)
    yield base, _within(environment, _floor), base
    for way, batch in ((ONE, 1), (BATCHES, BATCH)):
        plan = Plan(shape, ordering, batch)
        yield _named(case, way, environment), _within(environment, _inboxd, plan=plan), base
        if case == ONE_KEY:
            more = plan._replace(unsettled=MOST_UNSETTLED)
            yield _named(case, way, UNSETTLED, environment), _within(environment, _inboxd, plan=more), base
    for way, name in PEERS.items() if case != PARTITION else ():
        peer = dict(sidebyside.PEERS)[name]
        yield _named(case, way, environment), _within(environment, _peer, shape=shape, peer=peer), base


def _beside():
    """(name, run, base) of loads other than hot keys that a change for hot keys could slow down."""
    one = CASES[ONE_KEY]
    yield (_named(ONE_KEY, SNAPSHOT), _within(NEAR, _inboxd, plan=Plan(one, during=old_snapshot)),
           _named(ONE_KEY, FLOOR))
    base = _named(WAITING, FLOOR)
    yield base, _within(NEAR, _floor), base
    for ordering in ("none", "key"):
        yield _named(WAITING, ordering), _within(NEAR, _waiting, ordering=ordering), base
        yield (_named(WAITING, ordering, SNAPSHOT),
               _within(NEAR, _waiting, ordering=ordering, during=old_snapshot), base)
    base = _named(SPREAD, FLOOR)
    yield base, _within(NEAR, _floor), base
    for name, count in INSTANCES.items():
        plan = Plan({"partitions": SPREAD_PARTITIONS}, instances=count)
        yield _named(SPREAD, name), _within(NEAR, _inboxd, plan=plan), base


def _matrix(environment):
    columns = {"one message": ONE, f"batches of {BATCH}": BATCHES, **{name: name for name in PEERS}}
    return report.Matrix(_named("rows/s over those of the bare INSERT", environment),
                         [*CASES, PARTITION], list(columns),
                         lambda row, column: _named(row, columns[column], environment))


def _comparisons():
    """(measurement, the measurement to compare it with)"""
    for way in (ONE, BATCHES, *PEERS):
        for environment in ENVIRONMENTS:
            yield _named("Zipf", way, environment), _named(UNIFORM, way, environment)
        for environment in (SLOW, FAR):
            yield _named(UNIFORM, way, environment), _named(UNIFORM, way)
    for ordering in ("none", "key"):
        yield _named(WAITING, ordering, SNAPSHOT), _named(WAITING, ordering)
    yield _named(ONE_KEY, SNAPSHOT), ONE_KEY
    for way in (ONE, BATCHES):
        for environment in ENVIRONMENTS:
            yield _named(ONE_KEY, way, UNSETTLED, environment), _named(ONE_KEY, way, environment)
    for name in ("4 instances", "24 instances"):
        yield _named(SPREAD, name), _named(SPREAD, "1 instance")


_ALL = [entry for environment in ENVIRONMENTS for case in (*CASES, PARTITION)
        for entry in _case(case, environment)] + list(_beside())
_BASES = {name: base for name, _, base in _ALL}

GROUP = Group(
    "keys", "400 B, 4 partitions, every tenth record repeats an earlier one; ordering key unless the name says"
    " otherwise; done %: of the topic, before the time was over", _BASES.get,
    [report.column("done %", "share", "{:.0f}", 100), report.RATE, report.RATIO,
     report.column("client µs", "client_us", "{:.1f}"), *report.COSTS, *report.BATCHES,
     report.column("rows/run", "run_rows", "{:.1f}"), *report.PATHS, report.PEAK],
    [(name, run) for name, run, _ in _ALL], rounds=ROUNDS,
    matrices=[_matrix(environment) for environment in ENVIRONMENTS], comparisons=list(_comparisons()))
