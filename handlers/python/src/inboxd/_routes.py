"""Which function gets a message: the one with the most specific subscription, by the rules of inboxd."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from ._model import Decoder, decoder_of

Function = Callable[[Any], Any]


@dataclass(frozen=True)
class Route:
    """A function and one of its subscriptions. None: any topic, any type. A type may end with ``*``."""

    topic: str | None
    type: str | None
    function: Function
    takes_batch: bool
    is_async: bool
    decode: Decoder | None = None

    def rank(self, topic: str, event_type: str) -> tuple[int, int, bool] | None:
        """How specific the subscription is; None if it does not match."""
        if self.topic is not None and self.topic != topic:
            return None
        if self.type is None:
            return 0, 0, self.topic is not None
        if not self.type.endswith("*"):
            return (2, 0, self.topic is not None) if self.type == event_type else None
        prefix = self.type[:-1]
        return (1, len(prefix), self.topic is not None) if event_type.startswith(prefix) else None


class Routes:
    def __init__(self) -> None:
        self._routes: list[Route] = []
        self._found: dict[tuple[str, str], Route | None] = {}

    def add(
        self, topic: str | None, types: str | Iterable[str], function: Function, takes_batch: bool, model: Any = None
    ) -> None:
        """ValueError if there is an equal subscription. TypeError if a call of the function would not run it."""
        called = function if inspect.isroutine(function) else getattr(function, "__call__", function)  # noqa: B004
        if any(test(one) for test in (inspect.isgeneratorfunction, inspect.isasyncgenfunction) for one in (function, called)):
            raise TypeError(f"{function!r} is a generator, which nobody runs: a function returns its result and has no yield")
        is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(called)
        decode = None if model is None else decoder_of(model)
        topic = None if topic == "*" else topic
        names: list[str | None] = [types] if isinstance(types, str) else list(types)
        names = [None if name == "*" else name for name in names]
        for name in names or [None]:
            if any((route.topic, route.type) == (topic, name) for route in self._routes):
                raise ValueError(f"two functions for topic {topic or '*'} and type {name or '*'}")
            self._routes.append(Route(topic, name, function, takes_batch, is_async, decode))
        self._found.clear()

    def find(self, topic: str, event_type: str) -> Route | None:
        try:
            return self._found[topic, event_type]
        except KeyError:
            ranked = [(rank, route) for route in self._routes if (rank := route.rank(topic, event_type)) is not None]
            route = max(ranked, key=lambda pair: pair[0])[1] if ranked else None
            if len(self._found) < 10_000:
                self._found[topic, event_type] = route
            return route

    def subscriptions(self) -> list[dict[str, Any]]:
        """The ``subscribe`` of a hello. Empty: everything."""
        by_topic: dict[str | None, list[str]] = {}
        for route in self._routes:
            types = by_topic.setdefault(route.topic, [])
            types.append("*" if route.type is None else route.type)
        if by_topic == {None: ["*"]}:
            return []
        return [
            ({} if topic is None else {"topic": topic}) | ({} if types == ["*"] else {"types": types})
            for topic, types in by_topic.items()
        ]

    @property
    def is_empty(self) -> bool:
        return not self._routes

    @property
    def has_async(self) -> bool:
        return any(route.is_async for route in self._routes)

    @property
    def has_batches(self) -> bool:
        return any(route.takes_batch for route in self._routes)
