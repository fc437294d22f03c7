"""inboxd verify: every record of a range has a trace in the inbox, or is listed."""

import json

import pytest
from confluent_kafka import Producer

from support.wait import eventually


@pytest.fixture
def topic(make_topic):
    return make_topic(2)


def verify(sidecar, topic, *options, code=0):
    result = sidecar.command("verify", "--topic", topic, "--json", *options)
    assert result.returncode == code, (result.stdout, result.stderr)
    return json.loads(result.stdout)


def counts(report):
    return {name: number for name, number in report.items()
            if name not in ("topic", "gaps", "records") and number}


@pytest.fixture
def read(start_inboxd, streams, topic, inbox):
    """A sidecar that has read ten records of partition 0 and two of partition 1."""
    sidecar = start_inboxd(topics={topic: {"id": ["header:id"], "missing_id": "reject", "accept": ["*"]}})
    streams.produce_many(topic, [{"value": b"{}", "partition": 0, "headers": [("id", f"e{n}")]} for n in range(10)])
    streams.produce_many(topic, [{"value": None, "partition": 1, "headers": [("id", f"f{n}")]} for n in range(2)])
    inbox.wait_stored(12)
    return sidecar


def test_stored_records_are_proven_one_by_one(read, topic):
    report = verify(read, topic)
    assert (report["records"], counts(report), report["gaps"]) == (12, {"stored": 12}, [])
    assert "stored     12" in read.command("verify", "--topic", topic).stdout


def test_duplicates_conflicts_and_rejects_count_as_traces(read, topic, produce, inbox):
    produce(topic, b"{}", headers=[("id", "e1")], partition=0)
    produce(topic, b"[]", headers=[("id", "e1")], partition=0)
    produce(topic, b"{}", partition=0)
    eventually(lambda: len(inbox.rejects()) == 1 and len(inbox.conflicts()) == 1)
    assert counts(verify(read, topic)) == {"stored": 12, "duplicates": 1, "conflicts": 1, "rejected": 1}
    inbox.execute("DELETE FROM inbox.inbox_rejects")
    inbox.execute("DELETE FROM inbox.inbox_conflicts")
    report = verify(read, topic, code=6)
    assert report["gaps"] == [{"kafka_partition": 0, "first": 11, "last": 12, "gone": False}]


def test_missing_records_are_listed_as_gaps(read, topic, inbox):
    inbox.execute("DELETE FROM inbox.inbox_messages WHERE kafka_partition = 0 AND kafka_offset IN (2, 3, 4, 7)")
    report = verify(read, topic, code=6)
    assert report["gaps"] == [{"kafka_partition": 0, "first": 2, "last": 4, "gone": False},
                              {"kafka_partition": 0, "first": 7, "last": 7, "gone": False}]
    assert (report["missing"], report["stored"]) == (4, 8)
    text = read.command("verify", "--topic", topic)
    assert f"{topic}/0 offsets 2 to 4: not in the inbox" in text.stdout and "2 gaps" in text.stderr


def test_the_same_record_with_another_payload_is_missing(read, topic, inbox):
    inbox.execute("UPDATE inbox.inbox_messages SET payload_digest = 'other' WHERE event_id = 'e5'")
    assert verify(read, topic, code=6)["gaps"] == [{"kafka_partition": 0, "first": 5, "last": 5, "gone": False}]
    assert "1 gap, 1 record without a trace" in read.command("verify", "--topic", topic).stderr


def test_a_range_of_one_partition_can_be_verified(read, topic, inbox):
    inbox.execute("DELETE FROM inbox.inbox_messages WHERE kafka_partition = 0 AND kafka_offset IN (2, 8)")
    assert verify(read, topic, "--partition", "1")["records"] == 2
    assert verify(read, topic, "--partition", "0", "--from", "3", "--to", "8")["records"] == 5
    assert verify(read, topic, "--partition", "0", "--from", "3", code=6)["missing"] == 1


def test_records_deleted_in_kafka_cannot_be_proven(read, topic, streams):
    streams.delete_records(topic, 0, 4)
    assert verify(read, topic)["records"] == 8
    report = verify(read, topic, "--partition", "0", "--from", "1", code=6)
    assert report["gaps"] == [{"kafka_partition": 0, "first": 1, "last": 3, "gone": True}]


@pytest.mark.parametrize("to", ["3", "4"])
def test_a_range_before_the_start_of_the_log_proves_nothing(read, topic, streams, to):
    streams.delete_records(topic, 0, 4)
    result = read.command("verify", "--topic", topic, "--partition", "0", "--to", to)
    assert (result.returncode, result.stdout) == (6, "")
    assert f"{topic}/0: --to {to} is not behind the beginning of the log (4)" in result.stderr
    assert verify(read, topic, "--partition", "0", "--to", "5")["stored"] == 1


def test_a_partition_that_starts_after_the_range_is_named(read, topic, streams):
    streams.delete_records(topic, 0, 4)
    result = read.command("verify", "--topic", topic, "--to", "2")
    assert (result.returncode, result.stderr.count("\n")) == (0, 1), result.stderr
    assert f"{topic}/0: --to 2 is not behind the beginning of the log (4)" in result.stderr
    assert "stored     2" in result.stdout
    streams.delete_records(topic, 1, 2)
    result = read.command("verify", "--topic", topic, "--to", "2")
    assert result.returncode == 6 and "and so it is in every partition" in result.stderr


