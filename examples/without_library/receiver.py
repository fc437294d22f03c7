#!/usr/bin/env python3
"""A service that receives messages over HTTP. It needs only the standard library.

    python3 receiver.py 8080 &
    inboxd forward --handler billing --topic orders --url http://localhost:8080/events
"""

import http.server
import json
import sys

invoices = {}  # by idempotency key: a message can come twice


class Receiver(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # connections stay open

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        key = self.headers["Idempotency-Key"]
        try:
            cents = json.loads(body)["cents"]
        except (ValueError, KeyError, TypeError):
            return self.answer(422, {"error": "an order without cents"})  # dead: no attempt can succeed
        number, _ = invoices.setdefault(key, (len(invoices) + 1, cents))
        self.answer(200, {"invoice": number})  # done; the body becomes the result of the message

    def answer(self, status, content):
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Receiver).serve_forever()
