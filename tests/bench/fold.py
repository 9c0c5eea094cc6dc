"""Reading the log back: verify and fold it, and repeat every decision cycle.

Times are of the processor, so that what else runs on the machine does not count.
"""

import gc
import hashlib
import json
import time
from collections.abc import Sequence
from statistics import median

from bailiff_core.fold import apply
from bailiff_core.model.state import PoolState
from bailiff_core.records import Break, ChainHead, Wire, continues, decode, follow
from bailiff_core.replay import Replay

from .synthetic import POOL, long_log
from .table import Row, Run

READ_AT_ONCE = 500


def measure(run: Run) -> list[Row]:
    """In memory, without Kafka."""
    run.say("making a log")
    wires = long_log(5_000 if run.quick else 20_000)
    folded, plain = [], []
    for _ in range(1 if run.quick else 3):
        plain.append(_timed(_parse_and_hash, wires))
        folded.append(_timed(_fold, wires))
    run.say("deciding it again")
    began = time.process_time()
    replay = _replay(wires)
    seconds = time.process_time() - began
    count = len(wires)
    return [
        Row(
            f"fold of an audit log, chain checked ({count:,} records)",
            count / median(folded),
            "records/s",
            target="≥ 120,000 records/s",
            baseline=count / median(plain),
            baseline_is="records/s: JSON parse + SHA-256 of the same bytes",
            detail={"seconds": folded, "seconds_baseline": plain},
        ),
        Row(
            "replay: decision cycles repeated and compared",
            replay.cycles / seconds,
            "cycles/s",
            baseline=replay.cycles / median(folded),
            baseline_is="cycles/s: fold alone",
            detail={"cycles": replay.cycles, "decisions": replay.decisions, "records_per_s": count / seconds},
        ),
    ]


def _timed(work, wires: list[Wire]) -> float:
    began = time.process_time()
    work(wires)
    return time.process_time() - began


def _parse_and_hash(wires: list[Wire]) -> None:
    for wire in wires:
        json.loads(wire.value)
        digest = hashlib.sha256(wire.value)
        for name, value in wire.headers:
            digest.update(name.encode())
            digest.update(value)
        digest.hexdigest()


def _fold(wires: list[Wire], pool: str = POOL) -> None:
    """What AuditReader and Projection do with records: in batches, the garbage collector off, as at a start."""
    state, head = PoolState(), ChainHead(pool)
    gc.disable()
    for begin in range(0, len(wires), READ_AT_ONCE):
        head = fold_batch(state, head, wires[begin : begin + READ_AT_ONCE])
    gc.enable()


def fold_batch(state: PoolState, head: ChainHead, wires: Sequence[Wire]) -> ChainHead:
    """Check the chain of these records, then apply them. Returns the head after them."""
    records = []
    for wire in wires:
        found = follow(head, wire)
        assert not isinstance(found, Break), found
        head, record = found
        records.append(record)
    for record in records:
        apply(state, record)
    return head


def _replay(wires: list[Wire]) -> Replay:
    replay, head = Replay(), ChainHead(POOL)
    for wire in wires:
        after = continues(head, wire)
        assert not isinstance(after, Break), after
        replay.feed(decode(wire), wire)
        head = after
    assert replay.difference is None, replay.difference
    return replay
