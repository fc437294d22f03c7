"""Idempotency keys: each verdict of request_begin(), completion in one transaction and with a lease, expiry, and operators."""

import collections
import concurrent.futures
import datetime
import hashlib
import json

import psycopg
import pytest

from test_functions import insert, interrupted
from test_operators import audit, value
from test_retention import retain
from support.wait import eventually

Begun = collections.namedtuple("Begun", "verdict token attempt point status headers body retry_after expires_at")
ISOLATIONS = ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"]
SECOND = datetime.timedelta(seconds=1)
OUT = "verdict, token, attempt, point, status, headers, body, retry_after, expires_at"


@pytest.fixture
def db(db):
    db.execute("DROP TABLE IF EXISTS public.effects")
    db.execute("CREATE TABLE public.effects (key text)")
    yield db
    db.execute("DROP TABLE IF EXISTS public.effects")


def begin(connection, key="k", fingerprint=b"f", **named):
    """Calls request_begin() with these arguments; the names are its own."""
    arguments = ", ".join(["%s", "%s::bytea", *(f"{name} => %s" for name in named)])
    return Begun(*connection.execute(f"SELECT {OUT} FROM inbox.request_begin({arguments})",
                                     [key, fingerprint, *named.values()]).fetchone())


def complete(connection, token, status=201, body=b"done", headers=None):
    connection.execute("SELECT inbox.request_complete(%s, %s, %s, %s::jsonb)",
                       [token, status, body, None if headers is None else json.dumps(headers)])


def effect(connection, key="k"):
    connection.execute("INSERT INTO public.effects VALUES (%s)", [key])


def effects(db, key="k"):
    return value(db, "SELECT count(*) FROM public.effects WHERE key = %s", key)


def serve(connection, key="k", body=b"done", **named):
    """A request in one transaction: returns what request_begin() returned."""
    with connection.transaction():
        begun = begin(connection, key, **named)
        if begun.verdict == "started":
            effect(connection, key)
            complete(connection, begun.token, body=body)
    return begun


def raised(state, call, *arguments, **named):
    """The error that this call raises, which has this SQLSTATE."""
    with pytest.raises(psycopg.Error) as error:
        call(*arguments, **named)
    assert error.value.sqlstate == state, error.value
    return error.value.diag


def set_back(db, *columns, by="1 hour"):
    """As if the row had been written earlier."""
    db.execute("UPDATE inbox.requests SET " + ", ".join(f"{column} = {column} - interval '{by}'" for column in columns))


# --- One transaction ---

def test_the_first_copy_runs_and_the_next_ones_replay(db):
    body, headers = b"\x00\xff\r\n" * 100, {"content-type": "application/json", "Location": "/orders/17"}
    with db.transaction():
        first = begin(db)
        assert (first.verdict, first.attempt, first.point) == ("started", 1, None)
        complete(db, first.token, 201, body, headers)
    for _ in range(2):
        again = begin(db)
        assert (again.verdict, again.token, again.status, again.headers, again.body) == ("replay", None, 201, headers, body)
        assert again.expires_at == first.expires_at


def test_a_response_without_body_and_headers_is_replayed_so(db):
    with db.transaction():
        complete(db, begin(db).token, 204, None)
    assert begin(db)[4:7] == (204, None, None)


def test_key_effects_and_events_commit_together_or_not_at_all(db):
    with db.transaction(force_rollback=True):
        begun = begin(db)
        effect(db)
        db.execute("SELECT inbox.emit('orders', 'k', 'order.created', '{}')")
        complete(db, begun.token)
    assert (effects(db), value(db, "SELECT count(*) FROM inbox.requests"), value(db, "SELECT count(*) FROM inbox.outbox")) == (0, 0, 0)
    assert serve(db).verdict == "started"
    assert effects(db) == 1


def test_a_request_without_completion_leaves_nothing(db):
    with db.transaction():
        begin(db)
    assert serve(db).verdict == "started"


def test_only_the_completion_writes_and_once(db):
    with db.transaction():
        begun = begin(db)
        assert value(db, "SELECT count(*) FROM inbox.requests") == 0
        complete(db, begun.token)
    assert db.execute("SELECT ctid::text, xmax::text, holder, attempt FROM inbox.requests").fetchall() == [("(0,1)", "0", 0, 1)]


