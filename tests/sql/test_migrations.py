"""The schema as the migrations make it."""

import pathlib
import re
import subprocess
import sys

import pytest

from statements import MIGRATIONS, QUERIES, SQL, text


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
