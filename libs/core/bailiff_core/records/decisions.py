"""Decisions: records that `decide` yields, with action, reason, and complete victims and placements."""

from typing import Annotated, Literal

from pydantic import Field

from bailiff_core.model.document import (
    BudgetName,
    ClassName,
    Count,
    Document,
    Duration,
    GpuModel,
    Integer,
    JobName,
    NodeName,
    ProjectName,
    Reason,
    ReservationName,
    Seq,
    Text,
    Time,
)
from bailiff_core.model.placement_ranges import NodeShare, Ranges
from bailiff_core.model.privacy import Treatment, pseudonym
from bailiff_core.model.proposal import Explanation, VictimChoice

from .payload import Decision

IslandUsed = Annotated[str, Treatment("island_used")]
ActionName = Literal["allocate", "consolidate", "reclaim", "preempt"]


class JobPlaced(Decision):
    """The gang has its place.

    Attributes:
        action: The action that placed it; `migrate`: it was migrated on request.
        reserved: Some of the resources are still releasing, so nothing starts yet.
        backfilled: It starts while a job ahead of it in the queue waits for resources there, and may be evicted for that job
            (policy field `backfill`).
        island: Where one is preferred (job field `placement`): `NODE/ISLAND` if all GPUs are on it; `per task` if those of each
            task are on one; `none` if neither fitted.
    """

    job: JobName
    attempt: Count
    action: ActionName | Literal["migrate"] = "allocate"
    placement: tuple[NodeShare, ...]
    reserved: bool = False
    expires: Time | None = None
    backfilled: bool = False
    island: IslandUsed = ""


class JobGrown(Decision):
    """A running elastic job gets more tasks in the same attempt.

    Attributes:
        island: As in `JobPlaced`, of these tasks.
    """

    job: JobName
    attempt: Count
    action: ActionName = "allocate"
    placement: tuple[NodeShare, ...]
    reserved: bool = False
    expires: Time | None = None
    island: IslandUsed = ""


class JobStarting(Decision):
    """All resources of a reservation are free: the gang starts on them.

    Attributes:
        tasks: Of a running job, only these tasks start.
    """

    job: JobName
    attempt: Count
    tasks: Ranges = ""


class ReservationDropped(Decision):
    """The reservation is dropped: it expired, its job ended, or its resources were lost.

    Attributes:
        tasks: Of a running job, only the reservation of these tasks.
    """

    job: JobName
    reason: Literal[
        "expired",
        "cancelled",
        "resources-lost",
        "abandoned",
        "preempted",
        "scaled",
        "policy",
        "paused",
        "requested",
        "drain",
        "growth-cost",
        "gpus-reserved",
    ]
    preemption: Seq | None = None
    tasks: Ranges = ""


class JobPending(Decision):
    """Why the job is pending. Recorded once per wait, not at each attempt to place it."""

    job: JobName
    reason: Annotated[Text, Field(max_length=2000)]


class DependenciesMet(Decision):
    """All jobs that the job waits for have ended as it needs, and its `begin` has come: it joins the queue."""

    job: JobName


class Preemptor(Document):
    """The job for which others are preempted."""

    job: JobName
    class_name: ClassName
    priority: Integer
    project: Annotated[str, pseudonym("project")] = ""
    base_priority: Integer | None = None


class PreemptionRequested(Decision):
    """A job does not fit, and the policy lets it preempt. All requests of one decision cycle form one selection.

    Attributes:
        actions: The actions to try, in this order.
        tasks: The tasks to place; empty: all.
    """

    job: JobName
    action: ActionName = "preempt"
    selection: Count
    class_name: ClassName
    priority: Integer
    reason: Annotated[Text, Field(max_length=2000)]
    deadline: Time | None = None
    actions: tuple[ActionName, ...] = ()
    tasks: Ranges = ""


