"""What the page shows and the fold does not keep: why a job waits, who submitted it, what evictions did to projects.

It follows from the records alone, and is kept beside the view's snapshot.
"""

from dataclasses import asdict, dataclass, field
from typing import Any

from bailiff.eventline.lines import lines
from bailiff_core.model.pool import Pool
from bailiff_core.records import Record, decisions, facts


@dataclass(slots=True)
class Why:
    """Why a job waits, by which record; rule: what shields most of those who could have left for it."""

    text: str
    seq: int
    rule: str | None = None


@dataclass(slots=True)
class Tally:
    """What evictions did to a project's own jobs, and what was evicted for them."""

    suffered: int = 0
    caused: int = 0
    lost_gpu_ms: int = 0


@dataclass(slots=True)
class Memo:
    """By job, and by project. began: the time of the log's first record, µs."""

    began: int = 0
    why: dict[str, Why] = field(default_factory=dict)
    owners: dict[str, str] = field(default_factory=dict)
    tallies: dict[str, Tally] = field(default_factory=dict)

    def take(self, record: Record, pool: Pool) -> None:
        """The next record. pool: just after it."""
        data = record.data
        if record.seq == 0:
            self.began = record.time
        self._note_why(record, pool)
        match data:
            case facts.JobSubmitted():
                self.owners[data.demand.job] = data.user or data.demand.user or record.actor
            case decisions.JobEnded():
                self.why.pop(data.job, None)
                self.owners.pop(data.job, None)
            case decisions.PreemptionDecided():
                for choice in data.victims:
                    if not choice.reserved and not choice.goes_on:
                        self._tally(choice.project).suffered += 1
                        self._tally(data.asker.project).caused += 1
            case decisions.JobRequeued() | decisions.JobShrunk() if data.outcome.startswith("preempted"):
                job = pool.jobs.get(data.job)
                self._tally(job.project if job is not None else "").lost_gpu_ms += data.lost_gpu_ms

    def clear(self) -> None:
        """Nothing is known."""
        self.become(Memo())

    def become(self, other: "Memo") -> None:
        """The same as this one."""
        self.began, self.why, self.owners, self.tallies = other.began, other.why, other.owners, other.tallies

    def to_data(self) -> dict[str, Any]:
        """As JSON."""
        return asdict(self)

    @classmethod
    def from_data(cls, data: Any) -> "Memo":
        """What `to_data` wrote. Raises `KeyError` or `TypeError` for anything else."""
        return cls(
            int(data["began"]),
            {job: Why(**each) for job, each in data["why"].items()},
            dict(data["owners"]),
            {project: Tally(**each) for project, each in data["tallies"].items()},
        )

    def _tally(self, project: str) -> Tally:
        return self.tallies.setdefault(project, Tally())

    def _note_why(self, record: Record, pool: Pool) -> None:
        data = record.data
        if isinstance(data, decisions.PreemptionRefused):
            excluded = data.explanation.excluded
            rule = max(excluded, key=lambda each: each.jobs).rule if excluded else None
            self.why[data.asker.job] = Why(lines(record, pool)[0].said.more, record.seq, rule)
        elif isinstance(data, decisions.JobWaits | decisions.PreemptionRequested):
            self.why[data.job] = Why(data.reason, record.seq)
        elif isinstance(data, decisions.ReservationDropped):
            self.why[data.job] = Why(lines(record, pool)[0].said.more, record.seq)
