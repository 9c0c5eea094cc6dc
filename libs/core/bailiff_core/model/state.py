"""The state of one pool, as folded from its log. Only `fold` changes these values."""

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from .certificate import RootKeyChange
from .demand import JobDemand, TaskGroup
from .indices import Indices
from .policy import Policy
from .proposal import Proposal
from .snapshot_offer import NotRestored, ParkingOffer, SnapshotOffer

TaskState = Literal["reserved", "starting", "running", "exited", "released"]
JobPhase = Literal[
    "waiting", "pending", "paused", "reserved", "starting", "running", "evicting", "succeeded", "failed", "cancelled"
]
"""waiting: for other jobs, outside the queue."""
NodeState = Literal["ready", "unreachable", "lost"]
EvictionCause = Literal[
    "preemption",
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
    "migration",
    "resize",
]
BudgetLevel = Literal["within", "warning", "exhausted"]
Repeat = Literal["never", "daily", "weekly"]
DrainMode = Literal["graceful", "quick", "fast"]

NOTHING: Final[Mapping[str, Any]] = {}
"""One for all jobs, most of which have nothing in their mappings: those are replaced, never changed."""


def _nothing() -> Mapping[str, Any]:
    return NOTHING


ENDED: frozenset[JobPhase] = frozenset({"succeeded", "failed", "cancelled"})


@dataclass(slots=True)
class Device:
    """A GPU of a node, or a MIG device (kind `mig`) of the card `parent`. `number` is its bit in the node's masks.

    Attributes:
        profile: Profile of a MIG device, such as `3g.40gb`.
        island: The same for GPUs of the node that NVLink or one PCIe switch connects.
        gone: Its card is now partitioned differently.
        fault: Why it is quarantined or unhealthy, since when (µs), and the job that left it so.
        clear_seq: The record of the request to use it again as it is.
    """

    number: int
    id: str
    model: str
    memory_bytes: int
    kind: str = "gpu"
    parent: str | None = None
    healthy: bool = True
    labels: dict[str, str] = field(default_factory=dict)
    fault: str = ""
    fault_since: int | None = None
    fault_job: str | None = None
    clear_seq: int | None = None
    profile: str = ""
    island: str = ""
    gone: bool = False


@dataclass(slots=True)
class Resources:
    """Resources of one node: a mask of whole devices, CPU in millicores, memory in bytes, task slots.

    Attributes:
        shares: Used units of shared devices (`gpu_shares.py`), by device number; a shared device is not in the mask.
    """

    devices: int = 0
    cpu_milli: int = 0
    memory_bytes: int = 0
    slots: int = 0
    shares: dict[int, int] = field(default_factory=dict)


@dataclass(slots=True)
class Drain:
    """Drain of a node since the record `seq`.

    Attributes:
        deadline: µs, log time.
        due: Its tasks are evicted now.
        requester: The actor of the request.
        requester_verified: Whether that name was verified.
    """

    seq: int
    mode: DrainMode
    reason: str = ""
    deadline: int | None = None
    due: bool = False
    requester: str = ""
    requester_verified: bool = False


@dataclass(slots=True)
class Maintenance:
    """A time at which a node is drained, requested by the record `seq`.

    Attributes:
        begin: µs UTC; its tasks are gone by then.
        end: µs UTC.
        began: By record.
        requester: The actor of the request.
        requester_verified: Whether that name was verified.
    """

    seq: int
    begin: int
    end: int
    reason: str = ""
    requester: str = ""
    requester_verified: bool = False
    began: bool = False


OPERATOR = "an operator"
"""The hold of an operator's pause."""
SILENT_AFTER = 60_000_000
"""A node that has not reported for this long needs a person, µs. The policy says when it takes no more jobs, and is lost."""


