"""A query file has one statement. Its head says its purpose, its caller and its index.

The callers must be the files of src/ that run the query, and the index must be in a migration: a wrong comment is worse
than none.

The build lists each file. A part that is missing in the list would be embedded, but its change would build nothing.
"""

import re

_CALLER = re.compile(r"\b((?:[a-z_]+/)+[a-z_]+\.c)\b")
_INDEX = re.compile(r"\b(inbox_[a-z_]+)\b")


def problems(tree):
    makers = tree.paths("sql/migrations/*.sql")
    schema = "\n".join(re.sub(r"--[^\n]*", "", tree.text(path)) for path in makers)
    for path in tree.paths("sql/*.sql"):
        head, body = _split(tree.text(path))
        if not head:
            yield path, 1, "opens with no comment saying what it is for"
        elif path.startswith("sql/queries/"):
            yield from _query(path, head, body, tree, schema)
    yield from _numbers(tree)
    yield from _built(tree)


def _split(text):
    """The comment at the top, and the rest without comments."""
    lines = text.splitlines()
    count = next((number for number, line in enumerate(lines) if not line.startswith("--")),
                 len(lines))
    return "\n".join(lines[:count]), re.sub(r"--[^\n]*", "", "\n".join(lines[count:]))


def _query(path, head, body, tree, schema):
    callers = re.search(r"Caller: (.*?)(?=Index:|\Z)", head, re.S)
    index = re.search(r"Index: ([^\n]*)", head)
    if not callers:
        yield path, 1, "does not say who calls it (\"Caller: folder/file.c\")"
    for caller in _CALLER.findall(callers[1]) if callers else ():
        if not tree.has(f"src/{caller}"):
            yield path, 1, f"names the caller src/{caller}, which does not exist"
        elif _constant(path) not in tree.text(f"src/{caller}"):
            yield path, 1, f"names the caller src/{caller}, which does not contain {_constant(path)}"
    if not index:
        yield path, 1, "does not say which index serves it (\"Index: …\")"
    for name in _INDEX.findall(index[1]) if index else ():
        if not _exists(name, schema):
            yield path, 1, f"names the index {name}, which no migration makes"
    if re.search(r";\s*\S", body):
        yield path, 1, "holds more than one statement"
    if "-- Named: " in head and _has_star(_included(tree.text(path), tree)):
        yield path, 1, "is named and has * in its result: a new column would end it (0A000); list the columns"


def _included(text, tree):
    """The text with its parts, without comments."""
    whole = re.sub(r"^\s*-- include: (\w+)$", lambda found: tree.text(f"sql/parts/{found[1]}.sql"), text, flags=re.M)
    return re.sub(r"--[^\n]*", "", whole)


def _has_star(body):
    """True when the result has a *; those in parentheses are of subqueries."""
    inner = None
    while inner != body:
        inner, body = body, re.sub(r"\([^()]*\)", "", body)
    return bool(re.search(r"(SELECT|RETURNING|,)\s+(DISTINCT\s+)?(\w+\.)?\*", body))


def _constant(path):
    """The name of a query in C, which sql/embed.py derives from the name of its file."""
    return "QUERY_" + path.rpartition("/")[2].removesuffix(".sql").upper()


def _exists(name, schema):
    """An index with this name, or the name that PostgreSQL gives to the index of a constraint."""
    if re.search(rf"\b{name}\b", schema):
        return True
    table = re.sub(r"(_pkey|(_[a-z_]+)?_key)$", "", name)
    return table != name and any(re.search(rf"TABLE (inbox\.)?{prefix}\b", schema)
                                 for prefix in _prefixes(table, name))


def _prefixes(table, name):
    yield table
    parts = name.split("_")
    for count in range(2, len(parts)):
        yield "_".join(parts[:count])


def _numbers(tree):
    """Migrations are numbered from 1 without a gap: the number is the schema version."""
    paths = tree.paths("sql/migrations/*.sql")
    for wanted, path in enumerate(paths, 1):
        match = re.fullmatch(r"(\d{4})_[a-z0-9_]+\.sql", path.rpartition("/")[2])
        if not match or int(match[1]) != wanted:
            yield path, 1, f"should be number {wanted:04d}, as NNNN_what.sql"


def _built(tree):
    """sql/meson.build lists every file."""
    if not tree.has("sql/meson.build"):
        return
    listed = tree.text("sql/meson.build")
    for path in tree.paths("sql/*.sql"):
        if f"'{path.removeprefix('sql/')}'" not in listed:
            yield path, 1, "is not listed in sql/meson.build"
