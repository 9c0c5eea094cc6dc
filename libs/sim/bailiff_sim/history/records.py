"""The common form of another scheduler's record: rows as a source yields them, jobs as they are kept."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from bailiff_sim.cluster import Machine

SECOND, HOUR = 1_000_000, 3_600_000_000
State = Literal["succeeded", "failed", "cancelled", "preempted", "lost", "requeued", "running", "pending"]
ENDS_A_JOB: frozenset[str] = frozenset({"succeeded", "failed", "cancelled"})
"""States after which a further row with the same id is a new job. The others are followed by another attempt of the same job."""


class BadLine(NamedTuple):
    """A line or object that cannot be read.

    Attributes:
        where: File and line, or file and object.
        field: Its column or path.
    """

    where: str
    field: str
    reason: str

    def __str__(self) -> str:
        return f"{self.where}: {self.field}: {self.reason}"


class Skipped(NamedTuple):
    """A line or object that is left out on purpose, such as a job step. jobs: how many jobs it stands for."""

    reason: str
    jobs: int = 1


class AttemptRow(NamedTuple):
    """One run of one job. Times in µs UTC.

    component: number within a heterogeneous job; its GPUs are added. start, end: None if unknown. ran: run time without
    suspensions, µs; None: end less start. gpus: whole GPUs of all its nodes. gpu_milli: thousandths of a GPU for a share of one.
    preemptor: what the record names as such; empty: nothing. cpu_milli, memory_bytes: of all its nodes; 0 if not given.
    """

    job: str
    submitted: int
    start: int | None
    end: int | None
    state: State
    gpus: int
    component: int = 0
    ran: int | None = None
    node_count: int = 1
    nodes: tuple[str, ...] = ()
    user: str = ""
    project: str = ""
    tier: str = ""
    model: str = ""
    limit: int | None = None
    preemptor: str = ""
    gpu_milli: int = 1000
    cpu_milli: int = 0
    memory_bytes: int = 0


Found = AttemptRow | BadLine | Skipped


class Attempt(NamedTuple):
    """One run of a `HistoryJob`, as in `AttemptRow`."""

    start: int | None
    end: int | None
    ran: int | None
    state: State
    nodes: tuple[str, ...]
    preemptor: str

    @property
    def work(self) -> int | None:
        """Run time in µs; None if it is unknown."""
        if self.ran is not None:
            return self.ran
        return None if self.start is None or self.end is None else max(0, self.end - self.start)


class HistoryJob(NamedTuple):
    """One job with its attempts in time order. fields: as in `AttemptRow`."""

    name: str
    user: str
    project: str
    tier: str
    submitted: int
    gpus: int
    gpu_milli: int
    node_count: int
    model: str
    limit: int | None
    cpu_milli: int
    memory_bytes: int
    attempts: tuple[Attempt, ...]


@dataclass(frozen=True)
class Tier:
    """A level of priority, as the old scheduler had it. value: None if the files do not say.

    preempts: the tiers whose jobs its own may preempt; None: the files do not say, so those of a lower value.
    """

    value: int | None = None
    preemptible: bool = True
    preempts: tuple[str, ...] | None = None


@dataclass(frozen=True)
class ProjectFact:
    """An account, queue or namespace.

    Attributes:
        gpu_limit: A hard cap; None: not given.
        weight: Weight of its fair share; None: not given.
    """

    parent: str = ""
    gpu_quota: int | None = None
    gpu_limit: int | None = None
    weight: int | None = None


@dataclass
class Site:
    """What is known beside the jobs.

    Attributes:
        unknown: Sentences about what the files do not say.
        not_simulated: About what they say, but the simulation leaves out.
        unmeasured_preemptions: Those that are known, but not how long the job had run.
    """

    scheduler: str
    machines: list[Machine] = field(default_factory=list)
    tiers: dict[str, Tier] = field(default_factory=dict)
    projects: dict[str, ProjectFact] = field(default_factory=dict)
    unknown: list[str] = field(default_factory=list)
    not_simulated: list[str] = field(default_factory=list)
    unmeasured_preemptions: int = 0

    def forbids(self, preemptor: str, victim: str) -> bool:
        """Whether a job of this tier cannot have preempted one of that, by what the files say."""
        by, of = self.tiers.get(preemptor, Tier()), self.tiers.get(victim, Tier())
        if by.preempts is not None:
            return victim not in by.preempts
        return by.value is not None and of.value is not None and by.value <= of.value


class Source(NamedTuple):
    """A source of rows.

    Attributes:
        site: Complete once `rows` is exhausted.
        names: Of preemptors, id as recorded to job.
    """

    site: Site
    rows: Iterable[Found]
    names: Mapping[str, str] = {}
