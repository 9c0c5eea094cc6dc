"""Reasons for a refusal: what is missing with all permitted victims evicted, and which protected jobs would suffice."""

from bailiff_core.humanize import count_text, gpus_text
from bailiff_core.model.units import Unit
from bailiff_core.placement.cluster_resources import NodeResources
from bailiff_core.placement.gang import NoFit, place_unit
from bailiff_core.placement.step_budget import StepBudget
from bailiff_core.placement.task_requirements import TaskRequirements
from bailiff_core.protections import RULES, already_evicting
from bailiff_core.scheduling_snapshot import SchedulingSnapshot

from .branch_and_bound import reprieve_all
from .candidates import Candidates, EvictionStep
from .constraints import Constraints
from .fit_oracle import FitOracle, PlacementOracle, SlotOracle, single_requirement
from .objective import NO_COST

STEPS = 1_000
MAX_JOBS_NAMED = 5
MAX_EXCLUDED = 20_000


def nearest_solution(
    snapshot: SchedulingSnapshot, unit: Unit, candidates: Candidates, constraints: Constraints, *, after_others: bool = False
) -> str:
    """One sentence. The snapshot is left changed. after_others: it contains decisions for other preemptors of the batch."""
    text = _nearest_solution(snapshot, unit, candidates, constraints, after_others=after_others)
    return f"after the decisions for other jobs in this cycle, {text}" if after_others else text


def _nearest_solution(
    snapshot: SchedulingSnapshot, unit: Unit, candidates: Candidates, constraints: Constraints, *, after_others: bool
) -> str:
    for step in candidates.steps():
        snapshot.evict(step.unit)
    found = place_unit(snapshot.cluster, unit, StepBudget(STEPS), reserve=True)
    if not isinstance(found, NoFit):
        over = constraints.over_limit_now()
        if over is not None:
            return f"{over}, whichever jobs are evicted"
        all_units = [step.unit for step in candidates.steps()]
        forbidden = constraints.violation(all_units) or constraints.imbalance(all_units) or "they may not all be evicted"
        return f"it would fit with all permitted victims evicted ({count_text(len(candidates.chains), 'job')}), but {forbidden}"
    excluded = _excluded_units(candidates)
    for step in excluded:
        snapshot.cluster.evict(step.unit)
    if len(excluded) > MAX_EXCLUDED:
        return f"{found.why}, with all permitted victims evicted"
    simple = single_requirement(unit)
    oracle: FitOracle = (
        SlotOracle(snapshot.cluster, *simple) if simple else PlacementOracle(snapshot.cluster, unit, StepBudget(STEPS))
    )
    if not oracle.fits():
        refusal = place_unit(snapshot.cluster, unit, StepBudget(STEPS), reserve=True)
        all_others = "every other job" if after_others else "every job"
        return f"even if {all_others} were evicted: {refusal.why if isinstance(refusal, NoFit) else found.why}"
    needed = _excluded_units_needed(candidates, oracle, excluded)
    return f"{found.why}; with all permitted victims evicted it would still need {needed}"


def nearest_solution_on(
    snapshot: SchedulingSnapshot,
    candidates: Candidates,
    need: TaskRequirements,
    wanted: int,
    nodes: dict[NodeResources, int],
    places: int,
) -> str:
    """`nearest_solution` if at most `places` of the `wanted` tasks fit with all permitted victims of the pool evicted.

    candidates: candidates on the `nodes` that lack the fewest GPUs. The snapshot is left changed.
    """
    tasks = f"{count_text(wanted, 'task')} of {need}{' each' if wanted > 1 else ''}"
    text = (
        f"needs {tasks}, with all permitted victims evicted "
        f"{f'at most {places}' if places else 'none'} {'fit' if places > 1 else 'fits'}"
    )
    excluded = _excluded_units(candidates)
    for step in (*candidates.steps(), *excluded):
        snapshot.cluster.evict(step.unit)
    oracle = SlotOracle(snapshot.cluster, need, wanted, nodes)
    return f"{text}; it would still need {_excluded_units_needed(candidates, oracle, excluded)}" if oracle.fits() else text


def _excluded_units_needed(candidates: Candidates, oracle: FitOracle, excluded: list[EvictionStep]) -> str:
    """The protected jobs whose resources would suffice, with the rule that protects each; all of them are evicted."""
    rule_of = {id(unit): rule for rule, units in candidates.excluded.items() for unit in units}
    needed = reprieve_all(oracle, [step for step in excluded if oracle.uses(step)])
    predicates = {rule.name: rule.predicate for rule in RULES}
    rules: dict[str, str] = {}
    gpus = 0
    for step in sorted(needed, key=lambda step: (step.job.seq, step.job.id)):
        rules.setdefault(step.job.id, rule_of[id(step.unit)])
        gpus += sum(step.job.group(index).gpu_milli for index in step.unit.indices)
    named = [f"{name!r}, which {predicates[rules[name]]}" for name in list(rules)[:MAX_JOBS_NAMED]]
    if len(rules) > MAX_JOBS_NAMED:
        named.append(f"{len(rules) - MAX_JOBS_NAMED} more such jobs")
    what = f"the resources ({gpus_text(gpus)})" if gpus >= 1000 else "the resources"
    return f"{what} of {'; '.join(named)}"


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
