"""The cheapest set that is permitted as a whole, where the cheapest of all is not: it takes too much from a project.

What is permitted depends on what each project loses. So of the sets of a component that gain as many slots and take the same from
the projects, the cheapest is enough. Combinations of them are tried in order of a lower bound of their cost, until one is
permitted and has no victim that is not needed. Where the preemptor would exceed a limit, victims of its own projects may be
needed for that alone: such a set has to give back what is too much, and gains slots or none.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from math import ceil, gcd

from bailiff_core.placement.equivalence_classes import class_of
from bailiff_core.placement.step_budget import StepBudget
from bailiff_core.quota.quota_checks import Excess

from .branch_and_bound import has_unneeded_victim
from .candidates import EvictionChain, EvictionStep
from .fit_oracle import SlotOracle
from .knapsack import MAX_SETS_PER_COMPONENT, SETS_PER_STEP, Component, Freeing, Knapsack, best_of
from .set_weights import tie_breakers
from .slot_combinations import Option
from .trial import Trial

BITS = MAX_SETS_PER_COMPONENT.bit_length()  # more than enough to count the steps that are taken of one sequence
UNBOUNDED = 1 << 62
MOST_SHARES = 64  # of what has to be given back: finer amounts are rounded up

Losses = tuple[int, ...]  # numbers of kinds, ascending: one for each job
Kind = tuple[object, ...]  # all that may matter of the steps of one job
Steps = tuple[EvictionStep, ...]
Least = list[int | None]
Gain = tuple[int, int, int]  # slots, shares of what has to be given back, and the weight


class Limit:
    """What the preemptor's projects have to give back before it is within their limits: of what is too much, the most.

    Attributes:
        wanted: Shares of it.
        chains: The victims that give something back, cheapest first.
    """

    def __init__(self, trial: Trial, excesses: Sequence[Excess], chains: Iterable[EvictionChain]) -> None:
        self._usage, self._excesses = trial.snapshot.usage, excesses
        self._most = min(excesses, key=lambda each: (each.at, -each.amount))  # GPUs before other resources
        self.chains = [chain for chain in chains if any(map(self.concerns, chain))]
        amounts = [self._amount(step, self._most) for chain in self.chains for step in chain]
        most = ceil(self._most.amount)
        self._share = max(gcd(*amounts), -(-most // MOST_SHARES))
        self.wanted = -(-most // self._share)
        self.chains.sort(key=lambda chain: min(map(self._price, chain)))

    def concerns(self, step: EvictionStep) -> bool:
        """Whether it gives anything back."""
        return any(self._amount(step, excess) for excess in self._excesses)

    def given_back(self, step: EvictionStep) -> int:
        """Shares that it gives back."""
        return -(-self._amount(step, self._most) // self._share)

    def lightest(self, steps: Iterable[EvictionStep]) -> list[Gain]:
        """Of the steps that give as much back, the weight of the lightest."""
        found: dict[int, int] = {}
        for step in steps:
            given = self.given_back(step)
            found[given] = min(step.weight, found.get(given, step.weight))
        return [(0, given, weight) for given, weight in found.items()]

    def _price(self, step: EvictionStep) -> tuple[bool, int, tuple[int, str, int]]:
        given = self.given_back(step)
        return not given, step.weight // max(1, given), step.age_key

    def _amount(self, step: EvictionStep, excess: Excess) -> int:
        if excess.project not in self._usage.tree.branches[self._usage.leaf_of(step.job)].path:
            return 0
        return ceil(self._usage.allocated_to(step.unit).amount(excess.at))


@dataclass(slots=True)
class PermittedSet:
    """A set of one component.

    Attributes:
        needed: The fewest slots that are lost without the last step of one of its jobs that no limit concerns.
        given_back: Shares of the limit.
    """

    option: Option
    needed: int
    losses: Losses
    given_back: int = 0


class PermittedSets:
    """The permitted sets of a knapsack's components that have no step that is not needed."""

    def __init__(self, trial: Trial, knapsack: Knapsack, budget: StepBudget, limit: Limit | None) -> None:
        self._trial, self._knapsack, self._limit = trial, knapsack, limit
        self._wanted = 0 if limit is None else limit.wanted
        self._least: Least = []
        self._kinds: dict[Kind, int] = {}
        self._permitted: dict[Losses, bool] = {}
        self._parts = [self._sets_of(part, budget, None) for part in knapsack.parts]

    def least_weight_with(self, others: Sequence[Gain], short: int) -> int | None:
        """A lower bound of sets that gain `short` slots within the limit, some of them elsewhere; `None`: there are none.

        `cheapest` was called before, without a step not to evict.

        Args:
            others: What gains slots or gives back shares there, as often as needed.
        """
        return least_with(others, self._least, short, self._wanted)[-1]

    def cheapest(
        self, short: int, budget: StepBudget, without: EvictionStep | None = None
    ) -> tuple[list[EvictionStep] | None, bool]:
        """The cheapest permitted set that gains `short` slots, or `None`; and whether that is certain."""
        found = self._parts
        if without is not None:
            of_parts = zip(self._knapsack.parts, found, strict=True)
            found = [self._sets_of(part, budget, without) if without.job.id in part.names else sets for part, sets in of_parts]
        known = [sets for sets in found if sets is not None]
        if len(known) < len(found):
            return None, False
        breakers, scale = tie_breakers([step for sets in known for each in sets for step in each.option.steps])
        parts = [
            [(each, each.option.key[0] * scale + sum([breakers[step] for step in each.option.steps])) for each in sets]
            for sets in known
            if sets
        ]
        wanted = self._wanted
        least = _least([[(each.option.gain, each.given_back, weight) for each, weight in sets] for sets in parts], short, wanted)
        if without is None:
            self._least = [None if bound is None else bound // scale for bound in least[0]]
        # Sets so far by the bound of the whole: their weight, the next component, slots gained, shares given back, and by how
        # many the slots may be too many with every step still needed.
        queue: list[tuple[int, int, int, int, int, int, Losses, Steps]] = []
        seen: dict[tuple[int, int, int, Losses], None] = {}

        def add(at: int, gain: int, given: int, needed: int, losses: Losses, weight: int, steps: Steps) -> None:
            rest = least[at][max(0, short - gain) * (wanted + 1) + max(0, wanted - given)]
            if rest is not None and (at, gain, needed, losses) not in seen:
                heappush(queue, (weight + rest, weight, at, gain, given, needed, losses, steps))

        add(0, 0, 0, UNBOUNDED, (), 0, ())
        while queue:
            _, weight, at, gain, given, needed, losses, steps = heappop(queue)
            if (at, gain, needed, losses) in seen:
                continue
            seen[at, gain, needed, losses] = None
            if not budget.spend():
                return None, False
            if gain >= short and given >= wanted:
                if gain - short < needed and not self._trial.rejects([step.unit for step in steps]):
                    certain = self._limit is None or self._trial.reclaim is None or not self._has_unneeded(steps, short)
                    return (list(steps), True) if certain else (None, False)
                if self._limit is None:
                    continue
            if at == len(parts):
                continue
            add(at + 1, gain, given, needed, losses, weight, steps)
            for each, more in parts[at]:
                added, option = tuple(sorted((*losses, *each.losses))), each.option
                if self._permits(added, (*steps, *option.steps)):
                    add(
                        at + 1,
                        gain + option.gain,
                        given + each.given_back,
                        min(needed, each.needed),
                        added,
                        weight + more,
                        (*steps, *option.steps),
                    )
        return None, True

    def _has_unneeded(self, steps: Steps, short: int) -> bool:
        """Whether the preemptor fits within its limits without one of them. A lighter set than the lightest has none."""
        trial, knapsack = self._trial, self._knapsack
        mark = trial.mark()
        for step in steps:
            trial.evict(step.unit)
        oracle = SlotOracle(trial, knapsack.need, knapsack.free + short, knapsack.eligible_nodes)
        found = has_unneeded_victim(oracle, steps)
        trial.rollback(mark)
        return found

    def _sets_of(self, part: Component, budget: StepBudget, without: EvictionStep | None) -> list[PermittedSet] | None:
        """Of the sets that gain as much, are needed alike and take the same, the cheapest; `None`: too many to try."""
        knapsack, fragmentation = self._knapsack, self._knapsack.fragmentation
        place = {node: at for at, node in enumerate(part.nodes)}
        sequences = [
            [(knapsack.increment(steps, place), taken) for steps, taken in zip(sequence, self._taken(sequence), strict=True)]
            for sequence in knapsack.sequences(part, place, without, lambda step: self._kind([step]))
        ]
        freeing = Freeing(knapsack, part.nodes)
        limit = self._limit
        spared: dict[int, None] = {}
        for number, sequence in enumerate(sequences):
            if limit is not None and any(limit.concerns(step) for increment, _ in sequence for step in increment.steps):
                spared[1 << BITS * number] = None  # may be needed for the limit alone
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
            needed = min([option.gain - gains[taken - one] for one in digits if one not in spared], default=UNBOUNDED)
            if needed:
                found.setdefault((option.gain, needed, lost), []).append(option)
        best = [(best_of(options, fragmentation, 0)[0], needed, lost) for (_, needed, lost), options in found.items()]
        return [PermittedSet(*each, 0 if limit is None else sum(map(limit.given_back, each[0].steps))) for each in best]

    def _taken(self, sequence: Sequence[Steps]) -> Iterator[Losses]:
        """What is lost with the first increment of the sequence, with the first two, …"""
        of_job: dict[str, list[EvictionStep]] = {}
        for steps in sequence:
            for step in steps:
                of_job.setdefault(step.job.id, []).append(step)
            yield tuple([self._kind(each) for each in of_job.values() if any(map(self._matters, each))])

    def _matters(self, step: EvictionStep) -> bool:
        """Whether anything depends on what is lost with it."""
        return self._trial.constrains_set or self._limit is None or self._limit.concerns(step)

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


def _least(parts: Sequence[Sequence[Gain]], short: int, wanted: int) -> list[Least]:
    """The least weights in the parts from each one on: at n * (`wanted` + 1) + m that of n slots and m shares."""
    width = wanted + 1
    least: list[Least] = [[0, *[None] * ((short + 1) * width - 1)]]
    for gains in reversed(parts):
        lightest: dict[tuple[int, int], int] = {}
        for gain, given, weight in gains:
            key = min(gain, short), min(given, wanted)
            lightest[key] = min(weight, lightest.get(key, weight))
        rest = least[-1]
        best = list(rest)
        for (gain, given), weight in lightest.items():
            for slots in range(short + 1):
                base = max(0, slots - gain) * width
                for shares in range(width):
                    other = rest[base + max(0, shares - given)]
                    if other is not None:
                        at, other = slots * width + shares, other + weight
                        known = best[at]
                        if known is None or other < known:
                            best[at] = other
        least.append(best)
    return least[::-1]


def least_with(others: Sequence[Gain], own: Least, short: int, wanted: int) -> Least:
    """The least weights, as those of `own`, with at least one of the others, of which each may be taken as often as needed."""
    width = wanted + 1
    found: Least = [None] * len(own)
    for slots in range(short + 1):
        for shares in range(width):
            known: list[int] = []
            for gain, given, weight in others:
                rest = max(0, slots - gain) * width + max(0, shares - given)
                known += [bound + weight for bound in (own[rest], found[rest]) if bound is not None]
            found[slots * width + shares] = min(known, default=None)
    return found
