"""What would make room for a job that waits, and when: releases under way, reservations, run-time limits, rules of time."""

from collections.abc import Iterable, Iterator

from bailiff_core.model.policy import VERBS
from bailiff_core.model.pool import Job, Node, Pool
from bailiff_core.model.units import next_unit
from bailiff_core.placement.budget import Budget
from bailiff_core.placement.gang import GangPlace, place_unit
from bailiff_core.protections import next_to_open
from bailiff_core.queue.backfill import Backfill
from bailiff_core.records import Record
from bailiff_core.scene import scene_of
from bailiff_core.words import count_text, duration_text

from .said import NAMED, Sentence, clock, few, seqs_of
from .victims import needs


def what_would_free_it(pool: Pool, job: Job, refusal: Record | None) -> Iterable[Sentence]:
    """refusal: the newest that says something about the pool."""
    if refusal is not None:
        yield from needs(refusal)
    if job.next_request_at > pool.now:
        text = f"It may ask for victims again from {clock(job.next_request_at)} on."
        yield Sentence(text, seqs_of(refusal.seq if refusal else None))
    opens = next_to_open(pool, VERBS[1:], job) if pool.policy is not None and job.may_preempt else None
    if opens is not None:
        yield Sentence(f"At {clock(opens)} a rule of time ends that shields somebody from it now.", seqs_of(pool.policy_revision))
    yield from _leaving(pool)
    yield from _reserved(pool, job)
    yield from _limits(pool)
    yield from _out_of_use(pool)
    yield from by_limits_alone(pool, job)


def when_back(pool: Pool, job: Job) -> Iterable[Sentence]:
    """When a job that had to leave runs again, where anything tells; else what it depends on."""
    if job.promise and job.promise_until is not None:
        nodes = _names(pool, (task.node for task in job.promise))
        yield Sentence(f"A place is kept for it on {nodes} until {clock(job.promise_until)}.", _decided(job))
    elif job.phase == "reserved":
        plan = pool.plans.get(job.plan) if job.plan is not None else None
        if plan is not None and plan.victims:
            ends = [end for name in plan.victims if (end := _gone_by(pool.jobs[name])) is not None]
            late = f", at the latest about {clock(max(ends))}" if len(ends) == len(plan.victims) else ""
            yield Sentence(f"It starts when {few(plan.victims)} left{late}.", seqs_of(plan.seq))
    elif job.phase == "pending":
        ahead = (
            [name for name in pool.queue[: pool.queue.index(job.id)] if name not in pool.active] if job.id in pool.queue else []
        )
        if ahead:
            yield Sentence(f"Before it in the queue: {few(ahead)}.", tuple(pool.jobs[name].seq for name in ahead[:NAMED]))
        yield from by_limits_alone(pool, job)


def by_limits_alone(pool: Pool, job: Job) -> Iterator[Sentence]:
    """When there is room for it if each job runs for as long as it may and nobody else takes the room."""
    unit = next_unit(job)
    if unit is None or pool.policy is None:
        return
    scene, steps = scene_of(pool), pool.rules.preemption.search_steps
    mark = scene.mark()
    fits = isinstance(place_unit(scene.rooms, unit, Budget(steps)), GangPlace)
    scene.rollback(mark)
    if fits:
        return
    coming = Backfill(scene, unit, Budget(steps))
    if not coming.kept:
        yield Sentence("Even with every job gone that runs now, no place was found for it.")
    elif coming.starts is not None:
        text = f"Going by run-time limits alone there is room for it at {clock(coming.starts)} at the latest"
        yield Sentence(f"{text}, in {duration_text(max(0, coming.starts - pool.now))}, unless who is before it takes that room.")
    else:
        endless = [each.id for each in pool.active_jobs() if each.demand.run_time_limit is None and each.id != job.id]
        who = f": {few(endless)}" if endless else ""
        yield Sentence(f"No limit says when there is room for it: that depends on jobs without a run-time limit{who}.")


def _leaving(pool: Pool) -> Iterator[Sentence]:
    leaving = [pool.jobs[name] for name in pool.leaving if pool.jobs[name].eviction is not None]
    for job in leaving[:NAMED]:
        assert job.eviction is not None
        whom = f", for {job.eviction.for_job}" if job.eviction.for_job else ""
        end = _gone_by(job)
        late = " It is overdue." if job.eviction.stuck else ""
        when = f" by {clock(end)} at the latest" if end is not None else " once its nodes were told"
        held = count_text(_gpus_held(job), "GPU")
        yield Sentence(f"On its way out now: {job.id}, with {held}{whom}; its grace is over{when}.{late}", _decided(job))
    if len(leaving) > NAMED:
        yield Sentence(f"And {count_text(len(leaving) - NAMED, 'more job')} on their way out.")


def _gone_by(job: Job) -> int | None:
    eviction = job.eviction
    return None if eviction is None or eviction.begun_at is None else eviction.begun_at + eviction.grace


def _decided(job: Job) -> tuple[int, ...]:
    return seqs_of(job.eviction.decided_seq, job.eviction.begun_seq) if job.eviction is not None else ()


def _reserved(pool: Pool, asker: Job) -> Iterator[Sentence]:
    held = [pool.jobs[name] for name in pool.reserved if name != asker.id]
    for job in held[:NAMED]:
        until = f", until {clock(job.reserved_until)} at the latest" if job.reserved_until is not None else ""
        yield Sentence(f"Reserved for {job.id}: {count_text(job.gpus, 'GPU')}{until}.", seqs_of(job.plan, job.seq))
    if len(held) > NAMED:
        yield Sentence(f"And for {count_text(len(held) - NAMED, 'more job')}.")


def _limits(pool: Pool) -> Iterator[Sentence]:
    ending = sorted(
        (job.last_start + job.demand.run_time_limit, job.id)
        for job in pool.active_jobs()
        if job.demand.run_time_limit is not None and job.last_start is not None
    )
    for at, (until, name) in enumerate(ending[:NAMED]):
        which = "The first job with a run-time limit to reach it is" if not at else "Then"
        held = count_text(_gpus_held(pool.jobs[name]), "GPU")
        yield Sentence(f"{which} {name}, at {clock(until)}, with {held}.", seqs_of(pool.jobs[name].seq))


def _out_of_use(pool: Pool) -> Iterator[Sentence]:
    counts = [(node, _troubled(node)) for node in pool.nodes.values()]
    troubled = [(node.name, count) for node, count in counts if count]
    if troubled:
        total = count_text(sum(count for _, count in troubled), "GPU")
        yield Sentence(
            f"{total} on {few([name for name, _ in troubled])} cannot be given to anybody: bailiff node list says why."
        )


def _troubled(node: Node) -> int:
    """Devices that are quarantined or broken."""
    return sum(1 for device in node.devices if not device.healthy or node.quarantined >> device.number & 1)


def _gpus_held(job: Job) -> int:
    return sum(task.devices.bit_count() for task in job.tasks if task.state != "released")


def _names(pool: Pool, found: Iterable[int]) -> str:
    return few([pool.nodes[number].name for number in dict.fromkeys(found) if number in pool.nodes])
