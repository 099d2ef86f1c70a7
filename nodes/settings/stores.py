"""Settings of the checkpoint store, Redis and the view of results, with what is refused or worth a warning."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

from nodes.settings.kafka_properties import is_loopback
from nodes.settings.value_types import NotNegative, Positive, Secret, SecretUrl, Section, setting


@dataclass(frozen=True)
class StoreAccess(Section):
    """How an object store is reached."""

    endpoint: str | None = setting(None, "http(s)://HOST:PORT of an S3-compatible server; none: Amazon's")
    region: str | None = setting(None, "region of the bucket")
    access_key_id: str | None = setting(None, "S3 access key; none: from the environment or the machine")
    secret_access_key: Secret | None = setting(None, "S3 secret key")
    session_token: Secret | None = setting(None, "S3 session token")
    allow_http: bool = setting(False, "allow an unencrypted endpoint on another machine")
    timeout_ms: Positive = setting(10_000, "time after which a request to the store has failed")

    def options(self) -> dict[str, str]:
        """The options of obstore, secrets revealed: never log them."""
        secrets = {"secret_access_key": self.secret_access_key, "session_token": self.session_token}
        given = {"endpoint": self.endpoint, "region": self.region, "access_key_id": self.access_key_id}
        given |= {key: secret.get_secret_value() for key, secret in secrets.items() if secret is not None}
        return {key: value for key, value in given.items() if value is not None}


@dataclass(frozen=True)
class FilesSettings(StoreAccess):
    """The object store of `holon sink`."""


@dataclass(frozen=True)
class CheckpointSettings(StoreAccess):
    """Where checkpoints are stored."""

    url: SecretUrl | None = setting(None, "file, s3, gs, az or redis URL; none: checkpoints beside the log")
    shutdown_timeout_ms: NotNegative = setting(
        15_000, "time that a leaving node goes on trying to save, where the store is away"
    )


@dataclass(frozen=True)
class RedisSettings(Section):
    """How Redis is spoken to, for checkpoints and for the view of results."""

    username: str | None = setting(None, "user, where the URL names none")
    password: Secret | None = setting(None, "password, where the URL has none")
    ca_file: str | None = setting(None, "certificates that rediss:// trusts; none: the machine's")
    timeout_ms: Positive = setting(5_000, "time after which a command has failed")


@dataclass(frozen=True)
class ViewSettings(Section):
    """The view of results that `holon view` reads."""

    redis: SecretUrl | None = setting(None, "redis URL that keeps the results of completed windows")
    keep_windows: Positive = setting(10_000, "completed windows that are kept there, the newest")


def refused_endpoint(store: StoreAccess, section: str) -> str | None:
    """Why ``SECTION.endpoint`` cannot be used, or None."""
    endpoint = store.endpoint
    if endpoint is None:
        return None
    parts = urlsplit(endpoint)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        return "it must be http://HOST:PORT or https://HOST[:PORT]"
    if parts.username or parts.password or parts.query:
        return f"give credentials as {section}.access_key_id and {section}.secret_access_key"
    if parts.scheme == "http" and not is_loopback(endpoint) and not store.allow_http:
        return f"{section} would cross the network unencrypted; use https, or set {section}.allow_http=true"
    return None


def store_warnings(checkpoints: CheckpointSettings, view: ViewSettings, files: FilesSettings) -> list[str]:
    """Connections to other machines that are not encrypted."""
    found = []
    for section, store in (("checkpoints", checkpoints), ("files", files)):
        if (store.endpoint or "").startswith("http:") and not is_loopback(store.endpoint or ""):
            found.append(f"{section}.endpoint is http: {section} cross the network unencrypted; use https")
    for key, url in (("checkpoints.url", checkpoints.url), ("view.redis", view.redis)):
        parts = urlsplit(url.get_secret_value() if url is not None else "")
        if parts.scheme == "redis" and not is_loopback(f"redis://{parts.netloc.rpartition('@')[2]}"):
            found.append(f"{key} is redis: passwords and data cross the network unencrypted; use rediss")
    return found
