"""The operators' commands, from outside: their output, their changes, their exit codes."""

import datetime
import json
import os
import pathlib
import pty
import re
import signal
import subprocess

import pytest

from support.scripts import always, by_id, DONE
from support.sidecar import binary
from support.wait import eventually
from support.wire import dead, done, NEVER, retry


FAR = "postgres.options=-c TimeZone=Pacific/Kiritimati"  # 14 hours from UTC
DROP = "UPDATE inbox.inbox_messages SET payload = NULL WHERE event_id = ANY (%s)"  # the digest stays, as with retention
OPERATIONS = pathlib.Path(__file__).parents[2] / "docs/operations.md"


def run(sidecar, *arguments, code=0, **options):
    """stdout of a command that must end with this exit code."""
    result = sidecar.command(*arguments, **options)
    assert result.returncode == code, (result.stdout, result.stderr)
    assert code == 0 or result.stderr.startswith("inboxd: "), result.stderr
    return result.stdout if code == 0 else result.stderr


def objects(text):
    return [json.loads(line) for line in text.splitlines()]


@pytest.fixture
def processed(inboxd, handler, streams, topic, inbox):
    """A client that has handled a, b and c."""
    client = handler(inboxd, always(done({"run": 1})))
    streams.events(topic, ["a", "b", "c"], value=lambda event_id: json.dumps({"id": event_id}).encode())
    inbox.wait_processed(3)
    client.deliveries.clear()
    return client


@pytest.fixture
def graves(start_inboxd, handler, streams, topic, inbox):
    """A sidecar without handlers whose five messages are dead; e0 to e2 of one error, e3 and e4 of another."""
    sidecar = start_inboxd()
    client = handler(sidecar, lambda delivery: dead(reason=f"upstream said {delivery.event_id[1:]}", code="UP")
                     if delivery.event_id < "e3" else dead(reason="no such order", code="ORDER"))
    streams.events(topic, [f"e{number}" for number in range(5)])
    eventually(lambda: inbox.count("dead") == 5)
    client.close()
    eventually(lambda: inbox.value("SELECT bool_and(status = 'away') FROM inbox.handlers"))
    return sidecar


def test_list_show_and_replay_find_the_message(inboxd, processed, inbox):
    listed = objects(run(inboxd, "list", "--status", "processed", "--json"))
    assert sorted(row["event_id"] for row in listed) == ["a", "b", "c"]
    columns = set(inbox.message("a"))
    assert all(set(row) <= columns for row in listed), "the keys are the names of the columns"
    shown = json.loads(run(inboxd, "show", "b", "--json"))
    assert (shown["event_id"], shown["payload_json"], set(shown)) == (
        "b", {"id": "b"}, columns | {"trace", "caused", "all_caused"})
    assert run(inboxd, "replay", "b", "--reason", "again", "--yes") == "b replayed\n"
    eventually(lambda: [delivery.event_id for delivery in processed.deliveries] == ["b"])
    assert inbox.value("SELECT affected FROM inbox.inbox_audit WHERE reason = 'again'") == 1


def test_list_is_a_table_with_filters_and_pages(graves, topic):
    def ids(*options):
        return [row["event_id"] for row in objects(run(graves, "list", "--json", *options))]

    table = run(graves, "list").splitlines()
    assert table[0].split() == ["SEQ", "STATUS", "RECORD", "TYPE", "EVENT", "ID", "TRIES", "RECEIVED", "ERROR"]
    assert len(table) == 6 and "upstream said 0" in "".join(table)
    everything = ids()
    assert sorted(everything) == ["e0", "e1", "e2", "e3", "e4"]
    assert ids("--dead", "--order", "seq", "--error", "order") == [name for name in everything if name >= "e3"]
    assert ids("--error", "%") == []
    assert ids("--code", "ORDER") == ids("--dead", "--order", "seq", "--code", "ORDER") == [name for name in everything if name >= "e3"]
    assert ids("--code", "ORD") == ids("--code", "order") == ids("--code", "%") == []
    assert ids("--code", "UP", "--error", "said 1") == ["e1"]
    assert ids("--topic", "none") == ids("--since", "0s") == ids("--until", "1h") == ids("--type", "x*") == []
    assert ids("--since", "2w") == ids("--since", "9999999999999y") == everything and ids("--until", "9999y") == []
    assert ids("--topic", topic, "--since", "1h", "--until", "2100-01-01") == everything
    seqs = [row["seq"] for row in objects(run(graves, "list", "--json", "--limit", "2"))]
    assert ids("--after", str(seqs[-1]), "--limit", "2") == everything[2:4]
    assert "--after" in graves.command("list", "--limit", "2").stderr


def test_a_list_reports_where_it_stopped_and_a_replay_searches_everything(inboxd, inbox):
    """A page ends after 100,000 messages that do not match; the matching one is after them."""
    inbox.execute("INSERT INTO inbox.inbox_messages (source, event_id, event_type, topic, kafka_partition, kafka_offset,"
                  " processed_at) SELECT 's', 'e' || i, CASE WHEN i > 100002 THEN 'rare' ELSE 'often' END, 't', 0, i, now()"
                  " FROM generate_series(1, 100003) i")
    for form in ([], ["--json"]):
        result = inboxd.command("list", "--type", "rare", *form)
        assert (result.returncode, "e100003" in result.stdout, len(result.stderr.splitlines())) == (0, False, 1)
        seq = re.match(r"searched 100000 messages, up to seq (\d+), without a full page of matches; to continue: "
                       r"--after \1\n$", result.stderr)[1]
        result = inboxd.command("list", "--type", "rare", "--after", seq, *form)
        assert ("e100003" in result.stdout, result.stderr) == (True, "")
    assert run(inboxd, "replay", "--status", "processed", "--type", "rare", "--dry-run") == "dry run: replay 1 message\n"
    assert run(inboxd, "replay", "--status", "processed", "--type", "rare", "--yes") == "1 replayed\n"
    result = inboxd.command("list", "--limit", "2")
    assert (len(result.stdout.splitlines()), result.stderr[:18]) == (3, "there may be more:")


def test_every_key_of_a_list_is_documented(graves):
    (_, rest) = OPERATIONS.read_text(encoding="utf-8").split("| key of `list --json` | what it is |\n|---|---|\n")
    rows = rest.partition("\n\n")[0].splitlines()
    documented = [name for row in rows for name in re.findall(r"`(\w+)`", row.split("|")[1])]
    assert documented == list(objects(run(graves, "list", "--json", "--limit", "1"))[0])


def test_list_counts_the_final_attempt_and_a_replay_resets_the_count(graves, inbox):
    def tries(event_id):
        return next(line.split()[5] for line in run(graves, "list").splitlines() if f" {event_id} " in line)

    assert tries("e0") == "1"
    run(graves, "replay", "e0")
    assert tries("e0") == "0"


def test_show_names_who_discarded_a_message(graves, inbox):
    run(graves, "replay", "e0", "--reason", "once more")
    inbox.wait_status("e0", "parked")
    run(graves, "discard", "e0", "--reason", "not needed")
    text = run(graves, "show", "e0")
    assert re.search(r"replayed by \w+, was dead: once more\n.*discarded by \w+: not needed\n.*: dead\n", text), text


