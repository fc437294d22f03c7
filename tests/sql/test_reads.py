"""Operators' reads cost the same at any size of the table, and report how far they read.

Pages are compared, never times. INBOXD_LONG_READS=1 compares a million rows with twenty million.
"""

import datetime
import json
import os

import pytest

from test_functions import insert
from test_operators import dead, processed, value, waiting

BOUND = 100_000  # rows of a page that do not fit
SPECIAL = 6000   # the last rows of a filled table, in which alone something waits, is dead or claimed
MILLION = 1_000_000
LONG = bool(os.environ.get("INBOXD_LONG_READS"))
SIZES = (MILLION, 20 * MILLION) if LONG else (160_000, 480_000)


def fill(db, rows):
    """One row per second up to now; all are processed except the last ones."""
    db.execute("TRUNCATE inbox.inbox_messages RESTART IDENTITY")
    db.execute("ALTER TABLE inbox.inbox_messages SET UNLOGGED")
    db.execute("ALTER TABLE inbox.inbox_messages SET (autovacuum_enabled = off)")
    db.execute(f"""
        INSERT INTO inbox.inbox_messages (source, event_id, event_type, topic, kafka_partition, kafka_offset, key,
            payload_digest, received_at, available_at, claimed_by, processed_at, dead_at, delivery_count, retry_count,
            claim_number, error, error_code)
        SELECT 's', 'e' || i, 't', 'orders', i % 4, i, ('k' || i % 1000)::bytea, 'd',
            now() - make_interval(secs => {rows} - i),
            CASE k WHEN 1 THEN 'infinity' WHEN 2 THEN now() + interval '1 hour' WHEN 3 THEN now() END,
            CASE WHEN k BETWEEN 1 AND 3 THEN NULL ELSE 1 END,
            CASE WHEN k > 5 THEN now() END, CASE k WHEN 0 THEN now() END,
            CASE k WHEN 4 THEN 2 ELSE 1 END, CASE k WHEN 2 THEN 1 ELSE 0 END, CASE k WHEN 4 THEN i END,
            CASE k WHEN 0 THEN 'upstream said ' || i END, CASE k WHEN 0 THEN 'UP' END
        FROM (SELECT i, CASE WHEN i > {rows} - {SPECIAL} THEN i % 10 ELSE 10 END AS k
              FROM generate_series(1, {rows}) i) g ORDER BY i""")
    db.execute("UPDATE inbox.inbox_instances SET low_seq = %s, low_claim = %s", [rows - SPECIAL, rows - SPECIAL])


def ago(seconds):
    return (datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(seconds=seconds)).isoformat()


FILTERS = [{"topic": "orders"}, {"topic": "none"}, {"event_type": "none"}, {"event_type": "no*"}, {"key": "k7"},
           {"error_like": "%none%"}, {"error_code": "none"}, {"received_from": 1800}, {"received_to": 1800},
           {"received_from": 90_000, "received_to": 80_000, "key": "none"}]


def reads():
    """(name, values) of every read, by its name and filter."""
    for status in ("any", "dead", "waiting", "retrying", "parked", "claimed", "processed"):
        for given in ({}, *FILTERS):
            yield "op_list", (json.dumps({"status": status, **given}), 0, 51, "seq")
            yield "op_list", (json.dumps({"status": status, **given}), 0, 51, "seq DESC")
    for given in ({}, {"died_from": 1800}, {"died_to": 1800}, *FILTERS):
        yield "op_list", (json.dumps({"status": "dead", **given}), 0, 51, "died DESC")
    for given in ({}, *FILTERS):
        yield "op_groups", (json.dumps({"status": "dead", **given}), 100)
        yield "op_count", (None, "replay", json.dumps({"status": "dead", **given}), ["dead", "processed"], 2**31 - 1, 0, False)
        yield "op_replay_page", (json.dumps({"status": "dead", **given}), 0, 100, "why")
        yield "op_discard_page", (json.dumps({"status": "waiting", **given}), 0, 100, "why")
        if given:
            yield "op_replay_page", (json.dumps({"status": "processed", **given}), 0, 100, "why")


def in_time(text):
    """The filter with ages converted to times."""
    return json.dumps({name: ago(given) if name.startswith(("received", "died")) else given
                       for name, given in json.loads(text).items()})


