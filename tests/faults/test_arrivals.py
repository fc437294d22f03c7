"""Rows reach dispatch in two ways: born claimed, or claimed from the table. Messages of a key are delivered in their
order, whichever way is slower.
"""

import signal

import pytest

from armed import Armed, EAGER
from support.scripts import always, by_id, DONE
from support.wait import eventually, throughout
from support.wire import NEVER, done, retry


@pytest.fixture
def topic(make_topic):
    return make_topic(partitions=1)


@pytest.fixture
def armed(make_inboxd):
    """armed(settings) -> an Armed sidecar that is ready."""
    def start(**settings):
        made = Armed(make_inboxd(settings))
        made.sidecar.start()
        return made

    return start


def record(event_id, key):
    return {"value": b"{}", "key": key, "partition": 0, "headers": [("id", event_id)]}


def in_order(client, *ids):
    return [event_id for event_id in client.event_ids if event_id in ids]


@pytest.mark.parametrize("lost", [[], ["error_after_store error"]], ids=["heard", "unheard"])
def test_a_claim_does_not_overtake_a_batch_between_its_commit_and_the_queue(armed, handler, streams, topic, inbox,
                                                                            lost):
    """There is budget for one message of the batch: k1 is born claimed, k2 waits in the table. When the answer to
    COMMIT is lost, k1 is returned to the table while a claim takes k2."""
    one = armed(inbox={"max_claimed": 2}, ingest={"batch_wait": "1s"},
                worker={"poll": "60s"})  # no claims but the one of other's retry: a claim reserves budget
    client = handler(one.sidecar, by_id({"other": [NEVER]}))
    streams.produce_many(topic, [record("other", "o")])
    other = client.wait_event("other")
    one.arm("before_claim delay:1 *")
    one.wait_pause("before_claim")
    one.arm("after_commit_before_offset hold")
    streams.produce_many(topic, [record("k1", "k"), record("k2", "k")])
    one.wait_hit("after_commit_before_offset")
    assert (inbox.message("k1")["status"], inbox.message("k2")["status"]) == ("claimed", "waiting")
    client.answer(other, retry(delay_ms=1))  # budget for a claim of one row, which is k2
    eventually(lambda: inbox.message("k2")["status"] != "waiting")
    throughout(lambda: client.event_ids == ["other"], seconds=1)
    one.arm(*lost)
    inbox.wait_processed(3)
    assert in_order(client, "k1", "k2") == ["k1", "k2"]
    assert one.hits("error_after_store") == len(lost)


def test_one_claim_is_made_at_a_time(armed, handler, streams, topic, inbox):
    """If there were two, the later one could take rows behind those of the first one, and arrive first."""
    one = armed(worker={"connections": 4})
    first = {}

    def decide(delivery):
        return first.setdefault((delivery.event_id, delivery.attempt),
                                NEVER if delivery.event_id in ("k1", "d") else DONE)

    client = handler(one.sidecar, decide)
    streams.produce_many(topic, [record("k1", "k"), record("d", "d")])
    client.wait_count(2)
    streams.produce_many(topic, [record("k2", "k")])
    inbox.wait_stored(3)
    client.answer(client.wait_event("k1"), retry(delay_ms=2100))  # no short retry: k2 is parked behind it
    client.wait_event("k1", 2)
    assert inbox.wait_status("k2", "parked")
    one.arm("after_claim delay:1500", "before_claim delay:1 *")
    client.answer(client.wait_event("d"), retry(delay_ms=1))
    one.wait_hit("after_claim")
    given = one.hits("before_claim")
    client.answer(client.wait_event("k1", 2), DONE)  # now k2 could be claimed, except for the running claim
    inbox.wait_status("k1", "processed")
    throughout(lambda: one.hits("before_claim") == given, seconds=0.7)
    client.answer(client.wait_event("d", 2), DONE)
    inbox.wait_processed(3)