@dataclass(slots=True)
class Node:
    """One machine. `allocated`, `releasing` and `reserved` are sums over its tasks.

    Attributes:
        allocated: Resources of tasks ordered to start whose release is not proven.
        releasing: The part of `allocated` that is being evicted or has exited.
        reserved: Resources of reservations.
        quarantined: Mask of devices not seen free.
        lease: The longest lease that its agent may apply, µs.
        checkpoint_store: Identity of the checkpoint directory, where nodes share one.
        snapshots: The drivers that save and restore tasks on it, or why they cannot.
        parking: What it keeps for parked tasks.
        silence_confirmed: An operator confirmed that the node itself is silent, so it may be declared lost even while many nodes
            are silent.
    """

    number: int
    name: str
    incarnation: str
    machine_id: str
    boot_id: str
    joined_seq: int
    capacity: Resources
    devices: list[Device]
    labels: dict[str, str]
    state: NodeState = "ready"
    last_report: int = 0
    allocated: Resources = field(default_factory=Resources)
    releasing: Resources = field(default_factory=Resources)
    reserved: Resources = field(default_factory=Resources)
    quarantined: int = 0
    lease: int = 0
    silence_confirmed: bool = False
    drain: Drain | None = None
    checkpoint_store: str | None = None
    snapshots: tuple[SnapshotOffer, ...] = ()
    parking: ParkingOffer | None = None

    @property
    def schedulable(self) -> bool:
        """Whether new tasks may be placed on it."""
        return self.state == "ready" and self.drain is None

    @property
    def expected(self) -> bool:
        """Whether its silence is a fault: a machine that is drained and empty may be switched off."""
        return self.drain is None or self.allocated.slots > 0


@dataclass(slots=True)
class Eviction:
    """A decided eviction of a job's present attempt, or of one task of it.

    Attributes:
        started_seq: The `EvictionStarted` record, after which agents are notified.
        shortened_seq: The record that last shortened its grace.
        cancel_seq: The record that cancelled it.
        shrinks: Of a job that is evicted whole because it restarts with fewer tasks.
        in_vain: Its preemptor has given up the place: by its own or its owner's doing, or not. `None`: it wants it still.
        parks: The job is to be parked; its memory counts on its node.
    """

    decided_seq: int
    cause: EvictionCause
    grace: int
    preemption: int | None = None
    for_job: str | None = None
    started_seq: int | None = None
    started_at: int | None = None
    cancel_seq: int | None = None
    stuck: bool = False
    shrinks: bool = False
    shortened_seq: int | None = None
    in_vain: bool | None = None
    parks: bool = False

    @property
    def ordered_seq(self) -> int | None:
        """The record that orders what agents are to do; `None`: nothing yet."""
        return None if self.started_seq is None else max(self.started_seq, self.shortened_seq or 0)


@dataclass(slots=True)
class Task:
    """A task of the job's present attempt.

    Attributes:
        eviction: Eviction of this task alone, while the job continues.
        start_seq: The record that ordered its start, compared by the agents' fences.
        attached: It listens for notices.
        noticed: It got its eviction notice, or left unfinished after a member of its gang had got one.
        stage_times: When it reached the stages of its eviction.
        step: Its last reported step.
        step_rate_milli: Its last reported speed, steps in 1,000 s.
        checkpoint_step: Step of its last reported checkpoint.
        checkpoint_at: Time of its last reported checkpoint.
        kill_after: Time from its notice to KILL, as its node last reported it.
        notice_step: Its step at the notice.
        notice_step_rate_milli: Its speed at the notice.
        confirmed_step: The step at which it can save together with its gang.
        resumed_step: The step it resumed from.
        device_failed: One of its devices became unhealthy.
        idle_since: Since when its GPUs are idle.
        over_share: It used more than its share of a device, and the policy evicts it.
        reported_done: Its job said so before it exited, or exit code 0 says so by its `on_term`.
        restores: It is to continue from the job's snapshot.
        not_restored: Why it does not, though there is one.
        waits: It is restored and stands still, until all tasks of its gang are.
        restored: It continues.
        restore_failed: It could not be restored, or others of its gang could not, and it was started anew.
        saved: Its state, as its node has stored it in the eviction.
        saving: Its snapshot while it runs, if one was ordered.
        ended_untold: The decision of the eviction in which it ended unfinished, after its start and before any notice on record.
        start_failed: Its node refused to start it, or it ended before it ran.
    """

    index: int
    node: int
    devices: int
    state: TaskState
    exit_code: int | None = None
    noticed: bool = False
    term_sent: bool = False
    kill_sent: bool = False
    eviction_cancelled: bool = False
    started_at: int | None = None
    start_seq: int | None = None
    eviction: Eviction | None = None
    acknowledged: bool = False
    attached: bool = False
    stage_times: dict[str, int] = field(default_factory=dict)
    step: int | None = None
    total_steps: int | None = None
    step_rate_milli: int = 0
    notice_step: int | None = None
    notice_step_rate_milli: int = 0
    confirmed_step: int | None = None
    resumed_step: int | None = None
    checkpoint_step: int | None = None
    checkpoint_at: int | None = None
    device_failed: bool = False
    over_share: bool = False
    idle_since: int | None = None
    reported_done: bool = False
    kill_after: int | None = None
    ended_untold: int | None = None
    restores: bool = False
    not_restored: NotRestored = ""
    waits: bool = False
    restored: bool = False
    restore_failed: bool = False
    saved: "StoredSnapshot | None" = None
    saving: "RunningSnapshot | None" = None
    start_failed: bool = False

    @property
    def notified(self) -> bool:
        """Whether it got an eviction notice, TERM or KILL before it ended."""
        return self.noticed or self.term_sent or self.kill_sent

    @property
    def finished(self) -> bool:
        """Whether it exited with 0, and not because of its eviction: after a notice only if it said that it was done."""
        return self.state in ("exited", "released") and self.exit_code == 0 and (self.reported_done or not self.notified)