def test_list_has_rejects_and_conflicts(start_inboxd, produce, topic, inbox):
    sidecar = start_inboxd(topics={topic: {"missing_id": "reject"}})
    produce(topic, b"12345", key="k1", partition=0)  # of one partition: rejects of two can be stored in any order
    produce(topic, b"\xff\x1b[2J", key="k2", headers={"id": ""}, partition=0)
    for value in (b"first", b"other"):
        produce(topic, value, key="k1", headers={"id": "x"})
    eventually(lambda: len(inbox.rejects()) == 2 and inbox.value("SELECT count(*) FROM inbox.inbox_conflicts") == 1)

    def records(*options):
        return [row["kafka_offset"] for row in objects(run(sidecar, "list", "--json", *options))]

    first, second = run(sidecar, "list", "--rejects").splitlines()[1:]
    assert f"{topic}/" in first and " 5 " in first and "\x1b" not in second
    (one, other) = objects(run(sidecar, "list", "--rejects", "--json"))
    assert (one["payload_bytes"], one["key"], "payload" in one) == (5, "\\x6b31", False)
    assert records("--rejects", "--limit", "1") == [one["kafka_offset"]]
    assert records("--rejects", "--after", str(one["seq"])) == [other["kafka_offset"]]
    assert records("--rejects", "--key", "k2") == records("--rejects", "--error", other["reason"][-10:]) == \
        [other["kafka_offset"]]
    assert records("--rejects", "--topic", "none") == records("--rejects", "--since", "0s") == []
    (conflict,) = objects(run(sidecar, "list", "--conflicts", "--json", "--until", "0s", "--since", "1h"))
    assert (conflict["event_id"], conflict["source"], conflict["payload_bytes"]) == ("x", topic, 5)
    assert " x " in run(sidecar, "list", "--conflicts").splitlines()[1]
    assert records("--conflicts", "--key", "k2") == []


def test_list_groups_dead_messages_by_error(graves):
    groups = objects(run(graves, "list", "--dead", "--group", "--json"))
    assert [(group["messages"], group["error_code"], group["error_shape"]) for group in groups] == \
        [(3, "UP", "upstream said #"), (2, "ORDER", "no such order")]
    assert "upstream said #" in run(graves, "list", "--dead", "--group")
    assert objects(run(graves, "list", "--status", "dead", "--group", "--json")) == groups


def test_groups_accept_the_filters_of_a_list(graves, topic):
    def messages(*options):
        return [group["messages"] for group in objects(run(graves, "list", "--dead", "--group", "--json", *options))]

    assert messages("--topic", topic, "--since", "1h", "--until", "2100-01-01") == [3, 2]
    assert messages("--error", "order") == [2]
    assert messages("--error", "said 1") == [1]
    assert messages("--code", "ORDER") == [2]
    assert messages("--code", "ORD") == []
    assert messages("--topic", "none") == messages("--type", "x*") == messages("--key", "k") == []
    assert messages("--limit", "1") == [3]


def test_a_limited_group_list_says_that_there_are_more(graves):
    assert graves.command("list", "--dead", "--group", "--limit", "1").stderr == "there are 2 groups; all of them: --limit 2\n"
    assert graves.command("list", "--dead", "--group", "--limit", "2").stderr == ""


def test_show_prints_the_payload_the_headers_and_the_history(start_inboxd, handler, produce, topic, inbox):
    sidecar = start_inboxd()
    handler(sidecar, by_id({"x": [retry(reason="upstream 503", code="UP")]}), name="billing")
    produce(topic, b'{"b":[1,2]}', key="k1", headers=[("id", "x"), ("tenant", "t1")])
    inbox.wait_status("x", "processed")
    text = run(sidecar, "show", "x")
    for words in ("event id: x", "status: processed", "key: k1", "tenant: t1",
                  "attempt 1 failed at billing: UP upstream 503", "received", '"b": ['):
        assert words in text, text
    assert "\n  claims: 2\n" in text and "deliveries" not in text
    assert text.index("received") < text.index("attempt 1") < text.index(": processed\n\npayload")
    assert '00000000  7b 22 62 22 3a 5b 31 2c 32 5d 7d                 {"b":[1,2]}\n' in \
        run(sidecar, "show", "x", "--payload", "hex")
    assert run(sidecar, "show", "x", "--payload", "raw") == '{"b":[1,2]}'


def test_show_names_the_encoding_of_the_payload_or_why_it_is_missing(start_inboxd, produce, topic, inbox):
    sidecar = start_inboxd()
    for name, value in (("json", b'{"b":1}'), ("text", b"words"), ("bytes", b"\xff"), ("tombstone", None),
                        ("dropped", b"{}")):
        produce(topic, value, key=name, headers=[("id", name)])
    inbox.wait_stored(5)
    inbox.execute(DROP, [["dropped"]])
    headers = {"json": "payload (7 bytes, shown as JSON; --payload raw prints the original bytes)",
               "text": "payload (5 bytes)", "bytes": "payload (1 byte)", "tombstone": "payload: none (a tombstone)",
               "dropped": "payload: dropped by retention; it cannot be replayed"}
    for name, header in headers.items():
        assert f"\n{header}\n" in run(sidecar, "show", name), name
    assert "\npayload (7 bytes)\n" in run(sidecar, "show", "json", "--payload", "hex")
    assert run(sidecar, "show", "tombstone", "--payload", "raw") == ""
    assert "retention has dropped it" in run(sidecar, "show", "dropped", "--payload", "raw", code=6)


def test_times_are_in_utc_in_every_session_time_zone(graves, inbox):
    received = inbox.message("e0")["received_at"].astimezone(datetime.timezone.utc)
    stamp = received.strftime("%Y-%m-%dT%H:%M:%S")
    (first, *_) = [line for line in run(graves, "list", "--set", FAR).splitlines() if " e0 " in line]
    assert f" {stamp}Z " in first
    assert re.search(rf"^  {stamp}\.\d{{3}}Z: received$", run(graves, "show", "e0", "--set", FAR), re.M)
    groups = run(graves, "list", "--dead", "--group", "--set", FAR)
    assert len(re.findall(r" \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", groups.splitlines()[1])) == 2
    assert f" {received:%Y-%m-%dT%H:}" in groups


def test_control_characters_of_a_message_do_not_reach_the_terminal(inboxd, produce, topic, inbox):
    produce(topic, b"\x1b[2Jgone\xc2\x9b31m", key="\x1b]0;x\x07", headers=[("id", "\x1b[31mred"), ("h", "\x1b[H")])
    inbox.wait_stored(1)
    printed = run(inboxd, "show", "\x1b[31mred") + run(inboxd, "list")
    assert "?[2Jgone?31m" in printed and "?[31mred" in printed
    assert "\x1b" not in printed and "\x9b" not in printed
    inbox.execute("UPDATE inbox.inbox_messages SET dead_at = now(), available_at = NULL, error = E'no room\nDETAIL: row\t5' WHERE topic = %s", [topic])
    assert "no room DETAIL: row 5" in run(inboxd, "list", "--dead")


