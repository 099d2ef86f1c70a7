"""Directed graphs with labelled edges: strongly connected components, and short cycles in them."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator

Labels = dict[int, set[str]]


class Graph:
    """Nodes are numbers; an edge may have several labels."""

    def __init__(self, nodes: int) -> None:
        self._out: list[Labels] = [{} for _ in range(nodes)]

    def add(self, start: int, end: int, label: str) -> None:
        """An edge; from a node to itself: none."""
        if start != end:
            self._out[start].setdefault(end, set()).add(label)

    def label(self, start: int, end: int, labels: Collection[str]) -> str:
        """The first of these labels that the edge has."""
        return next(each for each in labels if each in self._out[start][end])

    def after(self, node: int, labels: Collection[str]) -> Iterator[int]:
        """Where edges with one of these labels lead."""
        for end, found in self._out[node].items():
            if any(label in found for label in labels):
                yield end

    def components(self, labels: Collection[str]) -> list[list[int]]:
        """Strongly connected components of more than one node (Tarjan), over edges with one of these labels."""
        index: dict[int, int] = {}
        low: dict[int, int] = {}
        found: list[list[int]] = []
        on_stack: set[int] = set()
        stack: list[int] = []
        for root in range(len(self._out)):
            if root in index:
                continue
            work = [(root, self.after(root, labels))]
            index[root] = low[root] = len(index)
            stack.append(root)
            on_stack.add(root)
            while work:
                node, ends = work[-1]
                for end in ends:
                    if end not in index:
                        index[end] = low[end] = len(index)
                        stack.append(end)
                        on_stack.add(end)
                        work.append((end, self.after(end, labels)))
                        break
                    if end in on_stack:
                        low[node] = min(low[node], index[end])
                else:
                    work.pop()
                    if work:
                        low[work[-1][0]] = min(low[work[-1][0]], low[node])
                    if low[node] == index[node]:
                        found.append(_popped(stack, on_stack, node))
        return [sorted(each) for each in found if len(each) > 1]

    def path(self, start: int, end: int, labels: Collection[str], within: Collection[int]) -> list[int] | None:
        """A shortest way, both ends included."""
        came: dict[int, int] = {start: start}
        waiting = deque([start])
        while waiting:
            node = waiting.popleft()
            if node == end:
                way = [node]
                while way[-1] != start:
                    way.append(came[way[-1]])
                return way[::-1]
            for following in self.after(node, labels):
                if following in within and following not in came:
                    came[following] = node
                    waiting.append(following)
        return None


def _popped(stack: list[int], on_stack: set[int], root: int) -> list[int]:
    found = []
    while True:
        node = stack.pop()
        on_stack.discard(node)
        found.append(node)
        if node == root:
            return found
