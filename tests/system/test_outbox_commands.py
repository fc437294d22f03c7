"""`inboxd outbox`, from outside: output, changes, exit codes."""

import json

import pytest

from test_commands import objects, run


@pytest.fixture
def sidecar(make_inboxd):
    """A sidecar with a schema; it does not run."""
    sidecar = make_inboxd()
    run(sidecar, "migrate")
    return sidecar


@pytest.fixture
def emitted(sidecar, inbox):
    """Five events: waiting, retrying, parked, dead, published. Returns their ids."""
    ids = [inbox.value("SELECT inbox.emit('orders', %s, 'order.paid', %s::jsonb, '{\"tenant\": \"a\"}', id => %s)",
                       [f"k{number}", json.dumps({"n": number}), f"e{number}"]) for number in range(5)]
    for change, seq in (("available_at = now() + interval '1 h', retry_count = 3, error = 'no leader', error_code = 'LEADER'", 2),
                        ("available_at = 'infinity'", 3), ("dead_at = now(), error = 'too large', error_code = 'SIZE'", 4),
                        ("published_at = now(), kafka_partition = 1, kafka_offset = 7", 5)):
        inbox.execute(f"UPDATE inbox.outbox SET {change} WHERE seq = {seq}")
    return ids


def test_status_counts_the_events(sidecar, emitted):
    table = run(sidecar, "outbox", "status")
    assert [line.split()[:2] for line in table.splitlines()[1:5]] == [["waiting", "3"], ["retrying", "1"], ["parked", "1"],
                                                                     ["dead", "1"]]
    (status,) = objects(run(sidecar, "outbox", "status", "--json"))
    assert (status["waiting"], status["last_seq"], status["relay"]) == (3, 5, None)
    assert len(emitted) == 5


def test_list_is_a_table_with_filters_and_pages(sidecar, emitted):
    lines = run(sidecar, "outbox", "list").splitlines()
    assert lines[0].split() == ["SEQ", "STATUS", "TOPIC", "KEY", "TYPE", "EVENT", "ID", "EMITTED", "ERROR"]
    assert [line.split()[1] for line in lines[1:]] == ["waiting", "retrying", "parked", "dead", "published"]
    assert "LEADER: no leader" in lines[2]
    assert [row["event_id"] for row in objects(run(sidecar, "outbox", "list", "--status", "waiting", "--json"))] == emitted[:3]
    (row,) = objects(run(sidecar, "outbox", "list", "--code", "SIZE", "--dead", "--json"))
    assert (row["event_id"], row["status"], "payload" in row) == ("e3", "dead", False)
    assert [row["seq"] for row in objects(run(sidecar, "outbox", "list", "--after", "1", "--limit", "2", "--json"))] == [2, 3]


def test_a_filter_by_topic_knows_the_topic_of_the_configuration(make_inboxd, inbox):
    sidecar = make_inboxd(outbox={"topic": "shop.{aggregate}"})
    run(sidecar, "migrate")
    inbox.execute("SELECT inbox.emit(NULL, 'k', 't', '{}', aggregate => 'order'), inbox.emit('order', 'k', 't', '{}')")
    assert [row["seq"] for row in objects(run(sidecar, "outbox", "list", "--topic", "shop.order", "--json"))] == [1]
    run(sidecar, "outbox", "discard", "--topic", "shop.order", "--reason", "r", "--yes")
    assert [row["seq"] for row in objects(run(sidecar, "outbox", "list", "--status", "discarded", "--json"))] == [1]
    assert run(sidecar, "outbox", "list", "--dead", "--json") == ""


@pytest.mark.parametrize("word", ["e4", "5"])
def test_show_prints_everything_about_an_event(sidecar, emitted, word):
    text = run(sidecar, "outbox", "show", word)
    assert emitted[4] == "e4"
    for part in ("event id: e4", "status: published", "record: orders/1/7", "tenant: a", '"n": 4'):
        assert part in text
    assert run(sidecar, "outbox", "show", word, "--payload", "raw") == '{"n": 4}'
    assert objects(run(sidecar, "outbox", "show", word, "--json"))[0]["payload_json"] == {"n": 4}


def test_replay_and_discard_change_events(sidecar, emitted, inbox):
    assert run(sidecar, "outbox", "replay", "--dead", "--reason", "fixed", "--yes") == "1 replayed\n"
    assert inbox.value("SELECT status FROM inbox.events WHERE event_id = %s", [emitted[3]]) == "retrying"
    (done,) = objects(run(sidecar, "outbox", "discard", emitted[2], "--reason", "old", "--yes", "--json"))
    assert done == {"action": "discard", "count": 1, "dry_run": False}
    assert inbox.value("SELECT error FROM inbox.events WHERE event_id = %s", [emitted[2]]) == "old"
    run(sidecar, "outbox", "replay", "--status", "published", "--yes")
    assert inbox.value("SELECT array_agg(status ORDER BY seq) FROM inbox.events WHERE event_id = %s",
                       [emitted[4]]) == ["published", "waiting"]
    assert [tuple(row.values()) for row in inbox.query("SELECT action, reason FROM inbox.inbox_audit ORDER BY seq")] == [
        ("outbox_replay", "fixed"), ("outbox_discard", "old"), ("outbox_replay", None)]


