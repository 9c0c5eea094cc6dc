"""Client settings: the common settings of all services, and the requester's identity and key.

Services and client may share a file, so unknown fields are ignored.
"""

import base64
import binascii
import getpass
import hashlib
import os
import socket
from pathlib import Path
from typing import Annotated

from pydantic import Field, SecretStr
from pydantic_settings import SettingsConfigDict

from bailiff.render.plain_text import plain
from bailiff_service.settings import ServiceSettings, SettingsError

from .errors import ClientError, UsageError

KEY_BYTES = 32
MAX_ACTOR_BYTES = 256


def login_name() -> str:
    """The name of this process's user, as an actor may be called; `uid-1000` if it has none."""
    try:
        name = plain(getpass.getuser()).encode(errors="replace")[:MAX_ACTOR_BYTES].decode(errors="ignore")
    except (KeyError, OSError):
        name = ""
    return name or f"uid-{os.getuid()}"


def _opaque_source() -> str:
    """A stable id of this user on this machine, which does not name the machine: it is recorded in the log permanently."""
    return f"cli-{hashlib.sha256(f'{login_name()}@{socket.gethostname()}'.encode()).hexdigest()[:12]}"


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "bailiff"


class ClientSettings(ServiceSettings):
    """Client settings in addition to the common ones.

    Attributes:
        actor: Name of the requester; default: the name that the policy gives to the key, else the login name.
        key: File with the private key that signs requests.
        pool: Default pool.
        project: Default project.
        source: CloudEvents source of requests.
        cache: Folder for local snapshots.
        engines: Folder of engine wheels, by digest.
        api: URL of the HTTP API from which logs are read instead of Kafka; `api_token` or `api_token_file` has its token.
        snapshots: URL of the HTTP API whose snapshot the first command on a machine downloads, and checks against the log;
            default: `api`. It gets the same token.
        witness_keys: Witnesses of the logs, each as `VKEY` or `VKEY URL`.
        witnesses: How many witnesses must have cosigned a log that is verified.
    """

    model_config = SettingsConfigDict(extra="ignore")

    actor: str = ""
    key: Path | None = None
    pool: str | None = None
    project: str | None = None
    source: Annotated[str, Field(min_length=1, max_length=256)] = Field(default_factory=_opaque_source)
    cache: Path = Field(default_factory=_cache)
    engines: Path = Path(".bailiff/engines")
    api: str | None = None
    api_token: SecretStr | None = None
    api_token_file: Path | None = None
    snapshots: str | None = None
    witnesses: Annotated[int, Field(ge=0)] = 0
    witness_keys: tuple[str, ...] = ()

    def token_of_api(self, address: str | None = None) -> str | None:
        """The token for the HTTP API at this address, by default `api`; None where none is known."""
        from bailiff_bus.kafka_settings import secret_of
        from bailiff_service.access_tokens import client_token

        return client_token(address or self.api or "", secret_of(self.api_token), self.api_token_file, self.state_dir)

    def named_witnesses(self) -> frozenset[str]:
        """The keys in `witness_keys`. Raises `ClientError`."""
        from bailiff_log.cosignatures import witness_keys
        from bailiff_log.signed_notes import NoteError

        try:
            return witness_keys(self.witness_keys)
        except NoteError as error:
            raise UsageError(f"BAILIFF_WITNESS_KEYS: {error}") from None

    @property
    def requester(self) -> str:
        """The actor of requests; empty where a key signs them: admission then takes the name of the key's holder."""
        return self.actor or ("" if self.key is not None else login_name())


def read_key(path: Path) -> bytes:
    """The Ed25519 private key in this file: 32 bytes, raw or as base64url text. Raises `ClientError`."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise UsageError(f"key {path}: cannot be read: {error.strerror}") from None
    if len(raw) == KEY_BYTES:
        return raw
    text = raw.strip()
    try:
        decoded = base64.b64decode(text + b"=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except binascii.Error:
        decoded = b""
    if len(decoded) != KEY_BYTES:
        raise UsageError(
            f"key {path}: expected {KEY_BYTES} bytes, raw or as base64url text; found {len(raw)} bytes",
            "to create a key in another file: bailiff key new FILE",
        )
    return decoded


def service_key(path: Path | None) -> bytes | None:
    """The key with which a service signs its requests, if its settings name one. Raises `SettingsError`."""
    try:
        return read_key(path) if path is not None else None
    except ClientError as problem:
        raise SettingsError([problem.text]) from None


def key_text(private_key: bytes) -> str:
    """The key in the form that `read_key` reads."""
    return base64.urlsafe_b64encode(private_key).decode().rstrip("=") + "\n"
