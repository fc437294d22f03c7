"""The schema as the migrations create it."""

import os
import re
import subprocess
import sys

import pytest

from statements import AROUND_FUNCTIONS, FUNCTIONS, MIGRATIONS, QUERIES, SQL, functions, script, text


def test_migrations_apply_to_an_empty_schema(db):
    tables = db.execute("SELECT count(*) FROM pg_class c WHERE relnamespace = 'inbox'::regnamespace"
                        " AND relkind = 'r'").fetchone()[0]
    assert tables >= 7


def test_migrations_need_no_search_path(db):
    """They run with any search_path, and create nothing outside of the schema."""
    outside = db.execute("SELECT relname FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace"
                         " WHERE nspname = 'public' AND relname LIKE 'inbox%'").fetchall()
    assert outside == []


def test_a_migration_is_one_transaction(db):
    """The runner adds BEGIN and COMMIT, so the file must not have them."""
    for path in MIGRATIONS + FUNCTIONS + AROUND_FUNCTIONS:
        assert not re.search(r"^\s*(BEGIN|COMMIT|ROLLBACK)\s*;", path.read_text(), re.MULTILINE), path


def test_security_definer_functions_set_their_search_path(db):
    loose = db.execute("SELECT proname FROM pg_proc WHERE pronamespace = 'inbox'::regnamespace AND prosecdef"
                       " AND NOT coalesce(array_to_string(proconfig, ' '), '') LIKE '%search_path=pg_catalog%'"
                       ).fetchall()
    assert loose == []


def test_no_index_uses_a_column_that_a_completion_changes(db):
    """Key columns, expressions and predicates. Otherwise a completion would not be a HOT update."""
    definitions = [row[0] for row in db.execute(
        "SELECT indexdef FROM pg_indexes WHERE schemaname = 'inbox' AND tablename = 'inbox_messages'")]
    assert definitions
    for definition in definitions:
        assert "processed_at" not in definition
        assert "result" not in definition


@pytest.mark.parametrize("path", QUERIES, ids=lambda path: path.stem)
def test_every_statement_prepares(db, path):
    db.execute(f"PREPARE q AS {text(path.stem)}")
    db.execute("DEALLOCATE q")


@pytest.mark.parametrize("path", QUERIES, ids=lambda path: path.stem)
def test_every_statement_names_its_caller_and_its_index(path):
    comment = "\n".join(line for line in path.read_text().splitlines() if line.startswith("--"))
    assert re.search(r"-- Caller: \S+", comment)
    assert "Index: " in comment


def test_embedded_statements_lose_their_comments_and_nothing_else(tmp_path):
    subprocess.run([sys.executable, SQL / "embed.py", tmp_path, *MIGRATIONS, *QUERIES], check=True)
    source = (tmp_path / "queries.c").read_text()
    assert "Caller:" not in source
    assert source.count("] = {\n\t\t") == len(QUERIES)
    header = (tmp_path / "queries.h").read_text()
    for path in QUERIES:
        assert f"\tQUERY_{path.stem.upper()},\n" in header


def test_embedding_refuses_a_gap_in_the_numbers(tmp_path):
    folder = tmp_path / "migrations"
    folder.mkdir()
    for name in ("0001_a.sql", "0003_c.sql"):
        (folder / name).write_text("-- Oldest sidecar: 1\nSELECT 1")
    done = subprocess.run([sys.executable, SQL / "embed.py", tmp_path / "out", *sorted(folder.iterdir())],
                          capture_output=True, text=True)
    assert done.returncode != 0
    assert "0002_WHAT" in done.stderr


@pytest.mark.parametrize("heads", [["SELECT 1"], ["-- Oldest sidecar: 2\nSELECT 1"], ["-- Oldest sidecar: 0\nSELECT 1"],
                                   ["-- Oldest sidecar: 1\nSELECT 1", "-- Oldest sidecar: 2\nSELECT 1",
                                    "-- Oldest sidecar: 1\nSELECT 1"]],
                         ids=["not said", "from the future", "none", "falling"])
