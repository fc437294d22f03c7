"""The log: repeated lines are suppressed and counted, and the level can be changed at run time."""

import json
import select
import signal
import time
import urllib.error
import urllib.request

import pytest

from support.scripts import always, DONE
from support.wait import eventually
from support.wire import Wire, hello_params


def put(sidecar, body, path="/log-level"):
    """(status, answer) of a PUT."""
    request = urllib.request.Request(f"http://127.0.0.1:{sidecar.http_port}{path}", data=body.encode(), method="PUT")
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as answer:
        with answer:
            return answer.code, json.loads(answer.read())


def level(sidecar):
    return json.loads(sidecar.get("/log-level")[2])["level"]


def lines(sidecar, event):
    """The lines of an event, of a log in JSON."""
    return [line for line in map(json.loads, sidecar.stderr.splitlines()) if line["event"] == event]


def test_repeats_are_held_back_and_counted(start_inboxd, streams, topic, inbox):
    sidecar = start_inboxd(log={"format": "json"}, topics={"*": {"missing_id": "reject"}})
    streams.produce_many(topic, ({"value": b"{}", "partition": number % 2} for number in range(500)))
    eventually(lambda: len(inbox.rejects()) == 500)
    eventually(lambda: sum(line["count"] for line in lines(sidecar, "repeats_held_back")) == 480)
    assert len(lines(sidecar, "record_rejected")) == 20, "ten of each partition"
    assert {(line["of"], line["about"], line["level"]) for line in lines(sidecar, "repeats_held_back")} == \
        {("record_rejected", f"{topic}/{number}", "warn") for number in range(2)}


def test_the_count_of_suppressed_lines_is_logged_at_the_end(start_inboxd, streams, topic, inbox):
    sidecar = start_inboxd(log={"format": "json"}, topics={"*": {"missing_id": "reject"}})
    streams.produce_many(topic, ({"value": b"{}", "partition": 0} for number in range(30)))
    eventually(lambda: len(inbox.rejects()) == 30)
    assert sidecar.stop() == 0
    assert sum(line["count"] for line in lines(sidecar, "repeats_held_back")) == 20
    assert lines(sidecar, "stopped")


def test_a_reader_of_stderr_that_stalls_stops_nothing(full_pipe, make_inboxd, handler, streams, topic, inbox):
    # lines of level debug are not held back as repeats
    noise = {"debug": "all", "log_level": 7, "fetch.wait.max.ms": 2}
    sidecar = make_inboxd(log={"level": "debug", "format": "json"}, kafka=noise).start(errors=full_pipe.writer)
    handler(sidecar, always(DONE))
    streams.events(topic, [f"e{count}" for count in range(50)])
    inbox.wait_processed(50)
    eventually(lambda: sidecar.metric("inboxd_log_lines_dropped_total") > 0, timeout=60)
    text = ""

    def reported():
        nonlocal text
        text += full_pipe.read_some()
        return '"event":"log_lines_dropped"' in text

    eventually(reported, every=0.01)
    whole = text[:text.rindex("\n")].splitlines()
    events = [json.loads(line)["event"] for line in whole if line != "full"]
    assert "started" in events, "what fits into the buffer is kept"


@pytest.mark.parametrize("length", [100, 4096, 10000])
def test_the_reason_of_a_disconnect_is_logged_after_any_amount_of_input(start_inboxd, length):
    sidecar = start_inboxd(log={"format": "json"})
    with Wire(sidecar.socket_path) as wire:
        wire.send_bytes(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "hello",
                                    "params": hello_params()}).encode() + b"\n")
        assert select.select([wire.socket], [], [], 15)[0]  # there is an answer, which is not read
        wire.send_bytes(b" " * length)
    eventually(lambda: lines(sidecar, "handler_disconnected"))
    assert lines(sidecar, "handler_disconnected")[0]["why"] == "Connection reset by peer"


def test_the_level_is_set_over_http(start_inboxd, streams, topic, inbox):
    sidecar = start_inboxd(log={"format": "json", "level": "warn"})
    assert level(sidecar) == "warn"
    assert not lines(sidecar, "started")
    assert put(sidecar, "info") == (200, {"level": "info"})
    assert level(sidecar) == "info"
    assert eventually(lambda: lines(sidecar, "log_level_set"))[-1]["was"] == "warn"
    sidecar.stop()
    assert lines(sidecar, "stopped"), "a line of level info"


