"""A job: its sources, one processing function, its outputs. The job that ``holon run MODULE:JOB`` names."""

from __future__ import annotations

import copy
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
from holon.formats.formats import Format
from holon.program.context import Context
from holon.program.function import ProcessingFunction
from holon.program.insert_arguments import ColumnEffects
from holon.program.program import JobProgram
from holon.program.states import StateDeclaration
from holon.source import ManualWatermarks, Source
from wcrdt.replica.slots import Position
from wcrdt.windows.assigners import BEFORE_TIME_MS, END_OF_TIME_MS, Window
from wcrdt.windows.held_longer import held_longer_ms

_NAME = re.compile(r"[A-Za-z0-9._-]{1,100}")
_BROADCAST = re.compile(r"_holon\.(.+)\.(\d+)\.broadcast")

E = TypeVar("E")
Continuation = Callable[[Window, Context], Any]

LATE = "late"
DEAD = "dead"
UNSTABLE = "unstable"
MAIN = "main"
RUNTIME_OUTPUTS = frozenset({MAIN, LATE, DEAD, UNSTABLE})
"""Names of outputs that no side output has."""


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
    encoded = JSON.encode(value)
    if b"null" in encoded:  # msgspec writes it for a number that JSON cannot hold
        refuse_not_finite(value, plain_json)
    return encoded


def encode_json_column(values: Sequence[Any]) -> list[bytes]:
    """``encode_json`` of each, without a call for each."""
    encode = JSON.encode
    encoded = [value if isinstance(value, bytes) else encode(value) for value in values]
    for value, each in zip(values, encoded, strict=True):
        if b"null" in each and each is not value:
            refuse_not_finite(value, plain_json)
    return encoded