def test_an_event_id_of_two_sources_needs_the_source(start_inboxd, produce, topic, inbox):
    sidecar = start_inboxd()
    for source in ("here", "there"):
        produce(topic, b"{}", headers=[("id", "x"), ("ce_specversion", "1.0"), ("ce_id", "x"), ("ce_type", "t"),
                                       ("ce_source", source)])
    inbox.wait_stored(2)
    assert "here" in run(sidecar, "show", "x", code=1)
    assert "--source" in run(sidecar, "replay", "x", "--yes", code=1)
    assert "source: there" in run(sidecar, "show", "x", "--source", "there")


def test_nothing_matched_is_exit_code_6(inboxd):
    for arguments in (["show", "missing"], ["replay", "missing", "--yes"], ["discard", "missing", "--yes"],
                      ["replay", "--status", "dead", "--yes"], ["purge", "--older-than", "0s", "--yes"],
                      ["replay", "--rejects", "--yes"]):
        run(inboxd, *arguments, code=6)
    assert objects(run(inboxd, "list", "--json")) == []


def test_without_a_terminal_a_change_needs_yes(graves, inbox):
    assert "--yes" in run(graves, "replay", "--status", "dead", code=1)
    assert run(graves, "replay", "--status", "dead", "--dry-run") == "dry run: replay 5 messages\n"
    assert run(graves, "replay", "e0", "--dry-run").startswith("dry run: replay e0, which has been dead since 2")
    assert run(graves, "discard", "e0", "--dry-run").startswith("dry run: discard e0, which has been dead since 2")
    assert 'from source "elsewhere"' in run(graves, "show", "e0", "--source", "elsewhere", code=6)
    assert inbox.count("dead") == 5


def on_terminal(sidecar, arguments, answer, before=None):
    """The output of a command on a terminal with an answer typed, after before() if it is given."""
    leader, follower = pty.openpty()
    with subprocess.Popen([binary(), *arguments, "-c", sidecar.config_file], env=sidecar.env, stdin=follower,
                          stdout=follower, stderr=follower) as child:
        os.close(follower)
        seen = b""
        while before is not None and b"[y/N]" not in seen:
            seen += os.read(leader, 4096)
        if before is not None:
            before()
        os.write(leader, answer)
        try:
            while chunk := os.read(leader, 4096):
                seen += chunk
        except OSError:
            pass  # the other end is closed
        os.close(leader)
        return child.wait(30), seen.decode()


def test_on_a_terminal_a_change_asks_and_shows_its_progress(graves, inbox):
    code, seen = on_terminal(graves, ["discard", "--status", "waiting"], b"y\n")
    assert code == 6 and "no message matches" in seen
    code, seen = on_terminal(graves, ["replay", "--status", "dead"], b"n\n")
    assert code == 0 and "replay 5 messages? [y/N]" in seen and inbox.count("dead") == 5
    code, seen = on_terminal(graves, ["replay", "--status", "dead"], b"y\n")
    assert code == 0 and "of 5" in seen and "5 replayed" in seen


@pytest.mark.parametrize("answer, dead_left", [(b" Y\n", 0), (b"YES \n", 0), (b" Yes\n", 0),
                                               (b"yess\n", 5), (b"y n\n", 5), (b"\n", 5)])
def test_yes_is_accepted_in_any_case_and_with_blanks(graves, inbox, answer, dead_left):
    assert on_terminal(graves, ["replay", "--status", "dead"], answer)[0] == 0
    assert inbox.count("dead") == dead_left


def test_replay_by_filter_stops_at_max(graves, handler, inbox):
    assert run(graves, "replay", "--error", "upstream", "--max", "2", "--yes") == "2 replayed\n"
    assert inbox.count("dead") == 3
    handler(graves, always(DONE))
    inbox.wait_processed(2)
    assert run(graves, "replay", "--status", "processed", "--yes") == "2 replayed\n"


def test_a_replay_by_filter_counts_replayable_and_omitted_messages(graves, inbox):
    inbox.execute(DROP, [["e0", "e1"]])
    inbox.execute("UPDATE inbox.inbox_messages SET payload = NULL, payload_digest = NULL WHERE event_id = 'e2'")
    assert inbox.value("SELECT inbox.replay_where(dry_run => true)") == 3
    assert inbox.value("SELECT inbox.replay_where(max_rows => 2, dry_run => true)") == 2
    line = "2 left out: retention has dropped their payload\n"
    result = graves.command("replay", "--dead", "--dry-run")
    assert (result.returncode, result.stdout, result.stderr) == (0, "dry run: replay 3 messages\n", line)
    assert run(graves, "replay", "--dead", "--max", "2", "--dry-run") == "dry run: replay 2 messages\n"
    assert "replay 3 messages? [y/N]" in on_terminal(graves, ["replay", "--dead"], b"n\n")[1]
    result = graves.command("replay", "--dead", "--yes")
    assert (result.returncode, result.stdout, result.stderr) == (0, "3 replayed\n", line)
    assert inbox.count("dead") == 2


def test_a_replay_without_any_payload_gives_the_reason_and_is_not_audited(graves, inbox):
    inbox.execute(DROP, [[f"e{number}" for number in range(5)]])
    for options in (["--dry-run"], ["--yes"]):
        words = run(graves, "replay", "--dead", *options, code=6)
        assert "5 messages match, and cannot be replayed: retention has dropped the payload" in words
        assert "retention has dropped" in run(graves, "replay", "e0", *options, code=6)
    assert inbox.value("SELECT count(*) FROM inbox.inbox_audit") == 0
    assert inbox.count("dead") == 5


def test_a_replay_of_a_locked_message_says_that_it_is_locked(graves, inbox):
    with inbox.connect() as locker, locker.transaction():
        locker.execute("SELECT FROM inbox.inbox_messages WHERE event_id = 'e0' FOR UPDATE")
        assert "another session has locked it" in run(graves, "replay", "e0", "--yes", code=6)


def test_replay_accepts_dead_as_list_does(graves, inbox):
    assert run(graves, "replay", "--dead", "--error", "order", "--yes") == "2 replayed\n"
    assert run(graves, "replay", "--dead", "--yes") == "3 replayed\n"
    assert inbox.count("dead") == 0


def test_replay_filters_by_error_code_and_audits_it(graves, inbox):
    assert run(graves, "replay", "--code", "ORDER", "--dry-run") == "dry run: replay 2 messages\n"
    assert "no message matches" in run(graves, "replay", "--code", "ORD", "--yes", code=6)
    assert run(graves, "replay", "--code", "ORDER", "--yes") == "2 replayed\n"
    assert inbox.value("SELECT filter FROM inbox.inbox_audit") == {"status": "dead", "error_code": "ORDER"}
    assert inbox.count("dead") == 3


