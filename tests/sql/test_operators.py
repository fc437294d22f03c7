"""What operators do with SQL functions: replay, discard, purge, seek, adopt, status; their audit rows; and one error
for each wrong argument."""

import datetime
import json
import re

import psycopg
import pytest

from support.wait import eventually
from test_functions import insert, row_of


def value(db, sql, *parameters):
    return db.execute(sql, parameters or None).fetchone()[0]


def audit(db):
    cursor = db.cursor(row_factory=psycopg.rows.dict_row)
    return cursor.execute("SELECT * FROM inbox.inbox_audit ORDER BY seq").fetchall()


def status_of(db, event_id):
    return value(db, "SELECT status FROM inbox.messages WHERE event_id = %s", event_id)


def ids(db, status):
    return [row[0] for row in db.execute("SELECT event_id FROM inbox.messages WHERE status = %s ORDER BY seq",
                                         [status])]


def dead(db, event_id, **columns):
    return insert(db, event_id, **{"dead_at": "now", "error": "boom", "error_code": "E", "retry_count": 3,
                                   "payload": b"{}", "payload_digest": b"d", **columns})


def processed(db, event_id, **columns):
    return insert(db, event_id, **{"processed_at": "now", "payload": b"{}", "payload_digest": b"d", **columns})


def waiting(db, event_id, **columns):
    return insert(db, event_id, **{"claimed_by": None, "available_at": "now", **columns})


# --- replay -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [dead, processed])
def test_replay_makes_an_ended_message_wait_like_a_new_one(db, make):
    seq = make(db, "a", delivery_count=4, crash_count=2, suspect=True, rescue_count=1)
    assert value(db, "SELECT inbox.replay('s', 'a', 'fixed')") is True
    row = row_of(db, seq)
    assert row["status"] == "waiting"
    assert (row["error"], row["error_code"], row["result"], row["retry_count"], row["crash_count"],
            row["rescue_count"], row["suspect"]) == (None, None, None, 0, 0, 0, False)
    assert (row["claimed_by"], row["delivery_count"], row["replay_count"]) == (None, 4, 1)


def test_replay_records_the_previous_state_in_the_history(db):
    dead(db, "a", result='{"n": null}', attempts='[{"at": "x", "attempt": 3, "error": "boom"}]')
    db.execute("SELECT inbox.replay('s', 'a', 'fixed')")
    first, second = value(db, "SELECT attempts FROM inbox.inbox_messages")
    assert first == {"at": "x", "attempt": 3, "error": "boom"}
    assert (second["was"], second["error"], second["code"], second["attempts"], second["reason"]) == \
        ("dead", "boom", "E", 3, "fixed")
    assert second["result"] == {"n": None}
    assert second["replayed_by"] == value(db, "SELECT session_user::text")


def test_plain_sql_records_the_same_history(db):
    processed(db, "a", result='{"n": 1}')
    db.execute("UPDATE inbox.inbox_messages SET processed_at = NULL")
    (entry,) = value(db, "SELECT attempts FROM inbox.inbox_messages")
    assert (entry["was"], entry["result"]) == ("processed", {"n": 1})
    assert entry["replayed_by"] == value(db, "SELECT session_user::text")


def test_the_history_keeps_the_size_of_a_large_result_only(db):
    processed(db, "a", result='"' + "x" * 5000 + '"')
    db.execute("SELECT inbox.replay('s', 'a')")
    (entry,) = value(db, "SELECT attempts FROM inbox.inbox_messages")
    assert (entry["result_bytes"], "result" in entry) == (5002, False)


def test_the_history_names_who_discarded_and_who_completed_a_message(db):
    waiting(db, "a", retry_count=1, error="boom", error_code="E", attempts='[{"at": "x", "attempt": 1}]')
    me = value(db, "SELECT session_user::text")
    db.execute("SELECT inbox.discard('s', 'a', 'not needed')")
    db.execute("UPDATE inbox.inbox_messages SET processed_at = now(), dead_at = NULL")
    failed, discarded, called_done = value(db, "SELECT attempts FROM inbox.inbox_messages")
    assert failed == {"at": "x", "attempt": 1}
    assert discarded.pop("at") and discarded == {"discarded_by": me, "reason": "not needed", "error": "boom", "code": "E"}
    assert called_done.pop("at") and called_done.pop("ended_at") and called_done == \
        {"called_done_by": me, "was": "dead", "error": "not needed", "code": "DISCARDED"}
    assert value(db, "SELECT inbox.replay('s', 'a')") is True
    assert len(value(db, "SELECT attempts FROM inbox.inbox_messages")) == 4


def test_the_history_keeps_ten_replays_and_ten_attempts(db):
    many = [f'{{"attempt": {n}}}' for n in range(1, 11)]
    dead(db, "a", attempts=f"[{','.join(many)}]")
    for _ in range(12):
        db.execute("SELECT inbox.replay('s', 'a')")
        db.execute("UPDATE inbox.inbox_messages SET available_at = NULL, dead_at = now()")
    history = value(db, "SELECT attempts FROM inbox.inbox_messages")
    assert [entry["attempt"] for entry in history if "attempt" in entry] == list(range(1, 11))
    assert len([entry for entry in history if "replayed_by" in entry]) == 10


@pytest.mark.parametrize("make", [insert, waiting])
def test_an_open_message_is_not_replayed(db, make):
    seq = make(db, "a")
    before = row_of(db, seq)
    assert value(db, "SELECT inbox.replay('s', 'a')") is False
    assert value(db, "SELECT inbox.replay_where('processed') + inbox.replay_where('dead')") == 0
    assert row_of(db, seq) == before


def test_an_unknown_message_is_not_replayed(db):
    dead(db, "a")
    assert value(db, "SELECT inbox.replay('other', 'a')") is False
    assert value(db, "SELECT inbox.replay('s', 'b')") is False
    assert ids(db, "dead") == ["a"]


def notice_of(db, sql):
    """(message, hint) of the one notice of a function that must return false."""
    notices = []

    def keep(notice):
        notices.append((notice.message_primary, notice.message_hint))

    db.add_notice_handler(keep)
    db.execute("SET client_min_messages = notice")
    assert value(db, f"SELECT inbox.{sql}") is False
    db.execute("SET client_min_messages = error")
    db.remove_notice_handler(keep)
    (one,) = notices
    return one


UNCHANGED = {
    "replay('s', 'open')": ("event 'open' of source 's' was not changed: it is waiting",
                            "replay changes only a message that is processed or dead and that no other transaction has locked."),
    "retry_now('s', 'open')": ("event 'open' of source 's' was not changed: it is waiting",
                               "retry changes only a message that waits for a retry or a snooze that is not due and that no other "
                               "transaction has locked."),
    "discard('s', 'done')": ("event 'done' of source 's' was not changed: it is processed",
                             "discard changes only a message that waits or is dead and that no other transaction has locked."),
    "resolve('s', 'open', 'why')": ("event 'open' of source 's' was not changed: it is waiting",
                                    "resolve changes only a message that is dead and that no other transaction has locked."),
    "replay('s', 'open', consumer => 'mail')": ("there is no event 'open' of source 's' for consumer 'mail'",
                                                "The inbox has this event id with source 's', consumer ''."),
    "replay('other', 'died')": ("there is no event 'died' of source 'other'",
                                "The inbox has this event id with source 's', consumer ''."),
    "discard('s', 'it''s')": ("there is no event 'it''s' of source 's'", "No message in the inbox has this event id."),
}


