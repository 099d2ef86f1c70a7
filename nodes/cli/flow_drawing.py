"""The steps of a flow as a picture (SVG): sources above, each step below all that it follows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from xml.sax.saxutils import escape

from holon.dataflow.flow import ExplainedStep

BOX_WIDTH, BOX_HEIGHT, GAP_X, GAP_Y, MARGIN = 230, 69, 30, 44, 20
TITLE_HEIGHT = 30
SHOWN = 34
"""So many characters of a line fit into a box; the whole text shows under the pointer."""
COLUMNS, BY_ROW, OTHER = "#d6efd8", "#fbe3c0", "#e8eaf0"
"""Fill of steps that work on columns, row by row, and of those without a function."""


def drawn(name: str, steps: Sequence[ExplainedStep]) -> str:
    """The picture. Steps that follow equally many others stand beside each other, in the order they were written."""
    places = _places(steps)
    width = MARGIN * 2 + (max((column for column, _ in places.values()), default=0) + 1) * (BOX_WIDTH + GAP_X) - GAP_X
    height = TITLE_HEIGHT + MARGIN + (max((row for _, row in places.values()), default=0) + 1) * (BOX_HEIGHT + GAP_Y)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" '
        f'font-size="12"><rect width="100%" height="100%" fill="white"/>',
        '<defs><marker id="end" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
        '<path d="M0,0 L8,4 L0,8 z" fill="#555"/></marker></defs>',
        f'<text x="{MARGIN}" y="20" font-weight="bold">flow {escape(name)}</text>',
    ]
    for step in steps:
        lines += [_arrow(places[above], places[step.step]) for above in _followed(step)]
    lines += [_box(step, *places[step.step]) for step in steps]
    return "\n".join([*lines, "</svg>\n"])


def _followed(step: ExplainedStep) -> list[int]:
    return ([] if step.after is None else [step.after]) + list(step.also_after)


def _places(steps: Iterable[ExplainedStep]) -> dict[int, tuple[int, int]]:
    """Column and row of each step, by its number."""
    rows: dict[int, int] = {}
    used: Counter[int] = Counter()
    places: dict[int, tuple[int, int]] = {}
    for step in sorted(steps):
        rows[step.step] = 1 + max((rows[above] for above in _followed(step)), default=-1)
        places[step.step] = used[rows[step.step]], rows[step.step]
        used[rows[step.step]] += 1
    return places


def _corner(column: int, row: int) -> tuple[int, int]:
    return MARGIN + column * (BOX_WIDTH + GAP_X), TITLE_HEIGHT + row * (BOX_HEIGHT + GAP_Y)


def _arrow(above: tuple[int, int], below: tuple[int, int]) -> str:
    (x1, y1), (x2, y2) = _corner(*above), _corner(*below)
    middle = BOX_WIDTH // 2
    return (
        f'<line x1="{x1 + middle}" y1="{y1 + BOX_HEIGHT}" x2="{x2 + middle}" y2="{y2}" stroke="#555" '
        f'marker-end="url(#end)"/>'
    )


def _box(step: ExplainedStep, column: int, row: int) -> str:
    x, y = _corner(column, row)
    fill = COLUMNS if step.how.startswith("columns") else BY_ROW if step.how.startswith("row by row") else OTHER
    texts = [(16, "bold", f"{step.step} {step.verb}"), (31, "normal", step.line), (46, "normal", step.how)]
    texts += [(61, "normal", step.keys)] if step.keys else []
    shown = "".join(
        f'<text x="{x + 8}" y="{y + down}" font-weight="{weight}">{escape(_short(text))}</text>'
        for down, weight, text in texts
    )
    whole = escape(" ".join(filter(None, (f"step {step.step} ({step.verb}, {step.line})", step.how, step.keys))))
    return (
        f'<g><title>{whole}</title><rect x="{x}" y="{y}" width="{BOX_WIDTH}" height="{BOX_HEIGHT}" rx="6" '
        f'fill="{fill}" stroke="#888"/>{shown}</g>'
    )


def _short(text: str) -> str:
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 1]}…"
