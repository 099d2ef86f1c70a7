"""Metrics and health of real transactional nodes: every name is there, and the counts are what clients were told."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random

import msgspec

from examples.bank import program
from nodes.log import open_log
from nodes.transactions.clients.client import TransactionClient
from nodes.transactions.metrics.catalogue import ALWAYS, TRANSACTION_METRICS
from nodes.transactions.topics import create_topics
from tests.integration.processes import until
from tests.integration.scraping import Samples, ask, scrape, total
from tests.integration.transactions.test_nodes import ACCOUNTS, BANK, answers, open_accounts, pay_around
from tests.integration.txn_processes import SEQUENCERS, nodes
from transactional import Aborted

NODES = 2
TRANSFERS = 150
CALM = ("-D", "node.failure_timeout_ms=60000", "-D", "node.checkpoint_interval_ms=200")
ENDINGS = {"counter": "_total", "histogram": "_count"}


def ports(targets: Path) -> list[int]:
    found = [msgspec.json.decode(file.read_bytes())[0] for file in sorted(targets.glob("*.json"))]
    return [int(each["targets"][0].rpartition(":")[2]) for each in found]


def owns_all(scraped: list[Samples]) -> bool:
    """Shared out for good: else a transaction may be run by two owners, and is counted by both."""
    return [total([each], "holon_partitions_owned") for each in scraped] == [program.partitions / NODES] * NODES


def counts(scraped: list[Samples]) -> list[float]:
    return [
        total(scraped, "holon_txn_committed_total"),
        total(scraped, "holon_txn_aborted_total", reason="InsufficientFunds"),
        total(scraped, "holon_txn_replies_total"),
        total(scraped, "holon_txn_request_ids"),
        total(scraped, "holon_txn_state_keys", place="memory"),
        total(scraped, "holon_txn_requests_waiting"),
    ]


def test_nodes_count_what_clients_were_told(tmp_path: Path) -> None:
    targets = tmp_path / "targets"
    with open_log(f"embedded:{tmp_path / 'log'}") as log:
        create_topics(log, program, SEQUENCERS)
        client = TransactionClient(log, "bank")
        options = ("--log-dir", str(tmp_path / "log"), "-D", f"metrics.targets_dir={targets}")
        with nodes(NODES, BANK, *options, last=CALM) as processes:
            until(lambda: len(ports(targets)) == NODES, "both serve")
            asked = ports(targets)
            until(lambda: owns_all([scrape(port) for port in asked]), "the work is shared out")
            open_accounts(client)
            ids = pay_around(client, Random(5), TRANSFERS)
            answers(client, ids)
            outcomes = Counter(
                outcome.kind if isinstance(outcome, Aborted) else "" for outcome in map(client.take, ids)
            )

            def every_name() -> bool:
                """Checkpoints come a little later, and epochs are known to all nodes a little after the replies."""
                return all(
                    name + ENDINGS.get(TRANSACTION_METRICS[name].kind, "") in samples
                    for samples in map(scrape, asked)
                    for name in ALWAYS
                )

            until(every_name, f"all of {sorted(ALWAYS)}")
            aborted = outcomes["InsufficientFunds"]
            assert aborted > 0 and outcomes[""] + aborted == TRANSFERS
            wanted = [ACCOUNTS + outcomes[""], aborted, *[ACCOUNTS + TRANSFERS] * 2, ACCOUNTS, 0]
            scraped: list[Samples] = []

            def counted() -> bool:
                """A node whose loop stands for a moment shows what it showed before."""
                scraped[:] = [scrape(port) for port in asked]
                return counts(scraped) == wanted

            until(counted, f"the counts {wanted}")
            assert total(scraped, "holon_txn_state_bytes", place="memory") > ACCOUNTS
            assert total(scraped, "holon_txn_log_records_total", topic="bank-txn-replies", direction="sent") > 0
            assert total(scraped, "holon_txn_log_bytes_total", topic="bank-txn-requests", direction="read") > 0
            until(lambda: all(ask(port, "/healthz")[0] == 200 for port in asked), "both are alive")
            until(lambda: all(ask(port, "/readyz")[0] == 200 for port in asked), "both are ready")
            for process in processes:
                process.terminate()
            until(lambda: not list(targets.glob("*.json")), "who has left is no target")
