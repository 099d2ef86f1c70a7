"""Every figure of a transactional node that can be scraped. docs/metrics.md shows this table.

A metric that a node of any kind has keeps its name (``nodes/metrics/catalogue.py``).
"""

from __future__ import annotations

from nodes.metrics.catalogue import METRICS, PARTITION, Metric

SHARED = (
    "holon_busyTimeMsPerSecond",
    "holon_backPressuredTimeMsPerSecond",
    "holon_idleTimeMsPerSecond",
    "holon_busy_seconds",
    "holon_backpressured_seconds",
    "holon_idle_seconds",
    "holon_unacknowledged_writes",
    "holon_lag_seconds",
    "holon_stalled_reads",
    "holon_bad_messages",
    "holon_partitions_owned",
    "holon_partitions_standby",
    "holon_standby_results_published",
    "holon_promotions",
    "holon_members",
    "holon_steals",
    "holon_checkpoints",
    "holon_checkpoint_duration_seconds",
    "holon_checkpoint_size_bytes",
    "holon_memory_bytes",
    "holon_open_descriptors",
    "holon_uptime_seconds",
    "holon_last_turn_seconds",
    "holon_node_info",
)
_WHERE = ("partition", "place")
_TRAFFIC = ("topic", "direction")
OWN: dict[str, Metric] = {
    "holon_txn_epochs": Metric("counter", "epochs whose outcome this node has come to know, old ones read again too"),
    "holon_txn_epoch_duration_seconds": Metric(
        "histogram", "from when this node saw an epoch's first cut until it knew the outcome"
    ),
    "holon_txn_epoch_rounds": Metric("histogram", "rounds of calls that an epoch took"),
    "holon_txn_epoch_age_seconds": Metric("gauge", "how long the oldest epoch in work is known here; 0: none is"),
    "holon_txn_committed": Metric("counter", "transactions committed, rooted in this node's partitions"),
    "holon_txn_aborted": Metric("counter", "transactions that ended with an exception, by its name", ("reason",)),
    "holon_txn_rerun": Metric("counter", "transactions run again because they conflicted"),
    "holon_txn_postponed": Metric("counter", "times that a transaction was put off to the next epoch"),
    "holon_txn_replies": Metric("counter", "replies of this node's partitions, duplicates and refusals too"),
    "holon_txn_requests_waiting": Metric(
        "gauge", "requests that were read and are in no epoch yet, by request partition", PARTITION
    ),
    "holon_txn_request_ids": Metric("gauge", "replies that are remembered, for retried requests", PARTITION),
    "holon_txn_partition_committed": Metric(
        "counter", "transactions that began in an owned partition and have committed, of all its owners", PARTITION
    ),
    "holon_txn_partition_cpu_seconds": Metric(
        "counter", "CPU that this node has spent on an owned partition, by one step of 17", PARTITION
    ),
    "holon_txn_log_records": Metric("counter", "records of the log, read or sent, by topic", _TRAFFIC),
    "holon_txn_log_bytes": Metric("counter", "bytes of these records", _TRAFFIC),
    "holon_txn_state_keys": Metric(
        "gauge", "keys of an owned partition in memory and spilled to disk; one may be in both", _WHERE
    ),
    "holon_txn_state_bytes": Metric(
        "gauge", "their bytes: keys and values in memory (beyond 1,000 keys from as many), pages on disk", _WHERE
    ),
    "holon_txn_external_requests": Metric("counter", "transactions that ended for an external call, to run anew"),
    "holon_txn_external_calls": Metric("counter", "external calls that this node has made"),
    "holon_txn_external_answered": Metric("counter", "calls that returned a result"),
    "holon_txn_external_failed": Metric("counter", "calls that raised, or did not return in time"),
    "holon_txn_external_waiting": Metric("gauge", "calls that have not returned and have time left"),
    "holon_txn_program_number": Metric("gauge", "version of the program in the next epoch: upgrades of the job so far"),
    "holon_txn_copies_left": Metric(
        "gauge", "keys and replies still to be copied before a planned layout holds, as logged"
    ),
    "holon_txn_log_full_seconds": Metric(
        "gauge", "how long a write has waited for room on the log, while one does", ("topic", "partition")
    ),
    "holon_txn_copied_bytes": Metric("gauge", "bytes copied to homes in the planned layout; 0: none is planned"),
}
TRANSACTION_METRICS: dict[str, Metric] = {name: METRICS[name] for name in SHARED} | OWN
ALWAYS = frozenset(TRANSACTION_METRICS) - {"holon_txn_aborted", "holon_txn_log_full_seconds"}
"""Metrics that a node with partitions and checkpoints always shows; the others follow with their first event."""
