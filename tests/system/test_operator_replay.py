"""Replay of messages that an operator names, and the options that say how many."""

import json
import os
import pty
import re
import subprocess

import pytest

from support.scripts import by_id, DONE
from support.sidecar import binary
from support.wait import eventually
from support.wire import dead


def run(sidecar, *arguments):
    result = sidecar.command(*arguments)
    assert result.returncode == 0, (result.stdout, result.stderr)
    return result.stdout


def on_terminal(sidecar, arguments, answer, before_answer=None):
    """Exit code and output of a command on a terminal with an answer typed. before_answer is called when it has asked."""
    leader, follower = pty.openpty()
    with subprocess.Popen([binary(), *arguments, "-c", sidecar.config_file], env=sidecar.env, stdin=follower,
                          stdout=follower, stderr=follower) as child:
        os.close(follower)
        seen = b""
        try:
            while before_answer is not None and b"[y/N]" not in seen:
                seen += os.read(leader, 4096)
            if before_answer is not None:
                before_answer()
        except BaseException:
            child.kill()
            raise
        os.write(leader, answer)
        try:
            while chunk := os.read(leader, 4096):
                seen += chunk
        except OSError:
            pass  # the other end is closed
        os.close(leader)
        return child.wait(30), seen.decode()


@pytest.fixture
def ended(start_inboxd, handler, streams, topic, inbox):
    """A sidecar without handlers: p0 and p1 are processed by billing, d0 and d1 are dead."""
    sidecar = start_inboxd()
    client = handler(sidecar, by_id({name: [dead(reason="no price", code="PRICE")] for name in ("d0", "d1")}, DONE), name="billing")
    streams.events(topic, ["p0", "p1", "d0", "d1"])
    eventually(lambda: inbox.count("processed") == 2 and inbox.count("dead") == 2)
    client.close()
    return sidecar


WHEN = r"2\d{3}-\d\d-\d\dT\d\d:\d\d:\d\dZ"


def test_replay_of_a_processed_message_asks(ended, inbox):
    question = rf'replay event "p0", which was processed at {WHEN} by billing\?'
    refused = ended.command("replay", "p0")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert re.search(question + " stdin is not a terminal: use --yes, or --dry-run to change nothing", refused.stderr)
    code, seen = on_terminal(ended, ["replay", "p0", "d0"], b"n\n")
    assert code == 0 and re.search(question + r" \[y/N\]", seen) and "nothing was changed" in seen
    assert (inbox.count("processed"), inbox.count("dead")) == (2, 2)
    code, seen = on_terminal(ended, ["replay", "p0", "d0"], b"y\n")
    assert code == 0 and "p0 replayed" in seen and "d0 replayed" in seen
    assert run(ended, "replay", "p1", "--yes") == "p1 replayed\n"
    assert run(ended, "replay", "d1") == "d1 replayed\n", "a dead message is replayed without a question"
    assert inbox.count("processed") == inbox.count("dead") == 0


