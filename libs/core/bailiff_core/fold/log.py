"""Records about the log itself: pool, policy, writers, clock, inputs."""

from bailiff_core.budgets import use as budgets
from bailiff_core.model.certificate import Certificate
from bailiff_core.model.policy import Policy
from bailiff_core.model.project_tree import tree_of
from bailiff_core.model.share_turn import parent_and_kind
from bailiff_core.model.state import ENDED, NOTHING, Job, PoolState, RejectedInputs, RejectionCount, SeenRequest, ShareTurn
from bailiff_core.records import facts
from bailiff_core.records.payload import Fact
from bailiff_core.records.wire import time_text

from .classes import apply_priority_class
from .past_use import begin_again, count_again
from .registry import folds

MINUTE = 60_000_000
MAX_REJECTED, MAX_REASON = 100, 300  # entries for people, of proven and of other senders; characters of each reason
MAX_SOURCES = 100
"""Claimed sources that are counted singly at a time."""
PROVEN, CLAIMED = "@", "?"


@folds(facts.PoolCreated)
def pool_created(state: PoolState, fact: facts.PoolCreated) -> None:
    """Sets the pool's name, partition and root key."""
    state.pool, state.partition, state.root_key = fact.pool, fact.partition, fact.root_key or ""
    _signs(state, fact.certificate)


@folds(facts.PolicyApplied)
def policy_applied(state: PoolState, fact: facts.PolicyApplied) -> None:
    """Applies the class values to all jobs; running jobs continue, unless `enforce` is set."""
    before, after = (state.policy or fact.policy).nodes, fact.policy.nodes
    begin_again(state)
    budgets.begin_again(state)
    budgets_before = state.policy.budgets if state.policy is not None else ()
    state.policy, state.policy_revision = _as_recorded(fact.policy), state.seq
    state.enforcing = fact.enforce
    state.indices.infeasible.clear()
    state.indices.snapshot = None  # the project tree may have changed
    _keep_turns(state)
    count_again(state)
    budgets.count_again(state, budgets_before)
    for job in state.jobs.values():
        entry = fact.policy.find_class(job.class_name)
        if entry is not None:
            apply_priority_class(state, job, entry)
    state.queue.sort(key=lambda name: (-state.jobs[name].priority, state.jobs[name].seq, name))
    for node in state.nodes.values():
        # A disconnected agent applies the older lease: lease plus margin must not become shorter for it.
        node.lease = max(node.lease + before.lost_margin, after.lease + after.lost_margin) - after.lost_margin
    state.indices.retry_unschedulable = True
    if fact.request is not None:
        remember(state, fact.request)


def _as_recorded(policy: Policy) -> Policy:
    """The policy as it was meant when it was recorded: until there was `backfill: preemptible`, none meant `reserve`."""
    return policy if "backfill" in policy.model_fields_set else policy.model_copy(update={"backfill": "reserve"})


def _keep_turns(state: PoolState) -> None:
    """Of a project that is no longer below the parent of a turn, it says nothing any more: that of its new parent does."""
    tree = tree_of(state)

    def kept(amounts: dict[str, int], parent: str) -> dict[str, int]:
        below = [name for name in amounts if name in tree.branches and tree.branches[name].path[1] == parent]
        return {name: amounts[name] for name in below}

    keys = {key: parent_and_kind(key) for key in state.share_turns}
    state.share_turns = {
        key: ShareTurn(turn.began, kept(turn.owed, keys[key][0]), kept(turn.used, keys[key][0]))
        for key, turn in state.share_turns.items()
        if keys[key][0] in tree.children and keys[key][1] in ("", *tree.kinds)
    }


@folds(facts.WriterStarted)
def writer_started(state: PoolState, fact: facts.WriterStarted) -> None:
    """A new writer continues from these input positions. Jobs touched by the last cycle are decided on again."""
    state.writer, state.inputs = fact.writer, dict(fact.inputs)
    state.epochs[state.epoch] = state.seq
    _signs(state, fact.certificate)
    state.indices.retry_unschedulable = True


