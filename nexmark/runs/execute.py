"""Execute a run: fill the topic, run the fleet, read the results back, prove them."""

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import Any

from holon import Track
from nexmark.oracle import OracleVerdict
from nexmark.queries import TOPIC
from nexmark.runs.fill import fill, stream_of, uses_spark
from nexmark.runs.measure import Latency, input_timestamps, longest_delay, record_latency, window_latency
from nexmark.runs.plan import RunPlan
from nexmark.runs.result import NexmarkResult
from nexmark.runs.validate import chosen_validator, spark_problem_once, validate
from nexmark.runs.watch import Progress, Ran, Report, Show, watch
from nodes.api import Log, LogAddress, OutputReader, RunFailed, Settings, events_on_log, log_address, open_job_log


def execute(plan: RunPlan, settings: Settings, show: Show, report: Report) -> NexmarkResult:
    """Run the plan on the settings' log; raises ``RunFailed`` if it does not come to its end."""
    begun = time.monotonic()
    problem = spark_problem_once()
    validator = chosen_validator(plan.validator, problem, report)
    spark = uses_spark(plan, problem, report)
    address = log_address(settings)
    with ExitStack() as stack:
        log = stack.enter_context(open_job_log(settings))
        if spark or validator == "spark":
            from nodes.spark.session import spark_session
            from nodes.spark.source import needed_jars

            show(Progress("starting Spark"))
            jars = needed_jars(address) if validator == "spark" else ()
            stack.enter_context(spark_session(jars=jars))
        generate_s = _generate(plan, address, log, spark, show)
        ran = watch(plan, settings, log, show, report)
        show(Progress("reading results"))
        reader = OutputReader(log, plan.query, verify_repeats=True)
        outputs = list(reader.read_available())
        if reader.differing_repeats:
            raise RunFailed(f"{reader.differing_repeats} repeated results differ from their first copies")
        result = _figures(plan, settings, log, ran, outputs)
        result.generator, result.generate_s = "spark" if spark else "plain", round(generate_s, 3)
        result.repeats_dropped = reader.repeats_dropped
        if validator is not None:
            show(Progress(f"validating with {validator}"))
            lines = [output.value for output in outputs]
            guard = plan.max_future_skew_ms
            atoms = plan.format == "arrow"
            verdict = validate(
                validator, plan.query, log, address, lines, ran.counts, max_future_skew_ms=guard, atoms=atoms
            )
            _note_verdict(result, validator, verdict)
    result.wall_s = round(time.monotonic() - begun, 3)
    return result


def _generate(plan: RunPlan, address: LogAddress, log: Log, spark: bool, show: Show) -> float:
    """Fill the topic unless the run is paced; returns the seconds that it took."""
    begun = time.monotonic()
    if plan.rate is None:
        show(Progress("generating", 0, plan.events))
        progress = lambda count: show(Progress("generating", count, plan.events))  # noqa: E731
        fill(log, address, plan, spark=spark, progress=progress)
    return time.monotonic() - begun


def _figures(plan: RunPlan, settings: Settings, log: Log, ran: Ran, outputs: list[Any]) -> NexmarkResult:
    counts = ran.counts
    return NexmarkResult(
        query=plan.query,
        log=settings.log.kind,
        events=counts.total,
        partitions=plan.partitions,
        nodes=plan.nodes,
        replicas=settings.node.replicas,
        seed=plan.seed,
        killed=ran.killed,
        outputs=len(outputs),
        accepted=counts.accepted,
        filtered=counts.filtered,
        late=counts.late,
        dead=counts.dead,
        conserved=counts.total == sum(events_on_log(log, plan.job())),
        events_per_s=round(counts.total / ran.seconds, 1),
        latency_ms=_latency(plan, log, outputs),
        longest_delay_ms=longest_delay(
            outputs, ran.kills_ms, ran.started_ms, ran.ended_ms, paced=plan.rate is not None
        ),
        steals=ran.steals,
        peak_uss_mb=round(ran.peak_bytes / 1e6, 1),
        api=plan.form,
    )


def _note_verdict(result: NexmarkResult, validator: str, verdict: OracleVerdict) -> None:
    result.validator, result.validated = validator, verdict.validated
    result.differences, result.first_differences = verdict.differences, verdict.first


def _latency(plan: RunPlan, log: Log, outputs: list[Any]) -> Latency | None:
    if plan.rate is None or not outputs:
        return None
    appended = input_timestamps(log, TOPIC, plan.partitions)
    if outputs[0].identity.track is Track.WINDOW:
        return window_latency(outputs, stream_of(plan), appended, lambda output: output.identity.position)
    return record_latency(outputs, appended)
