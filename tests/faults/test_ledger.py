"""The ledger reports each broken promise, and nothing else: every test breaks one promise once."""

import pytest

from ledger import Ledger, Snapshot

TOPIC = "t"


def a_row(seq, event_id, **changes):
    return {"seq": seq, "source": TOPIC, "event_id": event_id, "status": "processed", "retry_count": 0,
            "kafka_partition": 0, "kafka_offset": max(0, "abcd".find(event_id)),
            "claimed_by": 7, "delivery_count": 1, "error": None, **changes}


class World:
    """Messages a, b and c of key k at offsets 0 to 2, all handled one after the other, as it should be."""

    def __init__(self):
        self.ledger = Ledger()
        self.open = {}
        for offset, event_id in enumerate("abc"):
            self.ledger.produce(TOPIC, event_id, b"k", 0, offset, with_effect=event_id == "c")
        self.snapshot = Snapshot(
            rows=[a_row(1, "a"), a_row(2, "b"), a_row(3, "c")],
            completions=[(10, 1, 7, 1), (11, 2, 7, 1), (12, 3, 7, 1)],
            effects=[(TOPIC, "c")], next_offsets={0: 3}, committed={0: 3})
        self.script = [("a", 1, 1.0, 2.0, "done"), ("b", 1, 3.0, 4.0, "done"),
                       ("c", 1, 5.0, 6.0, "settled")]

    def deliver(self, event_id, count, begin, end, how, **more):
        seq = "_abcd".index(event_id)
        delivered = self.ledger.begin("one", "h1", TOPIC, event_id, f"{seq}.{count}.7",
                                      more.pop("attempt", 1), begin, **more)
        self.ledger.finish(delivered, how, end)
        return delivered

    def broken(self):
        for line in self.script:
            self.deliver(*line)
        return self.ledger.check(self.snapshot)

    def only(self, words):
        broken = self.broken()
        assert broken and all(words in sentence for sentence in broken), broken


@pytest.fixture
def world():
    return World()


def test_a_run_in_order_is_clean(world):
    assert world.broken() == []


def test_a_second_copy_is_not_missing(world):
    world.ledger.produce(TOPIC, "a", b"k", 0, 9)
    assert world.broken() == []


def test_a_missing_message(world):
    world.ledger.produce(TOPIC, "lost", b"other", 0, 3)
    world.only("missing: lost was produced at 0/3")


def test_a_later_copy_in_place_of_the_first_one(world):
    world.ledger.produce(TOPIC, "a", b"k", 0, 9)
    world.snapshot.rows[0].update(kafka_offset=9)
    world.only("not the first copy: the row of a is from offset 9")


def test_an_unknown_message(world):
    world.snapshot.rows.append(a_row(4, "x"))
    world.only("made up: x")


def test_two_rows_of_one_id(world):
    world.snapshot.rows.append(a_row(4, "a"))
    world.only("twice in the table: a has 2 rows")


def test_an_unfinished_message(world):
    world.snapshot.rows[1].update(status="claimed", claimed_by=8)
    world.only("not processed: b is claimed, claimed by 8")


def test_an_unexpected_dead_message(world):
    world.snapshot.rows[1]["status"] = "dead"
    world.only("not processed: b is dead")


def test_a_missing_death(world):
    world.ledger.expect_dead("b")
    world.only("not dead: b is processed")


def test_a_second_completion(world):
    world.snapshot.completions.append((13, 2, 7, 1))
    world.only("completed 2 times: b")


def test_a_delivery_after_completion(world):
    world.deliver("c", 2, 7.0, 8.0, "done")
    world.only("delivered again: delivery 3.2.7 of c")


def test_a_completion_without_an_answer(world):
    world.script[1] = ("b", 1, 3.0, 4.0, "retry")
    broken = world.broken()
    assert "completed by nobody: b by claim 2.1.7" in broken[0]


@pytest.mark.parametrize("next_after", ["answer", "commit"])
def test_completions_out_of_order(world, next_after):
    world.ledger.next_after = next_after
    world.snapshot.completions = [(11, 1, 7, 1), (10, 2, 7, 1), (12, 3, 7, 1)]
    world.only("completed out of order: b before a")


