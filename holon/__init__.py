"""Holon: a leaderless stream processor. Import what a job is written with from here.

Nodes read partitions of a log and share state only through windowed CRDTs; every result is a pure function of the
input (Holon, sections 3 and 4).
"""

from holon.errors import (
    DeserializationError,
    HolonError,
    JobError,
    NondeterminismError,
    TrackError,
    UnserializableState,
    UserFunctionError,
    WindowExpired,
    WindowNotAwaited,
    WindowReadDeadlock,
)
from holon.files import Files
from holon.formats.batch import Batch
from holon.formats.formats import Decoded, Format, Json, Raw
from holon.formats.json_columns import JsonColumns
from holon.formats.record_fields import Header, LogTime, RecordKey, Tombstone
from holon.job import Job, Output
from holon.outputs.deduplicator import Deduplicator
from holon.outputs.identity import IdentityError, OutputId, Track
from holon.program.context import Context
from holon.program.function import ProcessingFunction, on_window
from holon.program.states import WCRDT, Local, WLocal
from holon.source import BoundedOutOfOrderness, ManualWatermarks, Source, WatermarkStrategy
from wcrdt.windows.assigners import Assigner, GlobalWindow, Sliding, Tumbling, Window
from wcrdt.windows.data_driven import Between, Change, Count, DataDriven
from wcrdt.windows.sessions import Session

__all__ = [
    "WCRDT",
    "Assigner",
    "Batch",
    "Between",
    "BoundedOutOfOrderness",
    "Change",
    "Context",
    "Count",
    "DataDriven",
    "Decoded",
    "Deduplicator",
    "DeserializationError",
    "Files",
    "Format",
    "GlobalWindow",
    "Header",
    "HolonError",
    "IdentityError",
    "Job",
    "JobError",
    "Json",
    "JsonColumns",
    "Local",
    "LogTime",
    "ManualWatermarks",
    "NondeterminismError",
    "Output",
    "OutputId",
    "ProcessingFunction",
    "Raw",
    "RecordKey",
    "Session",
    "Sliding",
    "Source",
    "Tombstone",
    "Track",
    "TrackError",
    "Tumbling",
    "UnserializableState",
    "UserFunctionError",
    "WLocal",
    "WatermarkStrategy",
    "Window",
    "WindowExpired",
    "WindowNotAwaited",
    "WindowReadDeadlock",
    "on_window",
]
