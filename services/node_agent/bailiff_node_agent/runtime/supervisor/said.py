"""What a job may say to its node, and the journal that keeps it."""

import contextlib
import json
import os
from typing import Any

from .host import boottime_us

LONGEST_JOURNAL = 256 * 1024
MOST = 2**53 - 1
COUNT, MAYBE, FLAG, DIGEST = f"a whole number from 0 to {MOST}", "such a number or null", "true or false", "64 hex digits"
SAYS: dict[str, dict[str, str]] = {
    "hello": {"v": COUNT, "rank": COUNT, "pid": COUNT},
    "acknowledged": {"step": MAYBE},
    "progress": {"step": COUNT, "total": MAYBE},
    "checkpoint_started": {"step": MAYBE},
    "checkpoint_committed": {"step": COUNT, "bytes": COUNT, "microseconds": COUNT, "sha256": DIGEST, "agreed": FLAG},
    "saving_in_flight": {"step": MAYBE},
    "yielding": {},
    "resumed": {"step": COUNT, "from_attempt": MAYBE, "passed_over": COUNT},
}


def understood(line: bytes) -> dict[str, Any]:
    """What a line of the job says, and nothing else of it. Raises `ValueError` with a sentence for whoever wrote it."""
    try:
        said = json.loads(line)
    except (ValueError, RecursionError):
        raise ValueError("the line is no JSON object") from None
    if not isinstance(said, dict):
        raise ValueError("the line is no JSON object")
    kind = said.get("say")
    fields = SAYS.get(kind) if isinstance(kind, str) else None
    if fields is None:
        raise ValueError(f"say: not one of {', '.join(SAYS)}")
    for name, wanted in fields.items():
        if not _is(wanted, said.get(name)):
            raise ValueError(f"{name} of {kind}: must be {wanted}")
    if kind == "hello" and said["v"] != 1:
        raise ValueError("v of hello: this node speaks version 1 alone")
    return {"say": kind, **{name: said.get(name) for name in fields}}


def _is(wanted: str, value: object) -> bool:
    if wanted == FLAG:
        return isinstance(value, bool)
    if wanted == DIGEST:
        return isinstance(value, str) and len(value) == 64 and all(char in "0123456789abcdef" for char in value)
    number = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST
    return number or (wanted == MAYBE and value is None)


class Journal:
    """What the task has said, one line each, numbered. When it has grown long only the newest word of each kind is kept."""

    def __init__(self, path: str) -> None:
        self.path, self._number, self._size = path, 0, 0

    def add(self, said: dict[str, Any]) -> None:
        """On disk when this returns, but for progress, which is old in a moment. Raises `OSError`."""
        line = self._line(self._number + 1, boottime_us(), said)
        if self._size + len(line) > LONGEST_JOURNAL:
            self._shorten()
        with open(self.path, "ab", buffering=0) as file:
            try:
                if file.write(line) != len(line):
                    raise OSError("the disk is full")
                if said["say"] != "progress":
                    os.fsync(file.fileno())
            except OSError:
                with contextlib.suppress(OSError):
                    file.truncate(self._size)
                raise
        self._number, self._size = self._number + 1, self._size + len(line)

    def _line(self, number: int, at_us: int, said: dict[str, Any]) -> bytes:
        return json.dumps({"n": number, "at_us": at_us, **said}).encode() + b"\n"

    def _shorten(self) -> None:
        newest: dict[str, bytes] = {}
        with open(self.path, "rb") as file:
            for line in file:
                kind = json.loads(line)["say"]
                newest.pop(kind, None)
                newest[kind] = line
        with open(f"{self.path}.new", "wb") as file:
            self._size = file.write(b"".join(newest.values()))
            file.flush()
            os.fsync(file.fileno())
        os.rename(f"{self.path}.new", self.path)
