"""A schema in use is migrated: inboxd-next is this inboxd with two more migrations (tests/sql/next). Meanwhile a
sidecar of this version stores messages and its handler handles them. A transaction with an old snapshot delays the
build of an index like a large table.
"""

import contextlib
import json
import os
import pathlib
import signal
import subprocess

import pytest

from support import process
from support.postgres import Postgres
from support.scripts import always, DONE
from support.sidecar import next_binary
from support.wait import eventually, throughout

pytestmark = pytest.mark.empty_database

NEXT = next_binary()
BUILDS = ("SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%%CREATE INDEX CONCURRENTLY IF NOT EXISTS inbox_messages_%%'"
          " AND state = 'active' AND pid <> pg_backend_pid()")
VERSION = "SELECT max(version) FROM inbox.inbox_schema_version"


OLD_ROWS = 20000
OLD = f"""
INSERT INTO inbox.inbox_messages (source, event_id, event_type, topic, kafka_partition, kafka_offset, key, headers,
    payload, payload_digest, claimed_by, processed_at, delivery_count)
SELECT 'old', 'old' || i, 't', 'elsewhere', 0, i, ('k' || i)::bytea, '[]', repeat('x', 100)::bytea, 'd', 1, now(), 1
FROM generate_series(1, {OLD_ROWS}) i"""


class Next:
    """The newer inboxd, with the configuration of a sidecar. Its output is the end of its log."""

    def __init__(self, sidecar, *arguments, schema="inbox"):
        self.log = os.path.join(process.scratch("next"), "next.log")
        self.process = process.spawn([NEXT, *arguments, "-c", sidecar.config_file], self.log, env=sidecar.env)
        self.schema = schema

    def output(self):
        return pathlib.Path(self.log).read_text(encoding="utf-8")

    def wait(self, timeout=60):
        return self.process.wait(timeout)


@pytest.fixture
def start_next():
    made = []

    def start(sidecar, *arguments):
        made.append(Next(sidecar, *(arguments or ("migrate",))))
        return made[-1]

    yield start
    for one in made:
        process.end(one.process, signal.SIGKILL)


@pytest.fixture
def old_snapshot(inbox):
    """CREATE INDEX CONCURRENTLY waits for this transaction until the context ends."""

    @contextlib.contextmanager
    def hold():
        with inbox.connect() as connection:
            connection.execute("SET idle_in_transaction_session_timeout = 0")
            connection.commit()
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            connection.execute("SELECT count(*) FROM inbox.inbox_schema_version")
            yield
            connection.rollback()

    return hold


@pytest.fixture
def busy(inboxd, handler, streams, topic, inbox):
    """A sidecar that has handled some messages. busy(): one more is handled, within two seconds. A machine that stands still
    adds to that, so one of three must do."""
    handler(inboxd, always(DONE))
    inbox.execute(OLD)
    sent = ["first"]
    streams.events(topic, sent)
    inbox.wait_processed(OLD_ROWS + 1)

    def seconds():
        sent.append(f"e{len(sent)}")
        streams.events(topic, sent[-1:])
        eventually(lambda: inbox.count("processed") == OLD_ROWS + len(sent), what="the message to be handled")
        return inbox.value("SELECT extract(epoch FROM max(processed_at) - max(received_at)) FROM inbox.inbox_messages"
                           " WHERE event_id = %s", sent[-1:])

    def one_more():
        assert any(seconds() < 2 for _ in range(3))

    one_more.sidecar = inboxd
    return one_more


def invalid(inbox):
    return [row["name"] for row in inbox.query(
        "SELECT c.relname AS name FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid"
        " WHERE i.indrelid = 'inbox.inbox_messages'::regclass AND NOT i.indisvalid")]


def is_building(inbox):
    """The index exists, and the statement waits for the old snapshot."""
    return inbox.value(BUILDS) == 1 and invalid(inbox) == ["inbox_messages_next"]


def indexes(inbox):
    return {row["name"] for row in inbox.query(
        "SELECT c.relname AS name FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid"
        " WHERE i.indrelid = 'inbox.inbox_messages'::regclass AND i.indisvalid")}


def is_done(inbox, before):
    assert inbox.value(VERSION) == before + 2
    assert "inbox_messages_next" in indexes(inbox) and "inbox_messages_brief" not in indexes(inbox)
    assert not invalid(inbox)
    return True


def test_messages_are_processed_while_an_index_is_built(busy, start_next, old_snapshot, inbox):
    before = inbox.value(VERSION)
    with old_snapshot():
        migration = start_next(busy.sidecar)
        eventually(lambda: is_building(inbox))
        for _ in range(5):
            busy()
        eventually(lambda: "event=migration_progress" in migration.output(), what="a line of progress")
        line = next(line for line in migration.output().splitlines() if "event=migration_progress" in line)
        assert "index=inbox_messages_next" in line and "idle in transaction" in line
        assert inbox.value(BUILDS) == 1
    assert migration.wait() == 0, migration.output()
    assert is_done(inbox, before)
    busy()


