"""The procedures of docs/runbooks.md."""

import json
import subprocess
import threading

import pytest

from support import postgres
from support.inbox import Inbox
from support.outbox import Outbox, first_copies, values
from support.scripts import always, DONE
from support.wait import eventually
from support.wire import Handler, NEVER, Refused, retry, settled


@pytest.fixture
def new_database(postgres_server, name):
    created = postgres_server.create_database(f"moved_{name}")
    yield created
    postgres_server.drop_database(created)


def copy(server, old, new):
    dump = subprocess.run([f"{postgres.binaries()}/pg_dump", "--schema=inbox", server.conninfo(old)],
                          capture_output=True, text=True, timeout=60, check=True).stdout
    subprocess.run([f"{postgres.binaries()}/psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", server.conninfo(new)],
                   input=dump, capture_output=True, text=True, timeout=60, check=True)


def test_the_inbox_moves_to_a_new_database(postgres_server, database, new_database, start_inboxd, make_inboxd, handler,
                                           streams, topic, inbox):
    first = start_inboxd()
    seen = handler(first, lambda delivery: NEVER if delivery.event_id == "open" else DONE)
    streams.events(topic, [f"e{number}" for number in range(50)] + ["open"])
    inbox.wait_processed(50)
    eventually(lambda: "open" in [delivery.event_id for delivery in seen.deliveries])
    assert first.stop() == 0
    assert inbox.value("SELECT count(*) FROM inbox.inbox_instances WHERE fenced_at IS NULL") == 0

    streams.events(topic, ["e1", "e2", "later"])  # while it is down: two copies and a new one
    copy(postgres_server, database, new_database)
    second = make_inboxd(postgres={"dbname": new_database})
    assert second.command("migrate", "--roles=inboxd").returncode == 0
    second.start()
    again = handler(second, always(DONE))
    moved = Inbox(postgres_server.conninfo(new_database))
    try:
        moved.wait_processed(52)
        eventually(lambda: second.metric("inboxd_duplicates_total", topic=topic) == 2)
        assert sorted(delivery.event_id for delivery in again.deliveries) == ["later", "open"]
    finally:
        moved.close()


@pytest.fixture
def moved(postgres_server, new_database):
    """The new database, after copy()."""
    inbox = Inbox(postgres_server.conninfo(new_database))
    yield Outbox(inbox)
    inbox.close()


def emit_numbers(outbox, topic, numbers):
    with outbox.transaction() as emit:
        for number in numbers:
            emit(topic, f"k{number % 3}", f"{number:02}")


def of_keys(numbers):
    return {f"k{key}".encode(): [f"{number:02}" for number in numbers if number % 3 == key] for key in range(3)}


def test_the_outbox_moves_to_a_new_database(postgres_server, database, new_database, start_inboxd, streams, make_topic, name, inbox,
                                            moved):
    """With events that wait, also behind others, and with a dead one."""
    events, missing, small = make_topic(partitions=1), f"{name}.missing", make_topic(partitions=1, max_message_bytes=20_000)
    first, outbox = start_inboxd(outbox={"enabled": True, "max_attempts": 1}), Outbox(inbox)
    emit_numbers(outbox, missing, range(10))
    outbox.emit(small, "a", "L" * 30_000, id="dead")
    emit_numbers(outbox, events, range(10))
    streams.read(events, 10)
    eventually(lambda: [row["status"] for row in inbox.query("SELECT status FROM inbox.events WHERE event_id = 'dead'")] == ["dead"])
    eventually(lambda: first.metric("inboxd_outbox_held_topics") == 1 and outbox.count() == 11)
    assert first.stop() == 0
    emit_numbers(outbox, events, range(10, 20))
    copy(postgres_server, database, new_database)
    second = start_inboxd(outbox={"enabled": True}, postgres={"dbname": new_database})
    emit_numbers(moved, events, range(20, 30))
    assert first_copies(streams.read(events, 30)) == of_keys(range(30))
    emit_numbers(moved, missing, range(10, 20))
    streams.create(missing, 1)
    assert first_copies(streams.read(missing, 20)) == of_keys(range(20))
    assert second.command("outbox", "replay", "dead", "--yes").stdout == "1 replayed\n"
    streams.configure(small, max_message_bytes=1_000_000)
    assert values(streams.read(small, 1)) == ["L" * 30_000]
    eventually(lambda: moved.count() == 0)
    assert sum(streams.log_end(events).values()) == 30


