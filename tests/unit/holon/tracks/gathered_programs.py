"""Random programs of one record each, as data: what the function of a job does with its states, in any order."""

from __future__ import annotations

import random
from typing import Any

from holon import (
    WCRDT,
    Context,
    GlobalWindow,
    Local,
    ProcessingFunction,
    Sliding,
    Tumbling,
    Window,
    WLocal,
    on_window,
)
from holon.errors import NondeterminismError
from wcrdt import GCounter, MapOf, Max, ORSet, RecordOf, Sum, TopK
from wcrdt.lattices.topk import TopK as Ranked

SIZE_MS = 10
Event = dict[str, Any]
_MOST_BAD = 12


class Obedient(ProcessingFunction[Event]):
    """Does what the record says; each step is a list of a name and its arguments."""

    count = WCRDT(GCounter(), Tumbling(SIZE_MS))
    top: WCRDT[Any, Any] = WCRDT(Max(), Sliding(2 * SIZE_MS, SIZE_MS))
    sums: WCRDT[Any, Any] = WCRDT(MapOf(Sum()), Tumbling(SIZE_MS))
    best: WLocal[Any, Any] = WLocal(TopK(3), Tumbling(SIZE_MS))
    tags: WCRDT[Any, Any] = WCRDT(ORSet(), GlobalWindow())
    parts: WLocal[Any, Any] = WLocal(RecordOf(n=GCounter(), most=Max()), Sliding(2 * SIZE_MS, SIZE_MS))
    ranks: WCRDT[Any, Any] = WCRDT(MapOf(Ranked(2)), Tumbling(SIZE_MS))
    boxes: WCRDT[Any, Any] = WCRDT(MapOf(RecordOf(n=GCounter(), most=Max(), total=Sum())), Tumbling(SIZE_MS))
    wide: WCRDT[Any, Any] = WCRDT(RecordOf(n=GCounter(), a=Max(), b=Sum(), c=GCounter()), Tumbling(SIZE_MS))
    total = Local(0)
    names = Local[list[int]]([])

    def process(self, event: Event, ctx: Context) -> None:
        for step in event["do"]:
            self.do(step, ctx)

    def do(self, step: list[Any], ctx: Context) -> None:
        name, *rest = step
        if name in ("caught", "refused"):
            self.attempt(rest[0], ctx)
        elif name == "fail":
            raise ArithmeticError(rest[0])
        elif name == "many":
            state, elements, shift = rest
            column = [_element(element) for element in elements]
            late = getattr(self, state).insert_many(column, [ctx.timestamp_ms + shift] * len(column))
            ctx.emit(["late", late])
        elif name == "await":
            ctx.emit("this one cannot")
        elif name == "emit":
            ctx.emit(rest[0])
        elif name == "promise":
            self.count.increment_watermark(ctx.timestamp_ms + rest[0])
        elif name == "total":
            self.total.value += rest[0]
            ctx.emit(["total", self.total.value])
        elif name == "names":
            self.names.value.append(rest[0])
        elif name == "peek":
            state, back = rest
            ctx.emit_nondeterministic([state, _plain(getattr(self, state).peek(closed(ctx.watermark_ms, back)))])
        else:
            self.insert(name, *rest, ctx)

    def attempt(self, step: list[Any], ctx: Context) -> None:
        """Errors are caught: what was done before them stays."""
        try:
            self.do(step, ctx)
        except NondeterminismError:
            ctx.emit_nondeterministic("refused")
        except (TypeError, ValueError) as error:
            ctx.emit(["caught", str(error)])

    def insert(self, name: str, element: Any, shift: int, ctx: Context) -> None:
        if not getattr(self, name).insert(_element(element), ctx.timestamp_ms + shift):
            ctx.emit(["closed", name])

    @on_window(count)
    async def report(self, window: Window, ctx: Context) -> None:
        for name in ("count", "sums", "best", "ranks", "boxes", "wide"):
            ctx.emit([name, window.start_ms, _plain(await getattr(self, name).window_value(window))])

    @on_window(top)
    async def report_sliding(self, window: Window, ctx: Context) -> None:
        ctx.emit(["top", window.start_ms, _plain(await self.top.window_value(window))])
        ctx.emit(["parts", window.start_ms, _plain(await self.parts.window_value(window))])

    @on_window(tags)
    async def report_all(self, window: Window, ctx: Context) -> None:
        ctx.emit(["tags", _plain(await self.tags.window_value(window))])


