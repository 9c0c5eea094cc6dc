"""What the fold keeps of one pool. Only `fold` changes these values; everyone else reads them."""

from bisect import bisect_left
from dataclasses import dataclass, field
from typing import Any, Literal

from .answer import Answer
from .demand import JobDemand, TaskGroup
from .policy import Policy

TaskState = Literal["reserved", "starting", "running", "exited", "released"]
JobPhase = Literal["pending", "paused", "reserved", "starting", "running", "evicting", "succeeded", "failed", "cancelled"]
NodeState = Literal["ready", "unreachable", "lost"]
EvictionCause = Literal[
    "preemption", "cancelled", "gang-failure", "stale-gang", "scaled", "policy", "time-limit", "device", "over-share",
    "paused", "asked", "drain", "migration", "resize",
]  # fmt: skip
DrainMode = Literal["graceful", "quick", "fast"]

ENDED: frozenset[JobPhase] = frozenset({"succeeded", "failed", "cancelled"})


@dataclass(slots=True)
class Device:
    """A GPU of a node. `number` is its bit in the node's masks.

    trouble: why it is quarantined or unhealthy, since when (µs), left so by which job. clear_seq: the record that asks its
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
    trouble: str = ""
    trouble_since: int | None = None
    left_by: str | None = None
    clear_seq: int | None = None


@dataclass(slots=True)
class Room:
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
    """One machine. `held`, `releasing` and `reserved` are sums over the tasks that stand on it.

    held: of tasks that started and are not proved gone; releasing: the part of it that is on its way out;
    reserved: promised to gangs that have not started. quarantined: devices that were not seen free.
    lease: the longest one that its agent may go by, µs. drain: why it takes nothing new.
    checkpoints: names the folder in which jobs keep theirs, where nodes share one.
    silence_counts: an operator says that its present silence is its own, whoever else is silent.
    """

    number: int
    name: str
    incarnation: str
    machine_id: str
    boot_id: str
    joined_seq: int
    capacity: Room
    devices: list[Device]
    labels: dict[str, str]
    state: NodeState = "ready"
    last_report: int = 0
    held: Room = field(default_factory=Room)
    releasing: Room = field(default_factory=Room)
    reserved: Room = field(default_factory=Room)
    quarantined: int = 0
    lease: int = 0
    silence_counts: bool = False
    drain: Drain | None = None
    checkpoints: str | None = None

    @property
    def takes_work(self) -> bool:
        """Whether anything new may be placed there."""
        return self.state == "ready" and self.drain is None


@dataclass(slots=True)
class Eviction:
    """A decided eviction of a job's present attempt, or of one surplus task.

    begun_seq: the record that let the executor tell the agents; spare_seq: the record that took it back.
    """

    decided_seq: int
    cause: EvictionCause
    grace: int
    plan: int | None = None
    for_job: str | None = None
    begun_seq: int | None = None
    begun_at: int | None = None
    spare_seq: int | None = None
    stuck: bool = False


@dataclass(slots=True)
class Task:
    """One member of a gang in the job's present attempt. `eviction`: of this member alone, while the job goes on.

    start_seq: the record that ordered its start, which the agents' fences compare. attached: it listens for notices.
    reached: when it reached the stages of its eviction. step, pace (steps in 1,000 s), checkpoint_step, checkpoint_at:
    how far it has said that it is; notice_step, notice_pace: when it had its notice. confirmed: the step at which it would
    save together with its gang. resumed: the step that it went on from. device_failed: one of its devices broke under it.
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
    spared: bool = False
    started_at: int | None = None
    start_seq: int | None = None
    eviction: Eviction | None = None
    acknowledged: bool = False
    attached: bool = False
    reached: dict[str, int] = field(default_factory=dict)
    step: int | None = None
    total: int | None = None
    pace: int = 0
    notice_step: int | None = None
    notice_pace: int = 0
    confirmed: int | None = None
    resumed: int | None = None
    checkpoint_step: int | None = None
    checkpoint_at: int | None = None
    device_failed: bool = False
    over_share: bool = False
    idle_since: int | None = None


@dataclass(slots=True)
class Wish:
    """What somebody wants of a job that has a place, until it is decided on: that it leaves, or moves (to `node`)."""

    seq: int
    kind: Literal["evict", "migrate"]
    reason: str = ""
    node: str | None = None


