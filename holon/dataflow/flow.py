"""A flow: a pipeline from its sources to its outputs. It stands wherever a job does."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Literal, NamedTuple, TypeVar

from holon.columnar.event_types import is_struct, why_not_plain
from holon.columnar.structs.plan import event_types_of, structs_of
from holon.dataflow.aggregations import Aggregation
from holon.dataflow.compiling import Compiled, FieldFunction, KindFunction
from holon.dataflow.data_driven.step import DrivenAggregation
from holon.dataflow.dict_rows import have_fields
from holon.dataflow.errors import FlowError, Place, caller, not_callable
from holon.dataflow.expressions import Field, Leaf
from holon.dataflow.joins.step import Join
from holon.dataflow.late.lateness import share_lateness
from holon.dataflow.steps import OBJECTS, ROW_BY_ROW, Entry, Sink, Step, United, followed, type_at
from holon.dataflow.streams import Stream
from holon.errors import JobError
from holon.files import Files
from holon.formats.formats import Format, Json, TypedFormat
from holon.formats.json_columns import JsonColumns
from holon.job import MAIN, RUNTIME_OUTPUTS, Job, Output
from holon.source import BoundedOutOfOrderness, Source
from holon.testing import run_job
from holon.time.units import TimeUnit
from wcrdt.windows.assigners import GlobalWindow
from wcrdt.windows.durations import duration_ms

T = TypeVar("T")
S = TypeVar("S", bound=Step)


ALL_TO_ALL = "all-to-all: "
_GIVE_TYPE = "give a Struct of them, as in ArrowColumns(Bid)"


class ExplainedStep(NamedTuple):
    """A step: the one that it follows (None: it is a source), and whether it works on columns, or why not.

    ``also_after``: the others that a union follows; ``topics``: those of a source. ``keys``: of windows, whether the
    partition that answers for a key alone holds it (``sharded``) or each node does (``all-to-all``), and why.
    """

    step: int
    verb: str
    line: str
    after: int | None
    how: str
    also_after: tuple[int, ...] = ()
    topics: tuple[str, ...] = ()
    keys: str = ""


class Flow:
    """A pipeline by the name of its job.

    Args:
        name: as of a ``Job``; it names topics, checkpoints and outputs.
        lateness: how long after its end, in event time, a window still takes rows, where its step does not say.
        on_error: what an input record does that makes a function raise: stop the job, or go to the dead-letter output.
            So does a row behind a window, with its step, key and window.
        columnar: a step that cannot work on columns is an error.

    Raises ``FlowError`` where a step contradicts those before it, with the line where it was written.
    """

    def __init__(
        self,
        name: str,
        *,
        lateness: int | str = 0,
        on_error: Literal["fail", "dead-letter"] = "fail",
        columnar: bool = False,
    ) -> None:
        self.name = name
        self._lateness_ms = duration_ms(lateness)
        self._on_error: Literal["fail", "dead-letter"] = on_error
        self._columnar = columnar
        self._steps: list[Step] = []
        self._files: dict[int, Files] = {}
        self._sources: list[tuple[Source[Any], Entry]] = []
        self._is_bounded = True

    def source(
        self,
        topic: str | Sequence[str],
        format: Format[T],
        *,
        time: Callable[[T], Any] | None = None,
        unit: TimeUnit | None = None,
        out_of_order: int | str = 0,
        idle: int | str | None = None,
        start: Literal["earliest", "latest"] = "earliest",
        max_future_skew_ms: int | Literal["live"] | None = "live",
        bounded: bool = False,
    ) -> Stream[T]:
        """The records of a topic, or of several that are read alike. A flow may have several sources.

        A window waits for all partitions of all topics, whatever streams it takes rows of.

        Args:
            time: event time of a row; None: the log's own timestamp. ``unit``: what it gives, as
                ``Source.timestamp_unit``; a ``datetime`` field needs none.
            out_of_order: how far in event time records come behind the newest one.
            idle: a partition of these topics without records for so long holds no window open.
            bounded: these topics end, and the job runs with ``--bounded``: ``GlobalWindow`` may wait for that.

        Structs of ``Json`` and ``Arrow`` are read as columns: then an int beyond 64 bits is a bad record
        (``JsonColumns``), or a bad row (``ArrowColumns``). So are plain dataclasses and the like of ``Json``.
        """
        struct, kinds = _columnar_struct(format), _kinds(format)
        read: Format[Any] = format
        place = caller()
        if time is not None and not callable(time):
            raise FlowError(f"source ({place}): {not_callable('time', time)}")
        topics = self._new_topics(topic, place)
        if isinstance(format, TypedFormat):
            if format.type is None:
                raise FlowError(
                    f"source ({place}): columns by names have no rows that functions can take; {_GIVE_TYPE}"
                )
            read = format.by_events() if struct is OBJECTS else format.by_columns()
        elif struct is not OBJECTS and isinstance(format, Json):
            read = JsonColumns(struct)
        elif struct is OBJECTS and isinstance(format, JsonColumns):  # no columns of one Struct, so rows are objects
            read = Json(format.type)
        try:
            timestamp, unit = _timestamp(time, struct, unit)
        except FlowError as error:
            raise FlowError(f"source ({place}): {error}") from error
        source = Source(
            topics[0],
            read,
            timestamp=timestamp,
            timestamp_unit=unit if timestamp is not None else None,
            watermarks=BoundedOutOfOrderness(duration_ms(out_of_order)),
            start=start,
            max_future_skew_ms=max_future_skew_ms,
            idle_timeout_ms=None if idle is None else duration_ms(idle),
        )
        entry = self.added(Entry(self.next_number(), place, None, struct=struct, kinds=kinds))
        self._sources += [(replace(source, topic=each), entry) for each in topics]
        self._is_bounded &= bounded
        return Stream(self, entry)

    def _new_topics(self, topic: str | Sequence[str], place: Place) -> list[str]:
        """The topics of a source, none of which the flow reads so far."""
        topics = [topic] if isinstance(topic, str) else list(topic)
        if not topics or not all(isinstance(each, str) and each for each in topics):
            raise FlowError(f"source ({place}): topics are texts, got {topic!r:.100}")
        before = [source.topic for source, _ in self._sources]
        for number, each in enumerate(topics):
            if each in before + topics[:number]:
                raise FlowError(f"source ({place}): the topic {each!r} has a source already: use its stream again")
        return topics

    @cached_property
    def job(self) -> Job[Any]:
        """The job that the flow is compiled to; the flow must not grow any more."""
        sinks = [step for step in self._steps if isinstance(step, Sink)]
        if not self._sources:
            raise FlowError(f"the flow {self.name!r} has no source")
        if not sinks:
            raise FlowError(f"the flow {self.name!r} has no sink: nothing of it would leave")
        self._refuse_endless_windows()
        lateness_ms = share_lateness(self._steps, self._lateness_ms)
        for step in self._steps:
            if isinstance(step, DrivenAggregation):
                step.closes_at_end = self._is_bounded
        sources = [self._as_read(source, entry) for source, entry in self._sources]
        entries = {source.topic: entry for source, entry in self._sources}
        compiled = Compiled(entries, tuple(self._steps), _output_names(sinks))
        outputs = {
            compiled.outputs[sink.number]: Output(
                sink.topic, route_by_key=sink.key is not None, files=self._files.get(sink.number)
            )
            for sink in sinks
        }
        return Job(
            self.name,
            sources[0] if len(sources) == 1 else sources,
            output=outputs.pop(MAIN),
            side_outputs=outputs,
            process_batch=compiled.process_batch,
            states=compiled.states,
            on_window=compiled.handlers,
            allowed_lateness_ms=lateness_ms,
            late_records="process",
            on_error=self._on_error,
        )

    def _refuse_endless_windows(self) -> None:
        for step in self._steps:
            if self._is_bounded:
                return
            if isinstance(step, DrivenAggregation) and step.driven.may_stay_open:
                raise step.error(
                    f'a window of {step.driven.windows!r} stays open where no row closes it; give timeout="6h", or '
                    f"bounded=True to sources of topics that end (run --bounded)"
                )
            if isinstance(step, Aggregation) and isinstance(step.windows, GlobalWindow):
                raise step.error(
                    "GlobalWindow is complete at the end of all input, and not each source declares one; give "
                    'early="10s" for results before, or bounded=True to sources of topics that end (run --bounded)'
                )

    def _as_read(self, source: Source[Any], entry: Entry) -> Source[Any]:
        """The source, with columns of each of several Structs where that can be."""
        if len(entry.kinds) < 2:
            return source
        of_kinds = self._reads_kinds(source, entry)
        if isinstance(of_kinds, str):
            if entry.columnar:
                raise entry.error(f"columnar=True, but its records are objects: {of_kinds}")
            return source
        entry.reads_kinds = True
        return of_kinds

    def _reads_kinds(self, source: Source[Any], entry: Entry) -> Source[Any] | str:
        """The source with columns of each of several Structs; or why its records are objects."""
        others = [step for step in entry.consumers if not step.takes_kinds]
        if others:
            return f"step {others[0].number} ({others[0].verb}, {others[0].place}) takes rows of all Structs"
        if not isinstance(source.format, Json):
            return "record batches of several Structs are read as objects"
        try:
            read = JsonColumns(source.format.type)
        except JobError as error:
            return str(error)
        if read.record_fields is not None or not any(by_loops for _, _, by_loops in read.columns_read()):
            return "its Structs have marked fields, check themselves, or lie in themselves"
        if source.timestamp is None:
            return replace(source, format=read)
        assert callable(source.timestamp), "rows are objects so far"
        timestamp = KindFunction(source.timestamp, entry.kinds)
        if not timestamp.is_followed:
            return "the function of its event time cannot be followed for each Struct"
        return replace(source, format=read, timestamp=timestamp)

    def collect(self, inputs: Mapping[str, Sequence[Any]]) -> list[Any]:
        """The rows of the first sink for bounded input by topic, for a notebook; needs no log.

        A Python warning tells of dead letters and late records, which the rows lack.
        """
        topics = self.job.topics
        unknown = sorted(set(inputs) - set(topics))
        if unknown:
            raise FlowError(f"the flow {self.name!r} does not read {', '.join(unknown)}; it reads {', '.join(topics)}")
        return run_job(self.job, inputs, stacklevel=2)

    def explain(self) -> list[ExplainedStep]:
        """The steps in the order in which they were written."""
        return [
            ExplainedStep(
                step.number,
                step.verb,
                str(step.place),
                step.after,
                self._how(step),
                tuple(other.number for other in _beside(step)),
                tuple(source.topic for source, entry in self._sources if entry is step),
                self._keys(step) if isinstance(step, Aggregation) else "",
            )
            for step in self._steps
        ]

    def _how(self, step: Step) -> str:
        source = next((source for source, entry in self._sources if entry is step), None)
        if not isinstance(step, Entry) or source is None:
            return step.how()
        if len(step.kinds) < 2:
            why = _why_objects(source.format) if step.struct is OBJECTS else ""
            return f"{ROW_BY_ROW}{why}" if why else step.how()
        found = self._reads_kinds(source, step)
        return f"{ROW_BY_ROW}{found}" if isinstance(found, str) else "columns"

    def _keys(self, step: Aggregation) -> str:
        """Where the keys of its windows are held, and why."""
        idle = next((source.topic for source, _ in self._sources if source.idle_timeout_ms is not None), None)
        if step.alone:
            return "per partition: each holds the keys of its own rows"
        if isinstance(step, Join):
            return f"{ALL_TO_ALL}join sends the rows of this side to all partitions"
        if not step.sharded:
            what = "one group of all rows" if step.key is None else "its key_by is without sharded=True"
            return f"{ALL_TO_ALL}{what}"
        if step.stage > 0:
            return f"{ALL_TO_ALL}its rows come from windows, and only those of records are sent by key"
        if idle is not None:
            return f"{ALL_TO_ALL}the source {idle} has idle=, and punctuation may void what was sent"
        return "sharded: the partition that answers for a key holds it"

    # --- what streams use ---------------------------------------------------------------------------------------------

    def next_number(self) -> int:
        return len(self._steps) + 1

    def next_files_topic(self) -> str:
        """The topic of the next sink to files."""
        return f"{self.name}.files.{len(self._files) + 1}"

    def add_files(self, step: Sink, files: Files) -> None:
        """Let a sink's rows become files: of its type of rows, where that is known. The step itself is as any other."""
        row = step.row_type
        is_known = row is not OBJECTS and have_fields(row) and is_struct(row)
        self._files[step.number] = replace(files, row=row) if files.row is None and is_known else files

    def added(self, step: S) -> S:
        """The step, which is part of the flow now."""
        if "job" in self.__dict__:
            raise FlowError(f"{step.place}: the flow {self.name!r} is compiled already, so no step can be added")
        step.columnar |= self._columnar
        step.check_functions()
        step.check()
        if isinstance(step, Sink) and any(isinstance(one, Sink) and one.topic == step.topic for one in self._steps):
            raise step.error(f"the topic {step.topic!r} has a sink already: bring the streams together before it")
        step.join()  # a step that was refused gets no rows, where somebody goes on in a notebook
        self._steps.append(step)
        return step


