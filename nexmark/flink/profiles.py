"""How Flink is set up where latency and recovery are measured: as tuned by an expert, by default, as in the paper."""

from __future__ import annotations

from dataclasses import dataclass

from nodes.errors import SettingsError, UnknownName

_FOR_LATENCY = {
    "table.exec.mini-batch.enabled": "false",
    "execution.checkpointing.interval": "1 s",
    "execution.checkpointing.mode": "EXACTLY_ONCE",
    "taskmanager.memory.managed.fraction": "0.1",
}

PROFILES: dict[str, dict[str, str]] = {
    # Results leave after 5 ms, watermarks every 20 ms, a dead task manager is noticed after 2.5 s.
    "tuned": _FOR_LATENCY
    | {
        "execution.buffer-timeout.interval": "5 ms",
        "pipeline.auto-watermark-interval": "20 ms",
        "heartbeat.interval": "500 ms",
        "heartbeat.timeout": "2500 ms",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "1000",
        "restart-strategy.fixed-delay.delay": "100 ms",
    },
    # Checkpoints every second, as Holon's; all else as Flink comes, with a restart strategy that does not give up.
    "default": _FOR_LATENCY | {"restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.attempts": "1000"},
    # Holon, section 5.1, but for the 8 GB of each task manager.
    "paper": {
        "table.exec.mini-batch.enabled": "false",
        "execution.checkpointing.interval": "5 s",
        "execution.checkpointing.mode": "EXACTLY_ONCE",
        "execution.checkpointing.unaligned.enabled": "true",
        "execution.checkpointing.incremental": "true",
        "state.backend.type": "rocksdb",
        "taskmanager.memory.managed.fraction": "0.4",
        "heartbeat.interval": "4 s",
        "heartbeat.timeout": "6 s",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "1000",
    },
}


@dataclass(frozen=True, slots=True)
class FlinkProfile:
    """Settings by name; ``spare``: as many idle task managers as are going to be killed."""

    name: str
    spare: bool = False

    @property
    def settings(self) -> dict[str, str]:
        """The settings beside the peer's file."""
        return PROFILES[self.name]

    @property
    def title(self) -> str:
        """Its name in results."""
        return f"{self.name}:spare" if self.spare else self.name


def profile_of(text: str) -> FlinkProfile:
    """``tuned``, or ``tuned:spare``."""
    name, colon, rest = text.partition(":")
    if name not in PROFILES:
        raise UnknownName("profile of Flink", name, PROFILES)
    if colon and rest != "spare":
        raise SettingsError(f"--flink {text}: expected NAME or NAME:spare")
    return FlinkProfile(name, bool(colon))
