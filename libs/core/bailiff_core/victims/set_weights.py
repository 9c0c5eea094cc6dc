"""Weights of victim sets: integers that compare as the objective does."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from .candidates import EvictionStep
from .objective import Fragmentation

MAX_TIE_BROKEN = 2_000  # up to this number of candidates ties are broken by age; above it, sets of equal cost are equal


@dataclass(frozen=True, slots=True)
class SetWeights:
    """Weights of steps without fragmentation, and of one fragmented node, on the same scale."""

    of_step: Mapping[EvictionStep, int]
    per_node: int
    fragmentation: Fragmentation

    @classmethod
    def of_steps(cls, steps: Sequence[EvictionStep], fragmentation: Fragmentation) -> "SetWeights":
        """Weights of sets of these steps; ties are broken if they are few enough."""
        if len(steps) > MAX_TIE_BROKEN:
            return cls({step: step.weight for step in steps}, fragmentation.per_node, fragmentation)
        breakers, scale = tie_breakers(steps)
        weights = {step: step.weight * scale + breaker for step, breaker in breakers.items()}
        return cls(weights, fragmentation.per_node * scale, fragmentation)

    def of(self, steps: Iterable[EvictionStep]) -> int:
        """Weight of the set, fragmentation included."""
        steps = list(steps)
        nodes = self.fragmentation.count([step.uses for step in steps])
        return sum([self.of_step[step] for step in steps]) + self.per_node * nodes


def tie_breakers(steps: Iterable[EvictionStep]) -> tuple[dict[EvictionStep, int], int]:
    """Numbers to add to scaled weights, so that no two sets of these steps are equal; and the scale.

    Ties are broken in favour of fewer steps, then of evicting younger jobs.
    """
    # Give each of the n steps a bit, the youngest the highest: the bits of a set, read as a number, name the set, and of two sets
    # the one with the youngest step in which they differ has the greater number. A step's tie breaker is 2^n minus its bit, so k
    # steps add up to k * 2^n minus the number of their set, which is less than 2^n. Hence fewer steps add up to less, and as many
    # steps to less if they are younger. Example with n = 3, oldest first: 8 - 1, 8 - 2, 8 - 4. The oldest alone: 7; the two
    # youngest: 6 + 4 = 10; the oldest and the youngest: 7 + 4 = 11.
    oldest_first = sorted(dict.fromkeys(steps), key=lambda step: step.age_key, reverse=True)
    above_all_bits = 1 << len(oldest_first)
    breakers = {step: above_all_bits - (1 << rank) for rank, step in enumerate(oldest_first)}
    # All n breakers together are less than n * 2^n: a weight that is greater by 1 counts more than any tie breaker.
    return breakers, (len(oldest_first) + 1) * above_all_bits
