"""The sentences that people read in kubectl: why a pod waits, where it was placed, for which job it was preempted."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from bailiff_core.actions.migrate import moves_off_drained_nodes
from bailiff_core.explain.dependencies import waits_for_text
from bailiff_core.explain.unblockers import unusable_text
from bailiff_core.explain.victims import rule_text
from bailiff_core.humanize import count_text, user_text
from bailiff_core.model.evictions import evictions_of
from bailiff_core.model.proposal import VictimChoice
from bailiff_core.model.state import Eviction, Job, PoolState
from bailiff_core.records.decisions import PreemptionDecided

LONGEST = 900  # bytes; an Event holds 1,024
POSITIONS = 20
"""Of so many pending jobs is shown what changes without them, as the place in the queue: a change costs no more requests."""


@dataclass(frozen=True)
class Status:
    """The state of a workload in Bailiff. reason: one word, for conditions and Events."""

    reason: str
    message: str
    placed: bool = False
    warning: bool = False

    @property
    def line(self) -> str:
        """As the workload's annotation has it."""
        return f"{self.reason}: {self.message}"


@dataclass(frozen=True)
class Rejection:
    """Why admission rejected a request."""

    code: str
    reason: str
    seq: int
    retry_at: int | None = None


@dataclass(frozen=True)
class Preemption:
    """That a job was preempted. rule: why that was permitted."""

    seq: int
    preemptor: str
    rule: str

    @classmethod
    def of(cls, seq: int, decided: PreemptionDecided, victim: VictimChoice) -> "Preemption":
        """Of one victim of the decision."""
        return cls(seq, decided.preemptor.job, rule_text(decided, victim))


@dataclass(frozen=True)
class PoolView:
    """The folded log. pending_reasons: by job, why it is pending, with the record. rejected: by request id.

    end_reasons: by job, why it has ended. preempted: by job, by whom its latest attempt was preempted.
    """

    state: PoolState
    pending_reasons: Mapping[str, tuple[int, str]] = field(default_factory=dict)
    rejected: Mapping[str, Rejection] = field(default_factory=dict)
    end_reasons: Mapping[str, tuple[int, str]] = field(default_factory=dict)
    preempted: Mapping[str, Preemption] = field(default_factory=dict)

    def is_final(self, request_id: str) -> bool:
        """Whether the request was rejected, and the rejection does not say that it may be sent again by now."""
        rejection = self.rejected.get(request_id)
        return rejection is not None and (rejection.retry_at is None or self.state.now < rejection.retry_at)


def head_of(state: PoolState) -> list[str]:
    """The pending jobs whose places are shown, in queue order. A job that wants more tasks is in the queue, too."""
    found: list[str] = []
    for name in state.queue:
        if len(found) == POSITIONS:
            break
        if name not in state.active:
            found.append(name)
    return found


def status_of(pool: PoolView, job: Job, pods: int) -> Status:
    """The job's state, for its workload and the pods that wait. pods: how many of its pods are there, and have not ended."""
    state = pool.state
    if job.phase in ("succeeded", "failed", "cancelled"):
        seq, why = pool.end_reasons.get(job.id, (None, ""))
        by = _by(job) if job.phase == "cancelled" else ""
        why = why or job.request_reason
        text = f"{job.id} has {'been cancelled' if job.phase == 'cancelled' else job.phase}{by}{f': {why}' if why else ''}"
        return Status(job.phase.capitalize(), _cited(text, pool, seq), warning=job.phase == "failed")
    evicting = next((entry.eviction for entry in evictions_of(job)), None)
    if evicting is not None:
        reason = "Preempted" if evicting.cause == "preemption" else "Evicted"
        return Status(reason, eviction_text(pool, job, evicting), placed=job.eviction is None, warning=True)
    if job.phase == "paused":
        by = _by(job)
        why = f": {job.pause_reason}" if job.pause_reason else ""
        before = _preempted_before(pool, job)
        return Status("Paused", _cited(f"{job.id} is paused{by}{why}", pool, job.paused_seq) + before, warning=bool(before))
    if job.phase == "reserved":
        plan = state.preemptions.get(job.preemption) if job.preemption is not None else None
        victims = (
            f"; it starts when {', '.join(plan.victims)} have released their GPUs" if plan is not None and plan.victims else ""
        )
        return Status("Reserved", _cited(f"{job.id} has a place on {nodes_text(state, job)}{victims}", pool, job.preemption))
    if job.phase in ("starting", "running"):
        started = next((task.start_seq for task in job.tasks if task.start_seq is not None), None)
        runs = job.phase == "running"
        text = f"{job.id} {'runs' if runs else 'starts'} on {nodes_text(state, job)} as attempt {job.attempt}"
        missing = len(job.tasks) - pods
        if not runs and missing > 0:
            text += f"; its controller has not made {count_text(missing, 'pod')} yet"
        return Status("Placed" if runs else "Starting", _cited(text, pool, started) + _drained(pool, job), placed=runs)
    if job.phase == "waiting":
        return Status("Waiting", f"{job.id} {waits_for_text(state, job)}")
    seq, why = pool.pending_reasons.get(job.id, (job.seq, "it is in the queue"))
    before = _preempted_before(pool, job)
    text = _cited(f"{job.id} is pending: {why}", pool, seq) + before
    if unusable := unusable_text(state) if job.id in head_of(state) else "":
        text = f"{text}; {unusable}".encode()[:LONGEST].decode(errors="ignore")
    return Status("Pending", text, warning=bool(before))


