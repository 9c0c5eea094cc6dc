"""Weights of victim sets: integers that compare as the objective does."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from .candidates import EvictionStep
from .fragmentation import Fragmentation

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
    order = sorted(dict.fromkeys(steps), key=lambda step: step.age_key, reverse=True)  # oldest first
    size = len(order)
    # Of sets of equal size the youngest has the smallest sum, and fewer steps are always less.
    return {step: (1 << size) - (1 << rank) for rank, step in enumerate(order)}, (size + 1) << size
