"""Runs the SQL of docs/idempotency-keys.md as a user with the role that it names."""

import pathlib
import re
import subprocess
import textwrap

import pytest

from statements import SQL
from test_operators import value
from test_requests import begin, set_back

DOCUMENT = (pathlib.Path(__file__).resolve().parents[2] / "docs/idempotency-keys.md").read_text()
BLOCKS = [textwrap.dedent(found) for found in re.findall(r"^ *```sql\n(.*?)^ *```$", DOCUMENT, re.M | re.S)]
SERVE, AGAIN, MIDDLEWARE, LEASED, BY_HAND, _GRANT, STATES, FORGET, RESULT = BLOCKS


@pytest.fixture
def run(db, server):
    """run(block, user="shop") -> what psql prints"""
    db.execute((SQL / "roles.sql").read_text())
    for user, role in (("shop", "inboxd_service"), ("op", "inboxd_operator")):
        db.execute(f"DROP OWNED BY {user}" if value(db, "SELECT to_regrole(%s) IS NOT NULL", user) else "SELECT 1")
        db.execute(f"DROP ROLE IF EXISTS {user}")
        db.execute(f"CREATE ROLE {user} LOGIN IN ROLE {role}")
    db.execute("DROP TABLE IF EXISTS public.orders; CREATE TABLE public.orders (id bigint PRIMARY KEY, item int, charge text,"
               " status text); GRANT SELECT, INSERT, UPDATE ON public.orders TO shop")

    def psql(block, user="shop"):
        done = subprocess.run(["psql", "-X", "-v", "ON_ERROR_STOP=1", "-U", user], input=block, capture_output=True, text=True,
                              env={**server, "PATH": "/usr/bin:/bin", "PGUSER": user})
        assert done.returncode == 0, done.stderr
        return done.stdout

    yield psql
    db.execute("DROP TABLE public.orders; DROP OWNED BY shop, op; DROP ROLE shop, op")


def test_the_first_request(db, run):
    assert "started" in run(SERVE)
    assert db.execute("SELECT id, item FROM public.orders").fetchall() == [(17, 5)]
    assert value(db, "SELECT count(*) FROM inbox.events") == 1
    printed = run(AGAIN)
    shown = re.search(r"```\n +verdict .*?```", DOCUMENT, re.S)[0]
    assert [line.split() for line in printed.splitlines()[:3]] == [line.split() for line in shown.splitlines()[1:4]]


def test_a_middleware(db, run):
    printed = run(MIDDLEWARE)
    assert re.search(r" t +\| \w{3}, \d\d .* GMT", printed), printed
    assert db.execute("SELECT key, status, headers ->> 'vary' FROM inbox.requests").fetchall() == [("b8f6c2e0-order-19", 201, "Origin, Accept")]


def test_with_a_lease(db, run):
    run(SERVE)
    run(LEASED)
    assert db.execute("SELECT charge, status FROM public.orders").fetchall() == [("ch_1234", "paid")]
    assert db.execute("SELECT state, point FROM inbox.request_states WHERE key = 'pay-17'").fetchall() == [("COMPLETED", "charged")]


def test_a_lost_request_is_completed_by_hand(db, run):
    begin(db, "pay-18", scope="tenant-a", operation="POST /payments", lease="1 minute")
    set_back(db, "locked_until")
    run(BY_HAND)
    found = begin(db, "pay-18", scope="tenant-a", operation="POST /payments", lost="refuse")
    assert (found.verdict, found.body) == ("replay", b'{"charge": "ch_5678"}')


def test_an_operator_looks_and_forgets(run):
    run(SERVE)
    run(LEASED)
    assert "COMPLETED" in run(STATES, "op")
    assert " t" in run(FORGET, "op")
    assert "pay-17" not in run(STATES, "op")


def test_the_result_of_a_message(run):
    assert "1 row" in run(RESULT)
