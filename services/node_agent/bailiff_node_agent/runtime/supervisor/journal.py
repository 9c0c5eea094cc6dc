"""The messages that a job may send to its node, and the journal in which they are kept."""

import contextlib
import json
import os
from typing import Any

from . import safe_open
from .host import boottime_us

MAX_JOURNAL_BYTES = 256 * 1024
MAX_COUNT = 2**53 - 1
COUNT, FLAG, DIGEST = f"a whole number from 0 to {MAX_COUNT}", "true or false", "64 hex digits"
OPTIONAL = f"{COUNT}, or null"
MESSAGE_FIELDS: dict[str, dict[str, str]] = {
    "hello": {"v": COUNT, "rank": COUNT, "pid": COUNT},
    "acknowledged": {"step": OPTIONAL},
    "progress": {"step": COUNT, "total": OPTIONAL},
    "checkpoint_started": {"step": OPTIONAL},
    "checkpoint_committed": {"step": COUNT, "bytes": COUNT, "microseconds": COUNT, "sha256": DIGEST, "agreed": FLAG},
    "saving_in_flight": {"step": OPTIONAL},
    "yielding": {},
    "done": {},
    "resumed": {"step": COUNT, "from_attempt": OPTIONAL, "skipped_checkpoints": COUNT},
}


def parse_message(line: bytes) -> dict[str, Any]:
    """The message in this line, with its known fields only. Raises `ValueError`; its text is sent back to the job."""
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        raise ValueError("the line is not a JSON object") from None
    if not isinstance(message, dict):
        raise ValueError("the line is not a JSON object")
    kind = message.get("type")
    fields = MESSAGE_FIELDS.get(kind) if isinstance(kind, str) else None
    if fields is None:
        raise ValueError(f"type: must be one of {', '.join(MESSAGE_FIELDS)}")
    for name, expected in fields.items():
        if not _is(expected, message.get(name)):
            raise ValueError(f"{name} of {kind}: must be {expected}")
    if kind == "hello" and message["v"] != 1:
        raise ValueError("v of hello: this node supports version 1 only")
    return {"type": kind, **{name: message.get(name) for name in fields}}


def _is(expected: str, value: object) -> bool:
    if expected == FLAG:
        return isinstance(value, bool)
    if expected == DIGEST:
        return isinstance(value, str) and len(value) == 64 and all(char in "0123456789abcdef" for char in value)
    number = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_COUNT
    return number or (expected == OPTIONAL and value is None)


def error_reply(why: str) -> bytes:
    """What a job reads instead of an acknowledgement."""
    return json.dumps({"ok": False, "error": why}).encode() + b"\n"


class Journal:
    """The task's messages, one numbered line each. A full journal keeps only the newest message of each type."""

    def __init__(self, path: str) -> None:
        self.path, self._number, self._size = path, 0, 0

    @classmethod
    def resume(cls, path: str) -> "Journal":
        """Continue the journal of an earlier process; what it did not write to its end is cut off."""
        journal = cls(path)
        with contextlib.suppress(FileNotFoundError), open(path, "r+b") as file:
            data = file.read()
            journal._size = data.rfind(b"\n") + 1
            file.truncate(journal._size)
            lines = data[: journal._size].splitlines()
            journal._number = max((json.loads(line)["n"] for line in lines), default=0)
        return journal

    def add(self, message: dict[str, Any], at_us: int | None = None) -> None:
        """Durable when this returns, except for progress, which is soon replaced. at_us: boot time; now. Raises `OSError`."""
        line = self._line(self._number + 1, boottime_us() if at_us is None else at_us, message)
        if self._size + len(line) > MAX_JOURNAL_BYTES:
            self._compact()
        with open(self.path, "ab", buffering=0) as file:
            try:
                if file.write(line) != len(line):
                    raise OSError("the disk is full")
                if message["type"] != "progress":
                    os.fsync(file.fileno())
            except OSError:
                with contextlib.suppress(OSError):
                    file.truncate(self._size)
                raise
        self._number, self._size = self._number + 1, self._size + len(line)

    def answer(self, line: bytes, folder: str) -> tuple[bytes, str]:
        """Keeps the message in this line. The reply to the job, and the message's type; empty: it is invalid, or not kept.

        folder: the task's control directory.
        """
        try:
            message = parse_message(line)
            if message["type"] == "acknowledged" and not safe_open.exists(folder, "notice.json"):
                raise ValueError("acknowledged: there is no eviction notice")
            self.add(message)
        except ValueError as problem:
            return error_reply(str(problem)), ""
        except OSError as problem:
            return error_reply(f"the node cannot write the message to disk: {problem.strerror or problem}"), ""
        return b'{"ok": true}\n', message["type"]

    def _line(self, number: int, at_us: int, message: dict[str, Any]) -> bytes:
        return json.dumps({"n": number, "at_us": at_us, **message}).encode() + b"\n"

    def _compact(self) -> None:
        newest: dict[str, bytes] = {}
        with open(self.path, "rb") as file:
            for line in file:
                kind = json.loads(line)["type"]
                newest.pop(kind, None)
                newest[kind] = line
        with open(f"{self.path}.new", "wb") as file:
            self._size = file.write(b"".join(newest.values()))
            file.flush()
            os.fsync(file.fileno())
        os.rename(f"{self.path}.new", self.path)