def test_another_transaction_with_the_key_is_busy_and_does_not_wait(db, connect):
    other = connect()
    other.execute("SET lock_timeout = '10ms'")
    with db.transaction():
        begun = begin(db)
        complete(db, begun.token)
        assert begin(other)[:2] == ("busy", None)
        assert begin(other).retry_after == SECOND
        assert begin(other, lease="1 minute").verdict == "busy"
        assert begin(other, "other key").verdict == "started"
        assert begin(other, scope="other tenant").verdict == "started"
    assert begin(other).verdict == "replay"


def test_a_replay_beside_a_replay_is_not_busy(db, connect):
    serve(db)
    with db.transaction():
        assert begin(db).verdict == "replay"
        assert begin(connect()).verdict == "replay"
        assert begin(connect(), fingerprint=b"other").verdict == "mismatch"


def test_another_body_or_operation_is_a_mismatch(db):
    serve(db, operation="POST /orders")
    assert begin(db, fingerprint=b"g", operation="POST /orders").verdict == "mismatch"
    assert begin(db, operation="POST /payments").verdict == "mismatch"
    found = begin(db, fingerprint=None, operation="POST /orders")
    assert found.verdict == "replay"
    assert begin(db, fingerprint=b"g")[4:7] == (None, None, None)


def test_a_request_without_fingerprint_is_not_compared(db):
    serve(db, fingerprint=None)
    assert begin(db, fingerprint=b"anything").verdict == "replay"


def test_scopes_are_independent(db):
    assert serve(db, scope="a", body=b"of a").verdict == "started"
    assert serve(db, scope="b", body=b"of b").verdict == "started"
    assert [begin(db, scope=scope).body for scope in "ab"] == [b"of a", b"of b"]
    assert begin(db, "b", scope="k").verdict == "started"


@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_copies_in_each_isolation_level(db, connect, isolation):
    db.execute(f"SET default_transaction_isolation = '{isolation}'")
    assert serve(db).verdict == "started"
    assert serve(db).verdict == "replay"
    assert begin(connect(), fingerprint=b"g").verdict == "mismatch"
    assert effects(db) == 1


@pytest.mark.parametrize("isolation", ISOLATIONS[1:])
@pytest.mark.parametrize("expired", [False, True])
def test_a_snapshot_that_misses_the_completion_commits_nothing(db, connect, isolation, expired):
    other = connect()
    if expired:
        serve(db)
        set_back(db, "expires_at", by="2 days")

    def late():
        with other.transaction():
            other.execute(f"SET TRANSACTION ISOLATION LEVEL {isolation}")
            other.execute("SELECT FROM inbox.requests")
            assert serve(db, body=b"first").verdict == "started"
            begun = begin(other)
            assert begun.verdict == "started"
            effect(other)
            complete(other, begun.token, body=b"second")

    raised("40001", late)
    assert effects(db) == 1 + expired
    assert begin(other).body == b"first"


def test_in_read_committed_a_transaction_that_began_earlier_replays(db, connect):
    other = connect()
    with other.transaction():
        other.execute("SELECT FROM inbox.requests")
        serve(db)
        assert begin(other).verdict == "replay"


@pytest.mark.parametrize("copies", [5, 50])
def test_of_many_copies_at_once_one_runs(db, server, connect, copies):
    connections = [connect() for _ in range(copies)]
    with concurrent.futures.ThreadPoolExecutor(copies) as pool:
        for key in ("first", "second", "third"):
            verdicts = collections.Counter(begun.verdict for begun in pool.map(lambda c, key=key: serve(c, key), connections))
            assert verdicts["started"] == 1
            assert set(verdicts) <= {"started", "busy", "replay"}
            assert effects(db, key) == 1
            answers = {(begun.verdict, begun.status, begun.body) for begun in pool.map(lambda c, key=key: begin(c, key), connections)}
            assert answers == {("replay", 201, b"done")}


def test_a_killed_backend_leaves_the_key_free_at_once(db, connect):
    other = connect()
    other.execute("BEGIN")
    begun = begin(other)
    effect(other)
    complete(other, begun.token)
    assert begin(db).verdict == "busy"
    pid = other.info.backend_pid
    db.execute("SELECT pg_terminate_backend(%s, 60000)", [pid])
    assert serve(db).verdict == "started"
    assert effects(db) == 1


