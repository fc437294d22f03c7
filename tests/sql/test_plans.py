"""The plans of PostgreSQL: the intended index with any statistics, and HOT updates.

Pages are compared, never times.
"""

import re

import pytest

from statements import ALL, called_functions, NAMED, Plan, Statements

ROWS = 200_000
BIG = "x" * 200


def fill(db, rows=ROWS):
    """Mostly processed; every tenth row is due, every tenth parked, the last ones are claimed by 1."""
    db.execute("ALTER TABLE inbox.inbox_messages SET (autovacuum_enabled = off)")
    insert_rows(db, rows)


def insert_rows(db, rows):
    db.execute("""
        INSERT INTO inbox.inbox_messages (source, event_id, event_type, topic, kafka_partition, kafka_offset,
            key, payload, payload_digest, available_at, claimed_by, processed_at, delivery_count)
        SELECT 's', 'e' || i, 't', 'orders', i % 4, i / 4, ('k' || i % 1000)::bytea, %s, 'd',
            CASE i % 10 WHEN 0 THEN now() - interval '1 hour' WHEN 1 THEN 'infinity' END,
            CASE WHEN i % 10 > 1 THEN 1 END,
            CASE WHEN i % 10 > 1 AND i < %s THEN now() END, 1
        FROM generate_series(1, %s) i""".replace("% ", "%% "), [BIG.encode(), rows - 5000, rows])


@pytest.fixture(scope="module", params=["never analyzed", "analyzed when empty", "analyzed when nothing waited", "analyzed"])
def knowledge(request):
    """The statistics that the planner has."""
    return request.param


def analyze_while_nothing_waits(db):
    """The usual state when autovacuum analyzes the table."""
    db.execute("CREATE TEMP TABLE waits AS SELECT seq, available_at FROM inbox.inbox_messages"
               " WHERE available_at IS NOT NULL")
    db.execute("UPDATE inbox.inbox_messages SET available_at = NULL, processed_at = now()"
               " WHERE available_at IS NOT NULL")
    db.execute("VACUUM ANALYZE inbox.inbox_messages")
    db.execute("UPDATE inbox.inbox_messages m SET available_at = w.available_at, processed_at = NULL"
               " FROM waits w WHERE m.seq = w.seq")
    db.execute("DROP TABLE waits")


@pytest.fixture
def full(db, statements, knowledge):
    if knowledge == "analyzed when empty":
        db.execute("ANALYZE inbox.inbox_messages")
    fill(db)
    if knowledge == "analyzed when nothing waited":
        analyze_while_nothing_waits(db)
    if knowledge == "analyzed":
        db.execute("VACUUM ANALYZE inbox.inbox_messages")
    return statements


def ours(db, count):
    return [row[0] for row in db.execute("SELECT seq FROM inbox.inbox_messages WHERE claimed_by = 1"
                                         " AND processed_at IS NULL ORDER BY seq LIMIT %s", [count])]


def hashes(db, count):
    return [row[0] for row in db.execute("SELECT DISTINCT substr(sha256(key), 1, 8) FROM inbox.inbox_messages"
                                         " WHERE available_at IS NOT NULL AND kafka_partition = 0 LIMIT %s",
                                         [count])]


def new_rows(count):
    return (["s"] * count, [f"n{i}" for i in range(count)], ["t"] * count, ["orders"] * count,
            [i % 4 for i in range(count)], list(range(10**6, 10**6 + count)), [None] * count,
            [b"new%d" % i for i in range(count)], ["[]"] * count, [b"{}"] * count, [b"d"] * count,
            [0] * count, [1] * count, [""] * count)


