"""The handlers of examples/without_library, run as they say."""

import pathlib
import socket
import sys

import pytest

from support import process
from support.wait import eventually

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples/without_library"


@pytest.fixture
def send(produce, topic):
    return lambda event_id, value=b'{"order": 17}': produce(topic, value, headers={"id": event_id}, key=b"k")


def test_the_command_makes_each_invoice_once(inboxd, bridge, send, inbox, postgres_server, database):
    inbox.execute('CREATE TABLE invoices (event_id text, "order" jsonb)')
    bridge(inboxd, "exec", "--settled", "--", EXAMPLES / "command.sh", env=postgres_server.environment(database))
    for event_id in ("A 1", "A'2", "A$3"):
        send(event_id)
    inbox.wait_processed(3)
    rows = inbox.query("SELECT * FROM invoices ORDER BY event_id")
    assert [row["event_id"] for row in rows] == ["A 1", "A$3", "A'2"]
    assert all(row["order"] == {"order": 17} for row in rows)


def test_perl_counts_the_messages(inboxd, bridge, send, inbox):
    bridge(inboxd, "exec", "--lines", "--", "perl", EXAMPLES / "lines.pl")
    for event_id in ("a", "b"):
        send(event_id)
    send("tombstone", None)
    assert inbox.wait_status("b", "processed")["result"] == {"count": 2}
    row = inbox.wait_status("tombstone", "dead")
    assert row["error"] == "the order has no data"
    eventually(lambda: inbox.count("processed") == 2)


def is_listening(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_the_receiver_makes_invoices(inboxd, bridge, send, inbox, tmp_path):
    port = process.free_port()
    server = process.spawn([sys.executable, str(EXAMPLES / "receiver.py"), str(port)], str(tmp_path / "log"))
    eventually(lambda: is_listening(port))
    bridge(inboxd, "forward", "--url", f"http://127.0.0.1:{port}/events")
    send("a", b'{"cents": 1250}')
    assert inbox.wait_status("a", "processed")["result"] == {"invoice": 1}
    send("b", b"{}")
    row = inbox.wait_status("b", "dead")
    assert row["error_code"] == "HTTP_422" and "an order without cents" in row["error"]
    process.end(server)
