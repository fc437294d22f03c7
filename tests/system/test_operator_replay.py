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


def on_terminal(sidecar, arguments, answer):
    """Exit code and output of a command on a terminal with an answer typed."""
    leader, follower = pty.openpty()
    with subprocess.Popen([binary(), *arguments, "-c", sidecar.config_file], env=sidecar.env, stdin=follower,
                          stdout=follower, stderr=follower) as child:
        os.close(follower)
        os.write(leader, answer)
        seen = b""
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
    kept = ended.command("discard", "d0", "--dry-run")
    assert kept.returncode == 6 and re.fullmatch(rf"no change: d0, which has been dead since {WHEN}\n", kept.stdout)
    assert 'is dead, so it was not discarded. To run it again: `inboxd replay EVENT_ID`. To make it processed: ' \
        '`inboxd resolve EVENT_ID --reason TEXT`' in kept.stderr
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