def test_every_statement_finds_its_index(db, full):
    """One filled table for all of them, because filling takes most of the time."""
    four = (["orders"] * 4, [0, 1, 2, 3], [""] * 4)
    known = [f"e{i}" for i in range(1000)]
    wanted = []

    def expect(index, name, *values):
        wanted.append((index, name, values))

    for count in (10, 1000):
        seqs = ours(db, count)
        ones = [1] * len(seqs)
        nothing = [None] * len(seqs)
        expect("inbox_messages_seq_key", "settle_done", 1, seqs, 1, "billing")
        expect("inbox_messages_seq_key", "settle_verdicts", 1, seqs, ones, [2] * len(seqs), ones, ones, ones,
               [False] * len(seqs), nothing, nothing, nothing, nothing)
        expect("inbox_messages_seq_key", "settle_completed", 1, seqs, 1, "billing")
        expect("inbox_messages_seq_key", "settle_state", 1, seqs, ones, ["billing"] * len(seqs))
        expect("inbox_messages_seq_key", "settle_lockable", seqs)
        expect("inbox_messages_seq_key", "raise_crash", 1, seqs, ones)
        expect("inbox_messages_pkey", "find_conflicts", known[:count], ["s"] * count, [""] * count, nothing[:count], seqs[:count])
        for whole in (False, True):
            expect("inbox_rejects_holding", "find_held", ["orders"], [0], ["orders"] * count, [0] * count, list(range(count)),
                   [b"k"] * count, known[:count], ["s"] * count, [""] * count, whole)
        expect("inbox_messages_pkey", "insert_conflicts", ["s"] * count, known[:count], ["orders"] * count,
               [0] * count, list(range(count)), [None] * count, [None] * count, ["[]"] * count,
               [b"other"] * count, [b"x"] * count, [""] * count)
    expect("inbox_messages_pkey", "op_find", "e7", None, None, None)
    expect("inbox_messages_pkey", "op_find", "e7", "s", "billing", None)
    expect("inbox_messages_pkey", "op_show", "e7", None, None)
    expect("inbox_messages_pkey", "op_verify", "orders", 0, [1], ["s"], ["e7"], [b"d"], ["t"], ["2000-01-01Z"])
    for rows in (10, 500, 5000):
        expect("inbox_messages_due", "claim_due", 1, *four, rows, 10**9, *ALL, [True] * 4, 1, [None] * 4, [])
        expect("inbox_messages_due", "claim_due", 1, *four, rows, 10**9, *ALL, [False] * 4, 1, ["2000-01-01Z"] * 4, [])
    for count in (1, 50):
        lanes = hashes(db, count)
        expect("inbox_messages_by_key", "claim_lanes", 1, ["orders"] * len(lanes), [0] * len(lanes), [""] * len(lanes), lanes, 100,
               10**9, *ALL, 1, [])
        expect("inbox_messages_by_key", "probe_lanes", ["orders"] * len(lanes), [0] * len(lanes), [""] * len(lanes), lanes, 100, [])
    expect("inbox_messages_due", "probe_due", *four, 100, [])
    expect("inbox_messages_by_offset", "probe_partitions", *four, 100, [])
    expect("inbox_messages_seq_key", "probe_claim", 1, 1, [1, 2])
    expect("inbox_messages_by_offset", "claim_partitions", 1, *four, [None] * 4, 100, 10**9, *ALL, 1, [])
    expect("inbox_messages_by_key", "find_parked", "orders", 1, "", b"", 100, *ALL)
    expect("inbox_messages_by_key", "release_unkeyed", "orders", 1, "", 100, *ALL)
    expect("inbox_messages_due", "release_unordered", "orders", 1, "", 100, *ALL)
    expect("inbox_messages_due", "count_waiting", *four, 1000)
    expect("inbox_messages_due", "count_unrouted", *four, 1000, *ALL, ["billing"])
    expect("inbox_messages_due", "count_for_nobody", *four[:2], ["a", ""], 1000)
    expect("inbox_messages_dead", "count_table", 1000)
    expect("inbox_messages_seq_key", "rescue_unknown", 1, ROWS - 100)
    expect("inbox_messages_claimed", "rescue_unheld", 1, [1, 2, 3], [2, 2, 2], 1)
    expect("inbox_messages_claimed", "rescue_slow", 1, 1, 20)
    expect("inbox_messages_seq_key", "rescue_born", 1, ROWS - 5000, 5000)
    expect("inbox_messages_due", "find_needed_handlers", 1, 15000, 500)
    expect("inbox_messages_seq_key", "foreign_born", 1, ROWS - 5000, 5000, *four, [False] * 4, 10000)
    expect("inbox_messages_claimed", "foreign_slow", 1, 1, 20, *four, [False] * 4, 10000)
    db.execute("UPDATE inbox.inbox_instances SET stragglers = %s", [ours(db, 32)])
    expect("inbox_messages_seq_key", "foreign_stragglers", 2, *four, [False] * 4, 10000)
    expect("inbox_messages_seq_key", "rescue_stragglers", 1, 1, 32)
    expect("inbox_messages_seq_key", "hold_states", 1, ours(db, 1000))
    expect("inbox_messages_by_key", "insert_messages", 1, *new_rows(500), True, False)
    *rows, _, consumers = new_rows(500)
    expect("inbox_messages_by_offset", "insert_messages", 1, *rows, [2] * 500, consumers, True, False)

    for index, name, values in wanted:
        plan = full.explain(name, *values)
        assert index in plan.indexes(), name
        assert not plan.scans_whole("inbox_messages"), name


def test_a_batch_of_one_key_asks_the_table_once(full):
    *rows, asks, consumers = new_rows(500)
    rows[3:5], rows[6:8] = [["orders"] * 500, [0] * 500], [[None] * 500, [b"hot"] * 500]
    assert full.explain("insert_messages", 1, *rows, asks, consumers, True, False).pages("inbox_messages_by_key") < 10
    assert full.explain("insert_messages", 1, *rows, [0] * 500, consumers, False, False).pages("inbox_messages_by_key") == 0


@pytest.mark.parametrize("call", ["replay('s', 'e7')", "discard('s', 'e10')"])
def test_a_function_finds_a_message_by_its_primary_key(db, full, call):
    scans = "SELECT pg_stat_get_xact_numscans(%s::regclass)"
    with db.transaction():
        # The counts of earlier transactions are in them, too, until the server has reported those.
        (before,) = db.execute(scans, ["inbox.inbox_messages_pkey"]).fetchone()
        (whole,) = db.execute(scans, ["inbox.inbox_messages"]).fetchone()
        assert db.execute(f"SELECT inbox.{call}").fetchone() == (True,)
        assert db.execute(scans, ["inbox.inbox_messages_pkey"]).fetchone() == (before + 1,)
        assert db.execute(scans, ["inbox.inbox_messages"]).fetchone() == (whole,)


