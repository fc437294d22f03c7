"""inbox.find_record(): the row of a record, found without an index of records."""

import pytest

from test_operators import dead, value


def find(db, offset, topic="orders", partition=0):
    return value(db, "SELECT m.kafka_offset FROM inbox.inbox_messages m WHERE m.seq = inbox.find_record(%s, %s, %s)"
                     " UNION ALL SELECT NULL LIMIT 1", topic, partition, offset)


@pytest.fixture
def mixed(db):
    """Rows of three partitions and two consumers; half of the offsets of partition 0 are missing."""
    db.execute("INSERT INTO inbox.inbox_consumers (name, ordering, memory) VALUES ('search', 'key', '1 h')")
    db.execute("INSERT INTO inbox.inbox_messages (source, event_id, consumer, topic, kafka_partition, kafka_offset, processed_at)"
               " SELECT 's', 'e' || i, CASE i % 4 WHEN 0 THEN 'search' ELSE '' END, 'orders', i % 3, i * 2, now()"
               " FROM generate_series(1, 3000) i")
    return db


def test_each_record_is_found_by_its_offset(mixed):
    rows = mixed.execute("SELECT seq, kafka_partition, kafka_offset FROM inbox.inbox_messages").fetchall()
    assert all(value(mixed, "SELECT inbox.find_record('orders', %s, %s)", partition, offset) == seq
               for seq, partition, offset in rows[::37] + rows[:5] + rows[-5:])
    assert [find(mixed, offset) for offset in (0, 7, 10, 6001, 10**15)] == [None] * 5
    assert find(mixed, 6, topic="other") is None and find(mixed, 6, partition=7) is None


def test_a_row_out_of_order_is_found_if_it_waits_or_is_dead(mixed):
    dead(mixed, "d", kafka_offset=7)
    mixed.execute("INSERT INTO inbox.inbox_messages (source, event_id, topic, kafka_partition, kafka_offset, available_at)"
                  " VALUES ('s', 'w', 'orders', 0, 9, now())")
    assert (find(mixed, 7), find(mixed, 9), find(mixed, 6)) == (7, 9, 6)


def test_a_record_of_a_sparse_partition_may_be_missed_unless_it_waits_or_is_dead(db):
    """The steps of the search pass over 100,000 rows of other partitions."""
    db.execute("INSERT INTO inbox.inbox_messages (source, event_id, topic, kafka_partition, kafka_offset, processed_at)"
               " SELECT 's', 'f' || i, CASE WHEN i IN (5000, 209000) THEN 'rare' ELSE 'payments' END, 0, i, now()"
               " FROM generate_series(1, 210000) i")
    assert find(db, 5000, "rare") is None
    db.execute("UPDATE inbox.inbox_messages SET processed_at = NULL, dead_at = now() WHERE kafka_offset = 5000")
    assert find(db, 5000, "rare") == 5000
    db.execute("UPDATE inbox.inbox_messages SET dead_at = NULL WHERE kafka_offset = 5000")
    assert find(db, 5000, "rare") == 5000


def test_the_search_reads_few_rows_of_a_large_table(mixed, statements):
    mixed.execute("INSERT INTO inbox.inbox_messages (source, event_id, topic, kafka_partition, kafka_offset, processed_at)"
                  " SELECT 's', 'f' || i, 'payments', i % 8, i, now() FROM generate_series(1, 200000) i")
    mixed.execute("INSERT INTO inbox.inbox_offsets (topic, kafka_partition, ordering, updated_at)"
                  " VALUES ('orders', 0, 'key', now()), ('payments', 0, 'key', now()) ON CONFLICT DO NOTHING")
    for offset, most in ((160000, 600), (8, 600), (7, 5000)):  # 7: half of the rows are searched for the other consumer
        assert statements.explain("op_find_record", "payments", 0, offset).pages() < most, offset
    assert find(mixed, 160000, "payments") == 160000
    mixed.execute("UPDATE inbox.inbox_messages SET received_at = now() - interval '1 day' WHERE topic = 'orders'")
    mixed.execute("UPDATE inbox.inbox_offsets SET updated_at = now() - interval '1 day' WHERE topic = 'orders'")
    assert find(mixed, 6) == 6, "a partition without records for a while"
