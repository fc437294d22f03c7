"""The kit judges correctly: the reference handler passes every case, and each case fails with a handler that breaks its
sentence. A broken handler is the reference with one piece of text replaced."""

import concurrent.futures
import functools
import pathlib
import subprocess
import sys

import pytest

import match
import run

HERE = pathlib.Path(__file__).resolve().parent
REFERENCE = HERE / "handlers/reference.py"
PATIENCE = 0.05  # a broken handler is waited for in vain
TRIES = 3        # a stall of the machine can hide what a handler does too soon


@functools.cache
def cases():
    return {case["case"]: case for case in run.read_cases(HERE / "cases")}


# (what is broken, the text, its replacement, cases that must find it)
DAMAGES = [
    ("a line before hello", 'self.send(id=1, method="hello"', 'self.send(method="hi"); self.send(id=1, method="hello"',
     ["the first line is hello"]),
    ("hello twice", 'self.send(id=1, method="hello", params=hello())', 'self.send(id=1, method="hello", params=hello());'
     ' self.send(id=9, method="hello", params=hello())', ["the first line is hello", "a deliver without an event is refused"]),
    ("no options in hello", 'option("MAX_IN_FLIGHT", 64)', "64", ["hello has the options of the handler"]),
    ("a wrong entry", '{"topic": topic} if topic != "*" else {}', '{"topic": topic, "partition": 1}',
     ["an entry of subscribe has only the members that it needs"]),
    ("an entry for nothing", "if subscribe := list(subscriptions()):", 'if subscribe := list(subscriptions()) or [{"topic": ""}]:',
     ["without subscriptions the handler asks for every message"]),
    ("no consumer", '"CONFORMANCE_CONSUMER" in os.environ', '"CONSUMER" in os.environ', ["hello names the consumer"]),
    ("no batch options", '"batch": BATCH}', '"later": BATCH}', ["hello asks for batches", "hello asks for ordered batches"]),
    ("strict about the reply to hello", 'message["result"].get("ordering") or "none"', '["none", "key", "partition"]'
     '[["none", "key", "partition"].index(message["result"]["ordering"])]',
     ["members that are null count as not given", "an older inboxd sends fewer members in its reply"]),
    ("strict about unknown members", 'method, params = message.get("method")', 'assert "later" not in str(message);'
     ' method, params = message.get("method")', ["unknown members of the reply are ignored", "unknown members are ignored everywhere",
                                                "unknown members of a batch are ignored", "unknown notifications are ignored",
                                                "each reason of a cancel is understood",
                                                "a cancel of an unknown delivery is ignored"]),
    ("refusals are tried again", "REFUSED = (-32000, -32001, -32003, -32005, -32602)", "REFUSED = ()",
     ["a refusal for lack of rights ends the handler", "a refusal of the version ends the handler",
      "a refusal for an equal subscription ends the handler", "a refusal for too many subscriptions ends the handler",
      "a refusal of a parameter ends the handler"]),
    ("the end of inboxd is final", "REFUSED = (", "REFUSED = (-32020, ", ["while inboxd shuts down the handler tries again"]),
    ("a piece is a line", 'while (end := buffer.find(b"\\n", searched)) >= 0:', "while (end := len(buffer)):",
     ["a delivery may come together with the reply", "several lines arrive at once", "a line arrives byte by byte",
      "a line stops in the middle and goes on later", "the reply to hello arrives in pieces"]),
    ("only the first line of a piece", "                searched = 0\n", "                searched = 0\n                break\n",
     ["a line ends in the middle of a piece that begins the next one", "different verdicts at once"]),
    ("a carriage return", "yield bytes(buffer[:end])", 'assert b"\\r" not in buffer; yield bytes(buffer[:end])',
     ["a carriage return before the line feed is white space", "white space between tokens is harmless"]),
    ("pieces of characters", "            buffer += data\n", '            buffer += data.decode(errors="replace").encode()\n',
     ["characters of several bytes are cut by the pieces"]),
    ("escapes are kept", "json.loads(line)", 'json.loads(line.replace(b"\\\\", b"\\\\\\\\"))',
     ["escapes of JSON are understood", "the answer has the id unchanged"]),
    ("a fixed order of members", "            message = json.loads(line)\n",
     '            message = json.loads(line)\n            assert not line.startswith(b\'{"params\')\n',
     ["the order of members means nothing"]),
    ("unknown requests are ignored", 'elif "id" in message:\n', 'elif "id" in message and "event" in params:\n',
     ["unknown requests are answered with -32601", "a deliver without an event is refused"]),
    ("an error ends the connection", "            elif method is None:\n", '            elif method is None and "error" in'
     ' message:\n                os._exit(1)\n            elif method is None:\n', ["errors without an id do not disturb"]),
    ("short lines only", "MAX_LINE = 33_554_432", "MAX_LINE = 65536",
     ["a line of a megabyte", "a line of twenty-four megabytes in many pieces"]),
    ("flat data only", "            message = json.loads(line)\n",
     '            message = json.loads(line)\n            assert b"[[[[[[" not in line\n', ["deeply nested data"]),
    ("a broken line is skipped", "except (OSError, ValueError) as error:", "except OSError as error:",
     ["a line that is not JSON ends the connection"]),
    ("any JSON is a message", "                break\n            method, params", "                continue\n"
     "            method, params", ["a line that is not an object ends the connection"]),
    ("half a line is kept", "        buffer = bytearray()\n", "        buffer = self.left\n",
     ["half a line at the end of a connection is forgotten"]),
    ("lines are mixed", "with self.sending:", 'if len(line) > 5000:\n            self.connection.sendall(line[:5000]);'
     ' self.connection.sendall(b"\\n")\n        else:', ["inboxd reads slowly while large answers pile up"]),
    ("one verdict for all", 'return {"status": kind, **extra}', 'return {"status": "done"}',
     ["retry with a delay, a reason and a code", "dead with a reason and a code", "snooze with a delay", "settled", "skipped",
      "different verdicts at once", "a batch is answered once, each entry by its id"]),
    ("result and error", 'return {"status": "done"}\n\n', 'return {"status": "finished"}\n\n', ["done"]),
    ("no result", 'return {"status": "done", "result": event["data"]}', 'return {"status": "done"}', ["done with a result"]),
    ("no emit", '"emit": event["data"]', '"later": event["data"]',
     ["done with events to publish", "the events of each message of a batch are in its entry"]),
    ("a delay of its own", "    extra = {", '    extra = {"delay_ms": 1000} | {', ["retry without a delay leaves the delay to inboxd",
                                                                                 "dead with a reason and a code"]),
    ("the delay 0 is none", 'if "delayms" in event:', 'if event.get("delayms", "0") != "0":', ["retry at once has the delay 0"]),
    ("an exception is an end", "except Exception as error:", "except KeyError as error:",
     ["an exception becomes an error object or a retry", "an exception affects only its entry"]),
    ("two answers", "                del answers[0][\"id\"]\n", "                self.send(id=answer_id, result=answers[0])\n"
     "                del answers[0][\"id\"]\n", ["each delivery is answered once"]),
    ("a message is taken once", "            for entry in entries:\n                self.open",
     "            if str(entries[0]['delivery']['seq']) in seen:\n                return\n            seen.add(entries[0]['delivery']"
     "['seq'])\n            for entry in entries:\n                self.open", ["a message that comes twice is answered twice",
                                                                            "the same message after a cancel is new work"]),
    ("answers wait for more", "            answers = list(self.handle_all(entries, batch))\n", "            answers ="
     " list(self.handle_all(entries, batch))\n            time.sleep(4)\n",
     ["an answer does not wait for the work on another message", "an answer for an old connection is not sent on a new one",
      "the same id on a new connection is a new delivery"]),
    ("data must be an object", '    if "data" in event:\n', '    if event.get("data"):\n', ["data is JSON of any kind",
                                                                                    "data that is null is a payload, not a tombstone"]),
    ("bytes are text", 'encoded(base64.b64decode(event["data_base64"]))', 'event["data_base64"].strip("=")', ["data_base64 is bytes"]),
    ("empty is none", 'if event.get("data_base64") is not None:', 'if event.get("data_base64"):', ["an empty payload is not a tombstone"]),
    ("a tombstone has null", '    if "data" in event:\n', '    if "data_base64" not in event:\n        event.setdefault("data")\n'
     '    if "data" in event:\n', ["a tombstone has no data"]),
    ("floating point", 'seen = {name: delivery.get(name) for name in ("claim", "seq", "attempt", "replay")}',
     'seen = {**delivery, "seq": str(int(float(delivery["seq"])))}', ["seq and offset have 64 bits"]),
    ("no trace", '"type", "traceparent")', '"type")', ["the delivery and the attributes of the event"]),
    ("a type is required", 'kind = event.get("type")', 'kind = event["type"]', ["a message without type and time"]),
    ("keys are text", "    if event.get(\"partitionkeybase64\") is not None:\n        return base64.b64decode(event[\"partitionkeybase64\"])\n",
     "", ["the key as text, as bytes, and none", "keys are compared by their bytes"]),
    ("headers are a dictionary", '    seen["headers"] = [', '    seen["headers"] = [list(pair) for pair in dict('
     '[name, None] if isinstance(name, str) else ["raw", None] for name, *_ in entry.get("headers") or ()).items()] or [',
     ["headers keep their order and their repetitions"]),
    ("entries are answered one by one", "            if batch:\n", "            if len(answers) > 5:\n                for answer in"
     " answers:\n                    self.send(id=answer_id, result={\"entries\": [answer]})\n            elif batch:\n",
     ["a batch of a thousand messages", "a batch is answered once, each entry by its id"]),
    ("the id of the first entry", 'self.send(id=answer_id, result={"entries": answers})',
     'self.send(id=entries[0]["id"], result={"entries": answers})', ["a batch of one message", "several batches are open",
                                                                    "unknown members of a batch are ignored"]),
    ("cancels are ignored", 'self.open.pop(params.get("delivery"), None)', "pass",
     ["an entry is cancelled while another one runs", "a cancelled delivery stops", "each reason of a cancel is understood",
      "the same message after a cancel is new work", "a cancel of a whole key leaves the other keys"]),
    ("an answer to a cancel", 'self.open.pop(params.get("delivery"), None)', 'self.send(id=params.get("delivery"), result={})',
     ["a cancel crosses the answer", "a cancel of an unknown delivery is ignored"]),
    ("a cancel of the last", 'self.open.pop(params.get("delivery"), None)', 'self.open.popitem() and os._exit(1)',
     ["a cancel comes together with its delivery", "a cancel crosses the answer"]),
    ("no order", "if key in unfinished else", "if False else",
     ["after a retry the later messages of the key are skipped", "the messages before the unfinished one are done",
      "keys are compared by their bytes", "with the ordering partition a whole partition waits"]),
    ("everything behind is skipped", "key = self.order_of(entry[\"event\"]) if", 'key = 0 if',
     ["messages without a key have no order", "with the ordering none no message waits",
      "after a retry the later messages of the key are skipped"]),
    ("dead is unfinished", 'FINISHED = ("done", "dead", "settled")', 'FINISHED = ("done",)', ["dead and settled finish a message"]),
    ("a key stays behind", "        unfinished = set()\n", '        unfinished = self.__dict__.setdefault("unfinished", set())\n',
     ["the order of a key ends with its batch"]),
    ("extend has an id", 'self.send(method="extend"', 'self.send(id=7, method="extend"', ["extend names the delivery and the time"]),
    ("extend names the batch", 'session.extend(entry["id"],', 'session.extend("b1",', ["extend names an entry of a batch by its own id"]),
    ("no extends", "for name, due in list(self.open.items()):", "for name, due in ():",
     ["long work extends its deadline by itself", "messages that wait in the handler extend their deadlines, too"]),
    ("window adds", 'params={"max_in_flight": int(event["window"])}', 'params={"add": int(event["window"])}',
     ["window is an absolute number"]),
    ("no drain", 'current.send(id=2, method="drain")', "os._exit(0)",
     ["SIGTERM drains and ends", "open work is answered before the end", "messages that the handler has not begun are answered, too",
      "a delivery that crosses the drain is answered", "the handler drains after a reconnect",
      "a handler that inboxd does not answer any more ends after its work"]),
    ("the drain has no end", "                if message.get(\"id\") == 2:\n                    break\n", "                pass\n",
     ["SIGTERM drains and ends"]),
    ("only a drain ends it", "while not stopping.is_set():", "while True:", ["a handler that inboxd does not answer any more ends after its work",
                                                                          "SIGTERM ends a handler that is not connected",
                                                                          "SIGTERM ends a handler whose hello is not answered"]),
    ("no second connection", "        failures = 0 if", "        break\n        failures = 0 if",
     ["after the end of a connection comes another one", "the handler waits for a socket that is not there yet",
      "the socket disappears and comes back", "the same id on a new connection is a new delivery"]),
    ("answers for an old connection", "            if self.ended:\n                return\n            if batch:", "            if batch:",
     ["a batch of an old connection is not answered on a new one"]),
    ("no wait", "stopping.wait(random.random() * min(0.1 * 2 ** failures, 10))", "pass", ["the waits grow and are random"]),
    ("no jitter", "random.random() * min", "min", ["the waits grow and are random"]),
    ("a hello resets the wait", "return self.has_delivered or self.greeted and", "return self.greeted or",
     ["a hello alone does not reset the wait"]),
    ("the wait is never reset", "        failures = 0 if current is not None and current.has_lived() else failures\n",
     "        failures = 5; random.random = lambda: 1\n", ["a connection that has brought a delivery resets the wait"]),
]
# What some damages need to stand on.
HELPERS = {"self.left": ("stopping = threading.Event()", "Session.left = bytearray()\nstopping = threading.Event()"),
           " in seen": ("stopping = threading.Event()", "seen = set()\nstopping = threading.Event()")}


