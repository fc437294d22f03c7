"""Sequences behind their rows, as after logical replication or a restore of the rows alone: no record is rejected or
skipped, and the start corrects the sequences or prints the statement.
"""

import pytest

from support.scripts import always, DONE
from support.wait import eventually

BEGIN_ANEW = "SELECT setval('inbox.{0}_seq_seq', 1, false)"
TABLES = ["inbox_messages", "inbox_conflicts", "inbox_rejects", "inbox_audit"]


@pytest.fixture
def topic(make_topic):
    return make_topic(partitions=1)


@pytest.fixture
def filled(start_inboxd, handler, streams, topic, inbox):
    """A sidecar that has stored messages a to c, a conflict and a reject."""
    sidecar = start_inboxd()
    handler(sidecar, always(DONE))
    streams.events(topic, ["a", "b", "c"])
    streams.produce(topic, b"other", headers=[("id", b"a")])
    streams.produce(topic, b"no id", headers=[("id", b"")])
    inbox.wait_processed(3)
    eventually(lambda: (len(inbox.conflicts()), len(inbox.rejects())) == (1, 1))
    return sidecar


def test_sequences_behind_their_tables_are_corrected_at_the_start(filled, handler, streams, topic, inbox):
    filled.stop()
    inbox.query("SELECT inbox.replay(source, event_id) FROM inbox.inbox_messages WHERE event_id = 'b'")
    for table in TABLES:
        inbox.query(BEGIN_ANEW.format(table))
    filled.start()
    handler(filled, always(DONE))
    streams.events(topic, ["d", "e"])
    inbox.wait_processed(5)
    said = [line for line in filled.stderr.splitlines() if "sequences_set" in line]
    assert len(said) == 1
    for table, highest in zip(TABLES, [3, 1, 1, 1]):
        assert f"{table}_seq_seq: 0, highest row {highest}" in said[0]


def test_a_sequence_reset_at_run_time_ends_the_process_without_rejects(filled, handler, streams, topic, inbox):
    before = (inbox.rejects(), inbox.offsets())
    inbox.query(BEGIN_ANEW.format("inbox_messages"))
    streams.events(topic, ["d"])
    assert filled.wait() == 3
    last = filled.stderr.splitlines()[-1]
    assert "inbox_messages_seq_key" in last and "start inboxd again" in last
    assert (inbox.rejects(), inbox.offsets()) == before
    filled.start()
    handler(filled, always(DONE))
    inbox.wait_processed(4)
