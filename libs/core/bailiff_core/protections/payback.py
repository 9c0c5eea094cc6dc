"""`payback`: no job is moved, and none restarts to grow, where that loses more than it wins.

A moved job loses work and restarts, and so does one that cannot grow while it runs; all of it counts as for every eviction. The
preemptor wins its GPUs, for as long as it would wait otherwise. How long that is, nobody knows: the policy assumes
`preemption.payback`. Of a job that grows, its own restart and the moves count together.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from bailiff_core.humanize import cost_text, count_text, duration_text
from bailiff_core.model.policy import Action
from bailiff_core.model.state import Job, PoolState, Task
from bailiff_core.model.units import Unit, allocated_tasks, core_complete, next_unit, restarts_to_grow
from bailiff_core.model.work_lost import NO_LOSS, Loss, counted_gpu_milli, cpus_as_gpu_milli, eviction_loss, won_by_payback
from bailiff_core.quota.demand_vector import of_unit
from bailiff_core.scheduling_snapshot import current_usage

from .rule import JobsShield, Rule, SetTest, Shield

NAME = "payback"


@dataclass(frozen=True, slots=True)
class Growth:
    """What a restart to grow wins within the policy's `preemption.payback`, and what it loses.

    Attributes:
        tasks: How many join.
        won: By them, GPU-ms; None: no bound, as the policy sets no time, or the job cannot go on without them.
        own: Lost by the job's own restart.
        within: The policy's time, µs.
        others: Lost by the victims of the decision.
    """

    tasks: int
    won: int | None
    own: Loss
    within: int
    others: Loss = NO_LOSS

    @property
    def pays(self) -> bool:
        """Whether it wins more than its own restart loses. Of the victims, the rule bounds what those lose that are moved."""
        return self.won is None or self.won > sum(self.own)

    def __str__(self) -> str:
        gain = "" if self.won is None else f"{cost_text(self.won)} in {duration_text(self.within)} for "
        victims = f", and of {self.others} of its victims" if sum(self.others) else ""
        return f"{gain}a loss of {self.own}{victims}"


def growth_by(state: PoolState, job: Job, joining: Iterable[Task]) -> Growth:
    """What it means to restart the running job with these placed tasks besides."""
    joining = list(joining)
    return _growth(state, job, len(joining), counted_gpu_milli(state, job, joining))


def growth_with(state: PoolState, unit: Unit) -> Growth:
    """What it means to restart the running job with this unit, which has no place yet, and what is reserved for it already."""
    reserved = [task for task in unit.job.tasks if task.state == "reserved"]
    gpu_milli = counted_gpu_milli(state, unit.job, reserved) + _gpu_milli(state, unit)
    return _growth(state, unit.job, len(reserved) + len(unit.indices), gpu_milli)


def _growth(state: PoolState, job: Job, tasks: int, gpu_milli: int) -> Growth:
    running = [task for task in allocated_tasks(job) if task.state != "reserved"]
    won = won_by_payback(state, gpu_milli) if core_complete(job, running) else None
    own = eviction_loss(state, job, allocated_tasks(job), whole=True, moved=True)
    return Growth(tasks, won, own, state.rules.preemption.payback or 0)


def too_dear_to_grow(growth: Growth) -> str:
    """Why the job does not grow, as a sentence."""
    tasks = f"{count_text(growth.tasks, 'task')} more"
    return f"it does not restart to grow: {tasks} would win only {growth} (policy field preemption.payback)"


def why_not_grow(state: PoolState, unit: Unit) -> str | None:
    """Why nobody is evicted for this unit of a running job, as a sentence; None: it need not restart for it, or that pays."""
    if not restarts_to_grow(state, unit.job):
        return None
    growth = growth_with(state, unit)
    return None if growth.pays else too_dear_to_grow(growth)


def gained_gpu_ms(state: PoolState, action: Action, preemptor: Job) -> int | None:
    """What moves under the action may lose at most: what the preemptor gains, GPU-ms. `None`: there is no bound.

    Of a job that restarts to grow, less than it gains, of which its restart is taken, as far as what is reserved for it already
    does not pay for that.
    """
    unit = next_unit(preemptor) if action == "consolidate" else None
    won = won_by_payback(state, _gpu_milli(state, unit)) if unit is not None else None
    if unit is None or won is None or not restarts_to_grow(state, preemptor):
        return won
    growth = growth_with(state, unit)
    return won if growth.won is None else min(won, growth.won - sum(growth.own)) - 1


def _gpu_milli(state: PoolState, unit: Unit) -> int:
    """What the unit wins on any device that it accepts: of a request in bytes, its part of the largest one."""
    started = [Task(index, 0, 0, "running") for index in unit.indices]
    return int(of_unit(unit, current_usage(state).largest).gpu_milli) + cpus_as_gpu_milli(state, unit.job, started)


def shield(state: PoolState, action: Action, preemptor: Job) -> Shield | None:
    """Under consolidate, units that lose more alone than the preemptor gains."""
    gained = gained_gpu_ms(state, action, preemptor)
    if gained is None:
        return None
    return JobsShield(lambda unit: sum(_loss_of(state, (unit,))) > gained, lambda: state.active)


def set_test(state: PoolState, action: Action, preemptor: Job, earlier: Sequence[Unit]) -> SetTest | None:  # noqa: ARG001
    """Test for units that together lose more than the preemptor gains."""
    gained = gained_gpu_ms(state, action, preemptor)
    if gained is None:
        return None

    def violation(moved: Sequence[Unit]) -> str | None:
        lost = _loss_of(state, moved)
        if sum(lost) <= gained:
            return None
        besides = " besides its own restart" if restarts_to_grow(state, preemptor) else ""
        return f"moving them loses {lost}, more than the {cost_text(max(0, gained))} that it gains{besides}"

    return violation


def _loss_of(state: PoolState, units: Sequence[Unit]) -> Loss:
    """What the jobs of these units lose together. A job that restarts to shrink restarts once, however many units it loses."""
    indices: dict[str, dict[int, None]] = {}
    whole: dict[str, None] = {}
    jobs: dict[str, Job] = {}
    for unit in units:
        jobs[unit.job.id] = unit.job
        indices.setdefault(unit.job.id, {}).update(dict.fromkeys(unit.indices))
        if unit.core:
            whole[unit.job.id] = None
    total = NO_LOSS
    for name, job in jobs.items():
        total = total.plus(eviction_loss(state, job, _tasks_of(job, indices[name]), whole=name in whole, moved=True))
    return total


def _tasks_of(job: Job, indices: Mapping[int, None]) -> list[Task]:
    return [task for task in job.tasks if task.index in indices]


PROTECTION = Rule(
    150, NAME, shield, "would lose more than the job gains for which it would move", set_test=set_test, field="preemption.payback"
)