@pytest.mark.parametrize("sql", UNCHANGED)
def test_a_function_that_changes_nothing_says_why(db, sql):
    waiting(db, "open")
    dead(db, "died")
    processed(db, "done")
    assert notice_of(db, sql) == UNCHANGED[sql]


def test_a_notice_names_all_states_of_the_consumers(db):
    waiting(db, "a")
    dead(db, "a", consumer="mail")
    assert notice_of(db, "resolve('s', 'a', 'why', '')")[0] == "event 'a' of source 's' for consumer '' was not changed: it is waiting"
    assert value(db, "SELECT inbox.resolve('s', 'a', 'why')") is True
    assert notice_of(db, "resolve('s', 'a', 'why')")[0] == "event 'a' of source 's' was not changed: it is processed, waiting"


def test_replay_skips_a_row_locked_by_another_transaction(db, connect):
    dead(db, "a")
    dead(db, "b")
    other = connect()
    with other.transaction():
        other.execute("SELECT FROM inbox.inbox_messages WHERE event_id = 'a' FOR UPDATE")
        db.execute("SET lock_timeout = '30s'")
        assert value(db, "SELECT inbox.replay_where('dead')") == 1
    assert (ids(db, "dead"), ids(db, "waiting")) == (["a"], ["b"])


def test_replay_refuses_a_message_whose_payload_was_dropped(db):
    dead(db, "a", payload=None)
    for sql in ("SELECT inbox.replay('s', 'a')", "UPDATE inbox.inbox_messages SET dead_at = NULL"):
        with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match="payload of event 'a'"):
            db.execute(sql)
    assert value(db, "SELECT inbox.replay_where(dry_run => true) + inbox.replay_where('dead')") == 0
    assert ids(db, "dead") == ["a"]


def test_plain_sql_over_a_dropped_payload_fails_with_a_hint(db):
    dead(db, "a", payload=None)
    dead(db, "b")
    sql = "UPDATE inbox.inbox_messages SET dead_at = NULL WHERE dead_at IS NOT NULL"
    with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState) as caught:
        db.execute(sql)
    condition = caught.value.diag.message_hint.partition(": ")[2].partition(". ")[0]
    assert condition == "AND (payload IS NOT NULL OR payload_digest IS NULL)" and ids(db, "dead") == ["a", "b"]
    db.execute(f"{sql} {condition}")
    assert (ids(db, "dead"), ids(db, "waiting")) == (["a"], ["b"])


def test_a_tombstone_can_be_replayed(db):
    dead(db, "a", payload=None, payload_digest=None)
    assert value(db, "SELECT inbox.replay('s', 'a')") is True


FILTERS = {
    "status": ("'processed'", ["done"]),
    "topic": ("topic => 'other'", ["topic"]),
    "event_type": ("event_type => 'order.created'", ["type"]),
    "event_type prefix": ("event_type => 'order.*'", ["type", "type2"]),
    "received_from": ("received_from => '2030-01-01'", ["late"]),
    "received_to": ("received_to => '2010-01-01'", ["early"]),
    "error_like": ("error_like => '%503%'", ["error"]),
    "key": ("key => 'k1'", ["key"]),
    "error_code": ("error_code => 'UP'", ["code"]),
    "a part of an error_code": ("error_code => 'U'", []),
    "error_code in other letters": ("error_code => 'up'", []),
    "no error_code": ("error_code => ''", ["none"]),
    "a pattern is no error_code": ("error_code => 'U%'", []),
    "error_code and error_like": ("error_code => 'E', error_like => '%503%'", ["error"]),
    "max_rows": ("max_rows => 2", ["topic", "type"]),
    "two": ("topic => 'orders', event_type => 'order.*', max_rows => 1", ["type"]),
    "nothing": ("topic => 'none'", []),
}


@pytest.mark.parametrize("arguments, expected", FILTERS.values(), ids=FILTERS.keys())
def test_replay_where_replays_matching_messages_only(db, arguments, expected):
    dead(db, "topic", topic="other")
    dead(db, "type", event_type="order.created")
    dead(db, "type2", event_type="order.deleted")
    dead(db, "late", received_at="2031-01-01")
    dead(db, "early", received_at="2001-01-01")
    dead(db, "error", error="upstream said 503 again")
    dead(db, "key", key=b"k1")
    dead(db, "code", error_code="UP")
    dead(db, "none", error_code=None)
    processed(db, "done")
    waiting(db, "untouched", received_at="2020-01-01", topic="elsewhere", replay_count=0)
    dry = value(db, f"SELECT inbox.replay_where({arguments}, dry_run => true)")
    assert db.execute("SELECT count(*) FROM inbox.inbox_messages WHERE replay_count > 0").fetchone()[0] == 0
    assert audit(db) == [], "a dry run leaves nothing"
    assert value(db, f"SELECT inbox.replay_where({arguments})") == dry == len(expected)
    replayed = db.execute("SELECT event_id FROM inbox.inbox_messages WHERE replay_count > 0 ORDER BY seq")
    assert [row[0] for row in replayed] == expected


@pytest.mark.parametrize("call, make", [("replay_where", dead), ("discard_where", waiting)])
def test_replay_where_has_the_names_of_the_command_line(db, call, make):
    """And their meaning: --error is a text and no pattern, and --since is about the death of dead messages."""
    make(db, "type", event_type="order.created")
    make(db, "code", error_code="UP")
    make(db, "error", error="100%_sure")
    make(db, "old", received_at="2001-01-01")
    make(db, "key", key=b"k1")
    if make is dead:
        db.execute("UPDATE inbox.inbox_messages SET dead_at = '2001-01-01' WHERE event_id = 'key'")
    old = "key" if make is dead else "old"
    for given, expected in {
        "type => 'order.*'": {"type"}, "code => 'UP'": {"code"}, "error => '%_s'": {"error"}, "error => '%o%'": set(),
        "until => '2010-01-01'": {old}, "since => '2010-01-01'": {"type", "code", "error", "old", "key"} - {old},
        "max => 2": {"type", "code"}, "max => 2, after => 1": {"code", "error"}, "key => 'k1', topic => 'orders', consumer => ''": {"key"},
    }.items():
        with db.transaction(force_rollback=True):
            first = value(db, "SELECT min(seq) FROM inbox.inbox_messages")
            given = given.replace("after => 1", f"after => {first}")
            assert value(db, f"SELECT inbox.{call}({given}, dry_run => true)") == len(expected), given
            assert value(db, f"SELECT inbox.{call}({given})") == len(expected), given
            changed = "replay_count > 0" if make is dead else "dead_at IS NOT NULL"
            assert {row[0] for row in db.execute(f"SELECT event_id FROM inbox.inbox_messages WHERE {changed}")} == expected, given


def test_the_earlier_names_of_replay_where_keep_their_positions_and_meaning(db):
    dead(db, "a", event_type="t", received_at="2001-01-01")
    dead(db, "b")
    positional = "'dead', 'orders', 't', '2000-01-01', '2002-01-01', '%oo%', 5, 'why', true, NULL, 'E', 0, ''"
    assert value(db, f"SELECT inbox.replay_where({positional})") == 1
    assert value(db, "SELECT inbox.replay_where(status => 'dead', topic => 'orders', event_type => 't', received_from => '2000-01-01',"
                     " received_to => '2002-01-01', error_like => '%oo%', max_rows => 5, reason => 'why', dry_run => false)") == 1
    assert audit(db)[0]["filter"].keys() == {"status", "topic", "event_type", "received_from", "received_to", "error_like"}
    assert value(db, "SELECT count(*) FROM pg_proc WHERE proname = 'replay_where' AND pronamespace = 'inbox'::regnamespace") == 1


