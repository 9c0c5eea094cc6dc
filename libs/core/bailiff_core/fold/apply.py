"""Apply one record to the state."""

from bailiff_core.model.state import PoolState
from bailiff_core.records.payload import Decision, Payload
from bailiff_core.records.wire import Record

from .entitlement_changes import ENTITLEMENT_CHANGES
from .registry import FOLDS

STALE_KEPT = 10_000
FORGOTTEN_KEPT = 2_000


def apply(state: PoolState, record: Record) -> None:
    """Apply `record`, which must be the next of its log, and close the cycle that it ends.

    Raises `ValueError` for a record that does not follow the state, which a verified log never holds.
    """
    fold(state, record)
    if record.cycle_end:
        close_cycle(state)


def fold(state: PoolState, record: Record) -> None:
    """`apply` without closing the cycle, so that decisions can follow."""
    if record.seq != state.seq + 1:
        raise ValueError(f"{record.pool}#{record.seq} does not follow #{state.seq}")
    state.seq, state.now, state.epoch, state.engine = record.seq, record.time, record.epoch, record.engine
    state.cycle, state.cycle_open = record.cycle, True
    for position, offset in record.inputs:
        state.inputs[position] = offset
    if record.data is None:
        return
    if record.data.KIND == "fact":
        state.last_fact = record.seq
    _enter(state, record.data)


def enact(state: PoolState, decision: Decision) -> None:
    """Apply a decision that `decide` yields: it takes the next seq and the time of the cycle's last fact."""
    state.seq += 1
    _enter(state, decision)


def _enter(state: PoolState, data: Payload) -> None:
    FOLDS[type(data)](state, data)
    if type(data) in ENTITLEMENT_CHANGES:
        state.entitlements_changed = state.seq


def close_cycle(state: PoolState) -> None:
    """Close the cycle: everything that its facts touched has been decided on."""
    state.cycle_open = state.enforcing = False
    state.indices.touched.clear()
    if len(state.indices.changed_jobs) > STALE_KEPT and not state.indices.backfill_blocked:
        state.indices.snapshot = None  # rebuilt when needed
        state.indices.changed_jobs.clear()
        state.indices.changed_nodes.clear()
    if len(state.indices.changed_times) > STALE_KEPT:
        state.indices.timers = None
        state.indices.changed_times.clear()
    if len(state.indices.changed_ends) > STALE_KEPT:
        state.indices.completion_order = None
        state.indices.changed_ends.clear()
    forget(state)


def forget(state: PoolState) -> None:
    """Drop what the policy says is old enough, on log time. Insertion order is time order, so only heads are looked at."""
    if state.policy is None:
        return
    retention = state.policy.retention
    while state.ended:
        name, ended_at = next(iter(state.ended.items()))
        if state.now - ended_at < retention.ended_jobs:
            break
        del state.ended[name], state.jobs[name]
        state.indices.forgotten += 1
    while state.requests:
        key, memo = next(iter(state.requests.items()))
        if state.now - memo.seen_at < retention.request_ids:
            break
        del state.requests[key]
        state.indices.forgotten += 1
    if state.indices.forgotten > FORGOTTEN_KEPT:  # a dict looks for its first key from where its very first one was
        state.indices.forgotten = 0
        state.ended = {name: ended_at for name, ended_at in state.ended.items()}  # noqa: C416 - dict() would keep the gaps
        state.requests = {key: memo for key, memo in state.requests.items()}  # noqa: C416
