"""The programs of the documentation, run unchanged against real servers.
Each block in C or Python is a part of a file in
examples/, which the lint compares (tests/lint/rule_examples.py); here those files run, and the blocks of SQL."""

import contextlib
import itertools
import json
import pathlib
import random
import sqlite3

import pytest
import yaml
from confluent_kafka import KafkaException

from support.examples import Example, blocks
from support.inbox import Inbox
from support.proxy import Proxy
from support.scripts import by_id
from support.wait import eventually
from support.wire import dead

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOPIC = "orders"  # the topic that the examples read
RUNS = [path.name for path in sorted((ROOT / "examples").glob("*")) if path.suffix in (".c", ".py")
        and path.name not in ("noop_handler.c", "schema_registry.c", "test_examples.py")]
WITH_DATABASE = [name for name in RUNS if name.startswith("exactly_once")]
CONSUMERS = yaml.safe_load((ROOT / "examples/consumers/consumers.yaml").read_text(encoding="utf-8"))
SERVICES = {service: yaml.safe_load((ROOT / f"examples/outbox/{service}.yaml").read_text(encoding="utf-8"))
            for service in ("shop", "shipping")}
INVOICES = """
CREATE TABLE invoices (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, order_id bigint NOT NULL, cents bigint NOT NULL);
-- As long as somebody says so a COMMIT takes its time.
CREATE TABLE paused ();
CREATE FUNCTION pause() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN IF EXISTS (SELECT FROM paused) THEN PERFORM pg_sleep(60); END IF; RETURN NULL; END $$;
CREATE CONSTRAINT TRIGGER pause AFTER INSERT ON invoices DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION pause()"""
numbers = itertools.count(random.randrange(1 << 40))  # other processes of the suite create orders, too


@pytest.fixture
def sidecar(start_inboxd, streams, group, request):
    """It reads the topic of the examples from its current end, because other tests produce to it as well."""
    with contextlib.suppress(KafkaException):  # it is there already
        streams.create(TOPIC)
    assert not streams.committed(group, TOPIC)  # repeated until the broker knows the coordinator of the group
    streams.set_committed(group, TOPIC, streams.log_end(TOPIC))
    return start_inboxd(kafka={"topics": [TOPIC]}, **getattr(request, "param", {}))


@pytest.fixture
def example(sidecar, postgres_server, database):
    """example(file, argument…, port=…) -> the program with the test's database; it must end with success."""
    made = []

    def start(file, *arguments, port=None):
        env = {**postgres_server.environment(database), "PGAPPNAME": "example", "PYTHONPATH": str(ROOT / "handlers/python/src")}
        made.append(Example(file, sidecar.socket_path, {**env, "PGPORT": str(port or env["PGPORT"])}, arguments=arguments))
        return made[-1]

    yield start
    for one in made:
        one.stop()


@pytest.fixture
def orders(streams, name):
    """orders(count, cents=…, event_type=…) -> the ids of that many new orders, unique to the test."""

    def make(count, cents=1250, event_type="order.created"):
        new = [f"{name}-{next(numbers)}" for _ in range(count)]
        streams.produce_many(TOPIC, (
            {"key": f"{name}-{number % 20}", "headers": [("id", order), ("eventType", event_type)],
             "value": json.dumps({"order": int(order.rpartition("-")[2]), "customer": "c", "cents": cents}).encode()}
            for number, order in enumerate(new)))
        return new

    return make


def wait_processed(inbox, ids, timeout=90):
    eventually(lambda: inbox.value("SELECT count(*) FROM inbox.messages WHERE status = 'processed'"
                                   " AND event_id = ANY (%s)", [ids]) == len(ids),
               timeout=timeout, what=f"{len(ids)} orders to be processed")


@pytest.mark.parametrize("file", [name for name in RUNS if name not in WITH_DATABASE])
def test_an_example_handles_messages_and_stops_cleanly(example, orders, inbox, file):
    ids = orders(20)
    program = example(file)
    wait_processed(inbox, ids)
    if not file.startswith("loop"):
        assert program.output, "it prints what it does"
    assert program.stop() in ((-15, 143) if file == "minimal.py" else (0,))  # the shortest one does not handle SIGTERM
    assert inbox.value("SELECT count(*) FROM inbox.messages WHERE retry_count > 0 AND event_id = ANY (%s)", [ids]) == 0


