"""A collector of spans: an HTTP server in a thread that reads OTLP's JSON and keeps the spans."""

import http.server
import json
import threading


class Span:
    """One span, its attributes as a dictionary."""

    def __init__(self, members):
        self.trace_id = members["traceId"]
        self.span_id = members["spanId"]
        self.parent_id = members.get("parentSpanId")
        self.name = members["name"]
        self.kind = members["kind"]
        self.start, self.end = int(members["startTimeUnixNano"]), int(members["endTimeUnixNano"])
        self.attributes = {pair["key"]: _value(pair["value"]) for pair in members["attributes"]}
        self.failed = members["status"].get("code") == 2
        assert isinstance(members["startTimeUnixNano"], str), "64-bit numbers are strings"

    def __repr__(self):
        return f"{self.name} {self.span_id} of {self.parent_id}: {self.attributes}"


def _value(value):
    ((kind, content),) = value.items()
    return {"stringValue": str, "intValue": int}[kind](content)


class Collector:
    """Listens on a free port of 127.0.0.1, or on the one given. `status` is the code of its answers. With `hold` an
    answer waits until release(). Use it as a context manager."""

    def __init__(self, port=0, status=200, hold=False):
        self.status = status
        self.requests = []   # (path, headers)
        self.resources = []
        self.spans = []
        self._may_answer = threading.Event()
        if not hold:
            self._may_answer.set()
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", port), self._make_class())
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=[0.05], daemon=True)
        self._thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.release()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def release(self):
        self._may_answer.set()

    @property
    def endpoint(self):
        return f"http://127.0.0.1:{self.port}"

    def of(self, event_id, name=None):
        """The spans of a message, in the order they began."""
        found = [span for span in list(self.spans) if span.attributes["messaging.message.id"] == event_id
                 and name in (None, span.name)]
        return sorted(found, key=lambda span: (span.end, span.start))

    def _make_class(collector):  # pylint: disable=no-self-argument
        class Request(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                collector._take(self.path, dict(self.headers), body)
                collector._may_answer.wait(60)
                try:
                    self.send_response(collector.status)
                    self.send_header("Content-Type", "application/json")
                    self.send_header("Content-Length", "2")
                    self.end_headers()
                    self.wfile.write(b"{}")
                except OSError:
                    self.close_connection = True  # the client has closed the connection

            def log_message(self, *_):
                pass

        return Request

    def _take(self, path, headers, body):
        self.requests.append((path, headers))
        if self.status != 200:
            return
        for resource in json.loads(body.decode("utf-8", "strict"))["resourceSpans"]:
            self.resources.append({pair["key"]: _value(pair["value"]) for pair in resource["resource"]["attributes"]})
            for scope in resource["scopeSpans"]:
                self.spans.extend(map(Span, scope["spans"]))
