"""How the core's costs grow, as a picture: `python -m tests.bench.growth docs/pictures/growth.png`.

Decisions and memory against nodes, placements against jobs, the fold against the length of the log, and a start from a
snapshot against nodes. Clusters and logs are simulated, the core is the real one. Times are of the processor, each point in
a process of its own. Prints the figures, and by which power of the size the cost grows between the ends of each curve.
"""

import argparse
import json
import math
import multiprocessing
import os
import resource
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from tests.builders import Sketch, group

from bailiff_core.decision_cycle import build_indices
from bailiff_core.fold.snapshot import from_snapshot, to_snapshot
from bailiff_service.gc_tuning import raise_thresholds

from . import engine, fold
from .synthetic import plain_log

NODES, JOBS, RECORDS = (10, 30, 100, 300, 1_000), (100, 300, 1_000, 3_000), (1_000, 3_000, 10_000, 30_000)
DECISIONS = 11
MB = 1024  # ru_maxrss is in KiB


@dataclass(frozen=True)
class Curve:
    """What is measured against what. whole: the cost is of all of them, so that n·log n is
    expected; of one operation: log n.
    """

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
    wires = list(plain_log(records))
    began = time.process_time()
    fold._fold(wires)
    return time.process_time() - began


def start(nodes: int) -> float:
    """Seconds from a snapshot's bytes to a state that decides."""
    snapshot = to_snapshot(engine._busy(nodes))
    began = time.process_time()
    build_indices(from_snapshot(snapshot))
    return time.process_time() - began


CURVES = (
    Curve("one decision, full cluster", "nodes", "ms, median", decision, NODES, whole=False),
    Curve("one pass places all jobs", "jobs", "s", placements, JOBS),
    Curve("chain and fold of a log", "records", "s", folding, RECORDS),
    Curve("start from a snapshot", "nodes", "s", start, NODES),
    Curve("memory of the pool, full cluster", "nodes", "MB", pool_memory, NODES),
)


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


def draw(path: Path, found: Sequence[tuple[Curve, list[float]]]) -> None:
    """One panel for each curve, both axes logarithmic; dashed: n·log n (of one operation: log n) through the first point."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(2, 3, figsize=(12, 6.5), layout="constrained")
    for panel, (curve, costs) in zip(panels.flat, found, strict=False):
        sizes = curve.sizes[: len(costs)]
        scale = costs[0] / (math.log(sizes[0]) * (sizes[0] if curve.whole else 1))
        panel.loglog(sizes, costs, marker="o", label="measured")
        allowed = [scale * math.log(size) * (size if curve.whole else 1) for size in sizes]
        panel.loglog(sizes, allowed, linestyle="--", label="n·log n" if curve.whole else "log n")
        panel.set(title=curve.title, xlabel=f"{curve.against} (simulated)", ylabel=curve.unit)
        panel.legend()
        panel.grid(visible=True, which="major", alpha=0.3)
    for panel in panels.flat[len(found) :]:
        panel.axis("off")
    figure.savefig(path, dpi=80, metadata={"Software": None})


def main() -> None:
    """Measure, print, draw."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.growth", description="Draws how the core's costs grow.")
    parser.add_argument("picture", type=Path)
    parser.add_argument("--json", type=Path, help="write the figures here, too")
    parser.add_argument("--most", type=int, default=max(RECORDS), help="leave out larger sizes")
    options = parser.parse_args()
    raise_thresholds()
    found = []
    for curve in CURVES:
        sizes = [size for size in curve.sizes if size <= options.most]
        costs = [measured(curve, size) for size in sizes]
        found.append((curve, costs))
        points = ", ".join(f"{size:,}: {cost:.3g}" for size, cost in zip(sizes, costs, strict=True))
        print(f"{curve.title} ({curve.unit}) by {curve.against}: {points}; n^{power(sizes, costs):.2f}", flush=True)
    draw(options.picture, found)
    if options.json:
        data = [{"title": curve.title, "unit": curve.unit, "sizes": list(curve.sizes), "costs": costs} for curve, costs in found]
        options.json.write_text(json.dumps({"load": os.getloadavg(), "curves": data}, indent=1))


if __name__ == "__main__":
    main()