class PreemptionDecided(Decision):
    """These jobs are evicted, and this placement is reserved for the preemptor. `request` is the seq of the request answered.

    Attributes:
        victims: Checked and computed by admission on its own state, as `graces` and `placement`.
        explanation: The proposer's claim.
        unneeded_victims: Victims of the proposal that are no longer needed.
        cancelled_evictions: Victims of a reservation that is dropped for this preemptor, and whose resources are not needed. The
            other victims of that reservation are evicted for this preemptor instead.
        tasks: The tasks that the placement is for, if others of the preemptor run already; empty: a new attempt.
        island: As in `JobPlaced`.
        reason: Of a preemptor that restarts to grow: what that wins and loses.
        restart_lost_gpu_ms: By that restart, as of a `VictimChoice`.
    """

    request: Seq
    action: ActionName = "preempt"
    preemptor: Preemptor
    attempt: Count
    victims: tuple[VictimChoice, ...]
    graces: tuple[Duration, ...]
    placement: tuple[NodeShare, ...]
    expires: Time
    explanation: Explanation
    unneeded_victims: tuple[JobName, ...] = ()
    cancelled_evictions: tuple[JobName, ...] = ()
    tasks: Ranges = ""
    island: IslandUsed = ""
    reason: Reason = ""
    restart_lost_gpu_ms: Count = 0

    @property
    def new_victims(self) -> list[VictimChoice]:
        """Those whose eviction begins with this decision: not those whose restart to shrink it extends."""
        return [choice for choice in self.victims if not choice.extends]


class PreemptionRefused(Decision):
    """No eviction for this preemptor now: impossible under the rules, step budget used up, proposal stale, or not needed.

    impossible, gave-up, and would_need and explanation with them, are the proposer's claims; stale and not-needed are
    admission's own findings. So is impossible without an explanation, where a run-time limit ends first.
    """

    request: Seq
    action: ActionName = "preempt"
    preemptor: Preemptor
    reason: Literal["impossible", "gave-up", "stale", "not-needed"]
    would_need: Annotated[Text, Field(max_length=2000)] = ""
    explanation: Explanation = Explanation.model_construct()
    retry_at: Time | None = None


class SelectionTimedOut(Decision):
    """No proposal came in time; the requests are repeated later."""

    selection: Count
    failures: Count
    retry_at: Time


class EvictionDecided(Decision):
    """The job's present attempt is stopped for a reason other than a preemption.

    Attributes:
        tasks: Stop only these tasks; the job continues.
        together: The job restarts to shrink: it is evicted whole, with places reserved for its other tasks.
    """

    job: JobName
    attempt: Count
    cause: Literal[
        "cancelled",
        "gang-failure",
        "stale-gang",
        "scaled",
        "policy",
        "budget",
        "reservation",
        "time-limit",
        "device",
        "over-share",
        "paused",
        "requested",
        "drain",
    ]
    grace: Duration
    reason: Reason = ""
    tasks: Ranges = ""
    together: bool = False


class GraceShortened(Decision):
    """The grace of an eviction in progress ends earlier than was decided.

    Attributes:
        tasks: Of these tasks; empty: of all that the job's eviction is about.
        grace: Time from the start of the eviction to KILL, now.
        earlier: The same, as it was before.
        cause: The policy grants it no more, the job was cancelled, a request named a shorter grace, or a node is drained.
    """

    job: JobName
    attempt: Count
    grace: Duration
    earlier: Duration
    cause: Literal["policy", "cancelled", "requested", "drain"]
    tasks: Ranges = ""


class JobIdle(Decision):
    """The GPUs of the job were idle for longer than the policy allows.

    Attributes:
        action: What follows by the policy.
    """

    job: JobName
    attempt: Count
    duration: Duration
    action: Literal["warn", "pause"]


class JobCheckpointDue(Decision):
    """Its nodes save the job: its `checkpoint_every` is over, and fewer jobs than the policy allows are being saved."""

    job: JobName
    attempt: Count


