"""Search is bounded by counted steps, never by seconds: every machine gives up at the same point."""

from dataclasses import dataclass


@dataclass(slots=True)
class Budget:
    """So many steps may still be taken."""

    left: int
    used: int = 0

    def spend(self, steps: int = 1) -> bool:
        """Take `steps`; false, and nothing taken, when there are not so many left."""
        if steps > self.left:
            return False
        self.left -= steps
        self.used += steps
        return True

    def charge(self, steps: int) -> None:
        """Take `steps` that have been used already: all that is left, where there are not so many."""
        self.spend(min(steps, self.left))

    def part(self, steps: int) -> "Budget":
        """A budget of its own for one sub-search, at most what is left here; `join` it afterwards."""
        return Budget(min(steps, self.left))

    def join(self, part: "Budget") -> None:
        """Count what the sub-search used."""
        self.left -= part.used
        self.used += part.used
