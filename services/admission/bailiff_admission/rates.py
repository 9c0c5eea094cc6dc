"""How fast a user, a project and the pool may send requests, by the broker's append times. Pure.

Each rate is that of a leaky bucket: on average so many per second, and after a pause as many at once as in `BURST`.
"""

from collections.abc import Iterator

from bailiff_core.model.policy import Limits

BURST, SECOND = 60_000_000, 1_000_000
MOST_KEYS = 1_000


class Rates:
    """The rates of one writer. A key is a user's, a project's, or the pool's."""

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

    def fullest(self, now: int) -> int:
        """How full the fullest bucket is, percent; at 100 its next request is rejected, or waits."""
        return max(((at - now) * 100 // BURST for at in self._empty_at.values() if at > now), default=0)

    def _buckets(self, key: str, limits: Limits, size: int, now: int) -> Iterator[tuple[str, int, int]]:
        """Name, when it is empty, and the time that the request fills it for. No request is above a bucket's size."""
        for name, rate, amount in (("requests", limits.requests_per_second, 1), ("bytes", limits.bytes_per_second, size)):
            if rate is not None:
                yield name, max(self._empty_at.get((key, name), 0), now), min(amount * SECOND // rate, BURST)
