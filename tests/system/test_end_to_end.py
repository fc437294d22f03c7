"""Long runs of the whole program: many messages with duplicates. They print the cost."""

import time

import pytest

from support.wait import eventually

pytestmark = pytest.mark.timeout(900)

UNIQUE = 180_000
COPIES = 20_000
PAYLOAD = b'{"order":17,"customer":"c-4711","lines":[' + b",".join(
    b'{"sku":"A-%03d","count":1}' % number for number in range(12)) + b"]}"


def produce_with_duplicates(streams, topic):
    """UNIQUE events in 10,000 keys; every ninth is followed by a copy of an earlier one."""

    def records():
        for number in range(UNIQUE):
            yield _record(number)
            if number % 9 == 8:
                yield _record(number - number % 7)

    streams.produce_many(topic, records())


def _record(number):
    return {"value": PAYLOAD, "key": f"k{number % 10000}", "headers": [("id", f"e{number}")]}


@pytest.fixture
def measure(capsys):
    """measure(sidecar, started, cpu): prints what UNIQUE + COPIES messages took since then."""

    def measure(sidecar, started, cpu):
        count = UNIQUE + COPIES
        seconds = time.monotonic() - started
        used = sidecar.cpu_seconds() - cpu
        with capsys.disabled():
            print(f"\n{count:,} messages in {seconds:.1f} s: {count / seconds:,.0f}/s,"
                  f" {used / count * 1e6:.1f} us of CPU a message,"
                  f" peak {sidecar.peak_memory() / (1 << 20):.0f} MiB")

    return measure


def assert_all_accounted_for(inbox, streams, sidecar, topic, group):
    scrape = sidecar.metrics()
    assert scrape.value("inboxd_messages_received_total", topic=topic) == UNIQUE + COPIES
    assert scrape.value("inboxd_duplicates_total", topic=topic) == COPIES
    assert inbox.count() == UNIQUE
    eventually(lambda: streams.committed(group, topic) == streams.log_end(topic))


@pytest.mark.big
def test_two_hundred_thousand_messages_are_stored_once(inboxd, streams, topic, group, inbox,
                                                       measure):
    cpu, started = inboxd.cpu_seconds(), time.monotonic()
    produce_with_duplicates(streams, topic)
    inbox.wait_stored(UNIQUE, timeout=600)
    measure(inboxd, started, cpu)
    eventually(lambda: streams.lag(group, topic) == 0, timeout=60)
    assert_all_accounted_for(inbox, streams, inboxd, topic, group)


def test_two_hundred_thousand_messages_are_handled_once(start_inboxd, noop_handler, streams, topic, group,
                                                        inbox, measure):
    """A lease or a session that ends on a busy machine would bring some of them again."""
    inboxd = start_inboxd(worker={"lease": "30s"}, kafka={"session.timeout.ms": 30_000})
    ledger = noop_handler(inboxd)
    cpu, started = inboxd.cpu_seconds(), time.monotonic()
    produce_with_duplicates(streams, topic)
    eventually(lambda: inbox.count("processed") == UNIQUE, timeout=800, every=0.5)
    measure(inboxd, started, cpu)
    assert_all_accounted_for(inbox, streams, inboxd, topic, group)
    ids = [line.split()[0] for line in ledger.lines()]
    assert len(ids) == UNIQUE
    assert len(set(ids)) == UNIQUE


def half_is_handled(inbox):
    eventually(lambda: inbox.count("processed") > UNIQUE // 3, timeout=600, every=0.1)


def handled_ids(*ledgers):
    return {line.split()[0] for ledger in ledgers for line in ledger.lines()}


@pytest.mark.big
def test_nothing_is_missing_after_the_handler_is_killed_in_the_middle(inboxd, noop_handler, streams,
                                                                      topic, group, inbox):
    first = noop_handler(inboxd)
    produce_with_duplicates(streams, topic)
    half_is_handled(inbox)
    first.kill()
    second = noop_handler(inboxd)
    eventually(lambda: inbox.count("processed") == UNIQUE, timeout=600, every=0.5)
    assert_all_accounted_for(inbox, streams, inboxd, topic, group)
    assert len(handled_ids(first, second)) == UNIQUE


@pytest.mark.big
def test_nothing_is_missing_after_inboxd_is_killed_in_the_middle(inboxd, noop_handler, streams, topic,
                                                                 group, inbox):
    first = noop_handler(inboxd)
    produce_with_duplicates(streams, topic)
    half_is_handled(inbox)
    inboxd.kill()
    inboxd.start()
    second = noop_handler(inboxd)
    eventually(lambda: inbox.count("processed") == UNIQUE, timeout=600, every=0.5)
    assert inbox.count() == UNIQUE
    eventually(lambda: streams.committed(group, topic) == streams.log_end(topic))
    assert len(handled_ids(first, second)) == UNIQUE