@pytest.mark.parametrize("options", [[], ["--yes"], ["--dry-run"]])
def test_a_replay_by_event_id_leaves_out_a_consumer_that_has_processed_the_message(start_inboxd, inbox, options):
    sidecar = start_inboxd()
    inbox.execute("INSERT INTO inbox.inbox_messages (source, event_id, consumer, topic, kafka_partition, kafka_offset, dead_at, processed_at, handler)"
                  " VALUES ('s', 'a', '', 't', 0, 1, NULL, now(), 'mail'), ('s', 'a', 'billing', 't', 0, 1, now(), NULL, NULL),"
                  " ('s', 'a', 'search', 't', 0, 1, NULL, now(), 'index')")
    left_out = "".join(rf"event \"a\" for consumer \"{name}\" is left out: it was processed at {WHEN} by {by}\. To process it again: "
                       rf"`inboxd replay EVENT_ID --consumer '{name}'`\n" for name, by in (("", "mail"), ("search", "index")))
    first = sidecar.command("replay", "a", *options)
    assert first.returncode == 0 and re.fullmatch(left_out, first.stderr), first
    if options == ["--dry-run"]:
        assert re.fullmatch(r"no change: a, .*\ndry run: replay a for billing, .*\nno change: a for search, .*\n", first.stdout)
        assert inbox.count("processed") == 2 and inbox.count("dead") == 1
        return
    assert first.stdout == 'a replayed for consumer "billing"\n'
    again = sidecar.command("replay", "a", *options)
    assert again.returncode == 6 and 'for consumer "billing" it is waiting' in again.stderr, "the second call does not change the others, either"
    assert inbox.count("processed") == 2
    assert run(sidecar, "replay", "a", "--consumer", "search", "--yes") == "a replayed\n"
    inbox.execute("UPDATE inbox.inbox_messages SET processed_at = now(), available_at = NULL")
    assert "stdin is not a terminal" in sidecar.command("replay", "a").stderr
    assert run(sidecar, "replay", "a", "--yes") == "".join(f'a replayed for consumer "{name}"\n' for name in ("", "billing", "search"))


def test_a_question_about_many_messages_names_the_first(ended, inbox):
    inbox.execute("INSERT INTO inbox.inbox_messages (source, event_id, topic, kafka_partition, kafka_offset, processed_at)"
                  " SELECT 's', 'm' || i, 't', 0, i, now() FROM generate_series(1, 7) i")
    words = ended.command("replay", *[f"m{number}" for number in range(1, 8)], "missing").stderr
    assert 'event "m5", which was' in words and "m6" not in words and "; and 2 more?" in words


def test_a_dry_run_of_named_messages_says_what_would_happen(ended, inbox):
    before = inbox.messages()
    lines = run(ended, "replay", "p0", "d0", "--dry-run").splitlines()
    assert re.fullmatch(rf"dry run: replay p0, which was processed at {WHEN} by billing", lines[0])
    assert re.fullmatch(rf"dry run: replay d0, which has been dead since {WHEN}", lines[1])
    assert re.fullmatch(rf"dry run: discard d0, which has been dead since {WHEN}\n", run(ended, "discard", "d0", "--dry-run"))
    kept = ended.command("discard", "p0", "--dry-run")
    assert kept.returncode == 6 and "no change: p0, which was processed at" in kept.stdout
    assert "is processed, so it was not discarded. There is nothing to do" in kept.stderr
    assert json.loads(run(ended, "replay", "p0", "--dry-run", "--json")) == {"action": "replay", "count": 1, "dry_run": True}
    assert inbox.messages() == before


@pytest.mark.parametrize("option", ["--limit", "--max"])
def test_limit_and_max_are_the_same(ended, inbox, option):
    """Wherever one of them works, the other does."""
    assert len(run(ended, "list", option, "1", "--json").splitlines()) == 1
    assert run(ended, "replay", "--dead", option, "1", "--dry-run") == "dry run: replay 1 message\n"
    assert run(ended, "replay", "--dead", option, "1", "--yes") == "1 replayed\n"
    inbox.execute("SELECT inbox.emit('t', 'k', 't', '{}') FROM generate_series(1, 3)")
    assert len(run(ended, "outbox", "list", option, "2", "--json").splitlines()) <= 2
    assert run(ended, "purge", "--older-than", "0s", option, "1", "--yes").startswith("1 ")
    assert inbox.count("processed") == 1
    for command in ("keys", "audit"):
        run(ended, command, option, "1")
    inbox.execute("INSERT INTO inbox.inbox_messages (source, event_id, topic, kafka_partition, kafka_offset, available_at, retry_count)"
                  " SELECT 's', 'r' || i, 'elsewhere', 0, i, '2100-01-01', 1 FROM generate_series(1, 3) i")
    assert run(ended, "retry", "--topic", "elsewhere", option, "2", "--yes") == "2 retried\n"
    assert run(ended, "discard", "--topic", "elsewhere", option, "2", "--yes") == "2 discarded\n"
    inbox.execute("SELECT inbox.request_begin(k, NULL, lease => '1 h') FROM unnest('{a,b,c}'::text[]) k")
    assert len(run(ended, "requests", "list", option, "2", "--json").splitlines()) == 2
    refused = ended.command("requests", "show", "a", option, "2")
    assert (refused.returncode, f"requests show does not take {option}" in refused.stderr) == (1, True)
    inbox.execute("INSERT INTO inbox.inbox_consumers (name, ordering, memory, topics) VALUES ('search', 'key', '1 h', '[\"elsewhere\"]')")
    assert run(ended, "backfill", "search", option, "2", "--dry-run").startswith("dry run: ")


