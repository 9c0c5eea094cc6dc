"""Fold one record into the pool."""

from bailiff_core.model.pool import Pool
from bailiff_core.records.payload import Decision, Payload
from bailiff_core.records.wire import Record

from .register import FOLDS
from .stirs import STIRS

STALE_KEPT = 10_000
FORGOTTEN_KEPT = 2_000


def apply(pool: Pool, record: Record) -> None:
    """Change `pool` to what it is after `record`, which must be the next of its log, and close the turn it ends.

    Raises `ValueError` for a record that does not follow the state, which a verified log never holds.
    """
    fold(pool, record)
    if record.turn_end:
        close_turn(pool)


def fold(pool: Pool, record: Record) -> None:
    """`apply`, with the turn left open, so that it can be decided on."""
    if record.seq != pool.seq + 1:
        raise ValueError(f"{record.domain}#{record.seq} does not follow #{pool.seq}")
    pool.seq, pool.now, pool.epoch, pool.engine = record.seq, record.time, record.epoch, record.engine
    pool.turn, pool.turn_open = record.turn, True
    for position, offset in record.inputs:
        pool.inputs[position] = offset
    if record.data is None:
        return
    if record.data.KIND == "fact":
        pool.last_fact = record.seq
    _enter(pool, record.data)


def enact(pool: Pool, decision: Decision) -> None:
    """Fold what `decide` has just yielded; it takes the next seq and the time of the turn's last fact."""
    pool.seq += 1
    _enter(pool, decision)


def _enter(pool: Pool, data: Payload) -> None:
    FOLDS[type(data)](pool, data)
    if type(data) in STIRS:
        pool.stirred = pool.seq


def close_turn(pool: Pool) -> None:
    """The turn is over: everything that its facts touched has been decided on."""
    pool.turn_open = pool.enforcing = False
    pool.touched.clear()
    if len(pool.stale_jobs) > STALE_KEPT and not pool.passed_over:  # nobody asks, as where nothing is decided
        pool.scene = None  # it starts anew when somebody does
        pool.stale_jobs.clear()
        pool.stale_nodes.clear()
    if len(pool.stale_times) > STALE_KEPT:
        pool.agenda = None
        pool.stale_times.clear()
    forget(pool)


def forget(pool: Pool) -> None:
    """Drop what the policy says is old enough, on log time. Insertion order is time order, so only heads are looked at."""
    if pool.policy is None:
        return
    retention = pool.policy.retention
    while pool.ended:
        name, ended_at = next(iter(pool.ended.items()))
        if pool.now - ended_at < retention.ended_jobs:
            break
        del pool.ended[name], pool.jobs[name]
        pool.forgotten += 1
    while pool.requests:
        key, memo = next(iter(pool.requests.items()))
        if pool.now - memo.seen_at < retention.request_ids:
            break
        del pool.requests[key]
        pool.forgotten += 1
    if pool.forgotten > FORGOTTEN_KEPT:  # a dict looks for its first key from where its very first one was
        pool.forgotten = 0
        pool.ended = {name: ended_at for name, ended_at in pool.ended.items()}  # noqa: C416 - dict() would keep the gaps
        pool.requests = {key: memo for key, memo in pool.requests.items()}  # noqa: C416