WHERE = ["replay_where(max_rows => 100", "replay_where(topic => 'orders', max_rows => 100",
         "replay_where(error_like => '%said 1%', max_rows => 100", "replay_where(event_type => 'none'",
         "replay_where('processed', event_type => 'none'", "replay_where('processed', max_rows => 100",
         "replay_where('processed', received_from => now() - interval '1000 s', max_rows => 100",
         "discard_where(max_rows => 100", "discard_where('retrying', key => 'none'", "discard_where('parked'"]


def pages_of(db, statements):
    """The pages that each read needs the second time, when its plan is cached."""
    def where(call):
        plan = value(db, f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) SELECT inbox.{call}, dry_run => true)".replace("%", "%%"))
        return plan[0]["Plan"]["Shared Hit Blocks"] + plan[0]["Plan"]["Shared Read Blocks"]

    found = {}
    for name, values in reads():
        place = 2 if name == "op_count" else 0
        given = (*values[:place], in_time(values[place]), *values[place + 1:])
        found[f"{name} {values[place]} {values[-1]}"] = [statements.explain(name, *given).pages() for _ in (1, 2)][1]
    for call in WHERE:
        found[call] = [where(call) for _ in (1, 2)][1]
    return found


@pytest.mark.timeout(7200 if LONG else 900)
@pytest.mark.parametrize("knowledge", ["analyzed", *(["never analyzed"] if LONG else [])])
def test_pages_read_do_not_grow_with_the_table(db, statements, knowledge):
    db.execute("SET client_min_messages = error")
    found = []
    for rows in SIZES:
        fill(db, rows)
        if knowledge == "analyzed":
            db.execute("VACUUM ANALYZE inbox.inbox_messages")
        found.append(pages_of(db, statements))
    grown = {name: (few, many) for (name, few), many in zip(found[0].items(), found[1].values())
             if not few * 0.9 <= many <= few * 1.1}
    assert not grown, grown
    listed = found[1]['op_list {"status": "dead"} seq']
    assert listed < 400, "51 rows of a few hundred dead ones"


@pytest.mark.parametrize("most", [50, 5000])
def test_a_page_uses_its_index_despite_wrong_statistics(db, statements, most):
    """Analyzed while most rows were dead or waiting, of which few are left."""
    db.execute("INSERT INTO inbox.inbox_messages (source, event_id, topic, kafka_partition, kafka_offset, dead_at,"
               " available_at, error) SELECT 's', 'e' || i, 'orders', 0, i, CASE i % 2 WHEN 0 THEN now() END,"
               " CASE i % 2 WHEN 1 THEN now() END, 'boom' FROM generate_series(1, 40000) i")
    db.execute("VACUUM ANALYZE inbox.inbox_messages")
    db.execute("UPDATE inbox.inbox_messages SET processed_at = now(), dead_at = NULL, available_at = NULL"
               " WHERE seq <= 39940")
    db.execute("VACUUM inbox.inbox_messages")
    for status in ("dead", "waiting"):
        for order in ("seq", "seq DESC", *(["died", "died DESC"] if status == "dead" else [])):
            values = (json.dumps({"status": status}), 0, most, order)
            assert len(statements.run("op_list", *values)) == 30
            assert statements.explain("op_list", *values).pages() < 600, (status, order)


def test_functions_that_disable_seqscan_also_disable_jit(db):
    """enable_seqscan = off adds a cost of 10^10, which is above every limit for jit."""
    rows = db.execute("SELECT proname, 'jit=off' = ANY (proconfig) FROM pg_proc"
                      " WHERE pronamespace = 'inbox'::regnamespace AND 'enable_seqscan=off' = ANY (proconfig)").fetchall()
    assert {"status", "purge", "retain"} <= {name for name, _ in rows}
    assert [name for name, off in rows if not off] == []


