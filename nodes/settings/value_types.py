"""The types that settings are made of."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlsplit, urlunsplit

from pydantic import BaseModel, ConfigDict, Field, Secret

Positive = Annotated[int, Field(gt=0)]
NotNegative = Annotated[int, Field(ge=0)]


class SecretUrl(Secret[str]):
    """A URL that is shown without its password and its query."""

    def _display(self) -> str:
        parts = urlsplit(self.get_secret_value())
        host = parts.netloc.rpartition("@")[2]
        netloc = f"***@{host}" if "@" in parts.netloc else host
        return urlunsplit((parts.scheme, netloc, parts.path, "***" if parts.query else "", ""))


class Section(BaseModel):
    """A group of settings."""

    model_config = ConfigDict(frozen=True, extra="forbid")