def damaged(text, replacement):
    source = REFERENCE.read_text(encoding="utf-8")
    assert source.count(text) == 1, f"this text is {source.count(text)} times in the reference: {text!r}"
    source = source.replace(text, replacement)
    for mark, (old, new) in HELPERS.items():
        if mark in replacement:
            source = source.replace(old, new)
    if replacement == "            if batch:":  # the old session answers where the new one listens
        source = source.replace("        with self.sending:", "        self = current or self\n        with self.sending:").replace(
            "if entry[\"id\"] not in session.open or session.ended:", "if False:")
    return source


@pytest.mark.parametrize("text, replacement, expected", [damage[1:] for damage in DAMAGES], ids=[damage[0] for damage in DAMAGES])
def test_a_broken_handler_fails(tmp_path, text, replacement, expected):
    handler = tmp_path / "handler.py"
    handler.write_text(damaged(text, replacement), encoding="utf-8")
    compile(handler.read_text(encoding="utf-8"), str(handler), "exec")
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        failed = pool.map(lambda name: any(run.try_case(cases()[name], [sys.executable, str(handler)], PATIENCE)[1]
                                           for _ in range(TRIES)), expected)
        passed = [name for name, found in zip(expected, failed) if not found]
    assert not passed


def test_every_case_has_a_handler_that_fails():
    assert set(cases()) == {name for damage in DAMAGES for name in damage[3]}