class ParkedJobSaveDue(Decision):
    """The node that has the parked job saves it to disk: it has been parked for long, the node is drained, or no job is parked.

    Attributes:
        attempt: The attempt whose task is parked.
    """

    job: JobName
    attempt: Count
    why: Literal["park-limit", "drain", "policy"]


class SnapshotExpired(Decision):
    """The job has not run for as long as the policy keeps its snapshot: it is removed, and the job begins anew.

    Attributes:
        attempt: Of which the snapshot is.
        lost_gpu_ms: The work that only the snapshot had, GPU-ms.
    """

    job: JobName
    attempt: Count
    lost_gpu_ms: Count


class DrainDeadlineReached(Decision):
    """The deadline of a graceful drain has passed: tasks still on the node are evicted now."""

    node: NodeName


class MaintenanceBegan(Decision):
    """The maintenance of a node begins: it is drained until the end.

    Attributes:
        leaving: Jobs that still have tasks there.
    """

    node: NodeName
    begin: Time
    end: Time
    leaving: tuple[JobName, ...] = ()


class MaintenanceEnded(Decision):
    """The maintenance of a node is over: it takes tasks again.

    Attributes:
        drained: The mode of a drain apart from that, which goes on; empty: there is none.
    """

    node: NodeName
    begin: Time
    end: Time
    drained: Literal["", "graceful", "quick", "fast"] = ""


class MigrationDecided(Decision):
    """The job is evicted and this place is reserved for its next attempt until `expires`.

    Attributes:
        cause: Migration was requested, or the gang has a new size and restarts with it.
        island: As in `JobPlaced`.
        lost_gpu_ms: By the restart, as of a `VictimChoice`; so is `measured`.
    """

    job: JobName
    attempt: Count
    placement: tuple[NodeShare, ...]
    grace: Duration
    expires: Time
    reason: Reason = ""
    cause: Literal["migration", "resize"] = "migration"
    island: IslandUsed = ""
    lost_gpu_ms: Count = 0
    measured: bool = False


class MigrationRefused(Decision):
    """There is no other place for the job now; it is not migrated."""

    job: JobName
    attempt: Count
    reason: Annotated[Text, Field(max_length=2000)]


class EvictionStuck(Decision):
    """The victim's resources were not released in time; they count as allocated until they are."""

    job: JobName
    attempt: Count
    tasks: Ranges = ""


class EvictionCancelled(Decision):
    """An eviction is cancelled.

    Attributes:
        notified: Agents may know of it and are asked to confirm.
    """

    job: JobName
    attempt: Count
    preemption: Seq | None
    notified: bool
    reason: Text
    tasks: Ranges = ""


class JobRequeued(Decision):
    """The attempt is over and the job is back in the queue, at its old place; a paused job is paused instead.

    Attributes:
        rule: The rule that made the outcome, where it does not follow from the exit codes alone: `exit-0-after-notice`,
            `exit-85-without-notice` (outcome `yielded`), `never-started` (outcome `lost`).
        without: Ranges of the tasks for which no place is reserved, while one is for the others: the job restarts with fewer.
        refused_by: Nodes on which tasks did not start. The job is not placed there again until they have joined anew, or it is
            resumed.
        held: Why it is paused until somebody resumes it; empty: it is not.
        measured: As of a `VictimChoice`.
    """

    job: JobName
    attempt: Count
    outcome: Literal["preempted", "preempted-unclean", "yielded", "failed", "lost"]
    cause: Annotated[str, Treatment("cause")]
    lost_gpu_ms: Count = 0
    not_before: Time = 0
    rule: Annotated[str, Treatment("outcome_rule")] = ""
    without: Ranges = ""
    refused_by: tuple[NodeName, ...] = ()
    held: Reason = ""
    measured: bool = False


