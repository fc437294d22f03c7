"""What operators read: list and show, and the numbers on which they agree."""

import contextlib
import datetime
import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import termios

import pytest

from support.scripts import always, by_id
from support.sidecar import binary
from support.wait import eventually
from support.wire import CLOSE, dead, NEVER, retry, snooze


def run(sidecar, *arguments):
    result = sidecar.command(*arguments)
    assert result.returncode == 0, (result.stdout, result.stderr)
    return result.stdout


def objects(text):
    return [json.loads(line) for line in text.splitlines()]


def cells(table):
    """The rows of a printed table as dictionaries; its columns begin where their titles do."""
    head, *lines = table.splitlines()
    titles = [(match.start(), match[0]) for match in re.finditer(r"\S+(?: \S+)*", head)]
    ends = [start for start, _ in titles[1:]] + [None]
    return [{title: line[start:end].strip() for (start, title), end in zip(titles, ends)} for line in lines]


# Counts that agree


@pytest.mark.parametrize("answer, settings, spent, crashes", [
    (dead(reason="no price", code="PRICE"), {}, 1, 0),
    (retry(reason="upstream 503", delay_ms=0), {"max_attempts": 2}, 2, 0),
    (NEVER, {"max_attempts": 1}, 1, 0),
    (CLOSE, {"max_crashes": 1}, 0, 1),
], ids=["verdict", "max_attempts", "timeout", "crash"])
def test_counts_agree(start_inboxd, make_topic, handler, streams, topic, inbox, answer, settings, spent, crashes):
    """However a message died, the row, list, show and the dead topic have the same number of attempts."""
    dead_topic = make_topic(partitions=1)
    sidecar = start_inboxd(retry={"dead_topic": dead_topic, "backoff": "10ms", **settings})
    streams.events(topic, ["x"])
    for _ in range(2 if answer is CLOSE else 1):
        eventually(lambda client=handler(sidecar, always(answer), timeout_ms=300 if answer is NEVER else None): client.deliveries)
    headers = {name: value.decode() for name, value in streams.read(dead_topic, 1)[0].headers()}
    row = inbox.wait_status("x", "dead")
    shown = run(sidecar, "show", "x")
    assert (row["retry_count"], row["crash_count"]) == (spent, crashes)
    assert cells(run(sidecar, "list", "--dead"))[0]["TRIES"] == str(spent)
    assert [each["retry_count"] for each in objects(run(sidecar, "list", "--json"))] == [spent]
    assert json.loads(run(sidecar, "show", "x", "--json"))["retry_count"] == spent
    assert f"\n  attempts spent: {spent}\n" in shown
    assert ("\n  crashes: 1\n" in shown) is (crashes == 1)
    assert (headers["inboxd-attempts"], headers["inboxd-crashes"]) == (str(spent), str(crashes))
    run(sidecar, "replay", "x", "--yes")
    (entry,) = [entry for entry in inbox.message("x")["attempts"] if "replayed_by" in entry]
    assert (entry["was"], entry["attempts"]) == ("dead", spent)


# Show takes what list prints


@pytest.fixture
def listed(inboxd, streams, topic, inbox):
    """The printed rows of a and b, which wait for a handler."""
    streams.events(topic, ["a", "b"])
    inbox.wait_stored(2)
    return {row["EVENT ID"]: row for row in cells(run(inboxd, "list"))}


def test_show_takes_what_list_prints(inboxd, listed):
    for event_id, row in listed.items():
        for name in (event_id, row["SEQ"], row["RECORD"]):
            shown = json.loads(run(inboxd, "show", name, "--json"))
            assert (shown["event_id"], str(shown["seq"])) == (event_id, row["SEQ"]), name
        for by, name in (("id", event_id), ("seq", row["SEQ"]), ("record", row["RECORD"])):
            assert f"\n  event id: {event_id}\n" in run(inboxd, "show", "--by", by, name)