def test_a_replay_notifies_listeners_and_an_empty_replay_does_not(db, connect):
    listener = connect()
    listener.execute("LISTEN inboxd_replay")
    db.execute("SELECT inbox.replay_where('dead')")
    assert list(listener.notifies(timeout=0.3)) == []
    for sql in ("SELECT inbox.replay('s', 'a')", "SELECT inbox.replay_where('dead')",
                "UPDATE inbox.inbox_messages SET dead_at = NULL"):
        db.execute("DELETE FROM inbox.inbox_messages")
        dead(db, "a")
        dead(db, "b")
        db.execute(sql)
        assert len(list(listener.notifies(timeout=60, stop_after=1))) == 1, sql
    listener.close()


def test_nothing_else_notifies(db, connect):
    listener = connect()
    listener.execute("LISTEN inboxd_replay")
    seq = insert(db, "a")
    waiting(db, "b")
    db.execute("SELECT inbox.complete(%s)", [f"{seq}.1.1"])
    stop_sidecars(db)
    db.execute("SELECT inbox.discard_where('waiting'), inbox.purge('0'), inbox.seek('orders', 0, 1),"
               " inbox.adopt('c', 'g'), inbox.status()")
    assert list(listener.notifies(timeout=0.3)) == []
    listener.close()


@pytest.mark.parametrize("make, call", [(dead, "replay_where()"), (waiting, "discard_where()"), (dead, "replay('s', 'a')")])
def test_a_call_says_how_many_rows_it_left_out(db, connect, make, call):
    said = []
    db.execute("SET client_min_messages = notice")
    db.add_notice_handler(lambda notice: said.append(notice.message_primary))
    make(db, "a")
    make(db, "a", consumer="search")
    with connect() as other:
        other.execute("BEGIN; SELECT FROM inbox.inbox_messages WHERE consumer = 'search' FOR UPDATE")
        db.execute(f"SELECT inbox.{call}")
        other.execute("ROLLBACK")
    assert [words.partition(": ")[2] for words in said] == ["1 left out, because another transaction has locked or changed them"]


def conflict(db, event_id, offset, payload=b"[2]"):
    return value(db, "INSERT INTO inbox.inbox_conflicts (source, event_id, topic, kafka_partition, kafka_offset, headers, payload, payload_digest)"
                     " VALUES ('s', %s, 'orders', 1, %s, '[[\"v\", \"2\"]]', %s, substr(sha256(%s), 1, 16)) RETURNING seq",
                 event_id, offset, payload, payload)


def payload_of(db, event_id):
    return [(bytes(row[0]), row[1]) for row in
            db.execute("SELECT payload, status FROM inbox.messages WHERE event_id = %s ORDER BY consumer", [event_id])]


def test_a_dead_message_takes_the_payload_of_a_conflict_and_back(db):
    """Its place in the key stays. The earlier payload is kept as a conflict, once."""
    seq = dead(db, "a", payload=b"[1]", payload_digest=b"d1", topic="orders", kafka_partition=0, kafka_offset=7)
    made = conflict(db, "a", 9)
    assert value(db, "SELECT inbox.take_conflict(%s, 'corrected')", made) is True
    row = row_of(db, seq)
    assert (bytes(row["payload"]), row["headers"], row["status"], row["kafka_offset"]) == (b"[2]", [["v", "2"]], "waiting", 7)
    taken, replayed = row["attempts"]
    assert (taken["took_conflict"], taken["reason"], taken["was_digest"], replayed["was"], replayed["error"]) == \
        (made, "corrected", b"d1".hex(), "dead", "boom")
    assert (audit(db)[-1]["action"], audit(db)[-1]["affected"], audit(db)[-1]["filter"]["conflict"]) == ("take_conflict", 1, made)
    kept = db.execute("SELECT seq, kafka_offset, payload FROM inbox.inbox_conflicts ORDER BY seq").fetchall()
    assert [(offset, bytes(payload)) for _, offset, payload in kept] == [(9, b"[2]"), (7, b"[1]")]
    db.execute("UPDATE inbox.inbox_messages SET available_at = NULL, dead_at = now()")
    assert value(db, "SELECT inbox.take_conflict(%s)", kept[1][0]) is True
    assert payload_of(db, "a") == [(b"[1]", "waiting")]
    assert value(db, "SELECT count(*) FROM inbox.inbox_conflicts") == 2


@pytest.mark.parametrize("make, status", [(processed, "processed"), (waiting, "waiting"), (insert, "claimed")])
def test_only_a_dead_message_takes_the_payload_of_a_conflict(db, make, status):
    make(db, "a", payload=b"[1]", payload_digest=b"d1")
    dead(db, "a", consumer="search", payload=b"[1]", payload_digest=b"d1", kafka_offset=1)
    dead(db, "a", consumer="stats", payload=b"[1]", payload_digest=b"d1", kafka_offset=1)
    made = conflict(db, "a", 9)
    assert value(db, "SELECT inbox.take_conflict(%s, consumer => '')", made) is False
    assert value(db, "SELECT inbox.take_conflict(%s, consumer => 'stats')", made) is True
    assert payload_of(db, "a") == [(b"[1]", status), (b"[1]", "dead"), (b"[2]", "waiting")]
    assert value(db, "SELECT inbox.take_conflict(%s)", made + 100) is None


def test_no_payload_is_lost_when_a_message_takes_another(db):
    """A conflict has the coordinates of the message and other content than the message: its payload came from a conflict
    that was deleted since, or differs between consumers."""
    dead(db, "a", payload=b"[1]", payload_digest=b"d1", topic="orders", kafka_partition=0, kafka_offset=7)
    first = conflict(db, "a", 9)
    value(db, "SELECT inbox.take_conflict(%s)", first)
    db.execute("UPDATE inbox.inbox_messages SET available_at = NULL, dead_at = now()")
    db.execute("DELETE FROM inbox.inbox_conflicts WHERE seq = %s", [first])
    other = conflict(db, "a", 11, payload=b"[3]")
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="would be lost"):
        value(db, "SELECT inbox.take_conflict(%s)", other)
    assert payload_of(db, "a") == [(b"[2]", "dead")]
    db.execute("DELETE FROM inbox.inbox_conflicts WHERE kafka_offset = 7")
    assert value(db, "SELECT inbox.take_conflict(%s)", other) is True
    assert payload_of(db, "a") == [(b"[3]", "waiting")]
    assert [bytes(row[0]) for row in db.execute("SELECT payload FROM inbox.inbox_conflicts ORDER BY seq")] == [b"[3]", b"[2]"]


def test_a_locked_message_takes_no_payload(db, connect):
    dead(db, "a", payload=b"[1]", payload_digest=b"d1")
    made = conflict(db, "a", 9)
    with connect() as other:
        other.execute("BEGIN; SELECT FROM inbox.inbox_messages FOR UPDATE")
        assert value(db, "SELECT inbox.take_conflict(%s)", made) is False
        other.execute("ROLLBACK")
    assert value(db, "SELECT count(*) FROM inbox.inbox_conflicts") == 1


def test_a_version_is_counted_if_its_transaction_had_ended(db):
    """A version has the low 32 bits of a number. Those above the next one belong to the numbers before the last 2^32."""
    below = int(value(db, "SELECT pg_snapshot_xmax(pg_current_snapshot())::text"))
    for _ in range(3):
        db.execute("SELECT pg_current_xact_id()")
    counted = json.dumps({"below": below, "also": {str(below + 1): 1}})
    for version, expected in ((below - 1, True), (below, False), (below + 1, True), (below + 2, False), (below + 50_000, False),
                              (2**32 - 1, True), (below + 2**31, True)):
        assert value(db, "SELECT inbox.is_counted(%s::text::xid, %s)", version % 2**32, counted) is expected, version
    assert value(db, "SELECT inbox.is_counted('7', NULL)")


