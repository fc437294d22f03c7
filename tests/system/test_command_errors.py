"""Errors of the commands: wrong arguments, missing rights, missing servers; and unusual event ids."""

import json
import re
import subprocess

import pytest

from support.process import free_port
from support.sidecar import binary
from support.standby import Standby
from support.wait import eventually
from test_commands import graves, run  # noqa: F401, a fixture

pytestmark = pytest.mark.empty_database


WRONG = {
    "show": "give an event id, a seq or a record",
    "replay --yes": "give event ids",
    "replay a --status dead": "not both",
    "replay --status waiting --yes": '--status: "waiting" is none of: dead processed',
    "discard --status processed --yes": '--status: "processed" is none of: waiting retrying parked dead',
    "replay --dead a": "not both",
    "replay --dead --status processed": "not both",
    "replay --rejects --dead": "takes neither",
    "discard --dead": 'there is no option "--dead" for discard',
    "replay --rejects a": "takes neither",
    "replay a --after 7": "not both",
    "replay a --code UP": "not both",
    "replay --rejects --code UP": "takes neither",
    "list --topic=": "TOPIC is empty",
    "list --since yesterdayish": "timestamp",
    "list --group": "--dead",
    "list --group --status parked": "--dead",
    "list --dead --group --after 7": "cannot be combined with --after",
    "list --dead --status dead": "not both",
    "list --rejects --dead": "--rejects cannot be combined with --dead",
    "list --rejects --status dead": "--rejects cannot be combined with --status",
    "list --rejects --group": "--rejects cannot be combined with --group",
    "list --conflicts --type t": "--conflicts cannot be combined with --type",
    "list --conflicts --code UP": "--conflicts cannot be combined with --code",
    "list --conflicts --error x": "--conflicts cannot be combined with --error",
    "list --conflicts --rejects": "--rejects cannot be combined with --conflicts",
    "purge --yes": "--older-than",
    "replay --since 2020-02-01 --until 2020-01-01 --yes": "--since must be earlier than --until",
    "show -1": "write -- before",
}


@pytest.mark.parametrize("line", WRONG)
def test_a_wrong_command_line_is_a_usage_error_with_its_reason(inboxd, inbox, line):
    words = run(inboxd, *line.split(), code=1)
    assert WRONG[line] in words and len(words.splitlines()) == 1
    assert inbox.value("SELECT count(*) FROM inbox.inbox_audit") == 0


@pytest.mark.parametrize("arguments, words", [
    (["show", b"\xff"], "event id 1 is not UTF-8"), (["replay", "a", b"\xff", "--yes"], "event id 2 is not UTF-8"),
    (["discard", "a", "--reason", b"\xff"], "--reason: not UTF-8"), (["adopt", "--reason", b"\xff"], "--reason: not UTF-8"),
    (["list", "--code", b"\xff"], "--code: not UTF-8")])
def test_an_argument_that_is_not_utf_8_is_a_usage_error(inboxd, arguments, words):
    assert words in run(inboxd, *arguments, code=1)


COMMANDS = ["status", "list", "list --dead --group", "show a", "replay a", "replay --code UP", "discard a",
            "purge --older-than 1h", "replay --rejects", "adopt", "verify --topic {topic}", "seek {topic} 0 1"]


@pytest.mark.parametrize("line", COMMANDS)
def test_without_a_schema_the_error_names_the_command_to_run(make_inboxd, topic, line):
    words = run(make_inboxd(), *line.format(topic=topic).split(), code=3)
    assert words.startswith("inboxd: the schema does not exist; run `inboxd migrate`"), words


@pytest.mark.parametrize("line", [*COMMANDS, "migrate"])
def test_without_a_database_the_error_recommends_check(make_inboxd, topic, line):
    words = run(make_inboxd(postgres={"port": free_port()}), *line.format(topic=topic).split(), code=3)
    assert "cannot connect to PostgreSQL" in words and "`inboxd check`" in words


