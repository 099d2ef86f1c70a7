"""A sampling profiler in the process itself: the stack of the main thread at every tick of CPU time, as a picture.

A tick is the kernel's (often 4 ms), however short the requested interval; only the shares count.
The signal of the processor-time clock is answered between two steps of the interpreter, so time inside of compiled code
counts for the Python function that called it.
"""

from __future__ import annotations

import signal
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from types import FrameType
from xml.sax.saxutils import escape

INTERVAL_S = 0.001
ROOT = str(Path(__file__).resolve().parents[2]) + "/"
ROW, WIDTH, LEAST = 17, 1200.0, 0.5

Stack = tuple[str, ...]
"""From the outermost function to the innermost; each ``path:function``."""
Box = tuple[int, float, float, str]
"""Depth, left edge, share, name; edges and shares are parts of the whole."""


class Sampler:
    """Between ``__enter__`` and ``__exit__``, in the main thread. ``stacks``: how often each was met."""

    def __init__(self) -> None:
        self.stacks: Counter[Stack] = Counter()

    def __enter__(self) -> Sampler:
        self._before = signal.signal(signal.SIGPROF, self._sample)
        signal.setitimer(signal.ITIMER_PROF, INTERVAL_S, INTERVAL_S)
        return self

    def __exit__(self, *exc: object) -> None:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, self._before)

    def _sample(self, number: int, frame: FrameType | None) -> None:
        stack = []
        while frame is not None:
            code = frame.f_code
            stack.append(f"{_short(code.co_filename)}:{code.co_name}")
            frame = frame.f_back
        self.stacks[tuple(reversed(stack))] += 1


def _short(path: str) -> str:
    """From the project's root, or from the folder of installed packages."""
    if path.startswith(ROOT):
        path = path[len(ROOT) :]
    for prefix in sorted(sys.path, key=len, reverse=True):
        if prefix and path.startswith(prefix + "/"):
            return path[len(prefix) + 1 :]
    return path


def folded(stacks: Counter[Stack]) -> str:
    """One line for each stack: what flame graph tools read."""
    return "".join(f"{';'.join(stack)} {count}\n" for stack, count in sorted(stacks.items()))


def flame_graph(stacks: Counter[Stack], title: str) -> str:
    """An SVG: callers below, called above, as wide as their share. A box under the pointer shows its share."""
    total = sum(stacks.values())
    boxes = list(_boxes(sorted(stacks.items()), 0, 0.0, max(total, 1)))
    height = ROW * (2 + max((depth for depth, *_ in boxes), default=0) + 1)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH:.0f}" height="{height}" font-family="monospace" '
        f'font-size="11"><rect width="100%" height="100%" fill="white"/>'
        f'<text x="6" y="14">{escape(title)}: {total} samples at ticks of CPU time</text>'
    ]
    for depth, left, share, name in boxes:
        x, width, y = left * WIDTH, share * WIDTH, height - ROW * (depth + 1)
        if width < LEAST:
            continue
        shown = escape(name[-int(width / 6.8) :]) if width > 20 else ""
        lines.append(
            f'<g><title>{escape(name)}, {share:.1%}</title><rect x="{x:.1f}" y="{y}" width="{width:.1f}" '
            f'height="{ROW - 1}" fill="{_colour(name)}" rx="1"/><text x="{x + 3:.1f}" y="{y + 12}">{shown}</text></g>'
        )
    return "\n".join([*lines, "</svg>\n"])


def _boxes(stacks: list[tuple[Stack, int]], depth: int, left: float, total: int) -> Iterable[Box]:
    at = 0
    while at < len(stacks):
        stack, count = stacks[at]
        if len(stack) <= depth:
            left, at = left + count / total, at + 1
            continue
        name, stop = stack[depth], at
        while stop < len(stacks) and len(stacks[stop][0]) > depth and stacks[stop][0][depth] == name:
            stop += 1
        share = sum(number for _, number in stacks[at:stop]) / total
        yield depth, left, share, name
        yield from _boxes(stacks[at:stop], depth + 1, left, total)
        left, at = left + share, stop


def _colour(name: str) -> str:
    """Warm, the same for the same room."""
    room = sum(name.partition("/")[0].encode())
    return f"hsl({20 + room * 37 % 50},{60 + room % 30}%,{68 + room % 14}%)"
