"""Proposals of victim selection: victims, the preemptor's placement, and the explanation of the choice."""

from typing import Annotated, Literal

from pydantic import Field

from .document import Count, Document, Integer, Name
from .placement_ranges import NodeShare, numbers


class VictimChoice(Document):
    """One victim and the work lost by evicting it, in GPU-ms (semantics §5). reserved: it had not started.

    backfilled: it was started while a job ahead of it in the queue was waiting (policy field `backfill`).
    cpu_milli: CPUs of evicted tasks without GPUs; they are in lost_gpu_ms as GPUs (policy `preemption.cpus_per_gpu`).
    tasks: ranges of the surplus tasks to evict; empty: the whole job. moved_to: the reserved new placement of a relocated
    victim; of surplus tasks, possibly only some. not_relocated: ranges of the tasks of an elastic job that have no new place,
    while the rest of the job, evicted whole, has one.
    """

    job: Name
    attempt: Count
    priority: Integer
    gpus: Count
    lost_gpu_ms: Count
    reserved: bool = False
    class_name: str = ""
    project: str = ""
    backfilled: bool = False
    tasks: str = ""
    moved_to: tuple[NodeShare, ...] = ()
    cpu_milli: Count = 0
    not_relocated: str = ""

    @property
    def relocated_tasks(self) -> list[int]:
        """Indices of the tasks with a new place."""
        return sorted(index for share in self.moved_to for index in numbers(share.tasks))

    @property
    def relocated(self) -> bool:
        """Whether all evicted tasks have a new place, so that the job loses no resources."""
        if self.not_relocated or not self.moved_to:
            return False
        return not self.tasks or self.relocated_tasks == sorted(numbers(self.tasks))


class Excluded(Document):
    """Number of jobs that a rule excludes as victims, with the first few names."""

    rule: str
    jobs: Count
    examples: Annotated[tuple[Name, ...], Field(max_length=5)] = ()


class ClassGpus(Document):
    """GPUs of victims of one priority, in thousandths."""

    priority: Integer
    gpu_milli: Count


class Cost(Document):
    """Cost of a set of victims (semantics §5). Compared field by field, in this order.

    cpu_milli: CPUs of tasks without GPUs; the other fields count them as GPUs (policy `preemption.cpus_per_gpu`).
    """

    classes: Annotated[tuple[ClassGpus, ...], Field(max_length=64)] = ()
    under_share_gpu_milli: Count = 0
    lost_gpu_ms: Count = 0
    jobs_stopped: Count = 0
    tasks: Count = 0
    fragmented_nodes: Count = 0
    cpu_milli: Count = 0


class AttemptedAction(Document):
    """An action that was tried without success: the reason, the number of candidates, and exclusions by rule."""

    action: Literal["consolidate", "reclaim", "preempt"]
    refused: Literal["impossible", "gave-up"]
    would_need: Annotated[str, Field(max_length=600)] = ""
    candidates: Count = 0
    excluded: tuple[Excluded, ...] = ()


class Explanation(Document):
    """Why this set was chosen. A claim of victim selection: records copy it, and whoever searches again can check it.

    proven: an exact search finished, no set costs less. steps: search steps used.

    cost: of the chosen set, by level of the objective. lower_bound: where optimality is not proven, no set costs less.
    runner_up: the next best set found. attempted_actions: the other actions tried for this request, in order.
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
    """Proposal for one open request: victims and a placement, or the reason for none.

    tasks: ranges of the tasks that the placement is for; empty: all. action: the action that places them.
    refused: `impossible` (proven: no permitted set of victims is sufficient) or `gave-up` (the step budget was used up).
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
