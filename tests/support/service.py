"""A service that receives messages over HTTP: a real server, which answers as the test decides."""

import contextlib
import http.server
import socket
import ssl
import threading
import time

from support import process
from support.wait import eventually


class Request:
    def __init__(self, handler, body):
        self.began = time.monotonic()
        self.path = handler.path
        self.headers = handler.headers
        self.body = body
        self.peer = handler.client_address[1]  # the port: one for each connection

    @property
    def event_id(self):
        return self.headers["ce-id"]


def response(status=200, body=b"", **headers):
    """headers: retry_after=5 becomes Retry-After: 5."""
    return status, {name.replace("_", "-"): str(value) for name, value in headers.items()}, body


def json_response(body, status=200):
    return response(status, body.encode(), Content_Type="application/json; charset=utf-8")


class Service:
    """Answers each POST with `decide(request)`: a response(), None to close the connection without one, or bytes that are
    written as they are before it is closed. A connection that is idle for idle_timeout seconds after a response is closed."""

    def __init__(self, decide=lambda request: response(), port=None, certificate=None, client_ca=None, idle_timeout=None):
        self.decide = decide
        self.port = port or process.free_port()
        self.requests = []
        self._idle_timeout = idle_timeout
        self.connections = set()  # that are open
        self.closed = threading.Event()  # set at the end of the test: for decisions that hang
        self._lock = threading.Lock()
        service = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                service._serve(self)

            def setup(self):
                service.connections.add(self.client_address)
                super().setup()

            def finish(self):
                super().finish()
                with contextlib.suppress(OSError):
                    self.connection.shutdown(socket.SHUT_RDWR)
                service.connections.discard(self.client_address)

            def log_message(self, *_):
                pass

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 128

            def handle_error(self, *_):
                pass  # the test sees what the client made of it

        self._server = Server(("127.0.0.1", self.port), Handler)
        self.scheme = "http"
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*certificate)
            if client_ca:
                context.load_verify_locations(client_ca)
                context.verify_mode = ssl.CERT_REQUIRED
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)
            self.scheme = "https"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self._thread.start()

    @property
    def url(self):
        return f"{self.scheme}://127.0.0.1:{self.port}/events"

    def wait_count(self, count, timeout=30):
        eventually(lambda: len(self.requests) >= count, timeout, what=f"{count} requests; there are {len(self.requests)}")
        return self.requests

    def wait_closed(self):
        eventually(lambda: not self.connections, what="the end of all connections")

    def stop(self):
        self.closed.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)

    def _serve(self, handler):
        body = handler.rfile.read(int(handler.headers.get("Content-Length", 0)))
        request = Request(handler, body)
        with self._lock:
            self.requests.append(request)
        answer = self.decide(request)
        if not isinstance(answer, tuple):
            handler.close_connection = True
            handler.wfile.write(answer or b"")
            handler.wfile.flush()
            handler.connection.shutdown(socket.SHUT_RDWR)
            return
        status, headers, content = answer
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name, value)
        handler.send_header("Content-Length", str(len(content)))
        handler.end_headers()
        handler.wfile.write(content)
        handler.connection.settimeout(self._idle_timeout)
