"""`inboxd exec --lines`: a pool of processes that go on running, an event a line in, an answer a line out."""

import os
import signal

import pytest

from support.wait import eventually
from system.test_exec import is_alive, pid_in, run, send  # noqa: F401 pylint: disable=unused-import


@pytest.fixture
def lines(run):  # noqa: F811
    """lines(sidecar, script, option…) -> `inboxd exec --lines` with this shell script."""

    def start(sidecar, script, *options, **more):
        return run(sidecar, script, "--lines", *options, **more)

    return start


PER_EVENT = 'echo start >>"$DIR/starts"; while read -r event; do\n%s\ndone\necho end >>"$DIR/ends"\n'


def test_one_process_answers_a_hundred_messages_in_order(inboxd, lines, send, inbox, tmp_path):
    lines(inboxd, PER_EVENT % """id="${event#*\\"id\\":\\"}"; echo "${id%%\\"*}" >>"$DIR/ids"; echo done""")
    for number in range(100):
        send(f"m{number}", key=b"one", partition=0)
    inbox.wait_processed(100)
    assert (tmp_path / "ids").read_text().split() == [f"m{number}" for number in range(100)]
    assert (tmp_path / "starts").read_text() == "start\n"


@pytest.mark.parametrize("answer, status, error, code", [
    ("done", "processed", None, None),
    ('{"status":"done","id":"x"}', "processed", None, None),
    ("dead schema v9 unknown", "dead", "schema v9 unknown", None),
    ('{"status":"dead","reason":"no \\"vat\\"","code":"SCHEMA"}', "dead", 'no "vat"', "SCHEMA"),
    ("retry upstream 503", "dead", "upstream 503", None),
    ("what?", "dead", "the answer of the command is not a verdict: it is neither JSON nor begins with done, retry,"
                      " dead, snooze, settled or skipped; the line begins with: what?", "PROTOCOL"),
    ('{"status":"done","id":"y","reason":"%s"}' % ("r" * 90), "dead", "the answer of the command is not a verdict: it has the id of another"
     ' event; the line begins with: {"status":"done","id":"y","reason":"%s…' % ("r" * 44), "PROTOCOL"),
])
def test_an_answer_is_a_verdict(start_inboxd, lines, send, inbox, tmp_path, answer, status, error, code):
    (tmp_path / "answer").write_text(answer + "\n")
    lines(start_inboxd(retry={"max_attempts": 1}), PER_EVENT % 'cat "$DIR/answer"')
    send()
    row = inbox.wait_status("x", status)
    assert (row["error"], row["error_code"]) == (error, code)


def test_a_result_is_stored(inboxd, lines, send, inbox, tmp_path):
    (tmp_path / "answer").write_text('{"status":"done","result":{"n":[1,2]}}\n')
    lines(inboxd, PER_EVENT % 'cat "$DIR/answer"')
    send()
    assert inbox.wait_status("x", "processed")["result"] == {"n": [1, 2]}


def test_events_in_an_answer_are_stored_with_the_completion(inboxd, lines, send, inbox, tmp_path):
    (tmp_path / "answer").write_text('{"status":"done","result":7,"emit":[ {"topic":"out","type":"made","key":"k","data":{"n":1.50}},'
                                     ' {"topic":"out","type":"gone"} ]}\n')
    lines(inboxd, PER_EVENT % 'cat "$DIR/answer"')
    send()
    assert inbox.wait_status("x", "processed")["result"] == 7
    rows = inbox.query("SELECT event_type, convert_from(payload, 'UTF8') AS payload FROM inbox.outbox ORDER BY seq")
    assert [(row["event_type"], row["payload"]) for row in rows] == [("made", '{"n": 1.50}'), ("gone", None)]


@pytest.mark.parametrize("events, code", [('[{"topic":"a b","type":"made"}]', "EMIT"), ("[7]", "PROTOCOL")])
def test_events_that_cannot_be_stored_are_a_retry(start_inboxd, lines, send, inbox, tmp_path, events, code):
    (tmp_path / "answer").write_text('{"status":"done","emit":%s}\n' % events)
    lines(start_inboxd(retry={"max_attempts": 1}), PER_EVENT % 'cat "$DIR/answer"')
    send()
    assert inbox.wait_status("x", "dead")["error_code"] == code
    assert inbox.value("SELECT count(*) FROM inbox.outbox") == 0


def test_a_snooze_waits_and_spends_no_attempt(inboxd, lines, send, inbox, tmp_path):
    lines(inboxd, PER_EVENT % '[ -e "$DIR/seen" ] && echo done || { touch "$DIR/seen"; echo "snooze 200ms"; }')
    send()
    assert inbox.wait_status("x", "processed")["retry_count"] == 0


