"""Settings of checkpoint stores and Redis: what is refused, warned of, resolved and hidden."""

from __future__ import annotations

from pathlib import Path

import pytest

from nodes.errors import SettingsError
from nodes.settings.kafka_properties import is_loopback
from nodes.settings.settings import Settings, load_settings


def load(*definitions: str, environ: dict[str, str] | None = None) -> Settings:
    return load_settings(definitions=definitions, environ=environ or {}, directory=Path("/nowhere"))


@pytest.mark.parametrize(
    ("endpoint", "reason"),
    [
        ("minio:9000", "must be http"),
        ("ftp://minio", "must be http"),
        ("https://", "must be http"),
        ("https://ann:swordfish@minio", "give credentials as checkpoints.access_key_id"),
        ("http://minio:9000", "set checkpoints.allow_http=true"),
        ("http://127.0.0.1.example.org", "set checkpoints.allow_http=true"),
    ],
)
def test_an_endpoint_that_is_none_or_unsafe_is_refused(endpoint: str, reason: str) -> None:
    with pytest.raises(SettingsError, match=r"checkpoints\.endpoint \(from -D checkpoints\.endpoint\)") as caught:
        load(f"checkpoints.endpoint={endpoint}")
    assert reason in str(caught.value) and "swordfish" not in str(caught.value)


@pytest.mark.parametrize(
    "endpoint", ["http://127.0.0.1:9000", "http://localhost", "http://[::1]:9000", "https://minio"]
)
def test_this_machine_may_be_spoken_to_plainly_and_others_encrypted(endpoint: str) -> None:
    assert load(f"checkpoints.endpoint={endpoint}").warnings() == []


def test_what_is_not_encrypted_to_another_machine_is_warned_of() -> None:
    warnings = load(
        "checkpoints.endpoint=http://minio:9000",
        "checkpoints.allow_http=true",
        "checkpoints.url=redis://ann:swordfish@far/0",
        "view.redis=redis://far:6379",
    ).warnings()
    assert [warning.split()[0] for warning in warnings] == ["checkpoints.endpoint", "checkpoints.url", "view.redis"]
    assert "swordfish" not in "".join(warnings)
    assert load("checkpoints.url=rediss://far/0", "view.redis=redis://u:p@localhost").warnings() == []


def test_secrets_are_resolved_passed_on_as_references_and_never_shown(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("s3-secret\n")
    settings = load(
        f"checkpoints.secret_access_key=file:{tmp_path}/key",
        "redis.password=env:REDIS_PASSWORD",
        "view.redis=redis://ann:swordfish@localhost/0?prefix=p",
        environ={"REDIS_PASSWORD": "redis-secret"},
    )
    assert settings.checkpoints.secret_access_key is not None and settings.redis.password is not None
    assert settings.checkpoints.secret_access_key.get_secret_value() == "s3-secret"
    assert settings.redis.password.get_secret_value() == "redis-secret"
    assert settings.environment()["HOLON__REDIS__PASSWORD"] == "env:REDIS_PASSWORD"
    shown = repr(settings) + "".join(f"{key}={value}" for key, value in settings.items())
    assert not [secret for secret in ("s3-secret", "redis-secret", "swordfish") if secret in shown]


@pytest.mark.parametrize(
    ("address", "loopback"),
    [("localhost:1", True), ("127.9.9.9", True), ("[::1]:1", True), ("http://localhost/x", True), ("10.0.0.1:1", False),
     ("localhost.example.org:1", False), ("", False)],
)  # fmt: skip
def test_this_machine_is_told_from_others_by_its_name(address: str, loopback: bool) -> None:
    assert is_loopback(address) is loopback
