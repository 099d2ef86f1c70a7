"""An autoscaler with processes of its own, and one that scales a deployment through a kubectl that only writes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from nodes.errors import RunFailed
from nodes.log import open_log
from nodes.transactions.autoscaling.autoscaler import decisions_of
from nodes.transactions.autoscaling.providers import DeploymentNodes
from nodes.transactions.clients.client import TransactionClient
from nodes.transactions.layouts.repartitioning import Repartitioning
from nodes.transactions.topics import TransactionTopics, jobs_among
from tests.integration.processes import PLENTY_S, ROOT, until
from tests.integration.txn_processes import PATIENT, SEQUENCERS

COMMAND = [sys.executable, "-m", "nodes.cli", "txn", "autoscale", "--interval-s", "0.5", "--samples", "1"]
KUBECTL = """#!/bin/sh
test "$1" != get -a "$3" != get || exit 0  # no replica is ready
echo "$@" >> "$(dirname "$0")/asked"
test "$2" != deployment/lost || { echo "no such deployment" >&2; exit 1; }
"""


@pytest.mark.long
def test_an_autoscaler_starts_nodes_gives_the_job_its_partitions_and_asks_a_deployment_for_replicas(
    tmp_path: Path,
) -> None:
    options = ["--log-dir", str(tmp_path / "log"), "--job", "bank"]
    given = ["--program", "examples.bank:program", "--sequencers", str(SEQUENCERS), "--partitions", "5:8", "--json"]
    command = [*COMMAND, *given, "--nodes", "1:2", *options, *PATIENT]
    scaler = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        until((tmp_path / "log" / "log.json").is_file, "it has made the log")
        with open_log(f"embedded:{tmp_path / 'log'}") as log:
            until(lambda: "bank" in jobs_among(log.topics()), "its node has made the topics")
            client, topics = TransactionClient(log, "bank"), TransactionTopics("bank")
            assert client.call("account", "a", "deposit", [5], timeout_s=PLENTY_S) == 5
            requests = Repartitioning(log, topics)
            until(lambda: requests.layout().partitions == 5, "the job has as many partitions as it is to have")
            asked = scaled_by_kubectl(tmp_path, options)
            scaler.send_signal(signal.SIGTERM)
            told, _ = scaler.communicate(timeout=PLENTY_S)
            wanted = [each.action.nodes for each in decisions_of(requests.read())]
    finally:
        scaler.kill()
        scaler.wait(PLENTY_S)
    assert scaler.returncode == 0, "its nodes have left, and so has it"
    (first, *_) = json.loads(told)["decisions"]
    assert first["won"] and not first["problem"] and first["decision"]["action"]["partitions"] == 5
    assert first["sample"]["nodes"] == 1
    # Three in all: one is a process of the other autoscaler.
    assert asked == {"--namespace prod scale deployment/bank-nodes --replicas=2", "scale deployment/lost --replicas=3"}
    assert wanted[:2] == [1, 3]


def scaled_by_kubectl(folder: Path, options: list[str]) -> set[str]:
    """The arguments of its calls, when another autoscaler has asked for three nodes."""
    tool = folder / "bin" / "kubectl"
    tool.parent.mkdir()
    tool.write_text(KUBECTL)
    tool.chmod(0o755)
    environment = os.environ | {"PATH": f"{tool.parent}:{os.environ['PATH']}"}
    given = ["--deployment", "bank-nodes", "--namespace", "prod", "--nodes", "3:3", "--seconds", "0.5"]
    subprocess.run([*COMMAND, *given, *options], cwd=ROOT, env=environment, timeout=PLENTY_S, check=True)
    with pytest.raises(RunFailed, match="--replicas=3 ended with 1: no such deployment"):
        DeploymentNodes("lost", kubectl=str(tool)).scale(3, 0)
    return set((tool.parent / "asked").read_text().splitlines())
