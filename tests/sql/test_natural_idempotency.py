"""Runs each example of docs/natural-idempotency.md twice, and five times at once. Without its guard the result differs."""

import concurrent.futures
import pathlib
import re
import threading

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCUMENT = (ROOT / "docs/natural-idempotency.md").read_text()
FILES = sorted((ROOT / "examples/natural-idempotency").glob("*.sql"))
RESULTS = {"1_absolute_value": [(7, 4)], "2_business_id": [(6250, 1)], "3_unique_pair": [(1, 1)],
           "4_state_machine": [(17, "shipped", False), (18, "shipped", True)], "5_optimistic_version": [(800, 4)]}
# What makes the statement repeatable, and what it is without that.
GUARDS = {
    "1_absolute_value": [("\nWHERE stock_levels.version < excluded.version", "")],
    "2_business_id": [(" FROM new WHERE accounts.id = new.account", " FROM (VALUES (1, 1250)) new (account, cents) WHERE accounts.id = new.account")],
    "3_unique_pair": [("                           PRIMARY KEY (order_id, event_type)", "n int"),
                      ("ON CONFLICT (order_id, event_type) DO NOTHING", "")],
    "4_state_machine": [(" AND status IN ('new', 'paid')", "")],
    "5_optimistic_version": [(" AND version = 3", "")]}


def parts(text):
    """The tables, the effect and the result."""
    return re.split(r"^-- (?:Tables|Effect|Result).*\n", text, flags=re.M)[1:]


@pytest.fixture
def example(connect):
    """example(text, runs) -> the result, after runs() has run the effect of five connections as it likes, on new tables"""
    connections = [connect() for _ in range(5)]
    for connection in connections:
        connection.execute("SET client_min_messages = error; SET search_path = example")

    def run(text, runs):
        tables, effect, result = parts(text)
        connections[0].execute("DROP SCHEMA IF EXISTS example CASCADE; CREATE SCHEMA example")
        connections[0].execute(tables)
        runs([lambda connection=connection: connection.execute(f"BEGIN; {effect} COMMIT") for connection in connections])
        return connections[0].execute(result).fetchall()

    yield run
    connections[0].execute("DROP SCHEMA example CASCADE")
    for connection in connections:
        connection.close()


def twice(calls):
    calls[0]()
    calls[0]()


def five_at_once(calls):
    barrier = threading.Barrier(len(calls))

    def start(call):
        barrier.wait(30)
        call()

    with concurrent.futures.ThreadPoolExecutor(len(calls)) as pool:
        list(pool.map(start, calls))


@pytest.mark.parametrize("runs", [twice, five_at_once])
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_an_effect_happens_once(example, path, runs):
    assert example(path.read_text(), runs) == RESULTS[path.stem]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_without_its_guard_the_result_differs(example, path):
    text = path.read_text()
    for guard, without in GUARDS[path.stem]:
        assert guard in text
        text = text.replace(guard, without)
    assert example(text, twice) != RESULTS[path.stem]


def test_the_document_shows_the_statements_of_the_files():
    shown = re.findall(r"```sql\n(.*?)```", DOCUMENT, re.S)
    assert len(shown) == len(FILES) == len(RESULTS)
    for block, path in zip(shown, FILES):
        assert block in path.read_text(), path
