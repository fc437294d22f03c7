"""The statements of the relay: what they answer, and their plans with any statistics."""

import pytest

from support.wait import in_time
from statements import SETTINGS, Plan, Statements, text

# The columns of relay_page_begin.
SEQ, FRESH, BYTES, EVENT_ID, TOPIC, KEY, RUNS, PAYLOAD = 0, 1, 2, 3, 5, 7, 12, 13
ASK_XMIN = 17
ME = 1
MANY = 10**6
ALL = 10**9


def emit(db, key="k", topic="orders", data="{}"):
    """Emits an event and returns its seq."""
    db.execute("SELECT inbox.emit(%s, %s, 't', %s::jsonb)", [topic, key, data])
    return db.execute("SELECT currval('inbox.outbox_seq')").fetchone()[0]


def be_elected(statements):
    return statements.run("relay_elect", ME, -1, 0, [], [])[0][2]


def delete(statements, made):
    """Returns the seqs that were left out, as the next two do."""
    be_elected(statements)
    return [seq for (seq,) in statements.run("relay_delete", made, ME)]


def keep(statements, *values):
    be_elected(statements)
    return [seq for (seq,) in statements.run("relay_keep", *values, ME)]


def defer(statements, *values):
    be_elected(statements)
    return [seq for (seq,) in statements.run("relay_defer", *values, ME)]


def seqs(rows):
    return [row[SEQ] for row in rows]


def states(db):
    return dict(db.execute("SELECT seq, status FROM inbox.events").fetchall())


@pytest.fixture
def other(connect, db):
    """A second connection, for transactions that stay open."""
    connection = connect()
    yield connection
    connection.close()


def test_reading_returns_the_events_behind_the_tip_in_order(db, statements):
    first, second, third = (emit(db) for _ in range(3))
    assert seqs(statements.run("relay_read", 10, ALL, 0)) == [first, second, third]
    assert seqs(statements.run("relay_read", 10, ALL, first)) == [second, third]
    assert seqs(statements.run("relay_read", 2, ALL, 0)) == [first, second]
    assert statements.run("relay_read", 10, ALL, third) == []


def test_a_page_ends_after_its_bytes_and_has_one_event_at_least(db, statements):
    made = [emit(db, data='"' + "x" * 1000 + '"') for _ in range(3)]
    assert seqs(statements.run("relay_read", 10, 1, 0)) == made[:1]
    page = statements.run("relay_read", 10, 1500, 0)
    assert seqs(page) == made[:2]
    assert page[-1][BYTES] >= 1500, "the page was cut"
    whole = statements.run("relay_read", 10, ALL, 0)
    assert whole[-1][BYTES] < ALL
    assert whole[0][BYTES] > 1000


def test_the_bytes_of_a_page_are_those_that_are_sent(db, statements):
    """PostgreSQL stores a long header compressed."""
    db.execute("INSERT INTO inbox.outbox (topic, event_type, headers)"
               " SELECT 't', 't', jsonb_build_array(jsonb_build_array('h', repeat('x', 1000000))) FROM generate_series(1, 3)")
    assert db.execute("SELECT max(pg_column_size(headers)) FROM inbox.outbox").fetchone()[0] < 20000
    page = statements.run("relay_read", 10, 1500000, 0)
    assert len(page) == 2
    assert page[-1][BYTES] >= sum(len(row[RUNS]) for row in page)


def test_an_event_has_its_values_and_its_headers_as_runs(db, statements):
    db.execute("SELECT inbox.emit_bytes('t', '\\x00ff', 'a.b', '\\x01', 'x/y', %s::jsonb, 'id', 's', 'sub', 'agg')",
               ['[["n", "v"], ["empty", null], ["b", {"base64": "AP8="}]]'])
    (row,) = statements.run("relay_read", 10, ALL, 0)
    assert row[EVENT_ID:RUNS] == ("id", "s", "t", "agg", b"\x00\xff", "a.b", "sub", "x/y", None)
    run = lambda value: (-1).to_bytes(4, "big", signed=True) if value is None else len(value).to_bytes(4, "big") + value
    assert row[RUNS] == b"".join(map(run, [b"n", b"v", b"empty", None, b"b", b"\x00\xff"]))
    assert row[PAYLOAD] == b"\x01"
    emit(db)
    assert statements.run("relay_read", 10, ALL, row[SEQ])[0][RUNS] is None