def test_all_arrivals_are_read_before_the_next_delivery(armed, handler, streams, topic, inbox):
    """Dispatch is delayed while many batches gather in the queue. k1 is in the last one, and a claim takes k2, which is
    behind it."""
    one = armed(inbox={"max_claimed": 30}, worker={"claim_batch": 5}, ingest={"batch_messages": 1})
    client = handler(one.sidecar, always(DONE))
    streams.produce_many(topic, [record("first", "f")])
    inbox.wait_processed(1)
    one.arm("before_claim delay:4000")  # it has a part of the budget
    one.wait_hit("before_claim")
    one.arm("before_tick delay:5000")
    one.wait_hit("before_tick")
    streams.produce_many(topic, [record(f"x{number}", f"x{number}") for number in range(24)])
    streams.produce_many(topic, [record("k1", "k"), record("k2", "k")])
    inbox.wait_stored(27)
    assert (inbox.message("k1")["status"], inbox.message("k2")["status"]) == ("claimed", "waiting")
    inbox.wait_processed(27)
    assert in_order(client, "k1", "k2") == ["k1", "k2"]


@pytest.mark.parametrize("lost", [[], ["error_after_claim error"]], ids=["heard", "unheard"])
def test_a_message_that_arrives_during_a_claim_waits_behind_its_rows(armed, handler, streams, topic, inbox, lost):
    """k2 found k1 claimed, not waiting, and is born claimed. R3: when the claim is lost, k1 goes back."""
    one = armed(worker={"poll": "60s"})  # no claims but that of k1
    client = handler(one.sidecar, by_id({"k1": [NEVER]}))
    streams.produce_many(topic, [record("k1", "k")])
    k1 = client.wait_event("k1")
    one.arm("before_claim delay:1 *")
    one.wait_pause("before_claim")
    one.arm("after_claim delay:1500", *lost)
    client.answer(k1, retry(delay_ms=1))
    eventually(lambda: inbox.message("k1")["delivery_count"] == 2)
    streams.produce_many(topic, [record("k2", "k")])
    inbox.wait_stored(2)
    assert inbox.message("k2")["status"] == "claimed"
    inbox.wait_processed(2)
    assert in_order(client, "k1", "k2") == ["k1", "k1", "k2"]
    assert one.hits("error_after_claim") == len(lost)


def test_a_message_that_arrives_during_a_lost_claim_waits_behind_its_rows(armed, handler, streams, topic, inbox):
    """R3: k1 was replayed by an operator, so no lane knows that it is in the table. Only the claim did."""
    one = armed(worker={"poll": "60s"})  # no claims but the one of d's retry, which takes k1 as well
    client = handler(one.sidecar, by_id({"d": [NEVER]}))
    streams.produce_many(topic, [record("k1", "k"), record("d", "d")])
    d = client.wait_event("d")
    inbox.wait_status("k1", "processed")
    inbox.execute("UPDATE inbox.inbox_messages SET processed_at = NULL WHERE event_id = 'k1'")
    one.arm("after_claim delay:1500", "error_after_claim error")
    client.answer(d, retry(delay_ms=1))
    eventually(lambda: inbox.message("k1")["status"] == "claimed")
    streams.produce_many(topic, [record("k2", "k")])
    inbox.wait_stored(3)
    assert inbox.message("k2")["status"] == "claimed"
    inbox.wait_processed(3)
    assert in_order(client, "k1", "k2") == ["k1", "k1", "k2"]
    assert one.hits("error_after_claim") == 1


def test_a_claim_that_was_made_before_a_retry_does_not_end_the_wait_for_it(armed, handler, streams, topic, inbox):
    """k2 waits in memory for the retry of k1. The claim that brings k3 was made while k1 was still claimed."""
    one = armed(worker={"poll": "60s"})
    client = handler(one.sidecar, by_id({"k1": [DONE, NEVER]}))
    streams.produce_many(topic, [record(event_id, "k") for event_id in ("k1", "k2", "k3")])
    inbox.wait_processed(3)
    inbox.execute("UPDATE inbox.inbox_messages SET processed_at = NULL WHERE event_id IN ('k1', 'k2')")
    k1 = client.wait_event("k1", 2)
    eventually(lambda: inbox.message("k2")["status"] == "claimed")
    one.arm("before_claim delay:1 *")
    one.wait_pause("before_claim")
    one.arm("after_claim delay:2000")
    inbox.execute("UPDATE inbox.inbox_messages SET processed_at = NULL WHERE event_id = 'k3'")
    one.wait_hit("after_claim")
    assert inbox.message("k3")["status"] == "claimed"
    client.answer(k1, retry(delay_ms=1))
    inbox.wait_processed(3)
    assert client.event_ids == ["k1", "k2", "k3", "k1", "k1", "k2", "k3"]


