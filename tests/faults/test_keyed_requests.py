"""Requests with idempotency keys whose services are stopped and killed, and whose database fails over: key, effect and event commit
together, once, and all copies get one answer.
"""

import collections
import contextlib
import os
import pathlib
import random
import signal
import sys
import threading
import time

import psycopg
import pytest

from keyed_service import COPIES, PARTS, answers_in, finish
from support import process
from support.inbox import Inbox
from support.wait import eventually

PROGRAM = str(pathlib.Path(__file__).with_name("keyed_service.py"))
EFFECTS = "CREATE TABLE public.effects (key text, name text)"
LOCKS = ("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ExclusiveLock' AND database ="
         " (SELECT oid FROM pg_database WHERE datname = current_database())")


class Service:
    """A process of keyed_service.py."""

    def __init__(self, env, *arguments):
        self.log = os.path.join(process.scratch("keyed"), "log")
        self.process = process.spawn([sys.executable, PROGRAM, *map(str, arguments)], self.log, env={**os.environ, **env})

    @property
    def lines(self):
        return pathlib.Path(self.log).read_text(encoding="utf-8").splitlines()

    def wait_line(self, line):
        eventually(lambda: line in self.lines, what=lambda: f"{line!r} in {self.lines}")

    def signal(self, number):
        self.process.send_signal(number)

    def kill(self):
        self.process.kill()
        self.process.wait(10)

    def wait(self):
        assert self.process.wait(60) == 0, self.lines


@pytest.fixture
def schema(make_inboxd, inbox):
    """The schema and the table of the effects; no sidecar runs."""
    migrated = make_inboxd().command("migrate")
    assert migrated.returncode == 0, migrated.stderr
    inbox.execute(EFFECTS)


@pytest.fixture
def service(schema, postgres_server, database):
    """service(argument…) -> a Service with the database of the test, killed at the end."""
    assert schema is None
    made = []

    def start(*arguments):
        made.append(Service(postgres_server.environment(database), *arguments))
        return made[-1]

    yield start
    for one in made:
        one.kill()


def effects(inbox):
    return [row["name"] for row in inbox.query("SELECT name FROM public.effects ORDER BY name")]


# --- A stopped holder -------------------------------------------------------------------------------------------------


@pytest.fixture
def holder(service, tmp_path, inbox):
    """(the service `first`, which is stopped until its lease is over, and go_on(name))."""
    first = service("leased", "k", "first", tmp_path)
    first.wait_line("waits")
    first.signal(signal.SIGSTOP)
    eventually(lambda: inbox.value("SELECT bool_and(lost) FROM inbox.request_states"), what="the lease to be over")
    return first, lambda name: (tmp_path / f"{name} goes on").touch()


@pytest.mark.parametrize("is_completed", [False, True])
def test_a_stopped_holder_whose_lease_was_taken_over_has_no_effect(holder, service, inbox, tmp_path, is_completed):
    """I4: it continues while the second attempt runs, or after it."""
    first, go_on = holder
    second = service("leased", "k", "second", tmp_path)
    second.wait_line("waits")
    assert "begin started 2 charged None" in second.lines
    if is_completed:
        go_on("second")
        second.wait()
    else:
        inbox.execute("UPDATE inbox.requests SET locked_until = now() + interval '1 minute'")  # this machine may be slow
    go_on("first")
    first.signal(signal.SIGCONT)
    first.wait()
    assert first.lines[-2:] == ["refused IB011", "begin replay 2 charged second" if is_completed else "begin busy 2 charged None"]
    if not is_completed:
        assert effects(inbox) == []
        go_on("second")
        second.wait()
    assert second.lines[-2:] == ["completed", "begin replay 2 charged second"]
    assert effects(inbox) == ["second"]
    assert inbox.value("SELECT count(*) FROM inbox.outbox") == 1


def test_a_stopped_holder_that_nobody_has_replaced_completes(holder, inbox):
    """I4: a copy that refuses to run it again changes nothing."""
    first, go_on = holder
    assert inbox.value("SELECT verdict FROM inbox.request_begin('k', 'f', lease => '1 second', lost => 'refuse')") == "lost"
    go_on("first")
    first.signal(signal.SIGCONT)
    first.wait()
    assert first.lines[-2:] == ["completed", "begin replay 1 charged first"]
    assert effects(inbox) == ["first"]


# --- Killed services --------------------------------------------------------------------------------------------------


def answers(paths):
    """{key: the answers of its copies}"""
    found = collections.defaultdict(list)
    for key, answer in (pair for path in paths for pair in answers_in(path)):
        found[key].append(answer)
    return found


