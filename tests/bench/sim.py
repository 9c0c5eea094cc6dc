"""The simulator on Philly: 82,247 jobs through the real engine, chained and hashed. Processor time of one core."""

import time

from bailiff_core.model.policy import DEFAULT_POLICY
from bailiff_sim.engine import Simulation
from bailiff_sim.traces.catalogue import cluster, trace
from bailiff_sim.workload_builder import Choices, assemble

from .table import Row, Run

CLUSTERS = {"the 2,490 GPUs of its paper": "philly-2017", "160 machines of 8": "160x8"}


def measure(run: Run) -> list[Row]:
    """Without Kafka; loading the trace is measured separately."""
    began = time.process_time()
    source = trace("philly-2017")
    rows = [Row("Philly read (82,247 rows)", time.process_time() - began, "s")]
    for name, text in CLUSTERS.items():
        workload = assemble(source, cluster(text), Choices(first=4_000 if run.quick else None), 0)
        jobs = len(workload.outcomes)
        run.say(f"Philly: {jobs:,} jobs on {name}")
        began = time.process_time()
        result = Simulation(workload, DEFAULT_POLICY).run()
        seconds = time.process_time() - began
        rows.append(
            Row(
                f"Philly simulated, {jobs:,} jobs on {name}",
                seconds,
                "s",
                target="≤ 20 s" if text == "philly-2017" and not run.quick else "-",
                detail={"records": result.records, "cycles": result.cycles, "jobs_per_s": jobs / seconds},
            )
        )
    return rows
