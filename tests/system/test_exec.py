"""`inboxd exec`: one process a message. The commands are shell scripts, as users write them."""

import ctypes
import json
import os
import pathlib
import signal

import pytest

from support.wait import eventually, throughout


@pytest.fixture
def send(produce, topic):
    def send(event_id="x", value=b'{"order": 17}', **options):
        headers = {"id": event_id, **options.pop("headers", {})}
        return produce(topic, value, headers=headers, **options)

    return send


@pytest.fixture
def run(bridge, tmp_path):
    """run(sidecar, script, option…) -> `inboxd exec` with this shell script as command; its directory is $DIR."""

    def run(sidecar, script, *options, **more):
        path = tmp_path / "command.sh"
        path.write_text("#!/bin/sh\n" + script)
        path.chmod(0o755)
        return bridge(sidecar, "exec", *options, "--", path, env={"DIR": str(tmp_path), **more.pop("env", {})}, **more)

    return run


def is_alive(pid):
    """Also a zombie counts as gone: nothing of it can have an effect."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def pid_in(path):
    return int(eventually(lambda: path.exists() and path.read_text().strip(), what=f"a pid in {path}"))


def test_the_event_is_on_stdin_and_in_the_environment(inboxd, run, send, inbox, tmp_path, topic):
    run(inboxd, 'cat >"$DIR/in"; env >"$DIR/env"')
    send("A 1", key=b"c-17", headers={"ce_subject": "some \"thing\"", "ce_type": "order.created"})
    inbox.wait_status("A 1", "processed")
    lines = (tmp_path / "in").read_text().splitlines()
    event = json.loads(lines[0])
    assert len(lines) == 1
    assert (event["id"], event["type"], event["data"]) == ("A 1", "order.created", {"order": 17})
    assert event["inboxattempt"] == 1 and event["inboxreplay"] is False
    environment = dict(line.split("=", 1) for line in (tmp_path / "env").read_text().splitlines() if "=" in line)
    assert environment["CE_ID"] == "A 1" and environment["CE_SUBJECT"] == 'some "thing"'
    assert environment["CE_KAFKATOPIC"] == topic and environment["CE_PARTITIONKEY"] == "c-17"
    assert environment["CE_INBOXCLAIM"] == event["inboxclaim"] and environment["CE_INBOXATTEMPT"] == "1"


@pytest.mark.parametrize("script, status, error, code", [
    ("exit 0", "processed", None, None),
    ("echo 'schema v9 unknown' >&2; exit 65", "dead", "schema v9 unknown", "EXIT_65"),
    ("echo first >&2; echo 'upstream 503' >&2; exit 75", "dead", "upstream 503", "EXIT_75"),
    ("exit 3", "dead", "the command ended with exit code 3, and wrote nothing to stderr", "EXIT_3"),
    ("kill -9 $$", "dead", "the command ended with signal 9, and wrote nothing to stderr", "SIGNAL_9"),
])
def test_the_exit_code_is_the_verdict(start_inboxd, run, send, inbox, script, status, error, code):
    sidecar = start_inboxd(retry={"max_attempts": 2})
    run(sidecar, script)
    send()
    row = inbox.wait_status("x", status)
    assert (row["error"], row["error_code"]) == (error, code)
    assert row["retry_count"] == {"processed": 0, "dead": 1 if code == "EXIT_65" else 2}[status]


def test_a_message_whose_command_was_killed_comes_again(inboxd, run, send, inbox):
    run(inboxd, '[ "$CE_INBOXATTEMPT" -gt 1 ] || kill -9 $$')
    send()
    assert inbox.wait_status("x", "processed")["retry_count"] == 1


def test_json_on_stdout_is_the_result(inboxd, run, send, inbox):
    run(inboxd, """printf '  {"invoice":\\n 88}\\n'""")
    send()
    assert inbox.wait_status("x", "processed")["result"] == {"invoice": 88}


@pytest.mark.parametrize("script", ["echo invoice 88", "head -c 3000000 /dev/zero | tr '\\0' 1",
                                    "printf '\"'; head -c 1048576 /dev/zero | tr '\\0' x; printf '\"'"])
def test_other_output_does_not_change_the_verdict(inboxd, run, send, inbox, script):
    client = run(inboxd, script)
    send()
    assert inbox.wait_status("x", "processed")["result"] is None
    client.wait_log("event=result_not_stored")


def test_a_reader_of_stderr_that_stalls_stops_no_command(full_pipe, inboxd, run, send, inbox):
    client = run(inboxd, "head -c 3000000 /dev/zero | tr '\\0' x >&2", connected=False, errors=full_pipe.writer)
    for number in range(3):
        send(f"e{number}")
    inbox.wait_processed(3)
    text = ""

    def reported():
        nonlocal text
        text += full_pipe.read_some()
        return "event=log_lines_dropped" in text

    eventually(reported, every=0.01)
    assert client.stop() == 0


def test_all_of_a_long_stderr_is_kept_for_a_slow_reader(full_pipe, inboxd, run, send, inbox):
    run(inboxd, "head -c 3000000 /dev/zero | tr '\\0' X >&2", connected=False, errors=full_pipe.writer)
    send("e")
    text = ""

    def whole():
        nonlocal text
        text += full_pipe.read_some()
        assert "log_lines_dropped" not in text
        return text.count("X") == 3000000

    eventually(whole, every=0.01)
    inbox.wait_processed(1)


def test_stderr_of_a_command_is_in_the_log_of_exec(inboxd, run, send, inbox):
    client = run(inboxd, "echo 'made an invoice' >&2")
    send()
    inbox.wait_status("x", "processed")
    client.wait_log("made an invoice\n")


def test_a_command_need_not_read_its_input(inboxd, run, send, inbox):
    run(inboxd, "exec true")
    send(value=json.dumps({"text": "x" * 900_000}).encode())
    assert inbox.wait_status("x", "processed")["retry_count"] == 0


def test_a_hundred_messages_are_processed_in_order(start_inboxd, run, send, inbox, tmp_path):
    run(start_inboxd(), 'echo "$CE_ID" >>"$DIR/ids"', "--jobs", 4)
    for number in range(100):
        send(f"m{number}", key=b"one", partition=0)
    inbox.wait_processed(100)
    assert (tmp_path / "ids").read_text().split() == [f"m{number}" for number in range(100)]


def test_jobs_run_at_the_same_time_and_no_more(inboxd, run, send, inbox, tmp_path):
    run(inboxd, 'touch "$DIR/run.$CE_ID"; while [ ! -e "$DIR/go" ]; do sleep 0.05; done', "--jobs", 3)
    for number in range(6):
        send(f"m{number}", key=str(number).encode())
    eventually(lambda: len(list(tmp_path.glob("run.*"))) == 3)
    throughout(lambda: len(list(tmp_path.glob("run.*"))) == 3, 0.5)
    (tmp_path / "go").touch()
    inbox.wait_processed(6)


def test_a_timeout_kills_the_whole_process_group(start_inboxd, run, send, inbox, tmp_path):
    sidecar = start_inboxd(retry={"max_attempts": 1})
    leaves = "import os, time; os.setpgid(0, os.getpgid(os.getppid())); time.sleep(1000)"
    run(sidecar, f'sleep 1000 & echo $! $$ >"$DIR/pid"; trap "" TERM; exec python3 -c "{leaves}"', "--timeout", "1s")
    send()
    row = inbox.wait_status("x", "dead")
    assert row["error_code"] == "TIMEOUT"
    for pid in map(int, (tmp_path / "pid").read_text(encoding="utf-8").split()):
        eventually(lambda pid=pid: not is_alive(pid))


def test_what_a_command_leaves_running_is_killed(inboxd, run, send, inbox, tmp_path):
    run(inboxd, 'sleep 1000 & echo $! >"$DIR/pid"')
    send()
    inbox.wait_status("x", "processed")
    grandchild = pid_in(tmp_path / "pid")
    eventually(lambda: not is_alive(grandchild))


def test_the_deadline_is_extended_while_the_command_runs(inboxd, run, send, inbox):
    """Without an extension no attempt would succeed. One may fail, if a busy machine delays its extension for a second."""
    run(inboxd, "sleep 3", "--timeout", "1s", "--extend", "1m")
    send()
    assert inbox.wait_status("x", "processed", timeout=60)["retry_count"] <= 1


def test_an_extension_has_an_end(start_inboxd, run, send, inbox):
    sidecar = start_inboxd(retry={"max_attempts": 1})
    run(sidecar, "sleep 1000", "--timeout", "1s", "--extend", "2s")
    send()
    assert inbox.wait_status("x", "dead")["error_code"] == "TIMEOUT"


def test_sigterm_lets_the_running_command_finish(inboxd, run, send, inbox, tmp_path):
    client = run(inboxd, 'echo $$ >"$DIR/pid"; while [ ! -e "$DIR/go" ]; do sleep 0.05; done; echo 7')
    send()
    pid_in(tmp_path / "pid")
    client.signal(signal.SIGTERM)
    client.wait_log("event=bridge_stopping")
    send("later")
    inbox.wait_stored(2)
    (tmp_path / "go").touch()
    assert client.wait() == 0
    assert inbox.wait_status("x", "processed")["result"] == 7
    assert inbox.message("later")["status"] != "processed"


def test_a_second_sigterm_kills_the_command_and_its_message_comes_again(inboxd, run, send, inbox, tmp_path):
    client = run(inboxd, 'echo $$ >"$DIR/pid"; exec sleep 1000')
    send()
    pid = pid_in(tmp_path / "pid")
    client.signal(signal.SIGTERM)
    client.wait_log("event=bridge_stopping")
    client.signal(signal.SIGTERM)
    assert client.wait() == 0
    eventually(lambda: not is_alive(pid))
    run(inboxd, "exit 0")
    assert inbox.wait_status("x", "processed")["retry_count"] == 0


PTRACE_SEIZE = 0x4206


def test_exec_does_not_wait_for_a_killed_command_that_does_not_end(inboxd, run, send, tmp_path):
    """The parent of a traced process learns of its end only after the tracer, which is this test."""
    client = run(inboxd, 'echo $$ >"$DIR/pid"; exec sleep 1000')
    send()
    pid = pid_in(tmp_path / "pid")
    assert ctypes.CDLL(None, use_errno=True).ptrace(PTRACE_SEIZE, pid, None, None) == 0, os.strerror(ctypes.get_errno())
    client.signal(signal.SIGTERM)
    client.wait_log("event=bridge_stopping")
    client.signal(signal.SIGTERM)
    try:
        assert client.wait() == 0
    finally:
        os.waitpid(pid, 0)
    assert "event=command_not_ended" in client.stderr


def test_a_command_ends_with_exec_and_its_message_comes_again(inboxd, run, send, inbox, tmp_path):
    client = run(inboxd, 'echo $$ >"$DIR/pid"; exec sleep 1000')
    send()
    pid = pid_in(tmp_path / "pid")
    client.kill()
    eventually(lambda: not is_alive(pid))
    run(inboxd, "exit 0")
    inbox.wait_status("x", "processed")


def test_a_lost_sidecar_cancels_the_command(start_inboxd, run, send, inbox, tmp_path):
    sidecar = start_inboxd()
    run(sidecar, 'echo $$ >"$DIR/pid.$CE_INBOXATTEMPT.$$"; [ -e "$DIR/again" ] || exec sleep 1000')
    send()
    pid = int(eventually(lambda: [path.read_text().strip() for path in tmp_path.glob("pid.*")])[0] or 0)
    sidecar.kill()
    (tmp_path / "again").touch()
    eventually(lambda: not is_alive(pid))
    sidecar.start()
    inbox.wait_status("x", "processed")


def test_a_command_with_a_transaction_has_its_effect_exactly_once(inboxd, run, send, inbox, postgres_server, database):
    inbox.execute("CREATE TABLE effects (id text)")
    run(inboxd, """psql -qXAt -v ON_ERROR_STOP=1 -v id="$CE_ID" -v claim="$CE_INBOXCLAIM" <<'END'