def assert_each_once(inbox, ids, spent_by=None):
    """An invoice for each order, and no attempt spent, except by this consumer."""
    wanted = [int(order.rpartition("-")[2]) for order in ids]
    assert inbox.query("SELECT event_id, retry_count, crash_count, attempts FROM inbox.messages WHERE event_id = ANY (%s)"
                       " AND (retry_count > 0 OR crash_count > 0 OR attempts IS NOT NULL) AND consumer IS DISTINCT FROM %s",
                       [ids, spent_by]) == []
    made = inbox.query("SELECT order_id, count(*) AS count FROM invoices WHERE order_id = ANY (%s) GROUP BY order_id",
                       [wanted])
    assert sorted((row["order_id"], row["count"]) for row in made) == sorted((order, 1) for order in wanted)


@pytest.mark.parametrize("file", WITH_DATABASE)
def test_effects_happen_once_when_connections_are_lost(example, postgres, orders, inbox, file):
    """Its session is ended between two messages, cut after a COMMIT, and lost with the whole server."""
    inbox.execute(INVOICES)
    with Proxy(postgres.port) as proxy:
        program = example(file, port=proxy.port)
        ids = orders(20)
        wait_processed(inbox, ids)
        proxy.cut()
        ids += orders(20)
        wait_processed(inbox, ids)
        for lost in range(1, 4):
            proxy.cut_before(b"COMMIT")
            ids += orders(20)
            eventually(lambda: proxy.cuts == lost)
        ids += orders(200)
        eventually(lambda: inbox.value("SELECT count(*) FROM invoices") > 120)
        postgres.restart()
        ids += orders(20)
        wait_processed(inbox, ids)
        assert program.stop() == 0
    assert_each_once(inbox, ids)


@pytest.mark.parametrize("file", WITH_DATABASE)
def test_a_terminated_commit_spends_no_attempt(example, orders, inbox, file):
    """The outcome is unknown outside of the server, and "settled" would claim that it succeeded."""
    inbox.execute(INVOICES)
    inbox.execute("INSERT INTO paused DEFAULT VALUES")
    program = example(file)
    ids = orders(1)
    committing = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'example' AND wait_event = 'PgSleep'"
    for last in (False, True):
        eventually(lambda: inbox.value(committing) == 1)
        if last:
            inbox.execute("DELETE FROM paused")
        inbox.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'example'")
        eventually(lambda: inbox.value(committing) == 0)
    wait_processed(inbox, ids)
    assert_each_once(inbox, ids)
    assert program.stop() == 0


@pytest.mark.parametrize("file", WITH_DATABASE)
def test_while_the_database_refuses_connections_deliveries_are_a_second_apart(example, postgres, orders, inbox, file):
    inbox.execute(INVOICES)
    with Proxy(postgres.port) as proxy:
        proxy.refuse()
        example(file, port=proxy.port)
        ids = orders(3)
        eventually(lambda: inbox.value("SELECT coalesce(max(delivery_count), 0) FROM inbox.messages WHERE event_id = ANY (%s)",
                                       [ids]) >= 3)
        seen = inbox.value("SELECT max(delivery_count) FROM inbox.messages WHERE event_id = ANY (%s)", [ids])
        since = inbox.value("SELECT min(received_at) FROM inbox.messages WHERE event_id = ANY (%s)", [ids])
        assert seen <= inbox.value("SELECT extract(epoch FROM clock_timestamp() - %s)", [since]) + 2
        proxy.accept()
        wait_processed(inbox, ids)
    assert_each_once(inbox, ids)


