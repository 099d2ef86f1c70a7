"""Holon: a leaderless stream processor. Import what a job is written with from here.

Nodes read partitions of a log and share state only through windowed CRDTs; every result is a pure function of the
input (Holon, sections 3 and 4).
"""

from holon.batch import Batch
from holon.context import Context
from holon.errors import (
    DecodeFailure,
    HolonError,
    JobError,
    NondeterminismError,
    ReadNeverCompletes,
    TrackError,
    UnserializableState,
    UserFunctionError,
    WindowForgotten,
    WindowNotAwaited,
)
from holon.formats import Decoded, Format, Json, JsonColumns, Raw
from holon.function import ProcessingFunction, on_window
from holon.identity import IdentityError, OutputId, RepeatFilter, Track
from holon.job import Job, Output
from holon.source import BoundedOutOfOrderness, ManualWatermarks, Source, WatermarkStrategy
from holon.states import WCRDT, Local, WLocal
from wcrdt.windows import Assigner, Global, Sliding, Tumbling, Window

__all__ = [
    "WCRDT",
    "Assigner",
    "Batch",
    "BoundedOutOfOrderness",
    "Context",
    "DecodeFailure",
    "Decoded",
    "Format",
    "Global",
    "HolonError",
    "IdentityError",
    "Job",
    "JobError",
    "Json",
    "JsonColumns",
    "Local",
    "ManualWatermarks",
    "NondeterminismError",
    "Output",
    "OutputId",
    "ProcessingFunction",
    "Raw",
    "ReadNeverCompletes",
    "RepeatFilter",
    "Sliding",
    "Source",
    "Track",
    "TrackError",
    "Tumbling",
    "UnserializableState",
    "UserFunctionError",
    "WLocal",
    "WatermarkStrategy",
    "Window",
    "WindowForgotten",
    "WindowNotAwaited",
    "on_window",
]
