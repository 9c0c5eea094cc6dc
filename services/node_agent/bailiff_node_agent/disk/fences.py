"""What keeps a command of the past from having an effect (log protocol §6)."""

from collections.abc import Sequence
from typing import Literal

from bailiff_node_agent.disk.journal import Entry, Journal
from bailiff_node_agent.disk.storage import Storage

Position = tuple[int, int]
"""(epoch, seq) of the record that orders a command; the epoch weighs first."""

Verdict = Literal["new", "same", "stale"]


class Fences:
    def __init__(self, storage: Storage) -> None:
        self._journal = Journal(storage, "fences")
        self._admission_epoch = -1
        self._highest: Position | None = None
        self._jobs: dict[str, Position] = {}
        self._devices: dict[str, Position] = {}
        for entry in self._journal.entries:
            self._apply(entry)

    def admission_epoch_ok(self, epoch: int) -> bool:
        """Whether this admission writer is not older than one already heard of; remembers a newer one."""
        if epoch > self._admission_epoch:
            self._record({"epoch": epoch})
        return epoch == self._admission_epoch

    @property
    def admission_epoch(self) -> int:
        """The highest one heard of; -1 before any."""
        return self._admission_epoch

    @property
    def highest(self) -> Position | None:
        """The highest position ever obeyed: a log whose head is below it has been cut short."""
        return self._highest

    def obey(self, job: str, devices: Sequence[str], position: Position) -> Verdict:
        """Whether to carry a command out. "new" is on disk before it is said, so it is said once.

        "same" needs this position on the job and on every device: one record may place several tasks of a job on one
        machine, each with devices of its own, and may evict several jobs from one device.
        """
        job_mark = self._jobs.get(job)
        marks = [job_mark, *(self._devices.get(device) for device in devices)]
        if any(mark is not None and mark > position for mark in marks):
            return "stale"
        if all(mark == position for mark in marks):
            return "same"
        self._record({"job": job, "devices": list(devices), "at": list(position)})
        return "new"

    def forget_job(self, job: str) -> None:
        """Only for a job that no command can name any more; the marks of its devices stay."""
        if job in self._jobs:
            self._record({"forget": job})

    def _record(self, entry: Entry) -> None:
        self._journal.add(entry)
        self._apply(entry)
        if len(self._journal) > 1000 + 2 * (len(self._jobs) + len(self._devices)):
            self._journal.rewrite(self._shortest())

    def _apply(self, entry: Entry) -> None:
        match entry:
            case {"epoch": int(epoch)}:
                self._admission_epoch = epoch
            case {"at": [int(epoch), int(seq)], **marked}:
                position = (epoch, seq)
                self._highest = max(self._highest or position, position)
                if "job" in marked:
                    self._jobs[marked["job"]] = position
                for device in marked["devices"]:
                    self._devices[device] = position
            case {"forget": str(job)}:
                self._jobs.pop(job, None)
            case _:
                raise ValueError(f"an entry in the fences that this release does not know: {entry}")

    def _shortest(self) -> list[Entry]:
        entries: list[Entry] = [{"epoch": self._admission_epoch}]
        if self._highest:
            entries.append({"devices": [], "at": list(self._highest)})
        entries += ({"job": job, "devices": [], "at": list(at)} for job, at in self._jobs.items())
        entries += ({"devices": [device], "at": list(at)} for device, at in self._devices.items())
        return entries
