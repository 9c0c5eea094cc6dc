"""Bounds on what anybody may say about records beyond the end of the log."""

from bailiff_core.model.state import PoolState

MOST_LOST_EPOCHS, MOST_LOST_RECORDS = 1_000_000, 1_000_000_000_000


def is_plausible(state: PoolState, epoch: int, seq: int) -> bool:
    """Whether a log that was truncated here can have had this record. Whoever names another one is wrong or lies.

    Recovery continues in a higher epoch, which must remain within what records can hold.
    """
    return epoch <= state.epoch + MOST_LOST_EPOCHS and seq <= state.seq + MOST_LOST_RECORDS
