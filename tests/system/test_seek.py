"""inboxd seek: moves a running sidecar's watermark, and prints the effect first."""

import json
import time

import pytest

from support.scripts import DONE, always
from support.wait import eventually


@pytest.fixture
def topic(make_topic):
    return make_topic(2)


def produce(streams, topic, first, last, partition=0):
    streams.produce_many(topic, [{"value": b"{}", "partition": partition, "headers": [("id", f"e{partition}.{n}")]}
                                 for n in range(first, last)])


@pytest.fixture
def read(start_inboxd, streams, topic, inbox):
    """A sidecar that has read ten records of partition 0 and none of partition 1."""
    sidecar = start_inboxd()
    produce(streams, topic, 0, 10)
    inbox.wait_stored(10)
    return sidecar


def seek(sidecar, *arguments, code=0):
    """Its output on stdout or, if it fails, on stderr."""
    result = sidecar.command("seek", *map(str, arguments))
    assert result.returncode == code, (result.stdout, result.stderr)
    return result.stderr if code else result.stdout


def told(sidecar, *arguments, code=0):
    result = sidecar.command("seek", *map(str, arguments), "--json")
    assert result.returncode == code, (result.stdout, result.stderr)
    return json.loads(result.stdout)


def watermark(inbox, topic, partition=0):
    return inbox.offsets()[topic, partition]


def test_a_seek_back_reads_again_and_stores_nothing_twice(read, handler, topic, inbox):
    client = handler(read, always(DONE))
    inbox.wait_processed(10)
    seek(read, topic, 0, 4, "--yes", "--reason", "a look back")
    eventually(lambda: read.metric("inboxd_duplicates_total", topic=topic) == 6)
    assert inbox.count() == 10 and len(client.deliveries) == 10
    assert "seek_applied" in read.stderr and "watermark_lost" not in read.stderr
    eventually(lambda: watermark(inbox, topic) == 10)
    (audit,) = inbox.query("SELECT action, filter, reason FROM inbox.inbox_audit")
    assert audit == {"action": "seek", "reason": "a look back",
                     "filter": {"topic": topic, "kafka_partition": 0, "from": 10, "to": 4}}


def test_a_seek_back_handles_deleted_messages_again_and_warns(read, topic, inbox):
    inbox.execute("DELETE FROM inbox.inbox_messages WHERE kafka_offset >= 8")
    assert "whose message was deleted are handled again" in seek(read, topic, 0, 7, "--yes")
    inbox.wait_stored(10)


def test_a_seek_forward_skips_records_and_warns(read, streams, topic, inbox):
    read.stop()
    produce(streams, topic, 10, 15)
    done = read.command("seek", topic, "0", "13", "--yes")
    assert done.returncode == 0
    assert done.stderr == ("SKIPPED: at most 3 records, offsets 10 to 12: they are never stored, and no handler"
                           " gets them\n")
    read.start()
    inbox.wait_stored(12)
    assert inbox.message("e0.13") and not inbox.query("SELECT 1 FROM inbox.inbox_messages WHERE event_id = 'e0.10'")


def test_a_dry_run_prints_the_effect_and_changes_nothing(read, streams, topic, inbox):
    assert seek(read, topic, 0, 4, "--dry-run").splitlines() == [
        "watermark now   10", "watermark then  4", "log begins      0", "log ends before 10",
        "read again: at most 6 records, offsets 4 to 9; those in the inbox are duplicates, those whose message was"
        " deleted are handled again",
        f"to do it: inboxd seek {topic} 0 4 --yes", f"dry run: move the watermark of {topic}/0 to 4"]
    read.stop()
    produce(streams, topic, 10, 12)
    dry = read.command("seek", topic, "0", "end", "--dry-run")
    assert "SKIPPED: at most 2 records, offsets 10 to 11: " in dry.stderr
    assert dry.stdout.endswith(f"dry run: skip 2 records for good: move the watermark of {topic}/0 to 12\n")
    assert "nothing is read again, and nothing is skipped" in seek(read, topic, 0, 10, "--dry-run")
    assert watermark(inbox, topic) == 10 and inbox.value("SELECT count(*) FROM inbox.inbox_audit") == 0


