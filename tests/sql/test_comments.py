"""The comments of the schema, and docs/schema.md, which consists of them. To write the page:

    PYTHONPATH=tests INBOXD_WRITE_PAGE=1 python3 -m pytest -c tests/pytest.ini tests/sql/test_comments.py
"""

import os
import pathlib
import re

from statements import SQL, functions

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs/schema.md"
RELATIONS = """
    SELECT c.relname, c.relkind::text, obj_description(c.oid, 'pg_class'),
           array_agg(ARRAY[a.attname::text, format_type(a.atttypid, a.atttypmod), col_description(c.oid, a.attnum)] ORDER BY a.attnum)
    FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
    WHERE c.relnamespace = 'inbox'::regnamespace AND c.relkind IN ('r', 'v') GROUP BY c.oid ORDER BY c.relname"""
# By the first role that may call them; functions of the sidecar alone are not for users. oid: as they are in the sources.
FUNCTIONS = """
    SELECT role, p.proname, pg_get_function_arguments(p.oid), pg_get_function_result(p.oid), obj_description(p.oid, 'pg_proc')
    FROM pg_proc p CROSS JOIN LATERAL (
        SELECT min(number) AS number FROM unnest(%s::text[]) WITH ORDINALITY r(role, number) WHERE has_function_privilege(role, p.oid, 'EXECUTE')) f
    CROSS JOIN LATERAL (SELECT (%s::text[])[f.number] AS role) r
    WHERE p.pronamespace = 'inbox'::regnamespace AND f.number IS NOT NULL ORDER BY f.number, p.oid"""
ROLES = {
    "inboxd_handler": "For handlers",
    "inboxd_service": "For services",
    "inboxd_reader": "For readers",
    "inboxd_operator": "For operators",
}
HEAD = """\
# The schema

<!-- Written by tests/sql/test_comments.py from the comments in the schema: sql/comments.sql and sql/functions/. -->

The tables, views and functions of the schema, which is `inbox` unless `inbox.schema` names another one. `\\d+` and `\\df+` of psql show
the same texts. Read the views and the tables with the role `inboxd_reader`. Change rows with the functions: each one
for operators leaves a row in `inbox_audit` ([roles](administration.md#roles-and-privileges)). A new version adds columns at the end of a view, and
removes none.

"""


def short(text):
    """Types as people write them, and defaults without their types."""
    return re.sub(r"::[a-z ]+(\[\])?", "", text.replace("timestamp with time zone", "timestamptz"))


def cell(text):
    return text.replace("|", "\\|")


def relations(rows, kind):
    tables = {name: {tuple(column) for column in columns} for name, found, _, columns in rows if found == "r"}
    for name, found, comment, columns in rows:
        if found != kind:
            continue
        yield f"### {name}\n\n{comment}\n\n"
        of_table = max(tables, key=lambda table: len(tables[table] & {tuple(column) for column in columns}))
        shared = [column for column in columns if kind == "v" and tuple(column) in tables[of_table]]
        if shared:
            names = ", ".join(f"`{column[0]}`" for column in shared)
            yield f"It has these columns of [{of_table}](#{of_table}): {names}. The others are:\n\n"
        yield "| column | type | means |\n|---|---|---|\n"
        yield from (f"| `{column}` | {short(type_)} | {cell(words)} |\n" for column, type_, words in columns if [column, type_, words] not in shared)
        yield "\n"


def signature(name, arguments, result):
    returned = "" if "OUT " in arguments or result == "void" else f" returns {result}"
    return f"`{name}({short(arguments)}){short(returned)}`"


def page(rows, routines):
    yield HEAD
    yield "## Views\n\n"
    yield from relations(rows, "v")
    yield "## Tables\n\n"
    yield from relations(rows, "r")
    for role, title in ROLES.items():
        yield f"## {title}\n\nFunctions that the role `{role}` may call.\n\n"
        for found, name, arguments, result, comment in routines:
            # The command line calls most functions for readers; their first sentence says what they are.
            words = comment.partition(". ")[0].rstrip(".") + "." if role == "inboxd_reader" else comment
            if found == role:
                yield f"- {signature(name, arguments, result)}: {words.replace(chr(10), chr(10) + '  ')}\n"
        yield "\n" if role != list(ROLES)[-1] else ""


def test_what_users_may_use_has_a_comment_and_is_on_the_page(db):
    db.execute((SQL / "roles.sql").read_text())
    rows = db.execute(RELATIONS).fetchall()
    routines = db.execute(FUNCTIONS, [list(ROLES)] * 2).fetchall()
    assert [name for name, _, comment, _ in rows if not comment] == []
    assert [(name, column) for name, _, _, columns in rows for column, _, comment in columns if not comment] == []
    assert [(name, arguments) for _, name, arguments, _, comment in routines if not comment] == []
    text = "".join(page(rows, routines))
    if os.environ.get("INBOXD_WRITE_PAGE"):
        PAGE.write_text(text)
    assert PAGE.read_text() == text, "docs/schema.md is not up to date; the head of this file says how to write it"


def test_a_comment_waits_for_no_lock_and_is_written_the_next_time(db, connect):
    """VACUUM holds this lock for as long as it runs."""
    look = "SELECT obj_description('inbox.inbox_messages'::regclass, 'pg_class')"
    comment = db.execute(look).fetchone()
    db.execute("COMMENT ON TABLE inbox.inbox_messages IS 'of an earlier version'")
    vacuum = connect()
    with vacuum.transaction():
        vacuum.execute("LOCK TABLE inbox.inbox_messages IN SHARE UPDATE EXCLUSIVE MODE")
        db.execute("SET lock_timeout = '1s'")
        db.execute(functions())
        assert db.execute(look).fetchone() == ("of an earlier version",)
    db.execute(functions())
    assert db.execute(look).fetchone() == comment
