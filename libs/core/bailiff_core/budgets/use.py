"""What each budget has used of this month, added up as its jobs take and give back GPUs: the same figures as accounting's."""

from dataclasses import replace

from bailiff_core.model.gpu_shares import shares_devices
from bailiff_core.model.policy import GpuBudget
from bailiff_core.model.state import BudgetLevel, BudgetUse, Job, PoolState, Task
from bailiff_core.model.work_lost import allocated_gpu_milli

from .months import month_begins, month_of
from .rows import rows_of

GPU_HOUR = 1000 * 3_600_000_000  # thousandths of a GPU × µs
GPU_MS = 1000 * 1000


def note_use(state: PoolState, job: Job, only: Task | None, sign: int) -> None:
    """The job's budgets hold the GPUs of its tasks, or of the one task, from now on (1), or no longer (-1)."""
    # Parts of GPUs are rounded for the job as a whole, as accounting does.
    whole = only is None or any(group.mig_profile is not None or shares_devices(group) for group in job.demand.tasks)
    tasks = job.tasks if whole or only is None else [only]
    gpu_milli = allocated_gpu_milli(state, job, (task for task in tasks if task.state not in ("reserved", "released")))
    if gpu_milli:
        for row in rows_of(state, job):
            use = state.budgets[row.name]
            add_up(use, state.now)
            use.held += sign * gpu_milli


def add_up(use: BudgetUse, now: int) -> None:
    """Adds what was used since `use.since`. A month that begins in between begins with nothing."""
    month = month_of(now)
    if month > use.month:
        use.month, use.since, use.used, use.topped_up, use.transferred = month, max(use.since, month_begins(month)), 0, 0, 0
    use.used += use.held * (now - use.since)
    use.since = now


def use_now(state: PoolState, row: GpuBudget) -> BudgetUse:
    """The budget's use until now."""
    use = replace(state.budgets[row.name])
    add_up(use, state.now)
    return use


def hours_of(row: GpuBudget, use: BudgetUse) -> int:
    """The GPU-hours that the budget has this month, with top-ups and transfers; never less than 0."""
    return max(0, row.gpu_hours + use.topped_up + use.transferred)


def level_of(row: GpuBudget, use: BudgetUse) -> BudgetLevel:
    """How far the budget is used."""
    total = hours_of(row, use) * GPU_HOUR
    if use.used >= total:
        return "exhausted"
    return "warning" if use.used * 100 >= total * row.warn_at else "within"


def next_change(state: PoolState) -> int | None:
    """When time alone changes the level of a budget next, µs; `None`: it does not."""
    found: list[int] = []
    for row in state.rules.budgets:
        use = use_now(state, row)
        found.append(month_begins(use.month + 1))
        if use.held:
            total = hours_of(row, use) * GPU_HOUR
            left = [bound - use.used for bound in (-(-total * row.warn_at // 100), total) if bound > use.used]
            found += [state.now - (-amount // use.held) for amount in left]
    return min(found, default=None)


def begin_again(state: PoolState) -> None:
    """Adds up all use under the policy so far, before another is applied, or the sizes of GPUs change."""
    for use in state.budgets.values():
        add_up(use, state.now)
        use.held = 0


def count_again(state: PoolState, before: tuple[GpuBudget, ...]) -> None:
    """Counts what is held under the policy that was applied. A budget that is new, or of other jobs than before, begins at 0."""
    of_jobs = {row.name: (row.project, row.user, row.priority_class) for row in before}
    kept, now = state.budgets, state.now
    state.budgets = {}
    for row in state.rules.budgets:
        same = row.name in kept and of_jobs.get(row.name) == (row.project, row.user, row.priority_class)
        state.budgets[row.name] = kept[row.name] if same else BudgetUse(now, month_of(now), since=now)
    if state.budgets:
        for job in state.active_jobs():
            note_use(state, job, None, 1)
