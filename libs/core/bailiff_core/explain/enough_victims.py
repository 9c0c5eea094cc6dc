"""From which moment on a pending job may find enough victims, of those that time-based rules protect now."""

from collections.abc import Iterator, Sequence
from itertools import chain
from operator import itemgetter

from bailiff_core.model.policy import Action
from bailiff_core.model.state import Job
from bailiff_core.model.units import Unit
from bailiff_core.placement.gang import NoFit
from bailiff_core.placement.step_budget import StepBudget
from bailiff_core.protections import RULES
from bailiff_core.victims.batch import SelectionBatch
from bailiff_core.victims.candidates import Candidates
from bailiff_core.victims.trial import Trial

STEPS = 1_000
FreeFrom = list[tuple[int, Unit]]


class EnoughVictims:
    """Searches with the candidates of one batch, for any number of jobs."""

    def __init__(self, batch: SelectionBatch) -> None:
        self._batch = batch
        self._free_from: dict[int, FreeFrom] = {}

    def moments(self, unit: Unit, leaving: Sequence[tuple[Action, Candidates]]) -> list[int]:
        """Returns the later moments at which the candidates become more, µs, from when the unit fits with all of them gone.

        What else forbids them, and where moved jobs find a place, only a search says.

        Args:
            leaving: The candidates of the action first, then those that may move beside its victims.
        """
        now, later = self._batch.snapshot.state.now, dict[int, None]()
        earliest: dict[tuple[str, tuple[int, ...]], tuple[int, Unit]] = {}
        for action, candidates in leaving:
            freed = self._freed(unit.job, action, candidates)
            later.update((moment, None) for moment, _ in freed)
            for moment, other in chain(((now, step.unit) for step in candidates.steps()), freed):
                known = earliest.setdefault((other.job.id, other.indices), (moment, other))
                if moment < known[0]:
                    earliest[other.job.id, other.indices] = moment, other
        first = self._first(unit, leaving[0][0], sorted(earliest.values(), key=itemgetter(0)))
        return [moment for moment in sorted(later) if first is not None and moment >= first and moment > now]

    def _freed(self, job: Job, action: Action, candidates: Candidates) -> FreeFrom:
        if id(candidates) not in self._free_from:  # equal preemptors have the same candidates
            self._free_from[id(candidates)] = sorted(self._moments(job, action, candidates), key=itemgetter(0))
        return self._free_from[id(candidates)]

    def _moments(self, job: Job, action: Action, candidates: Candidates) -> Iterator[tuple[int, Unit]]:
        """Units that only time-based rules exclude, and when the last of these ends."""
        state = self._batch.snapshot.state
        tests = [(rule, test) for rule in RULES if (test := rule.shield(state, action, job)) is not None]
        ends = {rule.name: rule.ends(state, action, job) for rule, _ in tests if rule.ends is not None}
        latest: dict[str, int | None] = {}  # by job: a unit is evicted after the ones before it
        for name in ends:
            for unit in candidates.excluded.get(name, ()):
                moment: int | None = latest.get(unit.job.id, state.now)
                for rule, test in tests:
                    if moment is not None and test(unit):
                        end = ends.get(rule.name)
                        until = None if end is None else end(unit.job)
                        moment = None if until is None else max(moment, until)
                latest[unit.job.id] = moment
                if moment is not None:
                    yield moment, unit

    def _first(self, unit: Unit, action: Action, free_from: FreeFrom) -> int | None:
        trial = Trial(self._batch.snapshot, self._batch.shares, unit, action)
        mark = trial.mark()
        try:
            first, last = 0, len(free_from)  # how many of them are needed
            while first < last:
                middle, before = (first + last) // 2, trial.mark()
                for _, other in free_from[first : middle + 1]:
                    trial.evict(other)
                if self._fits(trial):
                    trial.rollback(before)
                    last = middle
                else:
                    first = middle + 1
            return free_from[first][0] if first < len(free_from) else None
        finally:
            trial.rollback(mark)

    def _fits(self, trial: Trial) -> bool:
        """Whether it may fit: a search that gives up proves nothing."""
        if trial.over_limit_now() is not None:
            return False
        found = trial.find_place(StepBudget(STEPS))
        return not (isinstance(found, NoFit) and found.kind == "impossible")
