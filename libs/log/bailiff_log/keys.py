"""Ed25519 keys: files, signatures, public keys as text (base64url without padding), and those that a pool knows.

`cryptography` is imported where it is used: most commands neither sign nor read a signed log.
"""

import base64
import binascii
import os
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from bailiff_core.canonical import canonical_json

from .file_writing import replacing

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

    from bailiff_core.model.state import PoolState

KEY_BYTES = 32


class KeyFileError(Exception):
    """A private key file is missing, invalid, or accessible to other users. The text names the file and the remedy."""


def known_keys(state: "PoolState") -> dict[str, str]:
    """The keys that may sign requests to this pool, with their holders: those of the policy, and the pool's root key."""
    from bailiff_core.permissions import ROOT_ACTOR

    named = state.policy.identity.keys if state.policy is not None else {}
    keys = {key: holder for key, holder in named.items() if key not in state.revoked_keys}
    return keys | {state.root_key: ROOT_ACTOR} if state.root_key else keys


def new_private_key() -> bytes:
    """A new random private key, 32 bytes. It serves Ed25519 and X25519 alike; use each for one of them."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return Ed25519PrivateKey.generate().private_bytes_raw()


def key_id(private_key: bytes) -> str:
    """The public key as written in `keyid`, in certificates, and in the policy."""
    return to_text(public_key(private_key))


def public_key(private_key: bytes) -> bytes:
    """The public key, 32 bytes."""
    return _loaded(private_key).public_key().public_bytes_raw()


def sign_bytes(private_key: bytes, content: bytes) -> bytes:
    """The signature over these bytes, which must be unlike those of `sign_fields`."""
    return _loaded(private_key).sign(content)


def is_signed_bytes(key: bytes, signature: bytes, content: bytes) -> bool:
    """Whether this key made this signature over these bytes. False for malformed keys and signatures."""
    from cryptography.exceptions import InvalidSignature

    try:
        _loaded_public(key).verify(signature, content)
    except (ValueError, InvalidSignature):
        return False
    return True


def sign_fields(private_key: bytes, fields: Sequence[object]) -> str:
    """The signature over the canonical JSON of these fields. The first one names what is signed and its format."""
    return to_text(sign_bytes(private_key, canonical_json(list(fields))))


def is_signed(key: str, signature: str, fields: Sequence[object]) -> bool:
    """Whether this key made this signature over these fields. False for malformed keys and signatures."""
    try:
        return is_signed_bytes(from_text(key), from_text(signature), canonical_json(list(fields)))
    except ValueError:
        return False


@lru_cache(maxsize=16)  # loading a key costs as much as signing
def _loaded(private_key: bytes) -> "Ed25519PrivateKey":
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return Ed25519PrivateKey.from_private_bytes(private_key)


@lru_cache(maxsize=256)
def _loaded_public(key: bytes) -> "Ed25519PublicKey":
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    return Ed25519PublicKey.from_public_bytes(key)


def read_private_key(path: Path) -> bytes:
    """Returns the 32 bytes of the key in this file, which must be accessible to its owner only. Raises `KeyFileError`."""
    try:
        mode, text = path.stat().st_mode, path.read_bytes().strip()
    except OSError as error:
        raise KeyFileError(f"{path}: cannot be read: {error.strerror}") from None
    if mode & 0o077:
        raise KeyFileError(f"{path}: is accessible to other users; run: chmod 600 {path}")
    try:
        raw = from_text(text.decode())
    except ValueError:
        raw = b""
    if len(raw) != KEY_BYTES:
        raise KeyFileError(f"{path}: expected a private key, {KEY_BYTES} bytes as base64url; run: bailiff key new")
    return raw


def make_private_key(path: Path) -> bytes:
    """Creates a key file of mode 0600 and returns its key; returns the existing key if another process was faster.

    Raises `KeyFileError`.
    """
    private = new_private_key()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path, mode=0o600, only_new=True) as file:
            file.write(f"{to_text(private)}\n".encode())
            file.flush()
            os.fsync(file.fileno())
    except FileExistsError:
        return read_private_key(path)
    except OSError as error:
        raise KeyFileError(f"{path}: cannot be written: {error.strerror}") from None
    return private


def existing_or_new_key(path: Path) -> bytes:
    """The key in this file, made first where there is none. Raises `KeyFileError`."""
    return read_private_key(path) if path.exists() else make_private_key(path)


def to_text(raw: bytes) -> str:
    """Bytes as base64url without padding."""
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def from_text(text: str) -> bytes:
    """The inverse of `to_text`. Raises `ValueError`."""
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, UnicodeEncodeError) as error:
        raise ValueError("not base64url") from error
