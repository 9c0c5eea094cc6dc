"""The keys that end an attachment, as of docker: `ctrl-p,ctrl-q`."""

from __future__ import annotations

DEFAULT = "ctrl-p,ctrl-q"


class InvalidKeys(ValueError):
    """The keys cannot be read."""


def parse_keys(text: str) -> bytes:
    """The bytes of `ctrl-p,ctrl-q`: single characters, or `ctrl-` and one of a-z @ [ \\ ] ^ _. Raises `InvalidKeys`."""
    found = bytearray()
    for key in text.split(","):
        if len(key) == 1 and key.isascii() and key.isprintable():
            found += key.encode()
        elif len(key) == 6 and key.lower().startswith("ctrl-") and "@" <= key[5].upper() <= "_":
            found.append(ord(key[5].upper()) & 0x1F)
        else:
            raise InvalidKeys(f"expected keys as in {DEFAULT}, found {key!r}")
    return bytes(found)


class DetachKeys:
    """Finds the keys in what is typed, and where there are none nothing.

    The beginning of them is held back until it is clear that they do not follow.
    """

    def __init__(self, keys: bytes) -> None:
        self._keys, self._held = keys, bytearray()

    def feed(self, data: bytes) -> tuple[bytes, bool]:
        """What to send, and whether all of the keys were typed."""
        sent = bytearray()
        for byte in data:
            self._held.append(byte)
            while self._held and not self._keys.startswith(self._held):
                sent.append(self._held.pop(0))
            if self._keys and self._held == self._keys:
                return bytes(sent), True
        return bytes(sent), False
