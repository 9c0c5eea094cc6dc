"""The state of one pool, as folded from its log. Only `fold` changes these values; everyone else reads them."""

from bisect import bisect_left
from dataclasses import dataclass, field
from typing import Literal

from .demand import JobDemand, TaskGroup
from .indices import Indices
from .policy import Policy
from .proposal import Proposal

TaskState = Literal["reserved", "starting", "running", "exited", "released"]
JobPhase = Literal["pending", "paused", "reserved", "starting", "running", "evicting", "succeeded", "failed", "cancelled"]
NodeState = Literal["ready", "unreachable", "lost"]
EvictionCause = Literal[
    "preemption", "cancelled", "gang-failure", "stale-gang", "scaled", "policy", "time-limit", "device", "over-share",
    "paused", "requested", "drain", "migration", "resize",
]  # fmt: skip
DrainMode = Literal["graceful", "quick", "fast"]

ENDED: frozenset[JobPhase] = frozenset({"succeeded", "failed", "cancelled"})


@dataclass(slots=True)
class Device:
    """A GPU of a node. `number` is its bit in the node's masks.

    fault: why it is quarantined or unhealthy, since when (µs), left so by which job. clear_seq: the record that asks its
    agent to take it into use again, as it is.
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


@dataclass(slots=True)
class Resources:
    """An amount of one node: a mask of whole devices, CPU in millicores, memory in bytes, task slots.

    shares: of devices that are shared, by device number, in units of `sharing.py`; such a device is in no mask.
    """

    devices: int = 0
    cpu_milli: int = 0
    memory_bytes: int = 0
    slots: int = 0
    shares: dict[int, int] = field(default_factory=dict)


@dataclass(slots=True)
class Drain:
    """A node that is being emptied, since the record `seq`. due: what runs there leaves now. deadline: µs on log time."""

    seq: int
    mode: DrainMode
    reason: str = ""
    deadline: int | None = None
    due: bool = False


@dataclass(slots=True)
class Node:
    """One machine. `allocated`, `releasing` and `reserved` are sums over the tasks that stand on it.

    allocated: of tasks that started and are not proved gone; releasing: the part of it that is on its way out;
    reserved: promised to gangs that have not started. quarantined: devices that were not seen free.
    lease: the longest one that its agent may go by, µs. drain: why it takes nothing new.
    checkpoint_store: names the folder in which jobs keep theirs, where nodes share one.
    silence_confirmed: an operator says that its present silence is its own, whoever else is silent.
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

    @property
    def schedulable(self) -> bool:
        """Whether anything new may be placed there."""
        return self.state == "ready" and self.drain is None


@dataclass(slots=True)
class Eviction:
    """A decided eviction of a job's present attempt, or of one surplus task.

    started_seq: the record that let the executor tell the agents; cancel_seq: the record that took it back.
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


@dataclass(slots=True)
class Task:
    """One member of a gang in the job's present attempt. `eviction`: of this member alone, while the job goes on.

    start_seq: the record that ordered its start, which the agents' fences compare. attached: it listens for notices.
    stage_times: when it reached the stages of its eviction. step, step_rate_milli (steps in 1,000 s), checkpoint_step,
    checkpoint_at:
    how far it has said that it is; notice_step, notice_step_rate_milli: when it had its notice. confirmed_step: the step at
    which it would
    save together with its gang. resumed_step: the step that it went on from. device_failed: one of its devices broke under it.
    idle_since: since when none of its GPUs has done anything.
    over_share: it used more of a shared device than it was given, and the policy says that it leaves.
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


@dataclass(slots=True)
class OperatorRequest:
    """What somebody wants of a job that has a place, until it is decided on: that it leaves, or moves (to `node`)."""

    seq: int
    kind: Literal["evict", "migrate"]
    reason: str = ""
    node: str | None = None


