"""Applies records to the state, closes decision cycles, and drops expired entries."""

from bailiff_core.model.state import PoolState
from bailiff_core.model.undecoded import without_gaps
from bailiff_core.records.decisions import PreemptionDecided, PreemptionRefused, SelectionTimedOut
from bailiff_core.records.payload import Decision, Payload
from bailiff_core.records.wire import Record

from .entitlement_changes import ENTITLEMENT_CHANGES
from .registry import FOLDS

STALE_KEPT = 10_000
SELECTION_ANSWERS = (PreemptionDecided, PreemptionRefused, SelectionTimedOut)
FORGOTTEN_KEPT = 2_000


def apply(state: PoolState, record: Record) -> None:
    """Applies the next record of the log and closes the cycle if the record ends it.

    Raises:
        ValueError: If the seq is not the next; a verified log has no such record.
    """
    fold(state, record)
    if record.cycle_end:
        close_cycle(state)


def fold(state: PoolState, record: Record) -> None:
    """Applies a record without closing the cycle, so that decisions can follow.

    Raises:
        ValueError: As `apply`.
    """
    if record.seq != state.seq + 1:
        raise ValueError(f"{record.pool}#{record.seq} does not follow #{state.seq}")
    state.seq, state.now, state.epoch, state.engine = record.seq, record.time, record.epoch, record.engine
    state.cycle, state.cycle_open = record.cycle, True
    state.indices.actor, state.indices.actor_verified = record.actor, record.actor_verified
    if record.seq == 1:
        state.identity = record.prev
    for position, offset in record.inputs:
        if offset:
            state.inputs[position] = offset
        else:
            state.inputs.pop(position, None)  # a range that is done, and included by a position or another range now
    if record.data is None:
        return
    if record.data.KIND == "fact":
        state.last_fact = record.seq
    _fold_data(state, record.data)


def enact(state: PoolState, decision: Decision) -> None:
    """Applies a decision that `decide` yielded, at the next seq and the time of the cycle's last fact."""
    state.seq += 1
    _fold_data(state, decision)


def _fold_data(state: PoolState, data: Payload) -> None:
    indices, kind = state.indices, type(data)
    retry, indices.retry_unschedulable = indices.retry_unschedulable, False
    FOLDS[kind](state, data)
    if not indices.retry_unschedulable:
        indices.retry_unschedulable = retry
    elif kind not in SELECTION_ANSWERS:  # these let jobs behind the selection be tried again, and free nothing
        state.freed_seq = state.seq
    if kind in ENTITLEMENT_CHANGES:
        state.entitlements_changed = state.seq


def close_cycle(state: PoolState) -> None:
    """Closes the cycle after all its decisions."""
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
    """Drops ended jobs and request ids past their retention, by log time. Dicts are in time order: only heads are checked."""
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
        key, request = next(iter(state.requests.items()))
        if state.now - request.seen_at < retention.request_ids:
            break
        del state.requests[key]
        state.indices.forgotten += 1
    if state.indices.forgotten > FORGOTTEN_KEPT:
        state.indices.forgotten = 0
        state.ended, state.requests = without_gaps(state.ended), without_gaps(state.requests)
