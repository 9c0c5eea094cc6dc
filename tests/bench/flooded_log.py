"""The log of a small pool that one user floods: its GPUs are full, and all other jobs of many thousand are pending.

What stands in it as decisions was not decided, so it is for reading only.
"""

from collections.abc import Iterator

from bailiff_core.records import Wire
from bailiff_log.snapshot_file import SnapshotDraft

from .console_log import BusyLog

NODES = 2
SECOND = 1_000_000
DIGEST_EVERY = 10_000


class FloodedLog(BusyLog):
    """Wires that chain and fold."""

    def __init__(self, begin: int) -> None:
        super().__init__(NODES, begin, waiting=0)

    def flood(self, jobs: int) -> Iterator[Wire]:
        """So many are submitted, a hundred a second. With the state digests that admission writes."""
        digest_at = self.state.seq
        for number in range(jobs):
            if number % 100 == 0:
                self.now += SECOND
            if self.state.seq - digest_at >= DIGEST_EVERY:
                digest_at = self.state.seq
                yield from self.digest()
            yield from self.waits(user="flood")

    def digest(self) -> Iterator[Wire]:
        """The state's digest, at which readers take their snapshots."""
        yield from self.turn([SnapshotDraft(None, self.state).fact()])


def flooded_log(jobs: int, begin: int) -> Iterator[Wire]:
    """The log of such a pool.

    Args:
        jobs: How many are pending at the end.
        begin: Time of the first record, µs UTC.
    """
    log = FloodedLog(begin)
    yield from log.fill()
    yield from log.flood(jobs)
    yield from log.digest()  # within a minute