@dataclass(slots=True)
class Job:
    """A gang and where it stands. Times are µs UTC on log time.

    priority: the effective one, for order and victim tests; base_priority: its class's. tasks: the members that have a
    place in the present attempt, by index; an elastic job may have fewer than it asks for. reservation: the places that are
    kept for its next attempt while this one still leaves, or for members that leave while it goes on, until when, and by
    which action (a job that is moved).
    eviction_times: involuntary evictions that a rule still counts. stale_since: since when the running gang lacks a member
    that it needs. pending_since: when it last joined the queue, a dropped reservation apart. first_wait: how long it
    waited for its first start. step: how far its earlier attempts are known to have come. paused_seq: the record that
    paused it; None while it is not paused. restart_pending: members that were told of are gone, and the others are to start again
    without them. idle_recorded: it was said that its GPUs do nothing. user: who submitted it.
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
    step: int | None = None
    paused_seq: int | None = None
    pause_reason: str = ""
    operator_request: OperatorRequest | None = None
    restart_pending: bool = False
    idle_recorded: bool = False
    user: str = ""

    def groups(self) -> list[TaskGroup]:
        """The task group of each task, by task index; also of members whose job was scaled down and that are still there."""
        found = [group for group in self.demand.tasks for _ in range(group.count)]
        beyond = self.tasks[-1].index + 1 - len(found) if self.tasks else 0
        return found + [self.demand.tasks[-1]] * beyond

    def group(self, index: int) -> TaskGroup:
        """The task group of one task: `groups()[index]`, without the list."""
        for group in self.demand.tasks:
            if index < group.count:
                return group
            index -= group.count
        return self.demand.tasks[-1]

    def task(self, index: int) -> Task | None:
        """The member of that index, where it has a place."""
        if index < len(self.tasks) and self.tasks[index].index == index:  # nobody is missing before it
            return self.tasks[index]
        at = bisect_left(self.tasks, index, key=lambda task: task.index)
        return self.tasks[at] if at < len(self.tasks) and self.tasks[at].index == index else None

    @property
    def size(self) -> int:
        """How many tasks the gang has, placed or not."""
        groups = self.demand.tasks
        return groups[0].count if len(groups) == 1 else sum(group.count for group in groups)

    @property
    def minimum(self) -> int:
        """How many tasks must run together; the others are surplus."""
        return self.size if self.demand.min_tasks is None else self.demand.min_tasks

    @property
    def gpus(self) -> int:
        """Whole GPUs of the gang."""
        return sum(group.count * group.gpu_milli for group in self.demand.tasks) // 1000


@dataclass(slots=True)
class OpenRequest:
    """A `PreemptionRequested` without an answer."""

    seq: int
    job: str


@dataclass(slots=True)
class Selection:
    """The one batch of preemption requests that is out."""

    number: int
    opened_seq: int
    deadline: int | None
    requests: list[OpenRequest]


@dataclass(slots=True)
class Preemption:
    """A preemption under way: `seq` of the decision, who it is for, who leaves. abandoned: why it is not needed."""

    seq: int
    job: str
    victims: list[str]
    abandoned: str | None = None


@dataclass(slots=True)
class SeenRequest:
    """A request seen: what it said, when, and where it is recorded."""

    digest: str
    seen_at: int
    seq: int


@dataclass(slots=True)
class RejectionCount:
    """How many inputs of one source were rejected in the minute that began at `since`."""

    since: int
    count: int


@dataclass(slots=True)
class PoolState:
    """The whole state of one pool after the record `seq`. Only the fold writes it, apart from `indices`.

    queue: jobs that lack tasks, by priority, submission and id; `queue/order.py` has the order in which they are tried.
    active: jobs with tasks that have a place. reserved, starting, evicting: of these, the ones with reserved tasks, with
    tasks that are being started, and with evictions in progress (dicts used as ordered sets). ended: jobs by end time.
    epochs: the first seq of each epoch. accepted_truncation: the highest (epoch, seq) whose loss an operator accepted.
    truncation_unreconciled: since then, tasks may run that the log does not know. proposals: of the current batch, by the seq
    of the request. draining: nodes being drained, in the order of the requests. silent_nodes: too many nodes fell silent at
    once; none of these is declared lost. run_time_limits: when running jobs reach their limit, soonest first. enforcing:
    within a cycle, a policy was applied with `enforce`. reclaimed_at: when a project last lost something to reclaim.
    displaced_by: by victim (with `+`: its surplus), the preemptors and the record that decided it (`fold/displacements.py`).
    entitlements_changed: the last record that changed what projects may claim.
    """

    pool: str = ""
    partition: int = -1
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
    nodes: dict[int, Node] = field(default_factory=dict)
    node_numbers: dict[str, int] = field(default_factory=dict)
    jobs: dict[str, Job] = field(default_factory=dict)
    queue: list[str] = field(default_factory=list)
    active: dict[str, None] = field(default_factory=dict)
    reserved: dict[str, None] = field(default_factory=dict)
    starting: dict[str, None] = field(default_factory=dict)
    evicting: dict[str, None] = field(default_factory=dict)
    ended: dict[str, int] = field(default_factory=dict)
    preemptions: dict[int, Preemption] = field(default_factory=dict)
    selection: Selection | None = None
    proposals: dict[int, Proposal] | None = None
    selections: int = 0
    selection_failures: int = 0
    requests: dict[str, SeenRequest] = field(default_factory=dict)
    rejections: dict[str, RejectionCount] = field(default_factory=dict)
    silent_nodes: list[str] = field(default_factory=list)
    run_time_limits: list[tuple[int, str]] = field(default_factory=list)
    reclaimed_at: dict[str, int] = field(default_factory=dict)
    displaced_by: dict[str, dict[str, int]] = field(default_factory=dict)
    entitlements_changed: int = -1
    draining: dict[int, None] = field(default_factory=dict)
    enforcing: bool = False
    indices: Indices = field(default_factory=Indices)

    @property
    def rules(self) -> Policy:
        """The policy in force. Raises `AssertionError` before the first one was applied."""
        assert self.policy is not None, "no policy has been applied yet"
        return self.policy

    def epoch_of(self, seq: int) -> int:
        """The epoch in which the record `seq` was written."""
        return max((epoch for epoch, began in self.epochs.items() if began <= seq), default=0)

    def touched_jobs(self) -> list[Job]:
        """Jobs that the turn has touched so far and that are not forgotten."""
        return [self.jobs[name] for name in self.indices.touched if name in self.jobs]

    def active_jobs(self) -> list[Job]:
        """Jobs that hold or are promised room."""
        return [self.jobs[name] for name in self.active]