def test_two_of_a_key_at_once(world):
    world.script[0] = ("a", 1, 1.0, 3.5, "done")
    broken = world.broken()
    assert any("two of key b'k' at once: delivery 1.1.7 of a" in sentence for sentence in broken)


def test_one_message_delivered_twice_at_once():
    """For a message without a key; with a key the previous rule reports it, too."""
    world = World()
    world.ledger.produce(TOPIC, "n", None, 1, 0)
    world.snapshot.rows.append(a_row(4, "n", delivery_count=2))
    for count, begin in ((1, 1.0), (2, 1.5)):
        delivered = world.ledger.begin("one", "h1", TOPIC, "n", f"4.{count}.7", 1, begin)
        world.ledger.finish(delivered, "done", 2.0)
    world.only("delivered twice at once: delivery 4.1.7 of n")


@pytest.mark.parametrize("next_after, broken", [("answer", []), ("commit", ["completed out of order: b before a"])])
def test_a_transaction_that_commits_before_an_earlier_verdict(world, next_after, broken):
    """a is answered and not settled when the handler of b commits."""
    world.ledger.next_after = next_after
    world.snapshot.completions = [(11, 1, 7, 1), (10, 2, 7, 1), (12, 3, 7, 1)]
    world.deliver("a", 1, 1.0, 2.0, "done")
    world.deliver("b", 1, 3.0, 4.0, "settled").completed_at = 4.0
    del world.script[:2]
    assert world.broken() == broken


def test_transactions_out_of_order(world):
    world.snapshot.completions = [(10, 1, 7, 1), (12, 2, 7, 1), (11, 3, 7, 1)]
    for line in world.script[1:]:
        world.deliver(*line).completed_at = line[3]
    del world.script[1:]
    world.only("completed out of order: c before b")


@pytest.mark.parametrize("next_after, later", [("answer", "3.1.7 of c"), ("commit", "2.1.7 of b")])
def test_an_earlier_message_again_after_a_later_one(world, next_after, later):
    world.ledger.next_after = next_after
    world.snapshot.completions[0] = (10, 1, 7, 2)
    world.script.append(("a", 2, 7.0, 8.0, "done"))
    world.only(f"overtaken: delivery {later}")


@pytest.mark.parametrize("next_after", ["answer", "commit"])
def test_a_later_message_before_the_failing_one(world, next_after):
    world.ledger.next_after = next_after
    world.script[0] = ("a", 1, 1.0, 2.0, "lost")
    assert any("began before a was co" in sentence for sentence in world.broken())


@pytest.mark.parametrize("next_after", ["answer", "commit"])
def test_a_later_message_before_one_never_delivered(world, next_after):
    world.ledger.next_after = next_after
    del world.script[0]
    assert any("began before a was co" in sentence for sentence in world.broken())


# --- The messages that were answered and not settled come again -------------------------------------------------------

class Again(World):
    """Instance 7 had a settled, and b and c answered, when it was killed. Instance 8 has b and c again."""

    def __init__(self):
        super().__init__()
        self.ledger.produce(TOPIC, "d", b"k", 0, 3)
        self.snapshot.rows.append(a_row(4, "d"))
        self.snapshot.completions = [(10, 1, 7, 1), (11, 2, 8, 2), (12, 3, 8, 2), (13, 4, 8, 2)]
        self.snapshot.fenced = {7: 8.0}
        self.script += [("b", 2, 9.0, 10.0, "done"), ("c", 2, 11.0, 12.0, "settled"), ("d", 2, 13.0, 14.0, "done")]

    def deliver(self, event_id, count, *fields, **more):
        delivered = super().deliver(event_id, count, *fields, **more)
        if count > 1:
            delivered.claim = delivered.claim.replace(".7", ".8")
        return delivered


@pytest.fixture
def again():
    return Again()


def test_an_unsettled_tail_may_come_again(again):
    assert again.broken() == []


