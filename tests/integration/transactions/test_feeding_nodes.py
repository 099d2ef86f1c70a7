"""A stream feeds a job on real node processes, one of which is killed: each record once, in its partition's order."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from nodes.log import Log, open_log
from nodes.transactions.clients.client import TransactionClient
from nodes.transactions.topics import create_topics
from tests.integration.fed_program import program
from tests.integration.processes import PLENTY_S, ROOT, until
from tests.integration.txn_processes import SEQUENCERS, nodes

RECORDS = 200
FED, FED_V2 = "tests.integration.fed_program:program", "tests.integration.fed_program_v2:program"


def feed(log: Log, numbers: range) -> None:
    """These records into each partition of the stream; of partition p they go to diary ``dp``."""
    for partition in (0, 1):
        records = [{"who": f"d{partition}", "number": number} for number in numbers]
        log.append("inputs", partition, [json.dumps(each).encode() for each in records])


def test_a_killed_node_costs_no_record_of_a_stream_and_repeats_none(tmp_path: Path) -> None:
    with open_log(f"embedded:{tmp_path / 'log'}") as log:
        create_topics(log, program, SEQUENCERS)
        log.create_topic("inputs", 2)
        feed(log, range(RECORDS))
        client = TransactionClient(log)

        def fed(partition: int) -> int:
            return len(client.call("diary", f"d{partition}", "read", timeout_s=PLENTY_S))

        with nodes(2, FED, "--log-dir", str(tmp_path / "log")) as processes:
            until(lambda: fed(0) + fed(1) > 0, "the first records")
            processes[0].send_signal(signal.SIGKILL)
            for partition in (0, 1):
                until(lambda p=partition: fed(p) >= RECORDS, "all records")
                found = client.call("diary", f"d{partition}", "read", timeout_s=PLENTY_S)
                assert found == list(range(RECORDS))


@pytest.mark.long
def test_a_stream_goes_on_where_it_was_while_keys_move_and_another_version_comes(tmp_path: Path) -> None:
    where = ["--log-dir", str(tmp_path / "log")]

    def txn(*words: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen([sys.executable, "-m", "nodes.cli", "txn", *words, *where], cwd=ROOT)

    with open_log(f"embedded:{tmp_path / 'log'}") as log:
        create_topics(log, program, SEQUENCERS)
        log.create_topic("inputs", 2)
        feed(log, range(RECORDS))
        client = TransactionClient(log)

        def fed(partition: int) -> list[int | str]:
            return client.call("diary", f"d{partition}", "read", timeout_s=PLENTY_S)

        with nodes(2, FED, *where) as processes:
            until(lambda: fed(0) and fed(1), "the first records")
            moving = txn("repartition", "diary", "--to", "3", "--spread", "all")
            until(lambda: len(fed(0)) > RECORDS // 4, "more of them")
            processes[0].send_signal(signal.SIGKILL)
            assert moving.wait(PLENTY_S) == 0
            feed(log, range(RECORDS, 2 * RECORDS))
            assert txn("upgrade", FED_V2).wait(PLENTY_S) == 0
            feed(log, range(2 * RECORDS, 3 * RECORDS))
            for partition in (0, 1):
                until(lambda p=partition: len(fed(p)) >= 3 * RECORDS, "all records")
                found = fed(partition)
                assert list(map(int, found)) == list(range(3 * RECORDS)), "each once, in its partition's order"
                kinds = [type(each) for each in found]
                assert kinds == sorted(kinds, key=[int, str].index) and kinds[-1] is str, "one version after the other"