@dataclass(slots=True)
class StoredSnapshot:
    """The state of a task, as a node has saved it. What it needs to be restored: `why_not_restored` of `model/snapshots.py`.

    Attributes:
        sha256: Of its manifest.
        node: The number of the node that saved it; `machine_id`: its machine then, which several nodes may be on.
        checkpoint_store: Identity of the directory that it is in, where nodes share it.
        seq: The record that says that it is stored.
    """

    task: int
    driver: str
    sha256: str
    bytes: int
    node: int
    machine_id: str
    checkpoint_store: str | None
    cpu: str
    seq: int


@dataclass(slots=True)
class RunningSnapshot:
    """How far the snapshot of a task that runs is.

    Attributes:
        stage_times: When it reached the stages, µs.
        stored: What its node has stored, until that of all tasks is the job's newest.
    """

    stage_times: dict[str, int] = field(default_factory=dict)
    stored: StoredSnapshot | None = None


@dataclass(slots=True)
class JobSnapshot:
    """The state of all tasks of a job, saved at one point in time.

    Attributes:
        tasks: By index.
        work_gpu_ms: The work that only this snapshot has.
        save_time: From the first task that was frozen until the last was stored, as recorded, µs.
        parked_at: Of one that is parked: since when, µs.
        save_seq: Of one that is parked: the record that ordered to save it to disk.
        save_failed: Why that did not work; empty: it was not ordered, or is not over.
        unsaved: Of one that is parked: how long the job had worked unsaved, µs.
        named_nodes: Of one that is parked: the nodes that the job names itself. Meanwhile it waits for the one that has it.
        on_disk: Of one that is parked: the newest that is on disk, from which the job continues if its parked task is lost.
    """

    attempt: int
    tasks: list[StoredSnapshot]
    work_gpu_ms: int
    save_time: int = 0
    parked_at: int | None = None
    save_seq: int | None = None
    save_failed: str = ""
    unsaved: int = 0
    named_nodes: tuple[str, ...] = ()
    on_disk: "JobSnapshot | None" = None


@dataclass(slots=True)
class OperatorRequest:
    """Pending request to evict or migrate (to `node`) a placed job."""

    seq: int
    kind: Literal["evict", "migrate"]
    reason: str = ""
    node: str | None = None