def test_replay_since_says_so(ended, inbox):
    note = "note: --since and --until apply to the time of death\n"
    assert ended.command("replay", "--dead", "--since", "1h", "--dry-run").stderr == note
    assert note not in ended.command("replay", "--dead", "--dry-run").stderr
    assert note not in ended.command("replay", "--status", "processed", "--since", "1h", "--dry-run").stderr
    assert note not in ended.command("replay", "--dead", "--since", "1h", "--dry-run", "--json").stderr
    assert note not in ended.command("discard", "--since", "1h", "--dry-run").stderr


def test_a_plan_shows_control_characters_safely(ended, inbox):
    inbox.execute("INSERT INTO inbox.inbox_messages (source, event_id, consumer, topic, kafka_partition, kafka_offset, dead_at, processed_at,"
                  " attempts) VALUES ('s', 'x', E'a\\x1b[1m', 't', 0, 1, now(), NULL, NULL),"
                  " ('s', 'y', '', 't', 0, 2, NULL, now(), jsonb_build_array(jsonb_build_object('called_done_by', E'c\\x1b[1m')))")
    assert run(ended, "replay", "x", "--dry-run").startswith("dry run: replay x for a?[1m, which has been dead since 2")
    assert run(ended, "replay", "y", "--dry-run").endswith(" by c?[1m\n")


# For each command: the table, the state in which it finds rows, another state, and a change within the state.
LATER = "available_at = '2100-01-01', retry_count = 1"
ASKING = {
    "discard --topic t": ("inbox_messages", "available_at = now()", "claimed_by = 7", "retry_count = 1"),
    "retry --topic t": ("inbox_messages", LATER, "claimed_by = 7", "error = 'again'"),
    "replay --topic t": ("inbox_messages", "dead_at = now()", "claimed_by = 7", "error = 'again'"),
    "replay --topic t --status processed": ("inbox_messages", "processed_at = now()", "claimed_by = 7", "replay_count = 1"),
    "outbox replay --topic t": ("outbox", "dead_at = now()", "published_at = now()", "error = 'again'"),
    "outbox discard --topic t --status retrying": ("outbox", LATER, "published_at = now()", "error = 'again'"),
}


