"""Each signature is verified once: the services of a pool share a process here, and each verifies what the others have."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING
from unittest.mock import patch

from bailiff_log import keys

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

_load = keys._loaded_public


class _Remembering:
    """A public key that remembers which signatures of it were valid."""

    def __init__(self, key: "Ed25519PublicKey") -> None:
        self._key, self._valid = key, set[tuple[bytes, bytes]]()

    def verify(self, signature: bytes, content: bytes) -> None:
        if (signature, content) not in self._valid:
            self._key.verify(signature, content)
            self._valid.add((signature, content))


@contextmanager
def verified_once() -> Iterator[None]:
    """While it lasts."""
    with patch.object(keys, "_loaded_public", cache(lambda key: _Remembering(_load(key)))):
        yield
