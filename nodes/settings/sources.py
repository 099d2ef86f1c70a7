"""Where settings come from: ``-D key=value``, the environment, a TOML file; each value with its origin.

Nothing is read at import: the environment and the directory are arguments.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from nodes.errors import SettingsError

PREFIX = "HOLON__"
DEFAULT_FILE = "holon.toml"
KAFKA = "log.kafka."
"""The prefix of librdkafka's properties, whose names may have dots."""


_SECRET = re.compile(
    r"pass(word|wd|phrase)|secret|token|credential|jaas|oauthbearer\.config|(^|\.)(\w*key|keys|key\.pem)$"
)
_PUBLIC_ENDINGS = (".location", ".file", ".id")


def may_be_secret(name: str) -> bool:
    """Whether a setting of this name is never shown: a password, passphrase, token, key or secret, known or not."""
    name = name.lower().replace("_", ".").replace("-", ".")
    return _SECRET.search(name) is not None and not name.endswith(_PUBLIC_ENDINGS)


@dataclass(frozen=True, slots=True)
class GivenSources:
    """One value that a source sets. ``typed`` is False for text (environment, ``-D``), which is converted."""

    key: str
    value: object
    origin: str
    typed: bool


def from_definitions(definitions: Iterable[str]) -> Iterator[GivenSources]:
    """``section.key=value`` as given to ``-D``; the last of equal keys wins."""
    for text in definitions:
        key, equals, value = text.partition("=")
        if not equals or "." not in key.strip():
            shown = "..." if may_be_secret(text) else text
            raise SettingsError(f"-D {shown!r}: write -D section.key=value, such as -D log.path=/var/lib/holon")
        yield GivenSources(key.strip(), value.strip(), f"-D {key.strip()}", typed=False)


def from_environment(environ: Mapping[str, str]) -> Iterator[GivenSources]:
    """Variables ``HOLON__SECTION__KEY``. In names of librdkafka properties an underscore means a dot."""
    for name in sorted(environ):
        if name.startswith(PREFIX):
            key = ".".join(name[len(PREFIX) :].lower().split("__"))
            if key.startswith(KAFKA):
                key = KAFKA + key[len(KAFKA) :].replace("_", ".")
            yield GivenSources(key, environ[name], f"environment variable {name}", typed=False)


def environment_name(key: str) -> str:
    """The variable that sets ``key``."""
    if key.startswith(KAFKA):
        return environment_name(KAFKA[:-1]) + "__" + key[len(KAFKA) :].replace(".", "_").upper()
    return PREFIX + key.replace(".", "__").upper()


def from_toml(path: Path) -> Iterator[GivenSources]:
    """Every value of a TOML file, tables joined with dots."""
    try:
        with path.open("rb") as file:
            document = tomllib.load(file)
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{path}: not valid TOML: {error}") from error
    except UnicodeDecodeError as error:
        raise SettingsError(f"{path}: not valid TOML: not UTF-8 at byte {error.start}") from error
    except OSError as error:
        raise SettingsError(f"cannot read the settings file {path}: {error.strerror}") from error
    yield from _flatten(document, "", str(path))


def _flatten(table: Mapping[str, object], prefix: str, origin: str) -> Iterator[GivenSources]:
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _flatten(value, f"{prefix}{name}.", origin)
        else:
            yield GivenSources(f"{prefix}{name}", value, origin, typed=True)


def settings_file(config: str | os.PathLike[str] | None, directory: Path) -> Path | None:
    """The file that the user named, else ``holon.toml`` of the directory if there is one."""
    if config is not None:
        return Path(config)
    default = directory / DEFAULT_FILE
    return default if default.is_file() else None


def resolve_reference(given: GivenSources, environ: Mapping[str, str]) -> object:
    """The secret behind ``env:NAME`` or ``file:PATH``; any other value as it is. Errors never show a secret."""
    value = given.value
    if not isinstance(value, str):
        return value
    scheme, colon, rest = value.partition(":")
    if colon and scheme == "env":
        if rest not in environ:
            raise SettingsError(f"{given.key} ({given.origin}): the environment variable {rest} is not set")
        return environ[rest]
    if colon and scheme == "file":
        try:
            return Path(rest).read_text(encoding="utf-8").rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            raise SettingsError(f"{given.key} ({given.origin}): cannot read {rest}: {error}") from error
    return value