def test_behind_garbage_the_process_is_started_again(inboxd, lines, send, inbox, tmp_path):
    client = lines(inboxd, PER_EVENT % '[ -e "$DIR/seen" ] && echo done || { touch "$DIR/seen"; echo "{garbage"; }')
    send()
    assert inbox.wait_status("x", "processed")["retry_count"] == 1
    client.wait_log("event=command_killed")
    assert "garbage" not in client.stderr
    assert (tmp_path / "starts").read_text().count("start") >= 2


def test_a_line_too_many_is_no_answer_to_the_next_message(inboxd, lines, send, inbox):
    client = lines(inboxd, PER_EVENT % 'printf "done\\ndead stray line\\n"')
    for number in range(5):
        send(f"m{number}", key=b"one", partition=0)
    inbox.wait_processed(5)
    client.wait_log("without a message to answer")


def test_a_process_that_ends_early_fails_its_message_and_is_started_again(inboxd, lines, send, inbox, tmp_path):
    client = lines(inboxd, PER_EVENT % '[ -e "$DIR/seen" ] && echo done || { touch "$DIR/seen"; echo "lost it" >&2; exit 3; }')
    send()
    row = inbox.wait_status("x", "processed")
    assert row["retry_count"] == 1
    client.wait_log("event=command_ended exit_code=3")


def test_the_reason_of_an_early_end_is_the_last_line_on_stderr(start_inboxd, lines, send, inbox):
    lines(start_inboxd(retry={"max_attempts": 1}), PER_EVENT % 'echo "no more" >&2; exit 65')
    send()
    row = inbox.wait_status("x", "dead")
    assert (row["error"], row["error_code"]) == ("no more", "EXIT_65")


def test_processes_of_the_pool_may_die_at_any_time(start_inboxd, lines, send, inbox, tmp_path):
    sidecar = start_inboxd(retry={"max_attempts": 50})
    lines(sidecar, 'n=0; while read -r event; do n=$((n + 1)); [ $n -lt 5 ] || kill -9 $$; echo done; done', "--jobs", 3)
    for number in range(40):
        send(f"m{number}", key=str(number % 7).encode())
    inbox.wait_processed(40, timeout=120)


def test_a_process_that_is_killed_from_outside_is_replaced(inboxd, lines, send, inbox, tmp_path):
    lines(inboxd, 'echo $$ >"$DIR/pid"; while read -r event; do [ -e "$DIR/go" ] || sleep 1000; echo done; done')
    send()
    first = pid_in(tmp_path / "pid")
    (tmp_path / "go").touch()
    os.kill(first, signal.SIGKILL)
    row = inbox.wait_status("x", "processed")
    assert pid_in(tmp_path / "pid") != first and row["retry_count"] <= 1


@pytest.mark.parametrize("script", ["head -c 2000000 /dev/zero | tr '\\0' x; echo", "head -c 2000000 /dev/zero; sleep 1000"])
def test_an_answer_that_is_too_long_is_a_retry(start_inboxd, lines, send, inbox, script):
    lines(start_inboxd(retry={"max_attempts": 1}), PER_EVENT % script)
    send()
    row = inbox.wait_status("x", "dead")
    assert row["error_code"] == "PROTOCOL"


def test_a_silent_process_times_out_and_is_killed_with_its_group(start_inboxd, lines, send, inbox, tmp_path):
    sidecar = start_inboxd(retry={"max_attempts": 1})
    lines(sidecar, PER_EVENT % 'sleep 1000 & echo $! >"$DIR/pid"; wait', "--timeout", "1s")
    send()
    assert inbox.wait_status("x", "dead")["error_code"] == "TIMEOUT"
    grandchild = pid_in(tmp_path / "pid")
    eventually(lambda: not is_alive(grandchild))


def test_a_process_that_closes_its_output_is_replaced(start_inboxd, lines, send, inbox):
    lines(start_inboxd(retry={"max_attempts": 1}), "read -r event; exec >&-; sleep 1000")
    send()
    row = inbox.wait_status("x", "dead")
    assert (row["error"], row["error_code"]) == ("the command closed its stdin or stdout, and goes on", "PROTOCOL")


def test_at_a_stop_the_processes_read_the_end_of_their_input(inboxd, lines, send, inbox, tmp_path):
    client = lines(inboxd, PER_EVENT % "echo done", "--jobs", 2)
    send()
    inbox.wait_status("x", "processed")
    assert client.stop() == 0
    assert (tmp_path / "ends").read_text().count("end") == 2
