"""A job: one source, one processing function, its outputs. The job that ``holon run MODULE:JOB`` names."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Generic, Literal, TypeVar

import msgspec
import numpy as np

from holon.errors import JobError
from holon.files import Files
from holon.formats.batch import Batch
from holon.formats.finite_numbers import refuse_not_finite
from holon.program.context import Context
from holon.program.function import ProcessingFunction
from holon.program.program import JobProgram
from holon.program.states import StateDeclaration
from holon.source import ManualWatermarks, Source
from wcrdt.replica.slots import Position
from wcrdt.windows.assigners import BEFORE_TIME_MS, END_OF_TIME_MS, Window

_NAME = re.compile(r"[A-Za-z0-9._-]{1,100}")
_BROADCAST = re.compile(r"_holon\.(.+)\.(\d+)\.broadcast")

E = TypeVar("E")
Continuation = Callable[[Window, Context], Any]

LATE = "late"
DEAD = "dead"
UNSTABLE = "unstable"
MAIN = "main"


def incarnation_of(topic: str) -> tuple[str, int] | None:
    """Job and incarnation of a broadcast topic, which is there before the incarnation's first output; else None."""
    match = _BROADCAST.fullmatch(topic)
    return (match[1], int(match[2])) if match else None


def encode_json(value: Any) -> bytes:
    """Default output encoding: bytes as they are, everything else as JSON (msgspec; numpy values as plain ones).

    Raises ``ValueError`` on NaN and infinite numbers, which JSON cannot hold.
    """
    if isinstance(value, bytes):
        return value
    encoded = _JSON.encode(value)
    if b"null" in encoded:  # msgspec writes it for a number that JSON cannot hold
        refuse_not_finite(value, _plain)
    return encoded


def encode_json_column(values: Sequence[Any]) -> list[bytes]:
    """``encode_json`` of each, without a call for each."""
    encode = _JSON.encode
    encoded = [value if isinstance(value, bytes) else encode(value) for value in values]
    for value, each in zip(values, encoded, strict=True):
        if b"null" in each and each is not value:
            refuse_not_finite(value, _plain)
    return encoded


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise NotImplementedError(
        f"JSON cannot hold a value of type {type(value).__name__}; give the Output an encode= of its own"
    )


_JSON = msgspec.json.Encoder(enc_hook=_plain)


@dataclass(frozen=True, slots=True)
class Output:
    """An output topic. Output partition = source partition, or by key (murmur2, as Kafka's default partitioner).

    ``partitions`` is used when the topic is created; None: as many as the input has. ``files``: the files that
    ``holon sink`` writes of it.
    """

    topic: str
    encode: Callable[[Any], bytes] = encode_json
    route_by_key: bool = False
    partitions: int | None = None
    files: Files | None = None

    def __post_init__(self) -> None:
        if self.partitions is not None and not self.route_by_key:
            raise JobError(f"output {self.topic!r}: partitions can only differ from the input's with route_by_key")