def test_with_next_after_commit_it_may_not(again):
    again.ledger.next_after = "commit"
    again.only("overtaken: delivery 3.1.7 of c")


def test_an_open_message_behind_the_tail_comes_again(again):
    again.script[2] = ("c", 1, 5.0, 6.0, "lost")
    assert again.broken() == []


def test_a_tail_out_of_order(again):
    again.script[3:5] = [("c", 2, 9.0, 10.0, "settled"), ("b", 2, 11.0, 12.0, "done")]
    again.snapshot.completions[1:3] = [(11, 3, 8, 2), (12, 2, 8, 2)]
    broken = again.broken()
    assert any("overtaken: delivery 3.2.8 of c" in sentence and "before b was committed" in sentence
               for sentence in broken), broken
    assert any("began before delivery 2.2.8 of b" in sentence and "of the same instance" in sentence
               for sentence in broken), broken


def test_a_tail_without_its_first_message(again):
    """Nobody delivered b again: 8 cannot know its answer."""
    del again.script[3]
    broken = again.broken()
    assert any("overtaken: delivery 3.2.8 of c" in sentence and "before b was committed" in sentence
               for sentence in broken), broken


def test_a_tail_that_begins_before_the_unsettled_messages(again):
    again.script.insert(3, ("a", 2, 8.5, 8.9, "done"))
    again.only("delivered again: delivery 1.2.8 of a")


def test_a_tail_again_after_a_clean_stop(again):
    again.snapshot.fenced = {}
    again.only("and its instance had not crashed or lost its lease")


def test_a_tail_again_before_the_crash(again):
    again.snapshot.fenced = {7: 9.5}
    again.only("overtaken: delivery 3.1.7 of c")


def test_a_tail_that_comes_again_twice(again):
    """Instance 8 is killed, too, with b and c answered and not settled."""
    again.snapshot.fenced[8] = 15.0
    again.snapshot.completions[1:] = [(11, 2, 9, 3), (12, 3, 9, 3), (13, 4, 9, 3)]
    again.script[5] = ("d", 2, 13.0, 14.0, "lost")
    for line in again.script:
        again.deliver(*line)
    again.script = []
    for number, event_id in enumerate("bcd"):
        delivered = again.deliver(event_id, 3, 16.0 + number, 16.5 + number, "done")
        delivered.claim = delivered.claim.replace(".8", ".9")
    assert again.broken() == []


def test_a_tail_longer_than_the_bound(again):
    again.ledger.max_unsettled = 1
    assert again.broken() == []  # c may be the message that was open
    world = Again()
    world.ledger.max_unsettled = 1
    world.snapshot.completions[0] = (10, 1, 8, 2)
    world.script.insert(3, ("a", 2, 8.5, 8.9, "done"))
    world.only("too many again: 2 messages of key b'k' came again after instance 7 had ended, from a on")


# --- Messages and transactions that end otherwise ---------------------------------------------------------------------

def test_the_next_message_after_a_dead_one_is_allowed(world):
    world.script[0] = ("a", 1, 1.0, 2.0, "retry")
    world.ledger.expect_dead("a")
    world.snapshot.rows[0].update(status="dead", retry_count=1)
    del world.snapshot.completions[0]
    assert world.broken() == []


def test_the_next_message_after_a_committed_transaction_is_allowed(world):
    """The connection was lost between the handler's COMMIT and its answer."""
    world.script[0] = ("a", 1, 1.0, 2.0, "lost")
    world.deliver("a", 1, 1.0, 2.0, "lost").completed_at = 1.5
    del world.script[0]
    assert world.broken() == []


@pytest.mark.parametrize("instance_id", [7, 8])
def test_the_next_message_before_the_answer_but_after_the_transaction(world, instance_id):
    """Another instance is allowed to deliver it: it sees that the row is processed."""
    world.deliver("a", 1, 1.0, 3.5, "settled").completed_at = 2.0
    del world.script[0]
    world.ledger.begin("one", "h1", TOPIC, "b", f"2.1.{instance_id}", 1, 3.0)
    world.snapshot.completions[1] = (11, 2, instance_id, 1)
    world.ledger.finish(world.ledger.deliveries[-1], "done", 4.0)
    del world.script[0]
    broken = world.broken()
    assert any("two of key b'k' at once" in sentence for sentence in broken) is (instance_id == 7), broken


