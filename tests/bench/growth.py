"""How costs grow, as a picture: `python -m tests.bench.growth [NAME …]`.

Measures these curves (all if none is named), writes them to tests/bench/growth.json, and draws docs/pictures/growth.png from that
file. Prints the figures, and by which power of the size the cost grows between the ends of each curve.

Clusters and logs are simulated. The core's costs are of its real code, in processor time, each point in a process of its own.
`restart`, `pools` and `console` are of the real services on a real Kafka.
"""

import argparse
import asyncio
import json
import math
import multiprocessing
import os
import resource
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from statistics import median

from rich.console import Console
from tests.kits.builders import Sketch, group
from tests.kits.console import ConsoleProcess

from bailiff_core.decision_cycle import build_indices
from bailiff_core.fold.snapshot import from_snapshot, to_snapshot
from bailiff_core.model.state import PoolState
from bailiff_core.records import ChainHead
from bailiff_devstack.stack import Plan, Stack
from bailiff_service.gc_tuning import raise_thresholds

from . import console, engine, fold, pools, restart
from .console_log import BusyLog
from .synthetic import POOL, plain_log
from .system import publishing
from .table import Run, percentile

FIGURES, PICTURE = Path(__file__).with_name("growth.json"), Path(__file__).parents[2] / "docs/pictures/growth.png"
NODES = (10, 30, 100, 300, 1_000, 3_000, 10_000, 20_000)
JOBS = (100, 300, 1_000, 3_000, 10_000, 30_000, 100_000, 200_000)
RECORDS = (10_000, 100_000, 1_000_000, 10_000_000)
DECISIONS = 11
CONSOLE_S = 6
MB = 1024  # ru_maxrss is in KiB


@dataclass(frozen=True)
class Curve:
    """What is measured against what. whole: the cost is of all of them, so that n·log n is expected; of one operation: log n."""

    title: str
    against: str
    unit: str
    measure: Callable[[int], float]
    sizes: Sequence[int]
    whole: bool = True


def decision(nodes: int) -> float:
    """Median ms of a decision on a full cluster."""
    state = engine._busy(nodes)
    build_indices(state)
    engine._settle(state)
    seconds = []
    for number in range(len(engine.ASKED) + DECISIONS):
        engine._arrives(state, number)
        began = time.process_time()
        engine._decide_about(state)
        seconds.append(time.process_time() - began)
        engine._victims_leave(state, f"preemptor-{number - engine.STAYS}")
    return median(seconds[len(engine.ASKED) :]) * 1e3


def pool_memory(nodes: int) -> float:
    """MB of a full cluster's state with the indices for deciding."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    state = engine._busy(nodes)
    build_indices(state)
    engine._settle(state)
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / MB


def placements(jobs: int) -> float:
    """Seconds of one pass that places so many one-GPU jobs."""
    sketch = Sketch()
    for number in range(math.ceil(jobs / 8)):
        sketch.node(f"node-{number}")
    for number in range(jobs):
        sketch.job(f"job-{number}", group(gpus=1, cpu=1, gib=1))
    began = time.process_time()
    engine._settle(sketch.state)
    assert all(job.phase == "starting" for job in sketch.state.jobs.values())
    return time.process_time() - began


def folding(records: int) -> float:
    """Seconds to follow the chain of so many records and fold them."""
    state, head, seconds = PoolState(), ChainHead(POOL), 0.0
    log = plain_log(records)
    while wires := list(islice(log, fold.READ_AT_ONCE)):
        began = time.process_time()
        head = fold.fold_batch(state, head, wires)
        seconds += time.process_time() - began
    return seconds


def snapshot_start(nodes: int) -> float:
    """Seconds from a snapshot's bytes to a state that decides."""
    snapshot = to_snapshot(engine._busy(nodes))
    began = time.process_time()
    build_indices(from_snapshot(snapshot))
    return time.process_time() - began


def log_start(records: int) -> float:
    """Seconds until admission is ready on a log of so many records, without a snapshot."""
    with _run(records) as run:
        return restart.measure(run)[0].figure


def idle_pools(number: int) -> float:
    """Percent of a core that the services of so many idle pools use."""
    with _run() as run:
        return pools._idle(run, number).percent


def console_latency(nodes: int) -> float:
    """Median ms from a record's writing to its message at a page, 200 records a second."""
    with _run() as run, closing(Stack(run.folder, Plan(pools=(POOL,)))) as stack:  # no service writes to the log meanwhile
        stack.start_kafka()
        return asyncio.run(_console_latency(stack, nodes))