@dataclass(slots=True)
class Job:
    """A job (gang of tasks) and its state. Times are µs UTC, log time.

    Attributes:
        priority: The effective priority, for queue order and victim tests.
        base_priority: The priority of its class.
        tasks: The placed tasks of the present attempt, by index; an elastic job may have fewer than it requests.
        reservation: Places reserved for its next attempt, or for single tasks, while the present ones are evicted.
        reservation_until: When the reservation expires.
        reservation_action: The action that reserved (for a relocated job).
        eviction_times: Times of recent involuntary evictions.
        stale_since: Since when the running gang is below its minimum.
        pending_since: When it last joined the queue; a dropped reservation does not change it.
        first_wait: Time from submission to its first start.
        step: Last known step of earlier attempts.
        paused_seq: The record that paused it; None: not paused.
        holds: Why it is paused, by whose pause it is: record and reason. Its owner's is ``, an operator's `OPERATOR`.
        resumed_seq: The record that last ended one of them.
        refused_seq: The record that last refused its request for preemption, or timed it out.
        backfilled: Its last attempt was started, or moved after its start, while a job ahead of it in the queue was waiting for
            resources there.
        restart_cause: Why tasks are gone without which the others have to restart; empty: they do not.
        idle_recorded: `JobIdle` was recorded.
        user: The user whose job it is.
        user_verified: Whether that name was verified.
        requester: Who last requested to cancel, pause, evict or migrate it.
        requester_verified: Whether that name was verified.
        request_reason: The reason in that request.
        grace_limit: The longest grace of its evictions, by request.
        unkept: How often in a row it used up its grace and saved nothing, or reported a checkpoint that could not be read.
        unkept_seq: The record that showed it last.
        checkpoint_claim: Whether its last attempt reported a checkpoint, or saved one in its eviction.
        snapshot: The newest one that no later checkpoint of the job replaces.
        unsaved_seq: The record of the snapshot, or its restore, that failed, unless a later one was stored.
        saving_seq: The record that ordered the snapshot of the running job that is being taken.
        saving_at_interval: Whether its interval ordered it, and nobody's request.
        saving_since: When the last one of its attempt was ordered, µs.
        saved_until: The work of its attempt until then, µs, is in a snapshot that was taken while it ran.
        restart_time: How long its last snapshot that was restored took: to save and to restore, µs.
        park_time: How long it took to park and to resume it last, µs.
        unsaved_before: How long it had worked unsaved when it was parked, in the attempt that it continues, µs.
        waits_for: The jobs that must succeed, or end, before it joins the queue.
        failed_dependency: The job among them that did not succeed.
        start_failures: How many of its attempts in a row did not start.
        refused_by: Nodes that did not start its tasks, and are excluded for it: in `excluded_nodes` of its demand.
        assigned_at: When its attempt could start, no task being reserved any more.
        leaving_time: How long its last eviction took, from the notice until its resources were free, µs.
        victims: Who left for its attempt, or for a job that had not run for long when it evicted that, and when, µs.
        evicted_for: How often jobs of each owner (`user_key`) have evicted it by priority, without a day in between, and when
            last, µs.
        victims_in_vain: Victims of its attempts that did not start, or ended by themselves at once: it evicts none again before
            it has run.
    """

    id: str
    seq: int
    submitted_at: int
    demand: JobDemand
    class_name: str
    priority: int
    preemptible: bool
    may_preempt: bool
    spec_digest: str
    project: str = ""
    base_priority: int = 0
    scheduling_class: str = ""
    phase: JobPhase = "pending"
    attempt: int = 0
    tasks: list[Task] = field(default_factory=list)
    reserved_until: int | None = None
    preemption: int | None = None
    eviction: Eviction | None = None
    cancelled: bool = False
    suspended_reason: str | None = None
    last_start: int | None = None
    last_eviction: int | None = None
    evictions: int = 0
    failures: int = 0
    losses: int = 0
    yields: int = 0
    ended_at: int | None = None
    last_checkpoint: int | None = None
    eviction_times: list[int] = field(default_factory=list)
    stale_since: int | None = None
    reservation: list[Task] = field(default_factory=list)
    reservation_until: int | None = None
    reservation_action: str = "allocate"
    timeout_recorded: bool = False
    pending_since: int = 0
    first_wait: int | None = None
    pending_recorded: bool = False
    not_before: int = 0
    next_request_at: int = 0
    refused_requests: int = 0
    refused_seq: int = -1
    step: int | None = None
    paused_seq: int | None = None
    pause_reason: str = ""
    holds: Mapping[str, tuple[int, str]] = field(default_factory=_nothing)
    resumed_seq: int = 0
    operator_request: OperatorRequest | None = None
    restart_cause: str = ""
    idle_recorded: bool = False
    backfilled: bool = False
    user: str = ""
    user_verified: bool = False
    requester: str = ""
    requester_verified: bool = False
    request_reason: str = ""
    grace_limit: int | None = None
    unkept: int = 0
    unkept_seq: int | None = None
    checkpoint_claim: Literal["", "reported", "saved"] = ""
    waits_for: Mapping[str, Literal["succeeded", "ended"]] = field(default_factory=_nothing)
    failed_dependency: str = ""
    snapshot: JobSnapshot | None = None
    unsaved_seq: int | None = None
    saving_seq: int | None = None
    saving_at_interval: bool = False
    saving_since: int | None = None
    saved_until: int | None = None
    restart_time: int | None = None
    park_time: int | None = None
    unsaved_before: int = 0
    start_failures: int = 0
    refused_by: tuple[str, ...] = ()
    assigned_at: int | None = None
    leaving_time: int | None = None
    victims: Mapping[str, int] = field(default_factory=_nothing)
    victims_in_vain: tuple[str, ...] = ()
    evicted_for: Mapping[str, tuple[int, int]] = field(default_factory=_nothing)

    def share_empty(self) -> None:
        """Lets a job that was read from a snapshot share `NOTHING`."""
        self.holds, self.waits_for, self.victims = self.holds or NOTHING, self.waits_for or NOTHING, self.victims or NOTHING
        self.evicted_for = self.evicted_for or NOTHING

    @property
    def queued_since(self) -> int:
        """Start of its present pending time, µs: submitted, evicted, failed or lost. Dropping a reservation keeps it."""
        return max(self.submitted_at, self.last_eviction or 0, self.pending_since)

    def groups(self) -> list[TaskGroup]:
        """Returns the task group of each task, by index; includes tasks beyond the size of a job that was scaled down."""
        found = [group for group in self.demand.tasks for _ in range(group.count)]
        beyond = self.tasks[-1].index + 1 - len(found) if self.tasks else 0
        return found + [self.demand.tasks[-1]] * beyond

    def group(self, index: int) -> TaskGroup:
        """Returns `groups()[index]` without building the list."""
        for group in self.demand.tasks:
            if index < group.count:
                return group
            index -= group.count
        return self.demand.tasks[-1]

    def task(self, index: int) -> Task | None:
        """Returns the placed task of that index, or `None`."""
        if index < len(self.tasks) and self.tasks[index].index == index:  # no gap before it
            return self.tasks[index]
        at = bisect_left(self.tasks, index, key=lambda task: task.index)
        return self.tasks[at] if at < len(self.tasks) and self.tasks[at].index == index else None

    @property
    def size(self) -> int:
        """Number of tasks of the gang, placed or not."""
        groups = self.demand.tasks
        return groups[0].count if len(groups) == 1 else sum(group.count for group in groups)

    @property
    def minimum(self) -> int:
        """Minimum number of tasks that run together; the others are surplus."""
        return self.size if self.demand.min_tasks is None else self.demand.min_tasks

    @property
    def gpus(self) -> int:
        """Number of whole GPUs of the gang."""
        groups = self.demand.tasks
        first = groups[0].count * groups[0].gpu_milli
        return (first if len(groups) == 1 else sum(group.count * group.gpu_milli for group in groups)) // 1000