def test_an_empty_error_code_matches_messages_without_one(start_inboxd, handler, streams, topic, inbox):
    sidecar = start_inboxd()
    handler(sidecar, lambda delivery: dead(reason="no", **({"code": "UP"} if delivery.event_id == "a" else {})))
    streams.events(topic, ["a", "b"])
    eventually(lambda: inbox.count("dead") == 2)
    assert [row["event_id"] for row in objects(run(sidecar, "list", "--dead", "--code", "", "--json"))] == ["b"]
    assert [row["error_code"] for row in objects(run(sidecar, "list", "--dead", "--code=", "--group", "--json"))] == [None]
    assert run(sidecar, "replay", "--code", "", "--dry-run") == "dry run: replay 1 message\n"


def test_discard_filters_by_error_code(start_inboxd, handler, streams, topic, inbox):
    sidecar = start_inboxd(retry={"backoff": "1h", "backoff_max": "1h"})
    handler(sidecar, lambda delivery: retry(reason="no", code=delivery.event_id.upper()))
    streams.events(topic, ["a", "b"])
    eventually(lambda: inbox.count("retrying") == 2)
    assert run(sidecar, "discard", "--code", "A", "--yes") == "1 discarded\n"
    assert (inbox.message("a")["error_code"], inbox.message("b")["error_code"]) == ("DISCARDED", "B")


def test_a_large_replay_works_in_pages_and_visits_each_message_once(inboxd, handler, streams, topic, inbox):
    handler(inboxd, always(DONE))
    streams.events(topic, [f"e{number}" for number in range(2500)])
    inbox.wait_processed(2500)
    assert run(inboxd, "replay", "--status", "processed", "--yes") == "2500 replayed\n"
    eventually(lambda: inbox.count("processed") == 2500, timeout=60)
    assert inbox.value("SELECT max(replay_count) + min(replay_count) FROM inbox.inbox_messages") == 2
    pages = [row["affected"] for row in inbox.query("SELECT affected FROM inbox.inbox_audit ORDER BY seq")]
    assert pages == [1000, 1000, 500]