def _signs(state: PoolState, certificate: Certificate | None) -> None:
    """Remembers whose key signs the next records, in a signed log."""
    if state.root_key and certificate is not None:
        state.writer_key, state.writer_until = certificate.key, time_text(certificate.expires)


@folds(facts.InputsAdvanced)
def inputs_advanced(state: PoolState, fact: facts.InputsAdvanced) -> None:
    """Positions are those of the topics with these ids."""
    state.topic_ids = dict(sorted((state.topic_ids | fact.topic_ids).items()))


def no_change(state: PoolState, fact: Fact) -> None:
    """No change of its own: only the record's time and input positions matter."""


for _kind in (facts.ClockAdvanced, facts.StateDigest, facts.InputsLost, facts.NodeRefused):
    folds(_kind)(no_change)

MOMENTS = (
    *("last_start", "last_eviction", "last_checkpoint", "saving_since", "saved_until"),
    *("stale_since", "reservation_until", "assigned_at"),
)
"""Times of a job, which may be None."""


@folds(facts.ClockStepped)
def clock_stepped(state: PoolState, fact: facts.ClockStepped) -> None:
    """Shifts all stored times by the jump, so that durations exclude it."""
    for job in state.jobs.values():
        if job.phase not in ENDED:
            job.submitted_at += fact.jump
        job.pending_since += fact.jump
        # 0 says that there is no such time, so it stays 0.
        job.not_before += fact.jump if job.not_before else 0
        job.next_request_at += fact.jump if job.next_request_at else 0
        if job.reserved_until is not None:
            job.reserved_until += fact.jump
        for name in MOMENTS:
            if getattr(job, name) is not None:
                setattr(job, name, getattr(job, name) + fact.jump)
        job.eviction_times = [at + fact.jump for at in job.eviction_times]
        job.victims = {name: at + fact.jump for name, at in job.victims.items()} or NOTHING
        for task in job.tasks:
            task.idle_since = None if task.idle_since is None else task.idle_since + fact.jump
        for eviction in (job.eviction, *(task.eviction for task in job.tasks)):
            if eviction is not None and eviction.started_at is not None:
                eviction.started_at += fact.jump
        for task in job.tasks:
            task.stage_times = {stage: at + fact.jump for stage, at in task.stage_times.items()}
            if task.saving is not None:
                task.saving.stage_times = {stage: at + fact.jump for stage, at in task.saving.stage_times.items()}
            task.checkpoint_at = None if task.checkpoint_at is None else task.checkpoint_at + fact.jump
    state.indices.timers = state.indices.completion_order = None
    state.indices.changed_jobs.update(dict.fromkeys(state.active))  # their expected completion moved, too
    state.run_time_limits = [(at + fact.jump, name) for at, name in state.run_time_limits]
    for project in state.reclaimed_at:
        state.reclaimed_at[project] += fact.jump
    for turn in state.share_turns.values():
        turn.began += fact.jump
    if state.past_use is not None:
        state.past_use.began += fact.jump
        for use in state.past_use.projects.values():
            use.since = min(use.since + fact.jump, state.now)
    if state.selection is not None and state.selection.deadline is not None:
        state.selection.deadline += fact.jump
    for name in state.ended:
        state.ended[name] += fact.jump
    for request in state.requests.values():
        request.seen_at += fact.jump
    for jobs in state.spared.values():
        for entry in jobs.values():
            entry.until += fact.jump
    for number in state.draining:
        drain = state.nodes[number].drain
        if drain is not None and drain.deadline is not None:
            drain.deadline += fact.jump


@folds(facts.LogTruncated)
def log_truncated(state: PoolState, fact: facts.LogTruncated) -> None:
    """An operator accepted the loss. No task starts until all agents reported theirs."""
    if (fact.epoch, fact.seq) > state.accepted_truncation:
        state.accepted_truncation, state.truncation_unreconciled = (fact.epoch, fact.seq), True
    remember(state, fact.request)


