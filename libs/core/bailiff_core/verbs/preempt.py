"""Preempt: lower-priority work leaves so that a waiting job can start."""

from collections.abc import Iterator

from bailiff_core.lifecycle.attempts import grace_of
from bailiff_core.model.answer import Answer
from bailiff_core.model.pool import Job, OpenRequest, Pool
from bailiff_core.model.units import whole
from bailiff_core.placement.gang import GangPlace
from bailiff_core.placement.rooms import Rooms
from bailiff_core.placement.shares import from_shares
from bailiff_core.records.decisions import (
    Asker,
    PreemptionDecided,
    PreemptionRefused,
    PreemptionRequested,
    SelectionTimedOut,
)
from bailiff_core.records.payload import Decision
from bailiff_core.victims.check import Accepted, check_answer
from bailiff_core.victims.spare import spared_by

from .allocate import ready_to_try
from .failure import about

LARGEST_SELECTION = 64
FAILURES_BEFORE_WAITING = 3
LONGEST_TEXT = 2000  # of `would_need`; the reason may repeat what a proposal said


def request_preemptions(pool: Pool) -> Iterator[Decision]:
    """Open one selection for the first waiting jobs that may displace somebody. At most one is out at a time."""
    rules = pool.rules.preemption
    if "preempt" not in rules.verbs or pool.selection is not None:
        return
    lowest = min((job.priority for job in pool.active_jobs() if job.preemptible and job.phase != "evicting"), default=None)
    if lowest is None:
        return
    number = pool.selections + 1
    patient = pool.selection_failures >= FAILURES_BEFORE_WAITING
    deadline = None if patient else pool.now + rules.selection_timeout
    asked = 0
    for job in [pool.jobs[name] for name in pool.queue]:
        if job.priority <= lowest or asked == LARGEST_SELECTION:
            return
        if job.may_preempt and ready_to_try(pool, job) and pool.now >= job.next_request_at:
            asked += 1
            yield PreemptionRequested(
                job=job.id,
                selection=number,
                class_name=job.class_name,
                priority=job.priority,
                reason=pool.unplaceable.get(job.shape, "it does not fit"),
                deadline=deadline,
            )


def answered_requests(pool: Pool) -> Iterator[Decision]:
    """Check each answer of the proposal on the state as it is now, in queue order, each after the ones before."""
    if pool.answers is None or pool.selection is None:
        return
    for request in list(pool.selection.requests):
        job = pool.jobs[request.job]
        with about(job):
            yield _answer(pool, job, request, pool.answers.get(request.seq))


def _answer(pool: Pool, job: Job, request: OpenRequest, answer: Answer | None) -> Decision:
    asker = Asker(job=job.id, class_name=job.class_name, priority=job.priority)
    if job.phase != "pending" or not ready_to_try(pool, job):
        return PreemptionRefused(request=request.seq, asker=asker, reason="not-needed")
    if answer is None:
        return PreemptionRefused(request=request.seq, asker=asker, reason="stale", retry_at=_retry_at(pool, job))
    if answer.refused is not None:
        return PreemptionRefused(
            request=request.seq,
            asker=asker,
            reason=answer.refused,
            would_need=answer.would_need,
            explanation=answer.explanation,
            retry_at=_retry_at(pool, job),
        )
    checked = check_answer(pool, Rooms.of(pool), job, answer)
    if not isinstance(checked, Accepted):
        return PreemptionRefused(
            request=request.seq,
            asker=asker,
            reason="stale",
            would_need=checked.reason[:LONGEST_TEXT],
            retry_at=_retry_at(pool, job),
        )
    if not checked.victims:  # allocate places it now, unless the policy or its search does not let it
        return PreemptionRefused(request=request.seq, asker=asker, reason="not-needed", retry_at=_retry_at(pool, job))
    graces = tuple(0 if choice.reserved else grace_of(pool, pool.jobs[choice.job]) for choice in checked.victims)
    return PreemptionDecided(
        request=request.seq,
        asker=asker,
        attempt=job.attempt + 1,
        victims=checked.victims,
        graces=graces,
        placement=checked.placement,
        expires=pool.now + pool.rules.preemption.reservation_expiry + max(graces),
        explanation=answer.explanation,
        dropped=checked.dropped,
        spared=_spared(pool, job, checked),
    )


def _spared(pool: Pool, asker: Job, checked: Accepted) -> tuple[str, ...]:
    """Victims of promises dropped for this asker that may stay, because their room is not needed."""
    rooms = Rooms.of(pool)
    victims = [pool.jobs[choice.job] for choice in checked.victims]
    for victim in victims:
        rooms.evict(whole(victim))
    rooms.place(whole(asker), GangPlace(tuple(from_shares(asker, checked.placement)), later=True))
    return tuple(spared_by(pool, rooms, [victim for victim in victims if victim.phase == "reserved"]))


def _retry_at(pool: Pool, job: Job) -> int:
    return pool.now + (pool.rules.preemption.selection_backoff << min(job.refused_requests, 6))


def timed_out_selection(pool: Pool) -> Iterator[Decision]:
    """No proposal came in time. After three such failures in a row a selection waits for its answer."""
    selection = pool.selection
    if selection is None or selection.deadline is None or pool.answers is not None or pool.now < selection.deadline:
        return
    failures = pool.selection_failures + 1
    retry_at = pool.now + (pool.rules.preemption.selection_backoff << min(failures, 6))
    yield SelectionTimedOut(number=selection.number, failures=failures, retry_at=retry_at)
