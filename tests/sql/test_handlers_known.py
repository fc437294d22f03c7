"""Known handlers: what a sidecar records, and which handlers are known."""

import json
import threading

import pytest

from test_operators import value

ORDERS = '[{"topic": "orders", "types": ["order.*"]}]'
PAYMENTS = '[{"topic": "payments"}]'
HOUR = 3_600_000
MEMORY = 600_000


@pytest.fixture
def keep(statements):
    """keep("billing", subscriptions, said=ms ago, gone=ms ago, fresh=…): a sidecar's report about one handler."""
    def keep(name, subscriptions=ORDERS, said=0, gone=0, fresh=True, memory=MEMORY, own=1, consumer=""):
        statements.count("keep_handlers", [name], [consumer], [subscriptions], [said], [gone], [fresh], memory, own)

    return keep


@pytest.fixture
def known(statements):
    """The handlers of a consumer that are known to a sidecar with this memory: {name: [(topic, type)]}."""
    def known(memory=MEMORY, lease=15000, connected=(), consumer=""):
        found = {}
        for name, is_known, _, subscribed, topic, kind, of in statements.run(
                "known_handlers", memory, lease, list(connected), [consumer] * len(connected)):
            if is_known and of == consumer:
                found.setdefault(name, []).extend([(topic, kind)] if subscribed else [])
        return found

    return known


def test_handlers_of_two_consumers_may_have_the_same_name(db, keep, known):
    keep("worker", '[{"topic": "orders"}]', consumer="billing")
    keep("worker", '[{"topic": "mails"}]', consumer="search")
    keep("worker", '[{"types": ["x"]}]')
    assert known(consumer="billing") == {"worker": [("orders", None)]}
    assert known(consumer="search") == {"worker": [("mails", None)]}
    assert known() == {"worker": [(None, "x")]}
    assert known(consumer="search", connected=["worker"]) == {"worker": []}
    keep("worker", consumer="billing", fresh=False)
    assert value(db, "SELECT array_agg(consumer) FROM inbox.handlers WHERE status = 'connected'") == ["billing"]


def subscriptions(db, name="billing"):
    return value(db, "SELECT subscriptions FROM inbox.inbox_handlers WHERE name = %s", name)


def test_a_hello_is_remembered_with_every_subscription(keep, known):
    keep("billing", '[{"topic": "orders", "types": ["order.*", "x"]}, {"topic": "mails"}, {"types": ["y"]}, {}]')
    assert known() == {"billing": [("orders", "order.*"), ("orders", "x"), ("mails", None), (None, "y"), (None, None)]}


def test_the_newest_hello_wins_regardless_of_the_order_of_reports(db, keep):
    keep("billing", PAYMENTS, said=1000)
    keep("billing", ORDERS, said=5000)
    assert subscriptions(db) == json.loads(PAYMENTS)
    keep("billing", ORDERS, said=10)
    assert subscriptions(db) == json.loads(ORDERS)


def test_a_repeated_report_does_not_make_an_old_hello_newer(db, keep):
    """The sidecar with the older version continues to report its connection, sometimes late."""
    keep("billing", ORDERS, said=5000)
    keep("billing", PAYMENTS, said=1000)
    keep("billing", ORDERS, said=0, fresh=False)
    assert subscriptions(db) == json.loads(PAYMENTS)


def add_fleeting(db, count):
    """Handlers with names of their own that were connected a moment ago, for a moment."""
    db.execute("INSERT INTO inbox.inbox_handlers (name, subscriptions, memory, known_since, connected_at, last_seen_at)"
               " SELECT 'pod-' || n, %s, %s * interval '1 ms', now(), now(), now() FROM generate_series(1, %s) AS n",
               [ORDERS, MEMORY, count])


def test_many_names_displace_no_handler_that_was_known_for_longer(db, keep, known):
    keep("billing", PAYMENTS)
    db.execute("UPDATE inbox.inbox_handlers SET known_since = now() - interval '1 hour', last_seen_at = now() - interval '1 minute'")
    add_fleeting(db, 300)
    assert "billing" in known() and len(known()) == 256
    db.execute("UPDATE inbox.inbox_handlers SET last_seen_at = now() - interval '2 hours' WHERE name = 'billing'")
    assert "billing" not in known() and len(known()) == 256


def test_beyond_a_thousand_the_handlers_that_were_known_for_the_shortest_time_are_deleted(db, keep):
    keep("billing", said=HOUR, gone=1)
    add_fleeting(db, 1200)
    keep("search")
    assert value(db, "SELECT count(*) FROM inbox.inbox_handlers") == 1001
    assert value(db, "SELECT count(*) FROM inbox.inbox_handlers WHERE name IN ('billing', 'search')") == 2


