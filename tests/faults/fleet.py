"""Many sidecars with their own handlers, one producer, one ledger for each consumer.

When a message is produced, the behaviour of its handler is chosen at random from the fleet's seed and stored by id: see
KINDS. INBOXD_SEED repeats a run, as far as the scheduling of threads allows.
"""

import collections
import os
import random
import signal
import threading
import time
import zlib

from confluent_kafka import Producer

from hands import CLOSE, Hand
from ledger import Ledger, Produced, Snapshot
from support.librdkafka import CONSUMER_PROTOCOL, later_librdkafka
from support.wait import eventually

# The frequency of each kind of message. Slow ones stay open, so that faults happen during their processing.
KINDS = {"done": 60, "retry": 15, "effect": 14, "effect_after_rollback": 8, "slow": 3}
LEASE_MS = 3000
TIMEOUT_MS = 2000  # of a delivery: shorter than the time until another sidecar takes over
SLOW_S = 0.2, 0.9
KEYS = 16
REPEATS = 0.07  # of the messages are sent again
FAILING_MS = 500  # the delay of a message whose consumer fails
PROTOCOLS = {  # of the group; without the setting, librdkafka uses the classic one
    "classic": {"group.protocol": None, "session.timeout.ms": 2000, "heartbeat.interval.ms": 300},
    "consumer": CONSUMER_PROTOCOL,
}
SETTINGS = {
    "inbox": {"shutdown_timeout": "6s"},
    "retry": {"backoff": "20ms", "backoff_max": "200ms", "max_attempts": 50, "max_crashes": 5},
    "worker": {"poll": "100ms", "lease": f"{LEASE_MS}ms"},
}

TABLES = """
CREATE TABLE effects (source text, event_id text, claim text, consumer text);
CREATE TABLE completions (number bigint GENERATED ALWAYS AS IDENTITY, consumer text, seq bigint, claimed_by int,
    delivery_count int, xact xid8 DEFAULT pg_current_xact_id());
CREATE FUNCTION note_completion() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO public.completions (consumer, seq, claimed_by, delivery_count)
        VALUES (NEW.consumer, NEW.seq, NEW.claimed_by, NEW.delivery_count);
    RETURN NULL; END $$;
CREATE TRIGGER note_completion AFTER UPDATE ON inbox.inbox_messages FOR EACH ROW
    WHEN (OLD.processed_at IS NULL AND NEW.processed_at IS NOT NULL)
    EXECUTE FUNCTION note_completion();
CREATE TABLE fenced (id int, at timestamptz);
CREATE FUNCTION note_fenced() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO public.fenced VALUES (NEW.id, NEW.fenced_at);
    RETURN NULL; END $$;
CREATE TRIGGER note_fenced AFTER UPDATE ON inbox.inbox_instances FOR EACH ROW
    WHEN (OLD.fenced_at IS NULL AND NEW.fenced_at IS NOT NULL AND NEW.stopped_at IS NULL)
    EXECUTE FUNCTION note_fenced()"""


def complete(delivered, connection):
    connection.execute("SELECT inbox.complete(%s)", [delivered.claim])


def environment_of(protocol):
    return later_librdkafka() if protocol == "consumer" else {}