@pytest.mark.parametrize("changes", [False, True])
def test_a_dry_run_and_its_call_in_one_transaction_are_about_the_same_messages(db, connect, changes):
    dead(db, "a")
    dead(db, "b")
    with connect() as other:
        db.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        assert value(db, "SELECT inbox.replay_where(dry_run => true)") == 2
        dead(other, "c")
        if changes:
            other.execute("UPDATE inbox.inbox_messages SET error = 'again' WHERE event_id = 'a'")
            with pytest.raises(psycopg.errors.SerializationFailure):
                db.execute("SELECT inbox.replay_where()")
            db.execute("ROLLBACK")
        else:
            assert value(db, "SELECT inbox.replay_where()") == 2
            db.execute("COMMIT")
    assert ids(db, "dead") == (["a", "b", "c"] if changes else ["c"])


# --- discard ----------------------------------------------------------------------------------------


def test_discard_makes_a_waiting_message_dead_with_the_reason(db):
    seq = waiting(db, "a", suspect=True)
    assert value(db, "SELECT inbox.discard('s', 'a', 'obsolete')") is True
    row = row_of(db, seq)
    assert (row["status"], row["error"], row["error_code"], row["suspect"]) == \
        ("dead", "obsolete", "DISCARDED", False)
    assert value(db, "SELECT inbox.discard('s', 'a', 'obsolete')") is False


@pytest.mark.parametrize("status, expected", [
    ("waiting", ["new", "retry", "park"]), ("retrying", ["retry"]), ("parked", ["park"])])
def test_discard_where_filters_by_status(db, status, expected):
    waiting(db, "new")
    waiting(db, "retry", retry_count=1)
    waiting(db, "park", available_at="infinity")
    insert(db, "claimed")
    processed(db, "done")
    assert value(db, "SELECT inbox.discard_where(%s, dry_run => true)", status) == len(expected)
    assert ids(db, "dead") == []
    assert value(db, "SELECT inbox.discard_where(%s)", status) == len(expected)
    assert ids(db, "dead") == expected
    assert (status_of(db, "claimed"), status_of(db, "done")) == ("claimed", "processed")


def test_discard_where_filters_as_replay_does(db):
    waiting(db, "a", topic="other")
    waiting(db, "b", event_type="x", error="upstream 503", retry_count=1)
    waiting(db, "c")
    assert value(db, "SELECT inbox.discard_where(topic => 'orders', error_like => '%503%')") == 1
    assert value(db, "SELECT inbox.discard_where(max_rows => 1)") == 1
    assert ids(db, "dead") == ["a", "b"]


def test_discard_where_filters_by_error_code(db):
    waiting(db, "a", error_code="UP", retry_count=1)
    waiting(db, "b", error_code="UPSTREAM", retry_count=1)
    waiting(db, "c")
    assert value(db, "SELECT inbox.discard_where(error_code => 'UP', dry_run => true)") == 1
    assert value(db, "SELECT inbox.discard_where(error_code => 'UP')") == 1
    assert ids(db, "dead") == ["a"]


def test_a_discarded_message_needs_no_attention(db, statements):
    """Also one that was dead before. It stays dead, and is in no count and no list of dead messages."""
    waiting(db, "w")
    dead(db, "d", dead_at="2026-01-01", claimed_by=1)
    dead(db, "other", claimed_by=1)
    for event_id in ("w", "d"):
        assert value(db, "SELECT inbox.discard('s', %s, 'no more')", event_id) is True
        assert value(db, "SELECT inbox.discard('s', %s)", event_id) is False, "once is enough"
    assert db.execute("SELECT event_id, status, error, error_code FROM inbox.messages WHERE event_id <> 'other' ORDER BY 1").fetchall() == \
        [("d", "dead", "no more", "DISCARDED"), ("w", "dead", "no more", "DISCARDED")]
    assert value(db, "SELECT dead_at < '2026-01-02' FROM inbox.inbox_messages WHERE event_id = 'd'"), "it died then"
    assert value(db, "SELECT attempts -> -1 ->> 'error' FROM inbox.inbox_messages WHERE event_id = 'd'") == "boom"
    assert (value(db, "SELECT inbox.status() -> 'dead'"), statements.run("count_table", 10)[0][0]) == (1, 1)
    assert db.execute("SELECT error_code FROM inbox.dead_groups").fetchall() == [("E",)]
    assert [value(db, "SELECT inbox.replay_where(%s, code => %s, dry_run => true)", *filter)
            for filter in (("dead", None), ("dead", "DISCARDED"), ("discarded", None))] == [1, 2, 2]
    assert value(db, "SELECT inbox.discard_where('dead', dry_run => true)") == 1
    assert value(db, "SELECT inbox.replay('s', 'd')") is True
    assert value(db, "SELECT inbox.replay_where('discarded')") == 1
    assert [status_of(db, event_id) for event_id in ("w", "d", "other")] == ["waiting", "waiting", "dead"]


def test_a_discarded_message_can_be_replayed(db):
    waiting(db, "a")
    db.execute("SELECT inbox.discard_where('waiting')")
    assert value(db, "SELECT inbox.replay_where('discarded')") == 1
    assert status_of(db, "a") == "waiting"


# --- pages ------------------------------------------------------------------------------------------


def test_pages_visit_each_message_once(db):
    for number in range(7):
        processed(db, f"e{number}")
    after, total, pages = 0, 0, 0
    while True:
        affected, last = db.execute("SELECT * FROM inbox.replay_page('{\"status\": \"processed\"}', %s, 3, 'r')",
                                    [after]).fetchone()
        if last is None:
            break
        # Messages replayed by a page may be processed before the next page.
        db.execute("UPDATE inbox.inbox_messages SET available_at = NULL, processed_at = now()"
                   " WHERE available_at IS NOT NULL")
        after, total, pages = last, total + affected, pages + 1
    assert (total, pages) == (7, 3)
    assert value(db, "SELECT max(replay_count) FROM inbox.inbox_messages") == 1
    assert [entry["affected"] for entry in audit(db)] == [3, 3, 1]


@pytest.mark.parametrize("make, call, filter_", [
    (dead, "replay_page", {"status": "dead", "error_code": "UP"}),
    (waiting, "discard_page", {"status": "waiting", "error_code": "UP"})])
def test_pages_filter_by_error_code_and_audit_the_filter(db, make, call, filter_):
    make(db, "a", error_code="UP")
    last = make(db, "b", error_code="UP")
    make(db, "c", error_code="UPSTREAM")
    make(db, "d", error_code=None)
    assert db.execute(f"SELECT * FROM inbox.{call}(%s, 0, 10)", [json.dumps(filter_)]).fetchone() == (2, last)
    assert [(entry["filter"], entry["affected"]) for entry in audit(db)] == [(filter_, 2)]


# --- purge ------------------------------------------------------------------------------------------


def test_purge_deletes_only_messages_processed_before_the_age(db):
    processed(db, "old", processed_at="2020-01-01", received_at="2020-01-01")
    processed(db, "new", received_at="2020-01-01")
    dead(db, "dead", received_at="2020-01-01")
    waiting(db, "waiting", received_at="2020-01-01")
    insert(db, "claimed", received_at="2020-01-01")
    assert value(db, "SELECT inbox.purge('1 day', 100)") == 1
    assert value(db, "SELECT array_agg(event_id ORDER BY seq) FROM inbox.inbox_messages") == \
        ["new", "dead", "waiting", "claimed"]