def test_a_row_that_is_not_fresh_comes_without_payload(db, statements):
    made = [emit(db, data='"' + "x" * 1000 + '"') for _ in range(4)]
    keep(statements, [made[0]], [1], [7])
    defer(statements, made[1:3], [1, 2], [0, 0], [0, 9], [None, "no"], [None, "E"])
    rows = statements.run("relay_read", 10, ALL, 0)
    assert seqs(rows) == made, "their numbers are no holes"
    assert [(row[FRESH], row[PAYLOAD] is None) for row in rows] == [(False, True)] * 3 + [(True, False)]
    assert rows[2][BYTES] == 0


def test_a_number_is_taken_after_the_transaction_has_its_id(db, other, statements):
    """Otherwise a horizon could pass a transaction that has a seq and no id yet (rule O1)."""
    with other.transaction():
        missing = emit(other)
        xid = other.execute("SELECT pg_current_xact_id()::text::bigint").fetchone()[0]
        later = emit(db)
        assert seqs(statements.run("relay_read", 10, ALL, missing - 1)) == [later]
        assert xid < be_elected(statements), "a transaction that begins after the read has a greater id"
    default = db.execute("SELECT pg_get_expr(adbin, adrelid) FROM pg_attrdef WHERE adrelid = 'inbox.outbox'::regclass"
                         " AND adnum = 1").fetchone()[0]
    assert default.index("pg_current_xact_id") < default.index("nextval")


def ask(statements, seq):
    """(the event in this hole or None, the horizon)"""
    (row,) = statements.run("relay_ask", 10, ALL, [seq], [seq])
    return row[SEQ], row[ASK_XMIN]


def test_a_hole_is_open_while_its_transaction_is_and_then_has_its_event(db, other, statements):
    with other.transaction():
        missing = emit(other)
        emit(db)
        bound = be_elected(statements)
        event, horizon = ask(statements, missing)
        assert event is None and horizon < bound, "it must not be given up yet"
    assert ask(statements, missing)[0] == missing


def test_the_xmax_of_a_snapshot_is_no_bound_for_its_holes(db, connect, statements):
    """It is one more than the latest completed id, and a running transaction may have a greater one."""
    early, between, late = connect(), connect(), connect()
    be_elected(statements)
    for connection in (early, between, late):
        connection.execute("BEGIN")
        connection.execute("SELECT pg_current_xact_id()")
    missing = emit(late)
    emit(early)
    early.execute("COMMIT")
    xmax = db.execute("SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint").fetchone()[0]
    bounds = [statements.run("relay_hold", ME)[0][0], be_elected(statements)]
    between.execute("COMMIT")
    event, horizon = ask(statements, missing)
    assert event is None and xmax <= horizon < min(bounds)
    late.execute("COMMIT")
    assert ask(statements, missing)[0] == missing
    for connection in (early, between, late):
        connection.close()


def test_the_hole_of_a_rollback_is_behind_the_horizon(db, other, statements):
    with other.transaction(force_rollback=True):
        missing = emit(other)
        emit(db)
        bound = be_elected(statements)
    event, horizon = ask(statements, missing)
    assert event is None and horizon >= bound


def test_a_prepared_transaction_keeps_its_hole_open(db, other, statements):
    if db.execute("SHOW max_prepared_transactions").fetchone()[0] == "0":
        pytest.skip("max_prepared_transactions = 0")
    other.execute("BEGIN")
    missing = emit(other)
    other.execute("PREPARE TRANSACTION 'outbox'")
    emit(db)
    assert ask(statements, missing)[1] < be_elected(statements)
    db.execute("COMMIT PREPARED 'outbox'")
    assert ask(statements, missing)[0] == missing


