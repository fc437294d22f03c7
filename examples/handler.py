"""A handler in Python, standard library only: totals of orders.    handler.py [SOCKET]

One message at a time; connects again by itself; on SIGTERM it finishes what it has read and leaves.
Delivery is at least once: for effects exactly once see docs/handlers.md.
"""
import contextlib, json, os, random, signal, socket, sys, threading

PATH = sys.argv[1] if len(sys.argv) > 1 else \
    os.environ.get("INBOXD_SOCKET_PATH", "/run/inboxd/inbox.sock")
HELLO = {"protocol": [1], "handler": "totals", "client": "handler.py/1", "max_in_flight": 8,
         "subscribe": [{"topic": "orders", "types": ["order.*"]}]}
totals, stopping, sending, sock = {}, threading.Event(), threading.Lock(), None

def handle(event):
    if "data" not in event:                         # a tombstone
        return {"status": "done"}
    if not isinstance(event["data"].get("cents"), int):
        return {"status": "dead", "reason": "no cents in the order", "code": "SCHEMA"}
    customer = event["data"]["customer"]            # not there: an exception, and so a retry
    totals[customer] = totals.get(customer, 0) + event["data"]["cents"]
    print(event["id"], customer, totals[customer], flush=True)
    return {"status": "done", "result": {"total_cents": totals[customer]}}

def answer(event):
    try:
        return {"result": handle(event)}
    except Exception as error:
        return {"error": {"code": -32000, "message": f"{type(error).__name__}: {error}"}}

def send(message):
    with sending:
        sock.sendall(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

def drain_on_sigterm():                             # in a thread: the main one is busy reading
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
            send({"id": message["id"], **answer(message["params"]["event"])})
        elif "error" in message and message["error"]["code"] != -32020:
            sys.exit(f"the sidecar does not want this: {message['error']['message']}")
        elif message.get("id") == 2:
            return                                  # drained: nothing is open any more

signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
threading.Thread(target=drain_on_sigterm, daemon=True).start()
while not stopping.is_set():
    with socket.socket(socket.AF_UNIX) as sock, contextlib.suppress(OSError):
        sock.connect(PATH)
        serve()
    stopping.wait(random.uniform(0, 2))             # before connecting again
