"""The outbox while its relays are killed and stopped and brokers are away: every committed event is in Kafka, no other one
is, and the first copies of each key are in the order of their transactions."""

import contextlib
import random
import signal
import threading
import time

import psycopg
import pytest

import points
from armed import Armed
from support import pooler
from support.outbox import Outbox, first_copies, values
from support.wait import eventually, throughout

ON = {"enabled": True}
KEYS = 20
SOON = {"session.timeout.ms": 1000, "heartbeat.interval.ms": 200}
SHORT_LEASE = {"lease": "3s"}
LONG_LEASE = {"lease": "15s"}


@pytest.fixture
def outbox(inbox):
    return Outbox(inbox)


@pytest.fixture
def events(make_topic):
    return make_topic(partitions=3)


class Writers:
    """Threads that emit numbered events. They lock the key first; one transaction in five rolls back, and some are slow."""

    def __init__(self, outbox, topic, count=4):
        self.committed = {}  # by key, in the order of the COMMITs
        self.rolled_back = 0
        self._outbox = outbox
        self._topic = topic
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._write, args=[number]) for number in range(count)]

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        self._stop.set()
        for thread in self._threads:
            if thread.ident is not None:
                thread.join()
        self._threads = []

    def total(self):
        with self._lock:
            return sum(len(of_key) for of_key in self.committed.values())

    def _write(self, writer):
        chance = random.Random(writer)
        number = 0
        with self._outbox.inbox.connect() as connection:
            while not self._stop.is_set():
                key = f"k{chance.randrange(KEYS)}"
                wanted = [f"{writer}.{number + place}" for place in range(chance.randrange(1, 4))]
                number += len(wanted)
                connection.execute("SELECT inbox.lock_key(%s, %s)", [self._topic, key])
                for value in wanted:
                    connection.execute("SELECT inbox.emit_bytes(%s, %s, 'T', %s, NULL)",
                                       [self._topic, key.encode(), value.encode()])
                if chance.random() < 0.05:
                    time.sleep(0.1)
                if chance.random() < 0.2:
                    connection.rollback()
                    self.rolled_back += 1
                    continue
                with self._lock:  # the lock of the key is held until the COMMIT, so this is the order
                    self.committed.setdefault(key.encode(), []).extend(wanted)
                connection.commit()
                time.sleep(0.002)

    def check(self, streams):
        """Reads the topic and compares it with what was committed."""
        eventually(lambda: self._outbox.count() == 0, timeout=90, what="the outbox to be empty")
        records = streams.read(self._topic, sum(streams.log_end(self._topic).values()))
        found = first_copies(records)
        wrong = {key: next((place, found.get(key, [])[max(0, place - 2):place + 4], of_key[max(0, place - 2):place + 4])
                           for place in range(len(of_key) + 1) if found.get(key, [])[:place + 1] != of_key[:place + 1])
                 for key, of_key in self.committed.items() if found.get(key) != of_key}
        assert not wrong and found == self.committed
        assert self.rolled_back > 0


@pytest.mark.parametrize("point", points.OUTBOX)
def test_a_relay_killed_at_each_point_loses_nothing_and_keeps_the_order(make_inboxd, outbox, streams, events, point):
    sidecar = make_inboxd(outbox=ON, kafka=SOON, worker=SHORT_LEASE)
    armed = Armed(sidecar)
    sidecar.start()
    with Writers(outbox, events) as writers:
        eventually(lambda: writers.total() > 100)
        armed.arm(f"{point} kill 3")
        assert sidecar.wait() == -signal.SIGKILL
        armed.arm()
        sidecar.start()
        more = writers.total() + 100
        eventually(lambda: writers.total() > more)
        writers.stop()
        writers.check(streams)


@pytest.mark.timeout(300)
def test_two_relays_killed_in_turn_publish_what_was_committed(make_inboxd, outbox, streams, events, long_run):
    pair = [make_inboxd(outbox=ON, kafka=SOON, worker=SHORT_LEASE).start() for _ in range(2)]
    with Writers(outbox, events, 8) as writers:
        for number in range(20 if long_run else 4):
            more = writers.total() + 200
            eventually(lambda: writers.total() > more, timeout=60)  # pylint: disable=cell-var-from-loop
            one = pair[number % 2]
            one.kill()
            one.start()
        writers.stop()
        writers.check(streams)


