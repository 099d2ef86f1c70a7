"""The token that the HTTP gateway and ``holon txn call`` share: in a file that only its owner can read.

Two rules for this file. The token is in no command line and no message. A file that others can read or have made is
refused, and never mended in silence.
"""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Mapping
from pathlib import Path

from nodes.errors import SettingsError

MODE = 0o600
_TOKEN_BYTES = 32
_MOST_BYTES = 4_096


def shared_token_file(environ: Mapping[str, str] = os.environ) -> Path:
    """Where this user's token is by default."""
    base = environ.get("XDG_STATE_HOME") or os.path.join(os.path.expanduser("~"), ".local", "state")
    return Path(base) / "holon" / "gateway.token"


def shared_token(path: Path) -> str:
    """The token of this user, made where there is none. Raises ``SettingsError`` where others may know it."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not os.path.lexists(path):
        made = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
        try:
            with os.fdopen(os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL, MODE), "w") as file:
                file.write(secrets.token_urlsafe(_TOKEN_BYTES) + "\n")
            os.link(made, path)  # whole, and only one of all who race
        except FileExistsError:
            pass
        finally:
            made.unlink(missing_ok=True)
    return own_token(path)


def own_token(path: Path) -> str:
    """Of a file that is this user's alone. Raises ``SettingsError``."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        raise SettingsError(f"the token file {path} cannot be opened: {error.strerror}") from error
    try:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            raise SettingsError(f"the token file {path} is no file; remove it, and a new token is made")
        if found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o077:
            raise SettingsError(
                f"the token file {path} belongs to another user or can be read by others (mode "
                f"{stat.S_IMODE(found.st_mode):04o}), so that the token is no secret: remove it, and a new one is made"
            )
        return _token(os.read(handle, _MOST_BYTES + 1), path)
    finally:
        os.close(handle)


def given_token(path: Path) -> str:
    """Of a file that the user has named; who can read it is the user's to see to. Raises ``SettingsError``."""
    try:
        if not path.is_file():
            raise SettingsError(f"--token-file {path} is no file")
        with path.open("rb") as file:
            return _token(file.read(_MOST_BYTES + 1), path)
    except OSError as error:
        raise SettingsError(f"--token-file {path} cannot be read: {error.strerror}") from error


def _token(data: bytes, path: Path) -> str:
    text = data.decode("ascii", "replace").strip()
    if not text or len(data) > _MOST_BYTES or not text.isascii() or not text.isprintable() or " " in text:
        raise SettingsError(
            f"the token file {path} holds no token: one line of up to {_MOST_BYTES} ASCII characters without spaces"
        )
    return text