def test_a_collision_of_the_lock_is_busy_and_nothing_worse(db, connect):
    """Two keys with one number cannot be found; so this holds the number itself."""
    other = connect()
    with other.transaction():
        other.execute("SELECT pg_advisory_xact_lock(inbox.request_lock('', 'k'))")
        assert begin(db).verdict == "busy"
    assert serve(db).verdict == "started"
    with other.transaction():
        other.execute("SELECT pg_advisory_xact_lock(inbox.request_lock('', 'k'))")
        assert begin(db).verdict == "replay"


def test_the_lock_is_taken_before_the_row_is_read(db, connect):
    """The snapshot of the first statement can be older than the commit that frees the lock."""
    db.execute("CREATE OR REPLACE FUNCTION inbox.request_lock(scope text, key text) RETURNS bigint LANGUAGE plpgsql AS"
               " 'BEGIN PERFORM pg_advisory_xact_lock(99); RETURN 7; END'")
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        db.execute("SELECT pg_advisory_lock(99)")
        late = pool.submit(serve, connect())
        eventually(lambda: value(db, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted") == 1,
                   what="the first statement has its snapshot")
        db.execute("INSERT INTO inbox.requests (scope, key, operation, fingerprint, holder, completed_at, status, expires_at)"
                   " VALUES ('', 'k', '', 'f', 0, now(), 200, now() + interval '1 day')")
        db.execute("SELECT pg_advisory_unlock(99)")
        assert late.result().verdict == "replay"


def test_two_requests_of_one_transaction(db):
    with db.transaction():
        tokens = [begin(db, key).token for key in ("a", "b")]
        for token in reversed(tokens):
            complete(db, token)
    assert [begin(db, key).verdict for key in ("a", "b")] == ["replay", "replay"]


def test_a_begin_that_was_rolled_back_to_a_savepoint_excludes_nobody(db, connect):
    with pytest.raises(psycopg.Error) as error, db.transaction():
        db.execute("SAVEPOINT s")
        begun = begin(db)
        db.execute("ROLLBACK TO s")
        assert serve(connect(), body=b"other").verdict == "started"
        complete(db, begun.token)
    assert error.value.sqlstate == "IB011"
    assert begin(db).body == b"other"


def test_a_second_completion_is_lost(db):
    def twice():
        with db.transaction():
            begun = begin(db)
            complete(db, begun.token)
            assert begin(db).verdict == "replay"
            complete(db, begun.token)

    assert "completed already" in raised("IB011", twice).message_primary
    assert begin(db).verdict == "started"


def test_a_token_of_another_transaction_is_lost(db):
    token = begin(db).token
    found = raised("IB011", complete, db, token)
    assert "another transaction" in found.message_primary
    assert "BEGIN" in found.message_hint


def test_a_prepared_transaction_keeps_the_key_until_its_end(db, connect):
    other = connect()
    other.execute("BEGIN")
    complete(other, begin(other).token)
    other.execute("PREPARE TRANSACTION 'of requests'")
    assert begin(db).verdict == "busy"
    other.execute("COMMIT PREPARED 'of requests'")
    assert begin(db).verdict == "replay"


def test_a_request_can_be_served_with_prepared_statements_on_changing_connections(db, connect):
    """As behind PgBouncer in transaction mode: nothing is kept in the session."""
    connections = [connect() for _ in range(3)]
    for n, connection in enumerate(connections):
        for key in range(7):
            assert serve(connection, f"k{key}").verdict == ("replay" if n else "started")
    assert value(db, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'") == 0


# --- Arguments ---

BEGIN_FAULTS = [
    ("key", {"key": None}), ("key", {"key": ""}), ("key", {"key": "k" * 256}), ("key", {"key": "ü" * 128}), ("key", {"key": "a\nb"}),
    ("key", {"key": "a\x7fb"}), ("key", {"key": "a\x85b"}), ("scope", {"scope": None}), ("scope", {"scope": "s" * 256}),
    ("operation", {"operation": None}), ("operation", {"operation": "o" * 129}), ("fingerprint", {"fingerprint": b"f" * 256}),
    ("lease", {"lease": "999 milliseconds"}), ("lease", {"lease": "1 hour 1 second"}), ("lease", {"lease": "-1 second"}),
    ("keep", {"keep": None}), ("keep", {"keep": "59 seconds"}), ("keep", {"keep": "91 days"}), ("lost", {"lost": None}),
    ("lost", {"lost": "ignore"})]


@pytest.mark.parametrize(("named", "values"), BEGIN_FAULTS)
def test_a_wrong_argument_of_begin_is_named(db, named, values):
    found = raised("IB010", begin, db, **values)
    assert found.message_primary.startswith(f"inbox.request_begin: {named} ")
    assert len(found.message_primary) < 200


def test_the_longest_and_the_shortest_values_are_accepted(db):
    for number, (lease, keep) in enumerate([("1 second", "1 minute"), ("1 hour", "90 days"), (None, "90 days")]):
        with db.transaction():
            begun = begin(db, f"{number}" + "k" * 254, b"f" * 255, scope="s" * 255, operation="o" * 128, lease=lease, keep=keep)
            complete(db, begun.token, 599 if number else 100, b"x" * (1 << 20), {"h": "v" * 16000})
    assert value(db, "SELECT array_agg(DISTINCT body_bytes) FROM inbox.request_states") == [1 << 20]


COMPLETE_FAULTS = [
    ("token", {"token": None}), ("token", {"token": ""}), ("token", {"token": "t.1.1"}), ("token", {"token": "l.1..6"}),
    ("token", {"token": "l.1..zz"}), ("status", {"status": None}), ("status", {"status": 99}), ("status", {"status": 600}),
    ("status", {"status": 100000}), ("body", {"body": b"x" * ((1 << 20) + 1)}), ("headers", {"headers": ["a"]}),
    ("headers", {"headers": {"a": 1}}), ("headers", {"headers": {"a": None}}), ("headers", {"headers": {"a": ["b"]}}),
    ("headers", {"headers": {"a b": "c"}}), ("headers", {"headers": {"": "c"}}), ("headers", {"headers": {"a": "b\r\nc: d"}}),
    ("headers", {"headers": {"Set-Cookie": "a=b"}}), ("headers", {"headers": {"Transfer-Encoding": "chunked"}}),
    ("headers", {"headers": {"connection": "close"}}), ("headers", {"headers": {"keep-alive": "1"}}),
    ("headers", {"headers": {"upgrade": "h2c"}}), ("headers", {"headers": {"a": "x" * 16384}}),
    ("headers", {"headers": {"TRANSFER-ENCODING": "chunked"}}), ("headers", {"headers": {"a": "\\ \" \t", "b": "\n"}})]


@pytest.mark.parametrize(("named", "values"), COMPLETE_FAULTS)
@pytest.mark.parametrize("lease", [None, "1 minute"])
def test_a_wrong_argument_of_complete_is_named(db, named, values, lease):
    def run():
        with db.transaction():
            complete(db, **{"token": begin(db, lease=lease).token, **values})

    found = raised("IB010", run)
    assert found.message_primary.startswith(f"inbox.request_complete: {named} ")
    assert len(found.message_primary) < 200


def test_the_short_check_of_a_response_accepts_what_the_long_one_does(db):
    names = ["a", "A-b.c~1", "x y", "", "a\"b", "a\\b", "a\n", "ä", "a\x7f", "te", "TE", "set-cookie", "İ"]
    texts = ["", "v", "a, b", "\"", "\\", "\t", "\n", "\x1f", "\x7f", "ä😀", "\": \"", "\", \"te\": \"", "/", "\u2028", "\x85"]
    values = [*texts, 1, None, True, [], {}, ["a"]]
    headers = [[], {}, 1, None, *({name: text} for name in names for text in values),
               *({"b": "\\", "c": "d", name: text} for name in names for text in values), *([{"a": text}] for text in values)]
    found = db.execute("SELECT h, inbox.response_is_right(200, NULL, h), inbox.response_headers_fault(h) FROM"
                       " jsonb_array_elements(%s::jsonb) h", [json.dumps(headers)]).fetchall()
    assert len(found) == len(headers) > 500
    assert [headers for headers, right, fault in found if right != (fault is None)] == []
    assert {right for _, right, _ in found} == {True, False}
    statuses = db.execute("SELECT s, inbox.response_is_right(s, ''::bytea, NULL), inbox.response_fault(s, '') FROM"
                          " unnest('{99,100,599,600,NULL}'::int[]) s").fetchall()
    assert [status for status, right, fault in statuses if right != (fault is None)] == []


@pytest.mark.parametrize(("named", "values"), [("lease", ["2 hours", None]), ("lease", ["0", None]), ("point", [None, ""]),
                                               ("point", [None, "p" * 1025])])
def test_a_wrong_argument_of_extend_is_named(db, named, values):
    token = begin(db, lease="1 minute").token
    found = raised("IB010", db.execute, "SELECT inbox.request_extend(%s, %s, %s)", [token, *values])
    assert found.message_primary.startswith(f"inbox.request_extend: {named} ")


@pytest.mark.parametrize("token", [None, "", "x", "l.1.61", "l.1.61.6", "l.1.61.6g", "l..61.61", "l.1.61.61.61", "l.1.61.61\n",
                                   "l.9223372036854775808.61.61", "l.99999999999999999999.61.61", "t.1.1.1..61.61", "t.1.1.1..61.61.6",
                                   "t.1.1.1.x.61.61.61", "t..1.1..61.61.61", "t.1.1.1..61.61.61.61.61", "t.1.1.1.9223372036854775808.61.61.61",
                                   "t.1.2147483648.1..61.61.61", "t.1.1.9999999999999999999..61.61.61"])
def test_what_is_no_token_is_refused(db, token):
    assert raised("IB010", complete, db, token).message_primary.startswith("inbox.request_complete: token is ")


@pytest.mark.parametrize("call", ["request_fail(%s)", "request_extend(%s, '1 minute')"])
def test_fail_and_extend_need_a_lease(db, call):
    assert "without a lease" in raised("IB010", db.execute, f"SELECT inbox.{call}", [begin(db).token]).message_primary
    assert raised("IB010", db.execute, f"SELECT inbox.{call}", ["x"]).message_primary.endswith("unchanged")


def test_a_digest_is_that_of_method_target_and_body(db):
    def digest(*arguments):
        return value(db, "SELECT inbox.request_digest(%s, %s, %s::bytea)", *arguments)

    assert digest("POST", "/orders?a=b", b"\x00x") == hashlib.sha256(b"POST /orders?a=b\n\x00x").digest()
    assert digest("POST", "/ü", None) == digest("POST", "/ü", b"") == hashlib.sha256("POST /ü\n".encode()).digest()
    for method, target in [(None, "/"), ("", "/"), ("PO ST", "/"), ("POST", None), ("POST", ""), ("POST", "/a b"), ("POST", "/\n")]:
        raised("IB010", digest, method, target, b"")


# --- Leased ---

def test_a_leased_request_runs_between_two_transactions(db):
    begun = begin(db, lease="10 minutes")
    assert (begun.verdict, begun.attempt) == ("started", 1)
    busy = begin(db, lease="10 minutes")
    assert busy.verdict == "busy"
    assert 540 * SECOND < busy.retry_after <= 600 * SECOND
    assert begin(db).verdict == "busy"
    assert begin(db, fingerprint=b"g").verdict == "mismatch"
    with db.transaction():
        effect(db)
        complete(db, begun.token, headers={"a": "b"})
    for lease in (None, "10 minutes"):
        assert begin(db, lease=lease)[4:7] == (201, {"a": "b"}, b"done")
    assert begin(db).expires_at == begun.expires_at


def test_a_failed_request_runs_again_with_its_point(db):
    begun = begin(db, lease="1 minute")
    db.execute("SELECT inbox.request_extend(%s, point => 'charged'), inbox.request_fail(%s, 'upstream 503')", [begun.token] * 2)
    assert db.execute("SELECT state, error, lost FROM inbox.request_states").fetchall() == [("FAILED", "upstream 503", False)]
    assert begin(db, fingerprint=b"g", lease="1 minute").verdict == "mismatch"
    again = begin(db, lease="1 minute", lost="refuse")
    assert (again.verdict, again.attempt, again.point) == ("started", 2, "charged")
    raised("IB011", complete, db, begun.token)
    complete(db, again.token)
    assert db.execute("SELECT state, error, attempt FROM inbox.request_states").fetchall() == [("COMPLETED", None, 2)]


def test_a_lease_that_is_over_is_taken_over_and_the_first_holder_has_lost_it(db, connect):
    first = begin(db, lease="1 minute")
    db.execute("SELECT inbox.request_extend(%s, point => 'charged')", [first.token])
    set_back(db, "locked_until")
    assert value(db, "SELECT lost FROM inbox.request_states")
    second = begin(db, lease="1 minute")
    assert (second.verdict, second.attempt, second.point) == ("started", 2, "charged")

    def wakes(sql, *more):
        with db.transaction():
            effect(db)
            db.execute(f"SELECT inbox.{sql}", [first.token, *more])

    for sql in ("request_complete(%s, 200)", "request_fail(%s)", "request_extend(%s, '1 minute')"):
        found = raised("IB011", wakes, sql)
        assert "Roll back" in found.message_hint
    assert effects(db) == 0
    complete(db, second.token)
    assert begin(db).verdict == "replay"


def test_a_holder_completes_after_its_lease_if_nobody_took_it_over(db):
    begun = begin(db, lease="1 minute")
    set_back(db, "locked_until")
    complete(db, begun.token)
    assert begin(db, lease="1 minute").verdict == "replay"


def test_refuse_says_lost_until_an_operator_decides(db):
    first = begin(db, lease="1 minute")
    set_back(db, "locked_until")
    found = begin(db, lease="1 minute", lost="refuse")
    assert (found.verdict, found.token, found.attempt) == ("lost", None, 1)
    assert begin(db, fingerprint=b"g", lost="refuse").verdict == "mismatch"
    assert value(db, "SELECT inbox.request_forget('', 'k', 'looked it up')")
    assert begin(db, lease="1 minute", lost="refuse").verdict == "started"
    raised("IB011", complete, db, first.token)


def test_a_lost_request_can_be_completed_by_hand(db):
    begin(db, lease="1 minute")
    set_back(db, "locked_until")
    with db.transaction():
        complete(db, begin(db, fingerprint=None).token, 200, b"by hand")
    assert begin(db, lost="refuse")[4:7] == (200, None, b"by hand")


def test_while_a_holder_completes_its_lease_is_not_taken_over(db, connect):
    other = connect()
    other.execute("SET lock_timeout = '10ms'")
    first = begin(db, lease="1 minute")
    set_back(db, "locked_until")
    with db.transaction():
        complete(db, first.token)
        for lease in (None, "1 minute"):
            assert begin(other, lease=lease).verdict == "busy"
    assert begin(other).verdict == "replay"


@pytest.mark.parametrize("lease", [None, "1 minute"])
def test_a_point_that_is_set_while_the_next_attempt_begins_is_not_lost(db, connect, lease):
    """The slow holder commits between the statement that reads the row and the one that locks it."""
    first = begin(db, lease="1 minute")
    set_back(db, "locked_until")
    with interrupted(db, "request_begin", "    IF earlier.expires_at > looked_at", begin, connect(), lease=lease) as late:
        db.execute("SELECT inbox.request_extend(%s, point => 'charged')", [first.token])
    second = late.result()
    assert (second.verdict, second.attempt, second.point) == ("started", 2, "charged")
    assert value(db, "SELECT point FROM inbox.requests") == "charged"


def test_a_request_in_one_transaction_takes_a_lease_over_that_is_over(db, connect):
    first = begin(db, lease="1 minute")
    set_back(db, "locked_until")
    late = connect()
    late.execute("SET lock_timeout = '10ms'")
    with db.transaction():
        second = begin(db)
        assert (second.verdict, second.attempt) == ("started", 2)
        raised("55P03", complete, late, first.token)
        complete(db, second.token, body=b"second")
    raised("IB011", complete, late, first.token)
    assert begin(db).body == b"second"


def test_extending_moves_the_end_of_the_lease_and_of_the_row(db):
    token = begin(db, lease="1 second", keep="1 minute").token
    db.execute("SELECT inbox.request_extend(%s)", [token])
    db.execute("SELECT inbox.request_extend(%s, '1 hour')", [token])
    (left, kept) = db.execute("SELECT locked_until - now(), expires_at - now() FROM inbox.requests").fetchone()
    assert 3500 * SECOND < left <= 3601 * SECOND
    assert kept == left


def test_a_leased_request_of_a_transaction_that_rolls_back_never_began(db):
    with db.transaction(force_rollback=True):
        begun = begin(db, lease="1 minute")
    raised("IB011", complete, db, begun.token)
    assert begin(db, lease="1 minute").attempt == 1


@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_leases_in_each_isolation_level(db, connect, isolation):
    db.execute(f"SET default_transaction_isolation = '{isolation}'")
    first = begin(db, lease="1 minute")
    set_back(db, "locked_until")
    second = begin(db, lease="1 minute")
    assert second.attempt == 2
    assert raised("IB011", complete, db, first.token)
    complete(db, second.token)
    assert begin(db).verdict == "replay"


@pytest.mark.parametrize("lease", [None, "1 minute"])
def test_an_old_snapshot_takes_no_lease_over_twice(db, connect, lease):
    begin(db, lease="1 minute")
    set_back(db, "locked_until")
    other = connect()

    def late():
        with other.transaction():
            other.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            other.execute("SELECT FROM inbox.requests")
            assert begin(db, lease="1 minute").attempt == 2
            begin(other, lease=lease)

    raised("40001", late)
    assert value(db, "SELECT attempt FROM inbox.requests") == 2


def test_of_many_takeovers_at_once_one_runs(db, connect):
    connections = [connect() for _ in range(20)]
    with concurrent.futures.ThreadPoolExecutor(20) as pool:
        begin(db, lease="1 minute")
        for attempt in range(2, 7):
            set_back(db, "locked_until")
            found = list(pool.map(lambda c: begin(c, lease="1 minute"), connections))
            assert sorted(begun.verdict for begun in found) == ["busy"] * 19 + ["started"]
            assert max(begun.attempt for begun in found if begun.token) == attempt


def test_completing_a_leased_request_touches_no_index(db):
    if db.info.server_version < 150000:
        pytest.skip("pg_stat_force_next_flush() came with PostgreSQL 15")
    tokens = [begin(db, f"k{n}", lease="1 minute").token for n in range(50)]
    counts = "SELECT pg_stat_force_next_flush(), n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relid = 'inbox.requests'::regclass"
    db.execute(counts)
    before = db.execute(counts).fetchone()[1:]
    for token in tokens:
        complete(db, token, headers={"content-type": "text/plain"})
    db.execute(counts)
    assert tuple(now - then for now, then in zip(db.execute(counts).fetchone()[1:], before)) == (50, 50)


# --- Expiry ---

def test_an_expired_request_runs_anew(db):
    serve(db, body=b"old", keep="1 minute")
    set_back(db, "expires_at")
    with db.transaction():
        begun = begin(db, fingerprint=b"another")
        assert (begun.verdict, begun.attempt) == ("started", 1)
        complete(db, begun.token, body=b"new")
    assert begin(db, fingerprint=b"another").body == b"new"
    assert value(db, "SELECT count(*) FROM inbox.requests") == 1


def test_an_expired_lease_runs_anew(db):
    begin(db, lease="1 minute")
    set_back(db, "locked_until", "expires_at", by="2 days")
    again = begin(db, fingerprint=b"g", lease="1 minute", lost="refuse")
    assert (again.verdict, again.attempt) == ("started", 1)


def test_the_time_of_expiry_is_told_at_the_begin_and_kept(db):
    with db.transaction():
        begun = begin(db, keep="2 hours")
        complete(db, begun.token)
    assert value(db, "SELECT expires_at FROM inbox.requests") == begun.expires_at
    assert 7100 * SECOND < begun.expires_at - value(db, "SELECT now()") <= 7200 * SECOND


def test_a_lease_never_ends_after_the_row(db):
    assert begin(db, lease="1 hour", keep="1 minute").expires_at == value(db, "SELECT locked_until FROM inbox.requests")


def test_the_janitor_deletes_what_is_expired_in_batches(db):
    for n in range(25):
        serve(db, f"old{n}", keep="1 minute")
    set_back(db, "expires_at")
    for n in range(5):
        serve(db, f"new{n}")
    begin(db, "leased", lease="1 hour", keep="1 minute")
    assert [retain(db, "requests", 0, 10) for _ in range(3)] == [(True, 10, True), (True, 10, True), (True, 5, False)]
    assert value(db, "SELECT count(*) FROM inbox.requests") == 6
    assert retain(db, "requests", 0, 10) == (True, 0, False)


def test_the_janitor_waits_for_no_row_and_deletes_none_that_runs_anew(db, connect):
    serve(db, "k", keep="1 minute")
    set_back(db, "expires_at")
    other = connect()
    with other.transaction():
        begun = begin(other)
        db.execute("SET lock_timeout = '10ms'")
        assert retain(db, "requests", 0) == (True, 0, False)
        complete(other, begun.token, body=b"new")
    assert retain(db, "requests", 0) == (True, 0, False)
    assert begin(db).body == b"new"


def test_the_janitor_takes_completed_leases_out_of_their_index(db):
    for n in range(3):
        complete(db, begin(db, f"done{n}", lease="1 minute").token)
    begin(db, "running", lease="1 minute")
    retain(db, "requests_leased", 0)
    assert db.execute("SELECT key FROM inbox.requests WHERE holder <> 0").fetchall() == [("running",)]
    assert begin(db, "done1").verdict == "replay"


# --- Operators, messages ---

def test_forgetting_is_audited_and_waits_for_nobody(db, connect):
    assert not value(db, "SELECT inbox.request_forget('', 'k', 'why')")
    serve(db, scope="tenant")
    other = connect()
    with other.transaction():
        other.execute("SELECT FROM inbox.requests FOR UPDATE")
        assert not value(db, "SELECT inbox.request_forget('tenant', 'k', 'why')")
    assert value(db, "SELECT inbox.request_forget('tenant', 'k', 'why')")
    (row,) = audit(db)
    assert (row["action"], row["filter"], row["reason"], row["affected"]) == (
        "request_forget", {"scope": "tenant", "key": "k"}, "why", 1)
    assert serve(db, scope="tenant").verdict == "started"
    for arguments in ([None, "k"], ["", None], ["", ""]):
        assert raised("IB010", db.execute, "SELECT inbox.request_forget(%s, %s, 'r')", arguments).message_primary.startswith(
            "inbox.request_forget: ")


def test_the_view_has_states_and_no_responses(db):
    serve(db, "done", operation="POST /orders")
    begin(db, "running", lease="1 minute")
    assert db.execute("SELECT key, state, lost, status, body_bytes FROM inbox.request_states ORDER BY key").fetchall() == [
        ("done", "COMPLETED", False, 201, 4), ("running", "PENDING", False, None, None)]
    columns = {row[0] for row in db.execute("SELECT column_name FROM information_schema.columns"
                                            " WHERE table_name = 'request_states'")}
    assert not columns & {"body", "headers", "holder"}


def test_the_result_of_a_message_can_be_read(db):
    def result(*names):
        return db.execute(f"SELECT * FROM inbox.result({', '.join(['%s'] * len(names))})", names).fetchone()

    seq = insert(db, "done")
    db.execute("SELECT inbox.complete(%s, '{\"charge\": 7}'::jsonb)", [f"{seq}.1.1"])
    insert(db, "dead", dead_at="now", error="boom", error_code="E")
    insert(db, "other", consumer="search")
    assert result("s", "done")[:2] == ("processed", {"charge": 7})
    assert result("s", "done")[2] is not None
    assert result("s", "dead") == ("dead", None, None, "boom", "E")
    assert result("s", "other") == result("x", "done") == (None,) * 5
    assert result("s", "other", "search")[0] == "claimed"


def test_a_result_that_is_missing_says_where_the_event_is(db):
    """An event that came through an outbox has the source of its service, and not the topic."""
    insert(db, "A1", source="/shop", consumer="billing")
    notices = []
    db.add_notice_handler(lambda notice: notices.append((notice.message_primary, notice.message_hint)))
    db.execute("SET client_min_messages = notice")
    for call in ("'orders', 'A1'", "'/shop', 'A1'", "'orders', 'never'"):
        assert db.execute(f"SELECT status FROM inbox.result({call})").fetchone() == (None,)
    hint = "The inbox has this event id with source '/shop', consumer 'billing'."
    assert notices == [("inbox.result: there is no event 'A1' of source 'orders' for the consumer without a name", hint),
                       ("inbox.result: there is no event 'A1' of source '/shop' for the consumer without a name", hint)]