@dataclass(slots=True)
class OpenRequest:
    """A `PreemptionRequested` without a decision."""

    seq: int
    job: str


@dataclass(slots=True)
class Selection:
    """The one open batch of preemption requests."""

    number: int
    opened_seq: int
    deadline: int | None
    requests: list[OpenRequest]


@dataclass(slots=True)
class Preemption:
    """A preemption in progress.

    Attributes:
        seq: The record of the decision.
        job: The preemptor.
        abandoned: Why it is no longer needed.
    """

    seq: int
    job: str
    victims: list[str]
    abandoned: str | None = None


@dataclass(slots=True)
class Spared:
    """A job that was evicted in vain, or often, for jobs of one owner, which evict it no more until then.

    Attributes:
        times: How often in vain, each time after `until`. The first one that succeeded counts as none.
        until: µs.
        seq: The record that showed it last.
        often: How often it was evicted by priority, in vain or not, once that is too often.
        often_until: Until when they do not preempt it, µs, for having done so too often; they may reclaim from it.
    """

    times: int
    until: int
    seq: int
    often: int = 0
    often_until: int = 0


@dataclass(slots=True)
class Attachment:
    """A grant to attach to a task, until it has ended.

    Attributes:
        node: Name of the task's node.
        incarnation: Incarnation of the agent that got the grant.
        user: Who requested it.
        user_verified: Whether that name was verified.
    """

    job: str
    attempt: int
    task: int
    node: str
    incarnation: str
    user: str
    granted_at: int
    ready: bool = False
    started_at: int | None = None
    user_verified: bool = False