def test_records_deleted_before_a_sidecar_read_them_are_not_proven(read, topic, streams, produce):
    assert read.stop() == 0
    produce(topic, b"{}", headers=[("id", "unread")], partition=1)
    streams.delete_records(topic, 1, 2)
    assert verify(read, topic, "--partition", "1")["records"] == 0, "all that was deleted was read"
    streams.delete_records(topic, 1, 3)
    result = read.command("verify", "--topic", topic, "--partition", "1")
    assert result.returncode == 6 and "what the sidecars have read (2) is not behind the beginning" in result.stderr


def test_a_record_that_was_not_read_yet_is_no_gap(read, topic, produce):
    read.stop()
    produce(topic, b"{}", headers=[("id", "late")], partition=0)
    assert verify(read, topic)["records"] == 12
    assert verify(read, topic, "--partition", "0", "--to", "100", code=6)["missing"] == 1


def test_a_range_after_the_end_of_the_log_proves_nothing(read, topic):
    result = read.command("verify", "--topic", topic, "--partition", "0", "--from", "99")
    assert (result.returncode, result.stdout) == (6, "")
    assert f"{topic}/0: --from 99 is behind the end of the log (10)\n" in result.stderr
    result = read.command("verify", "--topic", topic, "--from", "99")
    assert result.returncode == 6 and "(10), and so it is in every partition" in result.stderr


def test_a_partition_that_ends_before_the_range_is_named(read, topic):
    result = read.command("verify", "--topic", topic, "--from", "4")
    assert (result.returncode, result.stderr) == (0, f"{topic}/1: --from 4 is behind the end of the log (2)\n")
    assert "stored     6" in result.stdout
    result = read.command("verify", "--topic", topic, "--partition", "0", "--to", "11")
    assert (result.returncode, result.stderr) == (
        0, f"{topic}/0: --to 11 is behind the end of the log; looked at up to 10\n")


def test_a_range_after_the_last_read_offset_proves_nothing(read, topic, produce):
    assert read.stop() == 0
    for name in "xy":
        produce(topic, b"{}", headers=[("id", name)], partition=0)
    result = read.command("verify", "--topic", topic, "--partition", "0", "--from", "11")
    assert result.returncode == 6 and "--from 11 is behind what the sidecars have read (10)" in result.stderr
    assert verify(read, topic, "--partition", "0", "--from", "10")["records"] == 0


def test_records_stored_with_other_rules_are_missing_with_a_hint(read, topic):
    read.write_configuration({"topics": {topic: {"id": ["header:other"], "accept": ["*"]}}})
    result = read.command("verify", "--topic", topic)
    assert result.returncode == 6 and "that was stored under other rules has another id" in result.stderr


def test_a_topic_that_was_never_read_is_not_proven(read, make_topic):
    result = read.command("verify", "--topic", make_topic(1))
    assert (result.returncode, "has read it" in result.stderr) == (6, True), result.stderr


def test_librdkafka_writes_nothing_to_the_terminal(read, topic):
    assert read.command("verify", "--topic", topic).stderr == ""


def test_skipped_records_are_counted_separately(read, topic):
    read.write_configuration({"topics": {topic: {"id": ["header:id"], "accept": ["order.*"]}}})
    assert counts(verify(read, topic)) == {"skipped": 12}


def test_more_than_a_thousand_records_are_verified_in_batches(start_inboxd, streams, topic, inbox):
    sidecar = start_inboxd()
    streams.events(topic, [f"e{number}" for number in range(1700)])
    inbox.wait_stored(1700)
    assert counts(verify(sidecar, topic)) == {"stored": 1700}


def test_verify_joins_no_group_and_commits_nothing(read, topic, streams, group):
    eventually(lambda: streams.lag(group, topic) == 0)
    members = len(streams.members(group))
    before = streams.committed(group, topic)
    verify(read, topic, "--from", "0", "--partition", "0")
    assert (streams.committed(group, topic), len(streams.members(group))) == (before, members)


@pytest.mark.parametrize("options, code, words", [
    ([], 1, "--topic"),
    (["--topic", "there-is-none"], 6, 'topic "there-is-none" does not exist'),
    (["--topic", "no/topic"], 6, "Invalid topic"),
    (["--topic", "there-is-none", "--set", "kafka.bootstrap.servers=127.0.0.1:1"], 4, "no broker of kafka.bootstrap"),
    (["--topic", "{topic}", "--partition", "7"], 6, "2 partitions"),
    (["--topic", "{topic}", "--from", "5", "--to", "5"], 1, "--from"),
])
def test_a_wrong_request_is_refused_with_its_reason(read, topic, options, code, words):
    result = read.command("verify", *[option.format(topic=topic) for option in options])
    assert (result.returncode, words in result.stderr) == (code, True), result.stderr


def test_records_behind_an_open_transaction_are_named(read, topic, kafka_server):
    """Nobody reads them, so their only sign is the lag. A producer that died leaves such a transaction."""
    producer = Producer({"bootstrap.servers": kafka_server.bootstrap, "transactional.id": f"open-{topic}"})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"{}", partition=0, headers=[("id", "open")])
    producer.flush(30)
    found = read.command("verify", "--topic", topic)
    assert found.returncode == 0 and f"{topic}/1" not in found.stderr
    assert f"{topic}/0: 1 offset from 10 on is behind a transaction of a producer that is still open" in found.stderr
    producer.abort_transaction(30)
    eventually(lambda: "transaction" not in read.command("verify", "--topic", topic).stderr)
