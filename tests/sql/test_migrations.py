"""The schema as the migrations make it."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

from statements import MIGRATIONS, QUERIES, SQL, script, text

# What takes its numbers from a table that is in use, from here on, does so in a file that ends in _concurrent.
BEFORE_THAT = 7


def test_migrations_apply_to_an_empty_schema(db):
    tables = db.execute("SELECT count(*) FROM pg_class c WHERE relnamespace = 'inbox'::regnamespace"
                        " AND relkind = 'r'").fetchone()[0]
    assert tables >= 7


def test_migrations_need_no_search_path(db):
    """They run wherever the connection's search_path points, and leave nothing outside the schema."""
    outside = db.execute("SELECT relname FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace"
                         " WHERE nspname = 'public' AND relname LIKE 'inbox%'").fetchall()
    assert outside == []


def test_a_migration_is_one_transaction(db):
    """The runner wraps it: it must not begin or end one itself."""
    for path in MIGRATIONS:
        assert not re.search(r"^\s*(BEGIN|COMMIT|ROLLBACK)\s*;", path.read_text(), re.MULTILINE), path


def test_definer_functions_fix_their_search_path(db):
    loose = db.execute("SELECT proname FROM pg_proc WHERE pronamespace = 'inbox'::regnamespace AND prosecdef"
                       " AND NOT coalesce(array_to_string(proconfig, ' '), '') LIKE '%search_path=pg_catalog%'"
                       ).fetchall()
    assert loose == []


def test_no_index_mentions_what_a_completion_changes(db):
    """Key columns, expressions and predicates: or completing would not be a HOT update."""
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
def test_every_statement_says_who_calls_it_and_by_which_index(path):
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
        (folder / name).write_text("SELECT 1")
    done = subprocess.run([sys.executable, SQL / "embed.py", tmp_path / "out", *sorted(folder.iterdir())],
                          capture_output=True, text=True)
    assert done.returncode != 0
    assert "0002_WHAT" in done.stderr


def test_every_file_is_embedded():
    """What is not in sql/meson.build is not in the program."""
    listed = (SQL / "meson.build").read_text()
    for path in QUERIES + MIGRATIONS:
        assert f"'{pathlib.Path(path.parent.name, path.name)}'" in listed


def test_later_indexes_of_a_table_in_use_are_built_concurrently():
    """A CREATE INDEX in a transaction locks out writers, for as long as the table is large."""
    for path in MIGRATIONS[BEFORE_THAT:]:
        sql = re.sub(r"--[^\n]*", "", path.read_text())
        for table in re.findall(r"CREATE (?:UNIQUE )?INDEX (?!CONCURRENTLY)[^;]*? ON (inbox\.\w+)", sql):
            assert re.search(rf"CREATE TABLE {table}\b", sql), f"{path.name}: an index of {table}"


def embed_concurrent(tmp_path, sql):
    folder = tmp_path / "migrations"
    folder.mkdir()
    (folder / "0001_a_concurrent.sql").write_text(sql)
    return subprocess.run([sys.executable, SQL / "embed.py", tmp_path / "out", folder / "0001_a_concurrent.sql"],
                          capture_output=True, text=True)


@pytest.mark.parametrize("sql", [
    "ALTER TABLE inbox.inbox_messages ADD COLUMN x int;",
    "CREATE INDEX CONCURRENTLY x ON inbox.inbox_messages (seq);",
    "CREATE INDEX IF NOT EXISTS x ON inbox.inbox_messages (seq);",
    "DROP INDEX CONCURRENTLY inbox.x;",
    "DROP INDEX CONCURRENTLY IF EXISTS inbox.x; SELECT 1",
], ids=["alter", "not again", "not concurrently", "drop not again", "other"])
def test_a_concurrent_migration_holds_only_what_can_be_run_again(tmp_path, sql):
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


# As the files have it, or as inboxd applies it: without comments, the schema quoted.
BODY = r"""regexp_replace(replace(prosrc, '"inbox"', 'inbox'), '\n *--[^\n]*', '', 'g')"""


def objects(db):
    """Everything in the schema, as it is defined."""
    return {
        "columns": db.execute("SELECT table_name, column_name, data_type, column_default, is_nullable"
                              " FROM information_schema.columns WHERE table_schema = 'inbox'"
                              " ORDER BY table_name, ordinal_position").fetchall(),
        "indexes": db.execute("SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'inbox'"
                              " ORDER BY indexname").fetchall(),
        "invalid": db.execute("SELECT indexrelid::regclass::text FROM pg_index WHERE NOT indisvalid").fetchall(),
        "functions": db.execute(f"SELECT p.oid::regprocedure::text, {BODY}, proconfig, prosecdef FROM pg_proc p"
                                " WHERE pronamespace = 'inbox'::regnamespace ORDER BY 1").fetchall(),
        "triggers": db.execute("SELECT pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal ORDER BY 1").fetchall(),
        "versions": db.execute("SELECT version FROM inbox.inbox_schema_version ORDER BY 1").fetchall(),
    }


def go_back(db, version):
    """A schema of that version, in use."""
    db.execute("DROP SCHEMA inbox CASCADE")
    db.execute("CREATE SCHEMA inbox")
    db.execute("CREATE TABLE inbox.inbox_schema_version (version int PRIMARY KEY,"
               " applied_at timestamptz NOT NULL DEFAULT clock_timestamp())")
    for number, path in enumerate(MIGRATIONS[:version], 1):
        db.execute(script(path))
        db.execute("INSERT INTO inbox.inbox_schema_version (version) VALUES (%s)", [number])
    db.execute("INSERT INTO inbox.inbox_messages (source, event_id, event_type, topic, kafka_partition, kafka_offset,"
               " headers, available_at) SELECT 's', i::text, 't', 'orders', 0, i, '[]', now() FROM generate_series(1, 100) i")


def build_as_the_first_0007_did(db):
    """Three indexes at once, under a lock."""
    concurrent = next(path for path in MIGRATIONS if path.stem.endswith("_waiting_concurrent"))
    db.execute(script(concurrent))
    return db.execute("SELECT array_agg(i.indexrelid::bigint ORDER BY 1) FROM pg_index i"
                      " WHERE i.indrelid = 'inbox.inbox_messages'::regclass").fetchone()[0]


@pytest.fixture
def migrate(server, programs):
    def run():
        program = os.environ.get("INBOXD_BINARY") or programs.parents[1] / "src/inboxd"
        done = subprocess.run([program, "migrate", "-c", os.devnull], env={**os.environ, **server}, capture_output=True,
                              text=True, timeout=60)
        assert done.returncode == 0, done.stderr

    return run


@pytest.mark.parametrize("version", range(1, len(MIGRATIONS)))
def test_a_schema_in_use_becomes_what_a_new_one_is(db, migrate, version):
    db.execute("DROP SCHEMA inbox CASCADE")
    migrate()
    new = objects(db)
    go_back(db, version)
    migrate()
    assert objects(db) == new


def test_indexes_that_the_first_0007_built_stay(db, migrate):
    db.execute("DROP SCHEMA inbox CASCADE")
    migrate()
    new = objects(db)
    go_back(db, 7)
    built = build_as_the_first_0007_did(db)
    migrate()
    assert objects(db) == new
    assert set(built) <= {row[0] for row in db.execute("SELECT indexrelid::bigint FROM pg_index")}
