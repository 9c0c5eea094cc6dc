"""Derived values that the page shows and the pool's state does not hold: pending reasons, users, eviction totals by project.

A function of the records alone; saved next to the projection's snapshot.
"""

from dataclasses import asdict, dataclass, field
from typing import Any

from bailiff.render.record_text.lines import lines
from bailiff_core.model.state import PoolState
from bailiff_core.records import Record, decisions, facts


@dataclass(slots=True)
class PendingReason:
    """Why a job is pending: the record that says so, and its time, µs. rule: the protection that excludes most candidates."""

    text: str
    seq: int
    at: int
    rule: str | None = None


@dataclass(slots=True)
class Tally:
    """Evictions of a project's jobs (suffered) and for its jobs (caused), and the work lost."""

    suffered: int = 0
    caused: int = 0
    lost_gpu_ms: int = 0


@dataclass(slots=True)
class ViewCache:
    """Values by job and by project. first_record_at: the time of the log's first record, µs."""

    first_record_at: int = 0
    pending: dict[str, PendingReason] = field(default_factory=dict)
    owners: dict[str, str] = field(default_factory=dict)
    tallies: dict[str, Tally] = field(default_factory=dict)

    def take(self, record: Record, state: PoolState) -> None:
        """Apply the next record. state: after it."""
        data = record.data
        if record.seq == 0:
            self.first_record_at = record.time
        self._note_pending(record, state)
        match data:
            case facts.JobSubmitted():
                self.owners[data.demand.job] = data.user or data.demand.user or record.actor
            case decisions.JobEnded():
                self.pending.pop(data.job, None)
                self.owners.pop(data.job, None)
            case decisions.PreemptionDecided():
                for choice in data.victims:
                    if not choice.reserved and not choice.relocated:
                        self._tally(choice.project).suffered += 1
                        self._tally(data.preemptor.project).caused += 1
            case decisions.JobRequeued() | decisions.JobShrunk() if data.outcome.startswith("preempted"):
                job = state.jobs.get(data.job)
                self._tally(job.project if job is not None else "").lost_gpu_ms += data.lost_gpu_ms

    def clear(self) -> None:
        """Remove everything."""
        self.restore(ViewCache())

    def restore(self, other: "ViewCache") -> None:
        """Take over the values of `other`."""
        self.first_record_at, self.pending, self.owners, self.tallies = (
            other.first_record_at,
            other.pending,
            other.owners,
            other.tallies,
        )

    def to_data(self) -> dict[str, Any]:
        """As JSON."""
        return asdict(self)

    @classmethod
    def from_data(cls, data: Any) -> "ViewCache":
        """Parse what `to_data` wrote. Raises `KeyError` or `TypeError` for anything else."""
        return cls(
            int(data["first_record_at"]),
            {job: PendingReason(**each) for job, each in data["pending"].items()},
            dict(data["owners"]),
            {project: Tally(**each) for project, each in data["tallies"].items()},
        )

    def _tally(self, project: str) -> Tally:
        return self.tallies.setdefault(project, Tally())

    def _note_pending(self, record: Record, state: PoolState) -> None:
        data = record.data
        if isinstance(data, decisions.PreemptionRefused):
            excluded = data.explanation.excluded
            rule = max(excluded, key=lambda each: each.jobs).rule if excluded else None
            self.pending[data.preemptor.job] = PendingReason(
                lines(record, state)[0].statement.detail, record.seq, record.time, rule
            )
        elif isinstance(data, decisions.JobPending | decisions.PreemptionRequested):
            self.pending[data.job] = PendingReason(data.reason, record.seq, record.time)
        elif isinstance(data, decisions.ReservationDropped):
            self.pending[data.job] = PendingReason(lines(record, state)[0].statement.detail, record.seq, record.time)
