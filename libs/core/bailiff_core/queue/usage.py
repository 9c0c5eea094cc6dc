"""What each project uses, kept up to date and open to trials."""

from collections.abc import Iterable

from bailiff_core.model.pool import Pool
from bailiff_core.model.units import Unit
from bailiff_core.placement.gang import GangPlace


class Usage:
    """Allocated amounts by project: its own jobs' and those of all projects below it."""

    @classmethod
    def of(cls, pool: Pool) -> "Usage":
        """What the pool's jobs use now."""
        raise NotImplementedError

    def refresh(self, pool: Pool, jobs: Iterable[str]) -> None:
        """Count these jobs anew."""
        raise NotImplementedError

    def mark(self) -> int:
        """A point to come back to."""
        raise NotImplementedError

    def rollback(self, mark: int) -> None:
        """Undo everything since `mark`, the last change first."""
        raise NotImplementedError

    def evict(self, unit: Unit) -> None:
        """Its project no longer uses what the unit holds."""
        raise NotImplementedError

    def put_back(self, unit: Unit) -> None:
        """The opposite of `evict`."""
        raise NotImplementedError

    def place(self, unit: Unit, place: GangPlace) -> None:
        """Its project uses what the unit takes at this place."""
        raise NotImplementedError
