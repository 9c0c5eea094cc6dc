"""Proposals of victim selection: victims, the preemptor's placement, and the explanation of the choice."""

from typing import Annotated, Literal

from pydantic import Field

from .document import Count, Document, Integer, JobName, Seq, Text
from .placement_ranges import NodeShare, Ranges, numbers
from .privacy import Treatment, pseudonym


class VictimChoice(Document):
    """One victim and the work lost by evicting it, in GPU-ms (semantics §5).

    Attributes:
        reserved: It had not started.
        backfilled: It was started while a job ahead of it in the queue was waiting (policy field `backfill`).
        tasks: Ranges of the surplus tasks to evict; empty: the whole job.
        moved_to: The reserved new placement of a relocated victim; of surplus tasks, possibly only some.
        not_relocated: Of an elastic job that is evicted whole and relocated, the ranges of the tasks without a new place.
        cpu_milli: CPUs of evicted tasks without GPUs; `lost_gpu_ms` counts them as GPUs (policy `preemption.cpus_per_gpu`).
        restarts: Ranges of the other tasks whose work is lost as well: those that exited with 0 and start again with the job, or
            those of a job that restarts to shrink.
        together: The job restarts to shrink: it is evicted whole, with places reserved for the tasks in `restarts`.
        extends: It restarts to shrink for an earlier decision of the same selection, which names what all of it loses: this one
            takes more of it, for the same eviction.
        measured: `lost_gpu_ms` is what it took to save and restore the job, as its last snapshot shows: no work is lost.
        parked: It is to be parked: it stays in the memory of its node, and `lost_gpu_ms` is what that took the last time.
        ends: The job ends for good: `lost_gpu_ms` is all of its attempt's work, saved or not, and no restart.
    """

    job: JobName
    attempt: Count
    priority: Integer
    gpus: Count
    lost_gpu_ms: Count
    reserved: bool = False
    class_name: Annotated[str, Treatment("priority_class")] = ""
    project: Annotated[str, pseudonym("project")] = ""
    backfilled: bool = False
    tasks: Ranges = ""
    moved_to: tuple[NodeShare, ...] = ()
    cpu_milli: Count = 0
    not_relocated: Ranges = ""
    restarts: Ranges = ""
    ends: bool = False
    together: bool = False
    extends: bool = False
    measured: bool = False
    parked: bool = False

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

    rule: Annotated[str, Treatment("exclusion")]
    jobs: Count
    examples: Annotated[tuple[JobName, ...], Field(max_length=5)] = ()


class ClassGpus(Document):
    """GPUs of victims of one priority, in thousandths."""

    priority: Integer
    gpu_milli: Count


class Cost(Document):
    """Cost of a set of victims (semantics §5). Compared field by field, in this order.

    Attributes:
        cpu_milli: CPUs of tasks without GPUs; the other fields count them as GPUs (policy `preemption.cpus_per_gpu`).
        jobs_ended: Jobs that end for good (`on_eviction: end`).
    """

    classes: Annotated[tuple[ClassGpus, ...], Field(max_length=64)] = ()
    under_share_gpu_milli: Count = 0
    jobs_ended: Count = 0
    lost_gpu_ms: Count = 0
    jobs_stopped: Count = 0
    tasks: Count = 0
    fragmented_nodes: Count = 0
    cpu_milli: Count = 0


class AttemptedAction(Document):
    """An action that was tried without success: the reason, the number of candidates, and exclusions by rule."""

    action: Literal["consolidate", "reclaim", "preempt"]
    refused: Literal["impossible", "gave-up"]
    would_need: Annotated[Text, Field(max_length=600)] = ""
    candidates: Count = 0
    excluded: tuple[Excluded, ...] = ()


class Explanation(Document):
    """Why this set was chosen. A claim of victim selection: records copy it, and whoever searches again can check it.

    Attributes:
        proven: An exact search finished; no set costs less.
        steps: Search steps used.
        cost: Cost of the chosen set, by level of the objective.
        lower_bound: Where the set is not proven, a bound below which no set costs.
        runner_up: The next best set found.
        attempted_actions: The other actions tried for this request, in order.
    """

    candidates: Count = 0
    excluded: tuple[Excluded, ...] = ()
    steps: Count = 0
    proven: bool = False
    runner_up: tuple[JobName, ...] = ()
    runner_up_lost_gpu_ms: Count = 0
    cost: "Cost | None" = None
    lower_bound: "Cost | None" = None
    runner_up_cost: "Cost | None" = None
    attempted_actions: tuple[AttemptedAction, ...] = ()


class Proposal(Document):
    """Proposal for one open request: victims and a placement, or the reason for none.

    Attributes:
        action: The action that places the tasks.
        tasks: Ranges of the tasks that the placement is for; empty: all.
        refused: `impossible` (proven: no permitted set of victims is sufficient) or `gave-up` (the step budget was used up).
    """

    request: Seq
    job: JobName
    action: Literal["allocate", "consolidate", "reclaim", "preempt"] = "preempt"
    tasks: Ranges = ""
    victims: tuple[VictimChoice, ...] = ()
    placement: tuple[NodeShare, ...] = ()
    refused: Literal["impossible", "gave-up"] | None = None
    would_need: Annotated[Text, Field(max_length=2000)] = ""
    explanation: Explanation = Explanation.model_construct()
