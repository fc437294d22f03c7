"""Handlers for inboxd: each message of Kafka once, with effects that happen exactly once.

The smallest handler::

    import inboxd

    handler = inboxd.Handler("demo")

    @handler.on()
    def show(delivery):
        print(delivery.event.type, delivery.event.data, flush=True)

    handler.run()

Start with :class:`Handler`. A function gets a :class:`Delivery`, which has the :class:`Event`. It returns a result, or raises
:class:`Retry`, :class:`Dead` or :class:`Snooze`.
"""

from ._delivery import Batch, Delivery
from ._event import Event
from ._handler import Handler, Refused
from ._outbox import emit
from ._trace import TraceContext
from ._verdicts import SETTLED, Cancelled, ClaimLost, Dead, Done, Emit, Retry, Skip, Snooze, Verdict
from ._version import __version__

__all__ = [
    "SETTLED",
    "Batch",
    "Cancelled",
    "ClaimLost",
    "Dead",
    "Delivery",
    "Done",
    "Emit",
    "Event",
    "Handler",
    "Refused",
    "Retry",
    "Skip",
    "Snooze",
    "TraceContext",
    "Verdict",
    "__version__",
    "emit",
]
