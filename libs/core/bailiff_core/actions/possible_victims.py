"""Whether a request for preemption may help a job: cheap tests before victims are searched."""

from bailiff_core.model.policy import Action
from bailiff_core.model.state import Job, PoolState
from bailiff_core.model.units import Unit
from bailiff_core.queue.head import is_schedulable
from bailiff_core.queue.preemption_delay import may_preempt_from
from bailiff_core.quota.quota_checks import Shares
from bailiff_core.scheduling_snapshot import SchedulingSnapshot, current_snapshot
from bailiff_core.victims.batch import PREEMPTING_ACTIONS
from bailiff_core.victims.consolidation import FreeTotals
from bailiff_core.victims.trial import action_not_permitted


def may_request(state: PoolState, job: Job) -> bool:
    """Whether the job may request a preemption now, as far as time decides."""
    return is_schedulable(state, job) and state.now >= job.next_request_at and state.now >= may_preempt_from(state, job)


class PossibleVictims:
    """Whether any job could be a victim, by priority and project: a cheap test before a request is made.

    lowest: the lowest priority of preemptible jobs, by project. exist: whether there is any such job. free_totals: for
    consolidation; `None` where it may not migrate any job.
    """

    def __init__(self, state: PoolState) -> None:
        self.state = state
        self.lowest: dict[str, int] = {}
        for phase, priority, project, preemptible, _ in current_snapshot(state).equivalence_classes.groups:
            if preemptible and phase != "evicting":
                self.lowest[project] = min(priority, self.lowest.get(project, priority))
        self.exist = bool(self.lowest)
        self.free_totals = (
            FreeTotals.of(current_snapshot(state).cluster) if self.exist and state.rules.preemption.max_migrations != 0 else None
        )
        self._lowest_in_pool = min(self.lowest.values(), default=0)
        self._by_group: dict[tuple[int, str, bool], bool] = {}

    def exist_under(self, job: Job, action: Action) -> bool:
        """Whether any job might be a victim for this job under the action."""
        if action == "consolidate":
            return self.free_totals is not None
        if action == "reclaim":
            return bool(self.state.rules.projects) and any(project != job.project for project in self.lowest)
        if not job.may_preempt:
            return False
        if self.state.rules.scope == "pool":
            return self.exist and self._lowest_in_pool < job.priority
        return self.lowest.get(job.project, job.priority) < job.priority

    def exist_for(self, job: Job) -> bool:
        """Whether any action of the policy might help this job. Cached by priority, project and `may_preempt`."""
        group = (job.priority, job.project, job.may_preempt)
        if group not in self._by_group:
            actions = self.state.rules.preemption.actions
            self._by_group[group] = any(action in actions and self.exist_under(job, action) for action in PREEMPTING_ACTIONS)
        return self._by_group[group]


def possible_actions(snapshot: SchedulingSnapshot, shares: Shares, unit: Unit, victims: PossibleVictims) -> tuple[Action, ...]:
    """The actions that may free resources for the unit, as far as is known without a search for victims."""
    possible = [
        action
        for action in PREEMPTING_ACTIONS
        if victims.exist_under(unit.job, action) and action_not_permitted(snapshot, shares, unit, action) is None
    ]
    if victims.free_totals is None or victims.free_totals.missing(unit) is not None:
        possible = [action for action in possible if action != "consolidate"]
    return tuple(possible)