@dataclass(frozen=True)
class Job(Generic[E]):
    """A job over events of type ``E``.

    Args:
        name: letters, digits, ``._-``; names its internal topics, checkpoints and outputs.
        source: the input.
        process: a ``ProcessingFunction`` (class or instance), or a function ``(event, ctx)``, async or not.
        output: main output topic; None for a job that only emits to ``side_outputs``.
        side_outputs: further outputs by name, for ``ctx.emit(..., output=name)``.
        process_batch: function form per batch, ``(batch, ctx)``, instead of ``process``.
        states: those of the function form; a ``ProcessingFunction`` declares its own.
        on_window: continuations of the function form: functions decorated with ``on_window``, or by state.
        allowed_lateness_ms: how long after its end (in event time) a window still takes records.
        on_error: what a record does that makes the function raise: stop the job, or go to the dead-letter output.
        late_records: what becomes of a record that no window of any state takes: it goes to the late output, or the
            function sees it as the others. Then it is late for each state that its inserts find closed.
        late_topic, dead_letter_topic: default ``NAME.late`` and ``NAME.dead``.
        unstable_topic: where ``ctx.emit_nondeterministic`` writes; default ``NAME.unstable``.
        window_retention_ms: how much older than what just completed a window may be (by its end, in event time) that an
            ``on_window`` handler or an ``async`` process still reads. 0: only windows that end with the one in hand,
            or that the record in hand completes. Windows are kept for so long.
    """

    name: str
    source: Source[E]
    process: type[ProcessingFunction[E]] | ProcessingFunction[E] | Callable[[E, Context], Any] | None = None
    output: Output | str | None = None
    side_outputs: Mapping[str, Output | str] = field(default_factory=dict)
    process_batch: Callable[[Batch[E], Context], None] | None = None
    states: Sequence[StateDeclaration] = ()
    on_window: Mapping[Any, Continuation] | Sequence[Continuation] = ()
    allowed_lateness_ms: int = 0
    on_error: Literal["fail", "dead-letter"] = "fail"
    late_records: Literal["divert", "process"] = "divert"
    late_topic: str = ""
    dead_letter_topic: str = ""
    unstable_topic: str = ""
    window_retention_ms: int = 0

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise JobError(f"job name {self.name!r}: use 1 to 100 letters, digits and ._-")
        if self.on_error not in ("fail", "dead-letter"):
            raise JobError(f'on_error must be "fail" or "dead-letter", got {self.on_error!r}')
        if self.late_records not in ("divert", "process"):
            raise JobError(f'late_records must be "divert" or "process", got {self.late_records!r}')
        if self.allowed_lateness_ms < 0:
            raise JobError(f"allowed_lateness_ms must be 0 or more, got {self.allowed_lateness_ms}")
        if self.window_retention_ms < 0:
            raise JobError(f"window_retention_ms must be 0 or more, got {self.window_retention_ms}")
        reserved = {MAIN, LATE, DEAD, UNSTABLE} & set(self.side_outputs)
        if reserved:
            raise JobError(f"side output names {sorted(reserved)} are reserved")
        topics = [output.topic for output in self.outputs.values()]
        repeated = sorted({topic for topic in topics if topics.count(topic) > 1})
        if repeated or self.source.topic in topics:
            raise JobError(f"job {self.name!r}: outputs need topics of their own, also {repeated or self.source.topic}")
        roots = [output.files.root for output in self.outputs.values() if output.files is not None]
        if len(set(roots)) < len(roots):
            raise JobError(f"job {self.name!r}: files of two outputs go to one of the folders {', '.join(roots)}")
        # Declaration errors surface here, not in a node.
        if self.program.batch_function is not None and isinstance(self.source.watermarks, ManualWatermarks):
            raise JobError(
                "ManualWatermarks and process_batch: no batch can call increment_watermark, windows stay open"
            )

    @cached_property
    def program(self) -> JobProgram:
        source = self.source
        helpers = {"format": source.format, "watermarks": source.watermarks, "timestamp": source.timestamp}
        helpers |= {"filter": source.filter} | {f"encoding of {n}": o.encode for n, o in sorted(self.outputs.items())}
        return JobProgram(self.process, self.process_batch, self.states, self.on_window, helpers)

    @cached_property
    def outputs(self) -> dict[str, Output]:
        """All outputs by name: main, the side outputs, and what the runtime writes itself."""
        outputs = {} if self.output is None else {MAIN: _as_output(self.output)}
        outputs |= {name: _as_output(output) for name, output in sorted(self.side_outputs.items())}
        outputs[LATE] = Output(self.late_topic or f"{self.name}.late")
        outputs[DEAD] = Output(self.dead_letter_topic or f"{self.name}.dead")
        outputs[UNSTABLE] = Output(self.unstable_topic or f"{self.name}.unstable")
        return outputs

    @property
    def control_topic(self) -> str:
        return f"_holon.{self.name}.control"

    def broadcast_topic(self, incarnation: int) -> str:
        return f"_holon.{self.name}.{incarnation}.broadcast"

    def droppable_through(self, answered: Position, watermark_ms: int) -> int:
        """The window end in ms up to which windows can be dropped: no track of any partition reads them again.

        Args: both are minima over the *durable checkpoints* of all partitions, from where any of them may be replayed.
        ``answered``: the window tracks' (window end, stage); ``watermark_ms``: the record tracks' watermark.
        """
        end_ms, stage = answered
        # Handlers run again at this end or later, and read back from there.
        next_end_ms = end_ms if stage < self.program.last_stage else end_ms + 1
        through_ms = next_end_ms - 1 - self.window_retention_ms
        if end_ms >= END_OF_TIME_MS and stage >= self.program.last_stage:
            through_ms = END_OF_TIME_MS
        if self.program.is_async and watermark_ms < END_OF_TIME_MS:
            through_ms = min(through_ms, watermark_ms - self.allowed_lateness_ms - self.window_retention_ms)
        return max(through_ms, BEFORE_TIME_MS)

    def describe(self) -> str:
        """Canonical text of everything that decides results; two jobs with the same text share state."""
        outputs = [f"output {name} {o.topic} {o.route_by_key}" for name, o in sorted(self.outputs.items())]
        return "\n".join(
            [
                f"job {self.name}",
                self.source.describe(),
                self.program.describe(),
                *outputs,
                f"lateness {self.allowed_lateness_ms} on_error {self.on_error}",
                *(["late records processed"] if self.late_records == "process" else []),
            ]
        )

    def fingerprint(self) -> str:
        """Digest of ``describe()`` and the code: an existing state is only resumed by the same one."""
        text = f"{self.describe()}\ncode {self.program.code_hash()}"
        return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()


def _as_output(output: Output | str) -> Output:
    return output if isinstance(output, Output) else Output(output)
