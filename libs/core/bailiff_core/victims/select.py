"""Answers one request for room."""

from collections.abc import Mapping
from dataclasses import dataclass

from bailiff_core.model.answer import Answer, Excluded, Explanation, VictimChoice
from bailiff_core.model.policy import PreemptionRules
from bailiff_core.model.pool import Job, Pool
from bailiff_core.model.units import whole
from bailiff_core.placement.budget import Budget
from bailiff_core.placement.gang import GangPlace, NoFit, place_unit
from bailiff_core.placement.rooms import Rooms
from bailiff_core.placement.shares import to_shares
from bailiff_core.protections import already_leaving, excluded_by

from .fit import Fit, OneNeed, asking, fit_for
from .nearest import what_it_would_take
from .objective import loss, weigh
from .parts import search_parts
from .tree import put_back_all, search_tree

RUNNER_UP_TRIES = 2
PLACEMENT_STEPS = 10_000
IMPROVEMENTS = 5


@dataclass(slots=True)
class Field:
    """All jobs that hold room: who may be a victim, and which rule shields each of the others."""

    candidates: list[Job]
    excluded: dict[str, list[Job]]


def select_victims(
    pool: Pool, asker: Job, rooms: Rooms, steps: int, *, request: int = 0, leaving: Mapping[str, None] | None = None
) -> Answer:
    """Who must go so that the asker's whole gang stands, or why nobody can be made to. `rooms` stays as it was.

    `leaving`: victims of earlier answers, whose eviction `rooms` already knows. An answer without victims and without
    a refusal means that the gang fits as it is.
    """
    budget = Budget(steps)
    mark = rooms.mark()
    part = budget.part(steps // 4)
    found = place_unit(rooms, asking(asker), part)
    rooms.rollback(mark)
    budget.join(part)
    if isinstance(found, GangPlace):
        return Answer(request=request, job=asker.id, placement=to_shares(found))
    field = _field(pool, asker, leaving or {})
    answer = _search(pool, pool_rules(pool), asker, rooms, budget, field, request)
    rooms.rollback(mark)
    return answer


def pool_rules(pool: Pool) -> PreemptionRules:
    """The policy's rules of preemption; the defaults before there is a policy."""
    return pool.policy.preemption if pool.policy is not None else PreemptionRules()


def _field(pool: Pool, asker: Job, leaving: Mapping[str, None]) -> Field:
    field = Field([], {})
    jobs = [pool.jobs[name] for name in pool.active]
    for job in sorted(jobs, key=lambda job: (job.seq, job.id)):
        rule = already_leaving.NAME if job.id in leaving else excluded_by(pool, "preempt", asker, whole(job))
        if rule is None:
            field.candidates.append(job)
        else:
            field.excluded.setdefault(rule, []).append(job)
    return field


def _search(pool: Pool, rules: PreemptionRules, asker: Job, rooms: Rooms, budget: Budget, field: Field, request: int) -> Answer:
    if not asker.may_preempt or "preempt" not in rules.verbs:
        who = "its class" if not asker.may_preempt else "the policy"
        return _refusal(asker, request, field, budget, "impossible", f"{who} does not let it displace others")
    for job in field.candidates:
        rooms.evict(whole(job))
    weights = weigh(pool, rules, field.candidates)
    heaviest_first = sorted(field.candidates, key=lambda job: weights[job.id], reverse=True)
    fit = fit_for(rooms, asker, budget, heaviest_first)
    if not fit.fits():
        if not fit.exact:
            why = "found no packing of this gang within the search steps, with all permitted victims gone"
            return _refusal(asker, request, field, budget, "gave-up", why)
        would_need = what_it_would_take(asker, rooms, field.excluded)
        return _refusal(asker, request, field, budget, "impossible", would_need)

    useless = [job for job in field.candidates if not fit.uses(job)]
    useful = [job for job in field.candidates if fit.uses(job)]
    for job in useless:
        rooms.put_back(whole(job))
    heaviest_first = [job for job in heaviest_first if fit.uses(job)]
    victims = _fill_back(fit, heaviest_first)
    better, finished = _improve(fit, useful, weights, _weight(victims, weights), budget)
    proven = finished and fit.exact
    if better is not None:
        # A search that did not finish may hold on to someone who is not needed.
        wanted = dict.fromkeys(job.id for job in better)
        victims = _fill_back(fit, sorted(heaviest_first, key=lambda job: job.id in wanted))
    second = _runner_up(fit, heaviest_first, victims, weights)
    for _ in range(0 if proven else IMPROVEMENTS):
        if not second or _weight(second, weights) > _weight(victims, weights):
            break
        victims, second = second, _runner_up(fit, heaviest_first, second, weights) or victims

    chosen = dict.fromkeys(job.id for job in victims)
    for job in useful:
        if job.id not in chosen:
            rooms.put_back(whole(job))
    place = place_unit(rooms, asking(asker), Budget(PLACEMENT_STEPS), promised=True)
    if isinstance(place, NoFit):
        return _refusal(asker, request, field, budget, "gave-up", place.why)
    return Answer(
        request=request,
        job=asker.id,
        victims=tuple(_choice(pool, rules, job) for job in sorted(victims, key=lambda job: (job.seq, job.id))),
        placement=to_shares(place),
        explanation=_explanation(
            field,
            budget,
            proven=proven,
            runner_up=tuple(job.id for job in second),
            runner_up_lost_gpu_ms=sum(loss(pool, rules, job) for job in second),
        ),
    )


def _fill_back(fit: Fit, heaviest_first: list[Job]) -> list[Job]:
    """An irreducible set; all are evicted before and after."""
    victims = put_back_all(fit, heaviest_first)
    _evict_again(fit, heaviest_first, victims)
    return victims


def _evict_again(fit: Fit, jobs: list[Job], victims: list[Job]) -> None:
    gone = dict.fromkeys(job.id for job in victims)
    for job in jobs:
        if job.id not in gone:
            fit.evict(job)


def _improve(
    fit: Fit, candidates: list[Job], weights: Mapping[str, int], limit: int, budget: Budget
) -> tuple[list[Job] | None, bool]:
    """A set lighter than `limit`, if one is found, and whether nothing lighter can exist."""
    if isinstance(fit, OneNeed):
        part = budget.part(budget.left * 3 // 4)
        found, finished = search_parts(fit, candidates, weights, limit, part)
        budget.join(part)
        if finished:
            return found, True
    return search_tree(fit, candidates, weights, limit, budget)


def _runner_up(fit: Fit, heaviest_first: list[Job], victims: list[Job], weights: Mapping[str, int]) -> list[Job]:
    """The lightest of the sets that fill-back finds when one of the heaviest victims is spared."""
    best: list[Job] = []
    for spared in sorted(victims, key=lambda job: weights[job.id], reverse=True)[
        : RUNNER_UP_TRIES if isinstance(fit, OneNeed) else 1
    ]:
        if not fit.put_back(spared):
            continue
        others = _fill_back(fit, [job for job in heaviest_first if job is not spared])
        fit.evict(spared)
        if not best or _weight(others, weights) < _weight(best, weights):
            best = others
    return sorted(best, key=lambda job: (job.seq, job.id))


def _weight(jobs: list[Job], weights: Mapping[str, int]) -> int:
    return sum(weights[job.id] for job in jobs)


def _choice(pool: Pool, rules: PreemptionRules, job: Job) -> VictimChoice:
    return VictimChoice(
        job=job.id,
        attempt=job.attempt,
        priority=job.priority,
        gpus=job.gpus,
        lost_gpu_ms=loss(pool, rules, job),
        reserved=job.phase == "reserved",
    )


def _refusal(asker: Job, request: int, field: Field, budget: Budget, kind: str, would_need: str) -> Answer:
    assert kind in ("impossible", "gave-up")
    return Answer(
        request=request,
        job=asker.id,
        refused="impossible" if kind == "impossible" else "gave-up",
        would_need=would_need[:2000],
        explanation=_explanation(field, budget, proven=kind == "impossible"),
    )


def _explanation(
    field: Field,
    budget: Budget,
    *,
    proven: bool,
    runner_up: tuple[str, ...] = (),
    runner_up_lost_gpu_ms: int = 0,
) -> Explanation:
    return Explanation(
        candidates=len(field.candidates),
        excluded=tuple(
            Excluded(rule=rule, jobs=len(jobs), examples=tuple(job.id for job in jobs[:5]))
            for rule, jobs in sorted(field.excluded.items())
        ),
        steps=budget.used,
        proven=proven,
        runner_up=runner_up,
        runner_up_lost_gpu_ms=runner_up_lost_gpu_ms,
    )