def test_waiting_rows_are_counted_up_to_one_cap_for_all_partitions(db, full):
    four = (["orders"] * 4, [0, 1, 2, 3], [""] * 4)
    db.execute("UPDATE inbox.inbox_messages SET available_at = now() - interval '3 hours' WHERE seq = ("
               "SELECT max(seq) FROM inbox.inbox_messages WHERE kafka_partition = 2 AND available_at < now())")
    (counted, oldest_ms), = full.run("count_waiting", *four, 1000)
    assert counted == 1000, "not of each"
    assert 3 * 3600 * 1000 <= oldest_ms < 4 * 3600 * 1000, "of the others, too"
    assert full.explain("count_waiting", *four, 1000).pages() < full.explain("count_waiting", *four, 10_000).pages() / 2
    (counted, _), = full.run("count_waiting", *four, 10**6)
    assert counted == ROWS // 10


def test_any_waiting_reads_at_most_two_pages_of_a_partition(full):
    plan = full.explain("any_waiting", ["orders"] * 4, [0, 1, 2, 3], [""] * 4)
    assert not plan.scans_whole("inbox_messages")
    assert plan.pages() < 60


def test_produced_dead_messages_are_not_read_again(db, full, knowledge):
    """With any number of dead messages, the search for unproduced ones reads only those."""
    db.execute("UPDATE inbox.inbox_messages SET available_at = NULL, claimed_by = 1, dead_at = now(),"
               " dead_topic_at = now() WHERE seq > %s", [ROWS - 5000])
    db.execute("VACUUM ANALYZE inbox.inbox_messages" if knowledge == "analyzed" else "VACUUM inbox.inbox_messages")
    for name, values in (("dead_backlog", [10_000, 0, 0]), ("dead_fetch", [200, 10**6, [], 0, 0])):
        plan = full.explain(name, *values)
        assert "inbox_messages_dead_topic" in plan.indexes(), name
        assert plan.pages() < 20, name
    db.execute("UPDATE inbox.inbox_messages SET dead_topic_at = NULL WHERE seq > %s", [ROWS - 50])
    plan = full.explain("dead_fetch", 200, 10**6, [], 0, 0)
    assert "inbox_messages_dead_topic" in plan.indexes()
    assert not plan.scans_whole("inbox_messages")
    assert len(full.run("dead_fetch", 200, 10**6, [], 0, 0)) == 50
    assert plan.pages() < 1500


def test_refused_dead_messages_are_not_read_again(db, full):
    """With any number of messages before a position, a search after it reads only later ones."""
    db.execute("UPDATE inbox.inbox_messages SET available_at = NULL, claimed_by = 1, dead_at = clock_timestamp()"
               " WHERE seq > %s", [ROWS - 5000])
    place = db.execute("SELECT (extract(epoch FROM dead_at) * 1000000)::bigint, seq FROM inbox.inbox_messages"
                       " WHERE dead_at IS NOT NULL ORDER BY dead_at DESC, seq DESC OFFSET 10 LIMIT 1").fetchone()
    plan = full.explain("dead_fetch", 200, 10**6, [], *place)
    assert "inbox_messages_dead_topic" in plan.indexes()
    assert plan.pages() < 100
    assert len(full.run("dead_fetch", 200, 10**6, [], *place)) == 10


KINDS = ["payload", "processed", "dead", "dead_produced", "rejects", "conflicts", "audit", "instances", "outbox", "outbox_dead",
         "requests", "requests_leased"]


def test_a_retention_batch_reads_its_rows_and_not_the_table(full):
    """The table has more than ten thousand pages. A call that finds nothing old reads one batch of rows. A plan can
    change after several equal calls in a session."""
    for _ in range(8):
        for what in KINDS:
            full.run("retain", 1, [what], [10**10], [10])
    for what in KINDS:
        assert full.explain("retain", 1, [what], [10**10], [1000]).pages() < 1000, f"{what}: nothing to do"
    for what in ("payload", "processed"):
        assert full.explain("retain", 1, [what], [0], [10]).pages() < 500, f"{what}: ten rows"
        assert full.explain("retain", 1, [what], [0], [1000]).pages() < 15_000, f"{what}: a thousand rows"


def test_a_retention_batch_of_kept_dead_rows_reads_only_those_rows(db, full):
    """With any number of unproduced messages, one batch reads the next ones along their index."""
    db.execute("UPDATE inbox.inbox_messages SET available_at = NULL, processed_at = NULL, claimed_by = 1,"
               " dead_at = '2026-01-01' WHERE seq > %s", [ROWS - 20_000])
    for _ in range(4):
        plan = full.explain("retain", 1, ["dead_produced"], [1000], [100])
        assert plan.pages() < 1000
        assert full.run("retain", 1, ["dead_produced"], [1000], [100]) == [(True, 0, True, 0, None, None)]


