"""A member that cannot process its partitions leaves them to others: it lacks a handler (R16) or the database.
Unassigned partitions are adopted (R6)."""

import json
import threading

import pytest

from support.fixtures import KAFKA_4
from support.librdkafka import CONSUMER_PROTOCOL, later_librdkafka
from support.proxy import Proxy
from support.scripts import always, DONE
from support.wait import eventually, throughout
from support.wire import NEVER, retry

SHORT = {"inbox": {"handler_absence": "2s"}, "worker": {"lease": "3s", "poll": "100ms"}}
ORDERS = [{"types": ["order.*"]}]
MAILS = [{"types": ["mail.*"]}]


BOTH_PROTOCOLS = pytest.mark.parametrize("protocol", ["classic", pytest.param("consumer", marks=KAFKA_4)], indirect=True)


@pytest.fixture
def protocol(request):
    """Arguments of start_inboxd() for the protocol of the group, the classic one unless the test names another."""
    if getattr(request, "param", "classic") == "classic":
        return {}
    return {"kafka": CONSUMER_PROTOCOL, "env": later_librdkafka()}


def second_of(options):
    return {**options, "inbox": {**options.get("inbox", {}), "instance": "second"}}


def owners(inbox):
    """The number of partitions of each live instance."""
    return dict(tuple(row.values()) for row in inbox.query(
        "SELECT i.name, count(*) FROM inbox.inbox_offsets o JOIN inbox.inbox_instances i ON i.id = o.owner"
        " WHERE i.fenced_at IS NULL GROUP BY i.name"))


@pytest.fixture
def send(produce, topic):
    def send(event_id, kind, key=None, partition=None, to=topic):
        produce(to, b"{}", key=key, partition=partition, headers=[("id", event_id), ("type", kind)])

    return send


@pytest.fixture
def everywhere(send):
    """A message in each partition, so that each member needs a handler for it."""
    def send_all(event_id, kind):
        for partition in range(4):
            send(f"{event_id}{partition}", kind, partition=partition)

    return send_all


@pytest.fixture
def lacking(start_inboxd, protocol, handler, everywhere, inbox):
    """Two members; the first lacks the handler for mails, and needs it."""
    first = start_inboxd(SHORT, **protocol)
    second = start_inboxd(second_of(SHORT), **protocol)
    handlers = {
        "first": handler(first, always(DONE), name="orders", subscribe=ORDERS),
        "second": handler(second, always(DONE), name="orders", subscribe=ORDERS),
        "mails": handler(second, always(DONE), name="mails", subscribe=MAILS),
    }
    eventually(lambda: len(owners(inbox)) == 2, timeout=40)
    everywhere("need", "mail.sent")
    return first, second, handlers


def test_r16_a_member_without_a_handler_leaves_its_partitions_to_another(lacking, send, inbox):
    first, second, handlers = lacking
    eventually(lambda: owners(inbox) == {"second": 4}, timeout=40)
    for number in range(40):
        send(f"m{number}", "mail.sent")
        send(f"o{number}", "order.placed")
    inbox.wait_processed(84)
    assert handlers["mails"].count == 44
    assert first.status()["away"] and not second.status()["away"]
    assert first.get("/readyz")[0] == 200, "it is out of the group because it shall be"
    assert "handler_lacking" in first.stderr and "mails" in first.stderr


def third_of(options):
    return {**options, "inbox": {**options.get("inbox", {}), "instance": "third"}}


@pytest.fixture
def members(start_inboxd):
    """Three members with partitions."""
    return [start_inboxd(SHORT), start_inboxd(second_of(SHORT)), start_inboxd(third_of(SHORT))]


def away(members):
    return [member.status()["away"] for member in members]


def test_r16_no_member_leaves_for_a_handler_that_no_message_needs(members, handler, everywhere, inbox):
    """Somebody connects a client for a type that does not exist; the handlers of the pods are named after them."""
    for number, member in enumerate(members):
        handler(member, always(DONE), name=f"orders-{number}", subscribe=ORDERS)
    handler(members[1], always(DONE), name="debug", subscribe=[{"types": ["nothing"]}])
    eventually(lambda: len(owners(inbox)) == 3, timeout=40)
    everywhere("o", "order.placed")
    inbox.wait_processed(4)
    throughout(lambda: away(members) == [False] * 3 and len(owners(inbox)) == 3, seconds=5)