@pytest.mark.timeout(300)
def test_a_relay_that_was_stopped_for_40_seconds_wakes_beside_its_successor(make_inboxd, outbox, streams, events):
    """Its records are later copies, without a gap."""
    first = make_inboxd(outbox=ON, kafka=SOON, worker=SHORT_LEASE)
    armed = Armed(first)
    first.start()
    eventually(lambda: first.metric("inboxd_outbox_leader") == 1)
    second = make_inboxd(outbox=ON, kafka=SOON, worker=SHORT_LEASE).start()
    with Writers(outbox, events) as writers:
        eventually(lambda: writers.total() > 200)
        armed.arm("outbox_sent stop")
        armed.wait_hit("outbox_sent")
        since = time.monotonic()
        eventually(lambda: second.metric("inboxd_outbox_leader") == 1, timeout=60)
        more = writers.total() + 200
        eventually(lambda: writers.total() > more and time.monotonic() - since > 40, timeout=60)
        armed.arm()
        first.signal(signal.SIGCONT)
        more = writers.total() + 200
        eventually(lambda: writers.total() > more, timeout=60)
        writers.stop()
        writers.check(streams)
    assert second.metric("inboxd_outbox_leader") == 1


def is_stopped(sidecar):
    with open(f"/proc/{sidecar.pid}/stat", encoding="utf-8") as file:
        return file.read().rpartition(")")[2].split()[0] == "T"


@pytest.mark.timeout(300)
@pytest.mark.parametrize("point", ["outbox_sent", "outbox_answered"])
def test_a_transactional_relay_that_was_stopped_is_fenced_by_its_successor(make_inboxd, outbox, streams, make_topic, point):
    """Its transaction in Kafka is aborted, so readers of committed records see no event twice. Behind outbox_answered it
    does not look at its election before it tries to commit. No other election may happen, also on a busy host: it would
    publish again what is committed and not recorded. So the successor starts behind the stop, and only its lease is short.
    An instance fences others after a lease of its own."""
    events = make_topic(partitions=1)
    pair = [make_inboxd(outbox={**ON, "producer": "transactional"}, kafka=SOON, worker=worker) for worker in (LONG_LEASE, SHORT_LEASE)]
    armed = Armed(pair[0])
    pair[0].start()
    eventually(lambda: pair[0].metric("inboxd_outbox_leader") == 1)
    with Writers(outbox, events) as writers:
        eventually(lambda: writers.total() > 200)
        armed.arm(f"{point} stop")
        armed.wait_hit(point)
        eventually(lambda: is_stopped(pair[0]))
        assert point == "outbox_sent" or streams.stable_end(events) < sum(streams.log_end(events).values())
        pair[1].start()
        eventually(lambda: pair[1].metric("inboxd_outbox_leader") == 1, timeout=60)
        more = pair[1].metric("inboxd_outbox_published_total") + 200
        eventually(lambda: pair[1].metric("inboxd_outbox_published_total") > more, timeout=60)
        armed.arm()
        pair[0].signal(signal.SIGCONT)
        eventually(lambda: pair[0].metric("inboxd_outbox_failures_total") > 0 or "event=outbox_lost " in pair[0].stderr)
        more = writers.total() + 200
        eventually(lambda: writers.total() > more, timeout=60)
        writers.stop()
        eventually(lambda: outbox.count() == 0, timeout=90)
    records = streams.read_what_is_there(events)
    assert first_copies(records) == writers.committed
    assert len(records) == writers.total()
    assert point == "outbox_sent" or "fenced by a newer instance" in pair[0].stderr
    assert pair[1].metric("inboxd_outbox_leader") == 1 and pair[1].metric("inboxd_outbox_failures_total") == 0


@pytest.mark.parametrize("error, copies", [("outbox_relay:error_before_commit", 2), ("outbox_relay:error_after_commit", 1)])
def test_a_lost_answer_to_a_commit_loses_and_holds_no_event(make_inboxd, outbox, streams, make_topic, error, copies):
    """One flight has published, refused and parked events. If its transaction was not committed, they are sent again."""
    events, small = make_topic(partitions=1), make_topic(partitions=1, max_message_bytes=20_000)
    sidecar = make_inboxd(outbox={**ON, "max_attempts": 1000}, kafka={"topics": None}, retry={"backoff": "100ms", "backoff_max": "200ms"})
    armed = Armed(sidecar)
    armed.arm("outbox_before_record hold")
    with outbox_filled(sidecar, outbox) as emit:
        for number in range(50):
            emit(events, f"k{number % 3}", f"{number:02}")
        for value in ("a1", "L" * 30_000, "a3"):
            emit(small, "a", value)
    sidecar.start()
    armed.wait_hit("outbox_before_record")
    armed.arm(f"{error} error")
    armed.wait_hit(error)
    eventually(lambda: outbox.count() == 2)
    assert first_copies(streams.read(events, 50 * copies)) == {
        f"k{key}".encode(): [f"{number:02}" for number in range(key, 50, 3)] for key in range(3)}
    assert values(streams.read(small, copies)) == ["a1"] * copies
    streams.configure(small, max_message_bytes=1_000_000)
    assert values(streams.read(small, copies + 2, timeout=60))[copies:] == ["L" * 30_000, "a3"]
    eventually(lambda: outbox.count() == 0 and sidecar.metric("inboxd_outbox_held_keys") == 0)
    assert sum(streams.log_end(events).values()) == 50 * copies