def test_a_retention_walk_does_not_read_deleted_rows_again(db, full):
    """Deleted rows that vacuum has not removed yet are before the position of the walk."""
    def batch():
        return full.explain("retain", 1, ["processed"], [0], [10]).pages()

    first = batch()
    for _ in range(20):
        assert full.run("retain", 1, ["processed"], [0], [1000])[0][2] is True
    assert batch() < first + 100


def updates(db):
    db.execute("SELECT pg_stat_force_next_flush()")
    return db.execute("SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables"
                      " WHERE schemaname = 'inbox' AND relname = 'inbox_messages'").fetchone()


def index_sizes(db):
    return dict(db.execute("SELECT indexrelid::regclass::text, pg_relation_size(indexrelid) FROM pg_index"
                           " WHERE indrelid = 'inbox.inbox_messages'::regclass").fetchall())


def born_claimed(db, count):
    db.execute("""
        INSERT INTO inbox.inbox_messages (source, event_id, event_type, topic, kafka_partition, kafka_offset,
            key, payload, payload_digest, claimed_by, delivery_count)
        SELECT 's', 'b' || i, 't', 'orders', 0, i, 'k', %s, 'd', 1, 1 FROM generate_series(1, %s) i""",
               [BIG.encode(), count])
    return ours(db, count)


@pytest.fixture
def hot(db):
    """Counts updates: (all, HOT ones) since it was made."""
    if db.info.server_version < 150000:
        pytest.skip("pg_stat_force_next_flush() came with PostgreSQL 15")
    before = updates(db)
    return lambda: tuple(now - then for now, then in zip(updates(db), before))


def test_completing_is_a_hot_update_and_touches_no_index(db, statements, hot):
    seqs = born_claimed(db, 2000)
    sizes = index_sizes(db)
    assert statements.count("settle_done", 1, seqs, 1, "billing") == 2000
    assert hot() == (2000, 2000)
    assert index_sizes(db) == sizes


def test_a_result_keeps_completions_hot_while_the_page_has_room(db, statements, hot):
    """The other half of a page has room for the same number of rows of the same size. A result makes rows larger, so
    that the last ones of a page may move to another page."""
    seqs = born_claimed(db, 2000)
    zeros, nothing = [0] * 2000, [None] * 2000
    result = ['{"charge": "ch_1234"}'] * 2000
    done = statements.run("settle_verdicts", 1, seqs, [1] * 2000, zeros, zeros, zeros, zeros, [False] * 2000,
                          nothing, nothing, result, nothing)
    assert len(done) == 2000
    assert hot()[0] == 2000
    assert hot()[1] > 1700


def test_a_handlers_own_completion_is_hot(db, hot):
    seqs = born_claimed(db, 100)
    db.execute("SELECT inbox.complete(seq || '.1.1') FROM inbox.inbox_messages WHERE seq = ANY (%s)", [seqs[:50]])
    db.execute("SELECT inbox.complete(%s::text[])", [[f"{seq}.1.1" for seq in seqs[50:]]])
    assert hot() == (100, 100)


def test_dropping_a_payload_is_hot(db, statements, hot):
    seqs = born_claimed(db, 1000)
    statements.count("settle_done", 1, seqs, 1, "billing")
    before = hot()
    assert statements.run("retain", 1, ["payload"], [0], [1000])[0][1] == 1000
    assert tuple(now - then for now, then in zip(hot(), before)) == (1000, 1000)


def test_settling_in_a_small_table_does_not_compare_each_row_with_the_batch(db, statements):
    """The planner has no statistics of an instance that has just started."""
    rows, batch = 10_000, 1000
    fill(db, rows)
    db.execute("VACUUM ANALYZE inbox.inbox_messages")
    seqs = ours(db, batch)
    db.execute("UPDATE inbox.inbox_messages SET claimed_by = 7 WHERE seq = ANY (%s)", [seqs])
    ones, nothing = [1] * batch, [None] * batch
    for name, values in (("settle_done", (1, "billing")), ("settle_completed", (1, "billing")),
                         ("settle_state", (ones, ["billing"] * batch)), ("raise_crash", (ones,)),
                         ("settle_verdicts", (ones, [0] * batch, ones, ones, ones, [False] * batch,
                                              nothing, nothing, nothing, nothing))):
        plan = statements.explain(name, 7, seqs, *values)
        assert plan.compared_in_vain() < rows, name


def fill_outbox(db, rows):
    db.execute("INSERT INTO inbox.outbox (event_id, source, aggregate, event_type, payload, published_at)"
               " SELECT 'o' || i, 's', 'orders', 't', %s, CASE WHEN i <= %s THEN now() END"
               " FROM generate_series(1, %s) i", [BIG.encode(), rows - 1000, rows])