def test_show_says_what_else_its_argument_may_be(inboxd, listed, streams, topic, inbox):
    seq, record = listed["a"]["SEQ"], listed["a"]["RECORD"]
    streams.events(topic, [seq, record])
    inbox.wait_stored(4)
    for by, name in (("seq", seq), ("record", record)):
        result = inboxd.command("show", name, "--json")
        assert json.loads(result.stdout)["event_id"] == name
        assert result.stderr == \
            f'{name} is an event id, and also the {by} of event "a"; to see that one: inboxd show --by {by} {name}\n'
        result = inboxd.command("show", "--by", by, name, "--json")
        assert (json.loads(result.stdout)["event_id"], result.stderr) == ("a", "")
        assert inboxd.command("show", "--by", "id", name).stderr == ""


def test_export_prints_the_params_of_the_delivery(start_inboxd, streams, topic, inbox, handler):
    """With values replaced. A pointer that fits nothing prints nothing."""
    sidecar = start_inboxd()
    data = b'{"order": 17, "price": 1.50, "customer": {"e/mail": "a@b", "vip": true}, "items": [{"note": "x", "n": 1}, {"note": [2]}]}'
    streams.events(topic, ["a"], key=lambda _: b"k", value=lambda _: data)
    delivered = handler(sidecar, always(dead("no"))).wait_count(1)[0].params
    inbox.wait_status("a", "dead")
    exported = json.loads(run(sidecar, "export", "a"))
    assert exported.pop("delivery") == {"claim": "exported", "seq": delivered["delivery"]["seq"], "attempt": 1, "max_attempts": 10, "replay": False}
    assert exported == {name: delivered[name] for name in ("event", "headers")}
    pointers = ["/payload/customer/e~1mail", "/payload/items/*/note", "/payload/customer/vip", "/payload/order", "/event/partitionkey"]
    text = run(sidecar, "export", "a", *(word for pointer in pointers for word in ("--redact", pointer)))
    assert '"price": 1.50' in text
    assert json.loads(text)["event"] == {**delivered["event"], "partitionkey": "redacted", "data": {
        "order": 0, "price": 1.5, "customer": {"e/mail": "redacted", "vip": False}, "items": [{"note": "redacted", "n": 1}, {"note": []}]}}
    both = b'{"specversion": "1.0", "id": "b", "source": "s", "type": "t", "data": {"order": 17}, "data_base64": "c2VjcmV0"}'
    streams.produce(topic, both, headers={"content-type": "application/cloudevents+json"})
    inbox.wait_status("b", "dead")
    text = run(sidecar, "export", "b", "--redact", "/payload/order")
    assert "c2VjcmV0" not in text and json.loads(text)["event"]["data"] == {"order": 0}
    result = sidecar.command("export", "a", "--redact", "/payload/order", "--redact", "/payload/items/2")
    assert (result.returncode, result.stdout) == (6, "") and "/payload/items/2" in result.stderr


@pytest.mark.parametrize("arguments, code, words", [
    (["999999999"], 6, 'no message with event id or seq "999999999"'),
    (["--by", "seq", "999999999"], 6, 'no message with seq "999999999"'),
    (["orders/0/999999999"], 6, 'no message of the record "orders/0/999999999" was found'),
    (["orders/0/x"], 6, 'no message with event id "orders/0/x"'),
    (["--by", "seq", "x"], 1, 'show: "x" is no seq, such as 1407'),
    (["--by", "record", "orders/0"], 1, 'show: "orders/0" is no record, such as orders/0/389'),
    (["--by", "key", "x"], 1, '--by: "key" is none of: id seq record'),
    (["99999999999999999999"], 6, 'no message with event id "99999999999999999999"'),
])
def test_show_of_something_unknown(inboxd, listed, arguments, code, words):
    result = inboxd.command("show", *arguments)
    assert (result.returncode, result.stdout) == (code, "") and words in result.stderr, result.stderr


def test_show_says_that_the_search_for_a_record_is_bounded(inboxd, listed, topic):
    result = inboxd.command("show", f"{topic}/0/999999999")
    assert result.returncode == 6
    assert f"the search reads part of the table, and `inboxd list --topic {topic}` all of it" in result.stderr