def test_a_replay_that_is_noticed_with_the_end_of_a_claim_is_found(armed, handler, streams, topic, inbox):
    """The claim has not seen it, and with a poll of an hour nothing else searches. Dispatch is busy until it can read both."""
    one = armed(worker={"poll": "1h"})
    client = handler(one.sidecar, by_id({"other": [NEVER]}))
    streams.produce_many(topic, [record("a", "a"), record("other", "o")])
    other = client.wait_event("other")
    inbox.wait_status("a", "processed")
    one.arm("before_claim delay:1 *")
    one.wait_pause("before_claim")
    one.arm("after_claim hold", "after_answer hold")
    inbox.query("SELECT pg_notify('inboxd_replay', '')")
    one.wait_hit("after_claim")
    inbox.query("SELECT inbox.replay_where('processed')")
    client.answer(other, done())
    one.wait_hit("after_answer")
    one.arm("after_answer hold")
    throughout(lambda: client.event_ids.count("a") == 1, seconds=0.5)  # the worker hands over the claim, and then the notification
    one.arm()
    eventually(lambda: client.event_ids.count("a") == 2)


def test_a_batch_that_waited_during_a_key_hold_does_not_overtake_a_returned_row(armed, handler, streams, topic, inbox):
    """R12: k2 is stored while the old owner still has k1, and waits for the end of a claim. Meanwhile k1 waits for its
    retry, and its key hold ends."""
    first = armed()
    old = handler(first.sidecar, always(NEVER), timeout_ms=60000)
    streams.produce_many(topic, [record("k1", "k")])
    k1 = old.wait_event("k1")
    second = armed(inbox={"instance": "second"}, worker={"connections": 4})
    client = handler(second.sidecar, always(DONE))
    first.sidecar.signal(signal.SIGTERM)
    streams.produce_many(topic, [record("other", "o")])
    client.wait_event("other")
    second.arm("after_claim delay:3000")
    second.wait_hit("after_claim")
    streams.produce_many(topic, [record("k2", "k")])
    assert inbox.wait_status("k2", "claimed")
    old.answer(k1, retry(delay_ms=1))
    inbox.wait_processed(3)
    assert in_order(client, "k1", "k2") == ["k1", "k2"]
    assert first.sidecar.wait() == 0


# --- The partition is revoked and assigned again ----------------------------------------------------------------------

def test_an_outdated_check_of_held_keys_releases_none(armed, handler, streams, topic, inbox, rebalance):
    """R12: the check found that k1 was returned. Before its result is read, the partition is revoked and assigned
    again, and another instance has k1 again."""
    one = armed(kafka=EAGER, worker={"poll": "60s", "lease": "60s"})
    streams.produce_many(topic, [record("k1", "k")])
    inbox.wait_status("k1", "parked")
    inbox.execute("INSERT INTO inbox.inbox_instances (id, name, low_seq, low_claim) VALUES (-1, 'other', 1, 1)")
    other_has_it = ("UPDATE inbox.inbox_messages SET available_at = NULL, claimed_by = -1, claim_number = 1,"
                    " delivery_count = delivery_count + 2 WHERE event_id = 'k1'")
    inbox.execute(other_has_it)
    rebalance()
    eventually(lambda: "keys_held_back" in one.sidecar.stderr)
    streams.produce_many(topic, [record("k2", "k")])
    inbox.wait_stored(2)
    one.arm("after_look_at_held delay:6000 *")
    one.wait_hit("after_look_at_held")
    inbox.execute("UPDATE inbox.inbox_messages SET available_at = 'infinity', claimed_by = NULL"
                  " WHERE event_id = 'k1'")
    one.wait_hit("after_look_at_held", times=2)
    inbox.execute(other_has_it)
    one.arm()
    rebalance()
    client = handler(one.sidecar, always(DONE))
    throughout(lambda: not client.deliveries, seconds=9)
    inbox.execute("UPDATE inbox.inbox_messages SET processed_at = now() WHERE event_id = 'k1'")
    client.wait_event("k2")


