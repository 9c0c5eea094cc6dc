"""Decisions: records that `decide` yields, with action, reason, and complete victims and placements."""

from typing import Annotated, Literal

from pydantic import Field

from bailiff_core.model.document import Count, Document, Duration, Integer, Name, Time
from bailiff_core.model.placement_ranges import NodeShare
from bailiff_core.model.proposal import Explanation, VictimChoice

from .payload import Decision

ActionName = Literal["allocate", "consolidate", "reclaim", "preempt"]


class JobPlaced(Decision):
    """The gang has its place. `reserved`: some of the resources are still releasing, so nothing starts yet.

    action: the action that placed it; `migrate`: it was migrated on request. backfilled: it starts where a job ahead of it in the
    queue waits for resources, and may be evicted for that job (policy field `backfill`). island: where one is preferred (job
    field `placement`): `NODE/ISLAND`: all GPUs are on it; `per task`: those of each task are on one; `none`: neither fitted.
    """

    job: Name
    attempt: Count
    action: ActionName | Literal["migrate"] = "allocate"
    placement: tuple[NodeShare, ...]
    reserved: bool = False
    expires: Time | None = None
    backfilled: bool = False
    island: str = ""


class JobGrown(Decision):
    """A running elastic job gets more tasks in the same attempt. island: as in `JobPlaced`, of these tasks."""

    job: Name
    attempt: Count
    action: ActionName = "allocate"
    placement: tuple[NodeShare, ...]
    reserved: bool = False
    expires: Time | None = None
    island: str = ""


class JobStarting(Decision):
    """All resources of a reservation are free: the gang starts on them. tasks: only these, of a running job."""

    job: Name
    attempt: Count
    tasks: str = ""


class ReservationDropped(Decision):
    """The reservation is dropped: it expired, its job ended, or its resources were lost. tasks: only these, of a running job."""

    job: Name
    reason: Literal[
        "expired", "cancelled", "resources-lost", "abandoned", "preempted", "scaled", "policy", "paused", "requested", "drain"
    ]
    preemption: Count | None = None
    tasks: str = ""


class JobPending(Decision):
    """Why the job is pending. Recorded once per wait, not at each attempt to place it."""

    job: Name
    reason: Annotated[str, Field(max_length=2000)]


class DependenciesMet(Decision):
    """All jobs that the job waits for have ended as it needs: it joins the queue."""

    job: Name


class Preemptor(Document):
    """The job for which others are preempted."""

    job: Name
    class_name: Name
    priority: Integer
    project: str = ""
    base_priority: Integer | None = None


class PreemptionRequested(Decision):
    """A job does not fit, and the policy lets it preempt. All requests of one decision cycle form one selection.

    actions: the actions to try, in this order. tasks: the tasks to place; empty: all.
    """

    job: Name
    action: ActionName = "preempt"
    selection: Count
    class_name: Name
    priority: Integer
    reason: Annotated[str, Field(max_length=2000)]
    deadline: Time | None = None
    actions: tuple[ActionName, ...] = ()
    tasks: str = ""


class PreemptionDecided(Decision):
    """These jobs are evicted, and this placement is reserved for the preemptor. `request` is the seq of the request answered.

    victims, graces, placement: checked and computed by admission on its own state; explanation: the proposer's claim.
    unneeded_victims: victims of the proposal that are no longer needed. cancelled_evictions: victims of a reservation that is
    dropped for this preemptor, whose resources are not needed; its other victims are evicted for this preemptor instead.
    tasks: the tasks that the placement is for, if others of the preemptor run already; empty: a new attempt. island: as in
    `JobPlaced`.
    """

    request: Count
    action: ActionName = "preempt"
    preemptor: Preemptor
    attempt: Count
    victims: tuple[VictimChoice, ...]
    graces: tuple[Duration, ...]
    placement: tuple[NodeShare, ...]
    expires: Time
    explanation: Explanation
    unneeded_victims: tuple[Name, ...] = ()
    cancelled_evictions: tuple[Name, ...] = ()
    tasks: str = ""
    island: str = ""


