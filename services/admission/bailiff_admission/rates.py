"""How fast a user, a project and the pool may send requests, by the broker's append times. Pure.

Each rate is that of a leaky bucket: on average so many per second, and after a pause as many at once as in `BURST`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from bailiff_core.model.policy import Limits

BURST, SECOND = 60_000_000, 1_000_000
MOST_KEYS = 1_000


Kind = Literal["user", "source", "project", "pool"]


@dataclass(frozen=True, slots=True)
class NearestRate:
    """Who of one kind is nearest to a limit of its rates. percent: at 100 the next request is rejected, or waits.

    of: for `source` the name of who sends is a claim. field: the policy's.
    """

    of: Kind
    percent: int
    name: str
    field: str


class Rates:
    """The rates of one writer, of those of one kind. A key is a user's, a source's, a project's, or the pool's."""

    def __init__(self) -> None:
        self._empty_at: dict[tuple[str, str], int] = {}
        self._prune_above = MOST_KEYS

    def __len__(self) -> int:
        return len(self._empty_at)

    def retry_at(self, key: str, limits: Limits, size: int, now: int) -> int | None:
        """From when on one more request of `size` bytes is within the limits; None: it is now."""
        over = [at + cost - BURST for _, at, cost in self._buckets(key, limits, size, now) if at + cost - now > BURST]
        return max(over, default=None)

    def count(self, key: str, limits: Limits, size: int, now: int) -> None:
        """A request is taken."""
        for name, at, cost in list(self._buckets(key, limits, size, now)):
            self._empty_at[key, name] = at + cost
        if len(self._empty_at) > self._prune_above:
            self._empty_at = {each: at for each, at in self._empty_at.items() if at > now}
            self._prune_above = max(MOST_KEYS, 2 * len(self._empty_at))

    def nearest(self, now: int) -> tuple[int, str, str]:
        """How full the fullest bucket is, percent, its key, and the name of its limit; 0 and no names without any.

        At 100 the next request is rejected, or waits.
        """
        full = ((at - now, *key) for key, at in self._empty_at.items() if at > now)
        left, key, name = max(full, default=(0, "", ""))
        return left * 100 // BURST, key, name

    def _buckets(self, key: str, limits: Limits, size: int, now: int) -> Iterator[tuple[str, int, int]]:
        """Name, when it is empty, and the time that the request fills it for. No request is above a bucket's size."""
        for name, amount in (("requests_per_second", 1), ("bytes_per_second", size)):
            rate: int | None = getattr(limits, name)
            if rate is not None:
                yield name, max(self._empty_at.get((key, name), 0), now), min(amount * SECOND // rate, BURST)
