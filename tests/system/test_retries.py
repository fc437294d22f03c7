"""Messages whose handler does not simply answer done."""

import psycopg
import pytest

from support.scripts import always, by_id, DONE, SETTLED
from support.wait import eventually
from support.wire import dead, done, NEVER, retry, snooze


def attempts(client, event_id="x"):
    return [delivery.attempt for delivery in client.deliveries if delivery.event_id == event_id]


@pytest.fixture
def send(produce, topic):
    def send(event_id="x", **options):
        return produce(topic, b"{}", headers={"id": event_id}, **options)

    return send


def test_a_message_that_fails_once_is_retried(inboxd, handler, send, inbox):
    client = handler(inboxd, by_id({"x": [retry(reason="busy", code="BUSY")]}))
    send()
    row = inbox.wait_status("x", "processed")
    assert attempts(client) == [1, 2]
    assert row["retry_count"] == 1


def test_a_result_is_stored(inboxd, handler, send, inbox):
    handler(inboxd, always(done({"invoice": 17})))
    send()
    assert inbox.wait_status("x", "processed")["result"] == {"invoice": 17}


def test_after_the_last_attempt_a_message_is_dead_with_error_and_code(start_inboxd, handler, send, inbox):
    sidecar = start_inboxd(retry={"max_attempts": 3})
    client = handler(sidecar, always(retry(reason="upstream 503", code="UPSTREAM")))
    send()
    row = inbox.wait_status("x", "dead")
    assert attempts(client) == [1, 2, 3]
    assert row["retry_count"] == 3
    assert (row["error"], row["error_code"]) == ("upstream 503", "UPSTREAM")
    assert row["available_at"] is None and row["processed_at"] is None
    eventually(lambda: sidecar.metric("inboxd_dead") == 1)


def test_the_backoff_grows(start_inboxd, handler, send, inbox):
    sidecar = start_inboxd(retry={"backoff": "1s", "backoff_max": "1h"})
    handler(sidecar, always(retry()))
    send()
    # clock_timestamp(), because the statement can see what another transaction commits after its now()
    (row,) = eventually(lambda: inbox.query("SELECT retry_count, extract(epoch FROM available_at - clock_timestamp()) AS ahead"
                                            " FROM inbox.messages WHERE status = 'retrying'"))
    assert row["ahead"] <= 2 ** (row["retry_count"] - 1)


def test_a_handler_can_choose_the_delay(inboxd, handler, send, inbox):
    handler(inboxd, always(retry(delay_ms=3_600_000)))
    send()
    inbox.wait_status("x", "retrying")
    minutes = inbox.value("SELECT extract(epoch FROM available_at - now()) / 60"
                          " FROM inbox.inbox_messages")
    assert 58 < minutes <= 60


def test_dead_ends_the_attempts_at_once(inboxd, handler, send, inbox):
    client = handler(inboxd, always(dead(reason="schema v9 unknown", code="SCHEMA")))
    send()
    row = inbox.wait_status("x", "dead")
    assert attempts(client) == [1]
    assert (row["error"], row["error_code"]) == ("schema v9 unknown", "SCHEMA")


def test_a_snooze_is_not_an_attempt(inboxd, handler, send, inbox):
    client = handler(inboxd, by_id({"x": [snooze(10), snooze(10), snooze(10)]}))
    send()
    row = inbox.wait_status("x", "processed")
    assert attempts(client) == [1, 1, 1, 1]
    assert row["retry_count"] == 0


def test_an_exception_counts_as_a_retry_with_its_message(start_inboxd, handler, send, inbox):
    def explode(_delivery):
        raise ValueError("no such order")

    sidecar = start_inboxd(retry={"max_attempts": 1})
    handler(sidecar, explode)
    send()
    assert "no such order" in inbox.wait_status("x", "dead")["error"]


def test_a_malformed_answer_is_a_retry(start_inboxd, handler, send, inbox):
    sidecar = start_inboxd(retry={"max_attempts": 1})
    handler(sidecar, always({"status": "perhaps"}))
    send()
    assert inbox.wait_status("x", "dead")["error_code"] == "PROTOCOL"


