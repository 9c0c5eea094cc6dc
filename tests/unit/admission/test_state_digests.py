"""When a state digest is due: by records, by time, and later where it takes long."""

from bailiff_admission.state_digests import StateDigests
from bailiff_core.model.state import PoolState
from bailiff_log.snapshot_file import SnapshotDraft
from bailiff_service.clock_and_ids import ClockAndIds

SECOND = 1_000_000


class Drafts:
    """State digests every hundred records; each takes so long, µs."""

    def __init__(self, takes: int) -> None:
        self.now, self.takes = 0, takes
        self.digests = StateDigests(100, ClockAndIds(boot=lambda: self.now), self._draft)
        self.digests.begin(0, 0)

    def _draft(self) -> SnapshotDraft:
        self.now += self.takes
        return SnapshotDraft(None, PoolState())

    def is_due(self, seq: int, after: int) -> bool:
        self.now += after
        return self.digests.due(PoolState(seq=seq)) is not None


def test_a_digest_is_due_after_so_many_records_or_after_a_minute() -> None:
    drafts = Drafts(takes=0)
    assert not drafts.is_due(99, after=0)
    assert drafts.is_due(100, after=0)
    assert not drafts.is_due(110, after=59 * SECOND)
    assert drafts.is_due(110, after=SECOND)
    assert not drafts.is_due(119, after=3600 * SECOND)


def test_digests_of_a_large_state_take_at_most_a_twentieth_of_the_time() -> None:
    drafts = Drafts(takes=SECOND)
    assert drafts.is_due(100, after=0)
    assert not drafts.is_due(1000, after=18 * SECOND)
    assert drafts.is_due(2000, after=SECOND)
