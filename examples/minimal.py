import json, os, socket, sys

path = os.environ.get("INBOXD_SOCKET_PATH", "/run/inboxd/inbox.sock")
inbox = socket.socket(socket.AF_UNIX)
if error := inbox.connect_ex(path):
    sys.exit(f"{path}: {os.strerror(error)}; start inboxd, or set INBOXD_SOCKET_PATH")
def send(message):
    inbox.sendall(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

send({"id": 1, "method": "hello", "params": {"protocol": [1], "handler": "demo"}})
for message in map(json.loads, inbox.makefile("rb")):
    if message.get("method") == "deliver":
        event = message["params"]["event"]
        print(event["type"], event.get("data"), flush=True)
        send({"id": message["id"], "result": {"status": "done"}})
