"""Selections, proposals and plans."""

from bailiff_core.lifecycle.evictions import evictions_of
from bailiff_core.model.answer import VictimChoice
from bailiff_core.model.places import numbers
from bailiff_core.model.pool import Eviction, Job, OpenRequest, Plan, Pool, Selection
from bailiff_core.protections import displaced_asker, no_borrowing
from bailiff_core.records import decisions, facts

from .evictions import leave_in_part
from .growth import grow
from .jobs import back_to_queue, take_place
from .register import folds
from .room import leave_whole, reindex, set_promise, tasks_of
from .selection import close_request


@folds(decisions.PreemptionRequested)
def preemption_requested(pool: Pool, decision: decisions.PreemptionRequested) -> None:
    """The first request of a number opens the selection."""
    if pool.selection is None or pool.selection.number != decision.selection:
        pool.selection = Selection(decision.selection, pool.seq, decision.deadline, [])
        pool.selections = decision.selection
    pool.selection.requests.append(OpenRequest(pool.seq, decision.job))


@folds(facts.ProposalReceived)
def proposal_received(pool: Pool, fact: facts.ProposalReceived) -> None:
    """Each open request now has its answer, or none."""
    pool.answers = {answer.request: answer for answer in fact.answers}
    pool.selection_failures = 0


@folds(decisions.PreemptionDecided)
def preemption_decided(pool: Pool, decision: decisions.PreemptionDecided) -> None:
    """Victims are on their way out, those that move to a place kept for them; the room is promised to the asker."""
    plan = Plan(pool.seq, decision.asker.job, [])
    for choice, grace in zip(decision.victims, decision.graces, strict=True):
        _leave(pool, pool.jobs[choice.job], choice, grace, plan, decision.spared)
    for choice in decision.victims:  # after all have left: a place may be one that another victim of this decision was promised
        victim = pool.jobs[choice.job]
        places = tasks_of(pool, victim, choice.moved, True)
        if not choice.tasks:
            set_promise(pool, victim, places, decision.expires, decision.verb)
        elif places:  # beside those of members that are on their way already
            until = max(victim.promise_until or 0, decision.expires)
            set_promise(pool, victim, sorted([*victim.promise, *places], key=lambda task: task.index), until, decision.verb)
            pool.touched[victim.id] = None
    asker = pool.jobs[decision.asker.job]
    if decision.verb == "reclaim":
        no_borrowing.mark(pool, asker.project, (choice.project for choice in decision.victims if not choice.goes_on))
    for choice in decision.victims:
        if decision.verb in ("reclaim", "preempt") and not choice.goes_on:
            partly = {"asks_surplus": bool(decision.tasks), "loses_surplus": bool(choice.tasks)}
            displaced_asker.displaced(pool, asker.id, choice.job, **partly)
    if decision.tasks:
        grow(pool, asker, decision.placement, True, decision.expires)
    else:
        take_place(pool, asker, decision.attempt, decision.placement, True, decision.expires)
    asker.plan = pool.seq
    pool.plans[pool.seq] = plan
    reindex(pool, asker)
    close_request(pool, decision.request)


def _leave(pool: Pool, victim: Job, choice: VictimChoice, grace: int, plan: Plan, spared: tuple[str, ...]) -> None:
    leaving = numbers(choice.tasks) if choice.tasks else [task.index for task in victim.tasks]
    if all(task.index in leaving for task in victim.tasks if task.state == "reserved"):
        _inherit(pool, victim, plan, spared)
    if victim.phase == "reserved" and not choice.tasks:
        back_to_queue(pool, victim)
        return
    eviction = Eviction(pool.seq, "preemption", grace, plan=plan.seq, for_job=plan.job)
    if choice.tasks:
        leave_in_part(pool, victim, leaving, eviction)
    else:
        leave_whole(pool, victim, eviction)
    if any(entry.eviction.plan == plan.seq for entry in evictions_of(victim)) and victim.id not in plan.victims:
        plan.victims.append(victim.id)


def _inherit(pool: Pool, dropped: Job, plan: Plan, spared: tuple[str, ...]) -> None:
    """Who was leaving for the gang that loses its promise leaves for the new asker, unless it is spared."""
    old = pool.plans.get(dropped.plan) if dropped.plan is not None else None
    for name in old.victims if old is not None else ():
        if name not in pool.jobs or name in spared or old is None:
            continue
        job = pool.jobs[name]
        for eviction in (job.eviction, *(task.eviction for task in job.tasks)):
            if eviction is not None and eviction.plan == old.seq:
                eviction.plan, eviction.for_job = plan.seq, plan.job
                if name not in plan.victims:
                    plan.victims.append(name)


@folds(decisions.PreemptionRefused)
def preemption_refused(pool: Pool, decision: decisions.PreemptionRefused) -> None:
    """The job may ask again later."""
    job = pool.jobs[decision.asker.job]
    if decision.retry_at is not None:
        job.next_request_at = decision.retry_at
        pool.stale_times[job.id] = None
        job.refused_requests += 1
    close_request(pool, decision.request)


@folds(decisions.SelectionTimedOut)
def selection_timed_out(pool: Pool, decision: decisions.SelectionTimedOut) -> None:
    """The room held for it is free again."""
    for request in pool.selection.requests if pool.selection is not None else ():
        pool.jobs[request.job].next_request_at = decision.retry_at
        pool.stale_times[request.job] = None
    pool.selection = pool.answers = None
    pool.selection_failures = decision.failures
    pool.room_grew = True


@folds(facts.PlanGivenUp)
def plan_given_up(pool: Pool, fact: facts.PlanGivenUp) -> None:
    """The executor's last look says that nobody needs to leave."""
    plan = pool.plans.get(fact.plan)
    if plan is not None:
        plan.given_up = fact.reason
        pool.touched[plan.job] = None