def test_sighup_restores_the_level_of_the_configuration(start_inboxd):
    sidecar = start_inboxd()
    assert put(sidecar, "error")[0] == 200
    sidecar.signal(signal.SIGHUP)
    eventually(lambda: level(sidecar) == "info")
    sidecar.write_configuration({"log": {"level": "debug"}})
    sidecar.signal(signal.SIGHUP)
    eventually(lambda: level(sidecar) == "debug")


@pytest.mark.parametrize("body", ["", "loud", "warning", "debug\x00", '{"level": "debug"}'])
def test_an_invalid_level_is_refused_and_changes_nothing(inboxd, body):
    status, answer = put(inboxd, body)
    assert status == 400
    assert "debug, info, warn or error" in answer["error"]
    assert level(inboxd) == "info"


def test_put_is_refused_for_other_paths(inboxd):
    status, answer = put(inboxd, "debug", path="/status")
    assert (status, level(inboxd)) == (405, "info")
    assert "GET" in answer["error"]


def test_waiting_for_a_killed_member_is_logged_once(start_inboxd, group):
    sidecar = start_inboxd(log={"format": "json"}, kafka={"session.timeout.ms": 10000})
    assert lines(sidecar, "group_waiting") == []
    sidecar.kill()
    sidecar.start()
    (line,) = eventually(lambda: lines(sidecar, "group_waiting"))
    assert (line["level"], line["group"]) == ("info", group)
    assert 5 <= line["since_s"] < 10
    assert line["next"] == (
        "no action is necessary: the broker has assigned no partitions yet. It may wait for members that were killed or cut off,"
        " at most session.timeout.ms (10000 ms) for each that was killed while it joined, or for other members to give up theirs,"
        " at most max.poll.interval.ms (300000 ms)")
    eventually(lambda: len(lines(sidecar, "partitions_assigned")) == 2, what="the end of the wait")


@pytest.mark.slow
def test_a_long_wait_for_a_killed_member_is_logged_every_minute(start_inboxd, group):
    sidecar = start_inboxd(log={"format": "json"}, kafka={"session.timeout.ms": 80000})
    sidecar.kill()
    sidecar.start(ready=False)
    eventually(lambda: len(lines(sidecar, "partitions_assigned")) == 2, timeout=120)
    first, second = lines(sidecar, "group_waiting")
    assert 5 <= first["since_s"] < 10
    assert 65 <= second["since_s"] < 70


def test_the_wait_for_the_group_counts_from_the_loss(start_inboxd, group):
    """One member is stopped and expelled. When it resumes, the other one is stopped, and the group waits for it."""
    patient = {"log": {"format": "json"}, "worker": {"lease": "1m"}}
    first = start_inboxd(**patient, kafka={"session.timeout.ms": 6000})
    second = start_inboxd(**patient, kafka={"session.timeout.ms": 20000})
    eventually(lambda: lines(second, "partitions_assigned")[-1]["now"] == 2)
    first.signal(signal.SIGSTOP)
    eventually(lambda: lines(second, "partitions_assigned")[-1]["now"] == 4, timeout=30)
    second.signal(signal.SIGSTOP)
    first.signal(signal.SIGCONT)
    (line,) = eventually(lambda: lines(first, "group_waiting"), timeout=30)
    second.signal(signal.SIGCONT)
    assert 5 <= line["since_s"] < 11, "counted from the stop of the first one, it would be six seconds more"
    joins = lines(first, "partitions_assigned")
    eventually(lambda: len(lines(first, "partitions_assigned")) > len(joins), timeout=30)


def test_missing_brokers_are_not_logged_as_waiting_for_the_group(make_inboxd, kafka, inbox):
    sidecar = make_inboxd(log={"format": "json"})
    kafka.stop()
    sidecar.start(ready=False)
    eventually(lambda: lines(sidecar, "kafka_error"), timeout=30)
    eventually(lambda: time.time() - sidecar.metric("process_start_time_seconds") > 6)  # longer than until the first line
    assert lines(sidecar, "group_waiting") == []
    kafka.start()
    sidecar.wait_ready()