@pytest.mark.slow
def test_the_outbox_is_restored_from_a_backup(postgres_server, database, new_database, start_inboxd, streams, make_topic, inbox,
                                              moved):
    """The backup is older than the last events, and was made while a relay was elected."""
    events = make_topic(partitions=1)
    first, outbox = start_inboxd(outbox={"enabled": True, "poll": "20s", "poll_idle": "20s"}), Outbox(inbox)
    eventually(lambda: first.metric("inboxd_outbox_leader") == 1)
    emit_numbers(outbox, events, range(10))
    copy(postgres_server, database, new_database)
    emit_numbers(outbox, events, range(10, 20))
    streams.read(events, 20, timeout=60)
    first.kill()
    second = start_inboxd(outbox={"enabled": True}, postgres={"dbname": new_database})
    emit_numbers(moved, events, range(20, 30))
    records = streams.read(events, 40, timeout=90)
    assert first_copies(records) == of_keys(range(30))
    assert values(records[20:30]) == [f"{number:02}" for number in range(10)]
    eventually(lambda: moved.count() == 0)
    assert second.metric("inboxd_outbox_held_keys") == 0


def test_a_day_is_replayed_while_new_messages_arrive(inboxd, handler, streams, topic, inbox):
    client = handler(inboxd, always(DONE))
    streams.events(topic, [f"e{number}" for number in range(30)])
    inbox.wait_processed(30)
    streams.events(topic, ["new"])
    done = inboxd.command("replay", "--status", "processed", "--topic", topic, "--since", "1h", "--reason",
                          "prices were wrong", "--yes")
    assert done.returncode == 0, done.stderr
    replayed = int(done.stdout.split()[0])
    assert replayed >= 30
    eventually(lambda: len(client.deliveries) == 31 + replayed)
    inbox.wait_processed(31)


def test_a_sidecar_continues_after_a_newer_version_has_migrated(inboxd, make_inboxd, handler, streams, topic, inbox):
    handler(inboxd, always(DONE))
    streams.events(topic, ["a"])
    inbox.wait_processed(1)
    inbox.execute("INSERT INTO inbox.inbox_schema_version (version, oldest_sidecar)"
                  " SELECT max(version) + 1, max(version) + 1 FROM inbox.inbox_schema_version")
    streams.events(topic, ["b"])
    inbox.wait_processed(2)
    late = make_inboxd().start("run", ready=False)
    assert late.wait() == 3
    assert "newer than this inboxd knows" in late.stderr


def test_a_consumer_is_renamed_with_its_messages(start_inboxd, handler, streams, topic, inbox):
    first = start_inboxd(consumers={"old": {}}, retry={"backoff": "5s", "backoff_max": "5s"})
    before = handler(first, lambda delivery: retry("no") if delivery.event_id == "bad" else DONE, name="old")
    streams.events(topic, ["e1", "e2", "bad"])
    inbox.wait_processed(2)
    inbox.wait_status("bad", "retrying")
    first.write_configuration({"consumers": {"new": {}}})
    assert 'lists both "old" and "new"' in first.command("consumers", "rename", "old", "new").stderr
    first.configuration["consumers"].pop("new")
    first.write_configuration()
    done = first.command("consumers", "rename", "old", "new", "--reason", "why")
    assert done.stdout == ('consumer "old" is named "new" now: 1 message of it waits or is delivered, 2 are done\n'
                           "sidecars that list it by its earlier name go on with it; "
                           'write "new" under consumers in the configuration of all sidecars\n')
    eventually(lambda: "event=consumer_renamed" in first.stderr)
    before.wait_for(before.ended.is_set)
    before.close()
    eventually(lambda: first.stderr.count("event=started") == 2)
    again = handler(first, always(DONE), name="old")  # the sidecar and the handler still have the earlier name
    assert again.session["consumer"] == "new"
    assert "consumer_not_listed" not in first.stderr and "consumer_ended" not in first.stderr, "the rename explains it"
    inbox.wait_processed(3)  # an answer that is not settled before the end of the connection would be repeated
    assert again.event_ids == ["bad"]
    again.close()
    assert first.stop() == 0

    streams.events(topic, ["e1", "e3"])
    second = start_inboxd(consumers={"new": {}})
    after = handler(second, always(DONE), name="new")
    inbox.wait_processed(4)
    eventually(lambda: second.metric("inboxd_duplicates_total") == 1)
    assert sorted(delivery.event_id for delivery in after.deliveries) == ["e3"]
    assert inbox.value("SELECT array_agg(DISTINCT consumer) FROM inbox.inbox_messages") == ["new"]


