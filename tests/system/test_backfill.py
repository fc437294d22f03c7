"""A backfill beside a running sidecar: the copies come before later messages of their key."""

import time

import pytest

from support.scripts import always, DONE
from support.wait import eventually, throughout
from support.wire import done


def slowly(delivery):
    time.sleep(0.2)
    return done()


@pytest.fixture
def clean(start_inboxd, handler, produce, topic, inbox):
    """A sidecar that has handled ten messages of a key and knows that no message waits, and its client. Five messages of the
    key are in the table, for a consumer that is gone."""
    sidecar = start_inboxd(worker={"claim_batch": 1, "poll": "3s"})
    client = handler(sidecar, slowly)
    for number in range(10):
        produce(topic, b"{}", key="k1", headers={"id": f"first{number}"})
    inbox.wait_processed(10)
    inbox.execute("INSERT INTO inbox.inbox_messages (consumer, source, event_id, topic, kafka_partition, kafka_offset, key, payload,"
                  " payload_digest, processed_at) SELECT 'gone', 's', 'copy' || i, m.topic, m.kafka_partition, i, m.key, '{}', 'd',"
                  " now() FROM inbox.inbox_messages m, generate_series(1, 5) i WHERE m.event_id = 'first0' ORDER BY i")
    inbox.execute("INSERT INTO inbox.inbox_consumers (name, ordering, memory) VALUES ('', 'key', '1 h') ON CONFLICT DO NOTHING")
    time.sleep(4)  # a sweep finds the partition clean; nothing shows it from outside
    client.deliveries.clear()
    return sidecar, client


@pytest.fixture
def unnotified(inbox):
    """Backfills notify no sidecar, as behind a pooler."""
    finish = inbox.value("SELECT pg_get_functiondef('inbox.finish_page'::regproc)")
    inbox.execute(finish.replace("PERFORM pg_notify('inboxd_replay', '');", ""))
    assert "pg_notify" in finish and "pg_notify" not in inbox.value("SELECT pg_get_functiondef('inbox.finish_page'::regproc)")


def test_a_batch_that_does_not_know_of_the_copies_is_stored_again_behind_them(clean, unnotified, produce, topic, inbox):
    """Without a notification, the sidecar stores the later message before it claims a copy."""
    _, client = clean
    inbox.query("SELECT affected FROM inbox.backfill('', 'gone')")
    produce(topic, b"{}", key="k1", headers={"id": "later"})
    inbox.wait_status("later", "processed")
    assert [delivery.event_id for delivery in client.deliveries] == [f"copy{number}" for number in range(1, 6)] + ["later"]


@pytest.mark.parametrize("how", ["command", "function"])
def test_a_later_message_waits_for_the_copies_of_its_key(clean, produce, topic, inbox, how):
    sidecar, client = clean
    if how == "command":
        assert sidecar.command("backfill", "", "--from", "gone", "--yes").stdout == "5 copied\n"
    else:
        assert inbox.query("SELECT affected, late FROM inbox.backfill('', 'gone')") == [{"affected": 5, "late": 5}]
    produce(topic, b"{}", key="k1", headers={"id": "later"})
    inbox.wait_status("later", "processed")
    assert [delivery.event_id for delivery in client.deliveries] == [f"copy{number}" for number in range(1, 6)] + ["later"]


def test_a_backfill_disturbs_no_batch(clean, produce, topic, inbox):
    """The sidecar keeps its partitions, and reads on where it was."""
    sidecar, _ = clean
    for number in range(3):
        inbox.execute("UPDATE inbox.inbox_consumers SET backfill_until = NULL")
        inbox.execute("INSERT INTO inbox.inbox_messages (consumer, source, event_id, topic, kafka_partition, kafka_offset, processed_at)"
                      " SELECT 'gone', 's', 'more' || %s, topic, kafka_partition, 1, now() FROM inbox.inbox_messages"
                      " WHERE event_id = 'first0'", [str(number)])
        assert sidecar.command("backfill", "", "--yes").returncode == 0
        produce(topic, b"{}", key="k1", headers={"id": f"later{number}"})
        inbox.wait_status(f"later{number}", "processed")
    assert not {"watermark_moved", "partition_lost", "fenced"} & {
        line.partition("event=")[2].split()[0] for line in sidecar.stderr.splitlines() if "event=" in line}


@pytest.mark.parametrize("ordering", ["key", "partition", "none"])
def test_copies_wait_unchanged_until_a_handler_of_their_consumer_connects(start_inboxd, handler, produce, topic, inbox, ordering):
    """A claim without such a handler would park each of them, which writes it a second time."""
    sidecar = start_inboxd(consumers={"billing": {}, "search": {"ordering": ordering}}, worker={"poll": "100ms"})
    handler(sidecar, always(DONE), name="billing")
    for number in range(20):
        produce(topic, b"{}", key=f"k{number % 3}", partition=0, headers={"id": f"{number:02}"})
    eventually(lambda: inbox.count("processed") == 20)
    inbox.execute("DELETE FROM inbox.inbox_messages WHERE consumer = 'search'")
    assert sidecar.command("backfill", "search", "--yes").stdout == "20 copied\n"
    produce(topic, b"{}", key="k0", partition=0, headers={"id": "later"})
    eventually(lambda: inbox.count("processed") == 21)

    def unchanged():
        return inbox.value("SELECT count(*) FROM inbox.inbox_messages WHERE consumer = 'search' AND available_at = received_at")
    throughout(lambda: unchanged() == 20, seconds=2)
    client = handler(sidecar, always(DONE), name="search")
    eventually(lambda: inbox.count("processed") == 42)
    of_key = [delivery.event_id for delivery in client.deliveries if delivery.event_id == "later" or int(delivery.event_id) % 3 == 0]
    assert ordering == "none" or of_key == [f"{number:02}" for number in range(0, 20, 3)] + ["later"]