def named_values(seqs, rows, last_outbox):
    """The parameters of each named statement for a number of rows."""
    partitions = min(rows, 4)
    streams = (["orders"] * partitions, list(range(partitions)), [""] * partitions)
    nothing = [None] * partitions
    ones = [1] * partitions
    *fresh, _, consumers = new_rows(rows)
    alone = [column[:1] for column in fresh[:-1]]
    heartbeat = (1, 1, "[]", 1, 1, [], 15000)
    return {
        "any_waiting": [streams],
        "heartbeat": [heartbeat],
        "hold_lease": [(1,)],
        "insert_messages": [(1, *fresh, [asks] * rows, consumers, asks > 0, renaming)
                            for asks in (0, 1, 2) for renaming in (False, True)],
        "insert_single": [(1, ["orders"], [0], [0], [None], [1], [1], [None], [None], [1], [1], [None], *alone, consumers[:1], 0)],
        "move_watermarks": [(1, *streams[:2], [0] * partitions, nothing, ones, ones, nothing, nothing, ones, ones, nothing)],
        "relay_read": [(rows, 10**9, last_outbox - 1000)],
        "relay_settings": [()],
        "set_lock_timeout": [()],
        "settle_completed": [(1, seqs, 1, "billing")],
        "settle_done": [(1, seqs, 1, "billing")],
    }


STAGE = """
INSERT INTO inbox.inbox_messages (source, event_id, event_type, topic, kafka_partition, kafka_offset, key, payload, payload_digest,
    available_at, claimed_by, processed_at, dead_at, delivery_count, retry_count, error, error_code)
SELECT 'x', v.id, 't', 'orders', 3, 10^6 + v.n, 'kx', '1', 'd', v.at, v.owner, v.done, v.dead, 1, v.n % 2, v.error, v.error
FROM (VALUES (1, 'held', NULL::timestamptz, 1, NULL::timestamptz, NULL::timestamptz, NULL), (2, 'too', NULL, 1, NULL, NULL, NULL),
             (3, 'later', now() + interval '1 hour', NULL, NULL, NULL, 'E'), (4, 'behind', 'infinity', NULL, NULL, NULL, NULL),
             (5, 'done', NULL, 1, now(), NULL, NULL), (6, 'dead', NULL, 1, NULL, now(), 'E')) AS v(n, id, at, owner, done, dead, error);
INSERT INTO inbox.inbox_messages (consumer, source, event_id, topic, kafka_partition, kafka_offset, payload, available_at, processed_at)
SELECT v.consumer, 'x', 'shared' || n, 'orders', 3, 2 * 10^6 + n, '1', v.at, v.done
FROM generate_series(1, 10) n, (VALUES ('earlier', NULL::timestamptz, now()), ('former', NULL, now()), ('other', now(), NULL), ('next', now(), NULL)) AS v(consumer, at, done);
INSERT INTO inbox.outbox (event_id, topic, event_type, payload, available_at, dead_at)
VALUES ('dead', 't', 't', '1', NULL, now()), ('late', 't', 't', '1', now() + interval '1 hour', NULL);
INSERT INTO inbox.inbox_rejects (topic, kafka_partition, kafka_offset, key, payload, reason, holds)
VALUES ('orders', 3, 2000001, 'kx', '1', 'r', true), ('orders', 3, 2000002, 'ky', '1', 'r', true);
INSERT INTO inbox.inbox_conflicts (source, event_id, topic, kafka_partition, kafka_offset, payload, payload_digest)
VALUES ('x', 'dead', 'orders', 3, 2000001, '2', 'e');
INSERT INTO inbox.requests (scope, key, holder, locked_until, expires_at)
VALUES ('', 'leased', 77, now() + interval '1 hour', now() + interval '1 day'), ('', 'lapsed', 78, now(), now() + interval '1 day');
INSERT INTO inbox.inbox_consumers (name, ordering, memory) VALUES ('', 'key', '1 day'), ('other', 'key', '1 day');
INSERT INTO inbox.inbox_renames (old_name, new_name, walked_to)
VALUES ('earlier', 'former', (SELECT min(seq) - 1 FROM inbox.inbox_messages WHERE event_id = 'shared1'));
INSERT INTO inbox.inbox_handlers (name, subscriptions, memory, known_since, connected_at, last_seen_at)
VALUES ('billing', '[{}]', '1 hour', now(), now(), now());
UPDATE inbox.inbox_instances SET heartbeat_at = now() - interval '1 hour',
    low_seq = (SELECT seq FROM inbox.inbox_messages WHERE event_id = 'held');
CREATE OR REPLACE FUNCTION public.handle(inbox.messages) RETURNS void LANGUAGE sql AS ''"""