async def _console_latency(stack: Stack, nodes: int) -> float:
    log, shown = BusyLog(nodes, time.time_ns() // 1000), ConsoleProcess(stack)
    async with publishing(stack.kafka.bootstrap) as producer:
        await console.write(producer, log.fill())
        shown.start()
        await asyncio.to_thread(shown.wait_ready)
        fed = await console._fed(stack, producer, log, shown, 1, CONSOLE_S)
    return percentile(fed.waits, 50) * 1e3


@contextmanager
def _run(records: int = 0) -> Iterator[Run]:
    """A full run with a folder that goes with it."""
    with tempfile.TemporaryDirectory(prefix="bailiff-growth-", ignore_cleanup_errors=True) as folder:
        yield Run(quick=False, folder=Path(folder), records=records, console=Console(quiet=True))


CURVES = {
    "decision": Curve("one decision, full cluster", "nodes", "ms, median", decision, NODES, whole=False),
    "memory": Curve("memory of the pool, full cluster", "nodes", "MB", pool_memory, NODES),
    "snapshot": Curve("start from a snapshot", "nodes", "s", snapshot_start, NODES),
    "pass": Curve("one pass places all jobs", "jobs", "s", placements, JOBS),
    "fold": Curve("chain and fold of a log", "records", "s", folding, RECORDS),
    "restart": Curve("start of admission, no snapshot", "records", "s", log_start, RECORDS[:3]),
    "pools": Curve("idle services", "pools", "% of a core", idle_pools, (1, 10, 100, 1_000)),
    "console": Curve("record to page of the console", "nodes", "ms, median", console_latency, NODES[::2], whole=False),
}


def measured(curve: Curve, size: int) -> float:
    """One point, in a process of its own."""
    context = multiprocessing.get_context("fork")
    receiving, sending = context.Pipe(duplex=False)
    process = context.Process(target=lambda: sending.send(curve.measure(size)))
    process.start()
    sending.close()
    try:
        return float(receiving.recv())
    finally:
        process.join()


def power(sizes: Sequence[int], costs: Sequence[float]) -> float:
    """By which power of the size the cost grows between the ends of the curve."""
    return math.log(max(costs[-1], 1e-9) / max(costs[0], 1e-9)) / math.log(sizes[-1] / sizes[0])


def draw(path: Path, figures: dict[str, dict[str, list[float]]]) -> None:
    """One panel for each curve, both axes logarithmic; dashed: n·log n (of one operation: log n) through the first point."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(2, 4, figsize=(16, 7), layout="constrained")
    measured_curves = {name: curve for name, curve in CURVES.items() if name in figures}
    for panel in panels.flat[len(measured_curves) :]:
        panel.axis("off")
    for panel, (name, curve) in zip(panels.flat, measured_curves.items(), strict=False):
        sizes, costs = [int(size) for size in figures[name]["sizes"]], figures[name]["costs"]
        scale = costs[0] / (math.log(sizes[0] + 1) * (sizes[0] if curve.whole else 1))
        panel.loglog(sizes, costs, marker="o", label="measured")
        allowed = [scale * math.log(size + 1) * (size if curve.whole else 1) for size in sizes]
        panel.loglog(sizes, allowed, linestyle="--", label="n·log n" if curve.whole else "log n")
        panel.set(title=curve.title, xlabel=curve.against, ylabel=curve.unit)
        panel.legend()
        panel.grid(visible=True, which="major", alpha=0.3)
    figure.savefig(path, dpi=70, metadata={"Software": None})


def main() -> None:
    """Measure, print, draw."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.growth", description="Draws how costs grow.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(CURVES)}; all if none is named")
    parser.add_argument("--most", type=int, default=max(RECORDS), help="leave out larger sizes")
    options = parser.parse_args()
    raise_thresholds()
    figures = json.loads(FIGURES.read_text()) if FIGURES.exists() else {}
    for name in options.names or CURVES:
        curve = CURVES[name]
        sizes = [size for size in curve.sizes if size <= options.most]
        costs = [measured(curve, size) for size in sizes]
        load = [round(each, 1) for each in os.getloadavg()]
        figures[name] = {"date": f"{datetime.now(UTC):%Y-%m-%d}", "load": load, "sizes": sizes, "costs": costs}
        points = ", ".join(f"{size:,}: {cost:.3g}" for size, cost in zip(sizes, costs, strict=True))
        print(f"{curve.title} ({curve.unit}) by {curve.against}: {points}; n^{power(sizes, costs):.2f}", flush=True)
        FIGURES.write_text(json.dumps(figures, indent=1) + "\n")
    draw(PICTURE, figures)


if __name__ == "__main__":
    main()
