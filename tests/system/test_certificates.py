"""Certificates and keys for Kafka that are renewed while sidecars run."""

import datetime
import os
import pathlib
import re
import threading

import pytest

from secure import CertificateKafka
from support import process
from support.librdkafka import later_librdkafka
from support.outbox import Outbox, values
from support.scripts import DONE
from support.streams import Streams
from support.tls import Authority
from support.wait import eventually
from support.wire import dead


@pytest.fixture(scope="module")
def authorities():
    """(the earlier one, the later one)"""
    return Authority("earlier"), Authority("later")


@pytest.fixture(scope="module")
def tls_kafka(authorities):
    server = CertificateKafka(authorities[0])
    server.trust(*authorities)
    server.start()
    yield server
    server.stop()


@pytest.fixture
def kafka_server(tls_kafka, authorities):
    """In this file, the broker of the other fixtures."""
    yield tls_kafka
    tls_kafka.trust(*authorities)
    if tls_kafka.is_running():
        tls_kafka.restart()


class Files:
    """A directory as Kubernetes mounts a secret: the files are links to a directory that is replaced as a whole."""

    def __init__(self, authorities):
        self.directory = pathlib.Path(process.scratch("certificates"))
        self.directory.chmod(0o755)
        self._pairs = [one.issue("DNS:client") for one in authorities]
        self._numbers = iter(range(100))
        self.replace(0, 0)
        for name in ("tls.crt", "tls.key"):
            (self.directory / name).symlink_to(f"..data/{name}")

    def replace(self, certificate, key):
        """Each of them is 0, of the earlier authority, or 1."""
        place = self.directory / f"data{next(self._numbers)}"
        place.mkdir()
        for name, source in (("tls.crt", self._pairs[certificate][0]), ("tls.key", self._pairs[key][1])):
            (place / name).write_bytes(pathlib.Path(source).read_bytes())
            (place / name).chmod(0o644)
        (self.directory / "..new").symlink_to(place.name)
        os.replace(self.directory / "..new", self.directory / "..data")

    def settings(self, kafka, authority):
        return {"bootstrap.servers": f"localhost:{kafka.tls_port}", "security.protocol": "ssl", "ssl.ca.location": authority.ca,
                "ssl.certificate.location": str(self.directory / "tls.crt"), "ssl.key.location": str(self.directory / "tls.key"),
                "reconnect.backoff.max.ms": 500}


@pytest.fixture
def files(authorities):
    return Files(authorities)


@pytest.fixture
def load(streams, topic):
    """Sends events, one after the other, until stop(), which returns their ids."""
    class Load:
        def __init__(self):
            self._ids, self._end = [], threading.Event()
            self._thread = threading.Thread(target=self._run, daemon=True)
            self._thread.start()

        def _run(self):
            while not self._end.wait(0.05):
                streams.events(topic, [f"e{len(self._ids) + number}" for number in range(20)])
                self._ids += [f"e{len(self._ids) + number}" for number in range(20)]

        def stop(self):
            self._end.set()
            self._thread.join(60)
            return self._ids

    running = Load()
    yield running
    running.stop()


def test_a_renewed_certificate_is_used_with_one_rebalance_and_without_a_lost_message(
        start_inboxd, tls_kafka, authorities, files, handler, load, streams, topic, inbox, name):
    """Under load, for the consumer, the dead topic and the outbox. Then the brokers no longer accept the earlier certificate."""
    dead_topic, events = f"{name[:40]}.dead", f"{name[:40]}.events"
    for one in (dead_topic, events):
        streams.create(one, 1)
    sidecar = start_inboxd(kafka={**files.settings(tls_kafka, authorities[0]), "certificate_spread": 0},
                           retry={"dead_topic": dead_topic}, outbox={"enabled": True})
    outbox = Outbox(inbox)

    def decide(delivery):
        return dead(reason="no") if delivery.event_id == "last" else DONE

    first = handler(sidecar, decide)
    outbox.emit(events, "k", "before")
    assert values(streams.read(events, 1)) == ["before"]
    files.replace(1, 1)
    eventually(lambda: sidecar.stderr.count("event=started ") == 2)
    second = handler(sidecar, decide)
    ids = load.stop()
    inbox.wait_processed(len(ids))
    assert sidecar.stderr.count("event=kafka_certificates_changed ") == 1
    assert sidecar.stderr.count("event=partitions_revoked ") == 1
    assert sorted(delivery.event_id for delivery in first.deliveries + second.deliveries) == sorted(ids)
    tls_kafka.stop()
    tls_kafka.trust(authorities[1])
    tls_kafka.start()
    streams.events(topic, ["last"])
    outbox.emit(events, "k", "after")
    assert len(streams.read(dead_topic, 1)) == 1
    assert values(streams.read(events, 2)) == ["before", "after"]


