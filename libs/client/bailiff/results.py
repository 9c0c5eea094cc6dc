"""What the Python client returns about jobs: plain frozen values. Times are UTC."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

ENDED = ("succeeded", "failed", "cancelled")


@dataclass(frozen=True, slots=True)
class Accepted:
    """A request that admission accepted: the record `seq` of the pool's log."""

    pool: str
    seq: int

    def __str__(self) -> str:
        return f"{self.pool}#{self.seq}"


@dataclass(frozen=True, slots=True)
class Task:
    """One task of a job's present attempt.

    Attributes:
        devices: Numbers of its GPUs on the node.
        step: The last reported step.
        checkpoint_step: The step of the last checkpoint.
    """

    index: int
    node: str
    devices: tuple[int, ...]
    state: str
    exit_code: int | None
    started_at: datetime | None
    step: int | None
    checkpoint_step: int | None
    checkpoint_at: datetime | None


@dataclass(frozen=True, slots=True)
class JobStatus:
    """A job, as of the end of the log.

    Attributes:
        state: `running`, `starting`, `reserved`, `evicting`, `pausing`, `cancelling`, `suspended`, `pending`, `waiting`,
            `paused`, `succeeded`, `failed` or `cancelled`.
        user: Who submitted it.
        gpus: Whole GPUs and fractions of the gang, without GPU memory.
        task_count: Number of requested tasks, of which at least min_tasks run together.
        jobs_ahead: Number of jobs ahead of it in the queue; None unless it is pending.
        nodes: The nodes on which it runs.
        reserved_nodes: The nodes on which resources are reserved for it.
        attempt: Number of the attempt; 0 before the first start.
        note: Why it is in this state.
    """

    name: str
    pool: str
    state: str
    user: str
    project: str
    priority_class: str
    priority: int
    preemptible: bool
    labels: Mapping[str, str]
    gpus: float
    task_count: int
    min_tasks: int
    nodes: tuple[str, ...]
    reserved_nodes: tuple[str, ...]
    jobs_ahead: int | None
    attempt: int
    evictions: int
    failures: int
    submitted_at: datetime | None
    started_at: datetime | None
    ended_at: datetime | None
    note: str
    tasks: tuple[Task, ...]

    @property
    def ended(self) -> bool:
        """Whether it has ended."""
        return self.state in ENDED

    @property
    def succeeded(self) -> bool:
        """Whether it has ended with success."""
        return self.state == "succeeded"


@dataclass(frozen=True, slots=True)
class Event:
    """What happened to a job or a node, as in `bailiff events`.

    Attributes:
        type: The type, such as Started or Preempted (docs/reference/cli/events.md).
        user: Who submitted the job.
        by: The preemptor.
        actor: Who requested it.
        tasks: The tasks concerned, as in 4-7; empty for all.
        node: Comma-separated node names.
        seq: Number of the record.
        id: Its id, the same for every reader of the log.
    """

    id: str
    type: str
    time: datetime
    pool: str
    seq: int
    job: str
    user: str
    project: str
    tasks: str
    node: str
    reason: str
    by: str
    actor: str

    def __str__(self) -> str:
        about = self.job or self.node
        return f"{self.time:%H:%M:%S} {self.type:<13} {about}  {self.reason}".rstrip()


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line that a task wrote.

    Attributes:
        time: When it reached Kafka.
    """

    text: str
    task: int
    attempt: int
    node: str
    time: datetime

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Sentence:
    """One sentence of an explanation.

    Attributes:
        records: The records that it cites.
    """

    text: str
    records: tuple[int, ...]

    def __str__(self) -> str:
        cited = ", ".join(f"#{seq}" for seq in self.records)
        return f"{self.text} ({cited})" if cited else self.text


@dataclass(frozen=True, slots=True)
class Section:
    """A question and its answers."""

    question: str
    sentences: tuple[Sentence, ...]

    def __str__(self) -> str:
        return "\n".join([self.question, *(f"  {sentence}" for sentence in self.sentences)])


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a job is in its state, or why a decision was made.

    Attributes:
        reproduced: Whether searching again gives the same proposals.
        data: Everything, as `bailiff explain -o json` prints it.
    """

    about: str
    pool: str
    head_seq: int
    sections: tuple[Section, ...]
    reproduced: bool | None
    data: Mapping[str, Any]

    def __str__(self) -> str:
        return "\n\n".join(map(str, self.sections))


@dataclass(frozen=True, slots=True)
class Victim:
    """A job that would be preempted.

    Attributes:
        project: Empty: none.
        effect: `evicted`, `ends`, `shrinks`, `restarts with fewer tasks`, `migrates` or `loses its reservation`.
        tasks: The evicted tasks, as in `4-7`; empty: all.
        gpus: Number of GPUs of the evicted tasks.
        work_lost_gpu_ms: Work since its last checkpoint, or since its start.
        restart_gpu_ms: What its restart costs: as the policy assumes, or as measured.
        restart_measured: By its last snapshot and the restore from it.
        to: The new node of each task that has one, in task order.
    """

    job: str
    project: str
    priority_class: str
    priority: int
    effect: str
    tasks: str
    gpus: float
    work_lost_gpu_ms: int
    restart_gpu_ms: int
    restart_measured: bool
    to: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """What would happen to a job that was submitted now.

    Attributes:
        outcome: `starts`, `reserved`, `preempts`, `pending` or `rejected`.
        nodes: The nodes of its tasks.
        proven: Whether no cheaper set of victims exists.
        seq: Number of the record as of which it was computed.
        data: Everything, as `bailiff plan --live -o json` prints it.
    """

    job: str
    pool: str
    outcome: str
    reason: str
    nodes: tuple[str, ...]
    jobs_ahead: int
    action: str
    victims: tuple[Victim, ...]
    proven: bool | None
    seq: int
    sentences: tuple[str, ...]
    data: Mapping[str, Any]

    def __str__(self) -> str:
        return "\n".join(self.sentences)
