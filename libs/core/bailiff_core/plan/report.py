"""Schema of the plan report: per round all tasks before and after, GPUs per node, decisions with cost, pending jobs."""

from typing import Literal

from pydantic import Field

from bailiff_core.model.document import Document
from bailiff_core.model.proposal import Cost

Number = int | float
State = Literal[
    "pending",
    "paused",
    "placed",
    "reserved",
    "running",
    "moved",
    "evicted",
    "releasing",
    "stuck_releasing",
    "succeeded",
    "failed",
    "gone",
]


class TaskStatus(Document):
    """A task's state and place. An evicted task is shown at its old place, a moved one at its new place."""

    state: State
    node: str | None = None
    devices: tuple[str, ...] = ()


class TaskLine(Document):
    """One task before the round and after it."""

    job: str
    task: str
    before: TaskStatus
    after: TaskStatus


class NodeLine(Document):
    """GPUs of one node after the round: free, releasing, and reserved (of both). Shared GPUs count fractionally."""

    node: str
    gpus: Number
    free_gpus: Number
    releasing_gpus: Number
    reserved_gpus: Number


class Counts(Document):
    """Tasks placed on free resources, evicted, and placed on reserved resources. A move counts as eviction and reservation."""

    placements: int = 0
    evictions: int = 0
    reservations: int = 0


class VictimLine(Document):
    """A victim and its loss. tasks: those evicted; stopped: not only surplus; moved_to: nodes of relocated tasks, in order."""

    job: str
    project: str | None = None
    priority: int
    tasks: tuple[str, ...]
    gpus: Number
    lost_gpu_seconds: Number
    stopped: bool = True
    was_reserved: bool = False
    moved_to: tuple[str, ...] = ()


class AttemptedActionLine(Document):
    """An action that found no victims: what it lacked, number of candidates, and of jobs protected by each rule."""

    action: Literal["consolidate", "reclaim", "preempt"]
    would_need: str = ""
    gave_up: bool = False
    candidates: int = 0
    excluded: dict[str, int] = Field(default_factory=dict)


class DecisionLine(Document):
    """One decision. outcome: the result for the job, or `evicted` for a decision of the stale-gang rule.

    cost: of the victims, by level of the objective. proven: no set is cheaper; otherwise no set costs less than `at_least`.
    excluded: number of jobs that each rule protected. attempted_actions: earlier actions, which found no victims.
    """

    action: Literal["allocate", "consolidate", "reclaim", "preempt", "stale-gang", "migrate"]
    job: str
    tasks: tuple[str, ...]
    outcome: Literal["placed", "reserved", "evicted"]
    reason: str
    victims: tuple[VictimLine, ...] = ()
    cost: Cost | None = None
    proven: bool | None = None
    at_least: Cost | None = None
    runner_up: tuple[str, ...] = ()
    runner_up_cost: Cost | None = None
    candidates: int = 0
    excluded: dict[str, int] = Field(default_factory=dict)
    attempted_actions: tuple[AttemptedActionLine, ...] = ()


class PendingLine(Document):
    """A job with unplaced tasks after the round, and why. gave_up: the search exhausted its step budget.

    attempted_actions: each action, in order. would_need: of all actions; excluded: of the last.
    """

    job: str
    tasks: tuple[str, ...]
    reason: str
    would_need: str = ""
    gave_up: bool = False
    excluded: dict[str, int] = Field(default_factory=dict)
    attempted_actions: tuple[AttemptedActionLine, ...] = ()


class Round(Document):
    """One cycle. now: RFC 3339, UTC. changed: whether any decision or task state changed. pending: jobs with unplaced tasks.

    notes: effects of rules about pending jobs, as sentences.
    """

    round: int
    now: str
    changed: bool
    counts: Counts
    tasks: tuple[TaskLine, ...]
    nodes: tuple[NodeLine, ...]
    decisions: tuple[DecisionLine, ...]
    notes: tuple[str, ...] = ()
    pending: tuple[PendingLine, ...]


class PlanReport(Document):
    """All rounds. converged: the last one changed nothing, so that another one at the same time would not either."""

    actions: tuple[str, ...]
    rounds: tuple[Round, ...]
    converged: bool