@dataclass(slots=True)
class SeenRequest:
    """An accepted request id: digest of its content, time, and seq of its record."""

    digest: str
    seen_at: int
    seq: int


@dataclass(slots=True)
class RejectionCount:
    """Number of rejected inputs of one sender in the minute from `since`."""

    since: int
    count: int


@dataclass(slots=True)
class RejectedInputs:
    """Inputs of one sender that were rejected with one code.

    Attributes:
        source: The proven sender, or the claimed source; the topic, where nobody is named or the name counts for nothing.
        first: Time of the oldest, µs UTC.
        last: Time of the newest, µs UTC.
        seq: Record of the newest.
        reason: Reason of the newest.
    """

    code: str
    source: str
    count: int
    first: int
    last: int
    seq: int
    reason: str


@dataclass(slots=True)
class EnrolledNode:
    """The public keys of a node.

    Attributes:
        announced: When its agent sent the inventory that joined last, on its own clock, µs UTC.
        max_devices: The most that it may say it has, with this key or the next one (`PoolState.device_limit`).
    """

    key: str
    encryption_key: str
    announced: int = 0
    max_devices: int | None = None


@dataclass(slots=True)
class EnrolmentPermit:
    """Who may enrol once under a node's name until `expires`, µs: the holder of the token's private key, or that of `key`.

    Attributes:
        max_devices: The name's limit, which outlasts the permit.
    """

    seq: int
    token_key: str | None
    key: str | None
    expires: int
    max_devices: int | None = None


@dataclass(slots=True)
class WaitingNode:
    """An agent that announced itself under a node's name without being enrolled.

    Attributes:
        key: Its public key.
        since: µs.
    """

    key: str
    since: int


@dataclass(slots=True)
class ShareTurn:
    """Of the children of one project: since when (µs) they divide GPUs as they do now.

    Attributes:
        owed: What rounding of earlier turns owes each, thousandths of a GPU; less than 0: it had more than its part.
        used: What each used beyond its quota, averaged over the past, thousandths of a GPU.
    """

    began: int
    owed: dict[str, int]
    used: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class ProjectUse:
    """What one project uses and used beyond its quota.

    Attributes:
        held: GPUs that its jobs hold now, thousandths.
        since: Since when, µs.
        used: GPU time beyond the quota until then, decayed (`past_use.py`), thousandths of a GPU × µs.
    """

    held: int = 0
    since: int = 0
    used: int = 0


@dataclass(slots=True)
class PastUse:
    """By project of the policy with a half-life, µs: what it used beyond its quota. Counted since `began`, µs."""

    half_life: int
    began: int
    projects: dict[str, ProjectUse] = field(default_factory=dict)


@dataclass(slots=True)
class BudgetUse:
    """What a row of the policy's budgets has used (`budgets/use.py`).

    Attributes:
        counted_since: µs.
        month: The month that the figures are of (`budgets/months.py`).
        held: GPUs that its jobs hold now, thousandths.
        since: Since when, µs.
        used: Of this month until then, thousandths of a GPU × µs.
        topped_up: GPU-hours that were added this month.
        transferred: GPU-hours that other budgets have given this month, less those given to others.
        level: As recorded last.
    """

    counted_since: int
    month: int
    held: int = 0
    since: int = 0
    used: int = 0
    topped_up: int = 0
    transferred: int = 0
    level: BudgetLevel = "within"