def test_asking_stops_at_its_limits(db, statements):
    made = [emit(db) for _ in range(20)]
    ranges = [made[0], made[10]], [made[5], made[15]]
    assert len(statements.run("relay_ask", 4, ALL, *ranges)) == 4
    assert len(statements.run("relay_ask", MANY, 1, *ranges)) == 1
    rows = statements.run("relay_ask", MANY, ALL, *ranges)
    assert sorted(seqs(rows)) == made[0:6] + made[10:16]


def elected(statements, instance, floor=-1):
    """(the floor, the last number of the sequence), or None"""
    rows = statements.run("relay_elect", instance, floor, floor, [], [])
    return rows[0][:2] if rows else None


def position(statements, instance=1):
    """(the tip, the holes) of an election"""
    rows = statements.run("relay_elect", instance, -1, 0, [], [])
    return rows[0][3], [row[4:] for row in rows if row[4] is not None]


def test_the_position_is_stored_with_the_election(db, statements):
    emit(db)
    db.execute("SELECT setval('inbox.outbox_seq', 100)")
    assert position(statements) == (0, [])
    statements.run("relay_elect", ME, 2, 90, [3, 20], [5, 20])
    assert position(statements) == (90, [(3, 5), (20, 20)])
    db.execute("UPDATE inbox.outbox_relay SET floor = 50")  # as an earlier inboxd does
    assert position(statements) == (50, [])
    statements.run("relay_elect", ME, 90, 90, [], [])
    assert position(statements) == (90, [])
    db.execute("SELECT setval('inbox.outbox_seq', 80)")
    assert position(statements) == (0, [])


def test_a_row_of_the_election_that_is_missing_is_made_again(db, statements):
    made = [emit(db) for _ in range(3)]
    db.execute("DELETE FROM inbox.outbox_relay")
    assert statements.run("count_table", 10)[0][2] == 3
    assert elected(statements, 1) is None
    assert elected(statements, 1) == (0, made[-1])
    assert statements.run("count_table", 10)[0][2] == 0


def test_the_election_is_renewed_and_taken_from_an_instance_that_ended(db, statements):
    db.execute("INSERT INTO inbox.inbox_instances (id, name, low_seq) VALUES (2, 'other', 1)")
    emit(db)
    assert elected(statements, 1) == (0, 1)
    assert elected(statements, 1, 1) == (1, 1), "renewed, with a new floor"
    assert elected(statements, 2) is None
    assert statements.run("relay_hold", 2) == []
    assert len(statements.run("relay_hold", 1)) == 1
    db.execute("UPDATE inbox.inbox_instances SET fenced_at = now() WHERE id = 1")
    assert elected(statements, 2, 7) is None, "only the elected instance stores a floor"
    assert elected(statements, 2) == (1, 1)
    assert elected(statements, 1) is None, "a fenced instance is not elected"
    assert statements.run("relay_hold", 1) == []
    statements.count("relay_resign", 1)
    assert len(statements.run("relay_hold", 2)) == 1, "only the elected instance resigns"
    statements.count("relay_resign", 2)
    assert db.execute("SELECT instance FROM inbox.outbox_relay").fetchone() == (None,)


def test_an_instance_that_is_not_elected_writes_nothing_and_waits_for_nothing(db, other, statements):
    db.execute("INSERT INTO inbox.inbox_instances (id, name, low_seq) VALUES (2, 'other', 1)")
    be_elected(statements)
    with other.transaction():
        assert len(Statements(other).run("relay_hold", 1)) == 1
        with db.transaction():
            assert elected(statements, 2) is None
            assert db.execute("SELECT pg_current_xact_id_if_assigned()").fetchone() == (None,)


