"""Schema of the plan report: per round all tasks before and after, GPUs per node, decisions with cost, pending jobs."""

from typing import Literal

from pydantic import Field

from bailiff_core.model.document import Document
from bailiff_core.model.proposal import AttemptedAction
from bailiff_core.views import DecisionView, Gpus

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
    """GPUs of one node after the round: free, releasing, and reserved (of both)."""

    node: str
    gpus: Gpus
    gpus_free: Gpus
    gpus_releasing: Gpus
    gpus_reserved: Gpus


class Counts(Document):
    """Tasks placed on free resources, evicted, and placed on reserved resources. A move counts as eviction and reservation."""

    placements: int = 0
    evictions: int = 0
    reservations: int = 0


class DecisionLine(DecisionView):
    """One decision.

    Attributes:
        tasks: By name.
        outcome: The result for the job, or `evicted` for a decision of the stale-gang rule.
    """

    action: Literal["allocate", "consolidate", "reclaim", "preempt", "stale-gang", "migrate"]
    job: str
    tasks: tuple[str, ...]
    outcome: Literal["placed", "reserved", "evicted"]


class PendingLine(Document):
    """A job with unplaced tasks after the round, and why.

    Attributes:
        gave_up: The search exhausted its step budget.
        attempted_actions: Each action, in order.
        protected_until: By action and rule, when the rule ends for the first job that it protects, where waiting helps; RFC 3339.
        not_before: By action, when the job finds victims at the earliest as such rules end; null: their end does not help.
    """

    job: str
    tasks: tuple[str, ...]
    reason: str
    gave_up: bool = False
    attempted_actions: tuple[AttemptedAction, ...] = ()
    protected_until: dict[str, dict[str, str]] = Field(default_factory=dict)
    not_before: dict[str, str | None] = Field(default_factory=dict)


class Round(Document):
    """One cycle.

    Attributes:
        now: RFC 3339, UTC.
        changed: Whether any decision or task state changed.
        pending: Jobs with unplaced tasks.
        notes: Effects of rules about pending jobs, as sentences.
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
    """All rounds.

    Attributes:
        converged: The last round changed nothing, so another one at the same time would not either.
    """

    actions: tuple[str, ...]
    rounds: tuple[Round, ...]
    converged: bool