class JobEnded(Decision):
    """The job has ended.

    Attributes:
        outcome: `timed-out`: it reached its run-time limit and had not finished within its grace.
        exit_codes: Non-zero ones, by task, at most the first 100.
        cause: Of outcome `evicted`, as in `JobRequeued`.
        lost_gpu_ms: Of outcome `evicted`: all the work of its attempt, saved or not.
    """

    job: JobName
    attempt: Count
    outcome: Literal["succeeded", "failed", "cancelled", "evicted", "timed-out"]
    exit_codes: Annotated[dict[str, Integer], Treatment("exit_codes")] = Field(default_factory=dict)
    reason: Reason = ""
    cause: Annotated[str, Treatment("cause")] = ""
    lost_gpu_ms: Count = 0


class JobShrunk(Decision):
    """These tasks are gone and their resources free; the job continues with the others.

    Attributes:
        not_before: When it may grow again.
    """

    job: JobName
    attempt: Count
    tasks: Ranges
    outcome: Literal["preempted", "preempted-unclean", "lost"]
    cause: Annotated[str, Treatment("cause")]
    lost_gpu_ms: Count = 0
    not_before: Time = 0


class JobPriorityBoosted(Decision):
    """The rule `ageing`: the job's priority is now `effective_priority`; `priority` was the earlier one."""

    job: JobName
    priority: Integer
    effective_priority: Integer
    reason: Reason


class ScheduleTimedOut(Decision):
    """The rule `schedule-timeout`: the gang is pending for longer than the policy allows.

    Attributes:
        action: What follows by the policy.
    """

    job: JobName
    waited: Duration
    action: Literal["report", "fail", "pass"]
    reason: Annotated[Text, Field(max_length=2000)] = ""


class ProjectGpus(Document):
    """GPUs of a project; none: of the jobs submitted directly to the parent."""

    project: ProjectName | None = None
    gpu_milli: Integer


class ShareTurnBegan(Decision):
    """What rounding leaves over of GPUs goes in turn: from now on to those of these projects to whom it owes most.

    With a half-life, from now on their shares count what they used beyond their quotas; `owed` is then what counts for those who
    have several GPUs for one job, so that they keep them for more than a turn.

    Attributes:
        parent: Whose share they divide; none: the pool.
        model: The GPU model, group of models or MIG profile that they divide; empty: all GPUs.
        owed: Thousandths of a GPU; less than 0: it had more than its part.
        used: Beyond their quotas, on average over the past, thousandths of a GPU; those that are not named: nothing.
    """

    parent: ProjectName | None = None
    owed: tuple[ProjectGpus, ...]
    used: tuple[ProjectGpus, ...] = ()
    model: Annotated[GpuModel | Literal[""], Treatment("gpu_model")] = ""


class BudgetLevelChanged(Decision):
    """A budget is used up as far as this, or not any more: by use, the next month, a top-up, a transfer or a policy.

    Attributes:
        level: `warning`: as far as the policy's `warn_at`; `exhausted`: all of it, so that its `at_limit` holds.
        month: When the calendar month began.
        used_gpu_ms: GPU time in this month, rounded down, ms.
        of_gpu_ms: Of how much, with top-ups and transfers, ms.
    """

    budget: BudgetName
    level: Literal["within", "warning", "exhausted"]
    month: Time
    used_gpu_ms: Count
    of_gpu_ms: Count


class ReservationBegan(Decision):
    """GPUs are for the jobs of a project from now on.

    Attributes:
        begin: As it was promised.
        end: Until when.
        missing: How many of them its jobs neither have nor could get now.
        unavailable: Nodes that take no tasks now.
        leaving: Jobs that have not left yet.
    """

    reservation: ReservationName
    project: ProjectName
    gpus: Count
    begin: Time
    end: Time
    missing: Count = 0
    unavailable: tuple[NodeName, ...] = ()
    leaving: tuple[JobName, ...] = ()


class ReservationEnded(Decision):
    """The time is over: others may use the GPUs.

    Attributes:
        last: It was the last time of the reservation.
    """

    reservation: ReservationName
    begin: Time
    end: Time
    last: bool = True
