"""The picture of a flow: a box for each step, below all that it follows."""

from __future__ import annotations

from xml.etree import ElementTree

import msgspec
import pytest

from holon import Json
from holon.dataflow import Flow, Tumbling
from nodes.cli.commands.explain import explain
from nodes.cli.flow_drawing import BY_ROW, COLUMNS, OTHER, drawn

SVG = "{http://www.w3.org/2000/svg}"


class Sale(msgspec.Struct):
    item: int
    at: int


def _flow() -> Flow:
    flow = Flow("a <b> & c")
    sales = flow.source("sales", Json(Sale), time=lambda s: s.at)
    small, large = sales.split(lambda s: s.item < 5)
    kept = small.union(large.filter(lambda s: len(repr(s.item)) > 0))
    kept.key_by(lambda s: s.item).window(Tumbling("1s")).agg(lambda g: g.count()).sink("out")
    return flow


def test_each_step_has_a_box_below_those_that_it_follows() -> None:
    flow = _flow()
    picture = ElementTree.fromstring(drawn(flow.name, flow.explain()))
    boxes = {}
    for group in picture.iter(f"{SVG}g"):
        shape, title = group.find(f"{SVG}rect"), group.find(f"{SVG}title")
        assert shape is not None and title is not None and title.text is not None
        boxes[int(title.text.split()[1])] = (int(shape.attrib["x"]), int(shape.attrib["y"]), shape.attrib["fill"])
    steps = flow.explain()
    assert sorted(boxes) == [step.step for step in steps]
    assert len({(x, y) for x, y, _ in boxes.values()}) == len(boxes)
    arrows = 0
    for step in steps:
        above = [*([] if step.after is None else [step.after]), *step.also_after]
        assert all(boxes[other][1] < boxes[step.step][1] for other in above)
        arrows += len(above)
        how = COLUMNS if step.how.startswith("columns") else BY_ROW if step.how else OTHER
        assert boxes[step.step][2] == how
    assert len(list(picture.iter(f"{SVG}line"))) == arrows == len(steps)  # a union follows two, the source none
    assert {COLUMNS, BY_ROW, OTHER} == {fill for *_, fill in boxes.values()}
    (window,) = [step for step in steps if step.keys]
    titles = [title.text or "" for title in picture.iter(f"{SVG}title")]
    assert [title.split()[1] for title in titles if title.endswith(window.keys)] == [str(window.step)]
    assert "flow a <b> & c" in [text.text for text in picture.iter(f"{SVG}text")]


def test_the_table_shows_who_holds_the_keys_of_windows(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    explain("examples.top_items:flow", None, False)
    assert "all-to-all: its key_by is without sharded=True" in capsys.readouterr().out
