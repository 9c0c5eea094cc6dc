"""Step budget of a search: counted steps instead of wall time, so that every machine gives up at the same point."""

from dataclasses import dataclass


@dataclass(slots=True)
class StepBudget:
    """Steps left and steps used."""

    remaining: int
    used: int = 0

    def spend(self, steps: int = 1) -> bool:
        """Use `steps` and return true; if fewer are left, use none and return false."""
        if steps > self.remaining:
            return False
        self.remaining -= steps
        self.used += steps
        return True

    def charge(self, steps: int) -> None:
        """Count `steps` that were used elsewhere, at most the remaining ones."""
        self.spend(min(steps, self.remaining))

    def part(self, steps: int) -> "StepBudget":
        """A separate budget for a sub-search, at most the remaining steps; call `join` afterwards."""
        return StepBudget(min(steps, self.remaining))

    def join(self, part: "StepBudget") -> None:
        """Count the steps that the sub-search used."""
        self.remaining -= part.used
        self.used += part.used