def test_a_batch_that_waited_during_a_rebalance_does_not_overtake_a_returned_row(armed, handler, streams, topic, inbox,
                                                                                 rebalance):
    """k2 waits for the end of a claim. Meanwhile k1 waits for its retry, and its lane is dropped with the partition."""
    one = armed(kafka=EAGER)
    client = handler(one.sidecar, by_id({"k1": [NEVER]}))
    streams.produce_many(topic, [record("k1", "k")])
    k1 = client.wait_event("k1")
    one.arm("after_claim delay:6000")
    one.wait_hit("after_claim")
    streams.produce_many(topic, [record("k2", "k")])
    inbox.wait_stored(2)
    assert inbox.message("k2")["status"] == "claimed"
    client.answer(k1, retry(delay_ms=1))
    eventually(lambda: inbox.message("k1")["retry_count"] == 1)
    rebalance()
    inbox.wait_processed(2)
    assert in_order(client, "k1", "k2") == ["k1", "k1", "k2"]


def test_a_claim_during_a_rebalance_does_not_overtake_a_returned_row(armed, handler, streams, topic, inbox, rebalance):
    """The claim took k2 while k1 was open. k1 waits for its retry, and its lane is dropped with the partition."""
    one = armed(kafka=EAGER, inbox={"max_claimed": 2})
    client = handler(one.sidecar, by_id({"k1": [NEVER], "other": [NEVER]}))
    streams.produce_many(topic, [record("k1", "k"), record("other", "o")])
    client.wait_count(2)
    streams.produce_many(topic, [record("k2", "k")])
    inbox.wait_status("k2", "waiting")
    one.arm("after_claim delay:6000")
    client.answer(client.wait_event("other"), DONE)
    one.wait_hit("after_claim")
    assert inbox.message("k2")["status"] == "claimed"
    client.answer(client.wait_event("k1"), retry(delay_ms=1))
    eventually(lambda: inbox.message("k1")["retry_count"] == 1)
    rebalance()
    inbox.wait_processed(3)
    assert in_order(client, "k1", "k2") == ["k1", "k1", "k2"]


def test_a_rebalance_is_noticed_before_the_settle_of_a_returned_row(armed, handler, streams, topic, inbox, rebalance):
    """Dispatch is delayed during all of it. k2 is stored while k1 is still claimed; then k1 waits for its retry."""
    one = armed(kafka=EAGER, worker={"poll": "60s", "lease": "60s"})
    client = handler(one.sidecar, by_id({"k1": [NEVER]}))
    streams.produce_many(topic, [record("k1", "k")])
    k1 = client.wait_event("k1")
    one.arm("before_settle delay:6000")
    client.answer(k1, retry(delay_ms=1))
    one.wait_hit("before_settle")
    one.arm("before_tick delay:8000")
    one.wait_hit("before_tick")
    rebalance()
    streams.produce_many(topic, [record("k2", "k")])
    inbox.wait_stored(2)
    assert (inbox.message("k1")["status"], inbox.message("k2")["status"]) == ("claimed", "claimed")
    inbox.wait_processed(2)
    assert in_order(client, "k1", "k2") == ["k1", "k1", "k2"]


def test_a_suspect_whose_crash_is_being_counted_is_returned_with_its_partition(armed, make_topic, handler, streams,
                                                                               topic, inbox):
    """R12: the partition is unassigned until a member joins that reads its topic."""
    quick = {"worker": {"lease": "3s"}}
    reader = armed(**quick)
    streams.produce_many(topic, [record("k1", "k")])
    inbox.wait_status("k1", "parked")
    reader.sidecar.stop()
    one = armed(kafka={"topics": [make_topic()]}, inbox={"instance": "adopter"}, **quick)
    dies = handler(one.sidecar, always(NEVER), timeout_ms=60000)
    dies.wait_event("k1")
    one.arm("before_raise delay:12000")
    dies.abort()
    old = handler(one.sidecar, always(DONE))
    one.wait_hit("before_raise")
    reader.sidecar.start()
    new = handler(reader.sidecar, always(DONE))
    eventually(lambda: inbox.value("SELECT i.name FROM inbox.inbox_offsets o JOIN inbox.inbox_instances i"
                                   " ON i.id = o.owner WHERE o.topic = %s", [topic]) != "adopter")
    inbox.wait_processed(1, timeout=40)
    assert new.event_ids == ["k1"]
    assert not old.deliveries
    assert inbox.message("k1")["crash_count"] == 0