@dataclass(slots=True)
class Job:
    """A gang and where it stands. Times are µs UTC on log time.

    priority: the effective one, for order and victim tests; base_priority: its class's. tasks: the members that have a
    place in the present attempt, by index; an elastic job may have fewer than it asks for. promise: the places that are
    kept for its next attempt while this one still leaves, or for members that leave while it goes on, until when, and by
    which verb (a job that is moved).
    evicted_at: involuntary evictions that a rule still counts. stale_since: since when the running gang lacks a member
    that it needs. waiting_since: when it last joined the queue, a dropped reservation apart. first_wait: how long it
    waited for its first start. step: how far its earlier attempts are known to have come. paused_seq: the record that
    paused it; None while it is not paused. resized: members that were told of are gone, and the others are to start again
    without them. idle_told: it was said that its GPUs do nothing. user: who submitted it.
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
    shape: str = ""
    phase: JobPhase = "pending"
    attempt: int = 0
    tasks: list[Task] = field(default_factory=list)
    reserved_until: int | None = None
    plan: int | None = None
    eviction: Eviction | None = None
    cancelled: bool = False
    held_because: str | None = None
    last_start: int | None = None
    last_eviction: int | None = None
    evictions: int = 0
    failures: int = 0
    losses: int = 0
    ended_at: int | None = None
    last_checkpoint: int | None = None
    evicted_at: list[int] = field(default_factory=list)
    stale_since: int | None = None
    promise: list[Task] = field(default_factory=list)
    promise_until: int | None = None
    promise_verb: str = "allocate"
    timed_out: bool = False
    waiting_since: int = 0
    first_wait: int | None = None
    told_waiting: bool = False
    not_before: int = 0
    next_request_at: int = 0
    refused_requests: int = 0
    step: int | None = None
    paused_seq: int | None = None
    pause_reason: str = ""
    wish: Wish | None = None
    resized: bool = False
    idle_told: bool = False
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
class Plan:
    """A preemption under way: `seq` of the decision, who it is for, who leaves. given_up: why it is not needed."""

    seq: int
    job: str
    victims: list[str]
    given_up: str | None = None


@dataclass(slots=True)
class RequestMemo:
    """A request seen: what it said, when, and where it is recorded."""

    digest: str
    seen_at: int
    seq: int


@dataclass(slots=True)
class Rejections:
    """How many inputs of one source were rejected in the minute that began at `since`."""

    since: int
    count: int


@dataclass(slots=True)
class Pool:
    """The whole state of one domain after the record `seq`.

    queue: jobs that lack tasks, by priority, age and id; `queue/order.py` has the order in which they are tried.
    untried: those of them that allocate has to look at. passed_over: those that fit but would have delayed the head of the
    queue, for whom `kept_for_head` was kept then. active: jobs that hold or are promised room. reserved, starting,
    leaving: those of them that wait for room, whose tasks do not all run yet, that are being evicted (dicts used as
    ordered sets).
    ended: jobs by end time. epochs: where each epoch began, by seq. accepted_loss: the highest (epoch, seq) that an
    operator gave up. unsettled: since then, it is not known yet whether tasks live that the log has forgotten.
    answers: the proposal being dealt with, by the seq of the request. touched: jobs that facts of
    this turn are about. room_grew: something that did not fit before may fit now; until then, unplaceable holds why a
    gang of that shape did not. ever_fits: by shape, why such a gang could never stand on these nodes, or nothing.
    queued: the jobs in `queue`, to look up.
    stale_nodes, stale_jobs: what changed since `scene` was last brought up to date (`scene.py`); stale_times: the same
    for `agenda` (`lifecycle/agenda.py`). forgotten: how many gaps forgetting has left in `ended` and `requests`. From
    `touched` on, none is part of the state's digest: they hold nothing between turns, or are caches.
    drained: nodes that are being emptied, in the order of the requests.
    run_limits: when jobs that run reach their run-time limit, soonest first. enforcing, within a turn: a policy was
    applied with the wish that what it would not have admitted leaves. reclaimed_at: when a project was last reclaimed from.
    displaced: by a job that lost its place, or surplus, to others: to whom, decided by which record
    (`protections/displaced_asker.py`). stirred: the last record of something that changes what projects may claim.
    """

    domain: str = ""
    partition: int = -1
    seq: int = -1
    now: int = 0
    epoch: int = 0
    writer: str = ""
    turn: int = -1
    turn_open: bool = False
    last_fact: int = -1
    engine: str = ""
    epochs: dict[int, int] = field(default_factory=dict)
    accepted_loss: tuple[int, int] = (0, -1)
    unsettled: bool = False
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
    leaving: dict[str, None] = field(default_factory=dict)
    ended: dict[str, int] = field(default_factory=dict)
    plans: dict[int, Plan] = field(default_factory=dict)
    selection: Selection | None = None
    answers: dict[int, Answer] | None = None
    selections: int = 0
    selection_failures: int = 0
    requests: dict[str, RequestMemo] = field(default_factory=dict)
    rejections: dict[str, Rejections] = field(default_factory=dict)
    reports_stale: list[str] = field(default_factory=list)
    run_limits: list[tuple[int, str]] = field(default_factory=list)
    reclaimed_at: dict[str, int] = field(default_factory=dict)
    displaced: dict[str, dict[str, int]] = field(default_factory=dict)
    stirred: int = -1
    drained: dict[int, None] = field(default_factory=dict)
    enforcing: bool = False
    touched: dict[str, None] = field(default_factory=dict)
    room_grew: bool = True
    unplaceable: dict[str, str] = field(default_factory=dict)
    untried: dict[str, None] = field(default_factory=dict)
    passed_over: dict[str, None] = field(default_factory=dict)
    kept_for_head: Any = None
    ever_fits: dict[str, str] = field(default_factory=dict, compare=False)
    queued: dict[str, None] = field(default_factory=dict, compare=False, repr=False)
    stale_nodes: dict[int, None] = field(default_factory=dict, compare=False, repr=False)
    stale_jobs: dict[str, None] = field(default_factory=dict, compare=False, repr=False)
    scene: Any = field(default=None, compare=False, repr=False)
    stale_times: dict[str, None] = field(default_factory=dict, compare=False, repr=False)
    agenda: Any = field(default=None, compare=False, repr=False)
    forgotten: int = field(default=0, compare=False, repr=False)

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
        return [self.jobs[name] for name in self.touched if name in self.jobs]

    def active_jobs(self) -> list[Job]:
        """Jobs that hold or are promised room."""
        return [self.jobs[name] for name in self.active]