def test_show_of_an_event_id_needs_no_right_to_look_for_a_record(inboxd, streams, topic, inbox):
    streams.events(topic, ["a/1/2"])
    inbox.wait_stored(1)
    inbox.execute("DROP FUNCTION inbox.find_record")
    shown = inboxd.command("show", "a/1/2", "--json")
    assert (shown.returncode, json.loads(shown.stdout)["event_id"], shown.stderr) == (0, "a/1/2", "")
    assert inboxd.command("show", "--by", "record", "a/1/2").returncode == 3


def test_show_of_a_seq_selects_one_source_and_one_consumer(inboxd, topic, inbox):
    inbox.execute("INSERT INTO inbox.inbox_messages (source, event_id, consumer, topic, kafka_partition, kafka_offset, dead_at)"
                  " SELECT s, 'x', c, %s, 0, 1000 + row_number() OVER (), now() FROM unnest('{here,there}'::text[]) s, "
                  "unnest('{billing,search}'::text[]) c", [topic])
    assert "select one with --source, or give its seq" in inboxd.command("show", "x").stderr
    for row in inbox.messages():
        (shown,) = objects(run(inboxd, "show", str(row["seq"]), "--json"))
        assert (shown["source"], shown["consumer"]) == (row["source"], row["consumer"])
        assert inboxd.command("show", str(row["seq"]), "--source", "elsewhere").returncode == 6
        assert inboxd.command("show", str(row["seq"]), "--consumer", "elsewhere").returncode == 6


def test_show_of_a_parked_message_says_when_the_one_before_it_is_due(start_inboxd, handler, streams, topic, inbox):
    sidecar = start_inboxd(retry={"backoff": "1h", "backoff_max": "1h"})
    handler(sidecar, by_id({"a": retry(reason="upstream 503"), "c": snooze(3_600_000, "closed at night", "NIGHT")}), name="billing")
    streams.events(topic, ["a", "b"], key=lambda _: "k1")
    streams.events(topic, ["c", "d"], key=lambda _: "k2")
    streams.events(topic, ["e"])
    eventually(lambda: inbox.count("parked") == 2 and inbox.count("processed") == 1)
    due = {name: f"{inbox.message(name)['available_at'].astimezone(datetime.timezone.utc):%Y-%m-%dT%H:%M:%SZ}" for name in "ac"}
    seq = {name: inbox.message(name)["seq"] for name in "ac"}
    assert f"\n  waits for: event a of its key (seq {seq['a']}), which is retrying, next attempt at {due['a']}\n" in \
        run(sidecar, "show", "b")
    assert f"\n  waits for: event c of its key (seq {seq['c']}), which is waiting, due at {due['c']}\n" in run(sidecar, "show", "d")
    assert "\n  handler: billing\n" in run(sidecar, "show", "e")
    shown = run(sidecar, "show", "c")
    assert "\n  status: waiting\n" in shown and "\n  error: closed at night\n  code: NIGHT\n  attempts spent: 0\n" in shown
    assert "attempt 1" not in shown and inbox.message("c")["attempts"] is None


# Dead messages by the time of death


@pytest.fixture
def deaths(start_inboxd, handler, streams, topic, inbox):
    """e0, e1 and e2, of which e1 died first, e0 yesterday before noon, and e2 last."""
    sidecar = start_inboxd()
    client = handler(sidecar, always(dead(reason="no price", code="PRICE")))
    streams.events(topic, ["e0", "e1", "e2"])
    eventually(lambda: inbox.count("dead") == 3)
    client.close()
    for event_id, age in (("e1", "3 days"), ("e0", "2 days")):
        inbox.execute("UPDATE inbox.inbox_messages SET dead_at = dead_at - %s::interval WHERE event_id = %s", [age, event_id])
    inbox.execute("UPDATE inbox.inbox_messages SET received_at = received_at - interval '9 days'")
    return sidecar


