"""inbox.retain(): what it deletes and keeps, which instance runs it, and its cost."""

import psycopg
import pytest

from support.wait import in_time
from test_functions import insert, row_of
from test_operators import dead, ids, processed, value, waiting

DAY = 24 * 3600 * 1000
LONG_AGO = {"received_at": "2020-01-01"}
DONE_LONG_AGO = {**LONG_AGO, "processed_at": "2020-01-01"}


def retain(db, what, age_ms=DAY, max_rows=1000, instance=1):
    """(elected, affected, more)"""
    return db.execute("SELECT elected, affected, more FROM inbox.retain(%s, %s, %s, %s, true)",
                      [instance, what, age_ms, max_rows]).fetchone()


def all_of(db, what, age_ms=DAY, max_rows=1000):
    """Runs batches until there is no more; returns the number of changed rows."""
    total = 0
    while True:
        elected, affected, more = retain(db, what, age_ms, max_rows)
        assert elected
        total += affected
        if not more:
            return total


def look_again(db):
    """Makes the second walk, over skipped rows, start now."""
    db.execute("UPDATE inbox.inbox_janitor SET walks = (SELECT jsonb_object_agg(key, value || '{\"rested_at\":"
               " \"2000-01-01\"}') FROM jsonb_each(walks))")


def left(db):
    return {row[0] for row in db.execute("SELECT event_id FROM inbox.inbox_messages")}


def unfinished(db):
    insert(db, "claimed", **LONG_AGO)
    waiting(db, "waiting", **LONG_AGO)
    waiting(db, "parked", **{**LONG_AGO, "available_at": "infinity"})
    waiting(db, "retrying", **LONG_AGO, retry_count=1)
    return {"claimed", "waiting", "parked", "retrying"}


def test_processed_rows_are_deleted_at_their_age(db):
    processed(db, "old", **DONE_LONG_AGO)
    processed(db, "just done", **LONG_AGO)
    processed(db, "new")
    dead(db, "dead", **LONG_AGO)
    assert retain(db, "processed") == (True, 1, False)
    assert left(db) == {"just done", "new", "dead"}


def test_a_payload_is_dropped_and_its_digest_is_kept(db):
    seq = processed(db, "old", headers='[["a", "b"]]', result='{"n": 1}', **DONE_LONG_AGO)
    processed(db, "new", headers='[["a", "b"]]')
    assert retain(db, "payload") == (True, 1, False)
    row = row_of(db, seq)
    assert (row["payload"], row["headers"], row["payload_digest"]) == (None, [], b"d")
    assert (row["status"], row["result"]) == ("processed", {"n": 1})
    assert value(db, "SELECT payload FROM inbox.inbox_messages WHERE event_id = 'new'") == b"{}"


def test_a_row_without_payload_is_not_updated_again_but_deleted_later(db):
    processed(db, "old", **DONE_LONG_AGO)
    assert all_of(db, "payload") == 1
    look_again(db)
    assert all_of(db, "payload") == 0
    assert all_of(db, "processed") == 1


def test_a_dropped_payload_cannot_be_replayed(db):
    processed(db, "old", **DONE_LONG_AGO)
    retain(db, "payload")
    with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState):
        db.execute("SELECT inbox.replay('s', 'old')")
    assert ids(db, "processed") == ["old"]


def test_a_dropped_payload_without_digest_cannot_be_replayed(db):
    processed(db, "old", payload_digest=None, **DONE_LONG_AGO)
    retain(db, "payload")
    assert value(db, "SELECT inbox.replay_where('processed')") == 0


def test_a_tombstone_keeps_its_headers_and_can_be_replayed(db):
    seq = processed(db, "old", payload=None, payload_digest=None, headers='[["a", "b"]]', **DONE_LONG_AGO)
    assert retain(db, "payload")[1] == 0
    assert value(db, "SELECT inbox.replay('s', 'old')") is True
    assert row_of(db, seq)["headers"] == [["a", "b"]]


