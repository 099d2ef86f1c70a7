"""Operators that leave those with the same homes (``--alone``), on nodes in memory."""

from __future__ import annotations

import msgspec
import pytest

from nodes.errors import SettingsError, UnknownName
from nodes.log.memory import MemoryLog
from nodes.machine import messages as m
from nodes.machine.ownership.commands import LAYOUT
from nodes.machine.ownership.layouts import ProposedLayout
from nodes.transactions.layouts.repartitioning import Mode, Repartitioned, Repartitioning, described
from nodes.transactions.layouts.shown import layout_shown
from nodes.transactions.layouts.splitting import request_split
from tests.unit.nodes.transactions.layouts.test_splitting import written
from tests.unit.txn_stage import Stage
from transactional import Context, Operator, Program
from transactional.layout import Group, GroupHomes

NAMES = ["cart", "order", "stock"]
BASE = Group(2, None)
KEYS = [str(key) for key in range(3)]


def shop() -> Program:
    """A cart orders what it holds: it calls its order, and that the stock, all of the same key."""
    cart, order, stock = (Operator(name, partitions=2) for name in NAMES)

    @stock.register
    async def take(ctx: Context, amount: int) -> int:
        ctx.put(ctx.get(0) + amount)
        return ctx.get()

    @order.register
    async def place(ctx: Context, amount: int) -> list[int]:
        ctx.put(ctx.get(0) + 1)
        return [ctx.get(), await ctx.call(stock, ctx.key, take, [amount])]

    @cart.register
    async def buy(ctx: Context, amount: int) -> list[int]:
        return await ctx.call(order, ctx.key, place, [amount])

    return Program("shop", [cart, order, stock])


def staged() -> tuple[Stage, Repartitioning]:
    made = Stage(shop(), new_log=lambda on_wait: MemoryLog(on_wait=lambda s: made.turn(5)))
    made.start("a"), made.start("b")
    made.turn(20)
    for key in KEYS:
        assert made.call("cart", key, "buy", [5], f"first {key}") == [1, 5]
    return made, Repartitioning(made.log, made.topics)


def alone(requests: Repartitioning, names: list[str], to: int, mode: Mode = "online") -> Repartitioned:
    made, told = requests.request(names, to, "least", mode, alone=True)
    return requests.wait(made, told, 60)


def check(made: Stage, times: int) -> None:
    """Calls between them are as before, and a retried id has its reply."""
    for key in KEYS:
        assert made.call("cart", key, "buy", [5]) == [times, 5 * times]
        assert made.call("cart", key, "buy", [5], f"first {key}") == [1, 5]


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["stop", "online"])
def test_operators_that_are_moved_alone_leave_the_others_and_calls_between_them_go_on(mode: Mode) -> None:
    made, requests = staged()
    told = alone(requests, ["order"], 4, mode)
    assert (told.operators, told.apart_from, told.from_partitions, told.to) == (["order"], ["cart", "stock"], 2, 4)
    layout = requests.layout()
    assert layout.group_of("cart", BASE) == layout.group_of("stock", BASE) == BASE
    assert layout.group_of("order", BASE) == Group(2, None, ("order",))
    assert set(layout.homes_of(BASE)) == {0, 1} and set(layout.homes_of(Group(2, None, ("order",)))) == set(range(4))
    assert told.keys == sum(layout.places(shop().operators)["order"].partition_of(key) > 1 for key in KEYS) > 0
    check(made, 2)
    # Those that stay move together, and what is alone moves by itself from here on.
    more = requests.request(["stock"], 3, "least", mode)
    told = requests.wait(*more, 60)
    assert (told.operators, told.apart_from) == (["cart", "stock"], [])
    told = alone(requests, ["order"], 1, mode)
    assert (told.operators, told.apart_from, told.partitions) == (["order"], [], 3), "nobody is left to be apart from"
    check(made, 3)
    made.nodes.clear()
    made.start("c")
    made.turn(200)
    check(made, 4)


@pytest.mark.slow
def test_several_that_leave_together_stay_together_and_may_part_later() -> None:
    made, requests = staged()
    told = alone(requests, ["stock", "order"], 3)
    assert (told.operators, told.apart_from) == (["order", "stock"], ["cart"])
    assert [each.operators for each in layout_shown("shop", requests, None).groups] == [["cart"], ["order", "stock"]]
    told = alone(requests, ["stock"], 5)
    assert (told.operators, told.apart_from) == (["stock"], ["order"])
    groups = [each.group.apart for each in requests.layout().groups]
    assert groups == [(), ("order",), ("stock",)]
    assert (
        described({"operators": ["stock"], "apart_from": ["order"], "to": 5}) == "stock without order to 5 partitions"
    )
    made_split, split = request_split(requests, "shop", None, 4, None)
    requests.outcome(made_split.number, 60)
    assert split.buckets and requests.layout().number == 3
    check(made, 2)


@pytest.mark.parametrize("mode", ["stop", "online"])
def test_nodes_that_know_no_parted_operators_stop_at_the_request_and_at_each_later_one(mode: Mode) -> None:
    made, requests = staged()
    assert formats(made) == []
    requests.wait(*requests.request(["cart"], 3, "least", "stop"), 60)
    alone(requests, ["order"], 4, mode)
    request_split(requests, "shop", None, 0, None, "stop")
    assert formats(made) == [m.LAYOUTS_VERSION, m.COPIES_VERSION, m.COPIES_VERSION]


def formats(made: Stage) -> list[int]:
    """Of the requests for layouts on the control topic, as readers of other releases see them."""
    found = made.log.read(made.topics.control, 0, 0).values
    requested = [value for value in found if isinstance(command := m.decode_control(value), m.Command)
                 and command.name in (LAYOUT, m.ONLINE_LAYOUT)]  # fmt: skip
    return [value[0] for value in requested]


def test_all_of_the_same_homes_that_are_named_move_as_without_the_option() -> None:
    _, requests = staged()
    told = alone(requests, NAMES, 3)
    assert told.operators == NAMES and not told.apart_from
    assert [each.group for each in requests.layout().groups] == [BASE]


@pytest.mark.parametrize(
    ("names", "to", "error", "text"),
    [
        (["stok"], 3, UnknownName, "no operator 'stok'; nearest: stock"),
        (["stock"], 2, SettingsError, "stock: 2 partitions already"),
        (["stock"], 0, SettingsError, "--to 0: 0 partitions for 1024 buckets"),
    ],
)
def test_requests_that_cannot_be_are_named_and_nothing_is_written(
    names: list[str], to: int, error: type[Exception], text: str
) -> None:
    made, requests = staged()
    before = written(made)
    with pytest.raises(error, match=text):
        alone(requests, names, to)
    assert written(made) == before


def test_a_layout_that_somebody_wrote_by_hand_with_other_groups_is_given_up_by_name() -> None:
    made, requests = staged()
    first = requests.layout()
    homes = first.homes_of(BASE)
    for wrong in (Group(2, None, ("nothing",)), Group(2, ":", ("cart",))):
        layout = msgspec.structs.replace(first, number=1, groups=(*first.groups, GroupHomes(wrong, homes)))
        proposed = requests.propose(layout, {}, "stop")
        assert isinstance(proposed, ProposedLayout)
        with pytest.raises(Exception, match="layout 1 was given up: it is of other operators"):
            requests.outcome(proposed.number, 60)
    check(made, 2)
