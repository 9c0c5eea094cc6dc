"""The node's parked tasks, and those that go on after they were: what a restarted agent must know of them."""

from dataclasses import asdict, dataclass, replace

from .journal import Journal
from .storage import Storage


@dataclass(frozen=True)
class ParkedTask:
    """A task that was parked. key: of the attempt that started it. sha256: its name in the log. bytes: the memory that it holds.

    attempt, ordered_by: the attempt as which it goes on, and the record that ordered that; None: it is parked. from_attempt: the
    one in which it was parked. elapsed_us: how long it took to resume it.
    """

    key: str
    sha256: str
    bytes: int
    from_attempt: int
    attempt: int | None = None
    ordered_by: int | None = None
    elapsed_us: int = 0


class ParkingStore:
    def __init__(self, storage: Storage) -> None:
        self._journal = Journal(storage, "parking")
        self._tasks: dict[str, ParkedTask] = {}
        for entry in self._journal.entries:
            match entry:
                case {"key": _}:
                    self._tasks[entry["key"]] = ParkedTask(**entry)
                case {"ended": str(key)}:
                    self._tasks.pop(key, None)
                case _:
                    raise ValueError(f"parking: unknown entry {entry}")

    def get(self, key: str) -> ParkedTask | None:
        return self._tasks.get(key)

    @property
    def held_bytes(self) -> int:
        """Memory of the tasks that are parked now."""
        return sum(each.bytes for each in self._tasks.values() if each.attempt is None)

    def put(self, task: ParkedTask) -> None:
        """It is parked, or what is known of it has changed."""
        self._journal.add(asdict(task))
        self._tasks[task.key] = task

    def resume(self, key: str, attempt: int, ordered_by: int) -> None:
        """It goes on as this attempt."""
        self.put(replace(self._tasks[key], attempt=attempt, ordered_by=ordered_by, elapsed_us=0))

    def end(self, key: str) -> None:
        if key not in self._tasks:
            return
        self._journal.add({"ended": key})
        del self._tasks[key]
        if len(self._journal) > 100 + 2 * len(self._tasks):
            self._journal.rewrite([asdict(task) for task in self._tasks.values()])
