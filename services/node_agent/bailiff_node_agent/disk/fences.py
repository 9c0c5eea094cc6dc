"""Fences: outdated commands have no effect (docs/reference/log-protocol-fences.md#fences)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from .journal import Entry, Journal
from .storage import Storage

Position = tuple[int, int]
"""(epoch, seq) of the record that ordered a command; compared epoch first."""

Verdict = Literal["new", "same", "stale"]


@dataclass
class JobFence:
    """The positions up to which one job's commands were obeyed, by task, since tasks of an attempt start and stop one by one.

    floor: the highest position of earlier attempts; commands up to it are stale."""

    attempt: int
    highest: Position
    floor: Position | None = None
    tasks: dict[int, Position] = field(default_factory=dict)

    def verdict(self, attempt: int, task: int, position: Position) -> Verdict:
        if position > self.highest:
            return "new"
        if attempt != self.attempt or (self.floor is not None and position <= self.floor):
            return "stale"
        mark = self.tasks.get(task)
        if mark is None or mark < position:
            return "new"
        return "same" if mark == position else "stale"

    def obey(self, attempt: int, tasks: Iterable[int], position: Position) -> None:
        if attempt != self.attempt:
            self.attempt, self.floor, self.tasks = attempt, self.highest, {}
        self.tasks.update((task, position) for task in tasks)
        self.highest = max(self.highest, position)


class Fences:
    def __init__(self, storage: Storage) -> None:
        self._journal = Journal(storage, "fences")
        self._admission_epoch = -1
        self._highest: Position | None = None
        self._evidence: dict[str, Entry] = {}  # of the newest epoch, and of the highest position
        self._jobs: dict[str, JobFence] = {}
        self._devices: dict[str, Position] = {}
        for entry in self._journal.entries:
            self._apply(entry)

    def admission_epoch_ok(self, epoch: int, evidence: Entry | None = None) -> bool:
        """Whether no newer admission writer is known; records a newer one. evidence: that its command is, if it was signed."""
        if epoch > self._admission_epoch:
            self._record({"epoch": epoch} | _kept(evidence))
        return epoch == self._admission_epoch

    @property
    def admission_epoch(self) -> int:
        """The highest known epoch of admission; -1 before any."""
        return self._admission_epoch

    def all_before(self, epoch: int, job: str, devices: Iterable[str]) -> bool:
        """Whether every obeyed command about the job and these devices was ordered before that epoch."""
        mark = self._jobs.get(job)
        marks = [mark.highest] if mark is not None else []
        marks += [self._devices[device] for device in devices if device in self._devices]
        return all(position[0] < epoch for position in marks)

    @property
    def highest(self) -> Position | None:
        """The highest position of an accepted command: a log whose head is below it was truncated."""
        return self._highest

    @property
    def evidence(self) -> Sequence[Entry]:
        """What shows the newest epoch and the highest position, as far as the commands were signed."""
        return tuple(self._evidence.values())

    def obey(
        self, job: str, attempt: int, tasks: Mapping[int, Sequence[str]], position: Position, evidence: Entry | None = None
    ) -> dict[int, Verdict]:
        """Whether to carry out a command, by task. tasks: each with the devices that it gets as a whole.

        "new" is on disk before it is returned, so it is returned once. "same": the position is that of the task and of every
        device. A shared device has no fence: its tasks start in any order, and the ledger of shares limits them.
        """
        verdicts = {task: self._verdict(job, attempt, task, devices, position) for task, devices in tasks.items()}
        new = [task for task, verdict in verdicts.items() if verdict == "new"]
        if new:
            devices = [device for task in new for device in tasks[task]]
            self._record(
                {"job": job, "attempt": attempt, "tasks": new, "devices": devices, "at": list(position)} | _kept(evidence)
            )
        return verdicts

    def _verdict(self, job: str, attempt: int, task: int, devices: Sequence[str], position: Position) -> Verdict:
        mark = self._jobs.get(job)
        of_job: Verdict = mark.verdict(attempt, task, position) if mark is not None else "new"
        marks = [self._devices.get(device) for device in devices]
        if of_job == "stale" or any(at is not None and at > position for at in marks):
            return "stale"
        return "same" if of_job == "same" and all(at == position for at in marks) else "new"

    def _record(self, entry: Entry) -> None:
        self._journal.add(entry)
        self._apply(entry)
        if len(self._journal) > 1000 + 2 * (len(self._jobs) + len(self._devices)):
            self._journal.rewrite(self._compacted())

    def _apply(self, entry: Entry) -> None:
        match entry:
            case {"epoch": int(epoch), **rest}:
                self._admission_epoch = epoch
                self._keep_evidence("epoch", rest)
            case {"at": [int(epoch), int(seq)], **marked}:
                position = (epoch, seq)
                if self._highest is None or position >= self._highest:
                    self._highest = position
                    self._keep_evidence("position", marked)
                match marked:
                    case {"job": str(job), "attempt": int(attempt), "tasks": [*tasks]}:
                        self._jobs.setdefault(job, JobFence(attempt, position)).obey(attempt, tasks, position)
                for device in marked["devices"]:
                    self._devices[device] = position
            case {"job": str(job), "attempt": attempt, "floor": floor, "highest": highest, "marks": [*marks]}:
                by_task = {task: (epoch, seq) for task, epoch, seq in marks}
                self._jobs[job] = JobFence(attempt, tuple(highest), tuple(floor) if floor else None, by_task)
            case _:
                raise ValueError(f"fences: unknown entry {entry}")

    def _keep_evidence(self, of: str, entry: Entry) -> None:
        if "evidence" in entry:
            self._evidence[of] = entry["evidence"]
        else:
            self._evidence.pop(of, None)

    def _compacted(self) -> list[Entry]:
        entries: list[Entry] = [{"epoch": self._admission_epoch} | _kept(self._evidence.get("epoch"))]
        if self._highest:
            entries.append({"devices": [], "at": list(self._highest)} | _kept(self._evidence.get("position")))
        entries += (
            {
                "job": job,
                "attempt": mark.attempt,
                "floor": list(mark.floor) if mark.floor else None,
                "highest": list(mark.highest),
                "marks": [[task, *at] for task, at in mark.tasks.items()],
            }
            for job, mark in self._jobs.items()
        )
        entries += ({"devices": [device], "at": list(at)} for device, at in self._devices.items())
        return entries


def _kept(evidence: Entry | None) -> Entry:
    return {"evidence": evidence} if evidence is not None else {}
