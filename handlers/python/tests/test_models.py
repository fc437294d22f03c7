"""Typed data: on(…, model=…)."""

import asyncio
import dataclasses
import datetime
import decimal
import enum
import json
import pathlib
import subprocess
import sys
import uuid

import inboxd
import pytest
from inboxd.testing import adeliver, deliver, deliver_batch, message


class Size(enum.Enum):
    SMALL = "s"


@dataclasses.dataclass
class Item:
    name: str
    price: decimal.Decimal
    tags: tuple[str, ...] = ()


@dataclasses.dataclass
class Order:
    order: int
    items: list[Item]
    size: Size | None = None
    at: datetime.datetime | None = None
    id: uuid.UUID | None = None
    weight: float = 0.0
    notes: dict[str, bool] = dataclasses.field(default_factory=dict)


class PydanticOrder:
    """Stands for a model of pydantic, which the library must not import."""

    class __pydantic_validator__:  # noqa: N801
        @staticmethod
        def validate_python(data):
            class ValidationError(ValueError):
                def errors(self):
                    return [{"loc": ("items", 0, "name"), "msg": "Field required", "input": "secret"}]

            if "order" not in data:
                raise ValidationError
            made = PydanticOrder()
            made.order = data["order"]
            return made


def handler_of(model, seen):
    handler = inboxd.Handler("billing")

    @handler.on("orders", model=model)
    def one(delivery):
        seen.append(delivery.event.data)

    @handler.on_batch("batches", model=model)
    async def many(batch):
        seen.extend(delivery.event.data for delivery in batch)

    return handler


def test_the_data_is_an_object_of_the_model():
    seen = []
    data = {
        "order": 17,
        "items": [{"name": "a", "price": 1.5, "tags": ["x"]}],
        "size": "s",
        "at": "2026-11-21T05:40:59Z",
        "id": "00000000-0000-0000-0000-000000000001",
        "weight": 2,
        "notes": {"gift": True},
        "unknown": 1,
    }
    assert deliver(handler_of(Order, seen), message(data, topic="orders")).status == "done"
    at = datetime.datetime(2026, 11, 21, 5, 40, 59, tzinfo=datetime.timezone.utc)
    item = Item("a", decimal.Decimal("1.5"), ("x",))
    assert seen == [Order(17, [item], Size.SMALL, at, uuid.UUID(int=1), 2.0, {"gift": True})]


@pytest.mark.parametrize(
    ("data", "where"),
    [
        ({"items": []}, "/order: is missing"),
        ({"order": "17", "items": []}, "/order: is no whole number"),
        ({"order": True, "items": []}, "/order: is no whole number"),
        ({"order": 1, "items": [{"name": "a", "price": 1}, {"name": 2, "price": 1}]}, "/items/1/name: is no text"),
        ({"order": 1, "items": [], "size": "xl"}, "/size: is no Size"),
        ({"order": 1, "items": [], "at": "today"}, "/at: is no datetime"),
        ({"order": 1, "items": [], "notes": {"n": 1}}, "/notes/n: is no boolean"),
        ([], "is no object"),
        (b"\xff", "the data is no JSON"),
    ],
)
def test_data_that_does_not_fit_is_dead_at_once(data, where):
    seen = []
    for topic in ("orders", "batches"):
        outcome = deliver(handler_of(Order, seen), message(data, topic=topic))
        assert (outcome.status, outcome.code) == ("dead", "DATA")
        assert outcome.reason == f"the data does not fit: {where}"
    assert "no data" in deliver(handler_of(Order, seen), message(topic="orders")).reason
    assert seen == []


def test_a_misfit_leaves_the_others_of_its_batch():
    seen = []
    fits, other = ({"order": 1, "items": []}, {"order": None, "items": []})
    outcomes = deliver_batch(handler_of(Order, seen), [message(one, topic="batches") for one in (fits, other, fits)])
    assert [outcome.status for outcome in outcomes] == ["done", "dead", "done"]
    assert seen == [Order(1, [])] * 2


def test_a_model_of_pydantic():
    seen = []
    handler = handler_of(PydanticOrder, seen)
    assert asyncio.run(adeliver(handler, message({"order": 17}, topic="orders"))).status == "done"
    assert seen[0].order == 17
    assert deliver(handler, message({}, topic="orders")).reason == "the data does not fit: /items/0/name: Field required"


def test_a_real_model_of_pydantic():
    pydantic = pytest.importorskip("pydantic")
    model = pydantic.create_model("Order", order=(int, ...))
    seen = []
    assert deliver(handler_of(model, seen), message({"order": 17}, topic="orders")).status == "done"
    assert seen[0].order == 17
    outcome = deliver(handler_of(model, seen), message({"order": "x"}, topic="orders"))
    assert (outcome.status, outcome.code) == ("dead", "DATA")
    assert "/order: " in outcome.reason


def test_what_is_no_model_is_refused():
    handler = inboxd.Handler("billing")
    with pytest.raises(TypeError, match="neither a dataclass nor a model of pydantic"):
        handler.on("orders", model=dict)(print)
    with pytest.raises(TypeError, match="with parentheses"):
        handler.on(print)


# What a type checker must find. Each has one error, in the line with the comment.
WRONG = """
import inboxd
from collections.abc import Iterator
from dataclasses import dataclass

@dataclass
class Order:
    order: int

@dataclass
class Invoice:
    invoice: int

handler = inboxd.Handler("billing")

@handler.on("a")  # E: no parameter
def no_parameter() -> None: ...

@handler.on("b")  # E: a batch
def takes_batch(batch: inboxd.Batch) -> None: ...

@handler.on_batch("c")  # E: a single message
def takes_one(delivery: inboxd.Delivery) -> None: ...

@handler.on("d")  # E: an event
def takes_event(event: inboxd.Event) -> None: ...

@handler.on("e")  # E: an event without Done
def returns_event(delivery: inboxd.Delivery) -> inboxd.Emit:
    raise NotImplementedError

@handler.on("f")  # E: a generator
def generates(delivery: inboxd.Delivery) -> Iterator[int]:
    yield 1

@handler.on("g", model=Order)  # E: another model
def other_model(delivery: inboxd.Delivery[Invoice]) -> None: ...

@handler.on("h")  # E: a class
async def returns_class(delivery: inboxd.Delivery) -> type[inboxd.Retry]:
    raise NotImplementedError

@handler.on  # E: no parentheses
def no_parentheses(delivery: inboxd.Delivery) -> None: ...

@handler.on("i", model=Order)
def right(delivery: inboxd.Delivery[Order]) -> dict[str, int]:
    delivery.event.data.cents  # E: no such field
    return {"order": delivery.event.data.order}
"""


def test_a_type_checker_finds_wrong_uses(tmp_path):
    path = tmp_path / "wrong.py"
    path.write_text(WRONG, encoding="utf-8")
    root = pathlib.Path(__file__).resolve().parents[1]
    command = [sys.executable, "-m", "mypy", "--strict", "--output", "json", "--cache-dir", str(tmp_path / "cache"), str(path)]
    done = subprocess.run(
        command, cwd=tmp_path, env={"MYPYPATH": str(root / "src")}, capture_output=True, text=True, check=False
    )
    found = [json.loads(line) for line in done.stdout.splitlines()]
    lines = {one["line"] for one in found if one["severity"] == "error" and one["file"].endswith("wrong.py")}
    expected = {number for number, line in enumerate(WRONG.splitlines(), 1) if "# E:" in line}
    assert lines == expected, done.stdout + done.stderr
