"""Settings of schema registries: how nodes log in. Their addresses are those of the job's formats."""

from __future__ import annotations

from dataclasses import dataclass

from nodes.settings.value_types import Positive, Secret, Section, setting


@dataclass(frozen=True)
class RegistrySettings(Section):
    """How a schema registry is reached; the same for all registries of a job."""

    username: str | None = setting(None, "user of basic authentication")
    password: Secret | None = setting(None, "password of basic authentication")
    ca_file: str | None = setting(None, "certificates that https:// trusts; none: the machine's")
    certificate_file: str | None = setting(None, "certificate of this client (PEM)")
    key_file: str | None = setting(None, "key of that certificate, where it is a file of its own")
    allow_http: bool = setting(False, "send the password unencrypted to a registry on another machine")
    timeout_ms: Positive = setting(5_000, "time after which a request to the registry has failed")
