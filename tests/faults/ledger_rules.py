"""The promises that a run must keep (see ledger.py): one function per rule that yields its violations.

The order of a key depends on `inbox.next_after`. With `commit` a handler never sees a message again after a later one of
its key. With `answer` it does after a crash, a lost lease or a failover, and only then: the messages that were answered and
not settled come again, in order, from the first of them on.
"""

import collections

from ledger import FAILURES, FINAL

CLOCKS = 0.2  # seconds by which the conversion of PostgreSQL's times may be wrong


def nothing_is_missing(ledger, snapshot):
    stored = {(row["source"], row["event_id"]) for row in snapshot.rows}
    for identity, record in ledger.first_copies().items():
        if identity not in stored:
            yield (f"missing: {record.event_id} was produced at {record.partition}/{record.offset}"
                   f" and is not in the table (watermark {snapshot.next_offsets.get(record.partition)})")


def the_first_copy_is_stored(ledger, snapshot):
    """That of its partition. Otherwise records were passed over, and only a repetition has kept their message."""
    first = {}
    for record in ledger.produced:
        place = *record.id, record.partition
        first[place] = min(record.offset, first.get(place, record.offset))
    for row in snapshot.rows:
        offset = first.get((row["source"], row["event_id"], row["kafka_partition"]))
        if offset is not None and row["kafka_offset"] != offset:
            yield (f"not the first copy: the row of {row['event_id']} is from offset {row['kafka_offset']} of partition"
                   f" {row['kafka_partition']}, and its first copy there has offset {offset}")


def nothing_was_made_up(ledger, snapshot):
    produced = ledger.first_copies()
    for row in snapshot.rows:
        if (row["source"], row["event_id"]) not in produced:
            yield f"made up: {row['event_id']} is in the table and was never produced"


def one_row_for_an_id(_ledger, snapshot):
    counts = collections.Counter((row["source"], row["event_id"]) for row in snapshot.rows)
    for (_, event_id), count in counts.items():
        if count > 1:
            yield f"twice in the table: {event_id} has {count} rows"


def everything_ends(ledger, snapshot):
    for row in snapshot.rows:
        wanted = "dead" if row["event_id"] in ledger.expected_dead else "processed"
        if row["status"] != wanted:
            yield (f"not {wanted}: {row['event_id']} is {row['status']}, claimed by"
                   f" {row['claimed_by']}, delivery_count {row['delivery_count']},"
                   f" error {row.get('error')!r}")


def completed_once(_ledger, snapshot):
    counts = collections.Counter(seq for _, seq, _, _ in snapshot.completions)
    names = {row["seq"]: row["event_id"] for row in snapshot.rows}
    for seq, count in counts.items():
        if count > 1:
            yield f"completed {count} times: {names.get(seq, seq)}"


def nothing_after_completion(ledger, snapshot):
    completed = {seq: count for _, seq, _, count in snapshot.completions}
    for delivered in ledger.deliveries:
        seq, count, _ = delivered.token
        if seq in completed and count > completed[seq]:
            yield f"delivered again: {delivered}, completed by claim number {completed[seq]}"


def completed_by_an_answer(ledger, snapshot):
    finals = {delivered.token for delivered in ledger.deliveries
              if delivered.how in FINAL or delivered.completed_at is not None}
    names = {row["seq"]: row["event_id"] for row in snapshot.rows}
    for _, seq, instance, count in snapshot.completions:
        if (seq, count, instance) not in finals:
            yield (f"completed by nobody: {names.get(seq, seq)} by claim {seq}.{count}.{instance},"
                   f" which no handler answered")


def completed_in_order(ledger, snapshot):
    yield from _completed_in_order(ledger, snapshot, snapshot.completions)


def settled_in_order(ledger, snapshot):
    """A handler's own transaction may commit while verdicts of earlier messages of the key are not settled."""
    own = {delivered.token for delivered in ledger.deliveries if delivered.completed_at is not None}
    for is_own in (False, True):
        yield from _completed_in_order(ledger, snapshot, [
            (number, seq, instance, count) for number, seq, instance, count in snapshot.completions
            if ((seq, count, instance) in own) is is_own])