@pytest.mark.parametrize("command", ASKING)
def test_a_command_changes_the_rows_that_it_counted_and_no_others(start_inboxd, inbox, command):
    """It asks about five. Before the answer one of them changes, another one leaves the state, four arrive, and a transaction
    ends that was open: it has a row with a lower number, and brings another one into the state, in a savepoint."""
    table, state, other, again = ASKING[command]
    sidecar = start_inboxd()
    numbers = iter(range(1, 100))

    def insert(session, name, many):
        for number in range(1, many + 1):
            record = ("format, key", f"'binary', '{name}'") if table == "outbox" else ("kafka_partition, kafka_offset", f"0, {next(numbers)}")
            session.execute(f"INSERT INTO inbox.{table} (event_id, source, topic, event_type, {record[0]})"
                            f" VALUES ('{name}{number}', 's', 't', 't', {record[1]})")
            change(session, f"{name}{number}", other if name == "enters" else state)

    def change(session, event_id, to):
        cleared = "" if to == again else "".join(f"{name} = NULL, " for name in ("available_at", "dead_at", "claimed_by", "processed_at", "published_at")
                                                 if name not in to and (name in ("available_at", "dead_at") or (name == "published_at") == (table == "outbox")))
        session.execute(f"UPDATE inbox.{table} SET {cleared}{to} WHERE event_id = %s", [event_id])

    def versions():
        return {row["event_id"]: row["version"] for row in inbox.query(f"SELECT event_id, xmin::text AS version FROM inbox.{table}")}

    insert(inbox, "enters", 1)
    with inbox.connect() as session:
        insert(session, "lower", 1)
        session.execute("SAVEPOINT s")
        change(session, "enters1", state)
        session.execute("RELEASE s")
        insert(inbox, "counted", 5)
        before = {}

        def meanwhile():
            change(inbox, "counted1", again)
            change(inbox, "counted2", other)
            insert(inbox, "later", 4)
            session.execute("COMMIT")
            before.update(versions())

        code, seen = on_terminal(sidecar, command.split(), b"y\n", meanwhile)
    assert code == 0 and " 5 " in seen and "2 left out: locked, or changed since they were counted" in seen, seen
    assert {name for name, version in versions().items() if before[name] != version} == {"counted3", "counted4", "counted5"}


def test_a_replay_by_event_id_leaves_out_what_changed_since_the_question(ended, inbox):
    """d0 is dead when the command asks about p0. Then another operator replays d0, and it is processed."""
    def meanwhile():
        inbox.execute("SELECT inbox.replay((SELECT source FROM inbox.messages WHERE event_id = 'd0'), 'd0')")
        inbox.execute("UPDATE inbox.inbox_messages SET processed_at = now(), available_at = NULL WHERE event_id = 'd0'")

    code, seen = on_terminal(ended, ["replay", "p0", "d0"], b"y\n", meanwhile)
    assert code == 6 and "p0 replayed" in seen and 'event "d0" was not replayed: another session has locked it, or it has changed' in seen, seen
    assert inbox.message("d0")["status"] == "processed"


def test_a_purge_deletes_no_message_that_was_processed_after_the_question(ended, inbox):
    more = "INSERT INTO inbox.inbox_messages (source, event_id, topic, kafka_partition, kafka_offset, processed_at)" \
        " SELECT 's', 'm' || i, 't', 0, i, clock_timestamp() FROM generate_series(1, 7) i"

    def meanwhile():
        inbox.execute("SELECT inbox.replay((SELECT source FROM inbox.messages WHERE event_id = 'p0'), 'p0')")
        inbox.execute(more)

    code, seen = on_terminal(ended, ["purge", "--older-than", "0s"], b"y\n", meanwhile)
    assert code == 0 and "delete 2 processed messages" in seen and "1 deleted" in seen, seen
    assert inbox.count("processed") == 7


def test_a_request_is_not_forgotten_in_a_state_that_was_not_confirmed(start_inboxd, inbox):
    sidecar = start_inboxd()
    token = inbox.value("SELECT token FROM inbox.request_begin('a', NULL, lease => '1 h')")

    def meanwhile():
        inbox.execute("SELECT inbox.request_complete(%s, 201, 'made'::bytea)", [token])

    code, seen = on_terminal(sidecar, ["requests", "forget", "a"], b"y\n", meanwhile)
    assert code == 6 and "which is PENDING" in seen and "has changed since the question" in seen, seen
    assert inbox.value("SELECT state FROM inbox.request_states") == "COMPLETED"