# Calls of each function, and how many rows one call may read. <held> is the seq of the message `held` of STAGE.
CALLS = {
    "adopt": (1, "adopt('c', 'g')"),
    "advance_sequences": (1, "advance_sequences()"),
    "backfill_page": (10, """backfill_page('{"consumer": "other", "until_seq": 9000000000}', <held> - 1, 10)"""),
    "call_handler": (1, "call_handler(1, <held>, 1, NULL, 'billing', 'public.handle', NULL, 1000, 'public')"),
    "caused_events": (1000, "caused_events(<held>, '', 'k', ARRAY[now() + interval '1 hour'])"),
    "check_filter": (0, """check_filter('list', '{"status": "dead"}', '{dead}')"""),
    "check_keys": (0, "check_keys('{}')"),
    "check_outbox_filter": (0, """check_outbox_filter('list', '{"status": "dead"}', '{dead}')"""),
    "complete": (2, "complete('<held>.1.1')", "complete('<held>.1.1.YmlsbGluZw', '{}')", "complete(ARRAY['<held>.1.1', '<too>.1.1'])",
                 """complete('<held>.1.1', NULL, '[{"topic": "t", "type": "t"}]')"""),
    "consumers_of": (2, "consumers_of('orders', 't')"),
    "describe_key": (2, "describe_key(<later>)"),
    "discard": (1, "discard('x', 'later')", "discard('x', 'nothing')"),
    "discard_page": (10, """discard_page('{"status": "dead"}', 0, 10)"""),
    "emit": (1, "emit('t', 'k', 't', '{}')", "emit('t', 'k', 't', '{}', id => set_config('inboxd.claim', '<held>.1.1', true))"),
    "emit_bytes": (1, "emit_bytes('t', 'k', 't', '1', NULL)"),
    "emit_caused": (1, """emit_caused(<held>, 'x', 'held', '', 0, '[["content-type", "application/cloudevents+json"]]',
                    '[{"topic": "t", "type": "t"}]')"""),
    "error_shape": (0, "error_shape('x 1')"),
    "find_record": (20, "find_record('orders', 3, 1000004)"),
    "forget_consumer": (1, "forget_consumer('other')"),
    "forget_handler": (1, "forget_handler('billing')"),
    "handler_of": (1, "handler_of('orders', 't', '')"),
    "http_request_begin": (1, """http_request_begin('"n"', 'POST', '/', '')""", "http_request_begin('lapsed', 'POST', '/', '')"),
    "http_request_complete": (1, "http_request_complete((inbox.http_request_begin('n', 'POST', '/', '')).token, 200)"),
    "is_counted": (0, "is_counted('1', NULL)"),
    "lanes_of": (2, "lanes_of('orders', 'kx', '', 3)"),
    "lock_key": (0, "lock_key('t', 'k')"),
    "look_keys": (10, "look_keys('{}', <later>, 10)"),
    "look_page": (20, *(f"""look_page('{{"status": "{status}"}}', 0, 10)"""
                        for status in ("processed", "parked", "retrying", "waiting", "dead", "claimed"))),
    "outbox_counts": (300, "outbox_counts(100)"),
    "outbox_discard_page": (10, """outbox_discard_page('{"status": "dead"}', <outbox>, 10)"""),
    "outbox_page": (10, """outbox_page('{"status": "dead"}', <outbox>, 10)"""),
    "outbox_replay_page": (10, """outbox_replay_page('{"status": "dead"}', <outbox>, 10)"""),
    "pause": (1, "pause('topic', 'orders')"),
    "purge": (500, "purge('1 hour', 10)"),
    "relay_position": (0, "relay_position(0, 0, '{}', '{}')"),
    "rename_consumer": (40, "rename_consumer('other', 'next')"),
    "rename_page": (40, "rename_page('earlier', 40)"),
    "replay": (1, "replay('x', 'done')", "replay('x', 'nothing')"),
    "replay_page": (10, """replay_page('{"status": "dead"}', 0, 10)"""),
    "replay_reject": (1, "replay_reject(<reject>, 'x', 'new', 't')", "replay_reject(<reject>, 'x', 'done', 't')"),
    "request_begin": (1, "request_begin('n', 'f')", "request_begin('n', 'f', lease => '1 minute')",
                      "request_begin('lapsed', 'f', lease => '1 minute')"),
    "request_complete": (1, "request_complete('l.77..6c6561736564', 200)",
                         "request_complete((inbox.request_begin('n', 'f')).token, 200)",
                         "request_complete((inbox.request_begin('lapsed', 'f')).token, 200)"),
    "request_digest": (0, "request_digest('POST', '/', '')"),
    "request_extend": (1, "request_extend('l.77..6c6561736564', '1 minute')"),
    "request_fail": (1, "request_fail('l.77..6c6561736564')"),
    "request_forget": (1, "request_forget('', 'leased', 'r')"),
    "resolve": (1, "resolve('x', 'dead', 'r')", "resolve('x', 'nothing', 'r')"),
    "result": (1, "result('x', 'done')", "result('x', 'done', 'nobody')"),
    "resume": (1, "resume('topic', 'orders')"),
    "retain": (30, *(f"retain(1, '{kind}', 0, 10)" for kind in KINDS)),
    "retry_now": (1, "retry_now('x', 'later')", "retry_now('x', 'nothing')"),
    "retry_page": (10, """retry_page('{"status": "retrying"}', 0, 10)"""),
    "seek": (1, "seek('orders', 3, 1)"),
    "sequences_behind": (1, "sequences_behind()"),
    "skip_key": (2, "skip_key('orders', 'ky', '', 'r', 3)"),
    "sql_handler_problem": (0, "sql_handler_problem('public.handle', NULL)"),
    "status": (40_000, "status()"),
    "outbox_status": (30_000, "outbox_status()"),
    "take_conflict": (1, "take_conflict(<conflict>)"),
    "trace_of": (1, """trace_of(<held>, '[["content-type", "application/cloudevents+json"]]')"""),
    "try_text": (0, "try_text('x')"),
    "waiting_streams": (10, "waiting_streams()"),
    "waits_behind": (2, "waits_behind(<behind>)"),
}
# These read the whole table, or run once in a session of their own.
LEFT_OUT = {"backfill_count", "backfill_repeats"}


