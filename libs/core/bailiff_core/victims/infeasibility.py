"""Reasons for a refusal: what is missing with all permitted victims evicted, and which protected jobs would suffice."""

from collections.abc import Mapping, Sequence

from bailiff_core.humanize import count_text, first_names, gpus_text
from bailiff_core.model.units import Unit
from bailiff_core.placement.cluster_resources import NodeResources
from bailiff_core.placement.gang import NoFit, place_unit
from bailiff_core.placement.step_budget import StepBudget
from bailiff_core.placement.task_requirements import TaskRequirements
from bailiff_core.protections import RULE_NAMED, already_evicting

from .branch_and_bound import reprieve_all, reprieve_order
from .candidates import Candidates, EvictionStep
from .fit_oracle import FitOracle, PlacementOracle, SlotOracle, single_requirement
from .objective import NO_COST
from .trial import Trial

STEPS = 1_000
MAX_JOBS_NAMED = 5
MAX_EXCLUDED = 20_000


def nearest_solution(trial: Trial, candidates: Candidates, *, after_others: bool = False) -> str:
    """What is missing, in one sentence. The snapshot is left changed.

    Args:
        after_others: The snapshot contains decisions for other preemptors of the batch.
    """
    text = _nearest_solution(trial, candidates, after_others=after_others)
    return f"after the decisions for other jobs in this cycle, {text}" if after_others else text


def _nearest_solution(trial: Trial, candidates: Candidates, *, after_others: bool) -> str:
    all_units = [step.unit for step in candidates.steps()]
    for evicted in all_units:
        trial.free(evicted)
    unit = trial.unit
    found = place_unit(trial.cluster, unit, StepBudget(STEPS), reserve=True)
    if not isinstance(found, NoFit):
        for evicted in all_units:
            trial.snapshot.usage.evict(evicted)
        over = trial.over_limit_now()
        if over is not None:
            return f"{over}, whichever jobs are evicted"
        return f"it would fit with {_not_permitted(trial, candidates, all_units)}"
    excluded = _excluded_units(candidates)
    for step in excluded:
        trial.free(step.unit)
    if len(excluded) > MAX_EXCLUDED:
        return f"{found.why}, with all permitted victims evicted"
    oracle = _oracle(trial, limits=False)
    if not oracle.fits():
        refusal = place_unit(trial.cluster, unit, StepBudget(STEPS), reserve=True)
        all_others = "every other job" if after_others else "every job"
        return f"even if {all_others} were evicted: {refusal.why if isinstance(refusal, NoFit) else found.why}"
    needed = _excluded_units_needed(candidates, oracle, excluded)
    return f"{found.why}; with all permitted victims evicted it would still need {needed}"


def _not_permitted(trial: Trial, candidates: Candidates, evicted: Sequence[Unit]) -> str:
    """Which victims make it fit, all of them evicted now, and why they may not be."""
    forbidden = trial.forbids(evicted)
    if forbidden is not None:
        return f"all permitted victims evicted ({count_text(len(candidates.chains), 'job')}), but {forbidden}"
    # What forbids fewer of them may not forbid all, but nobody is evicted who is not needed.
    order = reprieve_order(list(candidates.chains.values()), {step: step.weight for step in candidates.steps()})
    needed = sorted(reprieve_all(_oracle(trial), order), key=lambda step: step.age_key)
    forbidden = trial.forbids([step.unit for step in needed]) or "no permitted set of victims suffices"
    return f"{first_names(list(dict.fromkeys(step.job.id for step in needed)))} evicted, but {forbidden}"


def _oracle(trial: Trial, *, limits: bool = True) -> FitOracle:
    simple = single_requirement(trial.unit)
    return SlotOracle(trial, *simple, limits=limits) if simple else PlacementOracle(trial, StepBudget(STEPS), limits=limits)


def nearest_solution_on(
    trial: Trial, candidates: Candidates, need: TaskRequirements, wanted: int, nodes: dict[NodeResources, int], places: int
) -> str:
    """`nearest_solution` if at most `places` of the `wanted` tasks fit with all permitted victims of the pool evicted.

    The snapshot is left changed.

    Args:
        candidates: Candidates on the `nodes` that lack the fewest GPUs.
    """
    tasks = f"{count_text(wanted, 'task')} of {need}{' each' if wanted > 1 else ''}"
    text = (
        f"needs {tasks}, with all permitted victims evicted "
        f"{f'at most {places}' if places else 'none'} {'fit' if places > 1 else 'fits'}"
    )
    excluded = _excluded_units(candidates)
    for step in (*candidates.steps(), *excluded):
        trial.free(step.unit)
    oracle = SlotOracle(trial, need, wanted, nodes, limits=False)
    return f"{text}; it would still need {_excluded_units_needed(candidates, oracle, excluded)}" if oracle.fits() else text


def _excluded_units_needed(candidates: Candidates, oracle: FitOracle, excluded: list[EvictionStep]) -> str:
    """The protected jobs whose resources would suffice, with the rule that protects each; all of them are evicted."""
    rule_of = {id(unit): rule for rule, units in candidates.excluded.items() for unit in units}
    needed = reprieve_all(oracle, [step for step in excluded if oracle.uses(step)])
    rules: dict[str, str] = {}
    gpus = 0
    for step in sorted(needed, key=lambda step: (step.job.seq, step.job.id)):
        rules.setdefault(step.job.id, rule_of[id(step.unit)])
        gpus += sum(step.job.group(index).gpu_milli for index in step.unit.indices)
    what = f"the resources ({gpus_text(gpus)})" if gpus >= 1000 else "the resources"
    return f"{what} of {_named(rules, ', which')}"


def no_relocation(candidates: Candidates) -> str:
    """Why consolidate has no job to relocate: the jobs that rules exclude."""
    rules = {unit.job.id: rule for rule, units in candidates.excluded.items() for unit in units}
    return f"no job may be relocated: {_named(rules, '')}" if rules else "there is no job to relocate"


def _named(rules: Mapping[str, str], which: str) -> str:
    """Jobs with what the rule that excludes each says of it."""
    named = [f"{name!r}{which} {RULE_NAMED[rules[name]].predicate}" for name in list(rules)[:MAX_JOBS_NAMED]]
    if len(rules) > MAX_JOBS_NAMED:
        named.append(f"{len(rules) - MAX_JOBS_NAMED} more such jobs")
    return "; ".join(named)


def _excluded_units(candidates: Candidates) -> list[EvictionStep]:
    """Steps of protected units, most valuable first; within a job the last step first."""
    steps: list[EvictionStep] = []
    before: dict[str, EvictionStep] = {}
    for rule, units in candidates.excluded.items():
        for unit in units if rule != already_evicting.NAME else ():
            job = unit.job
            step = EvictionStep(job, unit, before.get(job.id), NO_COST, 0, (-job.seq, job.id, len(steps)), unit.core)
            before[job.id] = step
            steps.append(step)
    positions = {step: at for at, step in enumerate(steps)}
    return sorted(steps, key=lambda step: (-step.job.priority, -step.job.gpus, step.job.seq, step.job.id, -positions[step]))
