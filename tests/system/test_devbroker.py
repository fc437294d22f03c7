"""The broker of the quick start: the part of Kafka that a demonstration needs, with clear errors."""

import os
import pathlib
import signal
import subprocess

import pytest
from confluent_kafka import Consumer, Producer

from support import process
from support.sidecar import SANITIZERS, binary
from support.wait import eventually

PROGRAM = str(pathlib.Path(binary()).parents[1] / "tools" / "inboxd-devbroker")
ENVIRONMENT = {**os.environ, **SANITIZERS}


@pytest.fixture
def start_broker(tmp_path):
    """start_broker(*arguments) -> (process, bootstrap address)"""
    started = []

    def start(*arguments):
        address = tmp_path / f"address{len(started)}"
        started.append(process.spawn([PROGRAM, "--address-file", str(address), *arguments],
                                     tmp_path / "log", env=ENVIRONMENT))
        eventually(address.exists, what="the address file")
        return started[-1], address.read_text().strip()

    yield start
    for broker in started:
        process.end(broker)


def complaint(*arguments):
    done = subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, timeout=20,
                          env=ENVIRONMENT)
    assert done.returncode != 0
    return done.returncode, done.stderr


def test_produced_records_can_be_consumed_by_a_group(start_broker):
    _, bootstrap = start_broker("--topic", "orders:3")
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(10):
        producer.produce("orders", f"v{number}", key=f"k{number}", headers={"id": str(number)})
    assert producer.flush(20) == 0
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "g",
                         "auto.offset.reset": "earliest"})
    consumer.subscribe(["orders"])
    values = {record.value() for record in (consumer.poll(20) for _ in range(10))}
    consumer.close()
    assert values == {f"v{number}".encode() for number in range(10)}


def test_the_port_can_be_chosen(start_broker):
    port = process.free_port()
    _, bootstrap = start_broker("--port", str(port))
    assert bootstrap == f"127.0.0.1:{port}"


def test_check_does_not_wait_for_unsupported_requests(start_broker):
    _, bootstrap = start_broker("--topic", "orders:1")
    settings = {"kafka.bootstrap.servers": bootstrap, "kafka.topics": "orders", "kafka.group.id": "g",
                "postgres.host": "127.0.0.1", "postgres.port": "1"}
    done = subprocess.run([binary(), "check", *(f"--set={key}={value}" for key, value in settings.items())],
                          capture_output=True, text=True, timeout=8, env=ENVIRONMENT)  # otherwise it waits for 10 s
    assert "retention unknown: this broker does not support the request" in done.stdout


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_at_a_signal(start_broker, number):
    broker, _ = start_broker()
    broker.send_signal(number)
    assert broker.wait(30) == 0


def test_a_port_in_use_is_named(start_broker):
    _, bootstrap = start_broker("--port", str(process.free_port()))
    code, words = complaint("--port", bootstrap.partition(":")[2])
    assert code == 4
    assert bootstrap in words


@pytest.mark.parametrize("arguments, named", [
    (["--port", "seven"], "seven"), (["--port", "65536"], "65536"), (["--topic", "a:0"], "a:0"),
    (["--topic", ":3"], ":3"), (["stray"], "stray"), (["--frobnicate"], "frobnicate"),
    (["--topic", "a", "--topic", "a"], "a"), (["--address-file", "/nowhere/file"], "/nowhere/file"),
])
def test_a_wrong_argument_is_named(arguments, named):
    code, words = complaint(*arguments)
    assert code == 1
    assert named in words
