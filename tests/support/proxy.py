"""A TCP proxy for faults: it cuts connections, delays or drops data, or connects to another port.

	with Proxy(port) as proxy:       # listens on proxy.port of 127.0.0.1
	    proxy.cut()                  # ends all connections; new ones are served
	    proxy.refuse(); proxy.accept()
	    proxy.blackhole()            # nothing passes any more, nothing is closed; until heal()
	    proxy.slow_down(1e6, 0.05)   # bytes a second and seconds of delay, each connection
	    proxy.lead_to(other_port)    # new connections go there
	    proxy.cut_before(b"COMMIT")  # the next answer holding these bytes is not forwarded: cut
	    proxy.stall_after(b"UPDATE") # the next request holding these bytes passes, then nothing does; until heal()
    proxy.change_answers(change) # change(data) is forwarded in place of what the server sent; None ends it
    proxy.change_requests(change) # the same for what the client sent
"""

import contextlib
import select
import socket
import threading
import time

from support.process import free_port

CHUNK = 1 << 16


class Proxy:
    """Serves until close(). Each connection has its own thread."""

    def __init__(self, target_port):
        self.target_port = target_port
        self.port = free_port()
        self.cuts = 0            # answers cut by cut_before()
        self.connections = 0     # accepted so far
        self._lock = threading.Lock()
        self._open = set()
        self._word = None
        self._last = None
        self._change = None
        self._change_request = None
        self._rate = None        # bytes a second; None = as fast as it goes
        self._latency = 0
        self._passing = threading.Event()
        self._passing.set()
        self._closed = False
        self._listener = None
        self.accept()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self._closed = True
        self._passing.set()
        self.refuse()

    # Faults and their end

    def refuse(self):
        """Stops listening and ends all connections."""
        listener, self._listener = self._listener, None
        if listener is not None:
            _end(listener)
        self.cut()

    def accept(self):
        self._listener = socket.create_server(("127.0.0.1", self.port))
        threading.Thread(target=self._serve, args=[self._listener], daemon=True).start()

    def cut(self):
        with self._lock:
            sockets, self._open = self._open, set()
        for end in sockets:
            _end(end)

    def blackhole(self):
        self._passing.clear()

    def heal(self):
        self._passing.set()

    def slow_down(self, bytes_a_second, latency):
        """Seconds of `latency` for each piece; a connection forwards one piece at a time."""
        self._rate, self._latency = bytes_a_second, latency

    def lead_to(self, port):
        self.target_port = port

    def cut_before(self, word):
        self._word = word

    def stall_after(self, word):
        self._last = word

    def change_answers(self, change):
        self._change = change

    def change_requests(self, change):
        self._change_request = change

    @property
    def is_stalled(self):
        return not self._passing.is_set()

    # Forwarding

    def _serve(self, listener):
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self._connect, args=[client], daemon=True).start()

    def _connect(self, client):
        try:
            server = socket.create_connection(("127.0.0.1", self.target_port), timeout=5)
            server.settimeout(None)
        except OSError:
            _end(client)
            return
        with self._lock:
            self._open |= {client, server}
        self._pass(client, server)
        with self._lock:
            self._open -= {client, server}
        _end(client)
        _end(server)

    def _pass(self, client, server):
        with contextlib.suppress(OSError, ValueError):
            while not self._closed:
                ready, _, _ = select.select([client, server], [], [], 1)
                for source in ready:
                    data = source.recv(CHUNK)
                    self._passing.wait()
                    if not data or (source is server and self._is_cut(data)):
                        return
                    if source is server and self._change:
                        data = self._change(data)
                    if source is client and self._change_request:
                        data = self._change_request(data)
                    self._hold_up(data)
                    if source is client:
                        self._stall_behind(data)
                    (server if source is client else client).sendall(data)

    def _hold_up(self, data):
        if self._rate is not None:
            time.sleep(self._latency + len(data) / self._rate)

    def _stall_behind(self, data):
        with self._lock:
            if self._last is not None and self._last in data:
                self._last = None
                self._passing.clear()

    def _is_cut(self, data):
        with self._lock:
            if self._word is None or self._word not in data:
                return False
            self._word = None
        self.cuts += 1
        return True


def _end(end):
    with contextlib.suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
    end.close()
