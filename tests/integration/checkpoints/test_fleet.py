"""Fleets of real processes whose checkpoints are in S3 or Redis: they resume from there, and survive its absence."""

from __future__ import annotations

import json
import signal
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from nodes.checkpoints.opening import open_checkpoints
from nodes.checkpoints.store import BlobCheckpoints
from nodes.results.reader import OutputReader
from nodes.streams.jobs import declare_end
from tests.integration.checkpoint_samples import newer
from tests.integration.fleet_support import NOBODY_IS_SUSPECTED, PARTITIONS, Stage, owners, run_command
from tests.integration.jobs_large import digest, text_of
from tests.integration.jobs_mixed import OUTPUT
from tests.integration.processes import until
from tests.integration.store_proxy import Fault, Refused, StoreProxy
from tests.integration.store_servers import KEYS, RedisProcess, S3Server

SLOW_DOWN = Refused(503, "SlowDown")
BULKY = "tests.integration.jobs_large:bulky"
PATIENT = ("checkpoints.timeout_ms=60000", "checkpoints.shutdown_timeout_ms=60000")
"""For a store that is only slow; tests of one that is silent, or is left without an answer, have their own."""


@pytest.fixture
def proxy(s3_server: S3Server) -> Iterator[StoreProxy]:
    proxy = StoreProxy(s3_server.port)
    yield proxy
    proxy.close()


def s3_stage(folder: Path, server: S3Server, endpoint: str, *definitions: str) -> Stage:
    bucket = server.make_bucket(f"b{uuid.uuid4().hex}")
    keys = [f"checkpoints.{key}={value}" for key, value in KEYS.items()]
    where = [f"checkpoints.url=s3://{bucket}/holon", f"checkpoints.endpoint={endpoint}"]
    return Stage(folder, *where, *keys, *PATIENT, *definitions)


def checkpoints_of(stage: Stage) -> BlobCheckpoints:
    store = open_checkpoints(stage.settings)
    assert isinstance(store, BlobCheckpoints)
    return store


@pytest.mark.long
@pytest.mark.parametrize("kind", ["s3", "redis"])
def test_a_fleet_resumes_from_checkpoints_elsewhere_and_leaves_no_orphans(
    tmp_path: Path, request: pytest.FixtureRequest, kind: str
) -> None:
    if kind == "s3":
        server: S3Server = request.getfixturevalue("s3_server")
        stage = s3_stage(tmp_path, server, server.endpoint)
    else:
        redis: RedisProcess = request.getfixturevalue("redis_server")
        stage = Stage(tmp_path, f"checkpoints.url={redis.url}?prefix={uuid.uuid4().hex}")
    run = stage.open()
    stage.feed(1000)
    with stage.fleet(2) as fleet:
        monitor = stage.monitor(run)
        stage.until(monitor, lambda: sum(monitor.taken()) == 1000, "all is checkpointed", fleet)
        fleet.kill_all()
    stage.feed(500)
    with stage.fleet(2) as fleet:
        stage.finish(run, fleet)
    stage.assert_exact()
    assert not (stage.path / "checkpoints").exists()
    store = checkpoints_of(stage)
    for partition in range(PARTITIONS):
        names = store.list(run.job.name, run.incarnation, partition)
        # Checkpoints that the control topic names are kept beside the newest three.
        assert 1 <= len(names) <= 6 and store.load(names[0])
    stage.log.close()


@pytest.mark.long
def test_input_waits_once_too_much_is_in_no_checkpoint_and_goes_on_when_the_store_is_back(
    tmp_path: Path, s3_server: S3Server, proxy: StoreProxy
) -> None:
    """8 MB of texts in one window, of which at most 1 MB may be uncheckpointed: a few batches of each partition."""
    stage = s3_stage(tmp_path, s3_server, proxy.endpoint, NOBODY_IS_SUSPECTED, "node.max_uncheckpointed_mb=1")
    run = stage.open(BULKY)
    with run_command(stage, "--nodes", "2", job=BULKY) as command:
        monitor = stage.monitor(run)
        stage.feed(100)
        stage.until(monitor, lambda: sum(monitor.taken()) == 100, "all is checkpointed")
        proxy.always(SLOW_DOWN)
        stage.feed(4000)
        command.says("input waits")
        monitor.poll()
        assert monitor.consumed < 3000, "much of it is not read"
        proxy.heal()
        stage.until(monitor, lambda: sum(monitor.taken()) == 4100, "all is checkpointed")
        declare_end(stage.log, run)
        assert command.json()["accepted"] == 4100
    (result,) = [o.value for o in OutputReader(stage.log, OUTPUT, decode=json.loads).read_available()]
    texts = [text_of(event) for events in stage.events.values() for event in events]
    assert (result["count"], result["digest"]) == (4100, digest(texts))
    stage.log.close()