def _completed_in_order(ledger, snapshot, completions):
    numbers = {}
    for number, seq, _, _ in completions:
        numbers[seq] = min(number, numbers.get(seq, number))
    seqs = {(row["source"], row["event_id"]): row["seq"] for row in snapshot.rows}
    for records in _keys(ledger):
        done = [record for record in records if seqs.get(record.id) in numbers]
        for first, second in zip(done, done[1:]):
            if numbers[seqs[first.id]] > numbers[seqs[second.id]]:
                yield f"completed out of order: {second.event_id} before {first.event_id}"


def _keys(ledger):
    """Lists of records of one key, each in Kafka order. Records without a key have no order."""
    keys = collections.defaultdict(list)
    for record in ledger.first_copies().values():
        if record.key is not None:
            keys[record.partition, record.key].append(record)
    for records in keys.values():
        records.sort(key=lambda record: record.offset)
        yield records


def _live(deliveries):
    """Without deliveries that had ended before they were read, because their times are unknown."""
    return [delivered for delivered in deliveries if delivered.until > delivered.begin]


def one_of_a_key_at_a_time(ledger, _snapshot):
    of = ledger.by_message()
    for records in _keys(ledger):
        live = sorted((delivered for record in records for delivered in _live(of[record.id])),
                      key=lambda delivered: delivered.begin)
        latest = None
        for delivered in live:
            if latest is not None and delivered.begin < latest.until_for(delivered.instance_id):
                yield f"two of key {records[0].key!r} at once: {latest} and {delivered}"
            if latest is None or delivered.until > latest.until:
                latest = delivered


def one_delivery_of_a_message_at_a_time(ledger, _snapshot):
    """Also of messages without a key."""
    for deliveries in ledger.by_message().values():
        live = _live(deliveries)
        for first, second in zip(live, live[1:]):
            if second.begin < first.until:
                yield f"delivered twice at once: {first} and {second}"


def nothing_overtakes_its_key(ledger, snapshot):
    of = ledger.by_message()
    dead = {(row["source"], row["event_id"]) for row in snapshot.rows if row["status"] == "dead"}
    for records in _keys(ledger):
        for first, second in zip(records, records[1:]):
            later = _live(of[second.id])
            if later:
                yield from _overtaken(first, of[first.id], later[0], first.id in dead)


def _overtaken(first, deliveries, overtaker, is_dead):
    again = [delivered for delivered in _live(deliveries) if delivered.begin > overtaker.begin]
    for delivered in again:
        yield f"overtaken: {overtaker} began before {delivered}"
    if not (again or is_dead or any(each.is_final_at(overtaker.begin) for each in deliveries)):
        yield (f"overtaken: {overtaker} began before {first.event_id} was completed or dead:"
               f" {'; '.join(map(str, deliveries)) or 'never delivered'}")


def nothing_starts_before_its_predecessor_ended(ledger, snapshot):
    """When a message is delivered, the one before it is committed, or answered to the same instance."""
    of = ledger.by_message()
    dead = {(row["source"], row["event_id"]) for row in snapshot.rows if row["status"] == "dead"}
    settled = {(seq, count, instance) for _, seq, instance, count in snapshot.completions}
    for records in _keys(ledger):
        for first, second in zip(records, records[1:]):
            if first.id in dead:
                continue
            for delivered in _live(of[second.id]):
                if not any(before.is_final_at(delivered.begin)
                           and (before.instance_id == delivered.instance_id or before.token in settled)
                           for before in of[first.id]):
                    yield (f"overtaken: {delivered} began before {first.event_id} was committed, or answered to the"
                           f" same instance: {'; '.join(map(str, of[first.id])) or 'never delivered'}")


