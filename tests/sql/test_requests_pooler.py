"""Idempotency keys through PgBouncer in transaction mode: each transaction of a client can have another session of PostgreSQL."""

import collections
import concurrent.futures
import contextlib

import pytest

from support import pooler
from support.wait import eventually
from test_operators import value
from test_requests import begin, complete, db, effect, effects, raised, serve, set_back  # noqa: F401 pylint: disable=unused-import


@pytest.fixture
def pooled(server, connect):
    """pooled() -> a client of the pooler. As with each pooler before PgBouncer 1.21, it prepares no statements."""
    if pooler.PROGRAM is None:
        pytest.skip("pgbouncer is not installed")
    with contextlib.closing(pooler.Pooler(server["PGPORT"], "transaction")) as proxy:
        made = []

        def make():
            made.append(connect(host="127.0.0.1", port=proxy.port, prepare_threshold=None))
            return made[-1]

        yield make
        for client in made:
            client.close()


def session(client):
    """The session that the transaction of the client has."""
    return value(client, "SELECT pg_backend_pid()")


@contextlib.contextmanager
def occupied(*clients):
    """Each client keeps a free session, the last used one first. So the transactions of others get other sessions."""
    with contextlib.ExitStack() as stack:
        for client in clients:
            stack.enter_context(client.transaction())
        yield {session(client) for client in clients}


def locks(db):
    return value(db, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND database ="
                     " (SELECT oid FROM pg_database WHERE datname = current_database())")


def test_a_request_in_one_transaction_leaves_nothing_in_its_session(db, pooled):
    one, two, three = pooled(), pooled(), pooled()
    with one.transaction():
        begun = begin(one)
        first = session(one)
        assert begin(two).verdict == "busy"
        effect(one)
        complete(one, begun.token)
    assert locks(db) == 0
    with occupied(one, two) as taken:
        with three.transaction():
            assert session(three) not in taken
            assert (first in taken, begin(three).verdict) == (True, "replay")
    assert effects(db) == 1


def test_a_rollback_frees_the_key_for_all_sessions(db, pooled):
    one, two = pooled(), pooled()
    with one.transaction(force_rollback=True):
        begun = begin(one)
        effect(one)
        complete(one, begun.token)
    assert locks(db) == 0
    with occupied(one):
        assert serve(two).verdict == "started"
    assert effects(db) == 1


def test_a_client_that_goes_in_its_transaction_frees_the_key(db, pooled):
    one, two = pooled(), pooled()
    one.execute("BEGIN")
    begun = begin(one)
    effect(one)
    complete(one, begun.token)
    assert begin(two).verdict == "busy"
    gone = session(one)
    one.close()
    eventually(lambda: value(db, "SELECT count(*) FROM pg_stat_activity WHERE pid = %s", gone) == 0)
    assert serve(two).verdict == "started"
    assert effects(db) == 1


def test_a_token_of_an_earlier_transaction_of_the_same_client_is_lost(db, pooled):
    assert db
    one = pooled()
    token = begin(one).token
    raised("IB011", complete, one, token)


@pytest.mark.parametrize("lease", [None, "1 minute"])
def test_of_many_copies_at_once_one_runs(db, pooled, lease):
    """There are twice as many clients as sessions."""
    clients = [pooled() for _ in range(40)]
    seen = set()

    def run(client, key):
        begun = begin(client, key, lease=lease)
        if begun.verdict == "started":
            effect(client, key)
            complete(client, begun.token)
        return begun.verdict

    def copy(client, key):
        with contextlib.nullcontext() if lease else client.transaction():
            verdict = run(client, key)
            seen.add(session(client))
            return verdict

    with concurrent.futures.ThreadPoolExecutor(len(clients)) as pool:
        for key in ("first", "second", "third"):
            verdicts = collections.Counter(pool.map(lambda client, key=key: copy(client, key), clients))
            assert verdicts["started"] == 1
            assert set(verdicts) <= {"started", "busy", "replay"}
            assert effects(db, key) == 1
            assert {begin(client, key).verdict for client in clients} == {"replay"}
    assert 1 < len(seen) <= 20
    assert locks(db) == 0


def test_each_step_of_a_leased_request_can_have_another_session(db, pooled):
    one, *others = pooled(), pooled(), pooled()

    def step(client, call, *arguments, **named):
        with client.transaction():
            sessions.append(session(client))
            return call(client, *arguments, **named)

    def extend(client, token):
        client.execute("SELECT inbox.request_extend(%s, '1 minute', 'charged')", [token])

    def finish(client, token):
        effect(client)
        complete(client, token)

    sessions = []
    token = step(one, begin, lease="1 minute").token
    with occupied(others[0]):
        step(one, extend, token)
        with occupied(others[1]):
            assert step(one, begin, lease="1 minute").verdict == "busy"
            step(one, finish, token)
    assert sessions[0] != sessions[1] != sessions[2] == sessions[3] != sessions[0]
    assert begin(one).verdict == "replay"
    assert effects(db) == 1


def test_a_holder_that_lost_its_lease_is_refused_in_each_session(db, pooled):
    one, two = pooled(), pooled()
    first = begin(one, lease="1 minute")
    set_back(db, "locked_until")
    second = begin(two, lease="1 minute")
    assert second.attempt == 2

    def wakes():
        with one.transaction():
            effect(one)
            complete(one, first.token)

    raised("IB011", wakes)
    with occupied(two):
        raised("IB011", wakes)
    assert effects(db) == 0
    complete(two, second.token)
    assert begin(one).verdict == "replay"
