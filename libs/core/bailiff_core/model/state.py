"""The state of one pool, as folded from its log. Only `fold` changes these values."""

from bisect import bisect_left
from dataclasses import dataclass, field
from typing import Literal

from .certificate import RootKeyChange
from .demand import JobDemand, TaskGroup
from .indices import Indices
from .policy import Policy
from .proposal import Proposal

TaskState = Literal["reserved", "starting", "running", "exited", "released"]
JobPhase = Literal[
    "waiting", "pending", "paused", "reserved", "starting", "running", "evicting", "succeeded", "failed", "cancelled",
]  # fmt: skip
"""waiting: for other jobs, outside the queue."""
NodeState = Literal["ready", "unreachable", "lost"]
EvictionCause = Literal[
    "preemption", "cancelled", "gang-failure", "stale-gang", "scaled", "policy", "time-limit", "device", "over-share",
    "paused", "requested", "drain", "migration", "resize",
]  # fmt: skip
DrainMode = Literal["graceful", "quick", "fast"]

ENDED: frozenset[JobPhase] = frozenset({"succeeded", "failed", "cancelled"})


@dataclass(slots=True)
class Device:
    """A GPU of a node, or a MIG device (kind `mig`) of the card `parent`. `number` is its bit in the node's masks.

    profile: of a MIG device, such as `3g.40gb`. island: the GPUs of the node that it is connected to by NVLink or one PCIe
    switch have the same one. gone: its card is partitioned differently now. fault: why it is quarantined or unhealthy, since
    when (µs), and the job that left it so. clear_seq: the record of the request to use it again as it is.
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

    shares: of shared devices, by device number, in units of `gpu_shares.py`; a shared device is not in the mask.
    """

    devices: int = 0
    cpu_milli: int = 0
    memory_bytes: int = 0
    slots: int = 0
    shares: dict[int, int] = field(default_factory=dict)


@dataclass(slots=True)
class Drain:
    """Drain of a node since the record `seq`. due: its tasks are evicted now. deadline: µs, log time. requester: an actor;
    requester_verified: whether that name was verified.
    """

    seq: int
    mode: DrainMode
    reason: str = ""
    deadline: int | None = None
    due: bool = False
    requester: str = ""
    requester_verified: bool = False


@dataclass(slots=True)
class Node:
    """One machine. `allocated`, `releasing` and `reserved` are sums over its tasks.

    allocated: of tasks ordered to start whose release is not proven; releasing: the part of it that is being evicted or has
    exited; reserved: of reservations. quarantined: mask of devices not seen free. lease: the longest lease that its agent may
    apply, µs. checkpoint_store: identity of the checkpoint directory, where nodes share one. silence_confirmed: an operator
    confirmed that the node itself is silent, so it may be declared lost even while many nodes are silent.
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
        """Whether new tasks may be placed on it."""
        return self.state == "ready" and self.drain is None


@dataclass(slots=True)
class Eviction:
    """A decided eviction of a job's present attempt, or of one task of it.

    started_seq: the `EvictionStarted` record, after which agents are notified; cancel_seq: the record that cancelled it.
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
    """A task of the job's present attempt. eviction: of this task alone, while the job continues.

    start_seq: the record that ordered its start, compared by the agents' fences. attached: it listens for notices.
    stage_times: when it reached the stages of its eviction. step, step_rate_milli (steps in 1,000 s), checkpoint_step,
    checkpoint_at: its latest reported progress; notice_step, notice_step_rate_milli: its progress at the notice.
    confirmed_step: the step at which it can save together with its gang. resumed_step: the step it resumed from.
    device_failed: one of its devices became unhealthy. idle_since: since when its GPUs are idle. over_share: it used more
    than its share of a device, and the policy evicts it. reported_done: its job said so before it
    exited, or exit code 0 says so by its `on_term`.
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

    @property
    def notified(self) -> bool:
        """Whether it got an eviction notice, TERM or KILL."""
        return self.noticed or self.term_sent or self.kill_sent

    @property
    def finished(self) -> bool:
        """Whether it exited with 0, and not because of its eviction: after a notice only if it said that it was done."""
        return self.state in ("exited", "released") and self.exit_code == 0 and (self.reported_done or not self.notified)


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

    priority: effective, for queue order and victim tests; base_priority: its class's. tasks: the placed tasks of the present
    attempt, by index; an elastic job may have fewer than it requests. reservation, reservation_until, reservation_action: the
    places reserved for its next attempt, or for single tasks, while the present ones are evicted; their expiry; the action
    (of a relocated job). eviction_times: times of recent involuntary evictions. stale_since: since when the running gang is
    below its minimum. pending_since: when it last joined the queue; a dropped reservation does not change it. first_wait:
    time from submission to its first start. step: last known step of earlier attempts. paused_seq: the record that paused it;
    None: not paused. refused_seq: the record that last refused its request for preemption, or timed it out. backfilled: its
    last attempt was started, or moved after it was started, while a job ahead of it in the queue was waiting for resources
    there. restart_pending: tasks are gone, and the others restart without them. idle_recorded: `JobIdle` was recorded.
    user: whose it is; user_verified: whether that name was verified. requester, requester_verified, request_reason: of the newest
    request to cancel, pause, evict or migrate it. waits_for: the jobs that must succeed, or end, before it joins the queue;
    failed_dependency: the one that did not succeed.
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
    operator_request: OperatorRequest | None = None
    restart_pending: bool = False
    idle_recorded: bool = False
    backfilled: bool = False
    user: str = ""
    user_verified: bool = False
    requester: str = ""
    requester_verified: bool = False
    request_reason: str = ""
    waits_for: dict[str, Literal["succeeded", "ended"]] = field(default_factory=dict)
    failed_dependency: str = ""

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
        return sum(group.count * group.gpu_milli for group in self.demand.tasks) // 1000


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
    """A preemption in progress. seq: of the decision; job: the preemptor; abandoned: why it is not needed."""

    seq: int
    job: str
    victims: list[str]
    abandoned: str | None = None


@dataclass(slots=True)
class Attachment:
    """A grant to attach to a task, until it has ended. node: its name; incarnation: of the agent that it was sent to.

    user: who requested it; user_verified: whether that name was verified.
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
    """Number of rejected inputs of one source in the minute from `since`."""

    since: int
    count: int


