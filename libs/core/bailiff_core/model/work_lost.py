"""The work lost when tasks stop: GPUs and time since the last checkpoint (docs/concepts/semantics/victims.md)."""

from collections.abc import Iterable
from fractions import Fraction

from .gpu_shares import share_of, shares_devices, units_of
from .state import Job, PoolState, Task


def allocated_gpu_milli(state: PoolState, job: Job, tasks: Iterable[Task]) -> int:
    """Returns the GPUs of the tasks, in thousandths, rounded down."""
    groups = job.groups()
    total: int | Fraction = 0
    for task in tasks:
        group = groups[task.index]
        if not shares_devices(group):
            total += group.gpu_milli
            continue
        for device in state.nodes[task.node].devices:
            if task.devices >> device.number & 1:
                total += Fraction(1000 * share_of(group, device), units_of(device))
    return int(total)


def lost_gpu_ms(state: PoolState, job: Job, gpu_milli: int) -> int:
    """Returns the work lost if `gpu_milli` of the job stop, GPU-ms: since its last checkpoint or start, plus restart cost."""
    rules = state.rules.preemption
    since = max(job.last_start or 0, job.last_checkpoint or 0)
    lost_time = 0 if job.last_start is None else min(max(0, state.now - since), rules.max_counted_loss)
    return gpu_milli * (lost_time + rules.restart_cost) // 1_000_000
