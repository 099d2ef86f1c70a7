"""Every figure of a node that can be scraped: name, kind, labels, meaning. docs/metrics.md shows this table.

Names follow Prometheus, with the prefix ``holon_``; those that Flink's users know keep Flink's spelling behind it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["counter", "gauge", "histogram"]
DELAY_BUCKETS_S = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)


@dataclass(frozen=True, slots=True)
class Metric:
    """One family of figures. A counter is scraped as its name with ``_total`` behind it."""

    kind: Kind
    meaning: str
    labels: tuple[str, ...] = ()


PARTITION = ("partition",)
METRICS: dict[str, Metric] = {
    # --- how busy the node is: the three add up to 1000 ---
    "holon_busyTimeMsPerSecond": Metric("gauge", "ms of a second spent working, since the last request (0 to 1000)"),
    "holon_backPressuredTimeMsPerSecond": Metric(
        "gauge", "ms of a second spent waiting for the log to take what was written"
    ),
    "holon_idleTimeMsPerSecond": Metric("gauge", "ms of a second spent waiting for something to do"),
    "holon_busy_seconds": Metric("counter", "seconds spent working"),
    "holon_backpressured_seconds": Metric("counter", "seconds spent waiting for the log to take what was written"),
    "holon_idle_seconds": Metric("counter", "seconds spent waiting for something to do"),
    "holon_unacknowledged_writes": Metric("gauge", "writes that the log has not acknowledged yet"),
    # --- records ---
    "holon_numRecordsIn": Metric("counter", "input records read by this node, work made again included", PARTITION),
    "holon_numRecordsOut": Metric(
        "counter", "results written by this node, by output topic; late and dead letters too", ("topic",)
    ),
    "holon_partition_records_taken": Metric(
        "gauge",
        "records of the input prefix that an owned partition has processed (the left side of conservation)",
        PARTITION,
    ),
    "holon_partition_records": Metric(
        "gauge",
        "what became of them: accepted, filtered, late, dead or duplicates; the five add up to records_taken",
        ("partition", "outcome"),
    ),
    "holon_partition_late_inserts": Metric(
        "gauge", "inserts of accepted records and of handlers that a closed window of one state has refused", PARTITION
    ),
    "holon_partition_late_rows": Metric(
        "gauge",
        "rows that no window of a state has taken, as far as the function has seen them",
        ("partition", "state"),
    ),
    "holon_duplicates_suppressed": Metric("counter", "results made again and found on the log already, so not written"),
    "holon_stalled_reads": Metric(
        "counter", "how often a partition had records and none arrived, so that its reading began anew"
    ),
    # --- event time ---
    "holon_currentInputWatermark": Metric("gauge", "event time of an owned partition, ms since 1970 UTC", PARTITION),
    "holon_frontier_ms": Metric(
        "gauge", "least watermark of all partitions, ms since 1970 UTC: windows before it are final"
    ),
    "holon_lag_seconds": Metric(
        "gauge",
        "how old the oldest record may be that is not processed yet, by the log's clock (0: at the end of the input)",
        PARTITION,
    ),
    "holon_window_completion_delay_seconds": Metric(
        "histogram",
        "from the moment the first partition passed a window's end until this node answered the window",
    ),
    "holon_open_windows": Metric("gauge", "window contributions held in memory, of all partitions"),
    "holon_state_column_bytes": Metric(
        "gauge",
        "long columns of keyed state, in memory and in files, where `node.state_memory_mb` bounds the former",
        ("place",),
    ),
    # --- deltas ---
    "holon_delta_bytes": Metric("counter", "bytes of the broadcast, sent or received", ("direction",)),
    "holon_deltas": Metric("counter", "messages of the broadcast, sent or received", ("direction",)),
    "holon_bad_messages": Metric("counter", "control and broadcast messages that could not be read, and were not used"),
    # --- partitions ---
    "holon_partitions_owned": Metric("gauge", "partitions that this node owns"),
    "holon_partitions_standby": Metric("gauge", "partitions that this node is a standby of"),
    "holon_partitions_awaiting_schema": Metric(
        "gauge", "partitions whose next record names a schema that the registry has not answered yet"
    ),
    "holon_standby_results_published": Metric(
        "counter", "results that this node published as a standby, because the owner was late"
    ),
    "holon_promotions": Metric("counter", "partitions taken over in place, by the standby that this node was"),
    "holon_standby_restarts": Metric(
        "counter", "standbys here that began anew at a checkpoint: their work was void, or lay too far behind"
    ),
    "holon_members": Metric("gauge", "nodes that are present, by the control topic"),
    "holon_steals": Metric("counter", "partitions taken over from another node"),
    "holon_failover_duration_seconds": Metric(
        "histogram", "from the last heartbeat of a partition's owner until this node processed the partition"
    ),
    # --- checkpoints ---
    "holon_checkpoints": Metric("counter", "checkpoints stored"),
    "holon_checkpoint_duration_seconds": Metric("histogram", "time to store a checkpoint"),
    "holon_checkpoint_size_bytes": Metric("gauge", "size of the newest checkpoint of an owned partition", PARTITION),
    "holon_checkpoint_age_seconds": Metric(
        "gauge",
        "time since this node last stored a checkpoint of an owned partition (none: since it took it over)",
        PARTITION,
    ),
    # --- the process ---
    "holon_memory_bytes": Metric(
        "gauge", "private memory of the process, without the mapped pages of the log and of state"
    ),
    "holon_open_descriptors": Metric("gauge", "open file descriptors of the process"),
    "holon_uptime_seconds": Metric("gauge", "time since the node started"),
    "holon_last_turn_seconds": Metric("gauge", "time since the node's loop last turned"),
    "holon_node_info": Metric(
        "gauge", "always 1; the labels name the node and its job", ("job", "node", "number", "incarnation")
    ),
}