def test_list_dead_is_by_time_of_death(deaths, inbox):
    def ids(*options):
        return [row["event_id"] for row in objects(run(deaths, "list", "--json", *options))]

    table = cells(run(deaths, "list", "--dead"))
    assert [row["EVENT ID"] for row in table] == ["e2", "e0", "e1"]
    died = inbox.message("e1")["dead_at"].astimezone(datetime.timezone.utc)
    assert table[2]["DIED"] == f"{died:%Y-%m-%dT%H:%M:%SZ}"
    assert ids("--dead") == ids("--status", "dead") == ["e2", "e0", "e1"]
    assert ids("--dead", "--reverse") == ["e1", "e0", "e2"]
    by_seq = [row["event_id"] for row in inbox.messages(order="seq")]
    assert ids("--dead", "--order", "seq") == ids() == by_seq
    assert ids("--reverse") == ids("--dead", "--order", "seq", "--reverse") == by_seq[::-1]
    assert "DIED" not in run(deaths, "list")
    result = deaths.command("list", "--dead", "--limit", "1")
    seq = inbox.message("e2")["seq"]
    assert result.stderr == f"there may be more: --after {seq}\n"
    assert ids("--dead", "--after", str(seq)) == ["e0", "e1"]


def on_terminal(sidecar, columns, *arguments):
    """The lines that a command prints on a terminal of this width, without line breaks of the terminal."""
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    with subprocess.Popen([binary(), *arguments, "-c", sidecar.config_file], env=sidecar.env, stdout=follower) as child:
        os.close(follower)
        seen = b""
        with contextlib.suppress(OSError):  # the other end is closed
            while chunk := os.read(leader, 65536):
                seen += chunk
        os.close(leader)
        assert child.wait(30) == 0
    return seen.decode().replace("\r\n", "\n").splitlines()


def test_a_long_error_is_cut_at_the_width_of_a_terminal_and_nowhere_else(deaths, inbox):
    error = "no price for " + "item " * 2000 + "because the currency is unknown"
    inbox.execute("UPDATE inbox.inbox_messages SET error = %s, error_code = NULL", [error.replace(" because", "\nbecause")])
    assert [row["ERROR"] for row in cells(run(deaths, "list", "--dead"))] == [error] * 3
    for columns in 80, 200:
        lines = on_terminal(deaths, columns, "list", "--dead")
        assert all(line.endswith("…") and len(line) % columns == 0 for line in lines[1:]), lines
    for table in run(deaths, "list", "--dead", "--group"), "\n".join(on_terminal(deaths, 80, "list", "--dead", "--group")):
        (row,) = cells(table)
        assert row["ERROR"].startswith("no price for item ") and row["ERROR"].endswith(" because the currency is unknown")
    (group,) = objects(run(deaths, "list", "--dead", "--group", "--json"))
    assert group["error_shape"] == inbox.value("SELECT error_shape FROM inbox.dead_groups")
    assert f"\n  error: no price for {'item ' * 2000}".rstrip() + "\n      because the currency is unknown\n" in run(deaths, "show", "e0")


def test_a_table_counts_the_columns_of_a_terminal(deaths, inbox):
    """A key of East Asia takes two columns a character, an accent none; nothing may change the direction of the line."""
    for event_id, name in ("e0", "注文"), ("e1", "e\u0301"), ("e2", "a\u202eb\u2028c"):
        inbox.execute("UPDATE inbox.inbox_messages SET event_type = %s WHERE event_id = %s", [name, event_id])
    head, *lines = run(deaths, "list", "--dead").splitlines()
    column = head.index("EVENT ID")
    assert [line.index(event_id) for line, event_id in zip(lines, ("e2", "e0", "e1"))] == [column, column - 2, column + 1]
    assert "a?b?c" in lines[0]


@pytest.mark.parametrize(("code", "error", "shown"), [
    ("ValueError", "ValueError: invalid literal", "ValueError: invalid literal"),
    ("PRICE", "no price", "PRICE: no price"), ("PRICE", None, "PRICE"), (None, "no price", "no price")])
