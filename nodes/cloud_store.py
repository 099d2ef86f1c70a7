"""Object stores of clouds, as checkpoints and files use them: how they are opened, and what their failures mean."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

from obstore.store import from_url

CLOUDS = ("s3", "s3a", "gs", "az", "adl", "azure", "abfs", "abfss")
_ALIASES = {"gcs": "gs"}
_RETRIES = 3
_CONNECT_MS = 3_000


def is_cloud(url: str) -> bool:
    """Whether ``open_cloud`` takes this."""
    return "://" in url and _scheme(url) in CLOUDS


def _scheme(url: str) -> str:
    scheme = url.partition("://")[0]
    return _ALIASES.get(scheme, scheme)


def open_cloud(url: str, options: Mapping[str, str], timeout_ms: int) -> Any:
    """The store of obstore at a URL; ``options`` are obstore's."""
    url = f"{_scheme(url)}://{url.partition('://')[2]}"
    plain = options.get("endpoint", "").startswith("http:")
    client: Any = {
        "timeout": f"{timeout_ms}ms",
        "connect_timeout": f"{min(timeout_ms, _CONNECT_MS)}ms",
        **({"allow_http": True} if plain else {}),
    }
    # obstore's own ten tries in three minutes would hold a node's whole loop up; the caller retries by itself.
    retries: Any = {"max_retries": _RETRIES, "retry_timeout": timedelta(milliseconds=timeout_ms)}
    config: Any = dict(options)
    return from_url(url, config=config, client_options=client, retry_config=retries)


def shown(where: str) -> str:
    """A URL without what may be a secret: user, password and query of a URL."""
    if "://" not in where:
        return where
    parts = urlsplit(where)
    return f"{parts.scheme}://{parts.hostname or ''}{parts.path}"


def described(error: Exception) -> str:
    """An error of obstore in one line, without signatures."""
    text = str(error)
    return _QUERY.sub("?***", text.splitlines()[0]) if text else type(error).__name__


_WHERE = {"checkpoints": "checkpoints.url", "files": "the path of the files"}
_QUERY = re.compile(r"\?[^\s]+")  # signatures of a cloud are put there
_NO_CREDENTIALS = ("169.254.169.254", "/latest/api/token", "token request", "must be specified", "credential")
_CREDENTIALS = {
    "s3": "SECTION.access_key_id and SECTION.secret_access_key, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
    "gs": "GOOGLE_APPLICATION_CREDENTIALS, the path of a service account's key",
    "az": "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY",
}


def advice(reason: str, where: str, section: str) -> str:
    """The remedy for a failure of a store; ``section``: of the settings, with the store's credentials."""
    lower = reason.lower()
    if "no space" in lower or "quota" in lower or "os error 28" in lower:
        return f"free some space or put the {section} elsewhere"
    if "nosuchbucket" in lower:
        return f"there is no such bucket: make it, or mend {_WHERE.get(section, section)}"
    if "://" in where and any(sign in lower for sign in _NO_CREDENTIALS):
        needed = _CREDENTIALS.get(_scheme(where).replace("s3a", "s3"), _CREDENTIALS["az"]).replace("SECTION", section)
        return f"no credentials were found; set {needed}"
    if any(sign in lower for sign in ("denied", "read-only", "unauth", "forbidden", "signature", "invalidaccesskey")):
        return "give this user or these credentials the right to read and write there"
    return "check that it exists and can be reached, then start again"