def test_purge_stops_at_max_rows_and_takes_the_oldest(db, connect):
    for number in range(5):
        processed(db, f"e{number}", processed_at="2020-01-01")
    with db.transaction():
        assert value(db, "SELECT inbox.purge('0', 3)") == 3
        assert value(connect(), "SELECT count(*) FROM (SELECT FROM inbox.inbox_messages FOR UPDATE SKIP LOCKED) free") == 2
    assert ids(db, "processed") == ["e3", "e4"]
    assert value(db, "SELECT inbox.purge('0')") == 2


def test_purge_walks_a_large_table_and_stops_at_young_rows(db):
    db.execute("""INSERT INTO inbox.inbox_messages (source, event_id, topic, kafka_partition, kafka_offset,
                      received_at, processed_at, delivery_count)
                  SELECT 's', 'e' || i, 'orders', 0, i, now() - (20000 - i) * interval '1 hour',
                         CASE WHEN i % 2 = 0 THEN now() - (20000 - i) * interval '1 hour' END, 1
                  FROM generate_series(1, 20000) i""")
    assert value(db, "SELECT inbox.purge(interval '10000 hours')") == 5000
    assert value(db, "SELECT min(processed_at) FROM inbox.inbox_messages") > \
        datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(hours=10000)


# --- seek, adopt ------------------------------------------------------------------------------------


def test_seek_moves_the_watermark_raises_the_epoch_and_forces_it(db):
    db.execute("UPDATE inbox.inbox_offsets SET next_offset = 40, epoch = 7, last_offset = 39, last_timestamp = now()")
    db.execute("SELECT inbox.seek('orders', 2, 10, 'a look back')")
    rows = db.execute("SELECT kafka_partition, next_offset, epoch, forced, last_offset, owner"
                      " FROM inbox.inbox_offsets ORDER BY 1").fetchall()
    assert rows[2] == (2, 10, 8, True, None, 1)
    assert rows[1] == (1, 40, 7, False, 39, 1)
    (entry,) = audit(db)
    assert (entry["action"], entry["reason"], entry["filter"]) == \
        ("seek", "a look back", {"topic": "orders", "kafka_partition": 2, "from": 40, "to": 10})


def stop_sidecars(db):
    db.execute("UPDATE inbox.inbox_instances SET fenced_at = now(), stopped_at = now()")


def test_adopt_binds_the_schema_to_another_cluster_and_group(db):
    stop_sidecars(db)
    assert value(db, "SELECT inbox.adopt('c1', 'g1', 'first')") is True
    assert value(db, "SELECT inbox.adopt('c2', 'g1', 'moved')") is True
    assert value(db, "SELECT inbox.adopt('c2', 'g1')") is False
    assert db.execute("SELECT cluster_id, group_id FROM inbox.inbox_binding").fetchall() == [("c2", "g1")]
    assert [(entry["affected"], entry["reason"]) for entry in audit(db)] == \
        [(1, "first"), (1, "moved"), (0, None)]
    assert audit(db)[1]["filter"]["from_cluster_id"] == "c1"


def test_adopt_is_refused_while_a_sidecar_runs(db):
    stop_sidecars(db)
    db.execute("INSERT INTO inbox.inbox_instances (id, name, host_id, timeline, low_seq)"
               " VALUES (7, 'pod-7', '', '', 1)")
    with pytest.raises(psycopg.errors.ObjectInUse, match="pod-7"):
        db.execute("SELECT inbox.adopt('c1', 'g1')")
    db.execute("UPDATE inbox.inbox_instances SET heartbeat_at = now() - interval '61 s'")
    assert value(db, "SELECT inbox.adopt('c1', 'g1')") is True


# --- audit ------------------------------------------------------------------------------------------

CALLS = {
    "inbox.replay('s', 'a', 'why')": ("replay", 1),
    "inbox.replay_where(reason => 'why')": ("replay", 1),
    "inbox.replay_page('{\"status\": \"dead\"}', 0, 5, 'why')": ("replay", 1),
    "inbox.discard('s', 'w', 'why')": ("discard", 1),
    "inbox.discard_where(reason => 'why')": ("discard", 1),
    "inbox.discard_page('{\"status\": \"waiting\"}', 0, 5, 'why')": ("discard", 1),
    "inbox.purge('0')": ("purge", 1),
    "inbox.seek('orders', 0, 1)": ("seek", 1),
    "inbox.adopt('c', 'g', 'why')": ("adopt", 1),
}


def test_the_audit_keeps_the_error_code_of_a_call(db):
    db.execute("SELECT inbox.replay_where(error_code => 'UP'), inbox.discard_where(error_code => 'UP')")
    assert [entry["filter"] for entry in audit(db)] == [{"status": "dead", "error_code": "UP"},
                                                        {"status": "waiting", "error_code": "UP"}]


@pytest.mark.parametrize("call", CALLS)
def test_every_change_is_audited_under_the_session_user(db, connect, call):
    dead(db, "a")
    waiting(db, "w")
    processed(db, "p")
    stop_sidecars(db)
    db.execute("DROP ROLE IF EXISTS somebody")
    db.execute("CREATE ROLE somebody LOGIN SUPERUSER")
    session = connect(user="somebody")
    try:
        session.execute(f"SELECT {call}")
    finally:
        session.close()
        db.execute("DROP ROLE somebody")
    (entry,) = audit(db)
    assert (entry["who"], entry["action"], entry["affected"]) == ("somebody", *CALLS[call])
    if "why" in call:
        assert entry["reason"] == "why"


def test_status_shows_a_backfill_that_runs_and_one_that_was_interrupted(db, statements, connect):
    db.execute("INSERT INTO inbox.inbox_consumers (name, ordering, memory) VALUES ('stats', 'key', '1 day'), ('other', 'key', '1 day')")
    for n in range(5):
        processed(db, f"m{n}")
    filter_of = json.dumps({"consumer": "stats", "until_seq": 5})
    assert value(db, "SELECT inbox.status()")["backfills"] == []
    for after in 0, 2:
        db.execute("SELECT inbox.backfill_page(%s::jsonb, %s, 2, 'why')", [filter_of, after])

    def shown():
        rows = dict(row for row in statements.run("op_status_facts", value(db, "SELECT inbox.status()::text")))
        return rows.get("backfill")

    words = r"to the consumer 'stats' by \S+: 4 copied since \S+Z, at seq 4 of 5, "
    session = connect(application_name="inboxd backfill")
    assert re.fullmatch(words + "runs", shown())
    session.close()
    eventually(lambda: re.fullmatch(words + "has ended, or was interrupted: no command runs it now", shown()), timeout=30)
    connect(application_name="inboxd backfill")  # a pooler keeps the session of a command that has ended
    db.execute("SELECT inbox.backfill_page(%s::jsonb, 4, 2, 'why')", [filter_of])
    assert re.fullmatch(r"to the consumer 'stats' by \S+: 5 copied since \S+Z, at seq 5 of 5, has ended", shown())
    db.execute("UPDATE inbox.inbox_audit SET at = at - interval '11 minutes'")
    assert shown() is None