def test_a_handler_was_deployed_before_the_rename(start_inboxd, make_inboxd, handler, streams, topic, inbox):
    """A service gets its first consumers and their handler at once: what says so, and the way back."""
    before = start_inboxd()
    worker = handler(before, always(DONE), name="worker")
    streams.events(topic, ["done"])
    inbox.wait_processed(1)
    worker.close()
    streams.events(topic, ["old"])
    inbox.wait_status("old", "parked")
    assert before.stop() == 0
    inbox.execute("UPDATE inbox.inbox_consumers SET listed_at = '2020-01-01'")

    later = start_inboxd({"worker": {"lease": "3s"}}, consumers={"audit": {}})
    audit = handler(later, always(DONE), name="auditor", consumer="audit")
    streams.events(topic, ["new", "newer"])
    eventually(lambda: sorted(audit.event_ids) == ["new", "newer"])
    noted = {"ready": True, "notes": ["consumers that no running sidecar lists, although messages are stored for them: 1",
                                      "messages that wait and that no connected handler has subscribed to: 3"]}

    def is_noted():
        assert json.loads(later.get("/readyz")[2]) == noted
        return True

    eventually(is_noted)
    eventually(lambda: 'event=consumer_not_listed consumer="" why="no running sidecar lists it' in later.stderr)
    for words in (["status"], ["consumers"]):
        assert "`inboxd consumers rename '' NAME` gives it a name that they list. Messages wait, and no handler of it is connected." \
            in later.command(*words).stdout

    refused = later.command("consumers", "rename", "", "audit")
    assert refused.returncode != 0 and "inboxd handlers forget 'auditor' --consumer 'audit'" in refused.stderr
    audit.close()
    assert later.command("handlers", "forget", "auditor", "--consumer", "audit", "--reason", "rename").returncode == 0
    assert later.command("consumers", "rename", "", "audit", "--reason", "first consumers").returncode == 0
    eventually(lambda: later.stderr.count("event=started") == 2)
    again = handler(later, always(DONE), name="auditor", consumer="audit")
    inbox.wait_processed(4)
    assert again.event_ids == ["old"], "each message is processed once"
    assert inbox.value("SELECT array_agg(DISTINCT consumer) FROM inbox.inbox_messages") == ["audit"]
    eventually(lambda: "notes" not in json.loads(later.get("/readyz")[2]))


class Service:
    """The handlers of a pod: they connect again like a library, and make each effect in the transaction of inbox.complete()."""

    def __init__(self, inbox, sidecar, name):
        self.inbox, self.sidecar, self.name, self.stopping = inbox, sidecar, name, threading.Event()
        self.own = inbox.connect()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _effect(self, delivery):
        with self.own.transaction():
            self.own.execute("INSERT INTO effects (handler, event_id) VALUES (%s, %s)", [self.name, delivery.event_id])
            self.own.execute("SELECT inbox.complete(%s)", [delivery.claim])
        return settled()

    def _run(self):
        while not self.stopping.is_set():
            try:
                client = Handler(self.sidecar.socket_path, self._effect, name=self.name)
            except (OSError, EOFError, AssertionError, Refused):
                self.stopping.wait(0.1)
                continue
            while not client.ended.wait(0.05) and not self.stopping.is_set():
                pass
            try:
                client.drain(5)
            except (OSError, EOFError, AssertionError):
                pass
            client.abort()

    def stop(self):
        self.stopping.set()
        self.thread.join(30)
        self.own.close()


