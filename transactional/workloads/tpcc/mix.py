"""Requests of TPC-C: those of its terminals (clauses 2.4.1 to 2.8.1, 5.2.3), as functions of seed and number."""

from __future__ import annotations

from collections.abc import Sequence

from transactional.requests.requests import WireRequest
from transactional.workloads.contract import WorkloadShape
from transactional.workloads.draws import Draws
from transactional.workloads.tpcc import model as m
from transactional.workloads.tpcc.loading import NAMES, cardinalities, last_name

MAX_LINES = 15
FULL = ((0.45, "order"), (0.88, "payment"), (0.92, "status"), (0.96, "delivery"), (1.0, "level"))
PAIR = ((45 / 88, "order"), (1.0, "payment"))
"""Cumulative shares: the whole mix, and New-Order with Payment alone in the same ratio."""
_RUN_C = 123
"""The constant C of NURand (clause 2.1.6)."""


class _Columns:
    """All draws of a run of requests."""

    def __init__(self, shape: WorkloadShape, first: int, count: int) -> None:
        draws = Draws(shape.seed, first, count)
        self.draws = draws
        self.kind = draws.share(0)
        self.warehouse = draws.zipf(1, shape.size, shape.zipf)
        self.district = draws.below(2, m.DISTRICTS)
        self.customer = (draws.below(3, 1_024), draws.share(4))
        self.name = (draws.below(5, 256), draws.share(6))
        self.by_name = draws.share(7)
        self.lines = draws.below(8, MAX_LINES - 4)
        self.amount = draws.below(9, 499_901)
        self.away = draws.share(10)
        self.other = draws.share(11)
        self.small = draws.below(12, 10)
        self.wrong = draws.below(13, 100)
        self.item = [(draws.below(20 + n, 8_192), draws.share(35 + n)) for n in range(MAX_LINES)]
        self.quantity = [draws.below(50 + n, 10) for n in range(MAX_LINES)]
        self.remote = [draws.share(65 + n) for n in range(MAX_LINES)]
        self.supplier = [draws.share(80 + n) for n in range(MAX_LINES)]


def _nurand(drawn: tuple[list[int], list[float]], n: int, count: int) -> int:
    """In [0, count), NURand (clause 2.1.6): from a number below A + 1 and a share."""
    return ((drawn[0][n] | int(drawn[1][n] * count)) + _RUN_C) % count


def _other(w: int, share: float, size: int) -> int:
    """Another warehouse; the same where there is none."""
    return 1 + (w + int(share * (size - 1))) % size if size > 1 else w


def requests(shape: WorkloadShape, first: int, count: int, *, mix: Sequence[tuple[float, str]]) -> list[WireRequest]:
    """``mix``: cumulative shares of the profiles."""
    columns = _Columns(shape, first, count)
    made = []
    for n in range(count):
        kind = next(name for share, name in mix if columns.kind[n] < share)
        operator, key, function, args = _request(columns, shape, n, kind)
        made.append(WireRequest(f"{shape.seed}-{first + n}", operator, key, function, args))
    return made


def _request(columns: _Columns, shape: WorkloadShape, n: int, kind: str) -> tuple[str, str, str, list[object]]:
    w, d = 1 + columns.warehouse[n], 1 + columns.district[n]
    customers = cardinalities(shape).customers
    c: int | str = 1 + _nurand(columns.customer, n, customers)
    who = last_name(_nurand(columns.name, n, min(NAMES, customers))) if columns.by_name[n] < 0.6 else c
    match kind:
        case "order":
            return "district", m.district_key(w, d), "place_order", [c, _lines(columns, shape, n, w)]
        case "payment":
            c_w, c_d = w, d
            if columns.away[n] >= 0.85:
                c_w, c_d = _other(w, columns.other[n], shape.size), 1 + columns.small[n]
            return "warehouse", str(w), "take_payment", [d, c_w, c_d, who, 100 + columns.amount[n]]
        case "status":
            return "district", m.district_key(w, d), "order_status", [who]
        case "delivery":
            return "warehouse", str(w), "deliver_orders", [1 + columns.small[n]]
        case _:
            return "district", m.district_key(w, d), "stock_level", [10 + columns.small[n]]


def _lines(columns: _Columns, shape: WorkloadShape, n: int, w: int) -> list[list[int]]:
    """One of a hundred orders ends with an item that does not exist."""
    items = cardinalities(shape).items
    made = []
    for line in range(5 + columns.lines[n]):
        away = columns.remote[line][n] < 0.01
        supplier = _other(w, columns.supplier[line][n], shape.size) if away else w
        made.append([1 + _nurand(columns.item[line], n, items), supplier, 1 + columns.quantity[line][n]])
    if columns.wrong[n] == 0:
        made[-1][0] = items + 1
    return made