def function_calls(db):
    """Inserts a few rows for CALLS. Returns the name of each function with a statement that calls it."""
    db.execute(STAGE)
    seqs = dict(db.execute("SELECT event_id, seq FROM inbox.inbox_messages WHERE source = 'x'"))
    (seqs["outbox"],) = db.execute("SELECT min(seq) - 1 FROM inbox.outbox WHERE event_id = 'dead'").fetchone()
    (seqs["reject"],) = db.execute("SELECT seq FROM inbox.inbox_rejects WHERE key = 'ky'").fetchone()
    (seqs["conflict"],) = db.execute("SELECT max(seq) FROM inbox.inbox_conflicts").fetchone()
    return [(name, f"SELECT inbox.{re.sub('<([a-z]+)>', lambda found: str(seqs[found[1]]), call)}")
            for name, (_, *calls) in CALLS.items() for call in calls]


def call(db, statement):
    """Runs it, rolls back, and returns its plan."""
    with db.transaction(force_rollback=True):
        (found,) = db.execute("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) " + statement).fetchone()
        return Plan(found[0])


def fill_the_rest(db, rows):
    fill_outbox(db, rows)
    db.execute("INSERT INTO inbox.requests (scope, key, holder, completed_at, status, body, expires_at)"
               " SELECT '', 'k' || i, 0, now(), 201, repeat('x', 200)::bytea, now() + interval '1 day' FROM generate_series(1, %s) i", [rows])
    for table in ("inbox_rejects", "inbox_conflicts"):
        others, values = (("reason", "'r'") if table == "inbox_rejects" else ("source, event_id", "'s', 'e' || i"))
        db.execute(f"INSERT INTO inbox.{table} (topic, kafka_partition, kafka_offset, key, payload, {others})"
                   f" SELECT 'orders', 0, i, 'k', repeat('x', 200)::bytea, {values} FROM generate_series(1, 20000) i")
    db.execute("INSERT INTO inbox.inbox_instances (id, name, low_seq, rescued_at) SELECT i, 'i' || i, 1, now() FROM generate_series(2, 500) i")
    db.execute("INSERT INTO inbox.inbox_renames (old_name, new_name) VALUES ('old', '')")


def test_plans_that_a_session_keeps_are_good_for_every_table(db, connect):
    """The plan of a named statement, and of each statement of a function, is made once a connection, perhaps while the table is
    empty, and stays until VACUUM or ANALYZE."""
    session = connect(prepare_threshold=None)  # else psycopg sometimes deallocates all statements
    session.execute("SET client_min_messages = error")
    statements = Statements(session)
    for (table,) in db.execute("SELECT oid::regclass::text FROM pg_class WHERE relnamespace = 'inbox'::regnamespace AND relkind = 'r'").fetchall():
        db.execute(f"ALTER TABLE {table} SET (autovacuum_enabled = off)")
    db.execute("VACUUM")
    assert set(named_values([], 0, 0)) == set(NAMED)
    for name, cases in named_values([1], 1, 1000).items():
        statements.prepare(name)
        statements.explain_named(name, *cases[0])
    session.execute("SET plan_cache_mode = force_generic_plan")
    with session.transaction(force_rollback=True):
        for _, statement in function_calls(session):
            call(session, statement)
    insert_rows(db, 100_000)
    fill_the_rest(db, 100_000)
    (last,) = db.execute("SELECT max(seq) FROM inbox.outbox").fetchone()
    for rows in (1, 1000):
        for name, cases in named_values(ours(db, rows), rows, last).items():
            for values in cases:
                plan = statements.explain_named(name, *values)
                assert plan.pages() <= 40 * (rows + 2), (name, rows, values[-2:])
                assert plan.compared_in_vain() <= 20 * rows, (name, rows)
    assert set(CALLS) == called_functions() - LEFT_OUT
    pages = {statement: (call(session, statement).pages(), 200 + 20 * CALLS[name][0]) for name, statement in function_calls(session)}
    assert {statement: read for statement, read in pages.items() if read[0] > read[1]} == {}


def test_a_healthy_message_never_enters_the_claim_indexes(db):
    empty = index_sizes(db)
    born_claimed(db, 2000)
    sizes = index_sizes(db)
    for name in ("due", "by_key", "by_offset", "claimed", "dead", "dead_topic"):
        assert sizes[f"inbox.inbox_messages_{name}"] == empty[f"inbox.inbox_messages_{name}"]


