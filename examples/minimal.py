import json, os, socket

inbox = socket.socket(socket.AF_UNIX)
inbox.connect(os.environ.get("INBOXD_SOCKET_PATH", "/run/inboxd/inbox.sock"))
lines = inbox.makefile("rw", encoding="utf-8", newline="\n")
def send(message):
    print(json.dumps({"jsonrpc": "2.0", **message}), file=lines, flush=True)

send({"id": 1, "method": "hello", "params": {"protocol": [1], "handler": "demo"}})
for message in map(json.loads, lines):
    if message.get("method") == "deliver":
        event = message["params"]["event"]
        print(event["type"], event.get("data"), flush=True)
        send({"id": message["id"], "result": {"status": "done"}})
