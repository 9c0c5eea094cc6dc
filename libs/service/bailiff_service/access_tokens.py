"""Access tokens: made at a service's first start, kept in a file that only its user can read, and sent by its clients.

A token is never logged, and compared in constant time.
"""

import hmac
import os
import secrets
import stat
from pathlib import Path
from urllib.parse import urlsplit

from .host_header import is_loopback
from .settings import SettingsError

TOKEN_BYTES = 32
MIN_TOKEN = 32
"""Characters of a configured token: one that can be guessed is no protection."""
API_TOKEN_FILE = "api.token"  # noqa: S105 - the name of a file
OTHERS = stat.S_IRWXG | stat.S_IRWXO


def service_token(configured: str | None, file: Path, setting: str) -> str:
    """The token that a service asks for: as configured, else that of the file, which the first call creates.

    setting: the name of the setting, for errors. Raises `SettingsError`.
    """
    if configured is not None:
        if len(configured) < MIN_TOKEN:
            advice = "generate one with `openssl rand -base64 32`, or leave it out"
            raise SettingsError([f"{setting}: expected at least {MIN_TOKEN} characters; {advice}"])
        return configured
    try:
        if not file.exists():
            _create(file)
        if file.stat().st_mode & OTHERS:
            raise SettingsError([f"{file}: other users can read this token: run chmod 600 {file}, or delete it for a new one"])
        token = file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError([f"{file}: the token cannot be read or created: {error}"]) from None
    if len(token) < MIN_TOKEN:
        raise SettingsError([f"{file}: expected a token of at least {MIN_TOKEN} characters: delete the file for a new one"])
    return token


def client_token(address: str, configured: str | None, file: Path | None, state_dir: Path) -> str | None:
    """The token that a client sends to the HTTP API at this address: as configured, or that of a file.

    Without either, that of the API which shares the client's state folder, but to this machine only: no other server gets it.
    None where there is none. Raises `SettingsError` if the given file cannot be read.
    """
    if configured is not None:
        return configured
    if file is None and not is_loopback(urlsplit(address).hostname or ""):
        return None
    try:
        return (file or state_dir / API_TOKEN_FILE).read_text(encoding="utf-8").strip() or None
    except (OSError, UnicodeDecodeError) as error:
        if file is None:
            return None
        raise SettingsError([f"api_token_file (BAILIFF_API_TOKEN_FILE): {file} cannot be read: {error}"]) from None


def is_token(given: str | bytes, token: str) -> bool:
    """Whether it is the token; takes the same time for every wrong one."""
    return hmac.compare_digest(given.encode() if isinstance(given, str) else given, token.encode())


def _create(file: Path) -> None:
    """Create the file whole or not at all: of two processes that start at the same time, one creates it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    new = file.with_name(f".{file.name}.{secrets.token_hex(8)}")
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as handle:
        handle.write(f"{secrets.token_urlsafe(TOKEN_BYTES)}\n")
    try:
        os.link(new, file)
    except FileExistsError:
        pass
    finally:
        new.unlink()