@pytest.mark.parametrize("what", ["payload", "processed", "dead"])
def test_unfinished_rows_are_never_touched(db, what):
    expected = unfinished(db)
    before = db.execute("SELECT m::text FROM inbox.inbox_messages m ORDER BY seq").fetchall()
    for _ in range(3):
        assert all_of(db, what, age_ms=0) == 0
        if what != "dead":
            look_again(db)
    assert left(db) == expected
    assert db.execute("SELECT m::text FROM inbox.inbox_messages m ORDER BY seq").fetchall() == before


def test_a_row_finished_behind_the_walk_is_deleted_in_the_next_walk(db):
    unfinished(db)
    processed(db, "old", **DONE_LONG_AGO)
    assert all_of(db, "processed") == 1
    db.execute("UPDATE inbox.inbox_messages SET processed_at = '2020-01-02' WHERE event_id = 'claimed'")
    assert all_of(db, "processed") == 0
    look_again(db)
    assert all_of(db, "processed", max_rows=2) == 1
    assert left(db) == {"waiting", "parked", "retrying"}


def test_the_next_walk_starts_after_a_tenth_of_the_age(db):
    unfinished(db)
    all_of(db, "processed")
    db.execute("UPDATE inbox.inbox_messages SET processed_at = '2020-01-02' WHERE event_id = 'claimed'")
    rested = "UPDATE inbox.inbox_janitor SET walks = jsonb_set(walks, '{processed,rested_at}', to_jsonb(now() - %s::interval))"
    db.execute(rested, ["2 hours"])
    assert all_of(db, "processed") == 0
    db.execute(rested, ["3 hours"])
    assert all_of(db, "processed") == 1


def test_a_walk_works_in_batches_and_ends_at_young_rows(db):
    for number in range(10):
        processed(db, f"old{number}", **DONE_LONG_AGO)
    waiting(db, "waits", **LONG_AGO)
    for number in range(10):
        processed(db, f"new{number}")
    assert [retain(db, "processed", max_rows=4) for _ in range(4)] == [
        (True, 4, True), (True, 4, True), (True, 2, False), (True, 0, False)]
    assert value(db, "SELECT (walks -> 'processed' ->> 'front')::bigint = (SELECT seq FROM inbox.inbox_messages"
                     " WHERE event_id = 'waits') FROM inbox.inbox_janitor") is True


def test_a_walk_stops_before_rows_that_may_still_be_claimed(db):
    """The rows were received long ago and processed just now: hardly any must wait for the second walk."""
    processed(db, "a", received_at="now", processed_at="now")
    db.execute("UPDATE inbox.inbox_messages SET received_at = now() - interval '24 hours 1 minute'")
    assert all_of(db, "processed") == 0
    db.execute("UPDATE inbox.inbox_messages SET processed_at = now() - interval '24 hours 1 second'")
    assert all_of(db, "processed") == 1


def test_a_row_with_a_future_time_does_not_block_others(db):
    for number in range(5):
        processed(db, f"future{number}", received_at="2100-01-01", processed_at="2100-01-01")
    processed(db, "old", **DONE_LONG_AGO)
    assert all_of(db, "processed", max_rows=2) == 1


def test_dead_rows_have_their_own_age(db):
    dead(db, "old", dead_at="2020-01-01")
    dead(db, "older", dead_at="2019-01-01")
    dead(db, "new", **LONG_AGO)
    assert retain(db, "dead", max_rows=1) == (True, 1, True)
    assert left(db) == {"old", "new"}
    assert all_of(db, "dead") == 1
    assert left(db) == {"new"}