def serve_with_kills(service, postgres, inbox, tmp_path, count):
    """`count` requests, each by COPIES of PARTS processes. A random one is killed all the time, all of them twice, the second time
    with PostgreSQL."""
    chance = random.Random(int(os.environ.get("INBOXD_SEED", 1)))
    paths = [tmp_path / f"answers {part}" for part in range(PARTS)]
    kills = 0

    def start(part):
        return service("all", paths[part], count, part)

    running = [start(part) for part in range(PARTS)]
    marks = [count // 4, count // 2]
    while any(one.process.poll() is None for one in running):
        time.sleep(chance.uniform(0.1, 0.5))
        part = chance.randrange(PARTS)
        stopped = [number for number, one in enumerate(running) if one.process.poll() is not None]
        assert all(running[number].process.returncode == 0 for number in stopped), [running[number].lines for number in stopped]
        is_mark = bool(marks) and inbox.value("SELECT count(*) FROM public.effects") >= marks[0]
        for number in range(PARTS) if is_mark else [part]:
            if running[number].process.poll() is None:
                running[number].kill()
                kills += 1
        if is_mark:
            marks.pop(0)
            time.sleep(1)
            assert inbox.value(LOCKS) == 0, "a key is locked a second after its service was killed"
            if not marks:
                postgres.crash()
                postgres.start()
        for number in range(PARTS) if is_mark else [part]:
            if running[number].process.returncode != 0:
                running[number] = start(number)
    assert not marks
    return answers(paths), kills


def has_one_effect_a_key(inbox, found, count):
    made = {row["key"]: row["names"] for row in inbox.query("SELECT key, array_agg(name) AS names FROM public.effects GROUP BY key")}
    events = inbox.query("SELECT key, array_agg(payload) AS names FROM inbox.outbox GROUP BY key")
    assert set(made) == set(found) == {f"k{number}" for number in range(count)}
    assert {key: names for key, names in made.items() if len(names) != 1} == {}
    assert {key: names for key, names in found.items() if set(names) != set(made[key]) or len(names) < COPIES} == {}
    assert len(events) == count
    assert {row["key"]: row["names"] for row in events} == {
        key.encode(): [f'"{name}"'.encode() for name in names] for key, names in made.items()}


def test_each_key_has_one_effect_when_services_are_killed(service, postgres, inbox, tmp_path):
    """I1, I4: the processes that serve the copies of 800 requests."""
    found, kills = serve_with_kills(service, postgres, inbox, tmp_path, 800)
    has_one_effect_a_key(inbox, found, 800)
    assert kills >= PARTS


@pytest.mark.big
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_each_of_ten_thousand_keys_has_one_effect_when_services_are_killed(service, postgres, inbox, tmp_path):
    found, kills = serve_with_kills(service, postgres, inbox, tmp_path, 10_000)
    has_one_effect_a_key(inbox, found, 10_000)
    assert kills >= 20


# --- Failover ---------------------------------------------------------------------------------------------------------


class Clients(threading.Thread):
    """Serves one request after the other in one transaction, until the database is away. `answered` has {key: answer}."""

    def __init__(self, conninfo, number):
        super().__init__(daemon=True)
        self.conninfo, self.number = conninfo, number
        self.answered = {}
        self.failure = None
        self.start()

    def run(self):
        try:
            with psycopg.connect(self.conninfo, autocommit=True) as connection:
                while True:
                    key = f"{self.number}.{len(self.answered)}"
                    self.answered[key] = serve(connection, key)[1]
        except psycopg.OperationalError:
            pass
        except Exception as error:  # told by the test
            self.failure = error


def serve(connection, key):
    """(verdict, the answer)"""
    name = os.urandom(8).hex()
    with connection.transaction():
        verdict, token, body = connection.execute(
            "SELECT verdict, token, convert_from(body, 'UTF8') FROM inbox.request_begin(%s, 'f')", [key]).fetchone()
        if verdict == "started":
            finish(connection, token, key, name)
    return verdict, name if verdict == "started" else body


def test_a_failover_to_an_older_copy_loses_key_effect_and_event_or_none(make_server, make_standby, make_inboxd):
    """I6: services serve requests while the standby stops to follow, and until the primary crashes. Of two leases the standby
    knows one."""
    primary = make_server()
    standby = make_standby(primary)
    migrated = make_inboxd(postgres={"dbname": "postgres", "port": primary.port}).command("migrate")
    assert migrated.returncode == 0, migrated.stderr
    lease = "SELECT token FROM inbox.request_begin(%s, 'f', lease => '1 minute')"
    with primary.connect() as own:
        own.execute(EFFECTS)
        tokens = {"old": own.execute(lease, ["old"]).fetchone()[0]}
        clients = [Clients(primary.conninfo(), number) for number in range(3)]
        eventually(lambda: all(len(client.answered) > 50 for client in clients))
        standby.stop_following()
        seen = [len(client.answered) for client in clients]
        tokens["new"] = own.execute(lease, ["new"]).fetchone()[0]
        with own.transaction():
            finish(own, tokens["old"], "old", "before")
        eventually(lambda: all(len(client.answered) > count + 50 for client, count in zip(clients, seen)))
    primary.crash()
    for client in clients:
        client.join(30)
        assert not client.is_alive() and client.failure is None, client.failure
    standby.promote()
    answered = {key: answer for client in clients for key, answer in client.answered.items()}
    with contextlib.closing(Inbox(standby.conninfo())) as inbox, standby.connect() as own:
        kept = {row["key"] for row in inbox.query("SELECT key FROM inbox.requests WHERE completed_at IS NOT NULL")}
        for rows in (inbox.query("SELECT key FROM public.effects"),
                     inbox.query("SELECT convert_from(key, 'UTF8') AS key FROM inbox.outbox")):
            assert sorted(row["key"] for row in rows) == sorted(kept)
        lost = set(answered) - kept
        assert kept and lost, "the copy has lost nothing, or everything: this proves nothing"
        for key, answer in answered.items():
            again = serve(own, key)
            assert again == ("replay", answer) if key in kept else again[0] == "started", key
        with own.transaction():
            finish(own, tokens["old"], "old", "after")
        with pytest.raises(psycopg.Error) as error, own.transaction():
            finish(own, tokens["new"], "new", "after")
        assert error.value.sqlstate == "IB011"
        assert serve(own, "new")[0] == "started"
        found = inbox.query("SELECT key, count(*) FROM public.effects GROUP BY key")
        assert {row["key"]: row["count"] for row in found} == dict.fromkeys(kept | lost | {"old", "new"}, 1)