def test_a_transaction_that_outlives_its_connection_is_allowed(world):
    """The delivery was read and its connection lost at the same time, but its handler committed."""
    world.script[0] = ("b", 1, 3.0, 4.0, "done")
    world.deliver("a", 1, 1.0, 1.0, "lost").completed_at = 1.5
    del world.script[1]
    assert world.broken() == []


def test_offsets_ahead_of_the_table(world):
    world.snapshot.committed[0] = 4
    world.only("committed ahead: the group's offset of partition 0 is 4")


def test_offsets_of_a_partition_the_table_does_not_know(world):
    world.snapshot.committed[1] = 1
    world.only("committed ahead: the group's offset of partition 1 is 1")


def test_an_attempt_spent_on_a_lost_connection(world):
    world.script[0] = ("a", 1, 1.0, 1.5, "lost")
    world.snapshot.completions[0] = (10, 1, 7, 2)
    world.snapshot.rows[0]["retry_count"] = 1
    world.deliver("a", 2, 1.6, 2.0, "done", attempt=2)
    broken = world.broken()
    assert len(broken) == 2 and all("an attempt spent on nothing" in sentence for sentence in broken)


def test_an_attempt_spent_at_a_deadline_before_the_loss_was_noticed_is_allowed(world):
    delivered = world.ledger.begin("one", "h1", TOPIC, "a", "1.1.7", 1, 1.0, deadline=1.5)
    world.ledger.finish(delivered, "lost", 1.1, noticed=1.6)
    world.script[0] = ("a", 2, 1.6, 2.0, "done")
    world.snapshot.completions[0] = (10, 1, 7, 2)
    world.snapshot.rows[0]["retry_count"] = 1
    assert world.broken() == []


def test_an_attempt_spent_on_a_delivery_that_was_read_too_late_is_allowed(world):
    world.ledger.miss(TOPIC, "a")
    world.script[0] = ("a", 2, 1.6, 2.0, "done")
    world.snapshot.completions[0] = (10, 1, 7, 2)
    world.snapshot.rows[0]["retry_count"] = 1
    assert world.broken() == []


def test_an_attempt_spent_on_a_failure_is_allowed(world):
    world.script[0] = ("a", 1, 1.0, 1.5, "retry")
    world.snapshot.completions[0] = (10, 1, 7, 2)
    world.snapshot.rows[0]["retry_count"] = 1
    world.deliver("a", 2, 1.6, 2.0, "done", attempt=2)
    assert world.broken() == []


def test_a_timeout_is_a_failure_and_ends_the_delivery(world):
    world.deliver("a", 1, 0.2, 2.5, "done", deadline=0.9)
    world.script[0] = ("a", 2, 1.0, 2.0, "done")
    world.snapshot.completions[0] = (10, 1, 7, 2)
    world.snapshot.rows[0]["retry_count"] = 1
    assert world.broken() == []


def test_a_double_effect(world):
    world.snapshot.effects.append((TOPIC, "c"))
    world.only("2 effects instead of 1: c")


def test_a_missing_effect(world):
    world.snapshot.effects.clear()
    world.only("0 effects instead of 1: c")


def test_an_effect_of_a_rolled_back_transaction(world):
    world.snapshot.effects.append((TOPIC, "a"))
    world.only("1 effects instead of 0: a")


def test_a_delivery_read_from_a_closed_connection_was_not_open(world):
    world.deliver("b", 0, 1.5, 1.4, "lost")
    assert world.broken() == []


def test_a_clean_run_does_not_fail(world):
    for line in world.script:
        world.deliver(*line)
    world.ledger.assert_clean(world.snapshot)


def test_a_broken_run_fails(world):
    with pytest.raises(AssertionError, match="broken promises:\ncompleted by nobody: a"):
        world.ledger.assert_clean(world.snapshot)