def test_r16_at_most_half_of_the_members_leave(members, handler, everywhere, inbox):
    mails = handler(members[2], always(DONE), name="mails", subscribe=MAILS)
    eventually(lambda: len(owners(inbox)) == 3, timeout=40)
    everywhere("m", "mail.sent")
    eventually(lambda: sum(away(members)) == 1, timeout=40)
    eventually(lambda: len(owners(inbox)) == 2, timeout=40)
    throughout(lambda: sum(away(members)) == 1 and not away(members)[2], seconds=4)
    assert mails.count >= 2


@BOTH_PROTOCOLS
def test_r16_a_static_member_leaves_and_joins_again(start_inboxd, protocol, handler, everywhere, inbox):
    """The group keeps the partitions of a static member that only closes its connection, until its session ends. The classic protocol can
    tell it that the member leaves; with the other one the session (6 s) has to end."""
    static = [{**protocol, "kafka": {**protocol.get("kafka", {"session.timeout.ms": 45000}), "group.instance.id": name}}
              for name in ("one", "two")]
    first = start_inboxd(SHORT, **static[0])
    second = start_inboxd(second_of(SHORT), **static[1])
    for sidecar in (first, second):
        handler(sidecar, always(DONE), name="orders", subscribe=ORDERS)
    handler(second, always(DONE), name="mails", subscribe=MAILS)
    eventually(lambda: len(owners(inbox)) == 2, timeout=25)
    everywhere("m", "mail.sent")
    eventually(lambda: owners(inbox) == {"second": 4}, timeout=25)
    handler(first, always(DONE), name="mails", subscribe=MAILS)
    eventually(lambda: len(owners(inbox)) == 2, timeout=25)


def test_a_member_without_partitions_counts_no_messages_of_them(start_inboxd, handler, send, everywhere, inbox):
    first = start_inboxd(SHORT)
    handler(first, always(DONE), name="orders", subscribe=ORDERS)
    send("m", "mail.sent")
    everywhere("x", "other.one")
    eventually(lambda: first.metric("inboxd_unrouted") == 5, timeout=30)
    second = start_inboxd(second_of(SHORT))
    for name, wanted in (("orders", ORDERS), ("others", [{"types": ["other.*"]}])):
        handler(second, always(DONE), name=name, subscribe=wanted)
    eventually(lambda: owners(inbox) == {"second": 4}, timeout=40)
    eventually(lambda: second.metric("inboxd_unrouted") == 1, timeout=30)
    eventually(lambda: first.metric("inboxd_unrouted") == 0, timeout=30)
    eventually(lambda: first.metric("inboxd_oldest_waiting_seconds") == 0)


@BOTH_PROTOCOLS
def test_r16_it_joins_again_with_its_handler(lacking, handler, inbox):
    first, second, handlers = lacking
    eventually(lambda: owners(inbox) == {"second": 4}, timeout=40)
    handler(first, always(DONE), name="mails", subscribe=MAILS)
    eventually(lambda: len(owners(inbox)) == 2, timeout=40)
    eventually(lambda: not first.status()["away"])


def test_r16_it_joins_again_when_the_other_member_is_gone(lacking, send, inbox):
    first, second, handlers = lacking
    eventually(lambda: owners(inbox) == {"second": 4}, timeout=40)
    inbox.wait_processed(4)
    second.stop()
    send("o", "order.placed")
    inbox.wait_processed(5, timeout=40)
    assert handlers["first"].event_ids == ["o"]


def test_r16_if_two_members_lack_each_others_handler_one_stays(start_inboxd, handler, send, everywhere, inbox):
    first = start_inboxd(SHORT)
    handler(first, always(DONE), name="orders", subscribe=ORDERS)
    second = start_inboxd(second_of(SHORT))
    handler(second, always(DONE), name="mails", subscribe=MAILS)
    sidecars = [first, second]
    eventually(lambda: len(owners(inbox)) == 2, timeout=40)
    everywhere("m", "mail.sent")
    everywhere("o", "order.placed")
    eventually(lambda: sum(sidecar.status()["away"] for sidecar in sidecars) == 1, timeout=40)
    throughout(lambda: sum(sidecar.status()["away"] for sidecar in sidecars) == 1, seconds=4)
    stays = next(sidecar for sidecar in sidecars if not sidecar.status()["away"])
    send("x", "order.placed" if stays is first else "mail.sent")
    inbox.wait_status("x", "processed", timeout=40)