@pytest.mark.parametrize("file", WITH_DATABASE)
@pytest.mark.parametrize("sidecar", [{"retry": {"max_attempts": 2, "backoff": "10ms"}}], indirect=True)
def test_an_error_of_the_message_spends_its_attempts(example, orders, inbox, file):
    inbox.execute(INVOICES)
    example(file)
    bad = orders(1, cents="much")
    good = orders(5)
    wait_processed(inbox, good)
    row = inbox.wait_status(bad[0], "dead")
    assert (row["error_code"], row["retry_count"]) == ("22P02", 2)
    assert_each_once(inbox, good)


@pytest.mark.parametrize("file", WITH_DATABASE)
def test_a_handler_that_lost_its_claim_rolls_back(sidecar, example, orders, inbox, file):
    """The sidecar is killed while the transaction is open; the next one has returned the message before its end."""
    inbox.execute(INVOICES)
    inbox.execute("CREATE FUNCTION hold() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
                  " PERFORM pg_advisory_xact_lock_shared(4711); RETURN NEW; END $$;"
                  "CREATE TRIGGER hold BEFORE INSERT ON invoices FOR EACH ROW EXECUTE FUNCTION hold()")
    with inbox.connect() as holder:
        holder.execute("SELECT pg_advisory_xact_lock(4711)")
        program = example(file)
        ids = orders(1)
        eventually(lambda: inbox.value("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'example'"
                                       " AND wait_event = 'advisory'") == 1)
        sidecar.kill()
        sidecar.start()
        eventually(lambda: inbox.message(ids[0])["rescue_count"] == 1)
    wait_processed(inbox, ids)
    assert_each_once(inbox, ids)
    assert program.stop() == 0


@pytest.mark.parametrize("sidecar", [CONSUMERS], indirect=True)
def test_a_consumer_that_fails_holds_up_no_other_one(sidecar, example, orders, inbox, name, tmp_path):
    """examples/consumers, with the commands that its README names."""
    inbox.execute((ROOT / "examples/consumers/schema.sql").read_text(encoding="utf-8"))
    ids = orders(60)  # three of each key
    table, refused = tmp_path / "search.db", tmp_path / "refused"
    refused.write_text(ids[0], encoding="utf-8")
    example("consumers/billing.c")
    example("consumers/search.py", table)
    example("consumers/mail.py", refused)

    def wait_done(mails):
        eventually(lambda: {row["consumer"]: row["count"] for row in inbox.query(
            "SELECT consumer, count(*) AS count FROM inbox.messages WHERE status = 'processed' AND event_id = ANY (%s)"
            " GROUP BY consumer", [ids])} == {"billing": 60, "search": 60, "mail": mails}, timeout=90)

    def operate(*arguments):
        done = sidecar.command(*arguments, "--consumer", "mail")
        assert done.returncode == 0, done.stderr
        return done.stdout

    def waiting():
        return [json.loads(line)["event_id"] for line in operate("list", "--status", "waiting", "--json").splitlines()]

    wait_done(57)
    eventually(lambda: waiting() == [ids[0], ids[20], ids[40]])
    assert json.loads(operate("keys", "--json"))["waiting"] == 2
    operate("skip", f"{name}-0", "--topic", TOPIC, "--reason", "no such address", "--yes")
    wait_done(59)
    refused.write_text("", encoding="utf-8")
    operate("replay", ids[0], "--reason", "the address is correct now")
    wait_done(60)
    assert_each_once(inbox, ids, spent_by="mail")
    assert inbox.query("SELECT consumer FROM inbox.messages WHERE replay_count > 0") == [{"consumer": "mail"}]
    with contextlib.closing(sqlite3.connect(table)) as found:
        assert found.execute("SELECT count(*) FROM orders WHERE status = 'order.created'").fetchone()[0] >= 60