def test_the_election_ends_half_a_minute_after_the_last_sign(db, statements):
    db.execute("INSERT INTO inbox.inbox_instances (id, name, low_seq) VALUES (2, 'other', 1)")
    def elected_after(seconds):
        db.execute("UPDATE inbox.outbox_relay SET instance = 1, seen_at = clock_timestamp() - %s * interval '1 second'", [seconds])
        return elected(statements, 2)

    be_elected(statements)
    assert in_time(lambda: elected_after(29), 1) is None
    assert elected_after(31) is not None


def test_no_other_instance_is_elected_while_one_records_a_flight(db, other, statements):
    db.execute("INSERT INTO inbox.inbox_instances (id, name, low_seq) VALUES (2, 'other', 1)")
    be_elected(statements)
    db.execute("UPDATE inbox.inbox_instances SET fenced_at = now() WHERE id = 1")
    with other.transaction():
        assert len(Statements(other).run("relay_hold", 1)) == 1
        db.execute("SET lock_timeout = '100ms'")
        with pytest.raises(Exception, match="lock timeout"):
            elected(statements, 2)
        db.execute("RESET lock_timeout")


def test_a_flight_writes_no_version_of_the_election(db, statements):
    """Under an old snapshot each flight would have to pass all of them."""
    be_elected(statements)
    before = db.execute("SELECT ctid FROM inbox.outbox_relay").fetchone()
    for _ in range(3):
        statements.run("relay_hold", 1)
    assert db.execute("SELECT ctid FROM inbox.outbox_relay").fetchone() == before


def test_an_instance_that_lost_the_election_records_nothing(db, statements):
    db.execute("INSERT INTO inbox.inbox_instances (id, name, low_seq) VALUES (2, 'other', 1)")
    made = [emit(db) for _ in range(3)]
    be_elected(statements)
    everything = [(seq,) for seq in made]
    assert statements.run("relay_delete", made, 2) == everything
    assert statements.run("relay_keep", made, [0] * 3, [0] * 3, 2) == everything
    assert statements.run("relay_defer", made, [1] * 3, [0] * 3, [0] * 3, [None] * 3, [None] * 3, 2) == everything
    assert set(states(db).values()) == {"waiting"}


def test_a_sequence_behind_the_floor_resets_it(db, statements):
    emit(db)
    assert elected(statements, 1) == (0, 1)
    assert elected(statements, 1, 500) == (0, 1)
    db.execute("UPDATE inbox.outbox_relay SET floor = 500")
    assert elected(statements, 1) == (0, 1)


def test_rows_below_the_floor_are_found(db, statements):
    made = [emit(db) for _ in range(3)]
    db.execute("INSERT INTO inbox.outbox (seq, topic, event_type) VALUES (-5, 't', 't')")
    keep(statements, made[:1], [0], [0])
    assert seqs(statements.run("relay_low", 100, ALL, -1000, made[1])) == [-5, made[1]]
    assert seqs(statements.run("relay_low", 1, ALL, -5, made[2])) == [made[1]], "page by page"
    assert statements.run("relay_low", 100, ALL, made[1], made[1]) == []


def test_events_that_are_no_longer_deferred_are_found(db, statements):
    made = [emit(db) for _ in range(4)]
    defer(statements, made[:3], [0, 1, 2], [0] * 3, [0] * 3, [None] * 3, [None] * 3)
    missing = made[-1] + 100
    assert [row[0] for row in statements.run("relay_gone", [missing, *made])] == [0, 3, 4]