@dataclass(slots=True)
class RejectedInputs:
    """Inputs of one source that were rejected with one code. source: their topic where nobody is named or what they name counts
    for nothing. first, last: times; seq, reason: of the newest.
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
    """The public keys of a node. announced: when its agent sent the inventory that joined last, on its own clock, µs UTC."""

    key: str
    encryption_key: str
    announced: int = 0


@dataclass(slots=True)
class EnrolmentPermit:
    """Who may enrol once under a node's name until `expires`, µs: the holder of the token's private key, or that of `key`."""

    seq: int
    token_key: str | None
    key: str | None
    expires: int


@dataclass(slots=True)
class WaitingNode:
    """An agent that announced itself under a node's name without being enrolled. key: its public key. since: µs."""

    key: str
    since: int


@dataclass(slots=True)
class PoolState:
    """The whole state of one pool after the record `seq`. Only the fold writes it, apart from `indices`.

    queue: jobs that need placement, by priority, submission and id; `queue/order.py` has the order of a pass.
    active: jobs with placed tasks. reserved, starting, evicting, backfilled: those of them with reserved tasks, starting tasks,
    and evictions in progress, and those that were backfilled (dicts used as ordered sets). ended: jobs by end time.
    root_key: certifies the participants; empty: nothing is signed. writer_key: of the log's writer, valid until writer_until
    (RFC 3339). revoked_keys: public keys without effect (an ordered set). identity: hash of the log's first record.
    root_key_changes: all of them, in order. enrolled, permits, waiting_nodes: by node name.
    epochs: the first seq of each epoch. accepted_truncation: the highest (epoch, seq) whose loss an operator accepted.
    truncation_unreconciled: tasks may run that the truncated log does not have. proposals: of the current batch, by the seq
    of the request. draining: nodes being drained, in the order of the requests. silent_nodes: too many nodes fell silent at
    once; none of these is declared lost. run_time_limits: when running jobs reach their limit, soonest first. enforcing:
    within a cycle, a policy was applied with `enforce`. reclaimed_at: when a project was last reclaimed from.
    displaced_by: by victim (with `+`: its surplus), the preemptors and the record that decided it (`fold/displacements.py`).
    entitlements_changed: the last record of `fold/entitlement_changes.py`. freed_seq: the last record after which a job that did
    not fit may fit. dependents: by job, those that wait for it. attachments: by the seq of `AttachGranted`
    (`fold/attachments.py`).
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
    nodes: dict[int, Node] = field(default_factory=dict)
    node_numbers: dict[str, int] = field(default_factory=dict)
    jobs: dict[str, Job] = field(default_factory=dict)
    queue: list[str] = field(default_factory=list)
    active: dict[str, None] = field(default_factory=dict)
    reserved: dict[str, None] = field(default_factory=dict)
    starting: dict[str, None] = field(default_factory=dict)
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
    displaced_by: dict[str, dict[str, int]] = field(default_factory=dict)
    entitlements_changed: int = -1
    freed_seq: int = -1
    attachments: dict[int, Attachment] = field(default_factory=dict)
    draining: dict[int, None] = field(default_factory=dict)
    enforcing: bool = False
    dependents: dict[str, dict[str, None]] = field(default_factory=dict)
    indices: Indices = field(default_factory=Indices)

    @property
    def rules(self) -> Policy:
        """The policy in force. Raises `AssertionError` before the first one was applied."""
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
