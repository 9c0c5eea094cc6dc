"""What `decide` yields. A decision names its verb and says why; victims and placements are always complete."""

from typing import Annotated, Literal

from pydantic import Field

from bailiff_core.model.answer import Explanation, VictimChoice
from bailiff_core.model.document import Count, Document, Duration, Integer, Name, Time
from bailiff_core.model.places import NodeShare

from .payload import Decision

VerbName = Literal["allocate", "consolidate", "reclaim", "preempt"]


class JobPlaced(Decision):
    """The gang has its place. `reserved`: some of the room is still on its way out, so nothing starts yet.

    verb: by which it got the place; `migrate`: it was moved there because somebody asked for it.
    """

    job: Name
    attempt: Count
    verb: VerbName | Literal["migrate"] = "allocate"
    placement: tuple[NodeShare, ...]
    reserved: bool = False
    expires: Time | None = None


class JobGrown(Decision):
    """A running elastic job gets more of its tasks, in the same attempt."""

    job: Name
    attempt: Count
    verb: VerbName = "allocate"
    placement: tuple[NodeShare, ...]
    reserved: bool = False
    expires: Time | None = None


class JobStartOrdered(Decision):
    """All room of a reservation is free: the gang starts on it. tasks: only these, which join a running job."""

    job: Name
    attempt: Count
    tasks: str = ""


class ReservationDropped(Decision):
    """The reservation is gone: it expired, its job went away, or its room did. tasks: only these, of a job that runs."""

    job: Name
    reason: Literal["expired", "cancelled", "room-gone", "given-up", "preempted", "scaled", "policy", "paused", "asked", "drain"]
    plan: Count | None = None
    tasks: str = ""


class JobWaits(Decision):
    """Why the job does not run now. Written once each time it joins the queue, not on every try."""

    job: Name
    reason: Annotated[str, Field(max_length=2000)]


class Asker(Document):
    """Who needs room."""

    job: Name
    class_name: Name
    priority: Integer
    project: str = ""
    base_priority: Integer | None = None


class PreemptionRequested(Decision):
    """A job does not fit, and the policy lets it displace others. All requests of one turn form one selection.

    verbs: those that may be tried for it, in this order. tasks: the members that need room; empty: all.
    """

    job: Name
    verb: VerbName = "preempt"
    selection: Count
    class_name: Name
    priority: Integer
    reason: Annotated[str, Field(max_length=2000)]
    deadline: Time | None = None
    verbs: tuple[VerbName, ...] = ()
    tasks: str = ""


class PreemptionDecided(Decision):
    """These jobs leave, and this placement is held for the asker. `request` is the seq of the request answered.

    dropped: victims of the proposal that are not needed any more. spared: victims of a reservation that is given up
    for this asker, whose room nobody needs now; the other victims of that reservation leave for this asker instead.
    tasks: the asker's members that the placement is for, where its others run already; empty: a new attempt.
    """

    request: Count
    verb: VerbName = "preempt"
    asker: Asker
    attempt: Count
    victims: tuple[VictimChoice, ...]
    graces: tuple[Duration, ...]
    placement: tuple[NodeShare, ...]
    expires: Time
    explanation: Explanation
    dropped: tuple[Name, ...] = ()
    spared: tuple[Name, ...] = ()
    tasks: str = ""


class PreemptionRefused(Decision):
    """No eviction for this asker now: impossible under the rules, given up, or out of date when it came."""

    request: Count
    verb: VerbName = "preempt"
    asker: Asker
    reason: Literal["impossible", "gave-up", "stale", "not-needed"]
    would_need: Annotated[str, Field(max_length=2000)] = ""
    explanation: Explanation = Explanation()
    retry_at: Time | None = None


class SelectionTimedOut(Decision):
    """No proposal came in time; the held room is free again and the requests are asked anew later."""

    number: Count
    failures: Count
    retry_at: Time


class EvictionDecided(Decision):
    """The job's present attempt is stopped for a reason other than a preemption. tasks: only these leave, the job goes on."""

    job: Name
    attempt: Count
    cause: Literal[
        "cancelled", "gang-failure", "stale-gang", "scaled", "policy", "time-limit", "device", "over-share",
        "paused", "asked", "drain",
    ]  # fmt: skip
    grace: Duration
    reason: Annotated[str, Field(max_length=1000)] = ""
    tasks: str = ""


class JobIdle(Decision):
    """No GPU of the job has done anything for longer than the policy means it to. then: what follows."""

    job: Name
    attempt: Count
    lasted: Duration
    then: Literal["warn", "pause"]


class DrainDue(Decision):
    """The deadline of a graceful drain is over: what is still on the node leaves now."""

    node: Name


class MigrationDecided(Decision):
    """The job leaves for this place, which is kept for it until `expires`: its next attempt starts there.

    cause: somebody asked for it, or the gang has another size now and starts again with that.
    """

    job: Name
    attempt: Count
    placement: tuple[NodeShare, ...]
    grace: Duration
    expires: Time
    reason: Annotated[str, Field(max_length=1000)] = ""
    cause: Literal["migration", "resize"] = "migration"


class MigrationRefused(Decision):
    """There is no other place for the job now; it stays where it is."""

    job: Name
    attempt: Count
    reason: Annotated[str, Field(max_length=2000)]


class EvictionStuck(Decision):
    """The victim's room did not come free in time; it counts as occupied until it does."""

    job: Name
    attempt: Count
    tasks: str = ""


class EvictionWithdrawn(Decision):
    """An eviction is taken back. `told`: agents may have heard of it and are asked to confirm."""

    job: Name
    attempt: Count
    plan: Count | None
    told: bool
    reason: str
    tasks: str = ""


class JobRequeued(Decision):
    """The attempt is over and the job is back in the queue, at its old place; a paused one is set aside."""

    job: Name
    attempt: Count
    outcome: Literal["preempted", "preempted-unclean", "failed", "lost"]
    cause: str
    lost_gpu_ms: Count = 0
    not_before: Time = 0


class JobEnded(Decision):
    """The job is over for good. exit_codes: of tasks that did not end with 0, by task, at most the first 100.

    timed-out: it ran for as long as its run-time limit, and had not finished when its grace was over.
    """

    job: Name
    attempt: Count
    outcome: Literal["succeeded", "failed", "cancelled", "evicted", "timed-out"]
    exit_codes: dict[str, Integer] = Field(default_factory=dict)
    reason: Annotated[str, Field(max_length=1000)] = ""


class JobShrunk(Decision):
    """These tasks are gone and their room is free; the job goes on with the others. not_before: when it may grow again."""

    job: Name
    attempt: Count
    tasks: str
    outcome: Literal["preempted", "preempted-unclean", "lost"]
    cause: str
    lost_gpu_ms: Count = 0
    not_before: Time = 0


class JobAged(Decision):
    """The rule `ageing`: from here on the job counts with `effective` instead of `priority`, or no longer does."""

    job: Name
    priority: Integer
    effective: Integer
    reason: Annotated[str, Field(max_length=1000)]


class ScheduleTimedOut(Decision):
    """The rule `schedule-timeout`: the gang waits longer than the policy means it to. then: what follows."""

    job: Name
    waited: Duration
    then: Literal["report", "fail", "pass"]
    reason: Annotated[str, Field(max_length=2000)] = ""