@dataclass(slots=True)
class GpuReservation:
    """GPUs that are promised to the jobs of a project, and those below it, at certain times (`calendar/`).

    Attributes:
        begin: Of the first time, µs UTC.
        duration: Of each time, µs.
        weekdays: Of `weekly`; Monday is 0.
        times: How many times in all.
        seq: The record of the request.
        requester: Who made it.
        requester_verified: Whether that name was verified.
        began: When the time began that is on record as begun and not as ended, µs.
        done: When the last time ended that is on record as ended, µs.
    """

    name: str
    project: str
    gpus: int
    begin: int
    duration: int
    repeat: Repeat
    weekdays: tuple[int, ...]
    times: int
    seq: int
    requester: str = ""
    requester_verified: bool = False
    reason: str = ""
    began: int | None = None
    done: int = 0


@dataclass(slots=True)
class PoolState:
    """The whole state of one pool after the record `seq`. Only the fold writes it, apart from `indices`.

    Dicts with None as values are ordered sets.

    Attributes:
        queue: Jobs that need placement, by priority, submission and id; `queue/order.py` has the order of a pass.
        active: Jobs with placed tasks.
        reserved: Active jobs with reserved tasks.
        starting: Active jobs with starting tasks.
        waiting: Active jobs with restored tasks that stand still.
        saving: Active jobs that are being saved while they run.
        parked: Jobs that are parked, or evicted to be.
        evicting: Active jobs with evictions in progress.
        backfilled: Active jobs that were backfilled.
        ended: Jobs by end time.
        root_key: Certifies the participants; empty: nothing is signed.
        writer_key: Key of the log's writer, valid until `writer_until` (RFC 3339).
        revoked_keys: Public keys without effect.
        identity: Hash of the log's first record.
        root_key_changes: All changes, in order.
        enrolled: Keys by node name.
        permits: Permits to enrol by node name.
        waiting_nodes: Agents that wait to be enrolled, by node name.
        epochs: The first seq of each epoch.
        accepted_truncation: The highest (epoch, seq) whose loss an operator accepted.
        truncation_unreconciled: Tasks may run that the truncated log does not have.
        topic_ids: Kafka's ids of the topics that `inputs` has positions of.
        proposals: Proposals of the current batch, by the seq of the request.
        draining: Nodes being drained, in the order of the requests.
        maintenance: By number of the node, until it is over.
        silent_nodes: Nodes that fell silent while too many others did; none of them is declared lost.
        run_time_limits: When running jobs reach their limit, soonest first.
        enforcing: Within a cycle, a policy was applied with `enforce`.
        reclaimed_at: When a project was last reclaimed from.
        share_turns: By parent; never changed in place (`fold/share_turns.py`).
        past_use: None: the policy has no half-life.
        budgets: By name of the policy's budgets.
        gpu_reservations: By name, until their last time is over.
        displaced_by: By victim (with `+`: its surplus), the preemptors and the record that decided it (`fold/displacements.py`).
        entitlements_changed: The last record of `fold/entitlement_changes.py`.
        refusals: By name of a node, the jobs that it did not start.
        spared: By owner of preemptors (`user_key`), jobs that were evicted for them in vain, or often (`fold/failed_starts.py`).
        freed_seq: The last record after which a job that did not fit may fit.
        dependents: By job, the jobs that wait for it.
        attachments: By the seq of `AttachGranted` (`fold/attachments.py`).
    """

    pool: str = ""
    partition: int = -1
    root_key: str = ""
    writer_key: str = ""
    writer_until: str = ""
    revoked_keys: dict[str, None] = field(default_factory=dict)
    identity: str = ""
    root_key_changes: list[RootKeyChange] = field(default_factory=list)
    enrolled: dict[str, EnrolledNode] = field(default_factory=dict)
    permits: dict[str, EnrolmentPermit] = field(default_factory=dict)
    waiting_nodes: dict[str, WaitingNode] = field(default_factory=dict)
    seq: int = -1
    now: int = 0
    epoch: int = 0
    writer: str = ""
    cycle: int = -1
    cycle_open: bool = False
    last_fact: int = -1
    engine: str = ""
    epochs: dict[int, int] = field(default_factory=dict)
    accepted_truncation: tuple[int, int] = (0, -1)
    truncation_unreconciled: bool = False
    policy: Policy | None = None
    policy_revision: int = 0
    inputs: dict[str, int] = field(default_factory=dict)
    topic_ids: dict[str, str] = field(default_factory=dict)
    nodes: dict[int, Node] = field(default_factory=dict)
    node_numbers: dict[str, int] = field(default_factory=dict)
    jobs: dict[str, Job] = field(default_factory=dict)
    queue: list[str] = field(default_factory=list)
    active: dict[str, None] = field(default_factory=dict)
    reserved: dict[str, None] = field(default_factory=dict)
    starting: dict[str, None] = field(default_factory=dict)
    waiting: dict[str, None] = field(default_factory=dict)
    saving: dict[str, None] = field(default_factory=dict)
    parked: dict[str, None] = field(default_factory=dict)
    evicting: dict[str, None] = field(default_factory=dict)
    backfilled: dict[str, None] = field(default_factory=dict)
    ended: dict[str, int] = field(default_factory=dict)
    preemptions: dict[int, Preemption] = field(default_factory=dict)
    selection: Selection | None = None
    proposals: dict[int, Proposal] | None = None
    selections: int = 0
    selection_failures: int = 0
    requests: dict[str, SeenRequest] = field(default_factory=dict)
    rejections: dict[str, RejectionCount] = field(default_factory=dict)
    rejected: dict[str, RejectedInputs] = field(default_factory=dict)
    silent_nodes: list[str] = field(default_factory=list)
    run_time_limits: list[tuple[int, str]] = field(default_factory=list)
    reclaimed_at: dict[str, int] = field(default_factory=dict)
    share_turns: dict[str, ShareTurn] = field(default_factory=dict)
    past_use: PastUse | None = None
    budgets: dict[str, BudgetUse] = field(default_factory=dict)
    gpu_reservations: dict[str, GpuReservation] = field(default_factory=dict)
    displaced_by: dict[str, dict[str, int]] = field(default_factory=dict)
    entitlements_changed: int = -1
    refusals: dict[str, dict[str, None]] = field(default_factory=dict)
    spared: dict[str, dict[str, Spared]] = field(default_factory=dict)
    freed_seq: int = -1
    attachments: dict[int, Attachment] = field(default_factory=dict)
    draining: dict[int, None] = field(default_factory=dict)
    maintenance: dict[int, Maintenance] = field(default_factory=dict)
    enforcing: bool = False
    dependents: dict[str, dict[str, None]] = field(default_factory=dict)
    indices: Indices = field(default_factory=Indices)

    def device_limit(self, node: str) -> int | None:
        """The most devices that a node of this name may say it has, whoever enrols it; None: as many as any node."""
        known = self.enrolled.get(node) or self.permits.get(node)
        return known.max_devices if known is not None else None

    @property
    def rules(self) -> Policy:
        """The policy in force.

        Raises:
            AssertionError: Before the first one was applied.
        """
        assert self.policy is not None, "no policy has been applied yet"
        return self.policy

    def epoch_of(self, seq: int) -> int:
        """Returns the epoch of the record `seq`."""
        return max((epoch for epoch, began in self.epochs.items() if began <= seq), default=0)

    def touched_jobs(self) -> list[Job]:
        """Returns the jobs touched in this cycle that are still in the state."""
        return [self.jobs[name] for name in self.indices.touched if name in self.jobs]

    def active_jobs(self) -> list[Job]:
        """Returns the jobs with allocated or reserved resources."""
        return [self.jobs[name] for name in self.active]


def begins_later(state: PoolState, job: Job) -> bool:
    """Whether the job asked not to be in the queue yet."""
    return (job.demand.begin or 0) > state.now