def test_with_json_it_prints_one_object(read, streams, topic):
    facts = {"action": "seek", "count": 1, "topic": topic, "kafka_partition": 0, "from": 10, "log_begins": 2,
             "log_ends": 10}
    streams.delete_records(topic, 0, 2)
    assert told(read, topic, 0, "beginning", "--dry-run") == \
        {**facts, "dry_run": True, "to": 2, "read_again": 8, "skipped": 0}
    assert told(read, topic, 0, "end", "--yes") == {**facts, "dry_run": False, "to": 10, "read_again": 0, "skipped": 0}


def test_a_time_selects_the_first_record_at_or_after_it(read, streams, topic):
    read.stop()
    begin = int(time.time()) - 3600
    streams.produce_many(topic, [{"value": b"{}", "partition": 1, "timestamp": (begin + n) * 1000,
                                  "headers": [("id", f"t{n}")]} for n in range(5)])
    written = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(begin + 3))
    assert told(read, topic, 1, "--to-time", written, "--dry-run")["to"] == 3
    assert told(read, topic, 1, "--to-time", "2h", "--dry-run")["to"] == 0
    assert told(read, topic, 1, "--to-time", "1969-01-01Z", "--dry-run")["to"] == 0
    assert told(read, topic, 1, "--to-time", "1m", "--dry-run")["to"] == 5
    assert "SKIPPED: at most 5 records, offsets 0 to 4" in \
        read.command("seek", topic, "1", "--to-time", "0s", "--dry-run").stderr


def test_a_partition_that_was_never_read_can_be_moved(read, streams, topic, inbox):
    eventually(lambda: (topic, 1) in inbox.offsets())
    read.stop()
    produce(streams, topic, 0, 4, partition=1)
    inbox.execute("UPDATE inbox.inbox_offsets SET next_offset = NULL WHERE kafka_partition = 1")
    assert told(read, topic, 1, 3, "--yes")["from"] is None
    read.start()
    inbox.wait_stored(11)
    assert inbox.message("e1.3")


def test_with_offset_reset_error_a_seek_sets_the_start(make_inboxd, streams, topic, inbox):
    produce(streams, topic, 0, 4)
    sidecar = make_inboxd(kafka={"auto.offset.reset": "error"})
    assert sidecar.command("migrate").returncode == 0
    assert "has ever read partition 0" in seek(sidecar, topic, 0, 3, "--yes", code=6)
    sidecar.start(ready=False)
    assert sidecar.wait() == 4 and "inboxd seek" in sidecar.stderr
    for partition, offset in ((0, 3), (1, 0)):
        seek(sidecar, topic, partition, offset, "--yes")
    sidecar.start()
    inbox.wait_stored(1)
    assert inbox.message("e0.3")


WRONG = [
    ("", 1, "give a topic, a partition, and an offset or --to-time"),
    ("{topic} 0", 1, "an offset or --to-time"),
    ("{topic} zero 1", 1, '"zero" is not a partition number'),
    ("{topic} 2147483648 1", 1, "is not a partition number"),
    ("{topic} 0 start", 1, '"start" is not an offset; give a number, beginning or end'),
    ("{topic} 0 1 --to-time 2h", 1, "an offset or --to-time, not both"),
    ("{topic} 0 --to-time yesterdayish", 1, "--to-time takes a time"),
    ("{topic} 0 --to-time infinity", 1, "--to-time takes a time"),
    ("{topic} 0 -5", 1, 'there is no option "-5" for seek'),
    ("{topic} 0 5 --json", 1, "stdin is not a terminal: use --yes, or --dry-run"),
    ("{topic}.none 0 5 --yes", 6, '.none" does not exist'),
    ("{topic} 2 5 --yes", 6, "has 2 partitions, 0 to 1"),
    ("{topic} 0 3 --yes", 6, "offset 3 is before the begin of the log: it begins at 4"),
    ("{topic} 0 11 --yes", 6, "offset 11 is behind the end of the log: it begins at 4 and ends before 10"),
    ("{topic} 0 5 --yes --set kafka.group.id=other", 2, "belongs to Kafka cluster"),
]


def test_an_impossible_seek_is_one_line_of_error(read, streams, topic, inbox):
    streams.delete_records(topic, 0, 4)
    for line, code, words in WRONG:
        answer = seek(read, *line.format(topic=topic).split(), code=code)
        assert words in answer and len(answer.splitlines()) == 1, line
    assert inbox.value("SELECT count(*) FROM inbox.inbox_audit") == 0 and watermark(inbox, topic) == 10