@pytest.mark.parametrize("line, role", [("status", "inboxd_reader"), ("list", "inboxd_reader"), ("show a", "inboxd_reader"),
                                        ("verify --topic {topic}", "inboxd_reader"), ("replay a", "inboxd_operator"),
                                        ("purge --older-than 1h", "inboxd_operator"), ("seek {topic} 0 0 --yes", "inboxd_operator")])
def test_a_user_without_rights_gets_the_name_of_the_role(inboxd, inbox, topic, line, role):
    inbox.execute("DO $$ BEGIN CREATE ROLE may_nothing LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$")
    words = run(inboxd, *line.format(topic=topic).split(), "--set", "postgres.user=may_nothing", code=3)
    assert f"grant it {role}, or" in words and "permission denied" in words


@pytest.fixture
def hides(inbox, name):
    """hides(tables) -> a user who has the role of a sidecar; row-level security is switched on for the tables."""
    users = []

    def hide(inboxd, *tables):
        assert inboxd.command("migrate", "--roles=inboxd").returncode == 0
        users.append(f"rls_{name}"[:60])
        inbox.execute(f'CREATE ROLE "{users[0]}" LOGIN IN ROLE inboxd_sidecar')
        for table in tables:
            inbox.execute(f"ALTER TABLE inbox.{table} ENABLE ROW LEVEL SECURITY")
        return users[0]

    yield hide
    for user in users:
        inbox.execute(f'DROP ROLE "{user}"')


HIDDEN = "row-level security hides its rows from inboxd"


def test_tables_with_row_level_security_are_not_reported_as_empty(inboxd, hides, inbox):
    """A DBA's event trigger switches it on for each new table. Without the setting of inboxd the tables are empty, then."""
    tables = [row["tablename"] for row in inbox.query("SELECT tablename FROM pg_tables WHERE schemaname = 'inbox'")]
    user = ["--set", f"postgres.user={hides(inboxd, *tables)}"]
    for line in ("status", "list", "list --rejects", "show a", "keys", "outbox status", "outbox list", "replay --code UP --dry-run",
                 "backfill x --dry-run"):
        words = run(inboxd, *line.split(), *user, code=3)
        assert HIDDEN in words and "ALTER TABLE" in words and "migrate" not in words and "grant it" not in words, words
    inboxd.stop()
    assert HIDDEN in run(inboxd, "run", *user, code=3)


@pytest.mark.parametrize("table", ["inbox_schema_version", "outbox"])
def test_check_names_row_level_security(inboxd, hides, table):
    """Also if only the tables of a later migration have it."""
    user = hides(inboxd, table)
    answer = json.loads(inboxd.command("check", "--json", "--set", f"postgres.user={user}").stdout)
    (failed,) = [check for check in answer["checks"] if check["result"] == "failed"]
    assert failed["name"] == ("privileges" if table == "outbox" else "schema")
    assert f'"{table}"' in failed["text"] and HIDDEN in failed["advice"]
    assert failed["advice"].endswith("SET row_security = on")


def test_a_standby_is_reported_as_a_standby(inboxd, postgres_server):
    standby = Standby(postgres_server).start()
    try:
        for line in ("status", "list", "replay a", "replay --code UP --yes"):
            here = [*line.split(), "--set", f"postgres.port={standby.port}"]
            assert "in hot standby mode: name the primary under postgres" in run(inboxd, *here, code=3)
            words = run(inboxd, *here, "--set", "postgres.target_session_attrs=any", code=3)
            assert words.startswith("inboxd: this server is a standby; name the primary under postgres: "), words
    finally:
        standby.stop()


def test_a_locked_table_is_reported_after_ten_seconds(graves, inbox):
    with inbox.connect() as locker:
        locker.execute("LOCK TABLE inbox.inbox_audit")
        assert "timed out waiting for a lock; see pg_locks" in run(graves, "replay", "--code", "UP", "--yes", code=3)
    assert inbox.count("dead") == 5