def test_list_shows_a_code_once_that_the_error_begins_with(deaths, inbox, code, error, shown):
    inbox.execute("UPDATE inbox.inbox_messages SET error_code = %s, error = %s", [code, error])
    assert {row["ERROR"] for row in cells(run(deaths, "list", "--dead"))} == {shown}


def test_since_is_about_the_death_of_dead_messages(deaths, inbox):
    def ids(*options):
        return [row["event_id"] for row in objects(run(deaths, "list", "--json", *options))]

    assert ids("--dead", "--since", "1h") == ["e2"]
    assert ids("--dead", "--since", "60h", "--until", "1h") == ["e0"]
    assert ids("--since", "1h") == [] and len(ids("--since", "10d")) == 3
    groups = objects(run(deaths, "list", "--dead", "--group", "--since", "60h", "--json"))
    assert [group["messages"] for group in groups] == [2]
    assert deaths.command("list", "--dead", "--since", "1h").stderr == \
        "note: --since and --until apply to the time of death\n"
    assert run(deaths, "replay", "--dead", "--since", "60h", "--dry-run") == "dry run: replay 2 messages\n"
    assert run(deaths, "replay", "--since", "60h", "--yes") == "2 replayed\n"
    assert [row["event_id"] for row in inbox.messages() if row["dead_at"]] == ["e1"]


@pytest.mark.parametrize("line, words", [
    ("list --order died", "--order died requires --dead"), ("list --status waiting --order died", "--order died requires --dead"),
    ("list --dead --group --reverse", "--reverse is for messages only"), ("list --rejects --order seq", "--order is for messages only"),
    ("list --order age", '"age" is none of: seq died'), ("list --dead --since 1h --until 2h", "--since must be earlier"),
    ("list --dead --after 999999", "did not die, or was deleted"),
])
def test_a_wrong_order_is_a_usage_error(inboxd, line, words):
    result = inboxd.command(*line.split())
    assert result.returncode == 1 and words in result.stderr, result.stderr


# Output that stays small


def test_the_output_does_not_grow_with_the_square_of_the_input(start_inboxd, inbox):
    """Each level of JSON indents its lines, and the widest cell of a table each of its lines."""
    sidecar = start_inboxd()
    nested = "[" * 3500 + "1" + "]" * 3500
    put = "INSERT INTO inbox.{} (event_id, source, topic, {} payload) SELECT %s || i, 's', 'elsewhere', {} %s FROM generate_series(1, %s) i"
    message = put.format("inbox_messages", "kafka_partition, kafka_offset, available_at,", "0, i, now(),")
    inbox.execute(message, ["x", nested.encode(), 1])
    inbox.execute(put.format("outbox", "dead_at, event_type,", "now(), 't',"), ["y", nested.encode(), 1])
    for shown in (run(sidecar, "show", "x1"), run(sidecar, "outbox", "show", "y1")):
        assert f"\npayload (7001 bytes)\n{nested}\n" in shown and len(shown) < 20_000
    inbox.execute(message.replace("0, i", "1, i"), ["e", b"{}", 300])
    inbox.execute(message.replace("0, i", "2, i"), ["wide" * 250, b"{}", 1])
    table = run(sidecar, "list", "--limit", "1000")
    assert len(table.splitlines()) == 303 and len(table) < 303 * 300
    assert re.search(r" (wide){250}1  0  +2", table), "a wide cell is printed whole, and apart from the next one"


def test_json_of_some_levels_is_formatted(start_inboxd, inbox):
    nested = b"[" * 31 + b"1" + b"]" * 31
    sidecar = start_inboxd()
    inbox.execute("INSERT INTO inbox.inbox_messages (event_id, source, topic, kafka_partition, kafka_offset, available_at, payload)"
                  " VALUES ('x', 's', 'elsewhere', 0, 1, now(), %s)", [nested])
    assert "\n" + " " * 31 * 4 + "1\n" in run(sidecar, "show", "x")
