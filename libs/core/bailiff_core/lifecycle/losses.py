"""What the end of tasks loses."""

from collections.abc import Iterable
from fractions import Fraction

from bailiff_core.model.places import bits
from bailiff_core.model.pool import Job, Pool, Task
from bailiff_core.model.sharing import share_of, shares_devices, units_of


def lost_gpu_ms(pool: Pool, job: Job, tasks: Iterable[Task]) -> int:
    """GPU-ms: GPUs of these members × (time since the job's last start, at most the policy's bound, + restart cost)."""
    rules = pool.rules.preemption
    ran = 0 if job.last_start is None else min(max(0, pool.now - job.last_start), rules.max_counted_loss)
    return int(sum((_gpus(pool, job, task) for task in tasks), Fraction(0)) * (ran + rules.restart_cost) / 1000)


def _gpus(pool: Pool, job: Job, task: Task) -> Fraction:
    group, devices = job.group(task.index), pool.nodes[task.node].devices
    if not shares_devices(group):
        return Fraction(group.gpu_milli // 1000)
    return sum((Fraction(share_of(group, devices[at]), units_of(devices[at])) for at in bits(task.devices)), Fraction(0))
