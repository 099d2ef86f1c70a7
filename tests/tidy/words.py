"""Words that no tracked file may hold. They are spelled in parts here, so that this file passes too."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tests.tidy.source import Source, Violation

_UNDONE = re.compile(r"\b(?:" + "|".join(["TO" + "DO", "FIX" + "ME", "XX" + "X", "HA" + "CK"]) + r")\b")
# By word: what it was called, and what it is called now. History may say what was.
RENAMED = {
    "holon_txn_external_" + "asked": "holon_txn_external_requests",
    "Read" + "NeverCompletes": "WindowReadDeadlock",
    "Window" + "Forgotten": "WindowExpired",
    "Decode" + "Failure": "DeserializationError",
    "Job" + "Test": "JobTestDriver",
    "Repeat" + "Filter": "Deduplicator",
    "emit_" + "unstable": "emit_nondeterministic",
    "read_" + "back_ms": "window_retention_ms",
    "skew_" + "guard_ms": "max_future_skew_ms",
    "holon_" + "stood_in": "holon_standby_results_published",
    "ctx.ele" + "cts": "ctx.is_responsible_for",
    "suspect_" + "after_ms": "failure_timeout_ms",
    "hang_" + "after_ms": "function_timeout_ms",
    "leave_" + "after_ms": "shutdown_timeout_ms",
    "uncovered_" + "max_mb": "max_uncheckpointed_mb",
    "merge_" + "interval_ms": "merged_checkpoint_interval_ms",
    "watermark_" + "max_ahead_ms": "max_watermark_drift_ms",
    "Guar" + "dian": "Watchdog",
    "Standing" + "By": "Standbys",
    "Control" + "Fold": "ControlHistory",
    "say_" + "damaged": "warn_of_damage",
    "News" + "TooLarge": "DeltasTooLarge",
    "Ship" + "ment": "ReadSetSnapshot",
    "Door" + "bell": "Notifier",
    "Front" + "Door": "HttpGateway",
    "Idle" + "ness": "IdlePartitions",
    "Redo" + "ing": "Reexecution",
    "keep" + "sake": "request_fingerprint",
    "elected_" + "partition": "responsible_partition",
    "Orph" + "ans": "UnownedUnits",
    "writ" + "ten_ends": "high_watermarks",
    "node" + ".trim": "node.truncate_internal_topics",
    "work." + "copies": "work.replicas",
    "work." + "filling": "work.slot_recovery",
    "has_" + "news": "has_changes",
    "Uncov" + "ered": "Uncheckpointed",
    "work.unc" + "overed": "work.uncheckpointed",
    "ask_" + "stop": "request_stop",
    "ask_" + "retry": "request_retry",
    "signs of " + "life": "heartbeats",
    "sign of " + "life": "heartbeat",
    "shipped_" + "otherwise": "read_sets_differ",
    "call to the " + "outside": "external call",
    "calls to the " + "outside": "external calls",
    "str" + "and": "call chain",
    "str" + "ands": "call chains",
    "front " + "door": "HTTP gateway",
    "beaten_" + "ms": "last_heartbeat_ms",
    "beat_" + "number": "heartbeat_number",
    "member." + "heard": "member.receive_heartbeat",
    "heartbeats." + "heard": "heartbeats.record_heartbeat",
    "driver." + "tell": "driver.dispatch",
    "truncation." + "tell": "truncation.record_loss",
    "truncation." + "telling": "truncation.recording_losses",
    "e.Toge" + "ther": "e.EventBatch",
    "`Toge" + "ther`": "`EventBatch`",
    "Slot" + "Asked": "SlotRequested",
    "slot_" + "asked": "slot_requested",
    "read." + "asked": "read.end_queried",
    "member." + "asked": "member.stop_requested",
    "ask_" + "all": "send_all",
    "ask_" + "and_wait": "send_and_wait",
    "ask_" + "missing": "request_missing",
    "client." + "ask": "client.send_request",
    "headers_" + "asked_by": "headers_requested_by",
    "asked_" + "node": "parse_child_node",
    "spark_" + "asker": "spark_problem_once",
    "is_" + "asking": "is_external_request",
    "replies." + "asking": "replies.external_requests",
    "look_" + "again": "reread_end",
    "looked_" + "ms": "checked_ms",
    "looked_" + "us": "full_poll_at_us",
    "LOOK_" + "S": "POLL_INTERVAL_S",
    "looks_" + "secret": "may_be_secret",
    "look_" + "upstream": "check_upstream",
    "CheckpointEvent.LOO" + "KED": "CheckpointEvent.CHECKED",
    "stood_" + "at": "waited_at",
    "STANDING_" + "BY": "STANDBY_RUNNING",
    "STOOD_" + "BY": "STANDBY_BEGUN",
    "standing_" + "by": "standbys",
    "Standby" + "Speaks": "StandbyActivated",
    "Standby" + "Silenced": "StandbyDeactivated",
    "standby." + "speaks": "standby.is_active",
    "speaks_" + "for": "answers_for",
    "SPEAK_" + "MS": "ACTIVE_MS",
    "SPEA" + "KERS": "RELAYS",
    "memory." + "lend": "memory.acquire",
    "know_" + "outputs": "set_outputs",
    "Topics" + ".of": "JobTopics.of",
    "= His" + "tory": "= JobControlHistory",
    "= Pie" + "ces": "= BroadcastPieces",
    "= Rec" + "ords": "= RecordColumns",
    "TOGETHER_" + "BYTES": "MESSAGE_BATCH_BYTES",
    "Snapshot" + "Wish": "SnapshotRequest",
    "Compaction" + "Wish": "CompactionRequest",
    "Checkpoint" + "Wish": "CheckpointRequest",
    "wanted_" + "snapshot": "snapshot_request",
    "notifier." + "ring": "notifier.notify",
}
_RENAMED = re.compile(rf"(?<![A-Za-z0-9])(?:{'|'.join(map(re.escape, RENAMED))})(?![A-Za-z0-9])")
_MACHINE_PATH = re.compile(r"(?<![\w.\-~>/])/(?:work/\w|roo" + r"t\b|hom" + r"e/\w|User" + r"s/\w)")
_REGISTRY = re.compile(
    r"(?:py" + r"pi\.org|pythonhos" + r"ted\.org|npm" + r"js\.(?:org|com)|maven\.(?:apache\.)?org|/maven[2]"
    r"|crates\.i" + r"o|proxy\.golan" + r"g|deb\.debia" + r"n\.org|archive\.ubunt" + r"u)"
)
"""In small letters."""


def no_undone(source: Source) -> Iterator[Violation]:
    """Nothing is left for later in a comment: it is done, or an issue."""
    yield from _search(source, _UNDONE, "no_undone", "finish it or file an issue")


def no_old_name(source: Source) -> Iterator[Violation]:
    """A thing has one name: what was renamed is called by its new name everywhere."""
    if not any(old in source.text for old in RENAMED):  # an eighth of the time
        return
    if source.path not in ("CHANGELOG.md", "nodes/settings/renamed.py"):  # these two name both
        for number, line in enumerate(source.lines, start=1):
            for found in _RENAMED.finditer(line):
                why = f"{found.group()!r} is called {RENAMED[found.group()]} now"
                yield Violation(source.path, number, "no_old_name", why)


def no_machine_path(source: Source) -> Iterator[Violation]:
    """No path of somebody's own machine."""
    yield from _search(source, _MACHINE_PATH, "no_machine_path", "a path of one machine; make it relative")


def no_registry(source: Source) -> Iterator[Violation]:
    """No address of a package source: where packages come from is the installing machine's affair."""
    small = Source(source.path, source.text.lower())
    yield from _search(small, _REGISTRY, "no_registry", "an address of a package source")


def _search(source: Source, pattern: re.Pattern[str], rule: str, why: str) -> Iterator[Violation]:
    if not pattern.search(source.text):
        return
    for number, line in enumerate(source.lines, start=1):
        if found := pattern.search(line):
            yield Violation(source.path, number, rule, f"{found.group()!r}: {why}")
