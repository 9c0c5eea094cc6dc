"""What each budget has used of this month, added up as its jobs take and give back GPUs: the same figures as accounting's."""

from dataclasses import replace
from heapq import heappop, heappush

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
            use_to_change(state, row.name).held += sign * gpu_milli


def use_to_change(state: PoolState, name: str) -> BudgetUse:
    """The budget's use, added up until now, for what changes from now on."""
    use = state.budgets[name]
    add_up(use, state.now)
    state.indices.changed_budgets[name] = None
    return use


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


class LevelChanges:
    """When the level of each budget changes, by time alone or at once: looks only at those that have changed since, or are due.

    Attributes:
        by_name: µs, of those that change in this month.
        heap: The same as (µs, name), beside times that are not so any more.
    """

    def __init__(self, state: PoolState) -> None:
        self.budgets, self.month = state.rules.budgets, month_of(state.now)
        self.places = {row.name: at for at, row in enumerate(self.budgets)}
        self.by_name: dict[str, int] = {}
        self.heap: list[tuple[int, str]] = []
        state.indices.changed_budgets = dict.fromkeys(self.places)

    def refresh(self, state: PoolState) -> None:
        """Looks again at the budgets that have changed."""
        changed, state.indices.changed_budgets = state.indices.changed_budgets, {}
        for name in changed:
            self.by_name.pop(name, None)
            time = _changes_at(state, self.budgets[self.places[name]])
            if time is not None:
                self.by_name[name] = time
                heappush(self.heap, (time, name))
        while self.heap and self.by_name.get(self.heap[0][1]) != self.heap[0][0]:
            heappop(self.heap)

    def due(self, state: PoolState) -> list[GpuBudget]:
        """The budgets whose level is another than the recorded one, in the policy's order."""
        if not self.heap or self.heap[0][0] > state.now:
            return []
        return [self.budgets[at] for at in sorted(self.places[name] for name, time in self.by_name.items() if time <= state.now)]


def _changes_at(state: PoolState, row: GpuBudget) -> int | None:
    use = use_now(state, row)
    if level_of(row, use) != use.level:
        return state.now
    total = hours_of(row, use) * GPU_HOUR
    left = [bound - use.used for bound in (-(-total * row.warn_at // 100), total) if bound > use.used]
    return state.now - (-min(left) // use.held) if use.held and left else None


def level_changes(state: PoolState) -> LevelChanges:
    """When the levels of budgets change, as of now."""
    found = state.indices.level_changes
    if not isinstance(found, LevelChanges) or found.budgets is not state.rules.budgets or found.month != month_of(state.now):
        found = state.indices.level_changes = LevelChanges(state)
    found.refresh(state)
    return found


def next_change(state: PoolState) -> int | None:
    """When time alone changes the level of a budget next, µs; `None`: it does not."""
    if not state.rules.budgets:
        return None
    found = level_changes(state)
    begins = month_begins(found.month + 1)
    return min(begins, found.heap[0][0]) if found.heap else begins


def begin_again(state: PoolState) -> None:
    """Adds up all use under the policy so far, before another is applied, or the sizes of GPUs change."""
    for name in state.budgets:
        use_to_change(state, name).held = 0


def count_again(state: PoolState, before: tuple[GpuBudget, ...]) -> None:
    """Counts what is held under the policy that was applied. A budget that is new, or of other jobs than before, begins at 0."""
    of_jobs = {row.name: (row.project, row.user, row.priority_class) for row in before}
    kept, now = state.budgets, state.now
    state.budgets = {}
    for row in state.rules.budgets:
        same = row.name in kept and of_jobs.get(row.name) == (row.project, row.user, row.priority_class)
        state.budgets[row.name] = kept[row.name] if same else BudgetUse(now, month_of(now), since=now)
    state.indices.changed_budgets = dict.fromkeys(state.budgets)
    if state.budgets:
        for job in state.active_jobs():
            note_use(state, job, None, 1)
