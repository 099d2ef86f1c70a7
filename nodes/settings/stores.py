"""Settings of the checkpoint store, Redis and the view of results, with what is refused or worth a warning."""

from __future__ import annotations

from urllib.parse import urlsplit

from pydantic import Field, SecretStr

from nodes.settings.kafka_properties import is_loopback
from nodes.settings.value_types import NotNegative, Positive, SecretUrl, Section


class CheckpointSettings(Section):
    """Where checkpoints are stored."""

    url: SecretUrl | None = Field(None, description="file, s3, gs, az or redis URL; none: checkpoints beside the log")
    endpoint: str | None = Field(None, description="http(s)://HOST:PORT of an S3-compatible server; none: Amazon's")
    region: str | None = Field(None, description="region of the bucket")
    access_key_id: str | None = Field(None, description="S3 access key; none: from the environment or the machine")
    secret_access_key: SecretStr | None = Field(None, description="S3 secret key")
    session_token: SecretStr | None = Field(None, description="S3 session token")
    allow_http: bool = Field(False, description="allow an unencrypted endpoint on another machine")
    timeout_ms: Positive = Field(10_000, description="time after which a request to the store has failed")
    shutdown_timeout_ms: NotNegative = Field(
        15_000, description="time that a leaving node goes on trying to save, where the store is away"
    )


class RedisSettings(Section):
    """How Redis is spoken to, for checkpoints and for the view of results."""

    username: str | None = Field(None, description="user, where the URL names none")
    password: SecretStr | None = Field(None, description="password, where the URL has none")
    ca_file: str | None = Field(None, description="certificates that rediss:// trusts; none: the machine's")
    timeout_ms: Positive = Field(5_000, description="time after which a command has failed")


class ViewSettings(Section):
    """The view of results that `holon view` reads."""

    redis: SecretUrl | None = Field(None, description="redis URL that keeps the results of completed windows")
    keep_windows: Positive = Field(10_000, description="completed windows that are kept there, the newest")


def refused_endpoint(checkpoints: CheckpointSettings) -> str | None:
    """Why ``checkpoints.endpoint`` cannot be used, or None."""
    endpoint = checkpoints.endpoint
    if endpoint is None:
        return None
    parts = urlsplit(endpoint)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        return "it must be http://HOST:PORT or https://HOST[:PORT]"
    if parts.username or parts.password or parts.query:
        return "give credentials as checkpoints.access_key_id and checkpoints.secret_access_key"
    if parts.scheme == "http" and not is_loopback(endpoint) and not checkpoints.allow_http:
        return "checkpoints would cross the network unencrypted; use https, or set checkpoints.allow_http=true"
    return None


def store_warnings(checkpoints: CheckpointSettings, view: ViewSettings) -> list[str]:
    """Connections to other machines that are not encrypted."""
    found = []
    if (checkpoints.endpoint or "").startswith("http:") and not is_loopback(checkpoints.endpoint or ""):
        found.append("checkpoints.endpoint is http: checkpoints cross the network unencrypted; use https")
    for key, url in (("checkpoints.url", checkpoints.url), ("view.redis", view.redis)):
        parts = urlsplit(url.get_secret_value() if url is not None else "")
        if parts.scheme == "redis" and not is_loopback(f"redis://{parts.netloc.rpartition('@')[2]}"):
            found.append(f"{key} is redis: passwords and data cross the network unencrypted; use rediss")
    return found