def test_events_are_unattended_when_nobody_was_elected_for_half_a_minute(db, statements):
    def unattended():
        return statements.run("count_table", 10)[0][2]

    made = [emit(db) for _ in range(4)]
    assert unattended() == 0, "the schema is new"
    db.execute("UPDATE inbox.outbox_relay SET seen_at = now() - interval '31 seconds'")
    assert unattended() == 4
    defer(statements, made[:2], [0, 1], [0] * 2, [0] * 2, [None] * 2, [None] * 2)
    assert unattended() == 0, "elected"
    statements.count("relay_resign", ME)
    assert unattended() == 0, "a moment ago"
    db.execute("UPDATE inbox.outbox_relay SET seen_at = now() - interval '31 seconds'")
    assert unattended() == 4, "two new ones and two deferred ones"
    db.execute("UPDATE inbox.outbox SET available_at = NULL, dead_at = now()")
    assert unattended() == 0
    for _ in range(20):
        emit(db)
    assert unattended() == 6, "of the lowest ten, four are dead"


def test_confirmed_events_are_deleted_or_marked(db, statements):
    made = [emit(db) for _ in range(3)]
    assert delete(statements, made[:1]) == []
    assert keep(statements, made[1:2], [3], [77]) == []
    assert states(db) == {made[1]: "published", made[2]: "waiting"}
    assert db.execute("SELECT kafka_partition, kafka_offset FROM inbox.events WHERE status = 'published'"
                      ).fetchone() == (3, 77)


def test_marking_a_published_event_changes_no_index(db, statements):
    db.execute("ALTER TABLE inbox.outbox SET (fillfactor = 40)")
    made = [emit(db) for _ in range(50)]
    be_elected(statements)
    with db.transaction():
        updates = "SELECT pg_stat_get_xact_tuples_updated(%s::regclass), pg_stat_get_xact_tuples_hot_updated(%s::regclass)"
        before = db.execute(updates, ["inbox.outbox"] * 2).fetchone()
        statements.run("relay_keep", made, [0] * 50, list(range(50)), ME)
        after = db.execute(updates, ["inbox.outbox"] * 2).fetchone()
    assert (after[0] - before[0], after[1] - before[1]) == (50, 50)


@pytest.mark.parametrize("record", [
    delete,
    lambda statements, made: keep(statements, made, [0] * len(made), [0] * len(made)),
    lambda statements, made: defer(statements, made, [1] * len(made), *[[0] * len(made)] * 2, *[[None] * len(made)] * 2)],
    ids=["delete", "keep", "defer"])
def test_locked_rows_are_left_out_and_all_others_recorded(db, other, statements, record):
    """Also those that somebody has locked before, or changed, or deleted."""
    locked, free, once_locked, changed = (emit(db) for _ in range(4))
    be_elected(statements)
    db.execute("SELECT FROM inbox.outbox WHERE seq = %s FOR KEY SHARE", [once_locked])
    db.execute("UPDATE inbox.outbox SET source = 's' WHERE seq = %s", [changed])
    with other.transaction():
        other.execute("SELECT FROM inbox.outbox WHERE seq = %s FOR UPDATE", [locked])
        db.execute("SET lock_timeout = '30s'")
        assert record(statements, [locked, free, once_locked, changed, 999]) == [locked]
        db.execute("RESET lock_timeout")
        assert {seq for seq, status in states(db).items() if status == "waiting"} == {locked}
    assert record(statements, [locked]) == []


def test_a_deferred_event_is_due_after_its_delay(db, statements):
    now, later, never = (emit(db, key) for key in "abc")
    defer(statements, [now, later, never], [0, 0, 1], [0, 60_000, 0], [1, 2, 0], ["no", "no", None],
                     ["REFUSED", "REFUSED", None])
    assert states(db) == {now: "retrying", later: "retrying", never: "parked"}
    assert seqs(statements.run("relay_due", 10, ALL, [])) == [now]
    assert statements.run("relay_due", 10, ALL, [now]) == []
    heads = statements.run("relay_heads", 10, 0, 0)
    assert [row[:6] for row in heads] == [(now, "orders", None, "t", b"a", "REFUSED"),
                                          (later, "orders", None, "t", b"b", "REFUSED")]
    assert 59_000_000 < heads[1][6] - heads[0][6] < 61_000_000
    assert [row[0] for row in statements.run("relay_heads", 10, heads[0][6], now)] == [later]


