import json, os, socket

inbox = socket.socket(socket.AF_UNIX)
inbox.connect(os.environ.get("INBOXD_SOCKET_PATH", "/run/inboxd/inbox.sock"))
def send(message):
    inbox.sendall(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

send({"id": 1, "method": "hello", "params": {"protocol": [1], "handler": "demo"}})
for message in map(json.loads, inbox.makefile("rb")):
    if message.get("method") == "deliver":
        event = message["params"]["event"]
        print(event["type"], event.get("data"), flush=True)
        send({"id": message["id"], "result": {"status": "done"}})
