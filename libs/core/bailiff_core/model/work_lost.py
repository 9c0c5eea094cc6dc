"""The work lost when tasks stop: GPUs and time since the last checkpoint (docs/concepts/semantics/victims.md)."""

from collections.abc import Iterable
from fractions import Fraction

from .demand import TaskGroup
from .gpu_shares import devices_of, share_of, shares_devices, units_of
from .mig import mig_gpu_milli
from .state import Job, PoolState, Task


def allocated_gpu_milli(state: PoolState, job: Job, tasks: Iterable[Task]) -> int:
    """Returns the GPUs of the tasks, in thousandths, rounded down."""
    total: int | Fraction = 0
    for task in tasks:
        group = job.group(task.index)
        if group.mig_profile is not None:
            total += mig_gpu_milli(group.mig_profile, state.rules.devices.mig_weights) * devices_of(group)
            continue
        if not shares_devices(group):
            total += group.gpu_milli
            continue
        for device in state.nodes[task.node].devices:
            if task.devices >> device.number & 1:
                total += Fraction(1000 * share_of(group, device), units_of(device))
    return int(total)


def counted_gpu_milli(state: PoolState, job: Job, tasks: Iterable[Task]) -> int:
    """Returns what the objective counts for the tasks, in thousandths of a GPU: their GPUs; of tasks without GPUs, their CPUs.

    `preemption.cpus_per_gpu` CPUs count as one GPU, rounded up per task, and at least one thousandth.
    """
    tasks, cpus_per_gpu = list(tasks), state.rules.preemption.cpus_per_gpu
    on_cpus = sum(max(1, -(-cpu_milli // cpus_per_gpu)) for cpu_milli in _cpus_of_tasks_without_gpus(job, tasks))
    return allocated_gpu_milli(state, job, tasks) + on_cpus


def counted_cpu_milli(job: Job, tasks: Iterable[Task]) -> int:
    """Returns the CPUs, in thousandths, that `counted_gpu_milli` counts as GPUs: those of tasks without GPUs."""
    return sum(_cpus_of_tasks_without_gpus(job, tasks))


def uses_gpus(group: TaskGroup) -> bool:
    """Whether its tasks use whole GPUs, parts of them, or MIG devices."""
    return group.gpu_milli > 0 or group.mig_profile is not None or shares_devices(group)


def _cpus_of_tasks_without_gpus(job: Job, tasks: Iterable[Task]) -> list[int]:
    if all(map(uses_gpus, job.demand.tasks)):
        return []
    groups = (job.group(task.index) for task in tasks)
    return [group.cpu_milli for group in groups if not uses_gpus(group)]


def lost_gpu_ms(state: PoolState, job: Job, gpu_milli: int) -> int:
    """Returns the work lost, GPU-ms, if so much of the job stops: since its last checkpoint or start, plus restart cost.

    gpu_milli: as `counted_gpu_milli` counts it.
    """
    rules = state.rules.preemption
    since = max(job.last_start or 0, job.last_checkpoint or 0)
    lost_time = 0 if job.last_start is None else min(max(0, state.now - since), rules.max_counted_loss)
    return gpu_milli * (lost_time + rules.restart_cost) // 1_000_000