def test_parked_events_come_in_the_order_of_seq(db, statements):
    made = [emit(db, key) for key in "abab"]
    defer(statements, made[::-1], [1] * 4, [0] * 4, [0] * 4, [None] * 4, [None] * 4)
    assert [row[0] for row in statements.run("relay_parked", 10, 0)] == made
    assert statements.run("relay_parked", 2, made[0]) == [(made[1], "orders", None, "t", b"b"),
                                                         (made[2], "orders", None, "t", b"a")]
    assert seqs(statements.run("relay_fetch", 10, ALL, [made[2], made[0]])) == [made[0], made[2]]
    defer(statements, made[:1], [2], [0], [3], ["no"], ["E"])
    assert seqs(statements.run("relay_fetch", 10, ALL, made)) == made[1:], "the first one is dead meanwhile"


def test_a_dead_event_keeps_its_error_and_changes_no_more(db, statements):
    seq = emit(db)
    defer(statements, [seq], [2], [0], [10], ["too large"], ["MSG_SIZE_TOO_LARGE"])
    assert defer(statements, [seq], [0], [0], [0], [None], [None]) == [], "not left out: nothing is to be done"
    assert db.execute("SELECT status, retry_count, error, error_code FROM inbox.events").fetchone() == (
        "dead", 10, "too large", "MSG_SIZE_TOO_LARGE")


def test_the_backlog_counts_up_to_its_cap(db, statements):
    made = [emit(db) for _ in range(10)]
    assert statements.run("relay_backlog", 100)[0][:3] == (10, 0, 0)
    defer(statements, made[:3], [0, 1, 2], [0] * 3, [0] * 3, [None] * 3, [None] * 3)
    db.execute("UPDATE inbox.outbox SET created_at = now() - interval '1 minute' WHERE seq = %s", [made[1]])
    waiting, parked, dead, oldest_ms = statements.run("relay_backlog", 100)[0]
    assert (waiting, parked, dead) == (9, 1, 1)
    assert 60_000 <= oldest_ms < 120_000
    statements.run("relay_elect", ME, made[3], made[5], [made[4]], [made[4]])
    assert statements.run("relay_backlog", 100)[0][0] == 7, "one in the hole, four behind the tip, and two deferred ones"
    db.execute("DELETE FROM inbox.outbox")
    assert statements.run("relay_backlog", 100) == [(0, 0, 0, None)]


# --- Plans ---

WAITING = 100_000


@pytest.fixture(params=["never analyzed", "analyzed when empty", "analyzed when nothing waited", "analyzed"])
def backlog(request, db):
    """100,000 events wait, 10,000 are due, 10,000 parked, 10,000 dead, 10,000 published. The statistics are those of the
    parameter."""
    db.execute("ALTER TABLE inbox.outbox SET (autovacuum_enabled = off)")
    insert = """
        INSERT INTO inbox.outbox (topic, key, event_type, payload, available_at, published_at, dead_at)
        SELECT 'orders', ('k' || i %% 1000)::bytea, 't', %s, {0}, {1}, {2} FROM generate_series(1, {3}) i"""
    data = [b"x" * 200]
    if request.param == "analyzed when empty":
        db.execute("ANALYZE inbox.outbox")
    db.execute(insert.format("NULL", "now()", "NULL", 10_000), data)
    db.execute(insert.format("NULL", "NULL", "now()", 10_000), data)
    if request.param == "analyzed when nothing waited":
        db.execute("VACUUM ANALYZE inbox.outbox")
    db.execute(insert.format("now() - interval '1 hour'", "NULL", "NULL", 10_000), data)
    db.execute(insert.format("'infinity'", "NULL", "NULL", 10_000), data)
    db.execute(insert.format("NULL", "NULL", "NULL", WAITING), data)
    if request.param == "analyzed":
        db.execute("VACUUM ANALYZE inbox.outbox")
    return db