def test_a_killed_index_build_is_repeated(busy, start_next, old_snapshot, inbox):
    before = inbox.value(VERSION)
    with old_snapshot():
        first = start_next(busy.sidecar)
        eventually(lambda: is_building(inbox))
        first.process.kill()
        inbox.query("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%%CREATE INDEX CONCURRENTLY%%'"
                    " AND pid <> pg_backend_pid()")
        eventually(lambda: inbox.value(BUILDS) == 0)
    assert invalid(inbox) == ["inbox_messages_next"]
    assert inbox.value(VERSION) == before + 1
    second = start_next(busy.sidecar)
    assert second.wait() == 0, second.output()
    assert is_done(inbox, before)
    busy()


def test_an_index_build_without_its_client_is_waited_for(busy, start_next, old_snapshot, inbox):
    """Its server process continues: the next migration uses its index instead of building another one."""
    before = inbox.value(VERSION)
    with old_snapshot():
        first = start_next(busy.sidecar)
        eventually(lambda: is_building(inbox))
        first.process.kill()
        built = inbox.value("SELECT 'inbox.inbox_messages_next'::regclass::oid")
        second = start_next(busy.sidecar)
        eventually(lambda: "event=migration_busy" in second.output())
        busy()
    assert second.wait() == 0, second.output()
    assert is_done(inbox, before)
    assert inbox.value("SELECT 'inbox.inbox_messages_next'::regclass::oid") == built


def test_a_second_migration_waits_for_the_first(busy, start_next, old_snapshot, inbox):
    before = inbox.value(VERSION)
    with old_snapshot():
        first = start_next(busy.sidecar)
        eventually(lambda: is_building(inbox))
        second = start_next(busy.sidecar)
        eventually(lambda: "event=migration_elsewhere" in second.output())
        assert inbox.value(BUILDS) == 1
    assert (first.wait(), second.wait()) == (0, 0), first.output() + second.output()
    assert is_done(inbox, before)
    assert "2 migrations applied now" in first.output()
    assert "0 migrations applied now" in second.output()


def test_a_migration_that_waits_for_a_lock_does_not_block_others(busy, start_next, inbox):
    """A handler's long transaction locks the table: ALTER TABLE cannot get its lock, and nothing waits behind it."""
    before = inbox.value(VERSION)
    with inbox.connect() as connection:
        connection.execute("SELECT FROM inbox.inbox_messages LIMIT 1")
        migration = start_next(busy.sidecar)
        eventually(lambda: migration.output().count("event=migration_busy") >= 2)
        for _ in range(3):
            busy()
        connection.rollback()
    assert migration.wait() == 0, migration.output()
    assert is_done(inbox, before)


def test_an_older_sidecar_starts_with_a_compatible_schema(busy, make_inboxd, handler, start_next, streams, topic, inbox,
                                                          group):
    """A rolling upgrade: pods of the old version can restart without waiting for a new one. The same is true for a
    rollback."""
    before = inbox.value(VERSION)
    assert start_next(busy.sidecar).wait() == 0
    assert is_done(inbox, before)
    busy()
    busy.sidecar.stop()
    for arguments in (["run"], ["run", "--migrate"]):
        older = make_inboxd(kafka={"group.id": group}).start(*arguments)
        line = next(line for line in older.stderr.splitlines() if "event=schema_newer" in line)
        assert f"version={before + 2}" in line and f"known={before}" in line and "level=info" in line
        assert older.stderr.count("event=schema_newer") == 1
        assert "migration_" not in older.stderr
        handler(older, always(DONE))
        streams.events(topic, [f"older {arguments}"])
        eventually(lambda: inbox.count("processed") == inbox.count())
        checked = older.command("check")
        assert f"version {before + 2}, newer than this inboxd ({before}), which can use it" in checked.stdout
        older.stop()
    inbox.execute("UPDATE inbox.inbox_schema_version SET oldest_sidecar = version")
    refused = make_inboxd().start("run", ready=False)
    assert refused.wait() == 3
    assert "newer than this inboxd knows" in refused.stderr


def test_a_newer_sidecar_works_beside_an_older_one(busy, make_inboxd, start_next, handler, streams, topic, inbox, group):
    """Both versions use one schema, as during a rolling upgrade."""
    other = make_inboxd(inbox={"instance": "next"}, kafka={"group.id": group})
    newer = start_next(other, "run", "--migrate")
    eventually(lambda: "event=started" in newer.output())
    handler(other, always(DONE))  # the newer one gets half of the partitions
    assert inbox.value("SELECT count(*) FROM inbox.inbox_instances WHERE stopped_at IS NULL AND fenced_at IS NULL") == 2
    for _ in range(3):
        busy()
    newer.process.send_signal(signal.SIGTERM)
    assert newer.wait() == 0
    busy()


