"""A job that had to leave: each time for whom, by which rules, at what price, how it went, and when it is back."""

from collections.abc import Iterable, Sequence

from bailiff_core.model.places import ranges
from bailiff_core.model.pool import ENDED, Job, Pool
from bailiff_core.records import Record, decisions
from bailiff_core.words import cost_text, count_text, duration_text

from .freeing import when_back
from .said import Section, Sentence, clock, newest, seqs_of, tasks_text, unstopped
from .stages import course
from .victims import EVICTIONS, choice_sentences, rule_text, who_text

ENDS = {"failed": "failed", "lost": "was lost"}


def times_before(job: Job, evicted: Sequence[Record], history: Sequence[Record]) -> Iterable[Section]:
    """Each eviction before the last, the newest first: the same, and what followed until the next one."""
    for at in reversed(range(len(evicted) - 1)):
        record, following = evicted[at], evicted[at + 1]
        span = [each for each in history if each.seq < following.seq]
        says = [*why_it_left(job, record, span, count=False), *way_out(job, record, span), *_followed(record, span)]
        yield Section(f"And the time before that ({at + 1} of {len(evicted)}), at {clock(record.time)}?", tuple(says))


def why_it_left(job: Job, record: Record, history: Sequence[Record], *, count: bool = True) -> Iterable[Sentence]:
    """For whom or why, by which rule, and what was chosen instead of what. count: also how often it went back in all."""
    if isinstance(record.data, decisions.EvictionDecided):
        told = EVICTIONS[record.data.cause]
        which = f"its {tasks_text(record.data.tasks)}" if record.data.tasks else "it"
        reason = f": {record.data.reason}" if record.data.reason else ""
        yield Sentence(f"At {clock(record.time)} {which} had to stop, because {told}{reason}.", seqs_of(record.seq))
    elif isinstance(record.data, decisions.MigrationDecided):
        nodes = count_text(len({share.node for share in record.data.placement}), "node")
        reason = f": {unstopped(record.data.reason)}" if record.data.reason else ""
        why = "because somebody asked for it" if record.data.cause == "migration" else "because it starts again"
        text = f"At {clock(record.time)} it had to move, {why}{reason}; a place ({nodes}) is kept for it."
        yield Sentence(text, seqs_of(record.seq))
    else:
        assert isinstance(record.data, decisions.PreemptionDecided)
        yield from _as_victim(job.id, record, record.data, history)
    times = [each for each in history if isinstance(each.data, decisions.JobRequeued) and each.data.outcome != "failed"]
    if count and len(times) > 1:
        yield Sentence(f"It went back to the queue {len(times)} times in all.", tuple(each.seq for each in times))


def _as_victim(job: str, record: Record, data: decisions.PreemptionDecided, history: Sequence[Record]) -> Iterable[Sentence]:
    choice = next(choice for choice in data.victims if choice.job == job)
    for asked in history:
        if asked.seq == data.request and isinstance(asked.data, decisions.PreemptionRequested):
            text = f"{asked.data.job} needed room and did not fit: {unstopped(asked.data.reason)}."
            yield Sentence(text, seqs_of(asked.seq))
    asker = data.asker
    which = "it was" if not choice.tasks else f"its {tasks_text(choice.tasks)} {'was' if choice.tasks.isdigit() else 'were'}"
    text = f"At {clock(record.time)} {which} told to make room for {who_text(asker)}, by the verb {data.verb}"
    yield Sentence(f"{text}: {rule_text(data, choice)}.", seqs_of(record.seq, data.request))
    if choice.reserved:
        yield Sentence("It had not started yet, so nothing is lost: only its reservation.", seqs_of(record.seq))
    else:
        yield Sentence(
            f"That loses {cost_text(choice.lost_gpu_ms)}: work since its last checkpoint, and the restart.", seqs_of(record.seq)
        )
    nodes = count_text(len({share.node for share in choice.moved}), "node")
    if choice.moved and not choice.tasks:
        yield Sentence(f"It is moved and not stopped: its new place ({nodes}) is kept for it.", seqs_of(record.seq))
    elif choice.moved:
        who = tasks_text(ranges(choice.movers)).capitalize()
        yield Sentence(f"{who}: moved, while the job goes on; new places ({nodes}) are kept.", seqs_of(record.seq))
    yield from choice_sentences(record, data)


def way_out(job: Job, record: Record, history: Sequence[Record]) -> Iterable[Sentence]:
    """Stage by stage, task by task."""
    data = record.data
    attempt = job.attempt
    if isinstance(data, decisions.EvictionDecided):
        attempt = data.attempt
    elif isinstance(data, decisions.PreemptionDecided):
        attempt = next((choice.attempt for choice in data.victims if choice.job == job.id), attempt)
    return course([each for each in history if each.seq > record.seq], attempt)


