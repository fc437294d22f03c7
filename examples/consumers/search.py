"""The consumer `search`: a table of orders, in SQLite.    search.py TABLE [SOCKET]

It speaks the protocol itself and needs only the standard library. The table is in another database than the inbox, so a
message can come twice. The consumer has no order, so a later message of an order can come first. The statement allows
for both: it keeps what the message with the highest offset says.
"""
import contextlib, json, os, random, socket, sqlite3, sys, time

PATH = sys.argv[2] if len(sys.argv) > 2 else \
    os.environ.get("INBOXD_SOCKET_PATH", "/run/inboxd/inbox.sock")
HELLO = {"protocol": [1], "handler": "indexer", "consumer": "search", "client": "search.py/1"}

table = sqlite3.connect(sys.argv[1], isolation_level=None)  # each statement commits
table.execute("PRAGMA journal_mode = WAL")                  # one write to the disk for each of them
table.execute("CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, customer TEXT, status TEXT, kafka_offset INT)")

def handle(event):
    order = event["data"]
    table.execute("INSERT INTO orders VALUES (?, ?, ?, ?) ON CONFLICT (id) DO UPDATE"
                  " SET status = excluded.status, kafka_offset = excluded.kafka_offset"
                  " WHERE excluded.kafka_offset > orders.kafka_offset",
                  (order["order"], order["customer"], event["type"], int(event["kafkaoffset"])))
    return {"status": "done"}

def answer(event):
    try:
        return {"result": handle(event)}
    except Exception as error:
        return {"error": {"code": -32000, "message": f"{type(error).__name__}: {error}"}}

def serve(inbox):
    def send(message):
        inbox.sendall(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    send({"id": 1, "method": "hello", "params": HELLO})
    for message in map(json.loads, inbox.makefile("rb")):
        if message.get("method") == "deliver":
            send({"id": message["id"], **answer(message["params"]["event"])})
        elif "error" in message and message["error"]["code"] != -32020:
            sys.exit(f"the sidecar does not want this: {message['error']['message']}")

while True:                                                 # it may be ended at any time
    with socket.socket(socket.AF_UNIX) as inbox, contextlib.suppress(OSError):
        inbox.connect(PATH)
        serve(inbox)
    time.sleep(random.uniform(0, 2))                        # before connecting again