@pytest.mark.slow
def test_a_pair_that_does_not_fit_leaves_the_clients_alone(start_inboxd, tls_kafka, authorities, files, handler, streams, topic, inbox):
    """When the pair fits and no broker accepts the earlier one, the sidecar does not wait for its time of the spread."""
    sidecar = start_inboxd(kafka={**files.settings(tls_kafka, authorities[0]), "certificate_spread": "1d"})
    handler(sidecar, lambda _: DONE)
    files.replace(1, 0)
    eventually(lambda: "event=kafka_certificates_refused " in sidecar.stderr)
    streams.events(topic, ["a"])
    inbox.wait_processed(1)
    files.replace(1, 1)
    line = eventually(lambda: next((line for line in sidecar.stderr.splitlines() if "event=kafka_certificates_changed " in line), None))
    assert "renew_in_s=0 " not in line
    tls_kafka.stop()
    tls_kafka.trust(authorities[1])
    tls_kafka.start()
    eventually(lambda: sidecar.stderr.count("event=started ") == 2, timeout=60)
    handler(sidecar, lambda _: DONE)
    streams.events(topic, ["b"])
    inbox.wait_processed(2)
    assert sidecar.stderr.count("event=kafka_certificates_refused ") == 1


def moment(sidecar, event):
    """When the sidecar has first logged this event, in seconds, and the line."""
    line = next(line for line in sidecar.stderr.splitlines() if f"event={event} " in line)
    return datetime.datetime.fromisoformat(line.split()[0].removeprefix("time=").replace("Z", "+00:00")).timestamp(), line


def partitions(sidecar):
    """How many the sidecar has."""
    changes = re.findall(r"event=partitions_(assigned|revoked) count=(\d+)", sidecar.stderr)
    return sum(int(count) if what == "assigned" else -int(count) for what, count in changes)


@pytest.mark.slow
def test_several_sidecars_renew_their_clients_one_after_the_other(start_inboxd, tls_kafka, authorities, files, handler, load, inbox):
    """Each once, at a random time, which it has logged. With a librdkafka before 2.10, a commit during a rebalance can cost another
    member its partitions (librdkafka issue 4059)."""
    sidecars = [start_inboxd(env=later_librdkafka(), kafka={**files.settings(tls_kafka, authorities[0]), "certificate_spread": "15s",
                                                                "session.timeout.ms": 30000})
                for _ in range(3)]
    handlers = [handler(one, lambda _: DONE) for one in sidecars]
    eventually(lambda: sorted(partitions(one) for one in sidecars) == [1, 1, 2], timeout=60)
    files.replace(1, 1)
    for one in sidecars:
        eventually(lambda one=one: one.stderr.count("event=started ") == 2, timeout=90)
        handlers.append(handler(one, lambda _: DONE))
    eventually(lambda: sorted(partitions(one) for one in sidecars) == [1, 1, 2], timeout=60)
    ids = load.stop()
    inbox.wait_processed(len(ids))
    assert sorted(delivery.event_id for one in handlers for delivery in one.deliveries) == sorted(ids)
    waits = []
    for one in sidecars:
        assert one.stderr.count("event=kafka_certificates_changed ") == 1
        assert "lost=1" not in one.stderr
        changed, line = moment(one, "kafka_certificates_changed")
        waits.append(int(re.search(r"renew_in_s=(\d+)", line)[1]))
        assert moment(one, "dispatch_stopping")[0] - changed >= waits[-1] - 0.1
    assert max(waits) > 0 and all(wait <= 15 for wait in waits)