def kit(*arguments):
    return subprocess.run([sys.executable, str(HERE / "run.py"), *arguments], capture_output=True, text=True, timeout=600, check=False)


def test_the_reference_passes_every_case():
    done = kit("--", sys.executable, str(REFERENCE))
    assert done.returncode == 0, done.stdout
    assert f"conformance: {len(cases())} passed, 0 failed, 0 left out" in done.stdout


def test_a_failure_says_what_was_expected_and_what_came(tmp_path):
    handler = tmp_path / "handler.py"
    handler.write_text(damaged(*DAMAGES[0][1:3]), encoding="utf-8")
    done = kit("--case", "the first line is hello", "--", sys.executable, str(handler))
    assert done.returncode == 1
    for part in ("FAIL  01-hello: the first line is hello", "expected: ", '"hello"', "came: ", '"hi"', "0 passed, 1 failed"):
        assert part in done.stdout


@pytest.mark.parametrize("arguments", [[], ["--without", "speed", "--", "true"], ["--case", "no such case", "--", "true"]])
def test_a_wrong_call_is_refused(arguments):
    assert kit(*arguments).returncode == 2


def test_a_feature_that_is_missing_is_left_out():
    needing = [case for case in cases().values() if "consumer" in case["needs"]]
    done = kit("--without", "consumer", "--case", "hello names", "--list")
    assert needing and done.returncode == 0
    done = kit("--without", "consumer", "--case", "01-hello: hello", "--", sys.executable, str(REFERENCE))
    assert done.returncode == 0 and "1 passed, 0 failed, 1 left out (consumer)" in done.stdout


@pytest.mark.parametrize("pattern, value, fits", [
    ({"a": 1}, {"a": 1, "b": 2}, True), ({"a": 1}, {}, False), ({"a": {"$absent": True}}, {}, True),
    ({"a": {"$absent": True}}, {"a": None}, False), ({"a": {"$absent": 3}}, {"a": 3}, True), ([1], [1, 2], False),
    ({"$only": {"a": 1}}, {"a": 1}, True), ({"$only": {"a": 1}}, {"a": 1, "b": 2}, False), ({"$only": {}}, 5, False),
    (1, 1.0, True), (1, True, False), (None, None, True), ({"$text": "^b"}, "ab", False), ({"$between": [1, 2]}, 3, False),
    ({"$either": [1, "x"]}, "x", True), ({"$either": [1, "x"]}, "y", False), ({"a": {"$any": True}}, {}, False),
])
def test_patterns(pattern, value, fits):
    assert (match.differences(pattern, value) == []) is fits
