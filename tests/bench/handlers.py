"""The libraries of handlers/: a handler that does nothing, and one with an effect in PostgreSQL, at least once and exactly once.

Each library has a program bench/handler for this. "at least once" commits the effect and then answers done; "exactly once"
completes the message in the transaction of the effect. In SQL there is no program: inboxd calls a function, which makes the effect.
"""

import functools
import os
import pathlib
import sys

from languages.libraries import JAVA, PYTHON, ROOT, java

import costs
import endtoend
import environments
import fleet
import report
from group import Group
from records import Shape
from support import process
from support.wait import eventually

C = "no-op: C"
GO = str(ROOT / ".cache/languages/go/bench")
EFFECTS_SHARE = 10  # one message in so many of a no-op, because transactions take time
EFFECTS = "CREATE TABLE effects (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, order_id bigint NOT NULL, customer text NOT NULL)"
COMMANDS = {
    "Python": [PYTHON, str(ROOT / "handlers/python/bench/handler.py")],
    "Node.js": ["node", str(ROOT / "handlers/node/bench/handler.js")],
    "Go": [GO],
    "Java": java("BenchHandler"),
}
# What the program `check` of a library makes, by the first word of its command.
PREPARED = {
    PYTHON: [pathlib.Path(PYTHON)],
    "node": [ROOT / "handlers/node/dist", ROOT / "handlers/node/node_modules"],
    GO: [pathlib.Path(GO)],
    "java": [JAVA],
}
SIZES = {1: "one by one", 50: "fifty at a time"}
ENVIRONMENTS = {"": environments.near, ", slow commits": environments.slow_commits}
SQL = "SQL"
# The effect of the programs; see handlers/python/bench/handler.py.
FUNCTION = """CREATE FUNCTION public.on_event(event inbox.messages) RETURNS void LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO effects (order_id, customer) VALUES ((event.payload_json->>'order')::bigint, event.payload_json->>'customer');
    END $$"""


class Program:
    """A handler that is a command; it counts nothing."""

    def __init__(self, sidecar, batch, name, *, command, environment):
        del batch, name
        self._log = os.path.join(sidecar.directory, "handler.log")
        self._process = process.spawn(command, self._log,
                                      env={**os.environ, **environment, "INBOXD_SOCKET_PATH": sidecar.socket_path})

    def cpu_seconds(self):
        return costs.of_process(self._process.pid)

    def stop(self):
        code = process.end(self._process)
        assert code == 0, f"the handler ended with {code}: {process.tail(self._log)}"
        return {}


class Nobody:
    """The place of a handler's process, where there is none."""

    def __init__(self, sidecar, batch, name):
        del sidecar, batch, name

    def cpu_seconds(self):
        return 0

    def stop(self):
        return {}


def _measure_sql(servers, options, *, size):
    shape = Shape(options.messages // (EFFECTS_SHARE if size == 1 else 1))
    topic = servers.topic(shape)
    function = {"call": "public.on_event", "batch": size}
    with servers.sidecar({"kafka": {"topics": [topic]}, "handlers": {"sql": function}}) as sidecar:
        done = sidecar.command("migrate")
        assert done.returncode == 0, done.stderr
        with servers.postgres.connect(sidecar.configuration["postgres"]["dbname"]) as connection, \
                fleet.Fleet(sidecar, handler=Nobody, names=["sql"]) as running:
            connection.execute(EFFECTS)
            connection.execute(FUNCTION)
            return _checked(servers, running, connection, shape)


def _checked(servers, running, connection, shape):
    """A result, if there is one effect for each message."""
    result = _run(endtoend.Watch(servers, running, connection), shape)
    made = connection.execute("SELECT count(*), count(DISTINCT order_id) FROM effects").fetchone()
    assert made == (shape.distinct(), shape.distinct()), f"{made} effects of {shape.distinct()} messages"
    return result


def _measure(servers, options, *, command, kind="noop", size=1):
    """A result as of endtoend. None if the library is not installed, which its program `check` does."""
    if command and not installed(command):
        print(f"languages: not measured, its program check has not prepared {' '.join(command)}", file=sys.stderr, flush=True)
        return None
    effects = kind != "noop"
    shape = Shape(options.messages // (EFFECTS_SHARE if effects and size == 1 else 1))
    topic = servers.topic(shape)
    with servers.sidecar({"kafka": {"topics": [topic]}}) as sidecar:
        database = sidecar.configuration["postgres"]["dbname"]
        handler = functools.partial(Program, command=[*command, kind, str(size)],
                                    environment=servers.postgres.environment(database)) if command else fleet.Handler
        with servers.postgres.connect(database) as connection, fleet.Fleet(sidecar, handler=handler) as running:
            connection.execute(EFFECTS)
            if effects:
                return _checked(servers, running, connection, shape)
            return _run(endtoend.Watch(servers, running, connection), shape)


def _measure_effects(servers, options, *, environment, **arguments):
    with environment(servers):
        return _measure(servers, options, **arguments)


def installed(command):
    return all(path.exists() for path in PREPARED[command[0]])


def _run(watch, shape):
    fresh = shape.distinct()
    watch.fleet.start()
    watch.fleet.wait_assigned(watch.connection, shape.partitions)
    before = watch.costs()
    eventually(lambda: endtoend.total(watch.fleet.counters(), "inboxd_deliveries_total") >= fresh, timeout=endtoend.TIMEOUT,
               every=0.25, what=f"{fresh} messages to be answered")
    after = watch.costs()
    until = watch.now()
    watch.fleet.stop_each()
    processed, seconds, _ = watch.done_until(until)
    assert processed == fresh, f"{processed} of {fresh} messages are processed"
    return {"messages": fresh, "seconds": round(seconds, 3), "rows_per_second": fresh / seconds,
            **{name: (after[name] - before[name]) / fresh for name in before}}


def _name(kind, size, language, environment=""):
    return f"{kind}, {SIZES[size]}: {language}{environment}"


def _base(name):
    """At least once is the base of exactly once, of the same language and size; Python is the base of SQL."""
    if name.endswith(SQL):
        return name.replace(SQL, "Python")
    return C if name.startswith("no-op") else name.replace("exactly once", "at least once")


GROUP = Group(
    "languages", "400 B, 10 % duplicates, 4 partitions, ordering key. Ratio: of a no-op to C, of exactly once to at least once, of SQL to exactly once in Python", _base,
    [report.RATE, report.RATIO, *report.COSTS],
    [(C, functools.partial(_measure, command=None)),
     *((f"no-op: {language}", functools.partial(_measure, command=command)) for language, command in COMMANDS.items()),
     *((_name(kind, size, language, name), functools.partial(
         _measure_effects, environment=environment, command=command, kind=program, size=size))
       for name, environment in ENVIRONMENTS.items() for language, command in COMMANDS.items() for size in SIZES
       for kind, program in (("at least once", "least"), ("exactly once", "once"))),
     *((_name("exactly once", size, SQL), functools.partial(_measure_sql, size=size)) for size in SIZES)])
