"""What came of the passes: every task before and after, room per node, each decision with its reason and cost."""

from typing import Literal

from pydantic import Field

from bailiff_core.model.answer import Cost
from bailiff_core.model.document import Document

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


class TaskAt(Document):
    """A task's state and place. An evicted task is shown where it still is, a moved one where it goes."""

    state: State
    node: str | None = None
    devices: tuple[str, ...] = ()


class TaskLine(Document):
    """One task before the round and after it."""

    job: str
    task: str
    before: TaskAt
    after: TaskAt


class NodeLine(Document):
    """GPUs of one node after the round: on nobody's, on their way out, and promised (of either). Shared ones count in parts."""

    node: str
    gpus: Number
    idle_gpus: Number
    releasing_gpus: Number
    reserved_gpus: Number


class Counts(Document):
    """Tasks that were given room that is free, that must leave, that were promised room. A move is one of the latter two each."""

    placements: int = 0
    evictions: int = 0
    reservations: int = 0


class VictimLine(Document):
    """Who leaves, and what that loses. tasks: which; stopped: not only surplus; moved_to: where it goes on, in task order."""

    job: str
    project: str | None = None
    priority: int
    tasks: tuple[str, ...]
    gpus: Number
    lost_gpu_seconds: Number
    stopped: bool = True
    was_reserved: bool = False
    moved_to: tuple[str, ...] = ()


class TriedLine(Document):
    """A verb that was tried for the job and found nobody: why, how many jobs it might have taken, how many each rule kept."""

    verb: Literal["consolidate", "reclaim", "preempt"]
    would_need: str = ""
    gave_up: bool = False
    candidates: int = 0
    excluded: dict[str, int] = Field(default_factory=dict)


class DecisionLine(Document):
    """One decision. `outcome`: what the job got, or `evicted` for a decision of the rule that stops stale gangs.

    cost: of the victims, level by level of the objective. proven: nothing is cheaper; where it is not, no set costs less
    than `at_least`. excluded: how many jobs each rule kept from being victims. tried: the verbs before, which found nobody.
    """

    verb: Literal["allocate", "consolidate", "reclaim", "preempt", "stale-gang", "migrate"]
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
    tried: tuple[TriedLine, ...] = ()


class WaitLine(Document):
    """A job that lacks tasks after the round, and why. gave_up: the search ended before it had looked at everything.

    tried: each verb by itself, in order; would_need and excluded: of all of them, and of the last.
    """

    job: str
    tasks: tuple[str, ...]
    reason: str
    would_need: str = ""
    gave_up: bool = False
    excluded: dict[str, int] = Field(default_factory=dict)
    tried: tuple[TriedLine, ...] = ()


class Round(Document):
    """One pass. now: RFC 3339, UTC. changed: whether anything was decided that changes who stands where.

    notes: what rules about waiting jobs did, as sentences.
    """

    round: int
    now: str
    changed: bool
    counts: Counts
    tasks: tuple[TaskLine, ...]
    nodes: tuple[NodeLine, ...]
    decisions: tuple[DecisionLine, ...]
    notes: tuple[str, ...] = ()
    waiting: tuple[WaitLine, ...]


class PlanReport(Document):
    """All rounds. settled: the last one changed nothing, so neither would another at the same time."""

    verbs: tuple[str, ...]
    rounds: tuple[Round, ...]
    settled: bool
