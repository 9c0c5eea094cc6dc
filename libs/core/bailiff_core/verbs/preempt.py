"""Making room for those who wait: who asks for it, and what becomes of the answers (consolidate, reclaim, preempt)."""

from collections.abc import Iterator

from bailiff_core.lifecycle.grace import grace_for
from bailiff_core.model.answer import Answer
from bailiff_core.model.places import ranges
from bailiff_core.model.policy import Verb
from bailiff_core.model.pool import Job, OpenRequest, Pool
from bailiff_core.model.units import Unit, next_unit
from bailiff_core.placement.gang import GangPlace
from bailiff_core.placement.shares import from_shares
from bailiff_core.protections import next_to_open
from bailiff_core.protections.delay import may_displace_at
from bailiff_core.queue.gates import Shares
from bailiff_core.queue.order import Pass, shares_now
from bailiff_core.records.decisions import (
    Asker,
    PreemptionDecided,
    PreemptionRefused,
    PreemptionRequested,
    SelectionTimedOut,
)
from bailiff_core.records.payload import Decision
from bailiff_core.scene import Scene, scene_of
from bailiff_core.victims.batch import DISPLACING, victims_of
from bailiff_core.victims.check import Accepted, check_answer
from bailiff_core.victims.consolidation import Idle
from bailiff_core.victims.spare import spared_by
from bailiff_core.victims.terms import why_not_ask

from .allocate import ready_to_try, why_it_waits
from .failure import about

LARGEST_SELECTION = 64
FAILURES_BEFORE_WAITING = 3
LONGEST_TEXT = 2000  # of `would_need`; the reason may repeat what a proposal said


def request_preemptions(pool: Pool, most: int = LARGEST_SELECTION) -> Iterator[Decision]:
    """Open one selection for the first waiting units (`most` of them) that room may be made for. At most one is out at a time."""
    rules = pool.rules.preemption
    if pool.unsettled or pool.selection is not None or not any(verb in rules.verbs for verb in DISPLACING):
        return
    if not pool.queue:
        return  # nobody waits: who could lose anything is a question of its own
    losers = Losers(pool)
    if not losers.anybody:
        return
    number = pool.selections + 1
    patient = pool.selection_failures >= FAILURES_BEFORE_WAITING
    deadline = None if patient else pool.now + rules.selection_timeout
    for unit, verbs in _askers(pool, losers, most):
        job = unit.job
        yield PreemptionRequested(
            job=job.id,
            verb=verbs[0],
            selection=number,
            class_name=job.class_name,
            priority=job.priority,
            reason=why_it_waits(pool, job),
            deadline=deadline,
            verbs=verbs,
            tasks=ranges(unit.indices) if job.tasks else "",
        )


def _askers(pool: Pool, losers: "Losers", most: int) -> list[tuple[Unit, tuple[Verb, ...]]]:
    """The first of those who may ask, in the order in which a pass would try them, each with the verbs that may help."""
    ready = [job for job in map(pool.jobs.__getitem__, pool.queue) if losers.for_anyone(job) and _may_ask(pool, job)]
    if not ready:
        return []
    scene = scene_of(pool)
    turn = Pass(scene, ready)
    found: list[tuple[Unit, tuple[Verb, ...]]] = []
    while len(found) < most and (unit := turn.next()) is not None:
        verbs = verbs_for(scene, turn.shares, unit, losers)
        if verbs:
            found.append((unit, verbs))
    return found


def _may_ask(pool: Pool, job: Job) -> bool:
    return ready_to_try(pool, job) and pool.now >= job.next_request_at and pool.now >= may_displace_at(pool, job)


class Losers:
    """Who could lose anything at all, counted once: the cheap part of whether asking makes sense.

    lowest: the lowest priority of what is preemptible, in the pool and by project.
    """

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self.lowest: dict[str, int] = {}
        for phase, priority, project, preemptible in scene_of(pool).alike.groups:
            if preemptible and phase != "evicting":
                self.lowest[project] = min(priority, self.lowest.get(project, priority))
        self.anybody = bool(self.lowest)
        self.idle = Idle.of(scene_of(pool).rooms) if self.anybody and pool.rules.preemption.most_moved else None
        self._least = min(self.lowest.values(), default=0)
        self._for_alike: dict[tuple[int, str, bool], bool] = {}

    def to(self, job: Job, verb: Verb) -> bool:
        """Whether somebody might leave for this job under the verb."""
        if verb == "consolidate":
            return self.idle is not None
        if verb == "reclaim":
            return bool(self.pool.rules.projects) and any(project != job.project for project in self.lowest)
        if not job.may_preempt:
            return False
        if self.pool.rules.scope == "pool":
            return self.anybody and self._least < job.priority
        return self.lowest.get(job.project, job.priority) < job.priority

    def for_anyone(self, job: Job) -> bool:
        """Whether any verb of the policy might help this job."""
        alike = (job.priority, job.project, job.may_preempt)
        if alike not in self._for_alike:
            verbs = self.pool.rules.preemption.verbs
            self._for_alike[alike] = any(verb in verbs and self.to(job, verb) for verb in DISPLACING)
        return self._for_alike[alike]