def coming_back(pool: Pool, job: Job, record: Record, history: Sequence[Record]) -> Iterable[Sentence]:
    """What became of it, when it runs again, and what protects it then."""
    after = [each for each in history if each.seq > record.seq]
    yield from _followed(record, history)
    if newest(after, decisions.EvictionWithdrawn) is not None:
        return
    if job.phase in ENDED:
        return
    if job.demand.on_eviction == "end" and job.eviction is not None:
        yield Sentence("It does not come back: its owner said on_eviction: end.", seqs_of(job.seq))
        return
    if job.eviction is not None:
        yield Sentence(f"It goes back to the queue, at its old place, within {duration_text(job.eviction.grace)} of being told.")
    yield from when_back(pool, job)
    yield from protections_of(pool, job)


def _followed(record: Record, history: Sequence[Record]) -> Iterable[Sentence]:
    """What became of it after it was told to leave."""
    after = [each for each in history if each.seq > record.seq]
    taken_back = newest(after, decisions.EvictionWithdrawn)
    if taken_back is not None:
        assert isinstance(taken_back.data, decisions.EvictionWithdrawn)
        yield Sentence(f"It stayed after all: {taken_back.data.reason}.", seqs_of(taken_back.seq))
        return
    since, back = record, False
    for each in after:
        if isinstance(each.data, decisions.JobRequeued):
            lost = f", with {cost_text(each.data.lost_gpu_ms)} lost" if each.data.lost_gpu_ms else ""
            again = f" again, as its attempt {each.data.attempt} {ENDS.get(each.data.outcome, 'was over')}," if back else ""
            since, back = each if back else record, True
            yield Sentence(f"It was back in the queue{again} at {clock(each.time)}, at its old place{lost}.", seqs_of(each.seq))
        elif isinstance(each.data, decisions.JobShrunk):
            yield Sentence(f"It goes on without {tasks_text(each.data.tasks)} since {clock(each.time)}.", seqs_of(each.seq))
        elif isinstance(each.data, decisions.JobPlaced | decisions.JobGrown):
            more = "got more tasks again" if isinstance(each.data, decisions.JobGrown) else "got a place again"
            took = f"{duration_text(each.time - since.time)} {'after it had to leave' if since is record else 'later'}"
            yield Sentence(f"It {more} at {clock(each.time)}, {took}.", seqs_of(each.seq))
        elif isinstance(each.data, decisions.JobEnded):
            yield Sentence(f"It ended ({each.data.outcome}) at {clock(each.time)}.", seqs_of(each.seq))


def protections_of(pool: Pool, job: Job) -> Iterable[Sentence]:
    """What keeps the job from being taken again soon, by the policy in force."""
    rules, seqs = pool.rules.protections, seqs_of(pool.policy_revision)
    if rules.cooldown.job:
        yield Sentence(f"Rule cooldown: once it runs again it is left alone for {duration_text(rules.cooldown.job)}.", seqs)
    for verb in ("preempt", "reclaim"):
        shielded = _min_runtime(pool, job, verb)
        if shielded:
            yield Sentence(f"Rule min-runtime: {verb} leaves it alone for {duration_text(shielded)} after each start.", seqs)
    cap = rules.eviction_cap
    if cap is not None:
        lately = sum(moment > pool.now - cap.window for moment in job.evicted_at)
        text = f"Rule eviction-cap: {lately} of at most {cap.evictions} evictions within {duration_text(cap.window)} are used."
        yield Sentence(text, seqs)
    if rules.ageing is not None:
        when = [f"{rules.ageing.evictions} evictions"] if rules.ageing.evictions is not None else []
        when += [f"waiting {duration_text(rules.ageing.waiting)}"] if rules.ageing.waiting is not None else []
        yield Sentence(f"Rule ageing: after {' or '.join(when)} it counts {rules.ageing.boost} more.", seqs)
    if not job.preemptible:
        yield Sentence("It is not preemptible, so that no verb takes it again.", seqs)


def _min_runtime(pool: Pool, job: Job, verb: str) -> int:
    """As stated nearest above the job; reclaim may look from further up, which depends on who asks."""
    projects = {project.name: project for project in pool.rules.projects}
    name: str | None = job.project
    while name in projects:
        stated: int | None = getattr(projects[name].min_runtime, verb)
        if stated is not None:
            return stated
        name = projects[name].parent
    return getattr(pool.rules.protections.min_runtime, verb) or 0


def takes(record: Record, job: str) -> bool:
    """Whether the record decides that the job, or a part of it, leaves its place."""
    data = record.data
    if isinstance(data, decisions.EvictionDecided | decisions.MigrationDecided):
        return data.job == job
    return isinstance(data, decisions.PreemptionDecided) and any(choice.job == job for choice in data.victims)


def takes_parts(record: Record, job: str) -> bool:
    """Whether it decides that of surplus tasks only."""
    data = record.data
    if isinstance(data, decisions.PreemptionDecided):
        return all(choice.tasks for choice in data.victims if choice.job == job)
    return isinstance(data, decisions.EvictionDecided) and bool(data.tasks)