def test_embedding_refuses_a_migration_without_its_oldest_sidecar(tmp_path, heads):
    folder = tmp_path / "migrations"
    folder.mkdir()
    for number, head in enumerate(heads, start=1):
        (folder / f"000{number}_a.sql").write_text(head)
    done = subprocess.run([sys.executable, SQL / "embed.py", tmp_path / "out", *sorted(folder.iterdir())],
                          capture_output=True, text=True)
    assert done.returncode != 0
    assert 'begin with "-- Oldest sidecar: NUMBER"' in done.stderr


def test_every_file_is_embedded():
    """A file that is missing in sql/meson.build is missing in the program."""
    listed = (SQL / "meson.build").read_text()
    for path in QUERIES + MIGRATIONS + FUNCTIONS + AROUND_FUNCTIONS:
        assert f"'{path.relative_to(SQL)}'" in listed


def test_new_indexes_of_a_table_in_use_are_built_concurrently():
    """A CREATE INDEX in a transaction blocks writers, the longer the larger the table is."""
    for path in MIGRATIONS:
        sql = re.sub(r"--[^\n]*", "", path.read_text())
        for table in re.findall(r"CREATE (?:UNIQUE )?INDEX (?!CONCURRENTLY)[^;]*? ON (inbox\.\w+)", sql):
            assert re.search(rf"CREATE TABLE {table}\b", sql), f"{path.name}: an index of {table}"


def embed_concurrent(tmp_path, sql):
    folder = tmp_path / "migrations"
    folder.mkdir()
    (folder / "0001_a_concurrent.sql").write_text("-- Oldest sidecar: 1\n" + sql)
    return subprocess.run([sys.executable, SQL / "embed.py", tmp_path / "out", folder / "0001_a_concurrent.sql"],
                          capture_output=True, text=True)


@pytest.mark.parametrize("sql", [
    "ALTER TABLE inbox.inbox_messages ADD COLUMN x int;",
    "CREATE INDEX CONCURRENTLY x ON inbox.inbox_messages (seq);",
    "CREATE INDEX IF NOT EXISTS x ON inbox.inbox_messages (seq);",
    "DROP INDEX CONCURRENTLY inbox.x;",
    "DROP INDEX CONCURRENTLY IF EXISTS inbox.x; SELECT 1",
], ids=["alter", "not again", "not concurrently", "drop not again", "other"])
def test_a_concurrent_migration_contains_only_repeatable_statements(tmp_path, sql):
    done = embed_concurrent(tmp_path, sql)
    assert done.returncode != 0
    assert "may be here" in done.stderr


def test_a_concurrent_migration_is_embedded_as_steps_and_as_a_script(tmp_path):
    done = embed_concurrent(tmp_path, "-- Why.\nCREATE INDEX CONCURRENTLY IF NOT EXISTS x ON inbox.inbox_messages\n"
                            "    (seq);\nDROP INDEX CONCURRENTLY IF EXISTS inbox.y;\n")
    assert done.returncode == 0, done.stderr
    source = (tmp_path / "out/migrations.c").read_text()
    assert '"x",\n\t\t"inbox_messages",' in source and '"y",\n\t\tNULL,' in source
    assert '"CREATE INDEX IF NOT EXISTS x ON inbox.inbox_messages\\n"' in source


def test_functions_and_tables_are_in_separate_folders():
    """Objects that can be replaced are applied at each migration; all others are in numbered ones."""
    for path in MIGRATIONS:
        assert not re.search(r"CREATE (OR REPLACE )?(FUNCTION|VIEW|TRIGGER)", path.read_text()), path
    for path in FUNCTIONS:
        assert not re.search(r"CREATE (FUNCTION|VIEW|TABLE|INDEX)", path.read_text()), path


# The text of the files, or the applied one: without comments, with the schema quoted.
BODY = r"""regexp_replace(replace(prosrc, '"inbox"', 'inbox'), '\n *--[^\n]*', '', 'g')"""


