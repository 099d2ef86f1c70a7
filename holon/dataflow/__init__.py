"""Pipelines of typed functions, compiled to one processing function (Holon, section 3.1)."""

from holon.dataflow.errors import FlowError
from holon.dataflow.flow import Flow
from holon.dataflow.groups import Group
from holon.dataflow.joins.step import Joined
from holon.dataflow.streams import (
    KeyedStream,
    PartitionKeyedStream,
    PartitionResultStream,
    PartitionStream,
    PartitionWindowedStream,
    ResultStream,
    Stream,
    WindowedStream,
)
from holon.files import Files
from wcrdt.windows.assigners import Sliding, Tumbling
from wcrdt.windows.data_driven import Between, Change, Count, DataDriven
from wcrdt.windows.sessions import Session

__all__ = [
    "Between",
    "Change",
    "Count",
    "DataDriven",
    "Files",
    "Flow",
    "FlowError",
    "Group",
    "Joined",
    "KeyedStream",
    "PartitionKeyedStream",
    "PartitionResultStream",
    "PartitionStream",
    "PartitionWindowedStream",
    "ResultStream",
    "Session",
    "Sliding",
    "Stream",
    "Tumbling",
    "WindowedStream",
]