@pytest.mark.parametrize("fault", [SLOW_DOWN, Fault.HANG], ids=str)
def test_results_go_on_while_the_store_is_away_and_all_is_well_when_it_is_back(
    tmp_path: Path, s3_server: S3Server, proxy: StoreProxy, fault: Fault | Refused
) -> None:
    """No node is suspected: one that took a partition over would wait for the store, and the results with it."""
    stage = s3_stage(tmp_path, s3_server, proxy.endpoint, NOBODY_IS_SUSPECTED, "checkpoints.timeout_ms=2000")
    run = stage.open()
    stage.feed(1000)
    with stage.fleet(2) as fleet:
        monitor = stage.monitor(run)
        stage.until(monitor, lambda: sum(monitor.taken()) == 1000, "all is checkpointed", fleet)
        before = sum(monitor.taken())
        proxy.always(fault)
        for _ in range(3):
            results = stage.results().total()
            stage.feed(1000)
            until(lambda least=results: stage.results().total() > least, "results come without the store")
        monitor.poll()
        assert sum(monitor.taken()) == before, "no checkpoint was saved"
        assert len(fleet.running()) == 2
        proxy.heal()
        stage.until(monitor, lambda: sum(monitor.taken()) == 4000, "all is checkpointed", fleet)
        stage.finish(run, fleet)
    stage.assert_exact()
    stage.log.close()


def test_a_takeover_while_the_store_is_away_waits_for_it_and_holds_nobody_else_up(
    tmp_path: Path, s3_server: S3Server, proxy: StoreProxy
) -> None:
    stage = s3_stage(tmp_path, s3_server, proxy.endpoint)
    run = stage.open()
    stage.feed(1000)
    with stage.fleet(2) as fleet:
        monitor = stage.monitor(run)
        stage.until(monitor, lambda: set(owners(monitor)) == {0, 1}, "both own partitions", fleet)
        stage.until(monitor, lambda: sum(monitor.taken()) == 1000, "all is checkpointed", fleet)
        proxy.always(SLOW_DOWN)
        fleet.kill(0)
        tried = len(proxy.seen)
        until(lambda: any(method == "GET" and ".ckpt" in path for method, path, _ in proxy.seen[tried:]), "a load")
        stage.feed(500)
        assert len(fleet.running()) == 1
        proxy.heal()
        stage.finish(run, fleet)
    stage.assert_exact()
    stage.log.close()


@pytest.mark.long
def test_a_run_that_is_stopped_while_the_store_is_away_ends_with_a_named_error_and_loses_nothing(
    tmp_path: Path, s3_server: S3Server, proxy: StoreProxy
) -> None:
    stage = s3_stage(tmp_path, s3_server, proxy.endpoint, "checkpoints.shutdown_timeout_ms=1000")
    run = stage.open()
    stage.feed(1000)
    with run_command(stage, "--nodes", "1") as command:
        monitor = stage.monitor(run)
        stage.until(monitor, lambda: sum(monitor.taken()) == 1000, "all is checkpointed")
        proxy.always(SLOW_DOWN)
        stage.feed(500)
        command.says("the node works on")
        command.signal(signal.SIGTERM)
        code, out, err = command.finish()
    assert code == 4, err
    assert "left without saving" in out and "Nothing is lost" in out
    assert "could not be written" in err and "Traceback" not in err
    proxy.heal()
    with stage.fleet(1) as fleet:
        stage.finish(run, fleet)
    stage.assert_exact()
    stage.log.close()


@pytest.mark.long
def test_a_checkpoint_of_a_newer_release_is_refused_by_name_and_nothing_older_takes_its_place(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    run = stage.open()
    stage.feed(500)
    with stage.fleet(1) as fleet:
        monitor = stage.monitor(run)
        stage.until(monitor, lambda: sum(monitor.taken()) == 500, "all is checkpointed", fleet)
    newest = checkpoints_of(stage).list(run.job.name, run.incarnation, 0)[0]
    file = stage.path / "checkpoints" / newest
    intact = file.read_bytes()
    file.write_bytes(newer(b"\x059.9.1 and what only that release knows"))
    stage.feed(500)
    with run_command(stage, "--nodes", "1", "--bounded") as command:
        code, _, err = command.finish()
    assert code == 1 and f"checkpoint {newest} has format" in err and "written by Holon 9.9.1; this release" in err
    assert "not started again" in err and "Traceback" not in err
    file.write_bytes(intact)
    with run_command(stage, "--nodes", "1", "--bounded") as command:
        assert command.json()["taken"] == 1000
    stage.assert_exact()
    stage.log.close()
