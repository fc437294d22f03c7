"""`inboxd config` and GET /config: whom the sidecar answers, and what the command makes of other answers."""

import contextlib
import http.client
import json
import signal
import socket
import threading

import pytest

from support.process import free_port
from support.wait import eventually

PROXY = {"X-Forwarded-For": "203.0.113.7"}, {"Forwarded": "for=203.0.113.7"}, {"Via": "1.1 proxy"}


@pytest.fixture
def address():
    """An address of this host that is not the loopback address."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # sends nothing: finds the address of the outgoing interface
        except OSError:
            pytest.skip("this host has no network but the loopback")
        return probe.getsockname()[0]


def ask(sidecar, method, path, headers, body=None, source=None):
    """(status, text) of a request to the loopback address."""
    connection = http.client.HTTPConnection("127.0.0.1", sidecar.http_port, timeout=30, source_address=source and (source, 0))
    with contextlib.closing(connection):
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()


@pytest.fixture
def answering():
    """Starts a program that gives one answer to each request, whatever it is; returns its http.listen."""
    with contextlib.ExitStack() as stack:
        def start(answer):
            listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))

            def serve():
                with contextlib.suppress(OSError):
                    while True:
                        client, _ = listener.accept()
                        with client:
                            client.recv(4096)
                            client.sendall(answer)

            threading.Thread(target=serve, daemon=True).start()
            return f"127.0.0.1:{listener.getsockname()[1]}"

        yield start


@pytest.mark.parametrize("headers", PROXY, ids=lambda headers: next(iter(headers)))
def test_a_request_that_a_proxy_passes_on_gets_no_configuration_and_sets_no_level(inboxd, headers):
    status, text = ask(inboxd, "GET", "/config", headers)
    assert status == 403 and "a proxy has passed this request on" in json.loads(text)["error"]
    status, text = ask(inboxd, "PUT", "/log-level", headers, "debug")
    assert status == 403 and "a proxy has passed this request on" in json.loads(text)["error"]
    assert ask(inboxd, "GET", "/config", {})[0] == 200


def test_a_client_with_another_address_gets_no_configuration_and_sets_no_level(start_inboxd, address):
    port = free_port()
    sidecar = start_inboxd(http={"listen": f"0.0.0.0:{port}"})
    sidecar.http_port = port
    status, text = ask(sidecar, "GET", "/config", {}, source=address)
    assert status == 403 and "this host only" in json.loads(text)["error"]
    status, text = ask(sidecar, "PUT", "/log-level", {}, "debug", source=address)
    assert status == 403 and "this host only" in json.loads(text)["error"]
    assert ask(sidecar, "GET", "/log-level", {})[1] == '{"level":"info"}\n'


def test_the_command_asks_a_sidecar_that_listens_on_another_address_than_loopback(start_inboxd, address):
    sidecar = start_inboxd(http={"listen": f"{address}:{free_port()}"}, retry={"max_attempts": 7})
    done = sidecar.command("config")
    assert (done.returncode, done.stderr) == (0, "")
    assert "; change: SIGHUP" in next(line for line in done.stdout.splitlines() if line.startswith("retry.max_attempts "))
    assert "; change: restart" in next(line for line in done.stdout.splitlines() if line.startswith("worker.connections "))


@pytest.mark.parametrize(("answer", "words"), [
    (b"", "gives no answer"),
    (b"SSH-2.0-OpenSSH\r\n\r\n", "gives no answer"),
    (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", "another program answers there"),
    (b"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\n{}", "another program answers there"),
    (b"HTTP/1.1 200 OK\r\nServer: inboxd\r\nContent-Length: 500\r\n\r\nhalf", "was cut off"),
    (b"HTTP/1.1 403 Forbidden\r\nServer: inboxd\r\nContent-Length: 3\r\n\r\nwhy", "the sidecar refuses the answer: 403 why"),
], ids=["none", "ssh", "another", "404", "half", "403"])
def test_the_command_prints_no_other_answer_than_that_of_an_inboxd(make_inboxd, answering, answer, words):
    sidecar = make_inboxd(http={"listen": answering(answer)})
    done = sidecar.command("config")
    assert (done.returncode, done.stdout) == (6, "")
    assert words in done.stderr and sidecar.configuration["http"]["listen"] in done.stderr


def test_the_command_asks_the_sidecar_although_the_file_cannot_be_loaded(start_inboxd):
    sidecar = start_inboxd(log={"format": "json"})
    sidecar.write_configuration({"retry": {"max_attempts": "many"}})
    sidecar.signal(signal.SIGHUP)
    eventually(lambda: '"event":"reload_failed"' in sidecar.stderr)
    done = sidecar.command("config")
    assert done.returncode == 0
    assert "retry.max_attempts " in done.stdout and "many" not in done.stdout
    assert "retry.max_attempts" in done.stderr and "cannot be loaded" in done.stderr
    sidecar.stop()
    assert sidecar.command("config").returncode == 2


def test_a_secret_of_a_file_is_masked_wherever_it_is_shown(start_inboxd, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("hunter2")
    sidecar = start_inboxd(log={"format": "json"}, kafka={"client.id": f"file:{secret}"})
    secret.write_text("hunter3")
    sidecar.signal(signal.SIGHUP)
    eventually(lambda: '"event":"restart_needed"' in sidecar.stderr)
    shown = sidecar.get("/config")[2] + sidecar.command("config").stdout + sidecar.command("check").stdout + sidecar.stderr
    assert "hunter" not in shown