def test_status_prints_times_in_utc(db, statements):
    db.execute("INSERT INTO inbox.inbox_pauses (kind, name, since, who) VALUES ('topic', 'orders', '2020-01-01 00:00Z', 'me')")
    db.execute("INSERT INTO inbox.inbox_handlers (name, subscriptions, memory, known_since, connected_at, last_seen_at)"
               " VALUES ('billing', '[]', '9999 days', now(), now(), '2020-01-01 00:00Z')")
    db.execute("INSERT INTO inbox.inbox_consumers (name, ordering, memory, listed_at) VALUES ('search', 'key', '9999 days', '2020-01-01Z')")
    db.execute("SET timezone = 'Asia/Kolkata'")
    status = value(db, "SELECT inbox.status()::text")
    first, last = "2020-01-01T00:00:00Z", "2047-05-18T00:00:00Z"
    assert statements.run("op_status_pauses", status)[0][2] == first
    assert statements.run("op_status_handlers", status)[0][2] == f"away since {first}: its messages wait for it until {last}"
    assert statements.run("op_status_consumers", status)[0][2].endswith(f"messages are stored for it until {last}")


# --- retry and resolve ------------------------------------------------------------------------------


def retrying(db, event_id, **columns):
    return waiting(db, event_id, **{"available_at": "2100-01-01", "retry_count": 2, "error": "boom", "error_code": "E", **columns})


def test_retry_now_makes_a_retry_due_and_is_audited(db):
    seq = retrying(db, "a")
    me = value(db, "SELECT session_user::text")
    assert value(db, "SELECT inbox.retry_now('s', 'a', 'upstream is back')") is True
    row = row_of(db, seq)
    assert (row["available_at"] <= datetime.datetime.now(datetime.timezone.utc), row["retry_count"], row["error"]) == (True, 2, "boom")
    assert (row["attempts"][0]["retried_by"], row["attempts"][0]["reason"], row["attempts"][0]["due_at"][:4]) == \
        (me, "upstream is back", "2100")
    assert value(db, "SELECT inbox.retry_now('s', 'a')") is False, "it is due"
    assert value(db, "SELECT inbox.retry_now('s', 'none', consumer => 'x')") is False
    assert [(entry["who"], entry["action"], entry["affected"], entry["reason"], entry["filter"]) for entry in audit(db)] == [
        (me, "retry", 1, "upstream is back", {"source": "s", "event_id": "a"}), (me, "retry", 0, None, {"source": "s", "event_id": "a"}),
        (me, "retry", 0, None, {"source": "s", "event_id": "none", "consumer": "x"})]


def test_retry_page_makes_matching_retries_due_and_no_others(db):
    first, *_ = [retrying(db, event_id, error_code=code) for event_id, code in (("a", "UP"), ("b", "E"), ("c", "UP"), ("d", "UP"))]
    waiting(db, "due")
    waiting(db, "parked", available_at="infinity")
    dead(db, "dead")
    page = "SELECT affected, last_seq IS NULL FROM inbox.retry_page('{\"status\": \"retrying\", \"error_code\": \"UP\"}', %s, %s, 'r')"
    assert db.execute(page, [0, 2]).fetchone() == (2, False)
    assert db.execute(page, [first, 5]).fetchone() == (1, False)
    assert db.execute(page, [0, 5]).fetchone() == (0, True)
    assert [row[0] for row in db.execute("SELECT event_id FROM inbox.inbox_messages WHERE attempts -> 0 ? 'retried_by' ORDER BY seq")] == \
        ["a", "c", "d"]
    assert [(entry["action"], entry["affected"], entry["reason"], entry["filter"]) for entry in audit(db)] == \
        [("retry", count, "r", {"status": "retrying", "error_code": "UP"}) for count in (2, 1)]


def test_resolve_calls_dead_messages_done_once_and_is_audited(db):
    seq = dead(db, "a", handler="billing")
    retrying(db, "w")
    assert value(db, "SELECT inbox.resolve('s', 'a', 'booked by hand')") is True
    row = row_of(db, seq)
    assert (row["status"], row["dead_at"], row["error"], row["error_code"]) == ("processed", None, "booked by hand", "RESOLVED")
    (entry,) = row["attempts"]
    assert (entry["called_done_by"], entry["was"], entry["error"], entry["code"]) == \
        (value(db, "SELECT session_user::text"), "dead", "boom", "E")
    for event_id in ("a", "w", "none"):
        assert value(db, "SELECT inbox.resolve('s', %s, 'again')", event_id) is False
    assert [(entry["action"], entry["affected"], entry["reason"]) for entry in audit(db)] == \
        [("resolve", 1, "booked by hand")] + [("resolve", 0, "again")] * 3


def test_plain_sql_that_calls_a_message_done_is_recorded_also_if_it_sets_attempts(db):
    mine, theirs = dead(db, "a", attempts='[{"attempt": 1}]'), dead(db, "b", kafka_offset=2)
    db.execute("UPDATE inbox.inbox_messages SET processed_at = now(), dead_at = NULL, attempts = '[{\"attempt\": 9}]' WHERE seq = %s", [mine])
    db.execute("UPDATE inbox.inbox_messages SET processed_at = now(), dead_at = NULL, attempts = '[{\"called_done_by\": \"me\"}]'"
               " WHERE seq = %s", [theirs])
    first, entry = row_of(db, mine)["attempts"]
    assert (first, entry["called_done_by"], entry["error"]) == ({"attempt": 9}, value(db, "SELECT session_user::text"), "boom")
    assert row_of(db, theirs)["attempts"] == [{"called_done_by": "me"}]


def test_a_change_of_open_messages_calls_no_trigger_function(db):
    db.execute("CREATE OR REPLACE FUNCTION inbox.ended_row_changed() RETURNS trigger LANGUAGE plpgsql AS"
               " $$ BEGIN RAISE EXCEPTION 'called'; END $$")
    seq = insert(db, "a")
    waiting(db, "w")
    db.execute("SELECT inbox.complete(%s)", [f"{seq}.1.1"])
    db.execute("SELECT inbox.discard('s', 'w'), inbox.replay_where('discarded'), inbox.replay_where('processed')")
    assert ids(db, "waiting") == ["a", "w"]
    dead(db, "d")
    with pytest.raises(psycopg.errors.RaiseException, match="called"):
        db.execute("UPDATE inbox.inbox_messages SET dead_at = NULL WHERE event_id = 'd'")


# --- arguments --------------------------------------------------------------------------------------