class Instance:
    """One sidecar and its fault points; its handlers reconnect automatically."""

    def __init__(self, name, sidecar, faults):
        self.name = name
        self.sidecar = sidecar
        self.faults = faults
        self.hands = []

    # Faults

    def arm(self, *rules):
        """Each rule is `[THREAD:]NAME ACTION [NTH]`; replaces what was armed."""
        with open(self.faults + ".new", "w", encoding="utf-8") as file:
            file.write("".join(f"{rule}\n" for rule in rules))
        os.replace(self.faults + ".new", self.faults)

    def disarm(self):
        self.arm()

    def hits(self):
        """[(name, action)] of all its runs."""
        try:
            with open(self.faults + ".hits", encoding="utf-8") as file:
                return [tuple(line.split()) for line in file]
        except FileNotFoundError:
            return []

    def wait_hit(self, name, timeout=30):
        eventually(lambda: name in (hit for hit, _ in self.hits()), timeout,
                   what=f"fault point {name} of {self.name} to be hit", every=0.01)

    # Life

    def use(self, protocol, strategy=None):
        """Joins the group with it from the next start on."""
        self.sidecar.write_configuration({"kafka": {**PROTOCOLS[protocol], "partition.assignment.strategy": strategy}})
        self.sidecar.env.update(environment_of(protocol))

    def start(self, ready=True):
        self.sidecar.start(ready=ready)

    def kill(self):
        self.sidecar.kill()

    def wait_killed(self, timeout=30):
        """Waits until the armed fault point has killed it."""
        code = self.sidecar.wait(timeout)
        assert code == -signal.SIGKILL, f"{self.name} ended with exit code {code}"

    def stop(self):
        code = self.sidecar.stop()
        assert code == 0, f"{self.name} ended with exit code {code}"

    def pause(self):
        """SIGSTOP."""
        self.sidecar.signal(signal.SIGSTOP)

    def go_on(self):
        self.sidecar.signal(signal.SIGCONT)

    @property
    def is_running(self):
        return self.sidecar.is_running()