@pytest.mark.parametrize("what, table, stamp, columns, values", [
    ("rejects", "inbox_rejects", "received_at", "topic, kafka_partition, kafka_offset, reason", "'t', 0, {n}, 'r'"),
    ("conflicts", "inbox_conflicts", "received_at", "source, event_id, topic, kafka_partition, kafka_offset",
     "'s', 'e', 't', 0, {n}"),
    ("audit", "inbox_audit", "at", "action", "'{n}'"),
])
def test_rejects_conflicts_and_audit_rows_are_deleted_at_their_age(db, what, table, stamp, columns, values):
    for number, at in enumerate(["2020-01-01", "2020-01-02", "now", "now"]):
        db.execute(f"INSERT INTO inbox.{table} ({stamp}, {columns}) VALUES ('{at}', {values.format(n=number)})")
    assert retain(db, what, max_rows=1) == (True, 1, True)
    assert all_of(db, what, max_rows=1) == 1
    assert value(db, f"SELECT count(*) FROM inbox.{table} WHERE {stamp} > now() - interval '1 hour'") == 2
    assert value(db, f"SELECT count(*) FROM inbox.{table}") == 2


def test_instances_rescued_long_ago_are_deleted(db):
    db.execute("INSERT INTO inbox.inbox_instances (id, name, low_seq, fenced_at, rescued_at) VALUES"
               " (2, 'rescued', 1, '2020-01-01', '2020-01-01'), (3, 'not yet', 1, '2020-01-01', NULL),"
               " (4, 'just now', 1, now(), now())")
    assert retain(db, "instances") == (True, 1, False)
    assert {row[0] for row in db.execute("SELECT id FROM inbox.inbox_instances")} == {1, 3, 4}


@pytest.mark.parametrize("what", ["payload", "processed", "dead"])
def test_a_locked_row_is_skipped_without_waiting(db, connect, what):
    make = dead if what == "dead" else processed
    for event_id in ("free", "locked"):
        make(db, event_id, **({"dead_at": "2020-01-01"} if what == "dead" else DONE_LONG_AGO))
    db.execute("SET lock_timeout = '2s'")
    other = connect()
    with other.transaction():
        other.execute("SELECT FROM inbox.inbox_messages WHERE event_id = 'locked' FOR KEY SHARE")
        assert all_of(db, what) == 1
    if what != "dead":
        look_again(db)
    assert all_of(db, what) == 1


def test_a_replayed_row_is_kept(db):
    processed(db, "a", **DONE_LONG_AGO)
    db.execute("SELECT inbox.replay('s', 'a')")
    for what in ("payload", "processed"):
        assert all_of(db, what) == 0
    assert ids(db, "waiting") == ["a"]


def make_instance(db, number):
    db.execute("INSERT INTO inbox.inbox_instances (id, name, low_seq) VALUES (%s, 'other', 1)", [number])


WHATS = ["payload", "processed", "dead", "rejects", "conflicts", "audit", "instances", "outbox", "outbox_dead", "requests",
         "requests_leased"]


def fill(db, what, count):
    """Rows of this kind that are due; returns their table."""
    columns, values = {
        "rejects": ("topic, kafka_partition, kafka_offset, reason, received_at", "'t', 0, n, 'r', '2020-01-01'"),
        "conflicts": ("source, event_id, topic, kafka_partition, kafka_offset, received_at", "'s', 'e', 't', 0, n, '2020-01-01'"),
        "audit": ("at, action", "'2020-01-01', 'x'"),
        "instances": ("id, name, low_seq, fenced_at, rescued_at", "n - 100, 'x', 1, '2020-01-01', '2020-01-01'"),
        "outbox": ("topic, event_type, created_at, published_at", "'t', 'e', '2020-01-01', '2020-01-01'"),
        "outbox_dead": ("topic, event_type, created_at, dead_at", "'t', 'e', '2020-01-01', '2020-01-01'"),
        "requests": ("scope, key, holder, completed_at, expires_at", "'', 'k' || n, 0, '2020-01-01', '2020-01-02'::timestamptz + n * interval '1 s'"),
        "requests_leased": ("scope, key, holder, completed_at, expires_at", "'', 'k' || n, n, '2020-01-01', '2100-01-02'::timestamptz + n * interval '1 s'"),
    }.get(what, ("source, event_id, topic, kafka_partition, kafka_offset, payload, received_at, "
                 + ("dead_at" if what == "dead" else "processed_at"), "'s', 'e' || n, 't', 0, n, '{}', '2020-01-01', '2020-01-01'"))
    table = "inbox." + {"rejects": "inbox_rejects", "conflicts": "inbox_conflicts", "audit": "inbox_audit",
                        "instances": "inbox_instances", "outbox": "outbox", "outbox_dead": "outbox", "requests": "requests",
                        "requests_leased": "requests"}.get(what, "inbox_messages")
    db.execute(f"INSERT INTO {table} ({columns}) SELECT {values} FROM generate_series(1, {count}) n")
    return table


