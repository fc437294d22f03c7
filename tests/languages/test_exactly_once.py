"""Effects exactly once, with the library of each language: one invoice for each order, whatever is killed."""

import os
import random
import time

import pytest

from languages.libraries import EACH
from support.wait import eventually
from system import test_examples as shared

# Each round kills the handler, and each second one the sidecar or PostgreSQL, too: 34 rounds are 51 kills.
ROUNDS = int(os.environ.get("INBOXD_KILL_ROUNDS", "8"))

pytestmark = pytest.mark.parametrize("library", EACH)


def test_effects_happen_once_when_connections_are_lost(example, postgres, orders, inbox, library):
    shared.test_effects_happen_once_when_connections_are_lost(example, postgres, orders, inbox, library)


def test_a_terminated_commit_spends_no_attempt(example, orders, inbox, library):
    shared.test_a_terminated_commit_spends_no_attempt(example, orders, inbox, library)


def test_a_handler_that_lost_its_claim_rolls_back(sidecar, example, orders, inbox, library):
    shared.test_a_handler_that_lost_its_claim_rolls_back(sidecar, example, orders, inbox, library)


@pytest.mark.parametrize("sidecar", [{"retry": {"max_attempts": 2, "backoff": "10ms"}}], indirect=True)
def test_an_error_of_the_message_spends_its_attempts(example, orders, inbox, library):
    inbox.execute(shared.INVOICES)
    example(library)
    bad = orders(1, cents="much")
    if library.endswith("-batch"):  # an error of a batch is one of each first message of a key
        inbox.wait_status(bad[0], "dead")
        return
    good = orders(5)
    shared.wait_processed(inbox, good)
    row = inbox.wait_status(bad[0], "dead")
    assert row["error_code"] in ("22P02", "22000", "PayloadException", "DATA", "ValueError") and row["retry_count"] == 2
    shared.assert_each_once(inbox, good)


@pytest.mark.timeout(300 + 60 * ROUNDS)
@pytest.mark.parametrize("sidecar", [{"retry": {"max_crashes": 1000}}], indirect=True)
def test_effects_happen_once_when_processes_are_killed(sidecar, example, postgres, orders, inbox, library):
    """The handler, the sidecar and PostgreSQL, killed again and again while orders come."""
    inbox.execute(shared.INVOICES)
    ids = []
    program = example(library)
    for round_number in range(ROUNDS):
        made = inbox.value("SELECT count(*) FROM invoices")
        ids += orders(60)
        if library.startswith("java-"):  # a JVM needs a second to start: it is killed at work
            eventually(lambda before=made: inbox.value("SELECT count(*) FROM invoices") > before, timeout=60)
        time.sleep(random.uniform(0.1, 0.6))
        program.kill()
        if round_number % 4 == 1:
            sidecar.kill()
            sidecar.start()
        if round_number % 4 == 3:
            postgres.crash()
            postgres.start()
        program = example(library)
    ids += orders(20)  # the last program has started when these are processed, and can be stopped
    shared.wait_processed(inbox, ids)
    assert program.stop() == 0
    wanted = sorted(int(order.rpartition("-")[2]) for order in ids)
    assert [row["order_id"] for row in inbox.query("SELECT order_id FROM invoices ORDER BY order_id")] == wanted
    eventually(lambda: inbox.value("SELECT count(*) FROM inbox.messages WHERE status <> 'processed'") == 0)
