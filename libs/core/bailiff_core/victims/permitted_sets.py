"""The cheapest set that is permitted as a whole, where the cheapest of all is not: it takes too much from a project.

What is permitted depends on what each project loses. So of the sets of a component that gain as many slots and take the same from
the projects, the cheapest is enough. Combinations of them are tried in order of a lower bound of their cost, until one is
permitted and has no victim that is not needed.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

from bailiff_core.placement.equivalence_classes import class_of
from bailiff_core.placement.step_budget import StepBudget

from .candidates import EvictionStep
from .knapsack import MAX_SETS_PER_COMPONENT, SETS_PER_STEP, Component, Freeing, Knapsack, best_of
from .set_weights import tie_breakers
from .slot_combinations import Option
from .trial import Trial

BITS = MAX_SETS_PER_COMPONENT.bit_length()  # more than enough to count the steps that are taken of one sequence
UNBOUNDED = 1 << 62

Losses = tuple[int, ...]  # numbers of kinds, ascending: one for each job
Kind = tuple[object, ...]  # all that may matter of the steps of one job
Steps = tuple[EvictionStep, ...]
Least = list[int | None]


@dataclass(slots=True)
class PermittedSet:
    """A set of one component.

    Attributes:
        needed: The fewest slots that are lost without the last step of one of its jobs.
    """

    option: Option
    needed: int
    losses: Losses


class PermittedSets:
    """The permitted sets of a knapsack's components that have no step that is not needed.

    Attributes:
        parts: By component; `None`: too many to try.
    """

    def __init__(self, trial: Trial, knapsack: Knapsack, budget: StepBudget, without: EvictionStep | None = None) -> None:
        self._trial, self._knapsack, self._without = trial, knapsack, without
        self._kinds: dict[Kind, int] = {}
        self._permitted: dict[Losses, bool] = {}
        found = [self._sets_of(part, budget) for part in knapsack.parts]
        self.parts = None if None in found else [sets for sets in found if sets]

    def least_weight(self, short: int) -> int:
        """A lower bound of those that gain `short` slots, permitted together or not."""
        found = self._least_weights(short)[short]
        assert found is not None, "no set gains that many"
        return found

    def _least_weights(self, short: int) -> Least:
        return _least([[(each.option.gain, each.option.key[0]) for each in sets] for sets in self.parts or ()], short)[0]

    def least_weight_with(self, others: Sequence[tuple[int, int]], short: int) -> int | None:
        """A lower bound of sets that gain `short` slots, some of them elsewhere; `None`: there are none.

        Args:
            others: What gains slots there, as often as needed: how many, and the weight.
        """
        own = self._least_weights(short)
        with_others: Least = [None] * (short + 1)
        for wanted in range(1, short + 1):
            for gain, weight in others:
                rest = max(0, wanted - gain)
                known = (bound + weight for bound in (own[rest], with_others[rest]) if bound is not None)
                with_others[wanted] = _lightest(with_others[wanted], *known)
        return with_others[short]

    def cheapest(self, short: int, budget: StepBudget) -> tuple[list[EvictionStep] | None, bool]:
        """The cheapest permitted set that gains `short` slots, or `None`; and whether that is certain."""
        if self.parts is None:
            return None, False
        breakers, scale = tie_breakers([step for sets in self.parts for each in sets for step in each.option.steps])
        parts = [
            [(each, each.option.key[0] * scale + sum([breakers[step] for step in each.option.steps])) for each in sets]
            for sets in self.parts
        ]
        least = _least([[(each.option.gain, weight) for each, weight in sets] for sets in parts], short)
        # Sets so far by the bound of the whole: their weight, the next component, slots gained, and by how many these may be too
        # many with every step still needed.
        queue: list[tuple[int, int, int, int, int, Losses, Steps]] = []
        seen: dict[tuple[int, int, int, Losses], None] = {}

        def add(at: int, gain: int, needed: int, losses: Losses, weight: int, steps: Steps) -> None:
            rest = least[at][max(0, short - gain)]
            if rest is not None and (at, gain, needed, losses) not in seen:
                heappush(queue, (weight + rest, weight, at, gain, needed, losses, steps))

        add(0, 0, UNBOUNDED, (), 0, ())
        while queue:
            _, weight, at, gain, needed, losses, steps = heappop(queue)
            if (at, gain, needed, losses) in seen:
                continue
            seen[at, gain, needed, losses] = None
            if not budget.spend():
                return None, False
            if gain >= short:
                if gain - short < needed and not self._trial.rejects([step.unit for step in steps]):
                    return list(steps), True
                continue
            add(at + 1, gain, needed, losses, weight, steps)
            for each, more in parts[at]:
                added, option = tuple(sorted((*losses, *each.losses))), each.option
                if self._permits(added, (*steps, *option.steps)):
                    add(at + 1, gain + option.gain, min(needed, each.needed), added, weight + more, (*steps, *option.steps))
        return None, True

    def _sets_of(self, part: Component, budget: StepBudget) -> list[PermittedSet] | None:
        """Of the sets that gain as much, are needed alike and take the same from the projects, the cheapest."""
        knapsack, fragmentation = self._knapsack, self._knapsack.fragmentation
        place = {node: at for at, node in enumerate(part.nodes)}
        sequences = [
            [(knapsack.increment(steps, place), taken) for steps, taken in zip(sequence, self._taken(sequence), strict=True)]
            for sequence in knapsack.sequences(part, place, self._without, lambda step: self._kind([step]))
        ]
        freeing = Freeing(knapsack, part.nodes)
        gains = {0: 0}  # by how many steps are taken of each sequence, as digits of one number
        tried: list[tuple[int, tuple[int, ...], Losses, Option]] = []  # with one of each sequence of which steps are taken
        allowed = min(MAX_SETS_PER_COMPONENT, budget.remaining * SETS_PER_STEP)

        def try_sets(at: int, counts: int, digits: tuple[int, ...], weight: int, losses: Losses, steps: Steps) -> bool:
            for number in range(at, len(sequences)):
                mark, one = freeing.mark(), 1 << BITS * number
                gain, taken, total, chosen = gains[counts], counts, weight, steps
                for increment, lost_of_sequence in sequences[number]:
                    lost = tuple(sorted((*losses, *lost_of_sequence)))
                    chosen = (*chosen, *increment.steps)
                    if not self._permits(lost, chosen):
                        break  # nor is any larger set
                    gain += freeing.evict(increment)
                    total += increment.weight
                    taken += one
                    gains[taken] = gain
                    tried.append((taken, (*digits, one), lost, Option(gain, (total, len(chosen), ()), chosen)))
                    if len(tried) > allowed or not try_sets(number + 1, taken, (*digits, one), total, lost, chosen):
                        return False
                freeing.rollback(mark)
            return True

        if not try_sets(0, 0, (), 0, (), ()) or not budget.spend(len(tried) // SETS_PER_STEP):
            return None
        found: dict[tuple[int, int, Losses], list[Option]] = {}
        for taken, digits, lost, option in tried:
            needed = min([option.gain - gains[taken - one] for one in digits])
            if needed:
                found.setdefault((option.gain, needed, lost), []).append(option)
        return [PermittedSet(best_of(options, fragmentation)[0], needed, lost) for (_, needed, lost), options in found.items()]

    def _taken(self, sequence: Sequence[Steps]) -> Iterator[Losses]:
        """What is lost with the first increment of the sequence, with the first two, …"""
        of_job: dict[str, list[EvictionStep]] = {}
        for steps in sequence:
            for step in steps:
                of_job.setdefault(step.job.id, []).append(step)
            yield tuple([self._kind(each) for each in of_job.values()])

    def _kind(self, steps: Sequence[EvictionStep]) -> int:
        """The number of what is lost with these steps of one job."""
        job, usage, tests = steps[0].job, self._trial.snapshot.usage, self._trial.set_tests
        amounts = [usage.allocated_to(step.unit) for step in steps]
        kind = job.project, class_of(job)[-1], job.backfilled, job.id if tests.of_jobs else "", *amounts
        return self._kinds.setdefault(kind, len(self._kinds))

    def _permits(self, losses: Losses, steps: Steps) -> bool:
        """Whether these steps are permitted, with which this is lost, and thus every set with which the same is lost."""
        if losses not in self._permitted:
            self._permitted[losses] = self._trial.allows([step.unit for step in steps])
        return self._permitted[losses]


def _least(parts: Sequence[Sequence[tuple[int, int]]], short: int) -> list[Least]:
    """The least weight of 0, 1, … `short` slots in the parts from each one on; of a part: pairs of slots and weight."""
    least: list[Least] = [[0, *[None] * short]]
    for pairs in reversed(parts):
        rest = least[-1]
        best = list(rest)
        for wanted in range(1, short + 1):
            for gain, weight in pairs:
                other = rest[max(0, wanted - gain)]
                if other is not None:
                    best[wanted] = _lightest(best[wanted], other + weight)
        least.append(best)
    return least[::-1]


def _lightest(*weights: int | None) -> int | None:
    return min((weight for weight in weights if weight is not None), default=None)