def refuse_some(db, table, condition):
    db.execute("CREATE FUNCTION inbox.no() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'not this one'; END $$")
    db.execute(f"CREATE TRIGGER no BEFORE UPDATE OR DELETE ON {table} FOR EACH ROW WHEN ({condition})"
               " EXECUTE FUNCTION inbox.no()")


@pytest.mark.parametrize("what", WHATS)
def test_a_row_that_is_refused_is_named_and_does_not_keep_the_others(db, what):
    table = fill(db, what, 20)
    number = {"instances": "OLD.id + 100", "requests": "substr(OLD.key, 2)::int", "requests_leased": "substr(OLD.key, 2)::int"}
    low = value(db, f"SELECT min(seq) FROM {table}") if what not in number else 1
    refuse_some(db, table, f"{number.get(what, f'OLD.seq - {low - 1}')} IN (3, 4, 12)")
    found = db.execute("SELECT * FROM inbox.retain(1, %s, %s, 8, true)", [what, DAY]).fetchone()
    assert found[:4] == (True, 6, True, 2)
    assert found[4].split(",")[0].split(" ")[0] in ("seq", "id", "scope") and found[5] == "not this one [P0001]"
    assert [retain(db, what, max_rows=8) for _ in range(2)] == [(True, 7, True), (True, 4, False)]
    db.execute(f"DROP TRIGGER no ON {table}")
    if what in ("payload", "processed"):
        look_again(db)
    elif what == "outbox":
        db.execute("UPDATE inbox.inbox_janitor SET walks = walks - 'outbox'")
    assert all_of(db, what) == 3


def test_without_isolation_a_refused_row_fails_the_batch(db):
    """So calls an earlier sidecar, which does not read what was refused."""
    refuse_some(db, fill(db, "processed", 3), "OLD.event_id = 'e2'")
    with pytest.raises(psycopg.errors.RaiseException, match="not this one"):
        db.execute("SELECT elected, affected, more FROM inbox.retain(1, 'processed', %s, 10)", [DAY])


@pytest.mark.parametrize("deferred", ["", "DEFERRABLE INITIALLY DEFERRED"])
def test_a_row_that_a_table_of_the_user_refers_to_stays_alone(db, deferred):
    fill(db, "processed", 20)
    db.execute("CREATE TABLE inbox.their_orders (event_id text, source text, consumer text, FOREIGN KEY (event_id, source, consumer)"
               f" REFERENCES inbox.inbox_messages (event_id, source, consumer) {deferred})")
    db.execute("INSERT INTO inbox.their_orders VALUES ('e7', 's', '')")
    elected, affected, more, refused, row, why = db.execute("SELECT * FROM inbox.retain(1, 'processed', %s, 100, true)", [DAY]).fetchone()
    assert (elected, affected, more, refused) == (True, 19, False, 1)
    assert row.endswith("event e7") and why.endswith("[23503]")
    assert left(db) == {"e7"}


