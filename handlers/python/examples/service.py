"""What a service needs: several functions, verdicts, a long function, events to publish, and a stop without a loss."""

import asyncio
import datetime
import logging

import inboxd

logging.basicConfig(level=logging.INFO)
handler = inboxd.Handler("totals", max_in_flight=32, timeout=datetime.timedelta(seconds=30))
totals: dict[str, int] = {}


@handler.on("orders", "order.*")
async def add(delivery: inboxd.Delivery):
    event = delivery.event
    if event.is_tombstone:
        return None
    if not isinstance(event.data.get("cents"), int):
        raise inboxd.Dead("no cents in the order", code="SCHEMA")
    customer = event.data["customer"]  # not there: an exception, and so a retry
    totals[customer] = totals.get(customer, 0) + event.data["cents"]
    return {"total_cents": totals[customer]}


@handler.on("orders", "order.report")
async def report(delivery: inboxd.Delivery):
    if datetime.datetime.now().hour < 6:
        raise inboxd.Snooze(datetime.timedelta(minutes=10), "reports begin at six")
    await asyncio.sleep(60)  # the library extends the deadline; a cancel raises CancelledError here
    return inboxd.Done(emit=[inboxd.Emit("report.made", topic="reports", data=totals)])


handler.run()
