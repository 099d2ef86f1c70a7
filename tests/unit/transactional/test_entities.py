"""Entity classes: fields are state, methods call other entities as if these were local."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.txn_replay import Replay
from tests.unit.txn_stage import Stage
from transactional import Aborted, Program, Serial
from transactional.entities import Entity
from transactional.execution.execution import Execution
from transactional.execution.site import Site
from transactional.requests.requests import WireRequest
from transactional.state.store import Store
from transactional.state.values import decode


class OutOfStock(Exception):
    """Declared by the shop."""


class Item(Entity, partitions=3):
    price: int = 5
    stock: int = 3

    async def take(self, quantity: int) -> int:
        if quantity > self.stock:
            raise OutOfStock(self.key, self.stock)
        self.stock -= quantity
        return self.price * quantity


class Cart(Entity, partitions=2):
    total: int = 0
    items: dict[str, int] = {}  # noqa: RUF012  # each entity has its own
    favourite: str = ""

    async def add(self, item: Item, quantity: int) -> int:
        self.items[item.key] = self.items.get(item.key, 0) + quantity
        self.total += await item.take(quantity)
        self.favourite = item.key
        return self.total

    async def add_all(self, items: list[str]) -> dict[str, int]:
        for key in items:
            try:
                await self.add(Item(key), 1)
            except OutOfStock as error:
                self.items[error.args[0]] = -1
        return self.items

    async def merge(self, other: Cart) -> int:
        self.total += 1
        self.total += await other.give_back(Cart(self.key))
        return self.total

    async def give_back(self, to: Cart) -> int:
        return await to.seen()

    async def seen(self) -> int:
        self.items["seen"] = self.total
        return self.total

    async def look(self) -> dict[str, int]:
        return self.items


program = Program("shop", [Item.operator, Cart.operator], errors=[OutOfStock])


def both(*calls: tuple[Any, ...]) -> list[Any]:
    """Outcomes, the same from the plain executor and the protocol's."""
    serial, store, outcomes = Serial(program), Store(), []
    for tid, call in enumerate(calls, 1):
        target = program.target(*call)
        execution = Execution(Site(program, store, None), tid, 0)
        execution.start(target)
        assert execution.outcome == serial.run(target, tid, 0)
        if not isinstance(execution.outcome, Aborted):
            store.apply(execution.writes)
        outcomes.append(execution.outcome if isinstance(execution.outcome, Aborted) else decode(execution.outcome))
    assert store.items == serial.state
    return outcomes


def test_methods_change_fields_of_several_entities_as_one_transaction() -> None:
    outcomes = both(
        ("cart", "c", "add", ["pen", 2]),
        ("cart", "c", "add", {"item": "pen", "quantity": 1}),
        ("cart", "c", "add", ["pen", 1]),
        ("cart", "c", "look"),
        ("cart", "other", "look"),
    )
    assert outcomes == [10, 15, Aborted("OutOfStock", ("pen", 0)), {"pen": 3}, {}]


@pytest.mark.slow
def test_entities_of_two_nodes_call_each_other_as_one_plain_loop_would() -> None:
    stage = Stage(program)
    stage.start("one"), stage.start("other")
    stage.turn(200)
    asked = [WireRequest(f"a{n}", "cart", f"c{n % 7}", "add", [f"item{n % 4}", 1]) for n in range(40)]
    asked += [WireRequest(f"b{n}", "cart", f"c{n % 7}", "add_all", [[f"item{k}" for k in range(4)]]) for n in range(20)]
    asked += [WireRequest(f"m{n}", "cart", f"c{n % 7}", "merge", [f"c{(n + 3) % 7}"]) for n in range(20)]
    stage.client.send_all(asked)
    for _ in range(2_000):
        if all(each.id in stage.client.answered for each in asked):
            break
        stage.client.receive(0.1)
    replayed = Replay(stage.log, program).check()
    outcomes = [stage.client.take(each.id) for each in asked]
    sold = [outcome for outcome in outcomes[:40] if not isinstance(outcome, Aborted)]
    assert 0 < len(sold) < 40 and replayed.serial.get("item", "item0")["stock"] == 0
    assert len({stage.program.place("cart", f"c{n}") for n in range(7)}) == 2, "carts live in several partitions"


def test_a_method_catches_what_another_entity_raises() -> None:
    (outcome,) = both(("cart", "c", "add_all", [["pen"] * 4]))
    assert outcome == {"pen": -1}


def test_an_entity_that_is_called_back_has_what_was_changed_before_and_is_read_again_after() -> None:
    assert both(("cart", "a", "merge", ["b"]), ("cart", "a", "look")) == [2, {"seen": 1}]


def test_arguments_have_to_fit_the_method() -> None:
    (outcome,) = both(("cart", "c", "add", ["pen"]))
    assert isinstance(outcome, Aborted) and outcome.kind == "BadArguments"