def not_ignored():
    """A process that a shell starts in the background ignores SIGINT, and its children inherit that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def interrupted(sidecar, inbox, *arguments, by=signal.SIGINT):
    """stdout and stderr of a command that got a signal while its first page waited to write its row of the audit."""
    with inbox.connect() as locker:
        locker.execute("LOCK TABLE inbox.inbox_audit IN SHARE MODE")
        child = subprocess.Popen([binary(), *arguments, "-c", sidecar.config_file], env=sidecar.env, text=True,
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        eventually(lambda: inbox.value("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'inboxd command'"
                                       " AND wait_event_type = 'Lock'"))
        child.send_signal(by)
    out, words = child.communicate(timeout=30)
    assert child.returncode == -by, words
    return out, words


def test_an_interrupted_replay_reports_its_progress_and_how_to_continue(inboxd, handler, streams, topic, inbox):
    handler(inboxd, always(DONE))
    streams.events(topic, [f"e{number}" for number in range(2500)])
    inbox.wait_processed(2500)
    line = ["replay", "--status", "processed", "--yes"]
    out, words = interrupted(inboxd, inbox, *line)
    assert out == ""
    assert "1000 of 2500 replayed" in words and len(words.splitlines()) == 1
    inbox.wait_processed(2500, timeout=60)
    seq = re.search(r"--after (\d+)", words)[1]
    assert run(inboxd, *line, "--after", seq) == "1500 replayed\n"
    inbox.wait_processed(2500, timeout=60)
    assert inbox.value("SELECT max(replay_count) + min(replay_count) FROM inbox.inbox_messages") == 2


def told_of(count, action="replay"):
    return {"action": action, "count": count, "dry_run": False}


@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_change_still_prints_its_object(graves, inbox, by):
    inbox.execute("""INSERT INTO inbox.inbox_messages (source, event_id, topic, kafka_partition, kafka_offset, dead_at)
                     SELECT 's', 'm' || i, 'orders', 0, i, now() FROM generate_series(1, 1500) i""")
    graves.stop()
    out, words = interrupted(graves, inbox, "replay", "--dead", "--yes", "--json", by=by)
    inbox.execute("SELECT inbox.replay_where()")
    assert json.loads(out) == told_of(1000) and "1000 of 1505 replayed" in words
    out, words = interrupted(graves, inbox, "discard", "--status", "waiting", "--yes", "--json", by=by)
    assert json.loads(out) == told_of(1000, "discard"), words


def test_a_replay_of_rejects_stores_no_more_than_were_confirmed(start_inboxd, inbox, topic):
    def reject(first, last):
        inbox.execute("INSERT INTO inbox.inbox_rejects (topic, kafka_partition, kafka_offset, payload, reason)"
                      " SELECT %s, 0, i, '{}', 'no id' FROM generate_series(%s::int, %s) i", [topic, first, last])

    sidecar = start_inboxd()
    reject(1, 3)
    code, seen = on_terminal(sidecar, ["replay", "--rejects"], b"y\n", before=lambda: reject(4, 5))
    assert (code, "store 3 rejects as messages" in seen) == (0, True), seen
    assert [row["kafka_offset"] for row in inbox.rejects()] == [4, 5]


def test_an_interrupted_replay_by_id_or_of_rejects_prints_its_object(graves, inbox, topic):
    graves.stop()
    out, words = interrupted(graves, inbox, "replay", "e0", "e1", "e2", "--json")
    assert json.loads(out) == told_of(1) and "1 of 3 replayed" in words
    inbox.execute("""INSERT INTO inbox.inbox_rejects (topic, kafka_partition, kafka_offset, headers, payload, reason)
                     SELECT %s, 0, 1000 + i, '[["id", "r1"]]', '{}', 'id_missing' FROM generate_series(1, 3) i""", [topic])
    out, words = interrupted(graves, inbox, "replay", "--rejects", "--yes", "--json")
    assert json.loads(out) == told_of(1) and "1 of 3 replayed" in words


def test_several_messages_are_replayed_even_if_one_fails(graves, inbox):
    result = graves.command("replay", "e0", "missing", "e1", "--yes")
    assert (result.returncode, result.stdout) == (6, "e0 replayed\ne1 replayed\n")
    assert "missing" in result.stderr
    assert inbox.count("dead") == 3


def test_an_event_named_twice_counts_once(graves, inbox):
    assert run(graves, "replay", "e1", "e0", "e1", "e0", "e1", "--yes") == "e1 replayed\ne0 replayed\n"
    assert inbox.value("SELECT count(*) FROM inbox.inbox_audit") == 2


def test_a_replay_of_a_retrying_message_explains_what_to_do(start_inboxd, handler, streams, topic, inbox):
    sidecar = start_inboxd(retry={"backoff": "1h", "backoff_max": "1h"})
    answers = [retry(delay_ms=3_600_000, reason="upstream 503"), DONE]
    client = handler(sidecar, lambda delivery: answers.pop(0))
    streams.events(topic, ["a"])
    eventually(lambda: inbox.count("retrying") == 1)
    words = run(sidecar, "replay", "a", "--yes", code=6)
    at = inbox.message("a")["available_at"].astimezone(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    assert f"is retrying, next attempt at {at}, so it was not replayed. To run it now: `inboxd retry EVENT_ID`" in words
    run(sidecar, "retry", "a", "--reason", "upstream is back")
    inbox.wait_processed(1)
    assert len(client.deliveries) == 2


@pytest.mark.parametrize("state, words", [("parked", "when a handler for it is connected"),
                                          ("claimed", "Wait until its handler has answered")])
def test_a_replay_of_an_open_message_says_when_it_runs(inboxd, handler, streams, topic, inbox, state, words):
    if state == "claimed":
        handler(inboxd, always(NEVER))
    streams.events(topic, ["a"])
    eventually(lambda: inbox.count(state) == 1)
    for options in (["--yes"], ["--dry-run"]):
        assert f"is {state}, so it was not replayed. " in run(inboxd, "replay", "a", *options, code=6)
        assert words in run(inboxd, "replay", "a", *options, code=6)
    assert words not in run(inboxd, "replay", "b", "--yes", code=6)


def test_discard_ends_waiting_messages(start_inboxd, streams, topic, inbox):
    sidecar = start_inboxd()
    streams.events(topic, ["a", "b", "c"])
    eventually(lambda: inbox.count("parked") == 3)
    assert run(sidecar, "discard", "a", "--reason", "obsolete", "--yes") == "a discarded\n"
    assert run(sidecar, "discard", "--status", "parked", "--yes") == "2 discarded\n"
    assert inbox.message("a")["error"] == "obsolete"
    assert inbox.count("dead") == 3


def test_purge_deletes_processed_ones(inboxd, processed, inbox):
    assert run(inboxd, "purge", "--older-than", "0s", "--dry-run") == "dry run: delete 3 processed messages\n"
    run(inboxd, "purge", "--older-than", "1h", "--yes", code=6)
    assert run(inboxd, "purge", "--older-than", "0s", "--max", "2", "--yes") == "2 deleted\n"
    assert inbox.count() == 1
    assert run(inboxd, "purge", "--older-than", "0s", "--dry-run") == "dry run: delete 1 processed message\n"


def test_status_shows_waiting_messages_and_instances(graves, topic):
    status = json.loads(run(graves, "status", "--json"))
    assert (status["dead"], status["waiting"]) == (5, 0)
    assert {entry["topic"] for entry in status["partitions"]} == {topic}
    text = run(graves, "status")
    assert topic in text and "dead" in text


def test_status_shows_the_handlers_of_each_owner(start_inboxd, handler, topic):
    def handlers_of_owner(sidecar):
        return {line.split(maxsplit=6)[6] for line in run(sidecar, "status").splitlines() if line.startswith(topic)}

    plain = start_inboxd()
    eventually(lambda: handlers_of_owner(plain) == {"-"})
    for name in ("billing", "audit"):
        handler(plain, always(DONE), name=name, subscribe=[{"types": [name]}])
    eventually(lambda: handlers_of_owner(plain) == {"audit, billing"})
    plain.stop()
    named = start_inboxd(consumers={"billing": {}, "search": {}})
    handler(named, always(DONE), name="billing", consumer="billing")
    handler(named, always(DONE), name="worker", consumer="search")
    eventually(lambda: handlers_of_owner(named) == {"billing/billing, search/worker"})


def test_each_changing_command_prints_one_json_object(graves, inbox):
    def told(*arguments, code=0):
        result = graves.command(*arguments, "--json")
        assert result.returncode == code, result.stderr
        return json.loads(result.stdout)

    def change(action, count, dry_run=False):
        return {"action": action, "count": count, "dry_run": dry_run}

    graves.stop()  # otherwise it claims the replayed messages
    assert told("replay", "--dead", "--code", "ORDER", "--dry-run") == change("replay", 2, True)
    assert told("replay", "e0", "e0", "missing", "--dry-run", code=6) == change("replay", 1, True)
    assert inbox.count("dead") == 5
    assert told("replay", "e0", "e1", "missing", "--yes", code=6) == change("replay", 2)
    assert told("replay", "--code", "ORDER", "--yes") == change("replay", 2)
    assert told("replay", "--code", "ORDER", "--yes", code=6) == change("replay", 0)
    assert told("replay", "--rejects", "--yes", code=6) == change("replay", 0)
    assert told("discard", "e0", "--yes") == change("discard", 1)
    assert told("discard", "--status", "waiting", "--dry-run") == change("discard", 3, True)
    assert told("discard", "--status", "waiting", "--yes") == change("discard", 3)
    assert told("purge", "--older-than", "0s", "--yes", code=6) == change("purge", 0)
    inbox.execute("UPDATE inbox.inbox_messages SET dead_at = NULL, processed_at = now()")
    assert told("purge", "--older-than", "0s", "--max", "2", "--dry-run") == change("purge", 2, True)
    assert told("purge", "--older-than", "0s", "--yes") == change("purge", 5)
    assert graves.command("discard", "--json").stdout == ""
    assert told("adopt", "--yes") == change("adopt", 0)
    assert re.fullmatch(r"\d+\.\d+\.\d+.*", told("version")["version"])


def test_rejects_are_replayed_after_the_configuration_is_fixed(start_inboxd, handler, produce, topic, inbox):
    sidecar = start_inboxd(topics={topic: {"missing_id": "reject"}})
    produce(topic, b'{"ref":"r-1"}', key=b"\xff\x00", headers=[("bin", b"\xfe\x00"), ("nul", None), ("t", "\u00e9")])
    produce(topic, b'{"nothing":1}')
    eventually(lambda: inbox.value("SELECT count(*) FROM inbox.inbox_rejects") == 2)
    sidecar.stop()
    sidecar.write_configuration({"topics": {topic: {"id": ["json:/ref"], "missing_id": "reject"}}})
    sidecar.start()
    client = handler(sidecar, always(DONE))
    assert json.loads(run(sidecar, "replay", "--rejects", "--dry-run", "--json")) == \
        {"action": "replay", "count": 1, "dry_run": True}
    assert "store 1 reject as messages; 1 stays rejected" in run(sidecar, "replay", "--rejects", "--dry-run")
    assert run(sidecar, "replay", "--rejects", "--reason", "rules corrected", "--yes").endswith(" stored\n")
    inbox.wait_processed(1)
    assert re.search(r": replayed by \w+, was rejected: rules corrected\n", run(sidecar, "show", "r-1"))
    assert inbox.value("SELECT reason FROM inbox.inbox_audit") == "rules corrected"
    row = inbox.message("r-1")
    assert (bytes(row["key"]), client.deliveries[0].event_id) == (b"\xff\x00", "r-1")
    assert row["headers"] == [["bin", {"base64": "/gA="}], ["nul", None], ["t", "\u00e9"]]
    assert [bytes(reject["payload"]) for reject in inbox.rejects()] == [b'{"nothing":1}']


def test_a_reject_is_found_by_a_header_as_ingest_would(start_inboxd, produce, topic, inbox):
    sidecar = start_inboxd(topics={topic: {"missing_id": "reject", "id": ["header:other"]}})
    produce(topic, b"{}", headers=[("ref", "h-1"), ("eventType", "t.x")])
    eventually(lambda: inbox.value("SELECT count(*) FROM inbox.inbox_rejects") == 1)
    sidecar.write_configuration({"topics": {topic: {"id": ["header:ref"], "missing_id": "reject"}}})
    assert json.loads(run(sidecar, "replay", "--rejects", "--yes", "--json")) == \
        {"action": "replay", "count": 1, "dry_run": False}
    assert inbox.message("h-1")["event_type"] == "t.x"


def test_adopt_gives_the_schema_to_another_group(inboxd, topic, inbox, group):
    eventually(lambda: inbox.query("SELECT * FROM inbox.inbox_binding"))
    inboxd.stop()
    inboxd.write_configuration({"kafka": {"group.id": f"{group}.new"}})
    inboxd.start(ready=False)
    assert inboxd.wait() == 2
    assert "inboxd adopt" in inboxd.stderr
    assert "--yes" in run(inboxd, "adopt", code=1)
    assert json.loads(run(inboxd, "adopt", "--dry-run", "--json")) == {"action": "adopt", "count": 1, "dry_run": True}
    assert f'group.id "{group}.new" now' in run(inboxd, "adopt", "--reason", "renamed", "--yes")
    assert "already" in run(inboxd, "adopt", "--yes")
    inboxd.start()
    assert inbox.value("SELECT reason FROM inbox.inbox_audit WHERE action = 'adopt'") == "renamed"


LOOKS = [["status"], ["list"], ["list", "--dead"], ["list", "--dead", "--group"], ["list", "--rejects"],
         ["list", "--conflicts"], ["show", "e0"], ["replay", "--dead", "--dry-run"]]
CHANGES = [["replay", "e0"], ["replay", "--dead", "--yes"], ["replay", "--rejects"], ["discard", "w1"],
           ["discard", "--status", "waiting"], ["purge", "--older-than", "0s"], ["adopt"],
           ["seek", "t", "0", "beginning"]]


def test_reading_commands_work_with_the_sidecars_own_user(graves, sidecar_user, topic):
    own = {"INBOXD_POSTGRES_USER": sidecar_user}
    for arguments in [*LOOKS, ["verify", "--topic", topic], ["seek", topic, "0", "beginning", "--dry-run"]]:
        assert run(graves, *arguments, env=own) == run(graves, *arguments), arguments
    run(graves, "check", env=own)


def test_a_changing_command_as_the_sidecars_user_fails_with_the_grant(graves, sidecar_user, inbox):
    for arguments in CHANGES:
        words = run(graves, *arguments, code=3, env={"INBOXD_POSTGRES_USER": sidecar_user})
        assert f"user {sidecar_user} may only read" in words, (arguments, words)
        assert f"GRANT inboxd_operator TO {sidecar_user}, or set another user with INBOXD_POSTGRES_USER" in words
    assert inbox.count("dead") == 5


@pytest.mark.empty_database
def test_without_a_schema_or_a_database_a_command_says_so(make_inboxd):
    sidecar = make_inboxd()
    assert "inboxd migrate" in run(sidecar, "status", code=3)
    run(sidecar, "list", "--set", "postgres.port=1", code=3)


@pytest.fixture
def as_user(db, name):
    """as_user(role) -> the environment of a command whose user is granted this role and nothing else."""
    made = []

    def make(role):
        made.append(f"u_{name}_{role}"[:63])
        db.execute(f'CREATE ROLE "{made[-1]}" LOGIN IN ROLE {role}')
        return {"INBOXD_POSTGRES_USER": made[-1]}

    yield make
    for user in made:
        db.execute(f'DROP ROLE "{user}"')


def test_the_operator_role_is_sufficient_and_the_reader_role_only_reads(graves, inbox, as_user, topic):
    operator, reader = as_user("inboxd_operator"), as_user("inboxd_reader")
    for arguments in (["status"], ["list", "--dead"], ["list", "--dead", "--group"], ["show", "e0"],
                      ["verify", "--topic", topic], ["replay", "--status", "dead", "--dry-run"],
                      ["seek", topic, "0", "beginning", "--dry-run"]):
        assert run(graves, *arguments, env=operator) == run(graves, *arguments, env=reader)
    assert "inboxd_operator" in run(graves, "replay", "e0", "--yes", env=reader, code=3)
    assert run(graves, "replay", "e0", "--yes", env=operator) == "e0 replayed\n"
    assert run(graves, "replay", "--status", "dead", "--max", "1", "--yes", env=operator) == "1 replayed\n"
    assert run(graves, "discard", "--status", "waiting", "--yes", env=operator) == "2 discarded\n"
    run(graves, "purge", "--older-than", "0s", "--yes", env=operator, code=6)
    assert "the next record to be read is 0" in run(graves, "seek", topic, "0", "beginning", "--yes", env=operator)
    assert {row["who"] for row in inbox.query("SELECT who FROM inbox.inbox_audit")} == set(operator.values())


# --- consumers ------------------------------------------------------------------------------------------


@pytest.fixture
def two_consumers(start_inboxd, inbox):
    """A sidecar without handlers, and two events that are dead for billing; a is processed for search, too."""
    sidecar = start_inboxd()
    inbox.execute("INSERT INTO inbox.inbox_messages (source, event_id, consumer, topic, kafka_partition, kafka_offset, payload,"
                  " payload_digest, dead_at, processed_at) VALUES"
                  " ('s', 'a', 'billing', 't', 0, 1, '{}', 'd', now(), NULL),"
                  " ('s', 'a', 'search', 't', 0, 1, '{}', 'd', NULL, now()),"
                  " ('s', 'b', 'billing', 't', 0, 2, '{}', 'd', now(), NULL)")
    inbox.execute("INSERT INTO inbox.inbox_offsets (topic, kafka_partition, ordering) VALUES ('t', 0, 'key')")
    return sidecar


def test_a_list_has_a_column_of_consumers_if_there_are_any(two_consumers, inbox):
    table = run(two_consumers, "list").splitlines()
    assert table[0].split()[:4] == ["SEQ", "STATUS", "CONSUMER", "RECORD"]
    assert [line.split()[2] for line in table[1:]] == ["billing", "search", "billing"]
    assert [row["event_id"] for row in objects(run(two_consumers, "list", "--consumer", "billing", "--json"))] == ["a", "b"]
    assert run(two_consumers, "list", "--dead", "--group").split()[1] == "CONSUMER"
    assert objects(run(two_consumers, "list", "--consumer", "", "--json")) == []
    assert "--consumer" in run(two_consumers, "list", "--rejects", "--consumer", "x", code=1)
    inbox.execute("DELETE FROM inbox.inbox_messages WHERE consumer = 'search'")
    inbox.execute("UPDATE inbox.inbox_messages SET consumer = ''")
    assert "CONSUMER" not in run(two_consumers, "list") + run(two_consumers, "list", "--dead", "--group")


def test_show_prints_the_row_of_each_consumer_and_the_payload_once(two_consumers, inbox):
    inbox.execute("UPDATE inbox.inbox_messages SET payload = NULL WHERE event_id = 'a' AND consumer = 'billing'")
    text = run(two_consumers, "show", "a")
    assert re.findall(r"consumer: (\w+)|status: (\w+)|\n(payload) ", text) == \
        [("billing", "", ""), ("", "dead", ""), ("search", "", ""), ("", "processed", ""), ("", "", "payload")]
    assert run(two_consumers, "show", "a", "--payload", "raw") == "{}"
    assert [row["consumer"] for row in objects(run(two_consumers, "show", "a", "--json"))] == ["billing", "search"]
    assert json.loads(run(two_consumers, "show", "a", "--json", "--consumer", "search"))["status"] == "processed"
    assert run(two_consumers, "show", "b", "--consumer", "search", code=6) == \
        'inboxd: there is no message with event id "b" for consumer "search"\n'


def test_a_message_is_replayed_for_one_consumer_or_for_all(two_consumers, inbox):
    def states():
        return [(row["consumer"], row["status"]) for row in inbox.query(
            "SELECT consumer, status FROM inbox.messages WHERE event_id = 'a' ORDER BY 1")]

    assert run(two_consumers, "replay", "a", "--dry-run").splitlines()[0].startswith("dry run: replay a for billing, which has been dead since 2")
    assert "for search, which was processed at 2" in run(two_consumers, "replay", "a", "--dry-run")
    assert run(two_consumers, "replay", "a", "--consumer", "search", "--yes") == "a replayed\n"
    assert states() == [("billing", "dead"), ("search", "waiting")]
    assert run(two_consumers, "replay", "a", "--consumer", "search", code=6).startswith(
        'inboxd: event "a" for consumer "search" is waiting, so it was not replayed. It runs when its turn comes')
    inbox.execute("UPDATE inbox.inbox_messages SET processed_at = NULL, dead_at = now(), available_at = NULL WHERE consumer = 'search'")
    assert run(two_consumers, "replay", "a") == 'a replayed for consumer "billing"\na replayed for consumer "search"\n'
    assert states() == [("billing", "waiting"), ("search", "waiting")]
    assert run(two_consumers, "discard", "--consumer", "search", "--yes") == "1 discarded\n"
    assert states() == [("billing", "waiting"), ("search", "dead")]


def test_a_replay_leaves_out_a_consumer_whose_payload_was_dropped(two_consumers, inbox):
    inbox.execute("UPDATE inbox.inbox_messages SET payload = NULL WHERE event_id = 'a' AND consumer = 'search'")
    left_out = 'event "a": 1 left out: retention has dropped their payload\n'
    result = two_consumers.command("replay", "a", "--dry-run")
    assert (result.returncode, result.stderr) == (0, left_out)
    assert re.fullmatch(r"dry run: replay a for billing, .*\nno change: a for search, .*\n", result.stdout)
    result = two_consumers.command("replay", "a")
    assert (result.returncode, result.stdout, result.stderr) == (0, 'a replayed for consumer "billing"\n', left_out), "nothing is processed again"
    assert inbox.count("processed") == 1
    inbox.execute("UPDATE inbox.inbox_messages SET payload = NULL, available_at = NULL, processed_at = now() WHERE event_id = 'a'")
    for options in (["--dry-run"], ["--yes"]):
        result = two_consumers.command("replay", "a", *options)
        assert (result.returncode, "retention has dropped" in result.stderr) == (6, True)
        assert "left out" not in result.stderr


def test_a_change_of_nothing_names_the_row_that_it_was_for_or_all_rows(two_consumers, inbox):
    inbox.execute("UPDATE inbox.inbox_messages SET dead_at = NULL, processed_at = now() WHERE event_id = 'a' AND consumer = 'billing'")
    inbox.execute("UPDATE inbox.inbox_messages SET processed_at = NULL, retry_count = 1, available_at = '2100-01-01'"
                  " WHERE event_id = 'a' AND consumer = 'search'")
    with inbox.connect() as locker, locker.transaction():
        locker.execute("SELECT FROM inbox.inbox_messages WHERE consumer = 'search' FOR UPDATE")
        assert run(two_consumers, "retry", "a", code=6) == (
            'inboxd: event "a" for consumer "search" was not retried: another session has locked it, or it has changed in the '
            "meantime; try again\n")
    inbox.execute("UPDATE inbox.inbox_messages SET available_at = now() WHERE consumer = 'search'")
    for options in ([], ["--dry-run"]):
        assert re.search(r'inboxd: event "a" was not retried: for consumer "billing" it is processed; '
                         r'for consumer "search" it is retrying, next attempt at \S+\n', run(two_consumers, "retry", "a", *options, code=6))


def know(inbox, *names):
    for name in names:
        inbox.execute("INSERT INTO inbox.inbox_consumers (name, ordering, memory) VALUES (%s, 'key', '1 h')"
                      " ON CONFLICT (name) DO NOTHING", [name])


def test_consumers_are_listed_and_forgotten(two_consumers, inbox):
    know(inbox, "billing", "search")
    inbox.execute("UPDATE inbox.inbox_messages SET dead_at = NULL, available_at = 'infinity' WHERE event_id = 'b'")
    table = run(two_consumers, "consumers").splitlines()
    assert table[0].split()[:4] == ["NAME", "STATUS", "ORDERING", "WAITING"]
    assert ["billing", "listed", "key", "1"] in [line.split()[:4] for line in table]
    assert {"billing", "search"} <= {row["name"] for row in objects(run(two_consumers, "consumers", "--json"))}
    assert run(two_consumers, "consumers", "forget", "search") == \
        'consumer "search" is forgotten: a sidecar listed it within the last minute; if it still does, the consumer is known again\n'
    inbox.execute("UPDATE inbox.inbox_consumers SET listed_at = now() - interval '2 min' WHERE name = 'billing'")
    assert run(two_consumers, "consumers", "forget", "billing", "--reason", "gone") == (
        'consumer "billing" is forgotten: no messages are stored for it any more\n'
        "1 message waits for it; to end it: inboxd discard --consumer 'billing'\n")
    assert 'no consumer "billing" is known' in run(two_consumers, "consumers", "forget", "billing", code=6)
    assert "give the name of a consumer" in run(two_consumers, "consumers", "forget", code=1)
    assert re.search(r"\nCONSUMER +WAITING +STATE +ATTENTION\n(.*\n)*billing +1 +no longer known: these messages wait for nobody +-\n",
                     run(two_consumers, "status"))
    assert run(two_consumers, "discard", "--consumer", "billing", "--yes") == "1 discarded\n"
    assert "wait for nobody" not in run(two_consumers, "status")


def test_a_backfill_copies_what_a_consumer_lacks(two_consumers, inbox):
    know(inbox, "billing", "search")
    inbox.execute("INSERT INTO inbox.inbox_messages (source, event_id, consumer, topic, kafka_partition, kafka_offset,"
                  " payload_digest, processed_at) VALUES ('s', 'c', 'billing', 't', 0, 3, 'd', now())")
    left_out = "1 left out: retention has dropped their payload\n"
    result = two_consumers.command("backfill", "search", "--dry-run")
    assert (result.stdout, result.stderr) == ('dry run: copy 1 message to the consumer "search"\n', left_out)
    result = two_consumers.command("backfill", "search", "--from", "billing", "--reason", "new", "--yes", "--json")
    assert result.stderr == left_out
    assert json.loads(result.stdout) == {"action": "backfill", "count": 1, "dry_run": False, "without_payload": 1, "late": 0}
    assert inbox.query("SELECT event_id, status FROM inbox.messages WHERE consumer = 'search' ORDER BY seq DESC LIMIT 1") == \
        [{"event_id": "b", "status": "waiting"}]
    assert inbox.value("SELECT affected FROM inbox.inbox_audit WHERE action = 'backfill' AND reason = 'new'") == 1
    result = two_consumers.command("backfill", "search", "--yes")
    assert result.returncode == 6 and result.stderr.endswith("the consumer has all that it wants\n")
    assert "of those that match" in run(two_consumers, "backfill", "search", "--from", "nobody", code=6)
    assert 'no consumer "serach" is known; known: "' in run(two_consumers, "backfill", "serach", code=1)
    assert "give the name of a consumer" in run(two_consumers, "backfill", code=1)


@pytest.fixture
def pausing(two_consumers, inbox):
    """A running `inboxd backfill` that waits, because many messages do."""
    know(inbox, "billing", "search")
    inbox.execute("UPDATE inbox.inbox_messages SET processed_at = NULL, dead_at = NULL, available_at = 'infinity'"
                  " WHERE consumer = 'billing'")
    command = subprocess.Popen(
        [binary(), "backfill", "search", "--yes", "-c", two_consumers.config_file, "--set", "ingest.max_pending=2"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=two_consumers.env, cwd=two_consumers.directory)
    assert command.stderr.readline() == (
        "the copies do not fit: the command pauses while more than 1 messages wait (half of ingest.max_pending), and 2 wait"
        " now. To avoid the pause, first raise ingest.max_pending above 6 plus twice the sum of inboxd_kafka_lag, because the sidecars have stopped"
        " reading, for the sidecars and for this command, and restart the"
        " sidecars. The pause also ends if a handler of the consumer is connected, but a later message of a key can then come before its copies\n")
    assert command.stderr.readline() == \
        "0 of 1 copied; pausing until fewer messages wait than half of ingest.max_pending\n"
    yield command
    command.kill()
    command.wait()


def test_a_backfill_pauses_while_many_messages_wait(pausing, inbox):
    inbox.execute("UPDATE inbox.inbox_messages SET available_at = NULL, processed_at = now() WHERE available_at IS NOT NULL")
    assert pausing.communicate(timeout=30) == ("1 copied\n", "")


def test_an_interrupted_backfill_says_how_far_it_got(pausing):
    pausing.send_signal(signal.SIGTERM)
    assert pausing.communicate(timeout=30) == (
        "", "inboxd: interrupted: 0 of 1 copied; run the same command again for the rest\n")
    assert pausing.returncode == -signal.SIGTERM


# --- keys -----------------------------------------------------------------------------------------------


@pytest.fixture
def blocked(start_inboxd, handler, produce, topic, inbox):
    """A key whose first message fails and whose second one waits."""
    sidecar = start_inboxd(retry={"backoff": "1h", "backoff_max": "1h"})
    client = handler(sidecar, by_id({"a": [retry(reason="upstream 503", code="UP")]}))
    for event_id in ("a", "b"):
        produce(topic, b"{}", key="k1", headers={"id": event_id})
    inbox.wait_status("a", "retrying")
    inbox.wait_status("b", "parked")
    return sidecar, client


def test_blocked_keys_are_listed_and_skipped(blocked, topic, inbox):
    sidecar, client = blocked
    table = run(sidecar, "keys").splitlines()
    assert table[0].split() == ["TOPIC", "PARTITION", "KEY", "WAITING", "SINCE", "WAITS", "FOR", "STATUS", "NEXT", "ATTEMPT", "ERROR"]
    assert [line.split()[0:1] + line.split()[2:4] for line in table[1:]] == [[topic, "k1", "1"]] and "UP: upstream 503" in table[1]
    (key,) = objects(run(sidecar, "keys", "--topic", topic, "--json"))
    assert (key["key_text"], key["event_id"], key["status"], key["waiting"]) == ("k1", "a", "retrying", 1)
    assert re.search(r"waits for: event a of its key \(seq \d+\), which is retrying, next attempt at ", run(sidecar, "show", "b"))
    assert run(sidecar, "skip", "k1", "--topic", topic, "--dry-run").startswith('dry run: skip event "a", which is retrying: UP:')
    assert json.loads(run(sidecar, "skip", "k1", "--topic", topic, "--dry-run", "--json")) == \
        {"action": "skip", "count": 1, "dry_run": True, "event_id": "a"}
    assert run(sidecar, "skip", "k1", "--reason", "no such order", "--yes") == \
        'event "a" is dead; its key goes on within seconds\n'
    inbox.wait_status("b", "processed")
    assert (inbox.message("a")["status"], inbox.message("a")["error"]) == ("dead", "no such order")
    assert objects(run(sidecar, "keys", "--json")) == []
    assert "no message waits there" in run(sidecar, "skip", "k1", "--yes", code=6)


def test_skip_asks_for_what_it_needs(blocked, topic, inbox):
    sidecar, _ = blocked
    inbox.execute("INSERT INTO inbox.inbox_offsets (topic, kafka_partition, ordering) VALUES ('z', 7, 'key')")
    inbox.execute("INSERT INTO inbox.inbox_messages (source, event_id, consumer, topic, kafka_partition, kafka_offset, key, payload,"
                  " payload_digest, available_at) VALUES ('s', 'z', '', 'z', 7, 1, 'k1', '{}', 'd', '2100-01-01'),"
                  " ('s', 'z', 'mail', 'z', 7, 1, 'k1', '{}', 'd', '2100-01-01')")
    places = run(sidecar, "skip", "k1", code=1)
    assert f'of topic "{topic}" and in partition 7 of topic "z", and in 1 more: select one with --topic' in places
    assert 'partition 7 of topic "z" and in partition 7 of topic "z" for consumer "mail": select' in \
        run(sidecar, "skip", "k1", "--topic", "z", code=1)
    assert 'skip event "z", which is ' in run(sidecar, "skip", "k1", "--consumer", "mail", "--dry-run")
    assert "give a key" in run(sidecar, "skip", "--topic", topic, code=1)
    assert "stdin is not a terminal" in run(sidecar, "skip", "k1", "--topic", topic, code=1)


def test_a_message_at_its_handler_is_not_skipped(start_inboxd, handler, produce, topic, inbox):
    sidecar = start_inboxd(inbox={"max_claimed": 1})
    client = handler(sidecar, lambda delivery: NEVER)
    for event_id in ("a", "b", "c"):
        produce(topic, b"{}", key="k1", headers={"id": event_id})
    eventually(lambda: client.deliveries and inbox.count("waiting") + inbox.count("parked") == 2)
    (key,) = objects(run(sidecar, "keys", "--json"))
    assert (key["event_id"], key["status"], key["waiting"]) == ("a", "claimed", 2)
    assert 'holds event "a"' in run(sidecar, "skip", "k1", "--topic", topic, "--yes", code=6)
    assert inbox.message("a")["status"] == "claimed"