def test_check_names_the_role_of_a_user_without_rights(inboxd, inbox):
    inbox.execute("DO $$ BEGIN CREATE ROLE reads_only LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$")
    inbox.execute("GRANT USAGE ON SCHEMA inbox TO reads_only")
    inbox.execute("GRANT SELECT ON inbox.inbox_schema_version, inbox.inbox_messages TO reads_only")
    answer = json.loads(inboxd.command("check", "--json", "--set", "postgres.user=reads_only").stdout)
    (check,) = [check for check in answer["checks"] if check["name"] == "privileges"]
    assert check["text"].startswith('user "reads_only" lacks privileges that inboxd needs: INSERT ON inbox.inbox_messages,'
                                    " UPDATE ON inbox.inbox_messages")
    assert re.search(r" and \d+ more$", check["text"])
    assert check["advice"].startswith("check must run as the user of `inboxd run`: ")
    assert "GRANT inboxd_sidecar" in check["advice"]


def test_check_by_an_operator_names_the_sidecars_user(inboxd, inbox, name):
    assert inboxd.command("migrate", "--roles=inboxd").returncode == 0
    operator, sidecar = f"op_{name}"[:60], f"a_{name}"[:60]
    for user, role in ((operator, "inboxd_operator"), (sidecar, "inboxd_sidecar")):
        inbox.execute(f'CREATE ROLE "{user}" LOGIN IN ROLE {role}')
    try:
        answer = json.loads(inboxd.command("check", "--json", "--set", f"postgres.user={operator}").stdout)
        (check,) = [check for check in answer["checks"] if check["name"] == "privileges"]
        assert check["text"].startswith(f'user "{operator}" lacks privileges that inboxd needs: ')
        assert re.search(rf"inboxd_sidecar is granted to [^()]*\b{sidecar}\b", check["advice"])
    finally:
        for user in (operator, sidecar):
            inbox.execute(f'DROP ROLE "{user}"')


@pytest.mark.parametrize(("revoked", "missing"), [
    ("ALL ON FUNCTION inbox.sequences_behind()", "EXECUTE ON FUNCTION inbox.sequences_behind()"),
    ("DELETE ON inbox.outbox", "DELETE ON inbox.outbox"),
    ("SELECT ON inbox.request_states", "SELECT ON inbox.request_states"),
    ("ALL ON SEQUENCE inbox.outbox_seq", "SELECT ON inbox.outbox_seq"),
    ("ALL ON FUNCTION inbox.emit_caused", "EXECUTE ON FUNCTION inbox.emit_caused(bigint,text,text,text,integer,jsonb,jsonb)"),
])
def test_check_as_an_outdated_sidecar_role_names_the_roles_to_renew(inboxd, inbox, name, revoked, missing):
    assert inboxd.command("migrate", "--roles=inboxd").returncode == 0
    sidecar = f"a_{name}"[:60]
    inbox.execute(f'CREATE ROLE "{sidecar}" LOGIN IN ROLE inboxd_sidecar')
    inbox.execute(f"REVOKE {revoked} FROM inboxd_sidecar")
    try:
        answer = json.loads(inboxd.command("check", "--json", "--set", f"postgres.user={sidecar}").stdout)
        (check,) = [check for check in answer["checks"] if check["name"] == "privileges"]
        assert check["text"].endswith("lacks privileges that inboxd needs: " + missing)
        assert check["advice"].startswith("as the owner of the schema run `inboxd migrate --roles`: ")
        assert "GRANT" not in check["advice"]
    finally:
        inbox.execute(f'DROP ROLE "{sidecar}"')


def test_a_schema_without_error_codes_is_reported_as_older(inboxd, inbox):
    now = inbox.value("SELECT pg_get_functiondef('inbox.check_filter'::regproc)")
    earlier = now.replace(",error_code,", ",")
    assert now.count(",error_code,") == 1
    inbox.execute(earlier)
    assert "older than this inboxd; run `inboxd migrate`" in run(inboxd, "list", "--code", "UP", code=3)
    run(inboxd, "list", "--error", "up")


STRANGE = ["-1", "--yes", "-h", "a b", "it's", 'say "x"', "größe-✓", "%s%n", "\\x", "$HOME", "a\tb"]


def test_an_event_id_may_contain_any_characters(inboxd, streams, topic, inbox):
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