def is_alive(sidecar):
    return sidecar.get("/livez")[0] == 200


def test_run_migrate_is_live_and_ends_at_a_signal(busy, make_inboxd, old_snapshot, start_next, inbox, group):
    """SIGTERM ends it with exit code 0, and ends the server process; the next migration continues."""
    before = inbox.value(VERSION)
    other = make_inboxd(inbox={"instance": "next"}, kafka={"group.id": group})
    with old_snapshot():
        migration = start_next(other, "run", "--migrate")
        eventually(lambda: is_building(inbox))
        throughout(lambda: is_alive(other), 3)
        migration.process.send_signal(signal.SIGTERM)
        assert migration.wait() == 0, migration.output()
        eventually(lambda: inbox.value(BUILDS) == 0)
        busy()
    assert start_next(busy.sidecar).wait() == 0
    assert is_done(inbox, before)


def test_an_interrupted_migration_says_so(busy, start_next, old_snapshot, inbox):
    with old_snapshot():
        migration = start_next(busy.sidecar)
        eventually(lambda: is_building(inbox))
        migration.process.send_signal(signal.SIGINT)
        assert migration.wait() == -signal.SIGINT
        eventually(lambda: inbox.value(BUILDS) == 0)
    assert "interrupted after 1 migration; run it again to continue" in migration.output()


def test_a_migration_continues_after_a_lost_connection(busy, make_inboxd, start_next, old_snapshot, inbox, group):
    before = inbox.value(VERSION)
    other = make_inboxd(inbox={"instance": "next"}, kafka={"group.id": group})
    with old_snapshot():
        migration = start_next(other, "run", "--migrate")
        eventually(lambda: is_building(inbox))
        inbox.query("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'inboxd/migrate'")
        eventually(lambda: "event=database_unreachable" in migration.output())
    eventually(lambda: is_done(inbox, before))
    eventually(lambda: "event=started" in migration.output())
    migration.process.send_signal(signal.SIGTERM)
    assert migration.wait() == 0


REFUSE_ALTER = """
CREATE FUNCTION public.refuse() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'no changes here'; END $$;
CREATE EVENT TRIGGER refuse ON ddl_command_start WHEN TAG IN ('ALTER TABLE') EXECUTE FUNCTION public.refuse()"""


@pytest.mark.parametrize("hurdle, words", [
    ("ALTER TABLE inbox.inbox_messages ADD COLUMN next text", 'column "next" of relation "inbox_messages" already exists'),
    (REFUSE_ALTER, "no changes here"),
], ids=["a column of somebody else", "an event trigger"])
def test_an_impossible_migration_exits_3(busy, make_inboxd, start_next, inbox, group, hurdle, words):
    """A retry would not help."""
    inbox.execute(hurdle)
    other = make_inboxd(inbox={"instance": "next"}, kafka={"group.id": group})
    for arguments in (["run", "--migrate"], ["migrate"]):
        migration = start_next(other, *arguments)
        assert migration.wait() == 3
        assert words in migration.output()
    busy()


def test_timeouts_of_the_role_do_not_end_a_migration(busy, start_next, old_snapshot, inbox, database):
    """Timeouts of the role or of the database are overridden."""
    before = inbox.value(VERSION)
    for name in ("statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout"):
        inbox.execute(f"ALTER DATABASE {database} SET {name} = '1s'")
    with old_snapshot():
        migration = start_next(busy.sidecar)
        eventually(lambda: "event=migration_progress" in migration.output())
    assert migration.wait() == 0, migration.output()
    assert is_done(inbox, before)


def test_a_new_schema_does_not_wait_for_snapshots(make_inboxd, start_next, inbox, db):
    """A first start beside a service with a long transaction in the same database."""
    with inbox.connect() as connection:
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        connection.execute("SELECT count(*) FROM pg_class")
        migration = start_next(make_inboxd())
        assert migration.wait() == 0, migration.output()
        connection.rollback()
    assert {"inbox_messages_due", "inbox_messages_next"} <= indexes(inbox)


def test_an_unused_schema_does_not_wait_for_snapshots(make_inboxd, start_next, old_snapshot, inbox):
    """It was migrated before, and nothing was ever stored in it."""
    sidecar = make_inboxd()
    assert sidecar.command("migrate").returncode == 0
    before = inbox.value(VERSION)
    with old_snapshot():
        migration = start_next(sidecar)
        assert migration.wait() == 0, migration.output()
    assert is_done(inbox, before)
