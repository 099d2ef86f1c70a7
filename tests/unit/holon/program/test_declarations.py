"""Declarations of jobs: what is refused before anything runs, both forms of a job, nesting, fingerprints."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from holon import (
    WCRDT,
    Batch,
    Context,
    Job,
    JobError,
    Json,
    Local,
    Output,
    ProcessingFunction,
    Source,
    Tumbling,
    UserFunctionError,
    Window,
    WLocal,
    on_window,
)
from holon.testing import JobTestDriver, run_job
from holon.tracks.snapshot import Snapshot
from tests.unit.holon_jobs import Base, Event, feeding, job
from wcrdt import DecodeError, GCounter

SOURCE: Source[Event] = Source("events", Json(Event), lambda event: event["ts"])


def process(event: Event, ctx: Context) -> None:
    ctx[counted].insert(1, ctx.timestamp_ms)
    ctx[nth].value += 1


@on_window(counted := WCRDT(GCounter(), Tumbling(10), name="counted"))
async def report(window: Window, ctx: Context) -> None:
    ctx.emit([window.start_ms, await ctx[counted].window_value(window)])


nth = Local(0, name="nth")
FEED = [[{"ts": 1}, {"ts": 2}, {"ts": 11}]]


# --- what is refused --------------------------------------------------------------------------------------------------


def refused(match: str) -> Any:
    return pytest.raises(JobError, match=match)


@pytest.mark.parametrize("name", ["", "two words", "a/b", "x" * 101])
def test_a_job_name_must_fit_into_topic_names(name: str) -> None:
    with refused("use 1 to 100 letters"):
        Job(name, SOURCE, process)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"on_error": "ignore"}, 'on_error must be "fail" or "dead-letter"'),
        ({"allowed_lateness_ms": -1}, "allowed_lateness_ms must be 0 or more"),
        ({"window_retention_ms": -1}, "window_retention_ms must be 0 or more"),
        ({"side_outputs": {"late": "x"}}, r"side output names \['late'\] are reserved"),
        ({"output": "events"}, "outputs need topics of their own, also events"),
        ({"output": "a", "side_outputs": {"b": "a"}}, r"topics of their own, also \['a'\]"),
        ({"process": None}, "exactly one of process"),
        ({"process_batch": lambda batch, ctx: None}, "exactly one of process"),
        ({"process": 5}, "process must be a function or a ProcessingFunction, got 5"),
        ({"states": [WCRDT(GCounter(), Tumbling(10))]}, "a WCRDT outside of a class needs name="),
        ({"states": [counted, nth], "on_window": [process]}, "needs the decorator @on_window"),
        ({"states": [nth], "on_window": [report]}, "'counted' is no state of the job"),
        ({"states": [nth], "on_window": {nth: report}}, "on_window of 'report' needs a WCRDT or a WLocal"),
    ],
)
def test_a_contradictory_job_is_refused(options: dict[str, Any], match: str) -> None:
    with refused(match):
        Job("test", SOURCE, **{"process": process, **options})


def test_states_of_one_name_are_refused() -> None:
    with refused("two states are called 'nth'"):
        Job("test", SOURCE, process, states=[nth, Local(1, name="nth")])


def test_a_class_brings_its_own_states() -> None:
    with refused("Base declares its states"):
        Job("test", SOURCE, Base, states=[nth])


def test_a_window_of_one_partition_cannot_be_answered_once_for_all() -> None:
    class Once(Base):
        @on_window(Base.mine, scope="global")
        def answer_once(self, window: Window, ctx: Context) -> None: ...

    with refused("has one value a partition"):
        job(Once)


def test_a_stage_needs_a_handler_before_it() -> None:
    class NoHandler(ProcessingFunction[Event]):
        later = WCRDT(GCounter(), Tumbling(10), stage=1)

        def process(self, event: Event, ctx: Context) -> None: ...

        @on_window(later)
        def first(self, window: Window, ctx: Context) -> None: ...

    class TooLate(NoHandler):
        latest = WCRDT(GCounter(), Tumbling(10), stage=3)

    with refused("'latest' has stage 3, but no on_window handler runs at stage 2"):
        job(TooLate)


def test_a_generator_is_refused_because_results_are_emitted() -> None:
    class Yields(Base):
        def process(self, event: Event, ctx: Context) -> Any:
            yield event

    with refused("process yields; results leave through ctx.emit"):
        job(Yields)


def test_a_batch_must_not_wait() -> None:
    async def process_batch(batch: Batch[Event], ctx: Context) -> None: ...

    with refused("process_batch cannot be async"):
        Job("test", SOURCE, process_batch=process_batch)  # type: ignore[arg-type]


def test_a_lattice_is_declared_by_its_bottom() -> None:
    started = GCounter()
    started.insert(3)
    with refused("give the bottom of its lattice, as GCounter"):
        WCRDT(started, Tumbling(10))
    with refused(r"give the bottom of its lattice, as GCounter\(\), not <class"):
        WCRDT(GCounter, Tumbling(10))  # type: ignore[arg-type]


def test_windows_are_no_text() -> None:
    with refused(r"""give windows, as Tumbling\("10s"\), not '10s'"""):
        WCRDT(GCounter(), "10s")  # type: ignore[arg-type]


def test_a_local_must_be_something_that_a_checkpoint_can_hold() -> None:
    with refused("cannot checkpoint"):
        Local(object())
    with refused(r"give a value, as dict\(\)"):
        Local(dict)
    with refused(r"Local 'wrong': cannot checkpoint it as .*str"):
        Job("test", SOURCE, process, states=[Local(5, type=str, name="wrong")])


def test_outputs_partitioned_otherwise_need_a_key() -> None:
    with refused("partitions can only differ from the input's with route_by_key"):
        Output("x", partitions=3)


# --- misuse that shows when it runs -----------------------------------------------------------------------------------


def test_a_coroutine_that_nobody_awaits_is_an_error() -> None:
    class Inner(Base):
        async def process(self, event: Event, ctx: Context) -> None: ...

    class Outer(ProcessingFunction[Event]):
        inner = Inner()

        def process(self, event: Event, ctx: Context) -> Any:
            return self.inner.process(event, ctx)

    with pytest.raises(UserFunctionError, match="process returned a coroutine, which is never run: write it as"):
        feeding(Outer, {"ts": 1})


def test_an_attribute_cannot_be_assigned_while_the_job_runs() -> None:
    class Remembers(Base):
        def process(self, event: Event, ctx: Context) -> None:
            self.last = event

    with pytest.raises(UserFunctionError, match=r"Remembers.last was assigned while the job runs.*declare it as Local"):
        feeding(Remembers, {"ts": 1})


def test_a_state_outside_of_a_running_job_explains_itself() -> None:
    with pytest.raises(JobError, match=r"state 'count' was read outside of a running job.*JobTestDriver"):
        Base().count.insert(1, 5)


def test_a_state_that_the_job_does_not_list_explains_itself() -> None:
    made = Job("test", SOURCE, process, states=[counted])
    with pytest.raises(UserFunctionError, match=r"no state of this job; list it in Job\(states"):
        run_job(made, FEED)


# --- forms ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("on_window_form", [[report], {counted: report}])
def test_a_job_of_plain_functions(on_window_form: Any) -> None:
    made = Job("test", SOURCE, process, output="out", states=[counted, nth], on_window=on_window_form)
    assert run_job(made, FEED) == [[0, 2], [10, 1]]


def test_a_callable_object_may_be_async() -> None:
    class Handler:
        async def __call__(self, event: Event, ctx: Context) -> None:
            ctx.emit(event["ts"])

    made = Job("test", SOURCE, Handler(), output="out")
    assert made.program.is_async and run_job(made, FEED) == [1, 2, 11]


def test_an_overridden_handler_stays_a_handler() -> None:
    class Override(Base):
        def answer(self, window: Window, ctx: Context) -> Any:
            ctx.emit(window.start_ms)

    assert run_job(job(Override), FEED) == [0, 10]


def test_nested_functions_bring_states_and_handlers_and_may_be_used_twice() -> None:
    class Counted(ProcessingFunction[Event]):
        count = WCRDT(GCounter(), Tumbling(10))

        def __init__(self, step: int) -> None:
            self.step = step

        def process(self, event: Event, ctx: Context) -> None:
            self.count.insert(self.step, ctx.timestamp_ms)

        @on_window(count)
        async def close(self, window: Window, ctx: Context) -> None:
            ctx.emit([self.step, await self.count.window_value(window)])

    class Outer(ProcessingFunction[Event]):
        ones = Counted(1)

        def __init__(self) -> None:
            self.tens = Counted(10)

        def process(self, event: Event, ctx: Context) -> None:
            self.ones.process(event, ctx)
            self.tens.process(event, ctx)

    made = job(Outer)
    assert sorted(made.program.bound) == ["ones.count", "tens.count"]
    assert run_job(made, FEED) == [[1, 2], [10, 20], [1, 1], [10, 10]]


def test_instances_of_two_partitions_share_nothing() -> None:
    class Lists(Base):
        inner = Base()

        def __init__(self) -> None:
            self.seen: list[int] = []

        def process(self, event: Event, ctx: Context) -> None:
            self.seen.append(ctx.partition)
            self.kept.value += 1
            self.inner.kept.value += 10
            ctx.emit([self.seen, self.kept.value, self.inner.kept.value])

    assert run_job(job(Lists()), [[{"ts": 1}], [{"ts": 1}]]) == [[[0], 1, 10], [[1], 1, 10]]


def test_a_constant_that_cannot_be_copied_is_refused() -> None:
    class Holds(Base):
        def __init__(self) -> None:
            self.generator = (n for n in [1])

    with refused("Holds cannot be copied for each partition.*attributes are constants"):
        JobTestDriver(job(Holds()))


@dataclass
class Account:
    owner: str


def test_a_written_type_is_what_a_checkpoint_restores() -> None:
    class Keeps(ProcessingFunction[Event]):
        accounts = Local[dict[int, Account]]({})
        several = WLocal(GCounter(), Tumbling(10))

        def process(self, event: Event, ctx: Context) -> None:
            self.accounts.value.setdefault(event["ts"] // 10, Account("Ada")).owner += "!"
            ctx.emit(self.accounts.value[event["ts"] // 10].owner)

    test = JobTestDriver(job(Keeps))
    test.feed(0, {"ts": 1})
    test.checkpoint(0)
    test.fail(0)
    test.feed(0, {"ts": 2})
    assert test.outputs() == ["Ada!", "Ada!!"]


# --- fingerprints and snapshots ---------------------------------------------------------------------------------------


def test_the_same_job_has_the_same_fingerprint_and_another_one_has_not() -> None:
    def made(function: Callable[[Event, Context], None] = process, **options: Any) -> str:
        return Job("test", SOURCE, function, states=[counted, nth], **options).fingerprint()

    def other(event: Event, ctx: Context) -> None:
        ctx[counted].insert(2, ctx.timestamp_ms)

    others = [made(other), made(allowed_lateness_ms=1), made(on_window=[report]), made(output="out")]
    assert made() == made()
    assert len({made(), *others}) == 5


@dataclass
class Limit:
    """A callable object."""

    limit: int

    def __call__(self, event: Event, ctx: Context) -> None: ...


class Factor(Base):
    def __init__(self, factor: int) -> None:
        self.factor = factor


def closing_over(number: int) -> Callable[[Event, Context], None]:
    return lambda event, ctx: ctx.emit(number)


def filtering(where: Callable[[Any], bool]) -> Job[Event]:
    return Job("test", Source("events", Json(Event), filter=where), process, states=[counted, nth])


@pytest.mark.parametrize(
    "made",
    [
        lambda n: job(Factor(n)),
        lambda n: job(Limit(n)),
        lambda n: job(closing_over(n)),
        lambda n: job(functools.partial(lambda n, event, ctx: None, n)),
        lambda n: job(lambda event, ctx, n=n: None),
        lambda n: filtering([lambda event: event["ts"] > 1, lambda event: event["ts"] > 2][n]),
        lambda n: Job("test", SOURCE, process, output=Output("x", encode=[bytes, repr][n])),  # type: ignore[list-item]
    ],
)
def test_constants_filters_and_encodings_belong_to_the_code(made: Callable[[int], Job[Any]]) -> None:
    assert made(0).program.code_hash() == made(0).program.code_hash()
    assert made(0).program.code_hash() != made(1).program.code_hash()
    assert made(0).fingerprint() != made(1).fingerprint()


def test_a_snapshot_is_equal_after_a_round_trip_and_damage_is_refused() -> None:
    test = feeding(Base, {"ts": 1}, {"ts": 25})
    data = test.tasks[0].snapshot().to_bytes()
    assert Snapshot.from_bytes(data).to_bytes() == data
    for damaged in (data[:-1], b"", data.replace(b"count", b"\xff\xff\xff\xff\xff"), b"\x92\x63" + data[2:]):
        with pytest.raises(DecodeError):
            Snapshot.from_bytes(damaged)