@pytest.fixture
def services(make_inboxd, streams, postgres_server, database):
    """examples/outbox: the databases and the sidecars of both services, and start(service, file, argument…)."""
    databases = {"shop": database, "shipping": postgres_server.create_database(f"{database}_2")}
    views = {service: Inbox(postgres_server.conninfo(dbname)) for service, dbname in databases.items()}
    sidecars, programs = {}, []
    for service, view in views.items():
        view.execute((ROOT / f"examples/outbox/{service}.sql").read_text(encoding="utf-8"))
        for topic in SERVICES[service]["kafka"]["topics"]:
            streams.create(topic)
        sidecars[service] = make_inboxd(SERVICES[service], postgres={"dbname": databases[service]}).start()

    def start(service, file, *arguments):
        env = {**postgres_server.environment(databases[service]), "PYTHONPATH": str(ROOT / "handlers/python/src")}
        programs.append(Example(f"outbox/{file}", sidecars[service].socket_path, env, arguments=arguments))
        return programs[-1]

    yield views, sidecars, start
    for program in programs:
        program.stop()
    assert [sidecar.stop() for sidecar in sidecars.values()] == [0, 0]
    for view in views.values():
        view.close()
    postgres_server.drop_database(databases["shipping"])


def test_each_order_is_shipped_once_although_both_sides_are_killed(services):
    """examples/outbox: the sidecar and the handler of each service, and the order service after each of them."""
    views, sidecars, start = services
    shop, shipping = views["shop"], views["shipping"]
    files = {"shop": "mark_shipped.py", "shipping": "ship.py"}
    handlers = {service: start(service, file) for service, file in files.items()}

    def kill_sidecar(service):
        sidecars[service].kill()
        sidecars[service].start()

    def kill_handler(service):
        handlers[service].kill()
        handlers[service] = start(service, files[service])

    for enough, kill, service in ((20, kill_sidecar, "shop"), (35, kill_handler, "shipping"),
                                  (50, kill_sidecar, "shipping"), (65, kill_handler, "shop")):
        orders = start("shop", "place_orders.py", 80)
        eventually(lambda: shop.value("SELECT count(*) FROM orders") >= enough)  # pylint: disable=cell-var-from-loop
        kill(service)
        orders.kill()
    start("shop", "place_orders.py", 80)
    eventually(lambda: shop.value("SELECT sum(shipments) FROM orders") >= 80, timeout=120, what="80 orders to be shipped")
    placed = shop.value("SELECT array_agg(id ORDER BY id) FROM orders")
    assert len(placed) == 80
    assert shop.query("SELECT id, shipments FROM orders WHERE shipments <> 1") == []
    assert shipping.value("SELECT array_agg(order_id ORDER BY order_id) FROM shipments") == placed
    assert shop.value("SELECT array_agg(convert_from(key, 'UTF8')::bigint ORDER BY seq) FROM inbox.outbox") == placed


def test_the_transactions_of_the_documentation_complete_their_messages(inboxd, inbox):
    inbox.execute(INVOICES)
    inbox.execute("INSERT INTO inbox.inbox_messages (seq, source, event_id, topic, kafka_partition, kafka_offset,"
                  " claimed_by, delivery_count) OVERRIDING SYSTEM VALUE VALUES (9001, 's', 'x', 'other', 0, 1, 17, 2),"
                  " (9002, 's', 'y', 'other', 0, 2, 17, 1), (9003, 's', 'z', 'other', 0, 3, 17, 1)")
    one, several = [block for block in blocks(ROOT / "docs/handlers.md", "sql") if "inbox.complete" in block]
    inbox.execute(one)
    inbox.execute(several)
    assert [(inbox.message(name)["status"], inbox.message(name)["result"]) for name in "xyz"] == \
        [("processed", {"invoice": 88}), ("processed", {"invoice": 88}), ("processed", None)]
    assert inbox.value("SELECT cents FROM invoices WHERE order_id = 17") == 1250


def test_the_statements_of_the_readme_work(inboxd, handler, produce, topic, inbox):
    handler(inboxd, by_id({"A234": [dead("boom", "UPSTREAM")], "B": [dead("boom", "UPSTREAM")]}))
    for event_id in ("A234", "B"):
        produce(topic, b"{}", headers={"id": event_id})
        inbox.wait_status(event_id, "dead")
    shown, = [block for block in blocks(ROOT / "README.md", "sql") if "inbox.replay" in block]
    inbox.execute(shown.replace("inbox.replay('orders'", f"inbox.replay('{topic}'"))
    inbox.wait_processed(2)
