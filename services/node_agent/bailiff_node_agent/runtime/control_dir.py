"""The control directory between a job and its node, from the node's side. docs/reference/job-library.md describes the formats.

Everything that the job has written there is untrusted input.
"""

import json
import os
from pathlib import Path

from bailiff_node_agent.disk.storage import write_durably
from bailiff_node_agent.runtime.supervisor.journal import MAX_COUNT, MAX_JOURNAL_BYTES, parse_message

from .port import JobMessage, Steps, User
from .supervisor import safe_open, steps

MAX_READ_BYTES = 4 * MAX_JOURNAL_BYTES
JOURNAL = "messages.jsonl"


def prepare(folder: Path, user: User | None = None) -> None:
    """Write the initial `steps`, before the job starts."""
    words = b"".join(word.to_bytes(8, "little", signed=True) for word in steps.INITIAL_STEPS)
    handle = os.open(folder / "steps", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    os.write(handle, words)
    if user is not None:
        os.fchown(handle, user.uid, user.gid)
    os.close(handle)


def write_deadlines(task_dir: Path, term_us: int, kill_us: int) -> None:
    """For the supervisor: boot-time µs of this boot. After a reboot there is no task to which they apply."""
    deadlines = {"term_boottime_us": term_us, "kill_boottime_us": kill_us}
    write_durably(task_dir / "deadlines.json", json.dumps(deadlines).encode())


def propose_step(folder: Path, step: int, *, agreed: bool) -> None:
    """Publish the gang's checkpoint step: proposed, to be confirmed by this rank, or agreed on by all."""
    steps.write_step(str(folder), "agreed" if agreed else "proposed", step)


def read_steps(folder: Path) -> Steps:
    """The progress that the job has published. Values out of range count as unknown."""
    words = steps.read_steps(str(folder))

    def count(name: str) -> int | None:
        return words[name] if 0 <= words[name] <= MAX_COUNT else None

    return Steps(count("published"), count("confirmed"), count("pace") or 0)


class JournalReader:
    """Reads a task's journal as it grows, and keeps the newest message of each type. A compacted journal is read anew."""

    def __init__(self, task_dir: Path) -> None:
        self._path = task_dir / JOURNAL
        self._inode, self._offset = 0, 0
        self._newest: dict[str, JobMessage] = {}

    def has_grown(self) -> bool:
        """Whether there is something to read."""
        try:
            at = os.lstat(self._path)
        except OSError:
            return False
        return (at.st_ino, at.st_size) != (self._inode, self._offset)

    def after(self, number: int) -> list[JobMessage]:
        """The messages with a higher number, of each type the newest."""
        if self.has_grown():
            self._read()
        return sorted((each for each in self._newest.values() if each.number > number), key=lambda each: each.number)

    def _read(self) -> None:
        """The task's user may have put anything in its place; lines that no supervisor would write are skipped."""
        try:
            handle = safe_open.open_file(str(self._path.parent), JOURNAL)
        except OSError:
            return
        with os.fdopen(handle, "rb") as file:
            status = os.fstat(handle)
            if status.st_ino != self._inode or status.st_size < self._offset:
                self._inode, self._offset = status.st_ino, 0
            file.seek(self._offset)
            data = file.read(MAX_READ_BYTES)
        complete = data[: data.rfind(b"\n") + 1]
        self._offset += len(complete)
        for line in complete.splitlines():
            message = _parse_line(line)
            if message is not None:
                self._newest[message.type] = message


def _parse_line(line: bytes) -> JobMessage | None:
    try:
        content, entry = parse_message(line), json.loads(line)
        number, at_us = entry["n"], entry["at_us"]
    except (ValueError, KeyError):
        return None
    return JobMessage(number, at_us, content) if _is_count(number) and _is_count(at_us) else None


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_COUNT