def objects(db):
    """The definitions of all objects in the schema."""
    return {
        "columns": db.execute("SELECT table_name, column_name, data_type, column_default, is_nullable"
                              " FROM information_schema.columns WHERE table_schema = 'inbox'"
                              " ORDER BY table_name, ordinal_position").fetchall(),
        "indexes": db.execute("SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'inbox'"
                              " ORDER BY indexname").fetchall(),
        "invalid": db.execute("SELECT indexrelid::regclass::text FROM pg_index WHERE NOT indisvalid").fetchall(),
        "functions": db.execute(f"SELECT p.oid::regprocedure::text, {BODY}, proconfig, prosecdef, proacl::text FROM pg_proc p"
                                " WHERE pronamespace = 'inbox'::regnamespace ORDER BY 1").fetchall(),
        "triggers": db.execute("SELECT pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal ORDER BY 1").fetchall(),
        "comments": db.execute("""
            SELECT i.type, replace(i.identity, 'inbox.', ''), replace(d.description, '"inbox"', 'inbox')
            FROM pg_description d CROSS JOIN LATERAL pg_identify_object(d.classoid, d.objoid, d.objsubid) i
            WHERE i.identity LIKE 'inbox.%' ORDER BY 1, 2""").fetchall(),
        "views": db.execute("SELECT viewname, definition FROM pg_views WHERE schemaname = 'inbox' ORDER BY 1").fetchall(),
        "versions": db.execute("SELECT version, oldest_sidecar FROM inbox.inbox_schema_version ORDER BY 1").fetchall(),
    }


@pytest.fixture
def migrate(server, programs):
    """migrate() as this inboxd, migrate(newer=True) as the next one (tests/sql/next). Returns its output."""
    def run(*options, newer=False, code=0):
        program = os.environ.get("INBOXD_BINARY") or programs.parents[1] / "src/inboxd"
        done = subprocess.run([programs / "inboxd-next" if newer else program, "migrate", "-c", os.devnull,
                               *options],
                              env={**os.environ, **server}, capture_output=True, text=True, timeout=120)
        assert done.returncode == code, done.stderr
        return done.stdout + done.stderr

    return run


@pytest.fixture
def migrated(db, migrate):
    """A schema that inboxd made, not the fixture `db`."""
    db.execute("DROP SCHEMA inbox CASCADE")
    migrate()
    return db


def test_a_migrated_schema_equals_a_new_one(db, migrate):
    db.execute("DROP SCHEMA inbox CASCADE")
    migrate(newer=True)
    new = objects(db)
    db.execute("DROP SCHEMA inbox CASCADE")
    migrate()
    db.execute("INSERT INTO inbox.inbox_messages (source, event_id, event_type, topic, kafka_partition, kafka_offset,"
               " headers, available_at) SELECT 's', i::text, 't', 'orders', 0, i, '[]', now() FROM generate_series(1, 100) i")
    assert "2 migrations applied now" in migrate(newer=True)
    assert objects(db) == new


def test_the_test_schema_equals_the_schema_that_inboxd_creates(db, migrate):
    here = objects(db)
    db.execute("DROP SCHEMA inbox CASCADE")
    migrate()
    assert objects(db) == here


def test_each_migration_applies_the_functions_again(migrated, migrate):
    db = migrated
    new = objects(db)
    db.execute("CREATE OR REPLACE FUNCTION inbox.check_max_rows(caller text, max_rows int) RETURNS int"
               " LANGUAGE sql AS 'SELECT 1'")
    db.execute("DROP FUNCTION inbox.seek; DROP TRIGGER ended_row_changed ON inbox.inbox_messages; DROP VIEW inbox.dead_groups")
    assert objects(db) != new
    assert "0 migrations applied now" in migrate()
    assert objects(db) == new


def test_one_trigger_on_messages_replaces_two(db, migrate):
    """Each statement compiles the condition of each trigger."""
    db.execute("DROP TRIGGER ended_row_changed ON inbox.inbox_messages; DROP FUNCTION inbox.ended_row_changed")
    for name in ("replay_row", "call_done"):
        db.execute(f"CREATE FUNCTION inbox.{name}() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'")
        db.execute(f"CREATE TRIGGER {name.removesuffix('_row')} AFTER UPDATE OF processed_at, dead_at ON inbox.inbox_messages"
                   f" FOR EACH ROW EXECUTE FUNCTION inbox.{name}()")
    db.execute(script(MIGRATIONS[6]))
    assert "0 migrations applied now" in migrate()
    assert db.execute("SELECT tgname FROM pg_trigger WHERE tgrelid = 'inbox.inbox_messages'::regclass AND NOT tgisinternal"
                      ).fetchall() == [("ended_row_changed",)]
    assert db.execute("SELECT proname FROM pg_proc WHERE proname IN ('replay_row', 'call_done')"
                      " AND pronamespace = 'inbox'::regnamespace").fetchall() == []


