"""The view inbox.outboxevent beside the tables that Debezium's outbox event router reads. The definitions of the columns and
the form of the records are those of Debezium's documentation."""

import psycopg
import pytest

from support.outbox import Outbox
from support.wait import eventually

# The table of the outbox event router: "Basic outbox table".
ROUTER = """id uuid NOT NULL, aggregatetype character varying(255) NOT NULL, aggregateid character varying(255) NOT NULL,
            type character varying(255) NOT NULL, payload jsonb"""
# The table of the outbox extension for Quarkus: "Build time configuration options".
QUARKUS = """id UUID NOT NULL, aggregatetype VARCHAR(255) NOT NULL, aggregateid VARCHAR(255) NOT NULL,
             type VARCHAR(255) NOT NULL, timestamp TIMESTAMP NOT NULL, payload VARCHAR(8000), tracingspancontext VARCHAR(256)"""
TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
PAYLOADS = ['{"id": 42, "text": "für 10 €", "number": 1.50}', '"text"', "[]", None]


@pytest.fixture
def aggregate(streams, name):
    """An aggregate type whose topic exists."""
    streams.create(f"outbox.event.{name}.Order", 3)
    return f"{name}.Order"


def fill(inbox, columns, aggregate):
    """Creates Debezium's table with a row for each payload. Returns the names of its columns."""
    inbox.execute(f"CREATE TABLE theirs ({columns})")
    names = [row["column_name"] for row in inbox.query(
        "SELECT column_name FROM information_schema.columns WHERE table_name = 'theirs' ORDER BY ordinal_position")]
    extra = {"timestamp": "now() - interval '1 hour'", "tracingspancontext": f"E'#Mon Nov 23\\ntraceparent={TRACE}\\n'"}
    more = [column for column in names if column in extra]
    for number, payload in enumerate(PAYLOADS):
        inbox.execute(
            f"INSERT INTO theirs (id, aggregatetype, aggregateid, type, payload{''.join(f', {one}' for one in more)})"
            f" VALUES (gen_random_uuid(), %s, %s, %s, %s{''.join(f', {extra[one]}' for one in more)})",
            [aggregate, f"order-{number}", f"Order{number}", payload])
    return names


@pytest.mark.parametrize("columns", [ROUTER, QUARKUS], ids=["router", "quarkus"])
def test_a_row_of_debeziums_table_becomes_the_record_of_its_router(start_inboxd, streams, inbox, aggregate, columns):
    """As the router makes it with StringConverter for key and value. inboxd adds the header eventType."""
    start_inboxd(outbox={"enabled": True})
    names = ", ".join(fill(inbox, columns, aggregate))
    rows = inbox.query("SELECT *, payload::text AS text FROM theirs")
    with inbox.connect() as service:
        added = service.execute(f"INSERT INTO inbox.outboxevent ({names}) SELECT {names} FROM theirs")
        assert added.rowcount == len(PAYLOADS)
        for row in rows:
            assert service.execute("DELETE FROM inbox.outboxevent WHERE id = %s", [row["id"]]).rowcount == 1
    records = {record.key(): record for record in streams.read(f"outbox.event.{aggregate}", len(PAYLOADS))}
    for row in rows:
        record = records[row["aggregateid"].encode()]
        assert record.value() == (None if row["text"] is None else row["text"].encode())
        expected = [("id", str(row["id"]).encode()), ("eventType", row["type"].encode())]
        if "tracingspancontext" in row:
            expected.append(("traceparent", TRACE.encode()))
        assert record.headers() == expected
    eventually(lambda: Outbox(inbox).count() == 0)


@pytest.mark.parametrize("columns", [ROUTER, QUARKUS], ids=["router", "quarkus"])
def test_the_view_has_each_column_of_debeziums_table(start_inboxd, inbox, aggregate, columns):
    start_inboxd()
    names = fill(inbox, columns, aggregate)
    own = [row["column_name"] for row in inbox.query(
        "SELECT column_name FROM information_schema.columns WHERE table_schema = 'inbox' AND table_name = 'outboxevent'")]
    assert set(names) <= set(own)
    with pytest.raises(psycopg.errors.UndefinedColumn):
        inbox.execute("INSERT INTO inbox.outboxevent (customer) VALUES ('a')")
