"""Files as a user declares them, in flows and in jobs (holon/files.py)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from holon import Files, Job, Json, Output, Source
from holon.dataflow import Flow, Tumbling
from holon.errors import JobError


class Bid(msgspec.Struct):
    at: int
    price: int
    channel: str = ""


class Total(msgspec.Struct):
    end_ms: int
    bids: int


def bids(flow: Flow) -> Any:
    return flow.source("bids", Json(Bid), time=lambda bid: bid.at)


def test_a_path_is_a_root_and_a_template_of_folders():
    files = Files("s3://shop/out/{country}/day={day}", "csv", partition_by=["channel", "a.b"], commit_after="2m")
    assert files.root == "s3://shop/out"
    assert files.folders == "{country}/day={day}/channel={channel}/a.b={a.b}"
    assert files.needs_time and files.commit_after_ms == 120_000
    assert Files("out/").root == "out" and Files("out/").folders == "" and not Files("out/{country}").needs_time
    assert Files("out", partition_by=["day"]).needs_time


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"path": "{day}/x"}, "begin the path with a folder"),
        ({"path": "s3://{bucket}"}, "begin the path with a folder"),
        ({"path": "out/{day"}, "no template of a path"),
        ({"path": "out/{day!r}"}, "a placeholder is year, month, day, hour or the name of a field"),
        ({"path": "out/{}"}, "a placeholder is"),
        ({"path": "out", "format": "xml"}, "files are csv, jsonl, parquet, got 'xml'"),
        ({"path": "out", "commit_after": "1 week"}, "commit_after: a duration is"),
        ({"path": "out", "commit_after": -1}, "commit_after must be 0 or more"),
        ({"path": "out", "partition_by": "shop"}, "partition_by is a list of fields"),
    ],
)
def test_what_cannot_be_is_refused_where_it_is_written(given: dict[str, Any], said: str):
    with pytest.raises(JobError, match=said):
        Files(**given)


def test_sinks_of_a_flow_have_topics_of_their_own_and_know_the_type_of_their_rows():
    flow = Flow("shop")
    source = bids(flow)
    source.sink(Files("out/bids"))
    source.window(Tumbling("1s")).agg(lambda g: Total(g.window.end_ms, g.count())).sink(Files("out/totals", "parquet"))
    source.map(lambda bid: f"{bid.price}").sink(Files("out/texts", topic="texts"))
    found = {output.topic: output.files for output in flow.job.outputs.values() if output.files is not None}
    assert {topic: (files.root, files.row) for topic, files in found.items()} == {
        "shop.files.1": ("out/bids", Bid),
        "shop.files.2": ("out/totals", Total),
        "texts": ("out/texts", None),
    }


def test_files_change_nothing_about_a_job():
    flows = [Flow("shop"), Flow("shop")]
    bids(flows[0]).sink("bids-out")
    bids(flows[1]).sink(Files("out", "csv", topic="bids-out"))
    assert flows[0].job.fingerprint() == flows[1].job.fingerprint()


def test_files_of_two_outputs_need_folders_of_their_own():
    outputs = {name: Output(name, files=Files("out/{day}")) for name in ("one", "two")}
    with pytest.raises(JobError, match="files of two outputs go to one of the folders out, out"):
        Job("shop", Source("bids", Json(Bid)), lambda event, ctx: None, side_outputs=outputs)
