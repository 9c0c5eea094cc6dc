"""Victim selection's answer to one open request: who leaves, where the preemptor goes, and why this and no other."""

from typing import Annotated, Literal

from pydantic import Field

from .document import Count, Document, Integer, Name
from .placement_ranges import NodeShare, numbers


class VictimChoice(Document):
    """One victim and what evicting it loses, in GPU-ms (semantics §5). `reserved`: it had not started yet.

    tasks: the surplus tasks that leave, as ranges; empty: the whole job. moved_to: where it goes on, kept for it; of surplus
    tasks perhaps only some.
    """

    job: Name
    attempt: Count
    priority: Integer
    gpus: Count
    lost_gpu_ms: Count
    reserved: bool = False
    class_name: str = ""
    project: str = ""
    tasks: str = ""
    moved_to: tuple[NodeShare, ...] = ()

    @property
    def relocated_tasks(self) -> list[int]:
        """The members with a new place."""
        return sorted(index for share in self.moved_to for index in numbers(share.tasks))

    @property
    def relocated(self) -> bool:
        """Whether all that leaves has its new place, so that nothing is taken from the job."""
        return bool(self.moved_to) and (not self.tasks or self.relocated_tasks == sorted(numbers(self.tasks)))


class Excluded(Document):
    """So many jobs could not be victims because of this rule; the first few by name."""

    rule: str
    jobs: Count
    examples: Annotated[tuple[Name, ...], Field(max_length=5)] = ()


class ClassGpus(Document):
    """So many GPUs, in thousandths, are taken from victims of this priority."""

    priority: Integer
    gpu_milli: Count


class Cost(Document):
    """What a set of victims costs, most important first (DESIGN §5). Compare field by field, in this order."""

    classes: Annotated[tuple[ClassGpus, ...], Field(max_length=64)] = ()
    under_share_gpu_milli: Count = 0
    lost_gpu_ms: Count = 0
    jobs_stopped: Count = 0
    tasks: Count = 0
    fragmented_nodes: Count = 0


class AttemptedAction(Document):
    """A action that was tried and made no room: why, how many jobs it might have taken, and whom each rule kept from it."""

    action: Literal["consolidate", "reclaim", "preempt"]
    refused: Literal["impossible", "gave-up"]
    would_need: Annotated[str, Field(max_length=600)] = ""
    candidates: Count = 0
    excluded: tuple[Excluded, ...] = ()


class Explanation(Document):
    """Why this set and no other. `proven`: an exact search finished, nothing is cheaper. `steps` of it were used.

    cost: of the chosen set, level by level of the objective. lower_bound: where nothing is proven, no set costs less than
    this. runner_up: the next best set that was found. attempted_actions: the other actions that were tried for this request, in
    order.
    """

    candidates: Count = 0
    excluded: tuple[Excluded, ...] = ()
    steps: Count = 0
    proven: bool = False
    runner_up: tuple[Name, ...] = ()
    runner_up_lost_gpu_ms: Count = 0
    cost: "Cost | None" = None
    lower_bound: "Cost | None" = None
    runner_up_cost: "Cost | None" = None
    attempted_actions: tuple[AttemptedAction, ...] = ()


class Proposal(Document):
    """The answer to one open request: victims and a placement, or why there are none.

    tasks: the members that the placement is for, as ranges; empty: all. action: by which they may be placed.
    refused: `impossible` (proven: no set of permitted victims makes room) or `gave-up` (the step budget ran out).
    """

    request: Count
    job: Name
    action: Literal["allocate", "consolidate", "reclaim", "preempt"] = "preempt"
    tasks: str = ""
    victims: tuple[VictimChoice, ...] = ()
    placement: tuple[NodeShare, ...] = ()
    refused: Literal["impossible", "gave-up"] | None = None
    would_need: Annotated[str, Field(max_length=2000)] = ""
    explanation: Explanation = Explanation()
