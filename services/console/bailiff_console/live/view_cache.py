"""Derived values that the page shows and the pool's state does not hold: pending reasons, eviction totals by project.

A function of the records alone; saved next to the projection's snapshot.
"""

from dataclasses import asdict, dataclass, field
from typing import Any

from bailiff.render.plain_text import plain
from bailiff_core.explain import pending_reason_in
from bailiff_core.model.state import PoolState
from bailiff_core.model.work_lost import loss_of_end
from bailiff_core.records import Record, decisions


@dataclass(slots=True)
class PendingReason:
    """Why a job is pending: the record that says so, and its time, µs. rule: the protection that excludes most candidates."""

    text: str
    seq: int
    at: int
    rule: str | None = None


@dataclass(slots=True)
class Tally:
    """Evictions of a project's jobs (suffered) and for its jobs (caused), and the work lost by their ends."""

    suffered: int = 0
    caused: int = 0
    work_lost_gpu_ms: int = 0


@dataclass(slots=True)
class ViewCache:
    """Values by job and by project. first_record_at: the time of the log's first record, µs."""

    first_record_at: int = 0
    pending: dict[str, PendingReason] = field(default_factory=dict)
    tallies: dict[str, Tally] = field(default_factory=dict)

    def take(self, record: Record, state: PoolState) -> None:
        """Apply the next record. state: after it."""
        data = record.data
        if record.seq == 0:
            self.first_record_at = record.time
        self._note_pending(record)
        match data:
            case decisions.JobEnded():
                self.pending.pop(data.job, None)
                if data.outcome == "evicted":
                    self._tally_loss(state, data.job)
            case decisions.PreemptionDecided():
                for choice in data.new_victims:
                    if not choice.reserved and not choice.relocated:
                        self._tally(choice.project).suffered += 1
                        self._tally(data.preemptor.project).caused += 1
            case decisions.JobRequeued() | decisions.JobShrunk() if data.outcome.startswith("preempted"):
                self._tally_loss(state, data.job)

    def _tally_loss(self, state: PoolState, name: str) -> None:
        job = state.jobs.get(name)
        self._tally(job.project if job is not None else "").work_lost_gpu_ms += loss_of_end(state, name).work

    def clear(self) -> None:
        """Remove everything."""
        self.restore(ViewCache())

    def restore(self, other: "ViewCache") -> None:
        """Take over the values of `other`."""
        self.first_record_at, self.pending, self.tallies = other.first_record_at, other.pending, other.tallies

    def to_data(self) -> dict[str, Any]:
        """As JSON."""
        return asdict(self)

    @classmethod
    def from_data(cls, data: Any) -> "ViewCache":
        """Parse what `to_data` wrote. Raises `KeyError` or `TypeError` for anything else."""
        return cls(
            int(data["first_record_at"]),
            {job: PendingReason(**each) for job, each in data["pending"].items()},
            {project: Tally(**each) for project, each in data["tallies"].items()},
        )

    def _tally(self, project: str) -> Tally:
        return self.tallies.setdefault(project, Tally())

    def _note_pending(self, record: Record) -> None:
        found = pending_reason_in(record.data)
        if found is None:
            return
        job, reason = found
        excluded = record.data.explanation.excluded if isinstance(record.data, decisions.PreemptionRefused) else ()
        rule = max(excluded, key=lambda each: each.jobs).rule if excluded else None
        self.pending[job] = PendingReason(plain(reason), record.seq, record.time, rule)