def test_complete_in_the_handlers_transaction_settles(inboxd, handler, send, inbox):
    inbox.execute("CREATE TABLE effects (event_id text)")

    def decide(delivery):
        with inbox.connect() as own:
            own.execute("INSERT INTO effects VALUES (%s)", [delivery.event_id])
            own.execute("SELECT inbox.complete(%s, '{\"by\": \"me\"}')", [delivery.claim])
        return SETTLED

    handler(inboxd, decide)
    send()
    row = inbox.wait_status("x", "processed")
    assert row["result"] == {"by": "me"}
    assert inbox.value("SELECT count(*) FROM effects") == 1
    eventually(lambda: inboxd.metric("inboxd_deliveries_total", outcome="settled") == 1)


def test_complete_names_the_handler_and_no_neighbour_can_call_it(inboxd, handler, send, inbox):
    """The sidecar is killed before an answer, so only complete() can have stored the name."""
    client = handler(inboxd, always(NEVER), name="rechnung-\u00fc")
    send("x")
    send("y")
    mine, other = client.wait_event("x"), client.wait_event("y")
    numbers, rest = other.claim.split(".")[:3], mine.claim.split(".")[3:]
    for guess in (".".join(numbers), ".".join([*numbers, rest[0]]), ".".join([*numbers, *rest])):
        with pytest.raises(psycopg.Error) as raised:
            inbox.execute("SELECT inbox.complete(%s)", [guess])
        assert raised.value.sqlstate == "IB001"
    inbox.execute("SELECT inbox.complete(%s)", [mine.claim])
    inboxd.kill()
    assert inbox.value("SELECT array_agg(handler ORDER BY event_id) FROM inbox.inbox_messages") == ["rechnung-\u00fc", None]


def test_settled_without_complete_is_a_retry(start_inboxd, handler, send, inbox):
    sidecar = start_inboxd(retry={"max_attempts": 2})
    client = handler(sidecar, always(SETTLED))
    send()
    assert inbox.wait_status("x", "dead")["error_code"] == "NOT_SETTLED"
    assert attempts(client) == [1, 2]


def test_a_lost_claim_rolls_the_effects_back(start_inboxd, handler, send, inbox):
    sidecar = start_inboxd()
    claims = []

    def decide(delivery):
        claims.append(delivery.claim)
        return retry(delay_ms=0) if len(claims) == 1 else DONE

    handler(sidecar, decide)
    send()
    inbox.wait_status("x", "processed")
    with pytest.raises(psycopg.Error) as raised, inbox.connect() as own:
        own.execute("SELECT inbox.complete(%s)", [claims[0]])
    assert raised.value.sqlstate == "IB001"
    with pytest.raises(psycopg.Error) as raised, inbox.connect() as own:
        own.execute("SELECT inbox.complete('nonsense')")
    assert raised.value.sqlstate == "IB002"


def test_a_message_in_its_handlers_transaction_is_not_settled_by_inboxd(inboxd, handler, send, inbox):
    client = handler(inboxd, always(NEVER))
    send()
    delivery = client.wait_event("x")
    with inbox.connect() as own:
        own.execute("SELECT inbox.complete(%s)", [delivery.claim])
        client.extend(delivery, 500)
        eventually(lambda: inboxd.metric("inboxd_deliveries_total", outcome="timeout") == 1
                   or client.cancels, what="the deadline to pass")
        assert len(client.deliveries) == 1
    row = inbox.wait_status("x", "processed")
    assert row["retry_count"] == 0
    assert len(client.deliveries) == 1


def test_other_messages_continue_while_one_fails(inboxd, handler, send, inbox):
    handler(inboxd, by_id({"bad": retry(delay_ms=60_000)}))
    for event_id in ("bad", "a", "b", "c"):
        send(event_id, partition=0)
    inbox.wait_processed(3)
    inbox.wait_status("bad", "retrying")


def test_counts_of_outcomes_are_exact(start_inboxd, handler, streams, topic, inbox):
    sidecar = start_inboxd(retry={"max_attempts": 2})
    handler(sidecar, by_id({"r": [retry()], "d": dead(), "s": [snooze(1)]}), name="billing")
    streams.events(topic, ["a", "b", "r", "d", "s"])
    eventually(lambda: inbox.count("processed") == 4 and inbox.count("dead") == 1)

    def outcomes():
        scrape = sidecar.metrics()
        return {outcome: scrape.value("inboxd_deliveries_total", handler="billing", outcome=outcome)
                for outcome in ("done", "retry", "dead", "snooze")}

    eventually(lambda: outcomes() == {"done": 4, "retry": 1, "dead": 1, "snooze": 1})