def test_a_locked_row_of_the_user_ends_the_batch(db, connect):
    """Nobody knows whether it would be refused; and each try would wait for the lock."""
    fill(db, "processed", 3)
    db.execute("CREATE TABLE inbox.their_orders (event_id text, source text, consumer text, FOREIGN KEY (event_id, source, consumer)"
               " REFERENCES inbox.inbox_messages (event_id, source, consumer) ON DELETE CASCADE)")
    db.execute("INSERT INTO inbox.their_orders VALUES ('e2', 's', '')")
    other = connect()
    with other.transaction():
        other.execute("SELECT FROM inbox.their_orders FOR UPDATE")
        db.execute("SET lock_timeout = '10ms'")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            retain(db, "processed")
    assert retain(db, "processed") == (True, 3, False)


def test_the_walk_over_leased_requests_looks_at_a_bounded_number_of_rows(db):
    """Also if all of them expire at the same time."""
    db.execute("INSERT INTO inbox.requests (scope, key, holder, locked_until, expires_at)"
               " SELECT '', 'p' || n, n, '2100-01-01', '2100-01-02' FROM generate_series(1, 25) n")
    db.execute("INSERT INTO inbox.requests (scope, key, holder, completed_at, expires_at)"
               " SELECT '', 'd' || n, n, now(), '2100-01-03' FROM generate_series(1, 25) n")
    found = [retain(db, "requests_leased", 0, 10) for _ in range(7)]
    assert [affected for _, affected, _ in found] == [0, 0, 10, 10, 5, 0, 0]


def test_one_instance_runs_retention_until_it_is_gone(db):
    make_instance(db, 2)
    processed(db, "old", **DONE_LONG_AGO)
    assert retain(db, "audit", instance=2)[0] is True
    assert retain(db, "processed", instance=1) == (False, 0, False)
    assert left(db) == {"old"}
    db.execute("UPDATE inbox.inbox_instances SET fenced_at = now() WHERE id = 2")
    assert retain(db, "processed", instance=1) == (True, 1, False)
    assert retain(db, "processed", instance=2)[0] is False


def test_another_instance_takes_over_after_half_a_minute_of_silence(db):
    def takes_over(seconds):
        db.execute("UPDATE inbox.inbox_janitor SET instance = 2, seen_at = clock_timestamp() - %s * interval '1 second'", [seconds])
        return retain(db, "audit", instance=1)[0]

    make_instance(db, 2)
    retain(db, "audit", instance=2)
    assert in_time(lambda: takes_over(29), 1) is False
    assert takes_over(31) is True


def test_two_instances_do_not_wait_for_each_other(db, connect):
    make_instance(db, 2)
    other = connect()
    db.execute("SET lock_timeout = '2s'")
    with other.transaction():
        assert retain(other, "processed", instance=2)[0] is True
        assert retain(db, "processed", instance=1)[0] is False


@pytest.mark.parametrize("statement", ["DELETE FROM inbox.inbox_janitor", "UPDATE inbox.inbox_janitor SET walks = '{}'"])
def test_a_walk_whose_position_was_lost_starts_over(db, statement):
    processed(db, "a", **DONE_LONG_AGO)
    all_of(db, "processed")
    insert(db, "low", **LONG_AGO)
    db.execute(statement)
    db.execute("UPDATE inbox.inbox_messages SET processed_at = '2020-01-01'")
    assert all_of(db, "processed") == 1


@pytest.mark.parametrize("what, age_ms, max_rows", [
    ("messages", 0, 1), (None, 0, 1), ("dead", -1, 1), ("dead", None, 1), ("dead", 0, 0), ("dead", 0, None)])
def test_wrong_arguments_are_refused(db, what, age_ms, max_rows):
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="inbox.retain"):
        retain(db, what, age_ms, max_rows)


@pytest.mark.parametrize("age_ms", [0, 100 * 365 * DAY])
def test_every_configurable_age_is_accepted(db, age_ms):
    for what in ("payload", "processed", "dead", "rejects", "conflicts", "audit", "instances"):
        assert retain(db, what, age_ms)[0] is True
