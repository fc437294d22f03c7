"""What an operator is told who mistypes, may not, or finds nothing there; and event ids that look like anything."""

import json
import pathlib
import re
import subprocess

import pytest

from support.process import free_port
from support.sidecar import binary
from support.wait import eventually
from test_commands import run


WRONG = {
    "show": "name an event id",
    "replay --yes": "say which",
    "replay a --status dead": "not both",
    "replay --status waiting --yes": "status is 'waiting'",
    "discard --status dead --yes": "status is 'dead'",
    "replay --rejects a": "takes neither",
    "replay a --after 7": "not both",
    "replay a --code UP": "not both",
    "replay --rejects --code UP": "takes neither",
    "list --code=": "CODE is empty",
    "list --since yesterdayish": "timestamp",
    "list --group": "--dead",
    "list --dead --group --after 7": "no --after",
    "list --dead --status dead": "not both",
    "purge --yes": "--older-than",
    "replay --since 2020-02-01 --until 2020-01-01 --yes": "--since must be earlier than --until",
    "show -1": "stands behind --",
}


@pytest.mark.parametrize("line", WRONG)
def test_a_wrong_line_is_a_usage_error_that_says_why(inboxd, inbox, line):
    words = run(inboxd, *line.split(), code=1)
    assert WRONG[line] in words and len(words.splitlines()) == 1
    assert inbox.value("SELECT count(*) FROM inbox.inbox_audit") == 0


@pytest.mark.parametrize("arguments, words", [
    (["show", b"\xff"], "event id 1 is not UTF-8"), (["replay", "a", b"\xff", "--yes"], "event id 2 is not UTF-8"),
    (["discard", "a", "--reason", b"\xff"], "--reason: that is not UTF-8"),
    (["list", "--code", b"\xff"], "--code: that is not UTF-8")])
def test_what_is_not_utf_8_is_a_usage_error(inboxd, arguments, words):
    assert words in run(inboxd, *arguments, code=1)


COMMANDS = ["status", "list", "list --dead --group", "show a", "replay a", "replay --code UP", "discard a",
            "purge --older-than 1h", "replay --rejects", "adopt", "verify --topic {topic}"]


@pytest.mark.parametrize("line", COMMANDS)
def test_without_a_schema_it_says_what_to_run(make_inboxd, topic, line):
    words = run(make_inboxd(), *line.format(topic=topic).split(), code=3)
    assert words.startswith("inboxd: the schema is not there; run `inboxd migrate`"), words


@pytest.mark.parametrize("line", [*COMMANDS, "migrate"])
def test_without_a_database_it_says_where_to_look(make_inboxd, topic, line):
    words = run(make_inboxd(postgres={"port": free_port()}), *line.format(topic=topic).split(), code=3)
    assert "cannot connect to PostgreSQL" in words and "`inboxd check`" in words


@pytest.mark.parametrize("line, role", [("status", "inboxd_reader"), ("list", "inboxd_reader"), ("show a", "inboxd_reader"),
                                        ("verify --topic {topic}", "inboxd_reader"), ("replay a", "inboxd_operator"),
                                        ("purge --older-than 1h", "inboxd_operator")])
def test_who_may_not_is_told_which_role_may(inboxd, inbox, topic, line, role):
    inbox.execute("DO $$ BEGIN CREATE ROLE may_nothing LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$")
    words = run(inboxd, *line.format(topic=topic).split(), "--set", "postgres.user=may_nothing", code=3)
    assert f"grant it {role}, or" in words and "permission denied" in words


def test_a_schema_that_knows_no_code_is_older(inboxd, inbox):
    text = (pathlib.Path(__file__).parents[2] / "sql/migrations/0002_operators.sql").read_text(encoding="utf-8")
    earlier = re.search(r"CREATE FUNCTION inbox.check_filter.*?END \$\$;", text, re.DOTALL)[0]
    inbox.execute(earlier.replace("CREATE FUNCTION", "CREATE OR REPLACE FUNCTION"))
    assert "older than this inboxd; run `inboxd migrate`" in run(inboxd, "list", "--code", "UP", code=3)
    run(inboxd, "list", "--error", "up")


STRANGE = ["-1", "--yes", "-h", "a b", "it's", 'say "x"', "größe-✓", "%s%n", "\\x", "$HOME", "a\tb"]


def test_an_event_id_may_look_like_anything(inboxd, streams, topic, inbox):
    streams.events(topic, STRANGE)
    eventually(lambda: inbox.count("parked") == len(STRANGE))

    def said(*arguments):
        env = {**inboxd.env, "INBOXD_CONFIG": inboxd.config_file}
        return subprocess.run([binary(), *arguments], env=env, capture_output=True, text=True, check=True).stdout

    for event_id in STRANGE:
        assert json.loads(said("show", "--json", "--", event_id))["event_id"] == event_id
    assert said("discard", "--", *STRANGE) == "".join(f"{event_id} discarded\n" for event_id in STRANGE)
    assert said("replay", "--", *STRANGE) == "".join(f"{event_id} replayed\n" for event_id in STRANGE)
    assert inbox.value("SELECT min(replay_count) FROM inbox.inbox_messages") == 1
