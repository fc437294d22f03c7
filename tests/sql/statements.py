"""The statements of sql/queries as a sidecar runs them: with parameters and its planner settings."""

import pathlib
import re
import sys

import psycopg

SQL = pathlib.Path(__file__).resolve().parents[2] / "sql"
sys.path.append(str(SQL))

import embed  # noqa: E402 pylint: disable=wrong-import-position

NAMED = sorted(path.stem for path in (SQL / "queries").glob("*/*.sql") if embed.is_named(path))
QUERIES = sorted((SQL / "queries").glob("*/*.sql"), key=lambda path: path.stem)
MIGRATIONS = sorted((SQL / "migrations").glob("*.sql"))
FUNCTIONS = sorted((SQL / "functions").glob("*.sql"))
AROUND_FUNCTIONS = [SQL / f"{name}.sql" for name in embed.AROUND]

# The settings of store/pg/db.c for each transaction.
SETTINGS = "SELECT set_config('enable_seqscan', 'off', true), set_config('jit', 'off', true)"

# The setting for named statements.
GENERIC = "SELECT set_config('plan_cache_mode', 'force_generic_plan', true)"

# Subscriptions of the consumer without a name to everything: consumers, topics, types, kinds, open.
ALL = ([""], [None], [None], [0], [True])


def text(name):
    """The text with its includes, as it is embedded."""
    (path,) = (SQL / "queries").glob(f"*/{name}.sql")
    return "\n".join(embed.statement(path))


def script(path):
    """A migration as one transaction, as inboxd runs it in an unused schema."""
    text = path.read_text()
    return text.replace(" CONCURRENTLY", "") if path.stem.endswith("_concurrent") else text


def called_functions():
    """The names of the functions that sidecars and commands call, and those that handlers and services may call."""
    defined = set(re.findall(r"CREATE OR REPLACE FUNCTION inbox\.(\w+)\(", functions()))
    granted = re.findall(r"^GRANT EXECUTE ON FUNCTION ([^;]*?)\s+TO inboxd_(?:handler|service);", (SQL / "roles.sql").read_text(), re.M)
    called = re.findall(r"\binbox\.(\w+)\(", "\n".join([*granted, *(text(path.stem) for path in QUERIES)]))
    return defined & set(called)


def functions():
    """The functions, triggers and views, as inboxd applies them at each migration."""
    return "\n".join(embed.functions(FUNCTIONS + AROUND_FUNCTIONS))


def migrate(connection):
    """Creates a new schema as this user."""
    for migration in MIGRATIONS:
        connection.execute(script(migration))
    connection.execute(functions())


class Plan:
    """The result of EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON)."""

    def __init__(self, top):
        self.top = top["Plan"]
        self.nodes = list(self._walk(self.top))
        self.triggers = top.get("Triggers", [])

    def _walk(self, node):
        yield node
        for child in node.get("Plans", []):
            yield from self._walk(child)

    def indexes(self):
        return {node["Index Name"] for node in self.nodes if "Index Name" in node}

    def scans_whole(self, table):
        """True when a node reads the whole table."""
        return any(node["Node Type"] == "Seq Scan" and node.get("Relation Name") == table
                   for node in self.nodes)

    def compared_in_vain(self):
        """Pairs of rows that a join compared and discarded."""
        return sum(node.get("Rows Removed by Join Filter", 0) * node["Actual Loops"] for node in self.nodes)

    def pages(self, index=None):
        """Pages of tables and indexes read, from memory or disk; only by scans of one index if it is named."""
        nodes = [self.top] if index is None else [node for node in self.nodes if node.get("Index Name") == index]
        return sum(node["Shared Hit Blocks"] + node["Shared Read Blocks"] for node in nodes)


class Statements:
    """Runs queries by name on one connection, each in its own transaction."""

    def __init__(self, connection):
        self.connection = connection

    def run(self, name, *values):
        with self.connection.transaction():
            return self._execute("", name, values).fetchall()

    def count(self, name, *values):
        """The number of rows changed by a statement that returns none."""
        with self.connection.transaction():
            return self._execute("", name, values).rowcount

    def explain(self, name, *values):
        """Runs it, rolls back, and returns its plan."""
        with self.connection.transaction(force_rollback=True):
            self.connection.execute(SETTINGS)
            cursor = self._execute("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) ", name, values)
            return Plan(cursor.fetchone()[0][0])

    def prepare(self, name):
        """As a sidecar prepares a named statement. The first explain_named() makes its only plan."""
        self.connection.execute(f"PREPARE {name} AS {text(name)}")

    def explain_named(self, name, *values):
        """Runs it, rolls back, and returns its plan."""
        with self.connection.transaction(force_rollback=True):
            for setting in (SETTINGS, GENERIC, *([text("relay_settings")] if name.startswith("relay") else [])):
                self.connection.execute(setting)
            places = f"({', '.join(['%s'] * len(values))})" if values else ""
            cursor = psycopg.ClientCursor(self.connection).execute(
                f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE {name}{places}", values)
            return Plan(cursor.fetchone()[0][0])

    def _execute(self, prefix, name, values):
        sql = re.sub(r"\$(\d+)", r"%(p\1)s", text(name).replace("%", "%%"))
        parameters = {f"p{number}": value for number, value in enumerate(values, start=1)}
        return psycopg.Cursor(self.connection).execute(prefix + sql, parameters)
