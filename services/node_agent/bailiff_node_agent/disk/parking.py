"""The node's parked tasks, and those that go on after they were: what a restarted agent must know of them."""

from dataclasses import dataclass, replace

from .journal import JournalOf, Keyed
from .storage import Storage


@dataclass(frozen=True)
class ParkedTask(Keyed):
    """A task that was parked. key: of the attempt that started it. sha256: its name in the log. bytes: the memory that it holds.

    attempt, ordered_by: the attempt as which it goes on, and the record that ordered that; None: it is parked. from_attempt: the
    one in which it was parked. elapsed_us: how long it took to resume it.
    """

    sha256: str
    bytes: int
    from_attempt: int
    attempt: int | None = None
    ordered_by: int | None = None
    elapsed_us: int = 0


class ParkingStore(JournalOf[ParkedTask]):
    def __init__(self, storage: Storage) -> None:
        super().__init__(storage, "parking", ParkedTask)

    @property
    def held_bytes(self) -> int:
        """Memory of the tasks that are parked now."""
        return sum(each.bytes for each in self._values.values() if each.attempt is None)

    def resume(self, key: str, attempt: int, ordered_by: int) -> None:
        """It goes on as this attempt."""
        self.put(replace(self._values[key], attempt=attempt, ordered_by=ordered_by, elapsed_us=0))