BEGIN;
INSERT INTO effects VALUES (:'id');
SELECT inbox.complete(:'claim', '{"by": "psql"}');
COMMIT;
END
# as if it had crashed behind the COMMIT
[ "$CE_INBOXATTEMPT" -gt 1 ] || kill -9 $$
""", "--settled", env=postgres_server.environment(database))
    send()
    assert inbox.wait_status("x", "processed")["result"] == {"by": "psql"}
    eventually(lambda: inbox.query("SELECT id FROM effects") == [{"id": "x"}])


def test_settled_without_a_completion_is_a_retry(start_inboxd, run, send, inbox):
    run(start_inboxd(retry={"max_attempts": 1}), "exit 0", "--settled")
    send()
    assert inbox.wait_status("x", "dead")["error_code"] == "NOT_SETTLED"


def test_subscriptions_choose_topics_and_types(inboxd, run, send, inbox):
    run(inboxd, "exit 0", "--type", "order.*", "--type", "refund")
    for event_id, kind in [("a", "order.created"), ("b", "refund"), ("c", "refund.late")]:
        send(event_id, headers={"ce_type": kind})
    inbox.wait_status("a", "processed")
    inbox.wait_status("b", "processed")
    inbox.wait_status("c", "parked")


def test_a_command_that_cannot_be_started_spends_no_attempt(inboxd, run, send, inbox, tmp_path):
    client = run(inboxd, "exit 0")
    os.rename(tmp_path / "command.sh", tmp_path / "away")
    send()
    client.wait_log("event=command_not_started")
    os.rename(tmp_path / "away", tmp_path / "command.sh")
    assert inbox.wait_status("x", "processed")["retry_count"] == 0


@pytest.mark.parametrize("arguments, words", [
    (["--", "/no/such/command"], "there is no program /no/such/command"),
    (["--", "no-such-command"], 'there is no program "no-such-command" in PATH'),
    ([], "the command is missing"),
    (["--jobs", "1025", "--", "true"], "1025 is more than 1024"),
    (["--timeout", "soon", "--", "true"], "is not a duration"),
    (["--lines", "--settled", "--", "true"], 'answer "settled" instead'),
])
def test_a_wrong_command_line_is_refused(bridge, inboxd, arguments, words):
    client = bridge(inboxd, "exec", *arguments, connected=False)
    assert client.wait() == 1
    assert words in client.stderr


def test_a_subscription_of_another_handler_is_refused_with_advice(bridge, inboxd, run):
    run(inboxd, "exit 0")
    client = bridge(inboxd, "exec", "--", "true", name="other", connected=False)
    assert client.wait() == 5
    assert "give handlers that share work one name" in client.stderr