def outbox_filled(sidecar, outbox):
    """A transaction of the service before the sidecar runs."""
    assert sidecar.command("migrate").returncode == 0
    return outbox.transaction()


@pytest.mark.parametrize("error", ["outbox_relay:error_before_commit", "outbox_relay:error_after_commit"])
def test_lost_answers_to_commits_under_load_keep_the_order(make_inboxd, outbox, streams, events, error):
    sidecar = make_inboxd(outbox=ON, kafka={"topics": None})
    armed = Armed(sidecar)
    sidecar.start()
    with Writers(outbox, events) as writers:
        for times in range(1, 6):
            more = writers.total() + 50
            eventually(lambda: writers.total() > more)  # pylint: disable=cell-var-from-loop
            armed.arm("outbox_before_record hold")
            armed.wait_hit("outbox_before_record", times)
            armed.arm(f"{error} error")
            armed.wait_hit(error, times)
        writers.stop()
        writers.check(streams)
    assert sidecar.metric("inboxd_outbox_held_keys") == 0 and sidecar.metric("inboxd_outbox_failures_total") >= 5


@pytest.mark.timeout(300)
def test_a_broker_that_answers_after_40_seconds_has_no_event_too_early(make_inboxd, outbox, streams, kafka, events):
    """What both relays have sent in the meantime is in its sockets, and it writes that, too: copies, without a gap."""
    pair = [make_inboxd(outbox=ON, kafka=SOON, worker=SHORT_LEASE).start() for _ in range(2)]
    with Writers(outbox, events) as writers:
        eventually(lambda: writers.total() > 200 and any(sidecar.metric("inboxd_outbox_leader") for sidecar in pair))
        kafka.pause()
        try:
            since = time.monotonic()
            eventually(lambda: time.monotonic() - since > 40, timeout=60)
        finally:
            kafka.resume()
        more = writers.total() + 200
        eventually(lambda: writers.total() > more)
        writers.stop()
        writers.check(streams)
    assert sum(sidecar.metric("inboxd_outbox_failures_total") for sidecar in pair) > 0


@pytest.mark.timeout(300)
def test_while_the_broker_is_away_events_wait_and_no_attempt_counts(make_inboxd, outbox, streams, kafka, events):
    sidecar = make_inboxd(outbox=ON).start()
    outbox.emit(events, "a", "1")
    streams.read(events, 1)
    kafka.stop()
    with outbox.transaction() as emit:
        for number in range(2, 100):
            emit(events, "a", str(number))
    # a flight waits half a minute for its answers
    eventually(lambda: sidecar.metric("inboxd_outbox_oldest_seconds") > 0, timeout=90)
    throughout(lambda: sidecar.metric("inboxd_outbox_waiting") == 98, 5)
    assert {state[:2] for state in outbox.states().values()} == {(None, 0)}
    kafka.start()
    assert values(sorted(streams.read(events, 99, timeout=90), key=lambda record: record.offset())) == [
        str(number) for number in range(1, 100)]
    eventually(lambda: outbox.count() == 0)
    assert sidecar.metric("inboxd_outbox_refused_total") == 0


def test_no_event_overtakes_a_late_one_of_its_key_between_two_reads(make_inboxd, outbox, streams, make_topic):
    events = make_topic(partitions=1)
    sidecar = make_inboxd(outbox=ON)
    armed = Armed(sidecar)
    sidecar.start()
    with outbox.transaction() as late:
        late(events, "a", "first")
        outbox.emit(events, "b", "reveals the hole")
        eventually(lambda: sidecar.metric("inboxd_outbox_holes") == 1)
        armed.arm("outbox_read hold")
        armed.wait_hit("outbox_read")
    outbox.emit(events, "a", "second")
    armed.arm()
    assert first_copies(streams.read(events, 3))[b"a"] == ["first", "second"]


