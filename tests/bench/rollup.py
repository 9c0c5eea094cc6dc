"""The roll-up's own work: the log folded, aggregated and stored, without Kafka. Processor time."""

import time
from statistics import median

from bailiff_core.fold import apply
from bailiff_core.model.state import PoolState
from bailiff_core.records import ChainHead, Wire, follow
from bailiff_log.reader import Entry
from bailiff_rollup.aggregates import Aggregates
from bailiff_rollup.aggregators import Aggregator
from bailiff_rollup.message import message
from bailiff_rollup.settings import RollupSettings

from .synthetic import POOL, long_log
from .table import Row, Run

STORED_EVERY = RollupSettings.model_fields["store_records"].default


def measure(run: Run) -> list[Row]:
    """As it catches up; Faust's own share comes on top."""
    run.say("making a log")
    wires = long_log(5_000 if run.quick else 20_000)
    aggregated, folded, size = [], [], 0
    for _ in range(1 if run.quick else 3):
        folded.append(_seconds(wires, None)[0])
        seconds, size = _seconds(wires, Aggregator(Aggregates(), lambda window: None))
        aggregated.append(seconds)
    return [
        Row(
            f"roll-up: a log folded, aggregated and stored ({len(wires):,} records)",
            len(wires) / median(aggregated),
            "records/s",
            target="≥ 3,000 /s",
            baseline=len(wires) / median(folded),
            baseline_is="records/s: fold alone",
            detail={"seconds": aggregated, "seconds_baseline": folded, "stored_bytes": size, "stored_every": STORED_EVERY},
        )
    ]


def _seconds(wires: list[Wire], aggregator: Aggregator | None) -> tuple[float, int]:
    """Processor time, and the size of the stored aggregates at the end."""
    state, head, size = PoolState(), ChainHead(POOL), 0
    if aggregator is not None:
        aggregator.emit = lambda window: message(window, aggregator.aggregates.next_seq).to_json() and None
    began = time.process_time()
    for at, wire in enumerate(wires, 1):
        found = follow(head, wire)
        assert isinstance(found, tuple)
        head, record = found
        apply(state, record)
        if aggregator is not None:
            aggregator.count(state, Entry(record, wire, at, record.time, head.hash))
            if at % STORED_EVERY == 0:
                size = len(aggregator.aggregates.to_bytes())
    return time.process_time() - began, size