def _preempted_before(pool: PoolView, job: Job) -> str:
    """By whom, if the job waits because it was preempted. The preemption itself may have been too short to be reported."""
    if job.id not in pool.preempted:
        return ""
    found = pool.preempted[job.id]
    other = pool.state.jobs.get(found.preemptor)
    by = found.preemptor if other is None else _side(other)
    return "; " + _cited(f"it was preempted by {by}: {found.rule}", pool, found.seq)


def eviction_text(pool: PoolView, job: Job, eviction: Eviction) -> str:
    """Both sides of an eviction, the rule that permitted it, and whether and when the job is back."""
    preemptor = pool.state.jobs.get(eviction.for_job or "")
    mine = _side(job)
    if preemptor is not None:
        found = pool.preempted.get(job.id)
        rule = f": {found.rule}" if found is not None and found.seq == eviction.decided_seq else ""
        return _cited(f"{mine} is preempted by {_side(preemptor)}{rule}; {_return(job)}", pool, eviction.decided_seq)
    by = _by(job)
    why = f": {job.request_reason}" if job.request_reason else ""
    return _cited(f"{mine} is evicted{by} ({eviction.cause}){why}; {_return(job)}", pool, eviction.decided_seq)


def _return(job: Job) -> str:
    """What becomes of an evicted job."""
    if job.cancelled or job.demand.on_eviction == "end":
        return "it ends" if job.cancelled else "it ends, because nobody makes its pods anew"
    if job.reservation:
        return "it moves to a place that is reserved for it"
    if job.eviction is None:
        return "its other pods run on"
    if job.paused_seq is not None:
        return "it waits until it is resumed"
    return "it keeps its place in the queue, and starts again by itself when GPUs are free for it"


def placed_text(pool: PoolView, job: Job, index: int, node: str, seq: int | None) -> str:
    """Where a pod was placed, and what becomes of it where its job's nodes are drained."""
    return _cited(f"task {index} of {job.id}, attempt {job.attempt}, starts on {node}", pool, seq) + _drained(pool, job)


def _drained(pool: PoolView, job: Job) -> str:
    """What a job does whose nodes are drained gracefully."""
    state = pool.state
    nodes = {task.node: state.nodes[task.node] for task in job.tasks if task.node in state.draining}
    drains = {node.name: node.drain for node in nodes.values() if node.drain is not None and node.drain.mode == "graceful"}
    if not drains:
        return ""
    names, last = ", ".join(sorted(drains)), max(drains.values(), key=lambda drain: drain.seq)
    ends = f"it may run until it ends: bailiff drain {min(drains)} --quick evicts it now"
    if moves_off_drained_nodes(state, job):
        ends = "it moves as soon as there is room for it elsewhere"
    elif any(drain.deadline is not None for drain in drains.values()):
        ends = "it is evicted at the drain's deadline, unless it has ended by then"
    reason = f" ({last.reason})" if last.reason else ""
    return "; " + _cited(f"{names} {'is' if len(drains) == 1 else 'are'} drained{reason}: {ends}", pool, last.seq)


def _side(job: Job) -> str:
    return f"{job.id} (class {job.class_name}, priority {job.priority}{_of(job)})"


def _of(job: Job) -> str:
    return f", user {user_text(job.user, job.user_verified)}" if job.user else ""


def _by(job: Job) -> str:
    """Who requested what happened to the job: ` by ada`, ` by dora (not verified)`."""
    return f" by {user_text(job.requester, job.requester_verified)}" if job.requester else ""


def nodes_text(state: PoolState, job: Job) -> str:
    """The nodes of its tasks, by name; of many, how many more."""
    found = list(dict.fromkeys(state.nodes[task.node].name for task in job.tasks))
    return ", ".join(found[:3]) + (f" and {len(found) - 3} more" if len(found) > 3 else "")


def _cited(text: str, pool: PoolView, seq: int | None) -> str:
    """The sentence with the record that proves it."""
    text = text.rstrip(".").encode()[:LONGEST].decode(errors="ignore")
    return text if seq is None else f"{text} ({pool.state.pool}#{seq})"
