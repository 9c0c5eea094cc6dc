"""The wall between a job and its node, from the node's side: what lies in a task's control directory for both.

The formats are those of docs/jobs.md. What the job has written there is hostile input.
"""

import json
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bailiff_node_agent.disk.storage import write_durably
from bailiff_node_agent.runtime.contract import Said, Steps, User
from bailiff_node_agent.runtime.supervisor import notice, steps
from bailiff_node_agent.runtime.supervisor.said import LONGEST_JOURNAL, MOST, understood

MOST_AT_ONCE = 4 * LONGEST_JOURNAL


def prepare(folder: Path, user: User | None = None) -> None:
    """The words in shared memory, before anybody looks at them."""
    words = b"".join(word.to_bytes(8, "little", signed=True) for word in steps.FIRST_STEPS)
    handle = os.open(folder / "steps", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    os.write(handle, words)
    if user is not None:
        os.fchown(handle, user.uid, user.gid)
    os.close(handle)


def put_notice(control: Path, folder: Path, about: Mapping[str, Any], soft_us: int, hard_us: int, *, alone: bool) -> None:
    """A notice is out from now on, in this folder."""
    notice.write_notice(str(control), str(folder), dict(about), soft_us, hard_us, alone=alone)


def take_back(control: Path, folder: Path) -> None:
    """No notice is out any more, and no deadline runs."""
    notice.take_back(str(control), str(folder))


def put_deadlines(folder: Path, term_us: int, kill_us: int) -> None:
    """For the supervisor. They are durations of this boot; after another one there is no task to keep them for."""
    told = {"term_boottime_us": term_us, "kill_boottime_us": kill_us}
    write_durably(folder / "deadlines.json", json.dumps(told).encode())


def propose(folder: Path, step: int, *, agreed: bool) -> None:
    """The gang's common step, to be confirmed by this rank, or agreed on by all."""
    steps.write_step(str(folder), "agreed" if agreed else "proposed", step)


def read_steps(folder: Path) -> Steps:
    """What the job has published there; what cannot be is not known."""
    words = steps.read_steps(str(folder))

    def count(name: str) -> int | None:
        return words[name] if 0 <= words[name] <= MOST else None

    return Steps(count("published"), count("confirmed"), count("pace") or 0)


class Ledger:
    """The lines of `said.jsonl`, read as it grows: of each kind the newest. When it was made shorter it is read anew."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "said.jsonl"
        self._inode, self._offset = 0, 0
        self._newest: dict[str, Said] = {}

    def grew(self) -> bool:
        """Whether there is something to read."""
        try:
            at = os.lstat(self._path)
        except OSError:
            return False
        return (at.st_ino, at.st_size) != (self._inode, self._offset)

    def after(self, number: int) -> list[Said]:
        """Every line since that number."""
        if self.grew():
            self._read()
        return sorted((line for line in self._newest.values() if line.number > number), key=lambda line: line.number)

    def _read(self) -> None:
        """The task's user can put anything in its place; what is not as the supervisor writes it is passed over."""
        try:
            handle = os.open(self._path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:
            return
        about = os.fstat(handle)
        if not stat.S_ISREG(about.st_mode):
            os.close(handle)
            return
        with os.fdopen(handle, "rb") as file:
            if about.st_ino != self._inode or about.st_size < self._offset:
                self._inode, self._offset = about.st_ino, 0
            file.seek(self._offset)
            data = file.read(MOST_AT_ONCE)
        whole = data[: data.rfind(b"\n") + 1]
        self._offset += len(whole)
        for line in whole.splitlines():
            said = _line(line)
            if said is not None:
                self._newest[said.say] = said


def _line(line: bytes) -> Said | None:
    try:
        content, found = understood(line), json.loads(line)
        number, at_us = found["n"], found["at_us"]
    except (ValueError, KeyError):
        return None
    return Said(number, at_us, content) if _is_count(number) and _is_count(at_us) else None


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST
