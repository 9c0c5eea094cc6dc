"""One pass over all pending jobs: the verbs in their order, each decision enacted through the fold as live does.

What live spreads over turns and services happens here at once: a request for victims is answered in the same pass.
Waiting times between two tries of one job are live's and do not count here.
"""

from collections.abc import Callable, Iterable, Iterator

from bailiff_core.engine import LOGIC
from bailiff_core.fold import close_turn, enact
from bailiff_core.lifecycle.ageing import ageing
from bailiff_core.lifecycle.evictions import withdrawn_evictions
from bailiff_core.lifecycle.reservations import moved_jobs
from bailiff_core.lifecycle.stale_gang import stale_gangs
from bailiff_core.lifecycle.timeouts import schedule_timeouts
from bailiff_core.model.policy import VERBS, Verb
from bailiff_core.model.pool import Pool
from bailiff_core.records.decisions import PreemptionDecided
from bailiff_core.records.facts import ClockAdvanced, ProposalReceived
from bailiff_core.records.payload import Decision
from bailiff_core.verbs.allocate import allocate
from bailiff_core.verbs.preempt import answered_requests, request_preemptions
from bailiff_core.victims.batch import select_batch

from .build import happens

EVERYBODY = 1 << 30
MOST_ROUNDS = 1000
LAST_SAID = 100
Rule = Callable[[Pool], Iterator[Decision]]
BEFORE: tuple[Rule, ...] = (ageing, schedule_timeouts)


def one_pass(pool: Pool, *, stale: bool = True) -> list[tuple[int, Decision]]:
    """Every decision of the pass with its seq, in order."""
    happens(pool, ClockAdvanced(), close=False)
    _every_job_may_try(pool)
    made = [each for rule in (*BEFORE, allocate) for each in _all_of(pool, rule)]
    made += displace(pool)
    if stale:
        made += _all_of(pool, stale_gangs)
    close_turn(pool)
    return made


def displace(pool: Pool) -> list[tuple[int, Decision]]:
    """Consolidate, reclaim and preempt for whoever still waits; then nobody has an open request.

    Raises `RuntimeError` where jobs go on displacing each other.
    """
    made: list[tuple[int, Decision]] = []
    began = pool.seq
    for _ in range(MOST_ROUNDS):
        opened = _all_of(pool, lambda pool: request_preemptions(pool, EVERYBODY))
        made += opened
        if not opened or pool.selection is None:
            return made
        number, steps = pool.selection.number, pool.rules.preemption.search_steps
        answers = select_batch(pool, pool.selection.requests, steps)
        happens(
            pool,
            ProposalReceived(number=number, computed_at=pool.seq, logic=LOGIC, answers=tuple(answers)),
            close=False,
        )
        for rule in (answered_requests, moved_jobs, withdrawn_evictions):
            made += _all_of(pool, rule)
    askers = ", ".join(dict.fromkeys(each.asker.job for _, each in made[-LAST_SAID:] if isinstance(each, PreemptionDecided)))
    raise RuntimeError(
        f"the requests for room did not come to rest within {MOST_ROUNDS} rounds of one pass after #{began}: "
        f"the last to displace others were {askers}"
    )


def _all_of(pool: Pool, rule: Rule) -> list[tuple[int, Decision]]:
    return list(_enacted(pool, rule(pool)))


def _enacted(pool: Pool, decisions: Iterable[Decision]) -> Iterator[tuple[int, Decision]]:
    for decision in decisions:
        enact(pool, decision)
        yield pool.seq, decision


def _every_job_may_try(pool: Pool) -> None:
    """A pass tries everybody anew, and says anew why a job waits."""
    for name in pool.queue:
        job = pool.jobs[name]
        job.not_before = job.next_request_at = job.refused_requests = 0
        job.told_waiting = False
    pool.room_grew = True


def verbs_of(names: Iterable[str], allowed: tuple[Verb, ...]) -> tuple[Verb, ...]:
    """The verbs that are both asked for and allowed by the policy, in the order in which they run."""
    wanted = list(names)
    return tuple(verb for verb in VERBS if verb in wanted and verb in allowed)
