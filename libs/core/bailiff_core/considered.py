"""Everybody that held room when an answer was computed, and what shielded each: the full lists behind an explanation.

Explanations in records count groups and name a few of each; this is made again from the pool as it was then.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .model.answer import Answer
from .model.places import numbers, ranges
from .model.policy import VERBS, Verb
from .model.pool import Pool
from .model.units import Unit
from .records import decisions
from .scene import scene_of
from .victims.candidates import Board, units_that_leave
from .victims.objective import Price, price

Decided = decisions.PreemptionDecided | decisions.PreemptionRefused


@dataclass(frozen=True, slots=True)
class Candidate:
    """One unit of a job that held room when an answer was computed. rule: what shielded it; empty: it could be taken.

    verb: of the several that may have been tried. tasks: which of the job's; empty: the whole job. chosen: it is among
    the victims. lost_gpu_ms: of the whole job.
    """

    verb: str
    job: str
    tasks: str
    class_name: str
    priority: int
    project: str
    gpu_milli: int
    lost_gpu_ms: int
    rule: str
    chosen: bool


def candidates(pool: Pool, decision: Decided, answers: Sequence[Answer]) -> list[Candidate]:
    """Every unit that could have left, and each other one with its rule, for each verb that was tried.

    pool: as it was when the answers were computed; answers: of the same proposal, in their order: what those before took
    is on its way out already.
    """
    verbs: list[Verb] = [tried.verb for tried in decision.explanation.tried]
    return [each for verb in [*verbs, decision.verb] for each in _under(pool, decision, answers, verb)]


def _under(pool: Pool, decision: Decided, answers: Sequence[Answer], verb: Verb) -> list[Candidate]:
    asker = pool.jobs[decision.asker.job]
    taken: dict[str, list[int]] = {}
    for choice in decision.victims if isinstance(decision, decisions.PreemptionDecided) and verb == decision.verb else ():
        taken.setdefault(choice.job, []).extend(numbers(choice.tasks))
    board = Board(scene_of(pool))
    for answer in before(decision, answers, verb):
        for choice in answer.victims:
            gone = dict.fromkeys(numbers(choice.tasks))
            units = [unit for unit in units_that_leave(pool.jobs[choice.job]) if all(index in gone for index in unit.indices)]
            board.taken(pool.jobs[choice.job], len(units) if choice.tasks else 0)
    field = board.field(verb, asker)
    found: list[tuple[Unit, str, Price | None]] = [
        (step.unit, "", step.price) for chain in field.chains.values() for step in chain
    ]
    found += [(unit, rule, None) for rule, units in field.excluded.items() for unit in units]
    listed = [_candidate(pool, verb, unit, rule, price, taken) for unit, rule, price in found]
    return sorted(listed, key=lambda each: (pool.jobs[each.job].seq, each.job, each.tasks))


def before(decision: Decided, answers: Sequence[Answer], verb: Verb) -> list[Answer]:
    """The answers on whose result this one was computed, in order: of verbs before, and of the same verb before in the queue."""
    at = next((at for at, answer in enumerate(answers) if answer.request == decision.request), 0)
    mine = VERBS.index(verb)
    ordered = sorted(enumerate(answers), key=lambda each: (VERBS.index(each[1].verb), each[0]))
    return [answer for place, answer in ordered if (VERBS.index(answer.verb), place) < (mine, at)]


def _candidate(
    pool: Pool, verb: Verb, unit: Unit, rule: str, cost: Price | None, taken: Mapping[str, Sequence[int]]
) -> Candidate:
    job = unit.job
    held = [task for task in job.tasks if task.index in dict.fromkeys(unit.indices)]
    cost = price(pool, job, held, whole=unit.core) if cost is None else cost
    tasks = "" if len(unit.indices) == len(job.tasks) else ranges(unit.indices)
    chosen = job.id in taken and (not taken[job.id] or all(index in taken[job.id] for index in unit.indices))
    return Candidate(
        verb,
        job.id,
        tasks,
        job.class_name,
        job.priority,
        job.project,
        cost.gpu_milli,
        cost.lost_gpu_ms,
        rule,
        chosen and not rule,
    )
