"""A stream feeds a job on real node processes, one of which is killed: each record once, in its partition's order."""

from __future__ import annotations

import json
import signal
from pathlib import Path

from nodes.log import open_log
from nodes.transactions.clients.client import TransactionClient
from nodes.transactions.topics import create_topics
from tests.integration.fed_program import program
from tests.integration.processes import PLENTY_S, until
from tests.integration.txn_processes import SEQUENCERS, nodes

RECORDS = 200


def test_a_killed_node_costs_no_record_of_a_stream_and_repeats_none(tmp_path: Path) -> None:
    with open_log(f"embedded:{tmp_path / 'log'}") as log:
        create_topics(log, program, SEQUENCERS)
        log.create_topic("inputs", 2)
        for partition in (0, 1):
            records = [{"who": f"d{partition}", "number": number} for number in range(RECORDS)]
            log.append("inputs", partition, [json.dumps(each).encode() for each in records])
        client = TransactionClient(log)

        def fed(partition: int) -> int:
            return len(client.call("diary", f"d{partition}", "read", timeout_s=PLENTY_S))

        with nodes(2, "tests.integration.fed_program:program", "--log-dir", str(tmp_path / "log")) as processes:
            until(lambda: fed(0) + fed(1) > 0, "the first records")
            processes[0].send_signal(signal.SIGKILL)
            for partition in (0, 1):
                until(lambda p=partition: fed(p) >= RECORDS, "all records")
                found = client.call("diary", f"d{partition}", "read", timeout_s=PLENTY_S)
                assert found == list(range(RECORDS))