def test_r16_with_never_no_member_leaves(start_inboxd, handler, everywhere, inbox):
    never = {**SHORT, "inbox": {"handler_absence": "never"}}
    first = start_inboxd(never)
    handler(first, always(DONE), name="orders", subscribe=ORDERS)
    second = start_inboxd(second_of(never))
    handler(second, always(DONE), name="mails", subscribe=MAILS)
    eventually(lambda: len(owners(inbox)) == 2, timeout=40)
    everywhere("m", "mail.sent")
    everywhere("o", "order.placed")
    throughout(lambda: len(owners(inbox)) == 2, seconds=5)


@pytest.mark.slow
@BOTH_PROTOCOLS
def test_r6_a_member_without_the_database_for_a_lease_leaves_the_group(start_inboxd, protocol, handler, streams, topic, inbox,
                                                                       postgres_server):
    with Proxy(postgres_server.port) as proxy:
        cut_off = start_inboxd(SHORT, postgres={"port": proxy.port}, **protocol)
        handler(cut_off, always(DONE))
        second = start_inboxd(second_of(SHORT), **protocol)
        client = handler(second, always(DONE))
        eventually(lambda: len(owners(inbox)) == 2, timeout=40)
        proxy.refuse()
        streams.events(topic, [str(number) for number in range(200)], key=lambda event_id: event_id)
        inbox.wait_processed(200, timeout=40)
        assert client.count > 0
        eventually(lambda: "group_left" in cut_off.stderr)
        proxy.accept()
        eventually(lambda: cut_off.get("/readyz")[0] == 200, timeout=40)
        eventually(lambda: len(owners(inbox)) == 2, timeout=40)
        streams.events(topic, [f"b{number}" for number in range(200)], key=lambda event_id: event_id)
        inbox.wait_processed(400)


# --- Unassigned partitions -------------------------------------------------------------

@pytest.fixture
def former(make_topic):
    return make_topic(partitions=1)


@pytest.fixture
def left_waiting(start_inboxd, former, send, inbox):
    """Unhandled messages of a topic that is no longer read."""
    sidecar = start_inboxd(SHORT, kafka={"topics": [former]})
    for number in range(20):
        send(f"f{number}", "order.placed", key="k", to=former, partition=0)
    inbox.wait_stored(20)
    sidecar.stop()
    return [f"f{number}" for number in range(20)]


def test_r6_messages_of_an_unsubscribed_topic_are_handled_in_order(left_waiting, start_inboxd, handler, send, inbox):
    sidecar = start_inboxd(SHORT)
    client = handler(sidecar, always(DONE))
    send("new", "order.placed", key="k")
    inbox.wait_processed(21, timeout=40)
    assert [event_id for event_id in client.event_ids if event_id != "new"] == left_waiting
    assert "partitions_adopted" in sidecar.stderr
    assert sidecar.stop() == 0
    assert not inbox.value("SELECT count(*) FROM inbox.inbox_offsets WHERE owner IS NOT NULL")


def test_r6_an_instance_without_a_matching_handler_does_not_adopt(left_waiting, start_inboxd, handler, topic, inbox):
    sidecar = start_inboxd(SHORT)
    client = handler(sidecar, always(DONE), subscribe=[{"topic": topic}])
    eventually(lambda: owners(inbox) == {sidecar_name(inbox): 4}, timeout=40)
    throughout(lambda: not client.deliveries and sum(owners(inbox).values()) == 4, seconds=8)


def test_r6_a_restarted_handler_gets_the_adopted_messages(left_waiting, start_inboxd, handler):
    sidecar = start_inboxd(SHORT, worker={"lease": "12s"})
    first = handler(sidecar, lambda delivery: NEVER if delivery.event_id == "f0" else DONE)
    first.wait_event("f0", timeout=60)
    first.close()
    throughout(lambda: "adoption_ended" not in sidecar.stderr, seconds=6)  # one round, or two: every five seconds
    again = handler(sidecar, always(DONE))
    again.wait_event("f19")
    assert "adoption_ended" not in sidecar.stderr


def test_r6_a_partition_owned_only_in_the_table_is_adopted_where_a_handler_is(left_waiting, start_inboxd, handler,
                                                                              topic, former, inbox):
    """The state after a lost answer to the COMMIT of an acquire or adopt, when the partition and the handler are gone."""
    first = start_inboxd(SHORT)
    handler(first, always(DONE), subscribe=[{"topic": topic}])
    eventually(lambda: len(owners(inbox)) == 1, timeout=40)
    inbox.query("UPDATE inbox.inbox_offsets SET owner = (SELECT id FROM inbox.inbox_instances WHERE fenced_at IS NULL)"
                " WHERE topic = %s RETURNING owner", [former])
    second = start_inboxd(second_of(SHORT))
    client = handler(second, always(DONE))
    inbox.wait_processed(20, timeout=40)
    assert client.event_ids == left_waiting