def explain(db, name, *values):
    """As the relay runs it: the settings of each transaction, and its own."""
    statements = Statements(db)
    with db.transaction(force_rollback=True):
        db.execute(SETTINGS)
        db.execute(text("relay_settings"))
        cursor = statements._execute("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) ", name, values)  # pylint: disable=protected-access
        return Plan(cursor.fetchone()[0][0])


def test_each_statement_of_the_relay_follows_its_index_and_stops(backlog):
    db = backlog
    flight = 500
    tip = 40_000
    waiting = list(range(tip + 1, tip + 1 + flight))
    parked = list(range(30_001, 30_001 + flight))
    holes = list(range(tip, tip + 2 * flight, 2))
    be_elected(Statements(db))
    db.execute("UPDATE inbox.outbox_relay SET seen_at = now() - interval '1 hour', floor = %s", [tip])
    zeros = [0] * flight
    nothing = [None] * flight
    # The pages that each may touch: those of its rows and of the index, not those of the table.
    for index, name, most, *values in [
            ("outbox_pkey", "relay_read", 100, flight, ALL, tip),
            ("outbox_pkey", "relay_read", 100, flight, ALL, tip + WAITING - 5),
            ("outbox_pkey", "relay_read", 10, flight, ALL, tip + WAITING),
            ("outbox_pkey", "relay_ask", 100, flight, ALL, [tip], [tip + WAITING]),
            ("outbox_pkey", "relay_ask", 5 * flight, flight, ALL, holes, holes),
            ("outbox_pkey", "relay_low", 100, 100, ALL, 0, 1000),
            ("outbox_waiting", "relay_due", 600, flight, ALL, [1]),
            ("outbox_pkey", "relay_fetch", 5 * flight, flight, ALL, parked),
            ("outbox_waiting", "relay_heads", 600, flight, 0, 0),
            ("outbox_waiting", "relay_parked", 600, flight, 0),
            ("outbox_waiting", "relay_parked", 600, flight, 35_000),
            ("outbox_pkey", "relay_delete", 6 * flight, waiting, ME),
            ("outbox_pkey", "relay_keep", 20 * flight, waiting, zeros, zeros, ME),
            ("outbox_pkey", "relay_defer", 40 * flight, waiting, [1] * flight, zeros, zeros, nothing, nothing, ME),
            ("outbox_pkey", "relay_gone", 5 * flight, parked),
            (None, "relay_backlog", 4000, 1000),
            (None, "count_table", 4000, 1000)]:
        plan = explain(db, name, *values)
        assert index in plan.indexes() or index is None, f"{name}: a function has its own plans"
        assert not plan.scans_whole("outbox"), name
        assert plan.pages() < most, f"{name}: {plan.pages()} pages"
        assert plan.compared_in_vain() <= flight, name


def test_an_idle_poll_above_dead_index_entries_reads_few_pages(db, other, statements):
    """An old snapshot keeps the entries of deleted events. A poll begins behind them."""
    db.execute("ALTER TABLE inbox.outbox SET (autovacuum_enabled = off)")
    with other.transaction():
        other.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        other.execute("SELECT count(*) FROM inbox.outbox")
        db.execute("INSERT INTO inbox.outbox (topic, event_type) SELECT 't', 't' FROM generate_series(1, 20000)")
        last = db.execute("SELECT max(seq) FROM inbox.outbox").fetchone()[0]
        delete(statements, list(range(last - 19_999, last + 1)))
        assert explain(db, "relay_read", 500, ALL, last).pages() < 10
        statements.run("relay_elect", ME, 0, last, [1], [1])
        statements.run("relay_backlog", 1000)  # reads catalogs to make the plan
        assert explain(db, "relay_backlog", 1000).pages() < 50, "also with a hole in front of them"
        assert explain(db, "relay_low", 500, ALL, last - 1000, last).pages() < 1100, "a range has a limit"
