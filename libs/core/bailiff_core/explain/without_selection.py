"""Why a job has no victims that has not asked for any: what forbids each action, and which rules protect the other jobs.

The plan and `bailiff explain` both say it from here.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Literal

from bailiff_core.actions.allocate import scheduling_class_of
from bailiff_core.model.policy import Action
from bailiff_core.model.proposal import AttemptedAction, Proposal
from bailiff_core.model.state import Job, PoolState
from bailiff_core.model.units import Unit, next_unit
from bailiff_core.placement.step_budget import StepBudget
from bailiff_core.protections import RULES
from bailiff_core.queue.preemption_delay import delay_text, may_preempt_from
from bailiff_core.quota.quota_checks import CapAtFairShare
from bailiff_core.records.wire import time_text
from bailiff_core.scheduling_snapshot import current_snapshot
from bailiff_core.victims.batch import PreemptingAction, SelectionBatch, actions_in_use, select_victims
from bailiff_core.victims.candidates import Candidates
from bailiff_core.victims.consolidation import FreeTotals
from bailiff_core.victims.proposals import MAX_NEED_LENGTH, excluded_jobs
from bailiff_core.victims.trial import action_not_permitted, over_limits

from .enough_victims import EnoughVictims
from .not_placed import has_room, waits_until

Ends = Mapping[str, tuple[int, str]]
Moment = int | Literal["never", "unknown"]

MOST_SEARCHES = 200  # for unlike jobs of one state: further ones get no steps
MOST_MOMENTS = 4  # at which a search is played, for jobs alike


class WithoutSelection:
    """Reasons in the state as it is now, for any number of jobs."""

    def __init__(self, state: PoolState) -> None:
        self._state = state
        self._batch: SelectionBatch | None = None
        self._enough: EnoughVictims | None = None
        self._of_job: dict[tuple[str, Action], Candidates] = {}
        self._ends: dict[int, Ends] = {}
        self._searched: dict[tuple[int, str], Proposal] = {}
        self._moments: dict[tuple[int, str], Moment] = {}

    def protected_until(self, job: Job, action: Action) -> Ends:
        """Returns by time-based rule when it ends for the first job that it protects from this one, µs, and which job that is."""
        candidates = self._candidates(job, action)
        if id(candidates) not in self._ends:  # equal preemptors have the same candidates
            self._ends[id(candidates)] = dict(self._first_ends(job, action, candidates))
        return self._ends[id(candidates)]

    def _first_ends(self, job: Job, action: Action, candidates: Candidates) -> Iterator[tuple[str, tuple[int, str]]]:
        state = self._state
        for rule in RULES:
            end = rule.ends(state, action, job) if rule.ends is not None and rule.name in candidates.excluded else None
            if end is not None:
                ends = ((end(unit.job), unit.job.id) for unit in candidates.excluded[rule.name])
                later = [(moment, name) for moment, name in ends if moment is not None and moment > state.now]
                if later:
                    yield rule.name, min(later)

    def not_before(self, job: Job, action: Action) -> Moment:
        """When the job finds victims at the earliest, µs, as time-based rules for other jobs end and nothing else changes."""
        unit = next_unit(job)
        if unit is None:
            return "never"
        candidates = self._candidates(job, action)
        key = id(candidates), scheduling_class_of(self._state, unit)
        if key not in self._moments:
            self._moments[key] = self._first_moment(unit, action, candidates)
        return self._moments[key]

    def _first_moment(self, unit: Unit, action: Action, candidates: Candidates) -> Moment:
        """A search at each moment at which the candidates become more, of those that leave enough room."""
        batch, state = self._started(), self._state
        if action == "consolidate" and FreeTotals.of(batch.snapshot.cluster).missing(unit) is not None:
            return "never"
        if self._search(unit, action, candidates).refused is None:
            return "unknown"  # it waits for no other time than the next cycle
        self._enough = self._enough or EnoughVictims(batch)
        leaving = [(action, candidates)]
        if action != "consolidate":  # who moves beside the victims has the gates of consolidate
            leaving.append(("consolidate", self._candidates(unit.job, "consolidate")))
        moments = self._enough.moments(unit, leaving)
        for moment in moments[:MOST_MOMENTS]:
            with _at(state, moment):
                later = SelectionBatch.on(batch.snapshot, batch.shares)
                found = select_victims(later, unit, action, StepBudget(state.rules.preemption.search_steps))
            if found.refused is None:
                return moment
            if found.refused == "gave-up":
                return "unknown"
        return "unknown" if len(moments) > MOST_MOMENTS else "never"

    def _search(self, unit: Unit, action: Action, candidates: Candidates) -> Proposal:
        key = id(candidates), scheduling_class_of(self._state, unit)
        if key not in self._searched:
            steps = self._state.rules.preemption.search_steps if len(self._searched) < MOST_SEARCHES else 0
            self._searched[key] = select_victims(self._started(), unit, action, StepBudget(steps))
        return self._searched[key]

    def _candidates(self, job: Job, action: Action) -> Candidates:
        if (job.id, action) not in self._of_job:
            self._of_job[job.id, action] = self._started().index.candidates(action, job)
        return self._of_job[job.id, action]

    def _started(self) -> SelectionBatch:
        if self._batch is None:
            self._batch = SelectionBatch.on(current_snapshot(self._state))
        return self._batch

    def actions(self) -> list[PreemptingAction]:
        """Returns the actions with victims that the pool uses, in order."""
        return actions_in_use(self._state.rules)

    def attempts(self, job: Job, *, search: bool = True) -> tuple[AttemptedAction, ...]:
        """Returns what each action of the policy that finds no victims lacks, in order, as victim selection would refuse it.

        Args:
            search: Search where some jobs may be victims; else such an action has no `would_need`.
        """
        unit, actions = next_unit(job), self.actions()
        if unit is None or job.suspended_reason is not None or not actions or has_room(self._state, unit):
            return ()
        attempts = tuple(filter(None, (self._attempt(unit, action, search=search) for action in actions)))
        waits = self._waits(job)
        if waits is not None and (len(attempts) < len(actions) or not all(each.would_need for each in attempts)):
            return (AttemptedAction(action=actions[-1], refused="impossible", would_need=waits),)
        return attempts

    def _waits(self, job: Job) -> str | None:
        """Until when it asks for nobody, as a sentence."""
        allowed_from = may_preempt_from(self._state, job)
        if allowed_from > self._state.now:
            return f"it may preempt from {time_text(allowed_from)} on ({delay_text(self._state, job)})"
        return waits_until(self._state, job)

    def _attempt(self, unit: Unit, action: PreemptingAction, *, search: bool) -> AttemptedAction | None:
        """None where it finds victims."""
        batch = self._started()
        why = action_not_permitted(batch.snapshot, batch.shares, unit, action)
        if why is not None:
            return AttemptedAction(action=action, refused="impossible", would_need=why)
        candidates = self._candidates(unit.job, action)
        tried = AttemptedAction(
            action=action, refused="impossible", candidates=candidates.count, excluded=tuple(excluded_jobs(candidates))
        )
        missing = FreeTotals.of(batch.snapshot.cluster).missing(unit) if action == "consolidate" else None
        if missing is not None:
            return tried.model_copy(update={"would_need": missing})
        if not tried.candidates:  # nobody may go, so that a limit of the preemptor stands
            cap = CapAtFairShare.of(batch.snapshot, batch.shares, unit, action)
            over = over_limits(batch.snapshot, unit, action, cap)
            nobody = "" if tried.excluded else "no other job has resources"
            return tried.model_copy(update={"would_need": over or nobody})
        if not search:
            return tried
        found = self._search(unit, action, candidates)
        if found.refused is None:
            return None
        return tried.model_copy(update={"refused": found.refused, "would_need": found.would_need[:MAX_NEED_LENGTH]})


@contextmanager
def _at(state: PoolState, moment: int) -> Iterator[None]:
    """The same state at a later time."""
    now = state.now
    state.now = moment
    try:
        yield
    finally:
        state.now = now
