"""Encrypted, authenticated tokens for cookies, with a lifetime and a purpose.

Every console with the same secret can read them: after a restart, and replicas behind the same address.
"""

import base64
import hashlib
import hmac
import secrets
from collections.abc import Callable
from typing import Any

import orjson
from cryptography.fernet import Fernet, InvalidToken

SECRET_BYTES = 32


class Tokens:
    """secret: None: a random one for this process. purpose: tokens of another purpose are not valid."""

    def __init__(self, secret: str | None, purpose: str, now: Callable[[], float]) -> None:
        self._key = hmac.digest((secret or secrets.token_urlsafe(SECRET_BYTES)).encode(), purpose.encode(), hashlib.sha256)
        self._box = Fernet(base64.urlsafe_b64encode(self._key))
        self._now = now

    def make(self, data: Any) -> str:
        return self._box.encrypt_at_time(orjson.dumps(data), int(self._now())).decode()

    def read(self, token: str | None, max_age: int | None = None) -> Any:
        """The token's data; None if it is invalid, or older than `max_age` seconds."""
        encoded = (token or "").encode()
        try:
            made = self._box.extract_timestamp(encoded)
            if max_age is not None and not 0 <= self._now() - made < max_age:
                return None
            return orjson.loads(self._box.decrypt(encoded))
        except (InvalidToken, ValueError):
            return None

    def derive(self, text: str) -> str:
        """A secret derived from this text, deterministic and unguessable."""
        return base64.urlsafe_b64encode(hmac.digest(self._key, b"derived " + text.encode(), hashlib.sha256)).decode().rstrip("=")
