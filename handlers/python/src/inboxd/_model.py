"""Typed data: makes an object of a model, a dataclass or one of pydantic, of the JSON of an event."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import types
import typing
import uuid
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from ._event import parse_time

Decoder = Callable[[Any], Any]
_MOST_PLACES = 3
_TEXTS: dict[Any, Callable[[str], Any]] = {
    datetime.datetime: parse_time,
    datetime.date: datetime.date.fromisoformat,
    uuid.UUID: uuid.UUID,
}


class Misfit(ValueError):
    """The data does not fit. The text has the paths of the fields."""

    def __init__(self, why: str, *path: str | int) -> None:
        super().__init__(f"/{'/'.join(map(str, path))}: {why}" if path else why)
        self.why = why
        self.path = path


def decoder_of(model: Any) -> Decoder:
    """TypeError if it is no model."""
    validator = getattr(model, "__pydantic_validator__", None)  # also of a dataclass of pydantic
    if validator is not None:
        return lambda data: _validate(validator, data)
    if isinstance(model, type) and dataclasses.is_dataclass(model):
        _hints(model)
        return lambda data: _convert(data, model)
    raise TypeError(f"the model {model!r} is neither a dataclass nor a model of pydantic 2")


def _validate(validator: Any, data: Any) -> Any:
    try:
        return validator.validate_python(data)
    except Exception as error:
        details = getattr(error, "errors", None)
        if details is None:
            raise
        found = details()[:_MOST_PLACES]
        text = "; ".join(f"/{'/'.join(map(str, one['loc']))}: {one['msg']}" for one in found)
        raise Misfit(text) from error


def _hints(model: Any) -> dict[str, Any]:
    return typing.get_type_hints(model)


def _convert(data: Any, kind: Any) -> Any:
    """The data as a value of the type. Types that are not known take any value."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Annotated:
        return _convert(data, arguments[0])
    if origin in (typing.Union, types.UnionType):
        return _convert_to_one_of(data, arguments)
    if origin is typing.Literal:
        return _require(data in arguments, data, f"is none of {', '.join(map(repr, arguments))}")
    if dataclasses.is_dataclass(kind):
        return _convert_to_dataclass(data, kind)
    if origin in (list, tuple, Sequence) or kind in (list, tuple):
        _require(isinstance(data, list), data, "is no array")
        made = [_under(number, item, arguments[0] if arguments else Any) for number, item in enumerate(data)]
        return tuple(made) if tuple in (origin, kind) else made
    if origin in (dict, Mapping) or kind is dict:
        _require(isinstance(data, dict), data, "is no object")
        return {name: _under(name, value, arguments[1] if arguments else Any) for name, value in data.items()}
    return _convert_to_scalar(data, kind)


def _convert_to_scalar(data: Any, kind: Any) -> Any:
    if kind in (None, type(None)):
        return _require(data is None, data, "is not null")
    if kind in (str, bool):
        return _require(isinstance(data, kind), data, f"is no {'text' if kind is str else 'boolean'}")
    is_number = isinstance(data, (int, float, Decimal)) and not isinstance(data, bool)
    if kind is int:
        return _require(is_number and isinstance(data, int), data, "is no whole number")
    if kind is float:
        return float(_require(is_number, data, "is no number"))
    if kind is Decimal:
        return Decimal(str(_require(is_number or isinstance(data, str), data, "is no number")))
    if kind in _TEXTS or (isinstance(kind, type) and issubclass(kind, enum.Enum)):
        try:
            return _TEXTS[kind](data) if kind in _TEXTS else kind(data)
        except (TypeError, ValueError, AttributeError) as error:
            raise Misfit(f"is no {kind.__name__}") from error
    return data


def _convert_to_one_of(data: Any, kinds: Sequence[Any]) -> Any:
    first: Misfit | None = None
    for kind in kinds:
        try:
            return _convert(data, kind)
        except Misfit as error:
            if first is None or len(error.path) > len(first.path):
                first = error
    raise typing.cast(Misfit, first)


def _convert_to_dataclass(data: Any, kind: Any) -> Any:
    _require(isinstance(data, dict), data, "is no object")
    hints = _hints(kind)
    values = {}
    for one in dataclasses.fields(kind):
        if not one.init:
            continue
        if one.name in data:
            values[one.name] = _under(one.name, data[one.name], hints[one.name])
        elif one.default is dataclasses.MISSING and one.default_factory is dataclasses.MISSING:
            raise Misfit("is missing", one.name)
    try:
        return kind(**values)
    except (TypeError, ValueError) as error:  # of __post_init__
        raise Misfit(str(error)) from error


def _under(step: str | int, data: Any, kind: Any) -> Any:
    try:
        return _convert(data, kind)
    except Misfit as error:
        raise Misfit(error.why, step, *error.path) from error


def _require(fits: bool, data: Any, why: str) -> Any:
    if not fits:
        raise Misfit(why)
    return data
