"""Settings of earlier releases that have another name now: each is refused with its new name."""

from __future__ import annotations

RENAMED = {
    "checkpoints.leave_after_ms": "checkpoints.shutdown_timeout_ms",
    "node.hang_after_ms": "node.function_timeout_ms",
    "node.merge_interval_ms": "node.merged_checkpoint_interval_ms",
    "node.suspect_after_ms": "node.failure_timeout_ms",
    "node.trim": "node.truncate_internal_topics",
    "node.uncovered_max_mb": "node.max_uncheckpointed_mb",
    "node.watermark_max_ahead_ms": "node.max_watermark_drift_ms",
}
