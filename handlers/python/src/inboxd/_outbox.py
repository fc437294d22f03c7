"""Events of a service, beside handlers."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any, overload

from . import _database
from ._verdicts import Emit, to_json

if TYPE_CHECKING:
    from ._database import AnyTransaction, AsyncTransaction, DbapiTransaction, SyncTransaction

_REST = "{}::text::jsonb, {}::text, {}::text, {}::text, {}::text)"  # headers, id, source, subject, aggregate
_JSON = "SELECT inbox.emit({}::text, {}::text, {}::text, {}::text::jsonb, " + _REST
_BYTES = "SELECT inbox.emit_bytes({}::text, convert_to({}::text, 'UTF8'), {}::text, {}::bytea, NULL, " + _REST


@overload
def emit(transaction: AsyncTransaction, event: Emit) -> Awaitable[str]: ...


@overload
def emit(transaction: SyncTransaction | DbapiTransaction, event: Emit) -> str: ...


def emit(transaction: AnyTransaction, event: Emit) -> Awaitable[str] | str:
    """Emits an event of a service in its transaction: inboxd publishes it if and only if the transaction commits.

    ``transaction`` is as for ``Delivery.complete()``. Await the call if the connection is asynchronous. Returns the id of the
    event. A handler gives its events to ``Done`` or ``complete()``, so that a repeated delivery repeats their ids.
    """
    is_bytes = isinstance(event.data, (bytes, bytearray, memoryview))
    if is_bytes:
        data: Any = bytes(event.data)
    else:
        data = None if event.data is None else to_json(event.data)
    values = [event.topic, event.key, event.type, data, to_json(event.headers or {})]
    values += [event.id, event.source, event.subject, event.aggregate]
    found: Awaitable[str] | str = _database.call(transaction, _BYTES if is_bytes else _JSON, values, "emit", _first)
    return found


def _first(row: Any) -> str:
    return str(next(iter(row.values())) if hasattr(row, "values") else row[0])