@folds(facts.TruncationReconciled)
def truncation_reconciled(state: PoolState, _fact: facts.TruncationReconciled) -> None:
    """All running tasks are known; starts continue."""
    state.truncation_unreconciled = False
    state.indices.retry_unschedulable = True


@folds(facts.InputRejected)
def input_rejected(state: PoolState, fact: facts.InputRejected) -> None:
    """Counts rejections per sender and minute, to limit their records, and by code and sender, for people."""
    _note_rejected(state, fact)
    key = rejections_key(state, fact)
    seen = state.rejections.get(key)
    if seen is None or state.now - seen.since >= MINUTE:
        for stale in [name for name, other in state.rejections.items() if state.now - other.since >= MINUTE]:
            del state.rejections[stale]
        seen = state.rejections[key] = RejectionCount(state.now, 0)
    seen.count += fact.count


def rejections_key(state: PoolState, fact: facts.InputRejected) -> str:
    """Returns under which key of `state.rejections` it counts.

    Whoever is proven has a key that nobody can claim; of claimed sources, those beyond `MAX_SOURCES` share one.
    """
    key = _sender_key(fact)
    if is_proven(key) or key in state.rejections or sum(not is_proven(each) for each in state.rejections) < MAX_SOURCES:
        return key
    return CLAIMED


def is_proven(key: str) -> bool:
    """Whether a signature has proven the sender of this key."""
    return key.startswith(PROVEN)


def _sender_key(fact: facts.InputRejected) -> str:
    if fact.sender is not None:
        return PROVEN + fact.sender
    source = fact.source or fact.topic
    return CLAIMED + source if source.startswith((PROVEN, CLAIMED)) else source


def _note_rejected(state: PoolState, fact: facts.InputRejected) -> None:
    sender = _sender_key(fact)
    key = f"{fact.code} {sender}"
    known = state.rejected.pop(key, None)  # the newest is last
    count, first = (known.count, known.first) if known is not None else (0, state.now)
    alike = [each for each in state.rejected if is_proven(each.partition(" ")[2]) == is_proven(sender)]
    for oldest in alike[: max(0, len(alike) - MAX_REJECTED + 1)]:
        del state.rejected[oldest]
    state.rejected[key] = RejectedInputs(
        fact.code,
        fact.sender or fact.source or fact.topic,
        count + fact.count,
        first,
        state.now,
        state.seq,
        fact.reason[:MAX_REASON],
    )


@folds(facts.DecisionFailed)
def decision_failed(state: PoolState, fact: facts.DecisionFailed) -> None:
    """The job is blocked until it is cancelled."""
    job = state.jobs[fact.job]
    job.suspended_reason, job.operator_request = fact.error, None


def remember(state: PoolState, request: facts.RequestId) -> None:
    """Stores the request id, so that a repeat has no effect."""
    state.requests[request_key(request.source, request.id, request.owner)] = SeenRequest(request.digest, state.now, state.seq)


def note_requester(state: PoolState, job: Job, reason: str) -> None:
    """Stores who requested what happens to the job, and why."""
    job.requester, job.requester_verified = state.indices.actor, state.indices.actor_verified
    job.request_reason = reason


def hold_job(state: PoolState, job: Job, reason: str, hold: str = "") -> None:
    """Stores that it is paused, why, and whose pause it is."""
    job.paused_seq, job.pause_reason = state.seq, reason
    job.holds = {**job.holds, hold: (state.seq, reason)}


def limit_grace(job: Job, grace: int | None) -> None:
    """Stores the grace, µs, that a request leaves the job; a later one only shortens it."""
    if grace is not None:
        job.grace_limit = grace if job.grace_limit is None else min(grace, job.grace_limit)


def request_key(source: str, request_id: str, owner: str = "") -> str:
    """Returns an unambiguous key of source and id, and of whose they are."""
    key = f"{len(source)}:{source}{request_id}"
    return f"@{len(owner)}:{owner}{key}" if owner else key