def test_an_event_id_is_replayed_without_its_status_if_it_is_dead_or_retrying(sidecar, emitted, inbox):
    for event_id in (emitted[1], emitted[3]):
        assert run(sidecar, "outbox", "replay", event_id, "--yes") == "1 replayed\n"
    for event_id in (emitted[0], emitted[2], emitted[4]):
        assert "no event matches" in run(sidecar, "outbox", "replay", event_id, "--yes", code=6)
    assert inbox.value("SELECT array_agg(status ORDER BY seq) FROM inbox.events") == [
        "waiting", "retrying", "parked", "retrying", "published"]
    assert inbox.value("SELECT bool_and(available_at <= now()) FROM inbox.events WHERE status = 'retrying'")


def test_a_dry_run_changes_nothing(sidecar, emitted, inbox):
    before = inbox.query("SELECT * FROM inbox.outbox ORDER BY seq")
    run(sidecar, "outbox", "discard", "--status", "waiting", "--dry-run")
    assert inbox.query("SELECT * FROM inbox.outbox ORDER BY seq") == before
    assert len(emitted) == len(before)


def test_a_request_is_followed_to_its_events_and_their_messages(sidecar, inbox):
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    parent = f"00-{trace}-00f067aa0ba902b7-01"
    with inbox.connect() as connection, connection.transaction():
        token = connection.execute("SELECT token FROM inbox.request_begin('order-17', 'f', scope => 'tenant')").fetchone()["token"]
        connection.execute("SELECT set_config('inboxd.traceparent', %s, true)", [parent])
        connection.execute("SELECT inbox.emit('orders', 'k', 'order.paid', '{}', id => 'e1'), inbox.request_complete(%s, 201)", [token])
    seqs = [inbox.value("INSERT INTO inbox.inbox_messages (source, event_id, event_type, topic, kafka_partition, kafka_offset, headers,"
                        " claimed_by, delivery_count) VALUES ('shop', %s, 'order.paid', 'orders', 0, %s, %s::jsonb, 1, 1) RETURNING seq",
                        [name, place, json.dumps([["traceparent", parent]])]) for place, name in enumerate(["e1", "again"])]
    inbox.execute("SELECT inbox.complete(%s, NULL, '[{\"topic\": \"mails\", \"type\": \"mail\", \"id\": \"m1\"}]')", [f"{seqs[0]}.1.1"])

    of_request = run(sidecar, "requests", "show", "order-17")
    assert f"trace\n  id: {trace}\n" in of_request
    assert "events that it has caused\n  orders: order.paid e1, waiting (seq 1 of the outbox)\n" in of_request
    assert "caused by the request with the key: order-17 of the scope tenant\n" in run(sidecar, "outbox", "show", "e1")
    assert [row["event_id"] for row in objects(run(sidecar, "outbox", "list", "--trace", parent, "--json"))] == ["e1", "m1"]
    assert [row["event_id"] for row in objects(run(sidecar, "list", "--trace", trace, "--json"))] == ["again", "e1"]
    assert [row["event_id"] for row in objects(run(sidecar, "list", "--trace", trace, "--reverse", "--json"))] == ["e1", "again"]
    assert "\n  mails: mail m1, waiting (seq 2 of the outbox)\n" in run(sidecar, "show", "e1")
    assert f"caused by the message with seq: {seqs[0]}: order.paid e1 from shop (orders/0/0)\n" in run(sidecar, "outbox", "show", "m1")
    for arguments in (["show", "e1"], ["requests", "show", "order-17"]):
        (shown,) = objects(run(sidecar, *arguments, "--json"))
        assert (shown["trace"], len(shown["caused"]), shown["all_caused"]) == (trace, 1, True)
    assert "trace is 'x'; it is an id of 32 hexadecimal digits, or a traceparent" in run(sidecar, "list", "--trace", "x", code=1)


@pytest.mark.parametrize("arguments, code, words", [
    ([], 1, "outbox: give one of status, list, show, replay, discard"),
    (["remove"], 1, "outbox: give one of status, list, show, replay, discard"),
    (["status", "--topic", "x"], 1, "outbox status does not take filters"),
    (["status", "--dry-run"], 1, "outbox status does not take --dry-run"),
    (["list", "e1"], 1, "outbox list does not take the argument \"e1\""),
    (["list", "--reason", "x"], 1, "outbox list does not take --reason"),
    (["status", "--max", "1"], 1, "outbox status does not take --max"),
    (["show", "1", "--limit", "1"], 1, "outbox show does not take --limit"),
    (["show"], 1, "outbox show: give an event id or a seq"),
    (["show", "nothing"], 6, "there is no event with the id or seq \"nothing\""),
    (["replay"], 1, "outbox replay: give an event id, or filters"),
    (["replay", "--status", "parked", "--yes"], 1, "status is 'parked'; it may be dead, retrying, failed, published"),
    (["discard", "nothing", "--yes"], 6, "no event matches")])
def test_a_wrong_call_is_explained(sidecar, arguments, code, words):
    assert words in run(sidecar, "outbox", *arguments, code=code)