def test_a_claim_that_continues_does_not_read_dead_tuples_again(db, connect, statements):
    insert = ("INSERT INTO inbox.inbox_messages (source, event_id, event_type, topic, kafka_partition, kafka_offset,"
              " payload, available_at) SELECT 's', %s || i, 't', 'orders', 0, i, 'x', clock_timestamp()"
              " FROM generate_series(1, %s) i")
    db.execute(insert, ["old", 20_000])
    with connect().transaction() as old:
        old.connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        old.connection.execute("SELECT FROM inbox.inbox_messages LIMIT 1")
        (latest,) = db.execute("SELECT max(available_at) FROM inbox.inbox_messages").fetchone()
        db.execute("UPDATE inbox.inbox_messages SET available_at = NULL")
        db.execute(insert, ["new", 100])
        first, later = (statements.explain("claim_due", 1, ["orders"], [0], [""], 100, 10**9, *ALL, [False], 1, [since], [])
                        for since in (None, latest))
    assert first.top["Actual Rows"] == later.top["Actual Rows"] == 100
    assert later.pages("inbox_messages_due") * 5 < first.pages("inbox_messages_due")


def test_a_hundred_thousand_rows_of_one_key_do_not_slow_other_claims(db, statements):
    def claim():
        return statements.explain("claim_due", 1, ["orders"], [0], [""], 100, 10**9, *ALL, [True], 1, [None], []).pages()

    insert = ("INSERT INTO inbox.inbox_messages (source, event_id, event_type, topic, kafka_partition,"
              " kafka_offset, key, payload, available_at) SELECT 's', %s || i, 't', 'orders', 0, {offset},"
              " {key}, 'x', {available} FROM generate_series(1, {rows}) i")
    db.execute(insert.format(offset="200000 + i", key="('free' || i)::bytea", available="now()", rows=100), ["f"])
    before = claim()
    db.execute(insert.format(offset="1", key="'blocked'", available="now() + interval '1 hour'", rows=1), ["head"])
    db.execute(insert.format(offset="1 + i", key="'blocked'", available="'infinity'", rows=100_000), ["p"])
    assert claim() < before * 3

    # The same is true for the search of releasable rows and for releasing some of them.
    sweep = statements.explain("find_parked", "orders", 0, "", b"", 1000, *ALL)
    assert sweep.pages() < 1500
    blocked = [db.execute("SELECT substr(sha256('blocked'), 1, 8)").fetchone()[0]]
    assert statements.explain("claim_lanes", 1, ["orders"], [0], [""], blocked, 10, 10**9, *ALL, 1, []).pages() < 300


def test_requests_are_found_listed_counted_and_deleted_along_their_indexes(db, statements):
    """Among 50,000 completed requests there are a hundred that are pending, failed or expired."""
    db.execute("INSERT INTO inbox.requests (scope, key, operation, holder, completed_at, status, headers, body, expires_at)"
               " SELECT 't' || i % 10, 'k' || i, 'POST /orders', 0, now(), 201, '{\"location\": \"/orders\"}', repeat('x', 200)::bytea,"
               " now() + (i - 50.5) * interval '1 hour' FROM generate_series(1, 50000) i")
    db.execute("INSERT INTO inbox.requests (scope, key, holder, locked_until, expires_at)"
               " SELECT '', 'p' || i, i, now() + interval '1 hour', now() + interval '1 day' FROM generate_series(1, 50) i")
    db.execute("VACUUM ANALYZE inbox.requests")
    for index, pages, name, values in (
            ("requests_pkey", 10, "op_requests_find", ["k777", None]), ("requests_pkey", 10, "op_requests_find", ["k777", "t7"]),
            ("requests_pkey", 10, "op_requests_facts", ["k777", "t7"]), ("requests_pkey", 20, "op_requests_response", ["k777", "t7"]),
            ("requests_expires", 50, "op_requests_list", [None, None, 10]),
            ("requests_expires", 100, "op_requests_list", ["t7", "completed", 10]),
            ("requests_leased", 100, "op_requests_list", [None, "lost", 10]),
            ("requests_leased", 100, "op_requests_list", ["", "pending", 10]),
            ("requests_leased", 200, "count_requests", [100])):
        plan = statements.explain(name, *values)
        assert index in plan.indexes(), name
        assert plan.pages() < pages, name
    for what in ("requests", "requests_leased"):
        statements.run("retain", 1, [what], [0], [1])  # the pages of the catalog
    assert statements.explain("retain", 1, ["requests"], [0], [10]).pages() < 400
    assert statements.run("retain", 1, ["requests"], [0], [1000])[0][1:3] == (49, False)
    assert statements.explain("retain", 1, ["requests"], [0], [1000]).pages() < 400
    db.execute("INSERT INTO inbox.requests (scope, key, holder, locked_until, expires_at)"
               " SELECT 'many', 'p' || i, i, now() + interval '1 hour', now() + interval '2 days' FROM generate_series(1, 30000) i")
    for _ in range(3):
        assert statements.explain("retain", 1, ["requests_leased"], [0], [100]).pages() < 400