class PreemptionRefused(Decision):
    """No eviction for this preemptor now: impossible under the rules, step budget used up, proposal stale, or not needed.

    impossible, gave-up, and would_need and explanation with them, are the proposer's claims; stale and not-needed are
    admission's own findings. So is impossible without an explanation, where a run-time limit ends first.
    """

    request: Count
    action: ActionName = "preempt"
    preemptor: Preemptor
    reason: Literal["impossible", "gave-up", "stale", "not-needed"]
    would_need: Annotated[str, Field(max_length=2000)] = ""
    explanation: Explanation = Explanation()
    retry_at: Time | None = None


class SelectionTimedOut(Decision):
    """No proposal came in time; the requests are repeated later."""

    selection: Count
    failures: Count
    retry_at: Time


class EvictionDecided(Decision):
    """The job's present attempt is stopped for a reason other than a preemption. tasks: only these, the job continues."""

    job: Name
    attempt: Count
    cause: Literal[
        "cancelled", "gang-failure", "stale-gang", "scaled", "policy", "time-limit", "device", "over-share",
        "paused", "requested", "drain",
    ]  # fmt: skip
    grace: Duration
    reason: Annotated[str, Field(max_length=1000)] = ""
    tasks: str = ""


class JobIdle(Decision):
    """The GPUs of the job were idle for longer than the policy allows. action: what follows."""

    job: Name
    attempt: Count
    duration: Duration
    action: Literal["warn", "pause"]


class DrainDeadlineReached(Decision):
    """The deadline of a graceful drain has passed: tasks still on the node are evicted now."""

    node: Name


class MigrationDecided(Decision):
    """The job is evicted and this place is reserved for its next attempt until `expires`.

    cause: migration was requested, or the gang has a new size and restarts with it. island: as in `JobPlaced`.
    """

    job: Name
    attempt: Count
    placement: tuple[NodeShare, ...]
    grace: Duration
    expires: Time
    reason: Annotated[str, Field(max_length=1000)] = ""
    cause: Literal["migration", "resize"] = "migration"
    island: str = ""


class MigrationRefused(Decision):
    """There is no other place for the job now; it is not migrated."""

    job: Name
    attempt: Count
    reason: Annotated[str, Field(max_length=2000)]


class EvictionStuck(Decision):
    """The victim's resources were not released in time; they count as allocated until they are."""

    job: Name
    attempt: Count
    tasks: str = ""


class EvictionCancelled(Decision):
    """An eviction is cancelled. `notified`: agents may know of it and are asked to confirm."""

    job: Name
    attempt: Count
    preemption: Count | None
    notified: bool
    reason: str
    tasks: str = ""


class JobRequeued(Decision):
    """The attempt is over and the job is back in the queue, at its old place; a paused job is paused instead.

    rule: the rule that made the outcome, where it does not follow from the exit codes alone: `exit-0-after-notice`,
    `exit-85-without-notice` (outcome `yielded`).
    """

    job: Name
    attempt: Count
    outcome: Literal["preempted", "preempted-unclean", "yielded", "failed", "lost"]
    cause: str
    lost_gpu_ms: Count = 0
    not_before: Time = 0
    rule: str = ""


class JobEnded(Decision):
    """The job has ended. exit_codes: non-zero ones, by task, at most the first 100.

    timed-out: it reached its run-time limit and had not finished within its grace.
    """

    job: Name
    attempt: Count
    outcome: Literal["succeeded", "failed", "cancelled", "evicted", "timed-out"]
    exit_codes: dict[str, Integer] = Field(default_factory=dict)
    reason: Annotated[str, Field(max_length=1000)] = ""


class JobShrunk(Decision):
    """These tasks are gone and their resources free; the job continues with the others. not_before: when it may grow again."""

    job: Name
    attempt: Count
    tasks: str
    outcome: Literal["preempted", "preempted-unclean", "lost"]
    cause: str
    lost_gpu_ms: Count = 0
    not_before: Time = 0


class JobPriorityBoosted(Decision):
    """The rule `ageing`: the job's priority is now `effective_priority`; `priority` was the earlier one."""

    job: Name
    priority: Integer
    effective_priority: Integer
    reason: Annotated[str, Field(max_length=1000)]


class ScheduleTimedOut(Decision):
    """The rule `schedule-timeout`: the gang is pending for longer than the policy allows. action: what follows."""

    job: Name
    waited: Duration
    action: Literal["report", "fail", "pass"]
    reason: Annotated[str, Field(max_length=2000)] = ""