def test_a_reject_that_arrives_after_the_question_stays(start_inboxd, inbox):
    """Not even in place of one that no consumer wants. A transaction that was open before the question has one with a lower
    number."""
    sidecar = start_inboxd()
    sidecar.stop()
    inbox.execute("""UPDATE inbox.inbox_consumers SET types = '["good"]', listed_at = now(), memory = '1 h'""")

    def reject(session, offset, event_type):
        session.execute("INSERT INTO inbox.inbox_rejects (topic, kafka_partition, kafka_offset, headers, payload, reason)"
                        " VALUES ('t', 0, %s, jsonb_build_array(jsonb_build_array('type', %s::text)), '{}', 'why')", [offset, event_type])

    with inbox.connect() as session:
        reject(session, 1, "good")
        reject(inbox, 2, "bad")
        reject(inbox, 3, "good")

        def meanwhile():
            reject(inbox, 4, "good")
            session.execute("COMMIT")

        code, seen = on_terminal(sidecar, ["replay", "--rejects"], b"y\n", meanwhile)
    assert code == 0 and "store 2 rejects" in seen and "t/0/2 stays: no known consumer wants it" in seen, seen
    assert [row["kafka_offset"] for row in inbox.messages()] == [3]
    assert [row["kafka_offset"] for row in inbox.rejects()] == [1, 2, 4]


def test_a_count_beside_a_long_transaction_ends_early(start_inboxd, inbox):
    """Each row has a transaction of its own that began while another one was open. 20,000 are one page of the count."""
    sidecar = start_inboxd()
    with inbox.connect() as session:
        session.execute("SELECT pg_current_xact_id()")
        inbox.execute("""DO $$ BEGIN FOR i IN 1..20500 LOOP BEGIN
            INSERT INTO inbox.inbox_messages (source, event_id, topic, kafka_partition, kafka_offset, dead_at) VALUES ('s', i, 't', 0, i, now());
            EXCEPTION WHEN unique_violation THEN NULL; END; END LOOP; END $$""")
        last = inbox.value("SELECT seq FROM inbox.inbox_messages ORDER BY seq OFFSET 19999 LIMIT 1")
        part = sidecar.command("replay", "--topic", "t", "--yes")
        assert part.stdout == "20000 replayed\n" and part.stderr.endswith(f"continue with --after {last}\n"), part
        assert run(sidecar, "replay", "--topic", "t", "--after", str(last), "--yes") == "500 replayed\n"


def test_a_dead_message_is_replayed_with_the_payload_of_its_correction(start_inboxd, handler, produce, topic, inbox):
    """The producer sends the event again under its id, with another payload: `show` names it, and an operator takes it."""
    sidecar = start_inboxd()
    client = handler(sidecar, lambda delivery: dead(reason="no price") if "price" not in delivery.data else DONE)
    produce(topic, b'{"order":1}', headers=[("id", "x")])
    inbox.wait_status("x", "dead")
    produce(topic, b'{"order":1,"price":5}', headers=[("id", "x")])
    (conflict,) = eventually(inbox.conflicts)
    record = f"{topic}/{conflict['kafka_partition']}/{conflict['kafka_offset']}"
    shown = run(sidecar, "show", "x")
    assert f"conflicts: the id came with another payload, too: seq {conflict['seq']} ({record}, 21 bytes) (`inboxd replay --conflict SEQ`" in shown
    take = ["replay", "--conflict", str(conflict["seq"])]
    assert run(sidecar, *take, "--dry-run") == \
        f'dry run: replay event "x" of source "{topic}", which is dead, with the payload of {record} (21 bytes)\n'
    assert run(sidecar, *take, "--reason", "corrected", "--yes") == "x replayed\n"
    inbox.wait_status("x", "processed")
    assert client.deliveries[-1].data == {"order": 1, "price": 5}
    assert f"given the payload of conflict {conflict['seq']} by " in run(sidecar, "show", "x")
    again = sidecar.command(*take, "--yes")
    assert again.returncode == 6 and 'event "x" is processed; only a dead message takes' in again.stderr
    assert sidecar.command("replay", "x", "--conflict", "1").returncode == 1
    assert "there is no such conflict" in sidecar.command("replay", "--conflict", "99", "--yes").stderr
