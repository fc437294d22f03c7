"""The examples against a scripted sidecar: each says hello, handles, and leaves on SIGTERM.

    test_examples.py EXAMPLE...     (a program, or a .py file)
"""

import base64
import json
import os
import pathlib
import select
import signal
import socket
import subprocess
import sys
import tempfile

DEADLINE_S = 20


class Sidecar:
    """One connection, spoken to in lines."""

    def __init__(self, path):
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.settimeout(DEADLINE_S)
        self.listener.bind(path)
        self.listener.listen()

    def accept(self):
        connection, _ = self.listener.accept()
        connection.settimeout(DEADLINE_S)
        self.lines = connection.makefile("rwb")
        hello = self.read()
        assert hello["method"] == "hello" and hello["params"]["protocol"] == [1], hello
        self.send({"id": 1, "result": {"protocol": 1, "session": "s1"}})
        return hello["params"]

    def read(self):
        line = self.lines.readline()
        assert line.endswith(b"\n"), f"cut off: {line}"
        return json.loads(line)

    def send(self, message):
        self.lines.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self.lines.flush()

    def deliver(self, number, **event):
        delivery = {"claim": f"{number}.1.1", "seq": str(number), "attempt": 1}
        event = {"id": f"A{number}", "source": "orders", "type": "order.created", **event}
        params = {"delivery": delivery, "event": event, "headers": []}
        self.send({"id": f"d{number}", "method": "deliver", "params": params})
        answer = self.read()
        assert answer["id"] == f"d{number}", answer
        return answer

    def close(self):
        self.lines.close()
        self.listener.close()


def a_message_is_answered_done(sidecar):
    answer = sidecar.deliver(1, data={"customer": "c-1", "cents": 5})
    assert answer["result"]["status"] == "done", answer


def a_tombstone_is_answered_done(sidecar):
    assert sidecar.deliver(2)["result"]["status"] == "done"


def an_order_without_cents_is_dead(sidecar):
    answer = sidecar.deliver(3, data={"customer": "c-1"})
    assert answer["result"]["status"] == "dead", answer
    assert answer["result"]["code"] == "SCHEMA", answer


def the_total_is_the_result(sidecar):
    answer = sidecar.deliver(4, data={"customer": "c-1", "cents": 7})
    assert answer["result"]["result"] == {"total_cents": 12}, answer


def what_it_prints_is_there_at_once(process):
    ready, _, _ = select.select([process.stdout], [], [], DEADLINE_S)
    assert ready and process.stdout.readline(), "nothing is printed before it ends"


def without_a_sidecar_it_says_so_in_a_line(example, directory):
    environment = {**os.environ, "INBOXD_SOCKET_PATH": f"{directory}/none.sock"}
    done = subprocess.run([sys.executable, example], env=environment, capture_output=True, text=True,
                          timeout=DEADLINE_S)
    assert done.returncode == 1 and len(done.stderr.splitlines()) == 1, done.stderr
    assert "none.sock: No such file or directory" in done.stderr, done.stderr


def the_id_of_the_schema_is_found(sidecar):
    answer = sidecar.deliver(5, data_base64=base64.b64encode(b"\0\0\1\2\3\2x").decode())
    assert answer["result"]["status"] == "done", answer


def data_without_a_schema_is_dead(sidecar):
    unframed = [{"data_base64": base64.b64encode(value).decode()} for value in (b"", b"\0\0\0\0", b"\1\0\0\0\2x")]
    for number, event in enumerate([{"data": {"order": 1}}, *unframed]):
        answer = sidecar.deliver(6 + number, **event)
        assert (answer["result"]["status"], answer["result"]["code"]) == ("dead", "DATA"), answer


EVERY = [a_message_is_answered_done, a_tombstone_is_answered_done]
RULES = {"handler": EVERY + [an_order_without_cents_is_dead, the_total_is_the_result],
         "schema_registry": [a_tombstone_is_answered_done, the_id_of_the_schema_is_found, data_without_a_schema_is_dead]}
PRINTS = ["minimal", "handler", "schema_registry"]


def leaves_on_sigterm(sidecar, process, drains):
    process.send_signal(signal.SIGTERM)
    if drains:
        assert sidecar.read()["method"] == "drain"
        sidecar.send({"id": 2, "result": {"in_flight": 0}})
    status = process.wait(DEADLINE_S)
    assert status == (0 if drains else -signal.SIGTERM), status


def try_example(example, directory):
    path = f"{directory}/inbox.sock"
    sidecar = Sidecar(path)
    command = [sys.executable, example] if example.endswith(".py") else [example]
    process = subprocess.Popen(command, env={**os.environ, "INBOXD_SOCKET_PATH": path},
                               stdout=subprocess.PIPE)
    try:
        sidecar.accept()
        for rule in RULES.get(pathlib.Path(example).stem, EVERY):
            rule(sidecar)
            print(f"{pathlib.Path(example).name}: {rule.__name__}")
        if pathlib.Path(example).stem in PRINTS:
            what_it_prints_is_there_at_once(process)
        leaves_on_sigterm(sidecar, process, drains=not example.endswith("minimal.py"))
    finally:
        process.kill()
        process.wait()
        sidecar.close()


def main():
    for example in sys.argv[1:]:
        with tempfile.TemporaryDirectory() as directory:
            try_example(example, directory)
            if example.endswith("minimal.py"):
                without_a_sidecar_it_says_so_in_a_line(example, directory)


if __name__ == "__main__":
    main()
