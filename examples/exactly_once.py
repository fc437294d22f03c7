"""Effects exactly once, in Python with psycopg 3: an invoice for each order.    exactly_once.py [SOCKET]

The database is the one of the inbox; PG* variables name it. Connects again by itself, to it and to inboxd; while it
is away, messages come again every second and spend no attempt. On SIGTERM it finishes what it has read and leaves.
"""
import contextlib, json, os, random, signal, socket, sys, threading
import psycopg

PATH = sys.argv[1] if len(sys.argv) > 1 else \
    os.environ.get("INBOXD_SOCKET_PATH", "/run/inboxd/inbox.sock")
HELLO = {"protocol": [1], "handler": "invoices", "client": "exactly_once.py/1", "max_in_flight": 8,
         "subscribe": [{"topic": "orders"}]}
# Not the message's fault: the connection, a standby, a deadlock, no room, a lock of others, a shutdown.
AWAY = ("08", "25006", "40", "53", "55006", "55P03", "57P")
database, stopping, sending, sock = None, threading.Event(), threading.Lock(), None

def make_invoice(claim, order):
    global database
    if database is None or database.closed:
        database = psycopg.connect(autocommit=True, connect_timeout=5, prepare_threshold=None)
    with database.transaction():
        row = database.execute("INSERT INTO invoices (order_id, cents) VALUES (%s, %s) RETURNING id",
                               (order["order"], order["cents"])).fetchone()
        database.execute("SELECT inbox.complete(%s, %s)", (claim, json.dumps({"invoice": row[0]})))

def handle(delivery, event):
    try:
        make_invoice(delivery["claim"], event["data"])
    except psycopg.Error as error:
        code = error.sqlstate or ("08006" if isinstance(error, psycopg.OperationalError) else "DATA")
        if code.startswith(AWAY):
            # Also if the COMMIT took place: a snooze does not change a completed message.
            if database is not None:
                database.close()           # it may be a standby: the next message connects again
            print(error, file=sys.stderr, flush=True)
            return {"status": "snooze", "delay_ms": 1000, "reason": str(error), "code": code}
        if code != "IB001":                # IB001: the claim is lost; nothing was committed here
            return {"status": "retry", "reason": str(error), "code": code}
    return {"status": "settled"}

def answer(params):
    try:
        return {"result": handle(params["delivery"], params["event"])}
    except Exception as error:
        return {"error": {"code": -32000, "message": f"{type(error).__name__}: {error}"}}

def send(message):
    with sending:
        sock.sendall(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

def drain_on_sigterm():                    # in a thread: the main one is busy
    signal.sigwait({signal.SIGTERM})
    stopping.set()
    with contextlib.suppress(OSError, AttributeError):
        send({"id": 2, "method": "drain"})

def serve():
    send({"id": 1, "method": "hello", "params": HELLO})
    if stopping.is_set():
        return
    for message in map(json.loads, sock.makefile("rb")):
        if message.get("method") == "deliver":
            send({"id": message["id"], **answer(message["params"])})
        elif "error" in message and message["error"]["code"] != -32020:
            sys.exit(f"the sidecar does not want this: {message['error']['message']}")
        elif message.get("id") == 2:
            return                         # drained: nothing is open any more

signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
threading.Thread(target=drain_on_sigterm, daemon=True).start()
while not stopping.is_set():
    with socket.socket(socket.AF_UNIX) as sock, contextlib.suppress(OSError):
        sock.connect(PATH)
        serve()
    stopping.wait(random.uniform(0, 2))    # before connecting again
