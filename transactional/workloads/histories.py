"""Finds what no serializable history of list appends shows: Adya's phenomena, and answers that come before their time.

A read of a list shows the order of all appends to it, so the dependencies of transactions follow from the reads alone.
Source: Adya, *Weak Consistency* (1999) for G0, G1a, G1b, G1c, G2; Kingsbury and Alvaro, *Elle* (VLDB 14:3) for the
inference. A history whose lists are all read at its end is serializable in real time if and only if nothing is found.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple, TypeAlias

from transactional.workloads.graphs import Graph

STAGES = (
    ("G0", ("ww",)),
    ("G1c", ("ww", "wr")),
    ("G2", ("ww", "wr", "rw")),
    ("G0-realtime", ("ww", "rt")),
    ("G1c-realtime", ("ww", "wr", "rt")),
    ("G2-realtime", ("ww", "wr", "rw", "rt")),
)
"""Phenomena by the edges of their cycles, the worst first. G2 with a single rw edge is called G-single."""


TRIED = 100
"""Transactions of a component that are searched for a short cycle."""


class Append(NamedTuple):
    key: str
    value: int


class ListRead(NamedTuple):
    """The whole list."""

    key: str
    values: tuple[int, ...]


Step: TypeAlias = Append | ListRead


@dataclass(frozen=True, slots=True)
class Observed:
    """A transaction as its client saw it, from ``start`` to ``end``. ``committed`` None: there was no reply."""

    name: str
    steps: tuple[Step, ...]
    start: float
    end: float
    committed: bool | None = True


class Anomaly(NamedTuple):
    """``kind``: G0, G1a, G1b, G1c, G-single, G2, each but G1a and G1b also ``-realtime``; else in its own words."""

    kind: str
    what: str


def anomalies(history: Sequence[Observed]) -> list[Anomaly]:
    """All kinds that are found, each with an example for each group of transactions that it binds."""
    return _Inference(history).run()


class _Inference:
    def __init__(self, history: Sequence[Observed]) -> None:
        self.found: list[Anomaly] = []
        self.writer: dict[tuple[str, int], Observed] = {}
        for each in history:
            for step in each.steps:
                if isinstance(step, Append) and self.writer.setdefault((step.key, step.value), each) is not each:
                    self._report("duplicate append", f"{step.value} is appended to {step.key} twice")
        seen = {
            (step.key, value)
            for each in history
            if each.committed
            for step in each.steps
            if isinstance(step, ListRead)
            for value in step.values
        }
        self.settled = [
            each
            for each in history
            if each.committed or (each.committed is None and any(step in seen for step in each.steps))
        ]
        self.number = {each.name: n for n, each in enumerate(self.settled)}
        assert len(self.number) == len(self.settled), "two transactions have one name"
        self.order: dict[str, tuple[int, ...]] = {}

    def run(self) -> list[Anomaly]:
        for each in self.settled:
            self._internal(each)
        self._orders()
        for each in self.settled:
            for read, rest in _outside(each):
                self._dirty(each, read, rest)
        self._cycles()
        return self.found

    def _report(self, kind: str, what: str) -> None:
        if Anomaly(kind, what) not in self.found:
            self.found.append(Anomaly(kind, what))

    # --- single transactions ----------------------------------------------------------------------------------------

    def _internal(self, each: Observed) -> None:
        """A transaction sees its own appends, and otherwise the same list each time."""
        known: dict[str, tuple[int, ...]] = {}
        own: dict[str, tuple[int, ...]] = {}
        for step in each.steps:
            if isinstance(step, Append):
                own[step.key] = (*own.get(step.key, ()), step.value)
                if step.key in known:
                    known[step.key] = (*known[step.key], step.value)
                continue
            mine = own.get(step.key, ())
            if known.setdefault(step.key, step.values) != step.values:
                self._report("internal", f"{each.name} read {step.values} of {step.key} after {known[step.key]}")
            elif mine and step.values[-len(mine) :] != mine:
                self._report("internal", f"{each.name} read {step.values} of {step.key} after it appended {mine}")

    def _orders(self) -> None:
        """Of each list the longest read; the others have to begin it."""
        for each in self.settled:
            for step in each.steps:
                if isinstance(step, ListRead):
                    if len(set(step.values)) < len(step.values):
                        self._report("duplicate", f"{each.name} read {step.values} of {step.key}")
                    if len(step.values) > len(self.order.get(step.key, ())):
                        self.order[step.key] = step.values
        for each in self.settled:
            for step in each.steps:
                if isinstance(step, ListRead) and self.order.get(step.key, ())[: len(step.values)] != step.values:
                    what = f"{each.name} read {step.values} of {step.key}, others {self.order[step.key]}"
                    self._report("incompatible order", what)

    def _dirty(self, each: Observed, read: ListRead, rest: tuple[int, ...]) -> None:
        for value in rest:
            writer = self.writer.get((read.key, value))
            if writer is None:
                self._report("unknown value", f"{each.name} read {value} of {read.key}, which nobody appended")
            elif writer.committed is False:
                self._report("G1a", f"{each.name} read {value} of {read.key}, which {writer.name} appended and aborted")
        writer = self.writer.get((read.key, rest[-1])) if rest else None
        if writer is not None and writer is not each and _appended(writer, read.key)[-1] != rest[-1]:
            self._report("G1b", f"{each.name} read {rest[-1]} of {read.key}, and {writer.name} went on appending to it")

    # --- cycles -----------------------------------------------------------------------------------------------------

    def _cycles(self) -> None:
        graph = self._graph()
        done: set[int] = set()
        for kind, labels in STAGES:
            for component in graph.components(labels):
                if done.isdisjoint(component):
                    done.update(component)
                    self._report(*self._cycle(graph, kind, labels, component))

    def _graph(self) -> Graph:
        graph = Graph(2 * len(self.settled))
        unread: dict[str, list[int]] = {}
        for n, each in enumerate(self.settled):
            for step in each.steps:
                if isinstance(step, Append) and step.value not in self.order.get(step.key, ()):
                    unread.setdefault(step.key, []).append(n)
        for key, values in sorted(self.order.items()):
            writers = [self._writer(key, value) for value in values]
            for first, then in pairwise(writers):
                if first is not None and then is not None:
                    graph.add(first, then, "ww")
            for then in unread.get(key, []):  # behind all that was read
                if writers and writers[-1] is not None:
                    graph.add(writers[-1], then, "ww")
        for n, each in enumerate(self.settled):
            for read, rest in _outside(each):
                self._reading(graph, n, read.key, rest, unread.get(read.key, []))
        self._real_time(graph)
        return graph

    def _writer(self, key: str, value: int) -> int | None:
        writer = self.writer.get((key, value))
        return None if writer is None else self.number.get(writer.name)

    def _reading(self, graph: Graph, n: int, key: str, rest: tuple[int, ...], unread: list[int]) -> None:
        order = self.order.get(key, ())
        if order[: len(rest)] != rest:
            return
        last = self._writer(key, rest[-1]) if rest else None
        if last is not None:
            graph.add(last, n, "wr")
        if len(rest) < len(order):
            following = self._writer(key, order[len(rest)])
            if following is not None:
                graph.add(n, following, "rw")
        else:
            for following in unread:
                graph.add(n, following, "rw")

    def _real_time(self, graph: Graph) -> None:
        """An ended transaction comes before one that began later; the second half of the nodes are the ends."""
        count = len(self.settled)
        ends = sorted(range(count), key=lambda n: self.settled[n].end)
        starts = sorted(range(count), key=lambda n: self.settled[n].start)
        for moment, n in enumerate(ends):
            graph.add(n, count + moment, "rt")
            if moment:
                graph.add(count + moment - 1, count + moment, "rt")
        moment = 0
        for n in starts:
            while moment < count and self.settled[ends[moment]].end < self.settled[n].start:
                moment += 1
            if moment:
                graph.add(count + moment - 1, n, "rt")

    def _cycle(self, graph: Graph, kind: str, labels: Collection[str], component: list[int]) -> Anomaly:
        within = set(component)
        others = tuple(label for label in labels if label != "rw")
        best: list[int] | None = None
        for start in component[:TRIED]:
            for end in sorted(graph.after(start, ("rw",) if "rw" in labels else labels)):
                back = graph.path(end, start, others, within) if end in within else None
                if back is not None and (best is None or len(back) < len(best)):
                    best = back
        if best is not None and kind.startswith("G2"):
            kind = kind.replace("G2", "G-single")
        if best is None:
            first = component[0]
            ways = (graph.path(end, first, labels, within) for end in graph.after(first, labels) if end in within)
            best = min((way for way in ways if way is not None), key=len)
        return Anomaly(kind, self._text_of(graph, best, others, labels))

    def _text_of(self, graph: Graph, cycle: list[int], others: Collection[str], labels: Collection[str]) -> str:
        """The cycle in words, from its last edge on, which is the rw one if there is a single one."""
        parts = []
        for start, end in pairwise([cycle[-1], *cycle]):
            if start < len(self.settled):
                preferred = ("rw", *labels) if not parts and "rw" in labels else (*others, *labels)
                label = graph.label(start, end, preferred)
                parts.append(f"{self.settled[start].name} -{label}->")
        return " ".join([*parts, parts[0].split(" ")[0]])


def _appended(each: Observed, key: str) -> list[int]:
    return [step.value for step in each.steps if isinstance(step, Append) and step.key == key]


def _outside(each: Observed) -> Iterator[tuple[ListRead, tuple[int, ...]]]:
    """The first read of each list, and what of it others had appended."""
    own: dict[str, int] = {}
    done: set[str] = set()
    for step in each.steps:
        if isinstance(step, Append):
            own[step.key] = own.get(step.key, 0) + 1
        elif step.key not in done:
            done.add(step.key)
            yield step, step.values[: len(step.values) - own.get(step.key, 0)]
