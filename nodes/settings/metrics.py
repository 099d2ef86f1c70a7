"""Settings of metrics and health, with what is refused or worth a warning."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import ip_address
from typing import Annotated

from msgspec import Meta

from nodes.settings.value_types import Filled, Positive, Secret, Section, setting


@dataclass(frozen=True)
class MetricsSettings(Section):
    """The figures that a node serves over HTTP, and its clients."""

    enabled: bool = setting(True, "serve /metrics, /healthz and /readyz")
    host: Filled = setting("127.0.0.1", "address to listen on; a token is needed off loopback")
    port: Annotated[int, Meta(ge=0, le=64_000)] = setting(
        0, "port of node 0, the next ones for the next nodes; 0: a free one for each"
    )
    token: Secret | None = setting(None, "to be shown as Authorization: Bearer TOKEN; env:NAME, file:PATH")
    allowed_hosts: str | None = setting(None, "names of the node, with commas, that requests may use")
    ready_lag_ms: Positive = setting(10_000, "lag of the input from which a node is not ready")
    targets_dir: str | None = setting(None, "folder in which each node leaves its address for Prometheus")

    def host_names(self) -> list[str]:
        """The allowed names."""
        return [name.strip() for name in (self.allowed_hosts or "").split(",") if name.strip()]

    def is_local(self) -> bool:
        """True if only this machine can send requests."""
        try:
            return self.host == "localhost" or ip_address(self.host).is_loopback
        except ValueError:
            return False


def refused_metrics(metrics: MetricsSettings) -> tuple[str, str] | None:
    """(key, why it cannot be used), or None."""
    if metrics.enabled and not metrics.is_local() and metrics.token is None:
        return (
            "host",
            "other machines can reach it: set metrics.token too (env:NAME or file:PATH), or keep to 127.0.0.1",
        )
    if metrics.token is not None and not metrics.token.get_secret_value():
        return "token", "it is empty, so everybody would know it"
    return None


def metrics_warnings(metrics: MetricsSettings) -> list[str]:
    """Secrets that can be read on their way."""
    if not metrics.enabled or metrics.is_local():
        return []
    return [f"metrics.host = {metrics.host}: plain HTTP, the token crosses the network unencrypted"]