def test_status_uses_no_jit_with_many_waiting_rows(db):
    """Eight partitions and ten thousand rows: jit took fifty times as long as counting."""
    db.execute("INSERT INTO inbox.inbox_offsets (topic, kafka_partition, ordering)"
               " SELECT 'many', p, 'key' FROM generate_series(0, 7) p")
    db.execute("INSERT INTO inbox.inbox_messages (source, event_id, topic, kafka_partition, kafka_offset, available_at)"
               " SELECT 's', 'e' || i, 'many', i % 8, i, now() FROM generate_series(1, 10000) i")
    db.execute("VACUUM ANALYZE inbox.inbox_messages")
    db.execute("LOAD 'auto_explain'")
    for name, setting in (("log_min_duration", "0"), ("log_nested_statements", "on"), ("log_analyze", "on"),
                          ("log_timing", "off")):
        db.execute(f"SET auto_explain.{name} = {setting}")
    plans = []
    db.add_notice_handler(lambda notice: plans.append(notice.message_primary))
    db.execute("SET client_min_messages = log")
    assert value(db, "SELECT inbox.status() ->> 'waiting'") == "10000"
    db.execute("RESET client_min_messages")
    assert any("inbox_messages" in plan for plan in plans), "the plan is seen"
    assert not any("JIT:" in plan for plan in plans)


# --- How far a page reads ---------------------------------------------------------------------------


def look(db, filter_, after=0, most=10):
    return db.execute("SELECT * FROM inbox.look_page(%s, %s, %s)", [json.dumps(filter_), after, most]).fetchone()


def heard(db):
    """Collects the server's messages from now on: severity, text, hint."""
    said = []
    db.add_notice_handler(lambda notice: said.append(
        (notice.severity_nonlocalized, notice.message_primary, notice.message_hint)))
    return said


@pytest.fixture
def haystack(db):
    """One dead and one processed row that match, each behind more rows than a page reads."""
    db.execute("INSERT INTO inbox.inbox_messages (source, event_id, topic, kafka_partition, kafka_offset, dead_at,"
               " processed_at) SELECT 's', 'e' || i, 'orders', 0, i, CASE i % 2 WHEN 0 THEN now() END,"
               f" CASE i % 2 WHEN 1 THEN now() END FROM generate_series(1, {2 * BOUND + 2}) i")
    return {"dead": dead(db, "needle d", event_type="needle"), "processed": processed(db, "needle p", event_type="needle")}


@pytest.mark.parametrize("status", ["dead", "processed"])
def test_a_page_ends_at_its_read_limit_and_the_next_continues_there(db, haystack, status):
    wanted = {"status": status, "event_type": "needle"}
    seqs, looked, last = look(db, wanted)
    assert (seqs, looked) == ([], BOUND)
    while not seqs:
        seqs, looked, last = look(db, wanted, last)
    assert (seqs, last) == ([haystack[status]], None)


def test_a_replay_reports_its_last_position_and_continues_after_it(db, haystack):
    said = heard(db)
    db.execute("SET client_min_messages = warning")
    call = "SELECT inbox.replay_where('processed', event_type => 'needle', after_seq => %s)"
    assert value(db, call, 0) == 0
    assert len(said) == 1 and said[0][0] == "WARNING"
    assert said[0][1].startswith(f"inbox.replay_where: looked at {BOUND} messages, as far as seq ")
    last = int(said[0][1].rpartition(" ")[2])
    assert f"after => {last}" in said[0][2]
    while value(db, call, last) == 0:
        last = int(said[-1][1].rpartition(" ")[2])
    assert value(db, "SELECT status FROM inbox.messages WHERE event_id = 'needle p'") == "waiting"


@pytest.mark.parametrize("call", ["replay_where(event_type => 'needle')", "discard_where(event_type => 'needle')"])
def test_without_max_rows_all_dead_or_waiting_messages_are_searched(db, haystack, call):
    db.execute("SET client_min_messages = error")
    if "discard" in call:
        db.execute("UPDATE inbox.inbox_messages SET available_at = now(), dead_at = NULL, claimed_by = NULL"
                   " WHERE dead_at IS NOT NULL")
    said = heard(db)
    db.execute("SET client_min_messages = warning")
    assert value(db, f"SELECT inbox.{call}") == 1
    assert said == []
    assert value(db, f"SELECT inbox.{call.replace(')', ', max_rows => 5)')}") == 0
    assert len(said) == 1


def test_pages_of_a_replay_continue_after_a_page_without_a_match(db, haystack):
    place, affected, pages = 0, 0, 0
    while place is not None:
        count, place = db.execute("SELECT * FROM inbox.replay_page(%s, %s, 10)", [json.dumps(
            {"status": "dead", "event_type": "needle"}), place]).fetchone()
        affected, pages = affected + count, pages + 1
    assert affected == 1 and pages >= 3
    assert value(db, "SELECT count(*) FROM inbox.inbox_audit") == 1, "pages without a message are no change"