WRONG = {
    "retry_now(NULL, 'a')": "source and event_id",
    "retry_page('{\"status\": \"dead\"}', 0, 1)": "retrying, waiting",
    "retry_page('{\"status\": \"retrying\"}', 0, 0)": "max_rows is 0",
    "resolve('s', NULL, 'why')": "source and event_id",
    "resolve('s', 'a', NULL)": "give the reason",
    "resolve('s', 'a', '')": "give the reason",
    "replay_where(type => 'a', event_type => 'a')": "event_type is the earlier name of type",
    "replay_where(max => 1, max_rows => 1)": "max_rows is the earlier name of max",
    "discard_where(code => '', error_code => '')": "error_code is the earlier name of code",
    "discard_where(error => 'a', error_like => 'a')": "error_like is the earlier name of error",
    "replay_where(after => 1, after_seq => 1)": "after_seq is the earlier name of after",
    "replay_where(since => now(), received_from => now())": "received_from is the earlier name of since",
    "outbox_replay_where(until => now(), created_to => now())": "created_to is the earlier name of until",
    "replay_where(since => '2020-02-01', until => '2020-01-01')": "since is later than until",
    "replay_where(max => 0)": "max is 0",
    "replay_where(type => '')": "type is empty",
    "outbox_discard_where(error => '')": "error is empty",
    "replay(NULL, 'a')": "source and event_id",
    "discard('s', NULL)": "source and event_id",
    "replay_where('waiting')": "status is 'waiting'",
    "replay_where('claimed')": "dead, processed",
    "replay_where('')": "status is ''",
    "replay_where(NULL)": "status is NULL",
    "replay_page('{}', 0, 1)": "status is NULL",
    "replay_where(topic => '')": "topic is empty",
    "replay_where(error_like => '')": "error_like is empty",
    "replay_where(max_rows => 0)": "max_rows is 0",
    "replay_where(max_rows => -1)": "max_rows is -1",
    "replay_where(received_from => '2020-02-01', received_to => '2020-01-01')": "received_from is later",
    "replay_where(dry_run => NULL)": "dry_run is NULL",
    "replay_page('{\"state\": \"dead\"}', 0, 1)": "no filter \"state\"",
    "replay_page(NULL, 0, 1)": "status is NULL",
    "discard_where('discarded')": "status is 'discarded'",
    "discard_where('claimed')": "waiting, retrying, parked",
    "discard_where(max_rows => 0)": "max_rows is 0",
    "discard_where(dry_run => NULL)": "dry_run is NULL",
    "purge(NULL)": "older_than is NULL",
    "purge('-1 day')": "older_than is '-1 days'",
    "purge('1 day', 0)": "max_rows is 0",
    "seek('orders', 0, NULL)": "next_offset is NULL",
    "seek('orders', 0, -1)": "next_offset is -1",
    "seek('orders', 9, 1)": "partition 9 of topic 'orders'",
    "seek(NULL, 0, 1)": "topic NULL",
    "replay_reject(1, '', 'e', NULL)": "source and event_id",
    "adopt('', 'g')": "must be given",
    "adopt('c', NULL)": "must be given",
}


@pytest.mark.parametrize("call", WRONG)
def test_a_wrong_argument_is_one_clear_error_and_changes_nothing(db, call):
    dead(db, "a")
    waiting(db, "w")
    processed(db, "p")
    before = db.execute("SELECT * FROM inbox.inbox_messages ORDER BY seq").fetchall()
    with pytest.raises(psycopg.errors.InvalidParameterValue) as raised:
        db.execute(f"SELECT inbox.{call}")
    words = raised.value.diag.message_primary
    assert words.startswith(f"inbox.{call.partition('(')[0]}: ")
    assert WRONG[call] in words
    assert db.execute("SELECT * FROM inbox.inbox_messages ORDER BY seq").fetchall() == before
    assert audit(db) == []


@pytest.mark.parametrize("text", ["'; DROP TABLE inbox.inbox_audit; --", "%", "\\", "a'b", "$1", "é"])
def test_filters_are_values_even_if_they_look_like_sql(db, text):
    dead(db, "a", topic=text, event_type=text, key=text.encode(), error_code=text)
    dead(db, "b")
    assert value(db, "SELECT inbox.replay_where(topic => %s, event_type => %s, key => %s, error_code => %s)",
                 text, text, text, text) == 1
    assert ids(db, "dead") == ["b"]


@pytest.mark.parametrize("argument", [
    "topic => 'orders'", "event_type => 't'", "received_from => '-infinity'", "received_to => 'infinity'",
    "error_like => '%oo%'", "max_rows => 1", "reason => 'why'", "key => 'k'", "error_code => 'E'"])
def test_one_filter_is_enough_and_the_status_has_a_default(db, argument):
    columns = {"event_type": "t", "key": b"k", "error": "boom", "error_code": "E"}
    for (name, make) in (("replay", dead), ("discard", waiting)):
        db.execute("DELETE FROM inbox.inbox_messages")
        make(db, "a", **columns)
        processed(db, "p", **columns)
        assert value(db, f"SELECT inbox.{name}_where({argument})") == 1
        assert status_of(db, "p") == "processed"
    assert [entry["filter"]["status"] for entry in audit(db)] == ["dead", "waiting"]


def test_without_arguments_all_messages_of_the_default_status_are_taken(db):
    dead(db, "a")
    waiting(db, "b")
    for name in ("replay", "discard"):
        assert value(db, f"SELECT inbox.{name}_where(dry_run => true)") == 1
    assert value(db, "SELECT inbox.replay_where()") == 1
    assert value(db, "SELECT inbox.discard_where()") == 2
    assert ids(db, "dead") == ["a", "b"]


# --- status, groups ---------------------------------------------------------------------------------


def test_status_counts(db):
    waiting(db, "w", available_at="2020-01-01")
    waiting(db, "r", retry_count=1)
    waiting(db, "p", available_at="infinity")
    dead(db, "d")
    processed(db, "done")
    for name in "born", "from the table":
        insert(db, name, claimed_by=1, delivery_count=1 if name == "born" else 2, claim_number=1)
    status = value(db, "SELECT inbox.status()")
    assert (status["waiting"], status["parked"], status["dead"]) == (2, 1, 1)
    assert (status["claimed"], status["claimed_is_exact"]) == (2, True)
    assert status["oldest_waiting_seconds"] > 86400
    assert [entry["kafka_partition"] for entry in status["partitions"]] == [0, 1, 2, 3]
    assert [entry["name"] for entry in status["instances"]] == ["me"]
    assert status["schema_version"] >= 1


PARKED_SINCE = {
    "nothing before it": ("key", [], 7200),
    "one of another key before it": ("key", [{"available_at": "now", "key": b"other"}], 7200),
    "one of its key before it": ("key", [{"available_at": "2100-01-01", "retry_count": 1, "key": b"k"}], 0),
    "one of its key before it, at its handler again": (
        "key", [{"retry_count": 1, "delivery_count": 2, "claim_number": 5, "key": b"k"}], None),
    "one of its key before it, done at its second try": (
        "key", [{"processed_at": "now", "delivery_count": 2, "claim_number": 5, "key": b"k"}], 7200),
    "one of its partition before it": ("partition", [{"available_at": "2100-01-01", "key": b"other"}], 0),
    "one of its partition before it, at its handler again": (
        "partition", [{"delivery_count": 2, "claim_number": 5, "key": b"other"}], None),
    "no order": ("none", [{"available_at": "2100-01-01", "key": b"k"}], 7200),
}


@pytest.mark.parametrize("ordering, before, seconds", PARKED_SINCE.values(), ids=PARKED_SINCE)
def test_status_shows_the_age_of_a_parked_message_that_nothing_blocks(db, ordering, before, seconds):
    db.execute("UPDATE inbox.inbox_offsets SET ordering = %s", [ordering])
    for (number, columns) in enumerate(before):
        held = {"claimed_by": 1} if "delivery_count" in columns else {}
        insert(db, f"before{number}", kafka_offset=number, **{"claimed_by": None, **held, **columns})
    hours = value(db, "SELECT now() - interval '2 hours'")
    waiting(db, "parked", available_at="infinity", received_at=hours, kafka_offset=100, key=b"k")
    told = value(db, "SELECT inbox.status()")["oldest_waiting_seconds"]
    assert told == seconds or (seconds == 7200 and 7200 <= told < 7300)


def test_status_of_an_empty_schema(db):
    db.execute("DELETE FROM inbox.inbox_offsets")
    db.execute("DELETE FROM inbox.inbox_instances")
    status = value(db, "SELECT inbox.status()")
    assert (status["waiting"], status["partitions"], status["instances"], status["oldest_waiting_seconds"]) == \
        (0, [], [], None)