def test_an_older_inboxd_does_not_change_a_newer_schema(migrated, migrate):
    """It may use the schema, but its functions are older."""
    db = migrated
    migrate(newer=True)
    db.execute("CREATE OR REPLACE FUNCTION inbox.check_max_rows(caller text, max_rows int) RETURNS int"
               " LANGUAGE sql AS 'SELECT 1'; DROP FUNCTION inbox.seek")
    newer = objects(db)
    assert f'version {len(MIGRATIONS) + 2}, newer than this inboxd ({len(MIGRATIONS)}), which can use it; nothing changed' \
        in migrate()
    assert "nothing changed" in migrate("--roles")
    assert objects(db) == newer
    migrate(newer=True)
    assert objects(db) != newer


def test_an_older_inboxd_refuses_a_schema_that_it_cannot_use(migrated, migrate):
    migrate(newer=True)
    migrated.execute("UPDATE inbox.inbox_schema_version SET oldest_sidecar = version")
    assert "upgrade inboxd" in migrate(code=3)
    migrate(newer=True)


def test_a_schema_of_a_pre_release_is_refused_with_advice(migrated, migrate):
    db = migrated
    db.execute("ALTER TABLE inbox.inbox_schema_version DROP COLUMN oldest_sidecar")
    before = db.execute("SELECT array_agg(oid) FROM pg_class").fetchone()
    said = migrate(code=3)
    assert "was made by a pre-release of inboxd and cannot be migrated" in said
    assert "drop the schema, or choose another inbox.schema" in said
    assert db.execute("SELECT array_agg(oid) FROM pg_class").fetchone() == before


def test_all_bodies_are_valid(db):
    """They are applied without a check, so that their order does not matter."""
    db.execute(functions().replace("check_function_bodies = off", "check_function_bodies = on"))


def test_an_unchanged_view_is_not_replaced(migrated, migrate, connect):
    reader = connect()
    with reader.transaction():
        reader.execute("SELECT FROM inbox.messages, inbox.dead_groups, inbox.handlers")
        assert "migration_busy" not in migrate()


def test_writers_do_not_wait_for_a_migration_that_has_nothing_to_do(migrated, migrate, connect):
    writer = connect()
    with writer.transaction():
        writer.execute("UPDATE inbox.inbox_messages SET suspect = false; DELETE FROM inbox.inbox_instances")
        assert "migration_busy" not in migrate()


def test_a_view_gains_a_column_below_a_view_of_a_user(migrated, migrate):
    db = migrated
    (definition,) = db.execute("SELECT pg_get_viewdef('inbox.messages'::regclass)").fetchone()
    db.execute("DROP VIEW inbox.messages")
    db.execute("CREATE VIEW inbox.messages AS " + definition.replace(",\n    handler\n", "\n"))
    db.execute("CREATE VIEW public.of_a_user AS SELECT * FROM inbox.messages")
    try:
        migrate()
        assert db.execute("SELECT pg_get_viewdef('inbox.messages'::regclass)").fetchone() == (definition,)
        db.execute("SELECT * FROM public.of_a_user")
    finally:
        db.execute("DROP VIEW public.of_a_user")


def test_migrating_without_the_schema_changes_nothing(migrated, server, migrate):
    """As long as no migration is missing: functions are applied by the owner."""
    migrated.execute("DROP ROLE IF EXISTS looks_on; CREATE ROLE looks_on LOGIN; GRANT USAGE ON SCHEMA inbox TO looks_on;"
                     " GRANT SELECT ON inbox.inbox_schema_version TO looks_on")
    server["PGUSER"], owner = "looks_on", server["PGUSER"]
    try:
        assert "0 migrations applied now" in migrate()
    finally:
        server["PGUSER"] = owner
        migrated.execute("DROP OWNED BY looks_on; DROP ROLE looks_on")