class Waiting(Obedient):
    """The same as an async function, which may await windows as well."""

    async def process(self, event: Event, ctx: Context) -> None:  # type: ignore[override]
        for step in event["do"]:
            if step[0] != "await":
                self.do(step, ctx)
            elif ctx.watermark_ms > 2 * SIZE_MS:
                value = await getattr(self, step[1]).window_value(closed(ctx.watermark_ms, 0))
                ctx.emit(["awaited", step[1], _plain(value)])


def closed(watermark_ms: int, back: int) -> Window:
    """The window of one size that ended last before a watermark, or ``back`` windows earlier."""
    end_ms = (watermark_ms // SIZE_MS - back) * SIZE_MS
    return Window(end_ms - SIZE_MS, end_ms)


def records(draw: random.Random, count: int, *, fails: bool, peeks: bool) -> list[Event]:
    """Records of partition 0, mostly in the order of their times."""
    at_ms, found = 1000, []
    for _ in range(count):
        at_ms += draw.choice((0, 0, 0, 1, 2, 4))
        steps = [_step(draw) for _ in range(draw.randrange(5))]
        if fails and draw.random() < 0.1:
            steps.insert(draw.randrange(len(steps) + 1), draw.choice((["fail", "here"], ["count", -1, 0])))
        if peeks and draw.random() < 0.1:
            steps.append(["peek", draw.choice(("count", "best", "sums")), draw.randrange(3)])
            steps += [["refused", ["count", 1, 0]], ["refused", ["sums", ["a", 1], 0]]] * draw.randrange(2)
        found.append({"ts": at_ms - draw.choice((0, 0, 0, 5, 12, 25)), "do": steps})
    return found


def _step(draw: random.Random) -> list[Any]:
    kind, shift = draw.randrange(_MOST_BAD), draw.choice((0, 0, 0, 0, 3, -6, -14))
    if kind == 0:
        return ["emit", draw.randrange(9)]
    if kind == 1:
        return [draw.choice(("total", "names")), draw.randrange(9)]
    if kind == 2 and draw.random() < 0.5:
        return ["promise", draw.randrange(3)]
    if kind == 3:
        return ["await", draw.choice(("count", "best", "sums"))]
    if kind == 4:
        return ["caught", [draw.choice(tuple(_GOOD)), _bad(draw), shift]]
    state = draw.choice(tuple(_GOOD))
    if kind == 5:
        return ["many", state, [_GOOD[state](draw) for _ in range(draw.randrange(1, 4))], shift]
    return [state, _GOOD[state](draw), shift]


def _number(draw: random.Random) -> Any:
    return draw.choice((0, 1, 2, 7, 2**70, 0.5, -2.25, -0.0, 1e300))


def _key(draw: random.Random) -> Any:
    return draw.choice(("a", "b", "é", 1, 2, None, [1, "a"], [1.0, "a"], [True, "a"], [], 2**70))


_GOOD: dict[str, Any] = {
    "count": lambda draw: draw.choice((0, 1, 1, 1, 2, 2**65)),
    "top": lambda draw: draw.choice((_number(draw), "text", True, [1, 2])),
    "sums": lambda draw: [_key(draw), _number(draw)],
    "best": lambda draw: [draw.randrange(5), draw.choice("abc")],
    "tags": lambda draw: [draw.choice(("add", "remove")), draw.randrange(3)],
    "parts": lambda draw: [draw.randrange(3), _number(draw)],
    "ranks": lambda draw: [_key(draw), [draw.randrange(5), draw.choice("abc")]],
    "wide": lambda draw: [draw.randrange(3), _number(draw), _number(draw), draw.choice((0, 2**65))],
    "boxes": lambda draw: [_key(draw), [draw.choice((0, 1, 2**65)), _number(draw), _number(draw)]],
}


def _bad(draw: random.Random) -> Any:
    """Refused by most states, and a good element of some."""
    return draw.choice(
        (
            *(None, -1, "nan", True, [], ["x"], ["drop", 1], [True, 1], [1, 2], [1.5, 1], ["a", None], [1, [2]]),
            *([-1, 2], [1, "nan"], [1, 2, 3, -1], ["a", [1, 2]], ["a", [-1, 2, 3]], ["a", [1, "nan", 3]]),
            *(["a", [1, 2, "x"]], [True, [1, 2, 3]]),
            *(["lone", [1, 2, 3]], [["lone", 1], [1, 2, 3]], [[[]], [1, 2, 3]]),
        )
    )


def _element(element: Any) -> Any:
    if element == "nan":
        return float("nan")
    if element == "lone":
        return "\ud800"  # half of a surrogate pair, which has no bytes
    return tuple(map(_element, element)) if isinstance(element, list) else element


def _plain(value: Any) -> str:
    return repr(value)
