"""The test handler of the conformance kit (tests/conformance/README.md of inboxd).

    conformance_handler.py STYLE

STYLE is the kind of the functions: sync (in a thread), async, or batch (functions for batches).
"""

import asyncio
import base64
import logging
import os
import sys
import time

import inboxd

STYLE = sys.argv[1]
OPTIONS = {"MAX_IN_FLIGHT": ("max_in_flight", int), "BATCH_MAX": ("batch", int), "CONSUMER": ("consumer", str)}

logging.basicConfig(level=logging.WARNING)
options = {
    name: kind(os.environ[f"CONFORMANCE_{variable}"])
    for variable, (name, kind) in OPTIONS.items()
    if f"CONFORMANCE_{variable}" in os.environ
}
handler = inboxd.Handler(
    os.environ["CONFORMANCE_NAME"],
    timeout=int(os.environ.get("CONFORMANCE_TIMEOUT_MS", 30000)) / 1000,
    batch_wait=int(os.environ.get("CONFORMANCE_BATCH_WAIT_MS", 0)) / 1000,
    ordered=os.environ.get("CONFORMANCE_ORDERED") == "1",
    workers=4,
    **options,
)


def act(delivery: inboxd.Delivery):
    """Everything but work."""
    event = delivery.event
    reason, code = event.get("reason", ""), event.get("code")
    delay = int(event["delayms"]) / 1000 if "delayms" in event else None
    match event.type:
        case "retry":
            raise inboxd.Retry(reason, delay=delay, code=code)
        case "dead":
            raise inboxd.Dead(reason, code=code)
        case "snooze":
            raise inboxd.Snooze(delay, reason, code=code)
        case "skipped":
            raise inboxd.Skip
        case "raise":
            raise ValueError(reason)
        case "settled":
            return inboxd.SETTLED
        case "result":
            return event.data
        case "emit":
            return inboxd.Done(emit=[inboxd.Emit(**one) for one in event.data])
        case "extend":
            delivery.extend(int(event["timeoutms"]) / 1000)
        case "window":
            handler.set_window(int(event["window"]))
        case "echo":
            return echo(delivery)
    return None


def echo(delivery: inboxd.Delivery):
    event = delivery.event
    seen = {
        "claim": delivery.claim,
        "seq": str(delivery.seq),
        "attempt": delivery.attempt,
        "replay": delivery.replay,
        "id": event.id,
        "source": event.source,
        "type": event.type,
        "topic": event.topic,
        "partition": event.partition,
        "offset": str(event.offset),
        "headers": [[name if isinstance(name, str) else name.decode(), encoded(value)] for name, value in delivery.headers],
    }
    if event.trace:
        seen["traceparent"] = event.trace.headers()["traceparent"]
    if event.key is not None:
        seen["key_base64"] = encoded(event.key)
    if isinstance(event.data, bytes):
        seen["data_base64"] = encoded(event.data)
    elif not event.is_tombstone:
        seen["data"] = event.data
    return seen


def encoded(value):
    value = value.encode() if isinstance(value, str) else value
    return None if value is None else base64.b64encode(value).decode()


def work_in_thread(delivery):
    ends = time.monotonic() + int(delivery.event["workms"]) / 1000
    while time.monotonic() < ends:
        delivery.raise_if_cancelled()
        time.sleep(0.01)


def sync_function(delivery):
    if delivery.event.type == "work":
        return work_in_thread(delivery)
    return act(delivery)


async def async_function(delivery):
    if delivery.event.type == "work":
        return await asyncio.sleep(int(delivery.event["workms"]) / 1000)
    return act(delivery)


def batch_function(batch):
    for delivery in batch:
        try:
            delivery.set_verdict(sync_function(delivery))
        except inboxd.Verdict as verdict:
            delivery.set_verdict(verdict)
        except inboxd.Cancelled:
            pass
        except Exception as error:
            delivery.set_verdict(inboxd.Retry(repr(error)))


function = {"sync": sync_function, "async": async_function, "batch": batch_function}[STYLE]
register = handler.on_batch if STYLE == "batch" else handler.on
for part in filter(None, os.environ.get("CONFORMANCE_SUBSCRIBE", "*").split(";")):
    topic, *types = part.split()
    register(topic, types)(function)
handler.run()
