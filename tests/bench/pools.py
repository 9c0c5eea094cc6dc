"""Many idle pools on one set of services: how long they take to start, what they use, and the memory of a pool more.

Each pool is a partition of the audit log; one node of the first pool has joined.
"""

import time

from bailiff_devstack.stack import SERVICES, Plan, Stack

from .system import cpu_seconds, spent
from .table import Row, Run
from .weight import pss

POOLS = 500
STARTS_WITHIN_S = 400.0
IDLE_S = 30


def measure(run: Run) -> list[Row]:
    """Admission, victim selection, executor and node agent, with one pool and with many."""
    count = 10 if run.quick else POOLS
    one, many = (_idle(run, pools) for pools in (1, count))
    what = f"{count} idle pools on one set of services"
    per_pool = (many.mib - one.mib) / (count - 1)
    kafka = f"%: one pool; Kafka: {many.kafka:.1f} %"
    return [
        Row(f"{what}: until all services are ready", many.ready_s, "s", "≤ 60 s for 500", one.ready_s, "s: one pool"),
        Row(f"{what}: processor time until then", many.start_cpu_s, "s", baseline=one.start_cpu_s, baseline_is="s: one pool"),
        Row(f"{what}: all services", many.percent, "% of a core", "≤ 5 % for 500", one.percent, kafka),
        Row(f"{what}: memory (PSS) of a pool more", per_pool, "MiB", "≤ 1 MB", detail={"services_mib": many.mib}),
    ]


class _Idle:
    """What idle services use. start_cpu_s: of the processor until ready, Kafka's part in it. percent, kafka: of a core.

    mib: PSS of all services.
    """

    def __init__(self, ready_s: float, start_cpu_s: float, used: dict[str, float], mib: float) -> None:
        self.ready_s, self.start_cpu_s, self.mib = ready_s, start_cpu_s, mib
        self.kafka = 100 * used.pop("kafka") / IDLE_S
        self.percent = 100 * sum(used.values()) / IDLE_S


def _idle(run: Run, pools: int) -> _Idle:
    run.say(f"{pools} pools")
    names = [f"pool-{number}" for number in range(pools)]
    nodes = [{"name": "node", "pool": names[0], "gpus": "8xH100-80GB"}]
    stack = Stack(run.folder / f"pools-{pools}", Plan(pools=names, nodes=nodes))
    try:
        (stack.folder / "state").mkdir(parents=True)
        stack.start_kafka()
        began, kafka = time.monotonic(), cpu_seconds(stack)
        for name in SERVICES:
            stack.start_service(name)
        stack.processes.wait_ready(*SERVICES, timeout_s=STARTS_WITHIN_S)
        ready_s, start = time.monotonic() - began, spent(kafka, cpu_seconds(stack))
        run.say(f"ready after {ready_s:.1f} s; idle for {IDLE_S} s")
        time.sleep(IDLE_S / 3)
        before = cpu_seconds(stack)
        time.sleep(IDLE_S)
        used = spent(before, cpu_seconds(stack))
        return _Idle(ready_s, sum(start.values()), used, sum(pss(stack.processes.pid(name)) for name in SERVICES) / 1024)
    finally:
        stack.close()