def verbs_for(scene: Scene, shares: Shares, unit: Unit, losers: Losers) -> tuple[Verb, ...]:
    """The verbs that may make room for the unit, as far as is known without looking for victims."""
    able = [verb for verb in DISPLACING if losers.to(unit.job, verb) and why_not_ask(scene, shares, unit, verb) is None]
    if losers.idle is None or losers.idle.lacks(unit) is not None:
        able = [verb for verb in able if verb != "consolidate"]
    return tuple(able)


def answered_requests(pool: Pool) -> Iterator[Decision]:
    """Check each answer of the proposal on the state as it is now, in queue order, each after the ones before."""
    if pool.answers is None or pool.selection is None:
        return
    shares = shares_now(scene_of(pool))
    for request in list(pool.selection.requests):
        job = pool.jobs[request.job]
        with about(job):
            yield _answer(pool, shares, job, request, pool.answers.get(request.seq))


def _answer(pool: Pool, shares: Shares, job: Job, request: OpenRequest, answer: Answer | None) -> Decision:
    asker = Asker(
        job=job.id, class_name=job.class_name, priority=job.priority, project=job.project, base_priority=job.base_priority
    )
    verb: Verb = answer.verb if answer is not None and answer.verb != "allocate" else "preempt"
    if job.phase not in ("pending", "starting", "running") or next_unit(job) is None or not ready_to_try(pool, job):
        return PreemptionRefused(request=request.seq, verb=verb, asker=asker, reason="not-needed")
    retry_at = pool.now + (pool.rules.preemption.selection_backoff << min(job.refused_requests, 6))
    if answer is None:
        return PreemptionRefused(request=request.seq, verb=verb, asker=asker, reason="stale", retry_at=retry_at)
    if answer.refused is not None:
        opens = next_to_open(pool, pool.rules.preemption.verbs, job)
        if opens is not None:  # whoever is left alone for a time may be enough when that is over
            retry_at = min(retry_at, max(opens, pool.now + pool.rules.preemption.selection_backoff))
        return PreemptionRefused(
            request=request.seq,
            verb=verb,
            asker=asker,
            reason=answer.refused,
            would_need=answer.would_need,
            explanation=answer.explanation,
            retry_at=retry_at,
        )
    checked = check_answer(scene_of(pool), shares, job, answer)
    if not isinstance(checked, Accepted):
        why = checked.reason[:LONGEST_TEXT]
        return PreemptionRefused(request=request.seq, verb=verb, asker=asker, reason="stale", would_need=why, retry_at=retry_at)
    if not checked.victims:  # allocate places it now, unless the policy or its search does not let it
        return PreemptionRefused(request=request.seq, verb=verb, asker=asker, reason="not-needed", retry_at=retry_at)
    graces = tuple(0 if choice.reserved else grace_for(pool, job, pool.jobs[choice.job]) for choice in checked.victims)
    return PreemptionDecided(
        request=request.seq,
        verb=verb,
        asker=asker,
        attempt=job.attempt if job.tasks else job.attempt + 1,
        victims=checked.victims,
        graces=graces,
        placement=checked.placement,
        expires=pool.now + pool.rules.preemption.reservation_expiry + max(graces),
        explanation=answer.explanation,
        dropped=checked.dropped,
        spared=_spared(pool, checked),
        tasks=ranges(checked.unit.indices) if job.tasks else "",
    )


def _spared(pool: Pool, checked: Accepted) -> tuple[str, ...]:
    """Victims of promises dropped for this asker that may stay, because their room is not needed."""
    rooms = scene_of(pool).rooms
    mark = rooms.mark()
    victims = [(pool.jobs[choice.job], choice) for choice in checked.victims]
    for victim, choice in victims:
        for unit in victims_of(victim, choice):
            rooms.evict(unit)
    places = from_shares(checked.unit.job, checked.placement, checked.unit.indices)
    rooms.place(checked.unit, GangPlace(tuple(places), later=True))
    spared = spared_by(pool, rooms, [victim for victim, choice in victims if choice.reserved])
    rooms.rollback(mark)
    return tuple(spared)


def timed_out_selection(pool: Pool) -> Iterator[Decision]:
    """No proposal came in time. After three such failures in a row a selection waits for its answer."""
    selection = pool.selection
    if selection is None or selection.deadline is None or pool.answers is not None or pool.now < selection.deadline:
        return
    failures = pool.selection_failures + 1
    retry_at = pool.now + (pool.rules.preemption.selection_backoff << min(failures, 6))
    yield SelectionTimedOut(number=selection.number, failures=failures, retry_at=retry_at)
