"""The roll-up's own work: the log folded, counted and stored, without Kafka. Processor time."""

import time
from statistics import median

from bailiff_bus.log import Entry
from bailiff_core.fold import apply
from bailiff_core.model.pool import Pool
from bailiff_core.records import ChainHead, Wire, follow
from bailiff_rollup.counting import Counting
from bailiff_rollup.figures import Figures
from bailiff_rollup.message import message
from bailiff_rollup.settings import RollupSettings

from .synthetic import DOMAIN, long_log
from .table import Row, Run

STORED_EVERY = RollupSettings.model_fields["store_records"].default


def measure(run: Run) -> list[Row]:
    """As it catches up; Faust's own share comes on top."""
    run.say("making a log")
    wires = long_log(5_000 if run.quick else 20_000)
    counted, folded, size = [], [], 0
    for _ in range(1 if run.quick else 3):
        folded.append(_seconds(wires, None)[0])
        seconds, size = _seconds(wires, Counting(Figures(), lambda told: None))
        counted.append(seconds)
    return [
        Row(
            f"roll-up: a log folded, counted and stored ({len(wires):,} records)",
            len(wires) / median(counted),
            "records/s",
            target="≥ 3,000 /s",
            baseline=len(wires) / median(folded),
            baseline_is="records/s: fold alone",
            detail={"seconds": counted, "seconds_baseline": folded, "stored_bytes": size, "stored_every": STORED_EVERY},
        )
    ]


def _seconds(wires: list[Wire], counting: Counting | None) -> tuple[float, int]:
    """Processor time, and how large the stored figures are at the end."""
    pool, head, size = Pool(), ChainHead(DOMAIN), 0
    if counting is not None:
        counting.tell = lambda told: message(told, counting.figures.next_seq).to_json() and None
    began = time.process_time()
    for at, wire in enumerate(wires, 1):
        found = follow(head, wire)
        assert isinstance(found, tuple)
        head, record = found
        apply(pool, record)
        if counting is not None:
            counting.count(pool, Entry(record, wire, at, record.time, head.hash))
            if at % STORED_EVERY == 0:
                size = len(counting.figures.to_bytes())
    return time.process_time() - began, size
