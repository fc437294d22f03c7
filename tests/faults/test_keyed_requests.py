"""Requests with idempotency keys whose services are stopped: key, effect and event commit together, once."""

import os
import pathlib
import signal
import sys

import pytest

from support import process
from support.wait import eventually

PROGRAM = str(pathlib.Path(__file__).with_name("keyed_service.py"))
EFFECTS = "CREATE TABLE public.effects (key text, name text)"


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
