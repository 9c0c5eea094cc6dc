"""What the console gives a browser to keep: unreadable there, authenticated, of no use after its time or elsewhere.

Whoever has the same secret reads it: the console after a restart, and a second one behind the same address.
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
    """secret: none, and a random one is made, which ends with this process. purpose: tokens of another one are none here."""

    def __init__(self, secret: str | None, purpose: str, now: Callable[[], float]) -> None:
        self._key = hmac.digest((secret or secrets.token_urlsafe(SECRET_BYTES)).encode(), purpose.encode(), hashlib.sha256)
        self._box = Fernet(base64.urlsafe_b64encode(self._key))
        self._now = now

    def make(self, data: Any) -> str:
        """For a cookie."""
        return self._box.encrypt_at_time(orjson.dumps(data), int(self._now())).decode()

    def read(self, token: str | None, lasts: int | None = None) -> Any:
        """What was put in; None where it is none of ours, or older than so many seconds."""
        given = (token or "").encode()
        try:
            made = self._box.extract_timestamp(given)
            if lasts is not None and not 0 <= self._now() - made < lasts:
                return None
            return orjson.loads(self._box.decrypt(given))
        except (InvalidToken, ValueError):
            return None

    def derived(self, text: str) -> str:
        """Always the same for this text, and nobody else can tell it."""
        return base64.urlsafe_b64encode(hmac.digest(self._key, b"derived " + text.encode(), hashlib.sha256)).decode().rstrip("=")