def test_status_costs_the_same_at_any_size(db):
    def pages():
        with db.transaction():
            db.execute("SET LOCAL enable_seqscan = on")
            plan = value(db, "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) SELECT inbox.status()")[0]["Plan"]
        return plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]

    def fill(rows, start):
        db.execute("""INSERT INTO inbox.inbox_messages (source, event_id, topic, kafka_partition, kafka_offset,
                          available_at, processed_at, dead_at)
                      SELECT 's', 'e' || i, 'orders', 0, i, CASE i % 4 WHEN 0 THEN now() WHEN 1 THEN 'infinity' END,
                             CASE WHEN i % 4 = 2 THEN now() END, CASE WHEN i % 4 = 3 THEN now() END
                      FROM generate_series(%s::int, %s::int) i""".replace("% 4", "%% 4"), [start, start + rows - 1])

    fill(50_000, 1)
    pages()
    before = pages()
    fill(150_000, 50_001)
    status = value(db, "SELECT inbox.status()")
    assert (status["waiting"], status["parked"], status["dead"]) == (10_000, 10_000, 10_000)
    assert pages() < before * 2


@pytest.mark.parametrize("error, shape", [
    ("upstream 503 after 20 ms", "upstream # after # ms"),
    ("no order 9f1c8a52-77aa-4f0e-9b1c-0123456789ab", "no order <id>"),
    ("key 'c-17' is \"gone\"", "key <text> is <text>"),
    ("at 0xdeadBEEF", "at <id>"),
    ("hash 0123456789abcdef0", "hash <id>"),
    ("can't and don't", "can't and don't"),
    ("facade", "facade"),
    (None, None),
    ("", ""),
    ("Traceback " + "x" * 2000 + " no route to host 17", "Traceback " + "x" * 490 + " … " + "x" * 480 + " no route to host #"),
])
def test_the_shape_of_an_error_replaces_variable_parts(db, error, shape):
    assert value(db, "SELECT inbox.error_shape(%s)", error) == shape


def test_dead_groups_count_messages_with_the_same_error(db):
    for number in range(3):
        dead(db, f"a{number}", event_type="order", error=f"upstream {500 + number}", error_code="HTTP")
    dead(db, "b", event_type="order", error="upstream 500", error_code="OTHER")
    dead(db, "c", event_type="refund", error="upstream 500", error_code="HTTP")
    processed(db, "p", event_type="order", error="upstream 500", error_code="HTTP")
    groups = db.execute("SELECT event_type, error_code, error_shape, messages FROM inbox.dead_groups"
                        " ORDER BY messages DESC, event_type, error_code").fetchall()
    assert groups == [("order", "HTTP", "upstream #", 3), ("order", "OTHER", "upstream #", 1),
                      ("refund", "HTTP", "upstream #", 1)]


# --- rejects ----------------------------------------------------------------------------------------


def reject(db, payload=b"{}", offset=7):
    return value(db, "INSERT INTO inbox.inbox_rejects (topic, kafka_partition, kafka_offset, key, headers, payload,"
                     " reason) VALUES ('orders', 1, %s, 'k', '[[\"a\", \"b\"]]', %s, 'id_missing: none') RETURNING seq",
                 offset, payload)


def test_a_page_of_rejects_ends_after_its_bytes_and_has_one_at_least(db, statements):
    made = [reject(db, b"x" * 1000, offset) for offset in range(3)]
    db.execute("UPDATE inbox.inbox_rejects SET headers = jsonb_build_array(jsonb_build_array('h', repeat('x', 1000000)))")
    for bytes_most, count in ((1, 1), (1500000, 2), (10**9, 3)):
        assert [row[0] for row in statements.run("op_rejects", None, 0, 10**9, 10, bytes_most, False)] == made[:count]
    assert [row[0] for row in statements.run("op_rejects", None, made[0], 10**9, 1, 10**9, False)] == made[1:2]


def test_a_replayed_reject_becomes_a_waiting_message(db):
    seq = reject(db)
    assert value(db, "SELECT inbox.replay_reject(%s, 's', 'r1', 't')", seq) == "stored"
    row = row_of(db, value(db, "SELECT seq FROM inbox.inbox_messages"))
    assert (row["event_id"], row["event_type"], row["topic"], row["kafka_partition"], row["kafka_offset"],
            row["key"], row["headers"], row["payload"], row["status"]) == \
        ("r1", "t", "orders", 1, 7, b"k", [["a", "b"]], b"{}", "waiting")
    assert row["payload_digest"] == value(db, "SELECT substr(sha256('{}'), 1, 16)")
    assert value(db, "SELECT count(*) FROM inbox.inbox_rejects") == 0
    assert value(db, "SELECT inbox.replay_reject(%s, 's', 'r1', 't')", seq) is None
    assert [entry["filter"]["fate"] for entry in audit(db)] == ["stored"]


def test_a_reject_is_replayed_after_those_that_hold_it_back(db):
    """Of another key, or without a hold, it does not matter. With partition order the key does not matter."""
    first, second, third = (reject(db, offset=offset) for offset in (7, 8, 9))
    db.execute("UPDATE inbox.inbox_rejects SET holds = true WHERE seq <> %s", [third])

    def replay(seq):
        return value(db, f"SELECT inbox.replay_reject({seq}, 's', 'r{seq}', 't')")

    assert [replay(second), replay(third)] == ["behind", "stored"]
    db.execute("UPDATE inbox.inbox_rejects SET key = 'other' WHERE seq = %s", [first])
    db.execute("UPDATE inbox.inbox_offsets SET ordering = 'partition'")
    assert replay(second) == "behind"
    db.execute("UPDATE inbox.inbox_offsets SET ordering = 'key'")
    with db.transaction(force_rollback=True):
        assert replay(second) == "stored"
    db.execute("UPDATE inbox.inbox_rejects SET key = 'k'")
    release = "SELECT inbox.release_reject(%s, 'not needed')"
    assert [value(db, release, first), value(db, release, first), replay(second)] == [True, False, "stored"]
    assert ("release_reject", "not needed") in [(entry["action"], entry["reason"]) for entry in audit(db)]


def test_the_reason_for_replaying_a_reject_is_audited_and_in_the_history(db):
    db.execute("SELECT inbox.replay_reject(%s, 's', 'r1', NULL, 'rules corrected')", [reject(db)])
    db.execute("SELECT inbox.replay_reject(%s, 's', 'r2', NULL)", [reject(db, offset=8)])
    assert [entry["reason"] for entry in audit(db)] == ["rules corrected", None]
    one, other = [history for (history,) in db.execute("SELECT attempts FROM inbox.inbox_messages ORDER BY seq")]
    assert [{**entry, "at": None} for entry in one] == [
        {"at": None, "replayed_by": value(db, "SELECT session_user"), "was": "rejected", "reason": "rules corrected"}]
    assert set(other[0]) == {"at", "replayed_by", "was"}


def test_a_replayed_reject_with_a_known_id_is_a_duplicate_or_a_conflict(db):
    db.execute("SELECT inbox.replay_reject(%s, 's', 'r1', NULL)", [reject(db)])
    assert value(db, "SELECT inbox.replay_reject(%s, 's', 'r1', NULL)", reject(db, offset=8)) == "duplicate"
    assert value(db, "SELECT inbox.replay_reject(%s, 's', 'r1', NULL)", reject(db, b"[]", 9)) == "conflict"
    assert db.execute("SELECT kafka_offset, payload FROM inbox.inbox_conflicts").fetchall() == [(9, b"[]")]
    assert value(db, "SELECT count(*) FROM inbox.inbox_messages") == 1


def test_a_reject_without_payload_has_no_digest(db):
    db.execute("SELECT inbox.replay_reject(%s, 's', 'r1', NULL)", [reject(db, None)])
    assert value(db, "SELECT payload_digest FROM inbox.inbox_messages") is None