def plain_json(value: Any) -> Any:
    """NumPy's values as Python's, for the encoding of what msgspec does not know."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    if hasattr(value, "__await__"):
        raise TypeError(f"a {type(value).__name__} is no value yet: await it, in a function that is async def")
    raise NotImplementedError(
        f"JSON cannot hold a value of type {type(value).__name__}; give the Output an encode= of its own"
    )


JSON = msgspec.json.Encoder(enc_hook=plain_json)
"""The encoder of ``encode_json``."""


@dataclass(frozen=True, slots=True)
class Output:
    """An output topic. Output partition = source partition, or by key (murmur2, as Kafka's default partitioner).

    ``partitions`` is used when the topic is created; None: as many as the input has, all its topics together.
    ``files``: the files that ``holon sink`` writes of it.
    """

    topic: str
    encode: Callable[[Any], bytes] = encode_json
    route_by_key: bool = False
    partitions: int | None = None
    files: Files | None = None

    def __post_init__(self) -> None:
        if self.partitions is not None and not self.route_by_key:
            raise JobError(f"output {self.topic!r}: partitions can only differ from the input's with route_by_key")


@dataclass(frozen=True, slots=True)
class ColumnForm:
    """The records of a topic by columns: its source as such, and the effects of ``process`` for a batch of them.

    ``effects`` has none itself. None, or an exception: the records are for ``process``. ``fewest``: a run of fewer
    records is as quick one by one. ``compiled``: so is any without compiled loops.
    """

    source: Source[Any]
    effects: Callable[[Batch[Any]], ColumnEffects | None]
    fewest: int = 64
    compiled: bool = True


@dataclass(frozen=True)
class Job(Generic[E]):
    """A job over events of type ``E``.

    Args:
        name: letters, digits, ``._-``; names its internal topics, checkpoints and outputs.
        source: the input; or several, of topics with formats and event times of their own. Their partitions are the
            job's, numbered in the order of this list, and ``ctx.topic`` names the topic of the record in hand.
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
        column_forms: by topic, of ``by_columns``. No result follows from them.
    """

    name: str
    source: Source[E] | Sequence[Source[Any]]
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
    column_forms: Mapping[str, ColumnForm] = field(default_factory=dict)

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
        reserved = RUNTIME_OUTPUTS & set(self.side_outputs)
        if reserved:
            raise JobError(f"side output names {sorted(reserved)} are reserved")
        topics = [output.topic for output in self.outputs.values()]
        repeated, read = _repeated(topics), ", ".join(topic for topic in self.topics if topic in topics)
        if repeated or read:
            raise JobError(f"job {self.name!r}: outputs need topics of their own, also {repeated or read}")
        roots = [output.files.root for output in self.outputs.values() if output.files is not None]
        if len(set(roots)) < len(roots):
            raise JobError(f"job {self.name!r}: files of two outputs go to one of the folders {', '.join(roots)}")
        # Declaration errors surface here, not in a node.
        for output in self.outputs.values():
            if output.files is not None:
                self.check_folders(output.files)
        manual = any(isinstance(source.watermarks, ManualWatermarks) for source in self.sources)
        if self.program.batch_function is not None and manual:
            raise JobError(
                "ManualWatermarks and process_batch: no batch can call increment_watermark, windows stay open"
            )

    def check_folders(self, files: Files) -> None:
        """Raise ``JobError`` where rows of windows have no time by which folders are named."""
        longer = [name for name, decl in self.program.windowed().items() if held_longer_ms(decl.windows)]
        if longer and files.needs_time and files.time is None:
            raise JobError(
                f"job {self.name!r}: windows of {', '.join(longer)} take rows longer than others, so their results do "
                f"not come with the times by which folders of {files.path!r} are named; name the field with the time: "
                f'Files({files.path!r}, time="at")'
            )

    @cached_property
    def sources(self) -> tuple[Source[Any], ...]:
        """The input, in the order in which it is listed."""
        found = (self.source,) if isinstance(self.source, Source) else tuple(self.source)
        if not found or not all(isinstance(source, Source) for source in found):
            raise JobError(f"job {self.name!r}: source is a Source or a list of them, got {self.source!r:.200}")
        repeated = _repeated([source.topic for source in found])
        if repeated:
            raise JobError(
                f"job {self.name!r}: {', '.join(repeated)} is the topic of two sources; each topic has one, of which "
                f"the function takes what it needs"
            )
        return found

    @property
    def topics(self) -> list[str]:
        """Those of the input."""
        return [source.topic for source in self.sources]

    @property
    def formats(self) -> list[Format[Any]]:
        """Those of the sources, each once: sources may share one."""
        return _formats(self.sources)

    @property
    def formats_read(self) -> list[Format[Any]]:
        """The same of ``sources_read``."""
        return _formats(self.sources_read)

    def by_columns(self, forms: Mapping[str, ColumnForm]) -> Job[E]:
        """The same job, of which records may go by columns; forms are made by ``holon.dataflow.record_functions``."""
        found = copy.copy(self)  # with what is known of its program
        object.__setattr__(found, "column_forms", dict(forms))
        return found

    @property
    def sources_read(self) -> list[Source[Any]]:
        """Its sources; those whose records go by columns as such."""
        forms = self.column_forms
        return [forms[source.topic].source if source.topic in forms else source for source in self.sources]

    @property
    def allows_idleness(self) -> bool:
        """Whether punctuation may move a partition, so that results wait for their delta."""
        return any(source.idle_timeout_ms is not None for source in self.sources)

    @cached_property
    def program(self) -> JobProgram:
        helpers: dict[str, Any] = {}
        for source in self.sources:
            parts = {"format": source.format, "watermarks": source.watermarks, "timestamp": source.timestamp}
            of = "" if len(self.sources) == 1 else f" of {source.topic}"
            helpers |= {f"{name}{of}": part for name, part in (parts | {"filter": source.filter}).items()}
        helpers |= {f"encoding of {n}": o.encode for n, o in sorted(self.outputs.items())}
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

    def shards_topic(self, incarnation: int) -> str:
        """Of the contributions of sharded states, a partition for each that answers for keys."""
        return f"_holon.{self.name}.{incarnation}.shards"

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
                *_described(self.sources),
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


def _formats(sources: Sequence[Source[Any]]) -> list[Format[Any]]:
    found: list[Format[Any]] = []
    for source in sources:
        if not any(source.format is one for one in found):
            found.append(source.format)
    return found


def _described(sources: Sequence[Source[Any]]) -> list[str]:
    """A line for each; several are numbered, since the numbers of partitions depend on their order."""
    if len(sources) == 1:
        return [sources[0].describe()]
    return [f"{number}. {source.describe()}" for number, source in enumerate(sources, 1)]


def _repeated(names: Sequence[str]) -> list[str]:
    return sorted({name for name in names if names.count(name) > 1})


def _as_output(output: Output | str) -> Output:
    return output if isinstance(output, Output) else Output(output)
