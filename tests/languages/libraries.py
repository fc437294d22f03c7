"""The examples of the handler libraries that make an invoice for each order, exactly once: name, and command.

Each has the table of examples/exactly_once.py, subscribes to the topic orders, and reads the PG… variables. handlers/LANGUAGE/check
prepares what its command needs.
"""

import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
PYTHON = str(ROOT / ".cache/languages/python/bin/python")


def _python(name):
    return [PYTHON, str(ROOT / "handlers/python/examples" / name)]


COMMANDS = {
    "python-psycopg": _python("exactly_once.py"),
    "python-asyncpg": _python("exactly_once_asyncpg.py"),
    "python-batch": _python("exactly_once_batch.py"),
}
EACH = sorted(COMMANDS)