def _columnar_struct(format: Any) -> Any:
    """The Struct, or the like, of a format that can be read as columns, else ``OBJECTS``."""
    kinds = _kinds(format)
    return kinds[0] if len(kinds) == 1 and not hasattr(kinds[0], "__post_init__") else OBJECTS


def _why_objects(format: Any) -> str:
    """Why events of a format are objects, and what would make them columns; "": they are objects of another format."""
    if not isinstance(format, Json | JsonColumns | TypedFormat):
        return ""
    named = getattr(format.type, "__name__", str(format.type))
    if hasattr(format.type, "__post_init__"):
        return f"{named} checks itself (__post_init__), so its events are objects"
    why = why_not_plain(format.type)
    why = f" ({why})" if why else ""
    return (
        f"events are objects of {named}{why}: those of a msgspec.Struct, dataclass, TypedDict or NamedTuple are read "
        f"as columns"
    )


def _kinds(format: Any) -> tuple[type, ...]:
    """The Struct, or the like, of a format, or those of which each row is one."""
    if isinstance(format, Json | JsonColumns):
        return event_types_of(format.type)
    return structs_of(format.type) if isinstance(format, TypedFormat) else ()


def _timestamp(function: Any, struct: Any, unit: TimeUnit | None) -> tuple[Any, TimeUnit | None]:
    """The ``timestamp`` and ``timestamp_unit`` of a source."""
    if function is None or struct is OBJECTS:
        return function, unit
    decision, _ = followed(function, struct, checked=True)
    if isinstance(decision, Leaf) and isinstance(decision.result, Field):
        path = decision.result.path
        if unit is None and type_at(struct, path) is datetime.datetime:
            unit = "datetime"
        return ".".join(path), unit
    return FieldFunction(function, struct), unit


def _beside(step: Step) -> Sequence[Step]:
    """The steps of which it takes rows, beside the one above."""
    if isinstance(step, Join):
        return () if step.left is None else (step.left,)
    return step.others if isinstance(step, United) else ()


def _output_names(sinks: Sequence[Sink]) -> dict[int, str]:
    """The name of each sink's output: the first one's is the job's main output, others have their topics'.

    The runtime's own names are no sink's; no topic has a colon.
    """
    names = [f"sink:{sink.topic}" if sink.topic in RUNTIME_OUTPUTS else sink.topic for sink in sinks[1:]]
    return dict(zip((sink.number for sink in sinks), [MAIN, *names], strict=True))