def test_an_event_that_is_discarded_after_its_page_was_read_ahead_is_not_published(make_inboxd, outbox, streams, events, inbox):
    sidecar = make_inboxd(outbox={**ON, "batch_messages": 10})
    armed = Armed(sidecar)
    armed.arm("outbox_answered hold")
    sidecar.start()
    with outbox.transaction() as emit:
        ids = [emit(events, "a", str(number)) for number in range(20)]
    armed.wait_hit("outbox_answered")
    assert inbox.value("SELECT inbox.outbox_discard_where(event_id => %s, reason => 'wrong')", [ids[15]]) == 1
    time.sleep(1.2)  # rows that were read ahead count for one second
    armed.arm()
    assert first_copies(streams.read(events, 19))[b"a"] == [str(number) for number in range(20) if number != 15]


def test_a_prepared_event_is_published_after_a_restart_of_the_server(make_inboxd, outbox, streams, events, postgres, inbox):
    """It has the lowest number, and nobody waits for it."""
    make_inboxd(outbox=ON).start()
    outbox.emit(events, "a", "0")
    streams.read(events, 1)
    with inbox.connect() as service:
        service.autocommit = True
        service.execute("BEGIN")
        service.execute("SELECT inbox.emit_bytes(%s, 'a', 'T', 'prepared', NULL)", [events])
        service.execute("PREPARE TRANSACTION 'outbox'")
    outbox.emit(events, "a", "1")
    assert sorted(values(streams.read(events, 2))) == ["0", "1"]
    eventually(lambda: outbox.count() == 0)  # an event that is sent but not recorded is sent again after the restart
    inbox.close()
    postgres.restart()
    outbox.emit(events, "a", "2")
    assert sorted(values(streams.read(events, 3, timeout=60))) == ["0", "1", "2"]
    inbox.execute("COMMIT PREPARED 'outbox'")
    assert sorted(values(streams.read(events, 4, timeout=60))) == ["0", "1", "2", "prepared"]
    eventually(lambda: outbox.count() == 0)


@pytest.mark.timeout(300)
def test_more_holes_than_memory_remembers_lose_no_event(make_inboxd, outbox, streams, events, inbox):
    """70,000 numbers are missing, one by one, and a transaction with the lowest one commits last."""
    sidecar = make_inboxd(outbox=ON).start()
    with outbox.transaction() as late:
        late(events, "a", "late")
        inbox.execute("INSERT INTO inbox.outbox (topic, event_type, payload) SELECT %s, 'T', 'x' FROM generate_series(1, 70000)"
                      " WHERE nextval('inbox.outbox_seq') > 0", [events])
        eventually(lambda: outbox.count() == 0, timeout=120)
        eventually(lambda: 30_000 < sidecar.metric("inboxd_outbox_holes") <= 65_536)  # half of them are joined
    eventually(lambda: sum(streams.log_end(events).values()) >= 70_001, timeout=60)
    eventually(lambda: sidecar.metric("inboxd_outbox_holes") == 0 and outbox.count() == 0, timeout=60)
    inbox.execute("SELECT inbox.emit(%s, NULL, 'T', '1') FROM generate_series(1, 200000)", [events])
    eventually(lambda: outbox.count() == 0, timeout=120)
    assert sum(streams.log_end(events).values()) == 270_001


def test_services_emit_through_a_pooler_of_transactions(make_inboxd, outbox, streams, make_topic, postgres, inbox):
    """Two services share the connections of PgBouncer: nothing depends on the session."""
    if pooler.PROGRAM is None:
        pytest.skip("pgbouncer is not installed")
    events = make_topic(partitions=1)
    streams.create(f"outbox.event.{events}", 1)
    make_inboxd(outbox=ON).start()
    outbox.emit(events, "a", "0")
    with contextlib.ExitStack() as ends:
        between = ends.enter_context(contextlib.closing(pooler.Pooler(postgres.port, "transaction")))
        services = [ends.enter_context(psycopg.connect(f"{inbox.conninfo} port={between.port}", prepare_threshold=None))
                    for _ in range(2)]
        for number in range(1, 21):
            service = services[number % 2]
            service.execute("SELECT inbox.lock_key(%s, 'a')", [events])
            service.execute("SELECT inbox.emit(%s, 'a', 'T', %s::jsonb)", [events, str(number)])
            service.execute("INSERT INTO inbox.outboxevent (aggregatetype, aggregateid, type, payload)"
                            " VALUES (%s, 'a', 'T', %s)", [events, str(number)])
            assert service.execute("DELETE FROM inbox.outboxevent").rowcount == 1
            service.commit()
    numbers = [str(number) for number in range(21)]
    assert values(streams.read(events, 21)) == numbers
    assert values(streams.read(f"outbox.event.{events}", 20)) == numbers[1:]
