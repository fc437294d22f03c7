"""The ledger: what was produced, delivered, answered and interrupted, and the state of the tables at the end.

Handlers write into it while a test runs, from any thread. check() then compares it with a Snapshot of
the tables and returns every broken promise as a sentence.

Times are time.monotonic() of this host, and each one is conservative: a delivery begins when it was read from a
connection that was still open afterwards. It ends at the earliest of its answer, its deadline, the reading of its
cancel, and the last time at which its connection was known to be open. A delivery that is open here was open for the
sidecar, too, so two deliveries that overlap here did overlap.
"""

import collections
import dataclasses
import threading

FINAL = {"done", "dead", "settled"}    # answers after which the next message of the key may be delivered
FAILURES = {"retry", "error", "timeout", "dead"}  # ends that raise retry_count, when they reach the sidecar


@dataclasses.dataclass
class Produced:
    """One record. The first copy of an id is the one that is stored."""

    source: str
    event_id: str
    key: bytes | None
    partition: int
    offset: int
    with_effect: bool = False  # handled in a transaction with inbox.complete()

    @property
    def id(self):
        return self.source, self.event_id


@dataclasses.dataclass
class Delivered:
    """One delivery as its handler saw it."""

    instance: str
    handler: str
    source: str
    event_id: str
    claim: str  # seq.delivery_count.instance id
    attempt: int
    begin: float
    deadline: float = float("inf")
    consumer: str = ""
    end: float | None = None
    how: str | None = None  # the answer's status, "error", "timeout", "cancel" or "lost"
    noticed: float | None = None  # when its handler knew of the end; of a lost connection this is later than `end`
    completed_at: float | None = None  # just before its transaction with complete() was, or may have been, committed
    number: int = 1  # of the deliveries of its message

    @property
    def id(self):
        return self.source, self.event_id

    @property
    def token(self):
        """(seq, delivery count, instance id)"""
        return tuple(int(number) for number in self.claim.split(".")[:3])

    @property
    def until(self):
        return min(self.deadline, float("inf") if self.end is None else self.end)

    @property
    def instance_id(self):
        return self.token[2]

    def until_for(self, instance_id):
        """When this instance may deliver the next message of its key. Another one sees only the table."""
        if instance_id == self.instance_id or self.completed_at is None:
            return self.until
        return min(self.until, self.completed_at)

    def is_final_at(self, time):
        """The time from which on the next message of its key may begin."""
        if self.completed_at is not None and self.completed_at <= time:
            return True
        return self.how in FINAL and self.until <= time

    def __str__(self):
        return (f"delivery {self.claim} of {self.event_id} (attempt {self.attempt}, {self.handler}"
                f" of {self.instance}, {self.begin:.3f} to {self.until:.3f}, deadline {self.deadline:.3f},"
                f" {self.how or 'open'}{self._committed()})")

    def _committed(self):
        return "" if self.completed_at is None else f", committed {self.completed_at:.3f}"


@dataclasses.dataclass
class Snapshot:
    """The tables and the group's offsets after everything has ended."""

    rows: list          # dictionaries of the view `messages`
    completions: list   # (number of the transaction, seq, instance id, delivery count), a line per processed_at set
    effects: list       # (source, event_id), a line per row of the effects table
    next_offsets: dict  # {partition: inbox_offsets.next_offset}
    committed: dict     # {partition: the group's offset}
    fenced: dict = dataclasses.field(default_factory=dict)  # {instance id: when}, of those that did not stop by themselves


class Ledger:
    """What one consumer was to get and got. `next_after` and `max_unsettled`: the settings inbox.next_after and inbox.max_unsettled_per_key of the sidecars."""

    def __init__(self, next_after="answer", max_unsettled=256):
        self.next_after = next_after
        self.max_unsettled = max_unsettled
        self.is_ordered = True  # by key
        self._lock = threading.Lock()
        self.produced = []
        self.deliveries = []
        self.missed = collections.Counter()  # by id: deliveries that were read after their deadline and their connection
        self._numbers = collections.Counter()
        self.expected_dead = set()

    # Writing

    def produce(self, *fields, **named):
        with self._lock:
            self.produced.append(Produced(*fields, **named))

    def add(self, produced):
        """Records that were held back until now."""
        with self._lock:
            self.produced += produced

    def give_up(self, partition, first, end):
        """The records [first, end) of a partition are not stored: Kafka deleted them before they were read, or the consumer
        was not known yet."""
        with self._lock:
            self.produced = [record for record in self.produced if record.partition != partition
                             or not first <= record.offset < end]

    def expect_dead(self, event_id):
        """The script makes this message dead; every other one must be processed in the end."""
        self.expected_dead.add(event_id)

    def begin(self, *fields, **named):
        """Notes a delivery and returns it, for finish()."""
        delivered = Delivered(*fields, **named)
        with self._lock:
            self._numbers[delivered.id] += 1
            delivered.number = self._numbers[delivered.id]
            self.deliveries.append(delivered)
        return delivered

    def miss(self, source, event_id):
        """Its handler was too slow to read it, and the sidecar may have counted a timeout before it ended."""
        with self._lock:
            self.missed[source, event_id] += 1

    def finish(self, delivered, how, at, noticed=None):
        """The first end counts."""
        with self._lock:
            if delivered.end is None:
                delivered.end = max(at, delivered.begin)
                delivered.noticed = delivered.end if noticed is None else noticed
                delivered.how = how

    def take_back(self, delivered, at):
        """Its answer could not be sent."""
        with self._lock:
            delivered.noticed = delivered.end
            delivered.end = max(min(at, delivered.end), delivered.begin)
            delivered.how = "lost"

    @property
    def count(self):
        with self._lock:
            return len(self.deliveries)

    # Reading

    def first_copies(self):
        """{(source, id): Produced}, what should have a row."""
        first = {}
        with self._lock:
            for record in self.produced:
                known = first.get(record.id)
                if known is None or record.offset < known.offset:
                    first[record.id] = record
        return first

    def ends(self):
        """{partition: the offset behind its last record}"""
        ends = collections.Counter()
        with self._lock:
            for record in self.produced:
                ends[record.partition] = max(ends[record.partition], record.offset + 1)
        return ends

    def by_message(self):
        """{(source, id): deliveries in the order they began}"""
        found = collections.defaultdict(list)
        with self._lock:
            for delivered in self.deliveries:
                found[delivered.id].append(delivered)
        for deliveries in found.values():
            deliveries.sort(key=lambda delivered: delivered.begin)
        return found

    def check(self, snapshot):
        """Every broken promise, as a sentence; an empty list when all were kept."""
        from ledger_rules import ORDER, RULES

        rules = RULES + (ORDER[self.next_after] if self.is_ordered else [])
        return [sentence for rule in rules for sentence in rule(self, snapshot)]

    def assert_clean(self, snapshot):
        broken = self.check(snapshot)
        assert not broken, f"{len(broken)} broken promises:\n" + "\n".join(broken[:30])