def test_the_memory_counts_from_the_last_connection(db, keep, known):
    keep("billing", said=2 * HOUR, gone=MEMORY - 60_000)
    assert "billing" in known() and known(memory=60_000) == {} and known(memory=0) == {}
    db.execute("UPDATE inbox.inbox_handlers SET last_seen_at = last_seen_at - interval '2 minutes'")
    assert known() == {}
    assert value(db, "SELECT status FROM inbox.handlers") == "lapsed"
    since = value(db, "SELECT known_since FROM inbox.inbox_handlers")
    keep("billing")
    assert value(db, "SELECT known_since > %s FROM inbox.inbox_handlers", since)
    since = value(db, "SELECT known_since FROM inbox.inbox_handlers")
    keep("billing", fresh=False)
    assert value(db, "SELECT known_since = %s FROM inbox.inbox_handlers", since)


def test_a_handler_connected_to_a_live_sidecar_is_known(db, keep, known):
    keep("billing")
    db.execute("UPDATE inbox.inbox_handlers SET last_seen_at = last_seen_at - interval '1 hour'")
    assert value(db, "SELECT handlers FROM inbox.inbox_instances WHERE id = 1") == ["billing"]
    assert "billing" in known() and known(memory=0) == {}
    assert value(db, "SELECT (status, instances)::text FROM inbox.handlers") == "(connected,{me})"
    db.execute("UPDATE inbox.inbox_instances SET heartbeat_at = now() - interval '1 minute'")
    assert known() == {}


def test_a_forgotten_handler_stays_forgotten_until_it_connects(db, keep, known):
    keep("billing")
    assert value(db, "SELECT inbox.forget_handler('billing', 'retired')") is True
    assert value(db, "SELECT inbox.forget_handler('billing')") is False
    keep("billing", said=5000, gone=100, fresh=False)
    assert known() == {}
    keep("billing", said=5000, fresh=False)
    assert "billing" in known(), "connected: known again"
    rows = db.execute("SELECT action, filter, reason, affected FROM inbox.inbox_audit").fetchall()
    assert rows == [("forget_handler", {"handler": "billing"}, "retired", 1)]


def test_a_handler_that_came_and_left_between_two_reports_is_recorded(keep, known):
    keep("billing", said=900, gone=100)
    assert "billing" in known()


def test_the_last_reported_handler_memory_applies_to_all(db, keep, known):
    keep("billing", memory=1000, gone=60_000)
    keep("totals", memory=MEMORY)
    assert value(db, "SELECT status FROM inbox.handlers WHERE name = 'billing'") == "away"
    assert set(known()) == {"billing", "totals"}


def test_handlers_are_deleted_a_day_after_their_memory_has_ended(db, keep):
    keep("billing", gone=MEMORY + 25 * HOUR)
    keep("audit", gone=MEMORY + 23 * HOUR)
    keep("totals")
    assert [row[0] for row in db.execute("SELECT name FROM inbox.inbox_handlers ORDER BY 1")] == ["audit", "totals"]


def test_subscriptions_of_handlers_connected_here_are_not_returned(keep, known):
    keep("billing")
    keep("totals")
    assert known(connected=["totals"]) == {"billing": [("orders", "order.*")], "totals": []}


def test_two_sidecars_that_report_the_same_handlers_do_not_block_each_other(connect, db):
    from statements import Statements
    names = [f"h{n}" for n in range(20)]
    errors = []

    def report(order):
        try:
            statements = Statements(connect())
            for _ in range(20):
                statements.count("keep_handlers", order, [""] * 20, [ORDERS] * 20, [0] * 20, [0] * 20, [True] * 20, MEMORY, 1)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=report, args=[order]) for order in (names, names[::-1])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


@pytest.mark.parametrize("topic, kind, name", [
    ("orders", "order.created", "exact"), ("orders", "order.paid.late", "longer"), ("orders", "order.x", "prefix"),
    ("orders", "mail", "topic"), ("orders", None, "topic"), ("payments", "mail", "any"),
    ("payments", "order.created", "exact"), ("payments", "order.paid.late", "any")])
def test_the_handler_of_a_message_is_the_most_specific_one(db, keep, topic, kind, name):
    keep("any", "[{}]")
    keep("topic", '[{"topic": "orders", "types": []}]')
    keep("prefix", '[{"topic": "orders", "types": ["order.*"]}]')
    keep("longer", '[{"topic": "orders", "types": ["order.paid.*"]}]')
    keep("exact", '[{"types": ["order.created"]}]')
    keep("lapsed", '[{"topic": "orders", "types": ["order.created"]}]', gone=2 * MEMORY)
    assert value(db, "SELECT inbox.handler_of(%s, %s)", topic, kind) == name


def test_a_handler_without_a_name_is_not_forgotten(db):
    for name in (None, ""):
        with pytest.raises(Exception, match="name must be given"):
            db.execute("SELECT inbox.forget_handler(%s)", [name])