def only_an_unsettled_tail_comes_again(ledger, snapshot):
    """Together with the rule before: in order, and from its first message on."""
    of = ledger.by_message()
    for records in _keys(ledger):
        numbered = [(delivered, number) for number, record in enumerate(records) for delivered in _live(of[record.id])]
        latest = {}  # instance id -> (delivery, number) of its latest message so far
        again = collections.defaultdict(set)  # instance id -> what came again after its latest message
        for delivered, number in sorted(numbered, key=lambda each: each[0].begin):
            for instance, (later, its_number) in latest.items():
                if its_number > number:
                    again[instance].add(number)
                    yield from _not_after_an_end(delivered, later, snapshot.fenced.get(instance))
            own = latest.get(delivered.instance_id)
            if own is None or own[1] < number:
                latest[delivered.instance_id] = delivered, number
        for instance, numbers in again.items():
            if len(numbers) > ledger.max_unsettled:
                yield (f"too many again: {len(numbers)} messages of key {records[0].key!r} came again after instance"
                       f" {instance} had ended, from {records[min(numbers)].event_id} on")


def _not_after_an_end(delivered, later, fenced):
    """`fenced`: when the instance of the later message was fenced, or None."""
    if later.instance_id == delivered.instance_id:
        yield f"overtaken: {later} began before {delivered} of the same instance"
    elif fenced is None or fenced > delivered.begin + CLOCKS:
        yield f"overtaken: {later} began before {delivered}, and its instance had not crashed or lost its lease"


def offsets_follow_the_table(_ledger, snapshot):
    for partition, committed in snapshot.committed.items():
        stored = snapshot.next_offsets.get(partition)
        if stored is None or committed > stored:
            yield (f"committed ahead: the group's offset of partition {partition} is {committed},"
                   f" the table has what is below {stored}")


def attempts_are_failures(ledger, snapshot):
    of = ledger.by_message()
    for identity, deliveries in of.items():
        for at, delivered in enumerate(deliveries):
            failures = sum(_may_count(earlier) for earlier in deliveries[:at]) + ledger.missed[identity]
            if delivered.attempt - 1 > failures:
                yield f"an attempt spent on nothing: {delivered} after {failures} failures:{_listed(deliveries)}"
    for row in snapshot.rows:
        identity = row["source"], row["event_id"]
        deliveries = of[identity]
        failures = sum(map(_may_count, deliveries)) + ledger.missed[identity]
        if row["retry_count"] > failures:
            yield (f"an attempt spent on nothing: {row['event_id']} has retry_count"
                   f" {row['retry_count']} after {failures} failures:{_listed(deliveries)}")


def _listed(deliveries):
    return "".join(f"\n  {delivered}" for delivered in deliveries)


def _may_count(delivered):
    """An answer may be lost. A deadline counts regardless of how the delivery ended here, also if it passed before the loss
    of the connection was noticed."""
    return (delivered.how in FAILURES or delivered.until == delivered.deadline
            or delivered.how == "lost" and delivered.noticed >= delivered.deadline)


def effects_happen_once(ledger, snapshot):
    counts = collections.Counter(snapshot.effects)
    status = {(row["source"], row["event_id"]): row["status"] for row in snapshot.rows}
    for identity, record in ledger.first_copies().items():
        wanted = 1 if record.with_effect and status.get(identity) == "processed" else 0
        if counts[identity] != wanted:
            yield f"{counts[identity]} effects instead of {wanted}: {record.event_id}"


RULES = [nothing_is_missing, the_first_copy_is_stored, nothing_was_made_up, one_row_for_an_id, everything_ends,
         completed_once, completed_by_an_answer, nothing_after_completion, one_delivery_of_a_message_at_a_time,
         offsets_follow_the_table, attempts_are_failures, effects_happen_once]
ORDER = {
    "answer": [one_of_a_key_at_a_time, settled_in_order, nothing_starts_before_its_predecessor_ended,
               only_an_unsettled_tail_comes_again],
    "commit": [one_of_a_key_at_a_time, completed_in_order, nothing_overtakes_its_key],
}