class Fleet:
    def __init__(self, make_inboxd, inbox, streams, topic, group, partitions=4, seed=None):
        self.kinds = dict(KINDS)
        self.keys = KEYS   # how many different ones
        self.values = {}   # kind -> payload
        self.scripts = {}  # kind -> decide(delivered, connect), for kinds of a test's own
        self.repeats = REPEATS
        self.protocol = "classic"  # of the next sidecars
        self.failing = set()  # consumers whose handlers refuse everything
        self.seed = int(os.environ.get("INBOXD_SEED", seed if seed is not None else 1))
        self.random = random.Random(self.seed)
        self.ledgers = {"": Ledger()}  # by consumer
        self._wanted = {}  # consumer -> kinds, if not all
        self.inbox = inbox
        self.instances = []
        self._make_inboxd = make_inboxd
        self._streams = streams
        self.topic = topic
        self.group = group
        self._partitions = partitions
        self._producer = None
        self._background = None
        self._enough = threading.Event()
        self._failures = []
        self._numbers = 0
        self._recent = collections.deque(maxlen=200)
        self._key = "k%d"
        self._settings = {}  # of the producer
        self._kind_of = {}   # event id -> kind
        self._failures_of = {}  # event id -> how often its handlers fail
        self._failed = collections.Counter()  # by (consumer, event id)
        self._lock = threading.Lock()

    # Consumers

    def serve(self, *consumers):
        """Each of them has a ledger and handlers, instead of the one without a name. Before the first sidecar."""
        self.ledgers = {consumer: Ledger() for consumer in consumers}

    def want(self, consumer, *kinds):
        """It gets only these."""
        self._wanted[consumer] = kinds

    def came_later(self, consumer, at_the_latest):
        """It begins with its first row of each partition, which `at_the_latest` has the offset of Ledger.ends(). Call it
        when other consumers have the records up to now."""
        begins = {row["kafka_partition"]: row["begin"] for row in self.inbox.query(
            "SELECT kafka_partition, min(kafka_offset) AS begin FROM inbox.inbox_messages WHERE consumer = %s GROUP BY 1",
            [consumer])}
        for partition, end in at_the_latest.items():
            assert begins.get(partition, end + 1) <= end, f"{consumer} begins too late: {begins}, not {at_the_latest}"
            self.ledgers[consumer].give_up(partition, 0, begins[partition])

    @property
    def ledger(self):
        """The only one."""
        ledger, = self.ledgers.values()
        return ledger

    # Sidecars

    def add(self, env=None, hands=2, start=True, **settings):
        """One more sidecar, with `hands` handlers for each consumer; started and ready."""
        name = f"i{len(self.instances) + 1}"
        common = {**SETTINGS, "kafka": PROTOCOLS[self.protocol]}
        sidecar = self._make_inboxd({**common, **{
            section: {**common.get(section, {}), **keys} for section, keys in settings.items()}})
        sidecar.write_configuration({"inbox": {"instance": name}})
        self._tell_ledgers(sidecar.configuration)
        instance = Instance(name, sidecar, os.path.join(sidecar.directory, "faults"))
        sidecar.env.update({"INBOXD_FAULTPOINTS": instance.faults, **environment_of(self.protocol), **(env or {})})
        if not self.instances:
            self._prepare_tables(sidecar)
        self.instances.append(instance)
        if start:
            instance.start()
        for consumer in self.ledgers:
            for number in range(1, hands + 1):
                self.add_hand(instance, f"h{number}", consumer)
        return instance

    def add_hand(self, instance, name, consumer="", **options):
        """One more handler for this sidecar."""
        instance.hands.append(Hand(self.ledgers[consumer], instance.name, instance.sidecar.socket_path,
                                   self._decide, self.inbox.conninfo, name=name,
                                   timeout_ms=TIMEOUT_MS, consumer=consumer, **options))
        return instance.hands[-1]

    def hits(self):
        return [hit for instance in self.instances for hit in instance.hits()]

    def _tell_ledgers(self, configuration):
        options = configuration["inbox"]
        for consumer, ledger in self.ledgers.items():
            own = configuration.get("consumers", {}).get(consumer, {})
            ledger.next_after = options.get("next_after", ledger.next_after)
            ledger.max_unsettled = options.get("max_unsettled_per_key", ledger.max_unsettled)
            ledger.is_ordered = own.get("ordering") != "none"

    def _prepare_tables(self, sidecar):
        done = sidecar.command("migrate")
        assert done.returncode == 0, done.stderr
        self.inbox.execute(TABLES)

    # Messages

    def produce(self, count, kind=None):
        """Sends `count` messages, sometimes with a repeated one, and waits for their offsets."""
        for _ in range(count):
            self._produce_one(kind)
        self._flush()

    def produce_into(self, partitions, count):
        """Sends `count` new messages, into these partitions only."""
        while count > 0:
            event_id, key, partition = self._invent(None)
            if partition in partitions:
                self._send(event_id, key, partition)
                count -= 1
        self._flush()

    def produce_in_background(self, a_second=150):
        """Until enough() is called."""
        self._enough.clear()
        self._background = threading.Thread(target=self._produce_on, args=[a_second], daemon=True)
        self._background.start()

    def enough(self):
        self._enough.set()
        if self._background is not None:
            self._background.join(30)
        self._background = None
        self._flush()
        assert not self._failures, self._failures[0]

    def produce_with(self, **settings):
        """Sets librdkafka settings of the producer; others have their defaults."""
        self._flush()
        self._settings = {name.replace("_", "."): value for name, value in settings.items()}
        self._producer = None

    def grow(self, partitions):
        """The topic has more partitions now. The keys are new ones, because each key belongs to one partition."""
        self._partitions = partitions
        self._producer = None  # a new one, that knows of them at once
        self.begin_again()

    def begin_again(self, topic=None):
        """Later messages go into another log whose offsets begin at 0. They repeat no older message and share no key
        with one."""
        self._recent.clear()
        self._key = f"again{self._numbers}-%d"
        self.topic = topic or self.topic

    def send(self, producer, book):
        """Sends one new message with the test's own producer. It is stored in `book` instead of the ledger, because it
        may never be visible. ledger.add() adds it later."""
        event_id, key, partition = self._invent(None)

        def delivered(error, record):
            assert error is None, error
            book.append(Produced(self.topic, event_id, key, partition, record.offset(),
                                 self._has_effect(event_id)))

        producer.produce(self.topic, b'{"n":1}', key, partition=partition,
                         headers=[("id", event_id)], on_delivery=delivered)

    def _has_effect(self, event_id):
        return self._kind_of[event_id].startswith("effect")

    def _produce_on(self, a_second):
        try:
            while not self._enough.is_set():
                for _ in range(max(a_second // 50, 1)):
                    self._produce_one()
                self._producer.poll(0)
                self._enough.wait(1 / 50)
        except Exception as error:  # told by enough()
            self._failures.append(error)

    def _produce_one(self, kind=None):
        if self._recent and kind is None and self.random.random() < self.repeats:
            event_id, key, partition = self.random.choice(self._recent)
        else:
            event_id, key, partition = self._invent(kind)
        self._send(event_id, key, partition)

    def _send(self, event_id, key, partition):
        if self._producer is None:
            self._producer = Producer({"bootstrap.servers": self._streams.kafka.bootstrap,
                                       "enable.idempotence": True, "linger.ms": 1, "log_level": 2,
                                       **self._settings})
        kind = self._kind_of.get(event_id, "done")
        effect = self._has_effect(event_id)

        def delivered(error, record):
            if error is not None:
                self._failures.append(AssertionError(f"{event_id} was not produced: {error}"))
                return
            for consumer, ledger in self.ledgers.items():
                if kind in self._wanted.get(consumer, [kind]):
                    ledger.produce(self.topic, event_id, key, partition, record.offset(), effect)

        self._producer.produce(self.topic, self.values.get(kind, b'{"n":1}'), key,
                               partition=partition, on_delivery=delivered,
                               headers=[("id", event_id), ("eventType", kind)])

    def _invent(self, kind):
        with self._lock:  # a test may produce while others are produced in the background
            self._numbers += 1
            number = self._numbers
            kind = kind or self.random.choices(list(self.kinds), self.kinds.values())[0]
            event_id = f"{kind}-{number}"
            key = None if self.random.random() < 0.2 else (self._key % self.random.randrange(self.keys)).encode()
            partition = (number if key is None else zlib.crc32(key)) % self._partitions
            self._kind_of[event_id] = kind
            self._failures_of[event_id] = {"retry": self.random.choice((1, 1, 2)), "crash": 2,
                                           "effect_after_rollback": 1}.get(kind, 0)
            self._recent.append((event_id, key, partition))
        return event_id, key, partition

    def _flush(self):
        if self._producer is not None:
            assert self._producer.flush(30) == 0
        assert not self._failures, self._failures[0]

    # What handlers do

    def _fails_now(self, delivered):
        with self._lock:
            self._failed[delivered.consumer, delivered.event_id] += 1
            return self._failed[delivered.consumer, delivered.event_id] <= self._failures_of[delivered.event_id]

    def _decide(self, delivered, connect):
        kind = self._kind_of.get(delivered.event_id, "done")
        if kind in self.scripts:
            return self.scripts[kind](delivered, connect)
        if delivered.consumer in self.failing:
            return {"status": "retry", "reason": "the consumer fails", "delay_ms": FAILING_MS}
        time.sleep(random.uniform(*SLOW_S) if kind == "slow" else random.random() * 0.004)  # its work
        if kind == "retry" and self._fails_now(delivered):
            return {"status": "retry", "reason": "scripted", "delay_ms": random.choice((5, 60, 150))}
        if kind == "crash" and self._fails_now(delivered):
            return CLOSE
        if kind.startswith("effect"):
            return self._make_effect(delivered, connect())
        return {"status": "done"}

    def _make_effect(self, delivered, connection):
        def fail_after_complete():
            if self._kind_of[delivered.event_id] == "effect_after_rollback" \
                    and self._fails_now(delivered):
                raise RuntimeError("scripted, after complete() and before COMMIT")

        self.make_effect(delivered, connection, fail_after_complete)
        return {"status": "settled"}

    @staticmethod
    def make_effect(delivered, connection, before_commit=lambda: None, complete=complete):
        """Commits one effect together with complete(); `before_commit` may raise. If the answer to the COMMIT is lost, it
        counts as committed."""
        try:
            connection.execute("INSERT INTO effects VALUES (%s, %s, %s, %s)",
                               [delivered.source, delivered.event_id, delivered.claim, delivered.consumer])
            complete(delivered, connection)
            before_commit()
            delivered.completed_at = time.monotonic()
            connection.commit()
        except BaseException:
            if not connection.broken:
                delivered.completed_at = None
                connection.rollback()
            raise

    # The end

    def wait_for_progress(self, deliveries, timeout=30):
        """Waits until that many more deliveries were seen."""
        wanted = self._deliveries() + deliveries
        eventually(lambda: self._deliveries() >= wanted, timeout, every=0.01, what=f"{deliveries} more deliveries")

    def _deliveries(self):
        return sum(ledger.count for ledger in self.ledgers.values())

    def unfinished(self, consumers=None):
        return self.inbox.query("SELECT event_id, consumer, status, claimed_by, delivery_count FROM inbox.messages"
                                " WHERE status NOT IN ('processed', 'dead') AND consumer = ANY (%s)"
                                " ORDER BY seq LIMIT 20", [list(consumers or self.ledgers)])

    def wait_done(self, timeout=40, consumers=None):
        """Waits until everything produced so far is in the table and finished; long runs need more time."""
        self.enough()
        consumers = list(consumers or self.ledgers)
        wanted = sum(len(self.ledgers[consumer].first_copies()) for consumer in consumers)
        timeout += wanted / 100

        def stored():
            return self.inbox.value("SELECT count(*) FROM inbox.inbox_messages WHERE consumer = ANY (%s)", [consumers])

        eventually(lambda: stored() >= wanted and not self.unfinished(consumers), timeout,
                   what=_Words(lambda: f"{wanted} messages to be processed; {stored()} stored,"
                                       f" unfinished: {self.unfinished(consumers)}; seed {self.seed}"))

    def check_offsets(self):
        """Can be called at any time. Reads the group's offsets first and then the table, which may only be ahead."""
        committed = self._streams.committed(self.group, self.topic)
        stored = self._next_offsets()
        for partition, offset in committed.items():
            assert offset <= (stored.get(partition) or 0), f"committed ahead: {committed} {stored}"

    def snapshot(self, consumer=""):
        committed = self._streams.committed(self.group, self.topic)
        query = self.inbox.query
        clocks = time.monotonic() - time.time()
        return Snapshot(
            rows=[row for row in self.inbox.messages() if row["consumer"] == consumer],
            completions=[tuple(row.values()) for row in query(
                "SELECT min(number) OVER (PARTITION BY xact) AS number, seq, claimed_by, delivery_count"
                " FROM completions WHERE consumer = %s ORDER BY number", [consumer])],
            effects=[tuple(row.values()) for row in query(
                "SELECT source, event_id FROM effects WHERE consumer = %s", [consumer])],
            next_offsets=self._next_offsets(), committed=committed,
            fenced={row["id"]: row["at"].timestamp() + clocks for row in query("SELECT id, at FROM fenced")})

    def assert_clean(self):
        """Waits until all messages are finished and compares each ledger with the tables."""
        self.wait_done()
        for consumer, ledger in self.ledgers.items():
            ledger.assert_clean(self.snapshot(consumer))

    def close(self):
        self._enough.set()
        hands = [hand for instance in self.instances for hand in instance.hands]
        for hand in hands:
            hand.end()
        for hand in hands:
            hand.close()

    def _next_offsets(self):
        return {partition: offset for (topic, partition), offset in self.inbox.offsets().items()
                if topic == self.topic}


class _Words:
    """Text that is made when it is needed."""

    def __init__(self, make):
        self._make = make

    def __str__(self):
        return self._make()