def test_r16_an_away_member_leaves_adopted_partitions_to_a_complete_member(start_inboxd, handler, former, send, inbox):
    reader = start_inboxd(SHORT, kafka={"topics": [former]})
    send("o", "order.placed", key="k", to=former, partition=0)
    send("m", "mail.sent", key="k2", to=former, partition=0)
    inbox.wait_stored(2)
    reader.stop()
    first = start_inboxd(SHORT)
    handler(first, always(DONE), name="orders", subscribe=ORDERS)
    inbox.wait_processed(1, timeout=40)
    second = start_inboxd(second_of(SHORT))
    handler(second, always(DONE), name="orders", subscribe=ORDERS)
    mails = handler(second, always(DONE), name="mails", subscribe=MAILS)
    inbox.wait_processed(2, timeout=60)
    assert mails.event_ids == ["m"]
    assert first.status()["away"]


def test_r16_an_away_member_adopts_what_no_other_member_can_handle(left_waiting, start_inboxd, handler, everywhere, topic, inbox):
    first = start_inboxd(SHORT, kafka={"topics": [topic]})
    second = start_inboxd(second_of(SHORT))
    handler(second, always(DONE), name="orders", subscribe=[{"topic": topic, "types": ["order.*"]}])
    handler(second, always(DONE), name="mails", subscribe=[{"topic": topic, "types": ["mail.*"]}])
    eventually(lambda: len(owners(inbox)) == 2, timeout=40)
    everywhere("m", "mail.sent")
    eventually(lambda: first.status()["away"], timeout=40)
    client = handler(first, always(DONE), name="orders", subscribe=ORDERS)
    inbox.wait_processed(24, timeout=60)
    assert client.event_ids == left_waiting
    assert first.status()["away"]


def sidecar_name(inbox):
    return inbox.value("SELECT name FROM inbox.inbox_instances WHERE fenced_at IS NULL")


def test_r6_the_assigned_member_acquires_the_partition_from_its_adopter(left_waiting, start_inboxd, handler, former,
                                                                        send, inbox):
    adopter = start_inboxd(SHORT)
    old = handler(adopter, lambda delivery: NEVER if delivery.event_id == "f0" else DONE, timeout_ms=60000)
    old.wait_event("f0")
    reader = start_inboxd(second_of(SHORT), kafka={"topics": [former]})
    new = handler(reader, always(DONE))
    eventually(lambda: owners(inbox).get("second") == 1, timeout=40)
    send("f20", "order.placed", key="k", to=former, partition=0)
    inbox.wait_stored(21)
    # The adopter has noticed it when it has returned undelivered messages.
    eventually(lambda: inbox.count("claimed") == 1)
    assert not new.deliveries
    old.answer(old.deliveries[0], DONE)
    inbox.wait_processed(21)
    assert old.event_ids == ["f0"]
    assert new.event_ids == [*left_waiting[1:], "f20"]
    assert adopter.status()["group_joined"], "it goes on with its own partitions"


def test_r6_an_instance_started_without_kafka_waits_for_it(left_waiting, make_inboxd, handler, kafka, inbox):
    kafka.stop()
    sidecar = make_inboxd(SHORT).start(ready=False)
    eventually(lambda: "event=started" in sidecar.stderr)
    client = handler(sidecar, always(DONE))
    throughout(lambda: not client.deliveries, seconds=9)  # a lease and an adoption round
    kafka.start()
    inbox.wait_processed(20, timeout=60)
    assert client.event_ids == left_waiting


@pytest.mark.slow
def test_r6_retries_continue_while_kafka_is_down_longer_than_the_session(start_inboxd, handler, kafka, send, inbox):
    sidecar = start_inboxd(SHORT, kafka={"session.timeout.ms": 6000})
    go_on = threading.Event()
    client = handler(sidecar, lambda delivery: DONE if go_on.is_set() else retry(delay_ms=1000))
    send("r", "order.placed", key="k")
    client.wait_event("r")
    kafka.stop()
    eventually(lambda: "partitions_revoked" in sidecar.stderr, timeout=60)
    go_on.set()
    inbox.wait_processed(1, timeout=40)
    kafka.start()
    send("later", "order.placed", key="k")
    inbox.wait_processed(2, timeout=60)
    reasons = json.loads(sidecar.get("/readyz")[2])
    assert sidecar.get("/readyz")[0] == 200, reasons