# --- What a page returns -----------------------------------------------------------------------------


def found(db, **wanted):
    return look(db, wanted, most=None)[0]


def test_each_status_is_listed_in_seq_order_across_partitions(db):
    made = {}
    for number in range(3):
        for status, make, columns in (("dead", dead, {}), ("processed", processed, {}),
                                      ("parked", waiting, {"available_at": "infinity"}),
                                      ("retrying", waiting, {"retry_count": 1}), ("plain", waiting, {})):
            made.setdefault(status, []).append(make(db, f"{status}{number}", kafka_partition=3 - number, **columns))
    for status in ("dead", "processed", "parked", "retrying"):
        assert found(db, status=status) == made[status]
    assert found(db, status="waiting") == sorted(made["parked"] + made["retrying"] + made["plain"])
    assert found(db, status="any") == sorted(sum(made.values(), []))
    assert look(db, {"status": "waiting"}, made["parked"][1], 2)[0] == [made["retrying"][1], made["plain"][1]]


def test_claimed_messages_are_found_through_the_bounds_of_instances(db):
    db.execute("INSERT INTO inbox.inbox_instances (id, name, low_seq, low_claim, fenced_at) VALUES (2, 'dead one', 5, 1, now())")
    from_table = insert(db, "from the table", delivery_count=2, claim_number=7)
    settled = insert(db, "settled", delivery_count=2, claim_number=8, processed_at="now")
    other = insert(db, "of a dead instance, from the table", claimed_by=2, delivery_count=3, claim_number=1)
    processed(db, "done")
    born = insert(db, "born")
    of_dead = insert(db, "born for a dead instance", claimed_by=2)
    waiting(db, "waits")
    db.execute("UPDATE inbox.inbox_instances SET low_seq = %s, low_claim = 7 WHERE id = 1", [born])
    db.execute("UPDATE inbox.inbox_instances SET low_seq = %s WHERE id = 2", [of_dead])
    assert found(db, status="claimed") == [from_table, other, born, of_dead]
    assert settled not in found(db, status="claimed")
    assert look(db, {"status": "claimed"}, from_table, 2)[0] == [other, born]
    db.execute("DELETE FROM inbox.inbox_instances WHERE id = 1")
    db.execute("UPDATE inbox.inbox_instances SET rescued_at = now()")
    assert found(db, status="claimed") == []


def test_a_time_is_found_in_a_large_table(db):
    db.execute("SELECT setseed(0.5)")
    db.execute("INSERT INTO inbox.inbox_messages (source, event_id, topic, kafka_partition, kafka_offset, received_at,"
               " processed_at) SELECT 's', 'e' || i, 'orders', 0, i, '2026-01-01Z'::timestamptz + make_interval(secs =>"
               f" i + 20 * random()), now() FROM generate_series(1, {2 * BOUND}) i WHERE i % 1000 < 700")
    begin = datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc)
    for first, last in ((-50, 20), (0, 300), (690, 710), (999, 1001), (70_000, 70_400), (2 * BOUND - 50, 2 * BOUND + 99),
                        (2 * BOUND + 99, 2 * BOUND + 999), (130_000, 131_000)):
        times = [(begin + datetime.timedelta(seconds=second)).isoformat() for second in (first, last)]
        wanted = db.execute("SELECT array_agg(seq ORDER BY seq) FROM inbox.inbox_messages"
                            " WHERE received_at >= %s AND received_at < %s", times).fetchone()[0] or []
        seqs, looked, end = look(db, dict(zip(("received_from", "received_to"), times), status="processed"), 0, 5000)
        assert (seqs, end) == (wanted, None), (first, last)
        assert looked <= len(wanted) + 200, "what is before and behind is not looked at"
    half = look(db, {"status": "any", "received_from": (begin + datetime.timedelta(seconds=BOUND)).isoformat()}, 0, 5)[0]
    assert look(db, {"status": "any", "received_from": begin.isoformat()}, half[-1], 3)[0][0] == half[-1] + 1


def test_a_small_table_is_searched_completely_despite_clock_changes(db):
    early = processed(db, "early", received_at="2001-01-01")
    late = processed(db, "late", received_at="2031-01-01")
    processed(db, "now")
    assert found(db, status="processed", received_from="2030-01-01") == [late]
    assert found(db, status="processed", received_to="2010-01-01") == [early]