class Load:
    """Events of eight keys, and copies of earlier ones."""

    def __init__(self, streams, topic):
        self.streams, self.topic, self.count, self.stopping = streams, topic, 0, threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self):
        while not self.stopping.is_set():
            ids = [f"e{self.count + i:05}" for i in range(4)] + [f"e{self.count * 7 % (self.count + 1):05}"]
            self.streams.events(self.topic, ids, key=lambda event_id: str(int(event_id[1:]) % 8))
            self.count += 4
            self.stopping.wait(0.05)

    def stop(self):
        self.stopping.set()
        self.thread.join(30)


@pytest.fixture
def running():
    """Services and loads, which end before the sidecars."""
    made = []
    yield lambda thing: made.append(thing) or thing
    for thing in reversed(made):
        thing.stop()


def effects(inbox, handler):
    return [row["event_id"] for row in inbox.query("SELECT event_id FROM effects WHERE handler = %s ORDER BY n", [handler])]


@pytest.mark.slow
@pytest.mark.parametrize("first", ["renamed", "listed"])
def test_a_service_gets_its_first_consumers(first, start_inboxd, make_inboxd, streams, topic, inbox, running):
    """From none to the first consumers, under load. `listed`: the name is listed before the rename, which must do no harm."""
    inbox_of = {"worker": {"lease": "3s"}}
    section = {"billing": {}, "stats": {}}
    pods = [start_inboxd(inbox_of, inbox={"instance": f"old{number}"}) for number in range(2)]
    inbox.execute("CREATE TABLE effects (n bigserial, handler text, event_id text)")
    services = [running(Service(inbox, pod, "billing")) for pod in pods]
    load = running(Load(streams, topic))
    eventually(lambda: len(effects(inbox, "billing")) > 50)

    def roll_out(number):
        services[number].stop()
        assert pods[number].stop() == 0
        pods[number] = start_inboxd(inbox_of, consumers=section, inbox={"instance": f"new{number}"})
        services[number] = running(Service(inbox, pods[number], "billing"))
        running(Service(inbox, pods[number], "stats"))

    def rename():
        done = make_inboxd(inbox_of).command("consumers", "rename", "", "billing", "--reason", "first consumers")
        assert done.returncode == 0, done.stderr
        assert 'consumer "" is named "billing" now' in done.stdout

    new = make_inboxd(inbox_of, consumers=section)
    checked = new.command("check")
    assert checked.returncode == 6 and "inboxd consumers rename '' NAME" in checked.stdout
    if first == "renamed":
        rename()
        eventually(lambda: all("event=consumer_renamed" in pod.stderr for pod in pods), timeout=60)
        before = len(effects(inbox, "billing"))
        eventually(lambda: len(effects(inbox, "billing")) > before + 50, timeout=60, what="the handler goes on")
        roll_out(0)
    else:
        roll_out(0)
        eventually(lambda: effects(inbox, "stats"), timeout=60)
        before = len(effects(inbox, "billing"))
        eventually(lambda: len(effects(inbox, "billing")) > before + 50, timeout=60, what="the handler goes on without a name")
        rename()
    roll_out(1)
    before = len(effects(inbox, "stats"))
    eventually(lambda: len(effects(inbox, "stats")) > before + 20, timeout=60)
    load.stop()
    wanted = [f"e{number:05}" for number in range(load.count)]
    eventually(lambda: sorted(set(wanted) - set(effects(inbox, "billing"))) == [], timeout=60, what="each event has its effect")
    assert sorted(effects(inbox, "billing")) == wanted, "and none has two"
    for key in range(8):
        of_key = [event_id for event_id in effects(inbox, "billing") if int(event_id[1:]) % 8 == key]
        assert of_key == sorted(of_key), f"key {key}"
    eventually(lambda: not inbox.query("SELECT 1 FROM inbox.inbox_messages WHERE processed_at IS NULL"), timeout=60)
    of_stats = effects(inbox, "stats")
    assert len(set(of_stats)) == len(of_stats)
    assert {row["consumer"] for row in inbox.query("SELECT DISTINCT consumer FROM inbox.inbox_messages")} == {"billing", "stats"}
    assert new.command("check").returncode == 0
