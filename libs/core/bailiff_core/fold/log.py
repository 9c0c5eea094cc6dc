"""The log's own records: its beginning, its writers, its clock, its inputs."""

from bailiff_core.model.pool import ENDED, Pool, Rejections, RequestMemo
from bailiff_core.records import facts
from bailiff_core.records.payload import Fact

from .classes import take_class
from .register import folds

MINUTE = 60_000_000


@folds(facts.DomainCreated)
def domain_created(pool: Pool, fact: facts.DomainCreated) -> None:
    """The domain begins."""
    pool.domain, pool.partition = fact.domain, fact.partition


@folds(facts.PolicyApplied)
def policy_applied(pool: Pool, fact: facts.PolicyApplied) -> None:
    """Jobs take the values of their class as it is now; whoever runs stays, unless `enforce` says otherwise."""
    before, after = (pool.policy or fact.policy).nodes, fact.policy.nodes
    pool.policy, pool.policy_revision = fact.policy, pool.seq
    pool.enforcing = fact.enforce
    pool.ever_fits.clear()
    pool.scene = None  # the tree of projects may be another one
    for job in pool.jobs.values():
        entry = fact.policy.find_class(job.class_name)
        if entry is not None:
            take_class(job, entry)
    pool.queue.sort(key=lambda name: (-pool.jobs[name].priority, pool.jobs[name].seq, name))
    for node in pool.nodes.values():
        # An agent that is cut off goes by the older lease and margin: the two together never become less for it.
        node.lease = max(node.lease + before.lost_margin, after.lease + after.lost_margin) - after.lost_margin
    pool.room_grew = True
    if fact.request is not None:
        remember(pool, fact.request)


@folds(facts.WriterStarted)
def writer_started(pool: Pool, fact: facts.WriterStarted) -> None:
    """A new writer goes on from these input positions. What the last turn touched is decided on again."""
    pool.writer, pool.inputs = fact.writer, dict(fact.inputs)
    pool.epochs[pool.epoch] = pool.seq
    pool.room_grew = True


def nothing_more(pool: Pool, fact: Fact) -> None:
    """What these say lies in the record's time and positions."""


for _kind in (facts.ClockAdvanced, facts.InputsAdvanced, facts.StateDigest, facts.InputsLost, facts.NodeRefused):
    folds(_kind)(nothing_more)


@folds(facts.ClockStepped)
def clock_stepped(pool: Pool, fact: facts.ClockStepped) -> None:
    """Move every pending moment along, so that no duration counts the jump."""
    for job in pool.jobs.values():
        if job.phase not in ENDED:
            job.submitted_at += fact.by
        job.waiting_since += fact.by
        job.not_before += fact.by if job.not_before else 0
        job.next_request_at += fact.by if job.next_request_at else 0
        if job.reserved_until is not None:
            job.reserved_until += fact.by
        for moment in ("last_start", "last_eviction", "last_checkpoint", "stale_since", "promise_until"):
            if getattr(job, moment) is not None:
                setattr(job, moment, getattr(job, moment) + fact.by)
        job.evicted_at = [moment + fact.by for moment in job.evicted_at]
        for task in job.tasks:
            task.idle_since = None if task.idle_since is None else task.idle_since + fact.by
        for eviction in (job.eviction, *(task.eviction for task in job.tasks)):
            if eviction is not None and eviction.begun_at is not None:
                eviction.begun_at += fact.by
        for task in job.tasks:
            task.reached = {stage: moment + fact.by for stage, moment in task.reached.items()}
            task.checkpoint_at = None if task.checkpoint_at is None else task.checkpoint_at + fact.by
    pool.agenda = None
    pool.stale_jobs.update(dict.fromkeys(pool.active))  # when they are taken to end has moved, too
    pool.run_limits = [(moment + fact.by, name) for moment, name in pool.run_limits]
    for project in pool.reclaimed_at:
        pool.reclaimed_at[project] += fact.by
    if pool.selection is not None and pool.selection.deadline is not None:
        pool.selection.deadline += fact.by
    for name in pool.ended:
        pool.ended[name] += fact.by
    for memo in pool.requests.values():
        memo.seen_at += fact.by
    for number in pool.drained:
        drain = pool.nodes[number].drain
        if drain is not None and drain.deadline is not None:
            drain.deadline += fact.by


@folds(facts.LogTruncated)
def log_truncated(pool: Pool, fact: facts.LogTruncated) -> None:
    """An operator accepted the loss. Nothing is started until it is known what agents run."""
    if (fact.epoch, fact.seq) > pool.accepted_loss:
        pool.accepted_loss, pool.unsettled = (fact.epoch, fact.seq), True
    remember(pool, fact.request)


@folds(facts.LogSettled)
def log_settled(pool: Pool, _fact: facts.LogSettled) -> None:
    """What is known to run is all that runs."""
    pool.unsettled = False
    pool.room_grew = True


@folds(facts.InputRejected)
def input_rejected(pool: Pool, fact: facts.InputRejected) -> None:
    """Count rejections per source and minute, so that a flood becomes few records."""
    source = fact.source or fact.topic
    seen = pool.rejections.get(source)
    if seen is None or pool.now - seen.since >= MINUTE:
        for stale in [name for name, other in pool.rejections.items() if pool.now - other.since >= MINUTE]:
            del pool.rejections[stale]
        seen = pool.rejections[source] = Rejections(pool.now, 0)
    seen.count += fact.count


@folds(facts.DecisionFailed)
def decision_failed(pool: Pool, fact: facts.DecisionFailed) -> None:
    """The job is left alone until someone cancels it."""
    job = pool.jobs[fact.job]
    job.held_because, job.wish = fact.error, None


def remember(pool: Pool, request: facts.RequestId) -> None:
    """A repeat of this request is recognised from now on."""
    pool.requests[request_key(request.source, request.id)] = RequestMemo(request.digest, pool.now, pool.seq)


def request_key(source: str, request_id: str) -> str:
    """One text for the pair, unambiguous."""
    return f"{len(source)}:{source}{request_id}"
