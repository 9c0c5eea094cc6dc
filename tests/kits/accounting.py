"""What a log says about GPU-hours, computed another way than `accounting_rows`: from the nodes, by small steps of time."""

from collections.abc import Sequence
from fractions import Fraction

from bailiff_core.fold import apply
from bailiff_core.model.gpu_shares import units_of
from bailiff_core.model.placement_ranges import bits
from bailiff_core.model.state import Job, PoolState
from bailiff_core.records import Wire, decode
from bailiff_core.records.decisions import JobRequeued, JobShrunk
from bailiff_core.records.facts import TaskRestoreFailed, TaskStarted


def gpus_on_nodes(state: PoolState) -> int:
    """Thousandths of GPUs that the nodes say are allocated. No MIG devices, no requests in bytes."""
    total = Fraction()
    for node in state.nodes.values():
        total += 1000 * node.allocated.devices.bit_count()
        total += sum(Fraction(1000 * units, units_of(node.devices[at])) for at, units in node.allocated.shares.items())
    return int(total)


def used_by(state: PoolState, job: Job) -> int:
    """Thousandths of GPUs on which tasks of the job are, device by device."""
    total = 0
    for task in job.tasks:
        if task.state in ("starting", "running", "exited"):
            group, devices = job.groups()[task.index], len(list(bits(task.devices)))
            total += devices * (group.gpu_share_milli or 1000)
    return total


def models_on_nodes(state: PoolState, job: Job) -> dict[str, int]:
    """The same by model."""
    total: dict[str, int] = {}
    for task in job.tasks:
        if task.state in ("starting", "running", "exited"):
            share = job.groups()[task.index].gpu_share_milli or 1000
            for device in state.nodes[task.node].devices:
                if task.devices >> device.number & 1:
                    total[device.model] = total.get(device.model, 0) + share
    return total


def waited_for_by(job: Job) -> int:
    """Thousandths of GPUs that the job requests while it has none."""
    if job.phase not in ("pending", "reserved") or any(task.state in ("starting", "running", "exited") for task in job.tasks):
        return 0
    return sum(
        group.gpu_milli if group.gpu_share_milli is None else group.gpu_share_milli * (group.gpu_devices or 1)
        for group in job.groups()
    )


def summed(wires: Sequence[Wire], begin: int, end: int) -> dict[tuple[str, int], dict[str, int]]:
    """GPU-milli-µs of each submission in the window, step by step from record to record, without what is borrowed."""
    found: dict[tuple[str, int], dict[str, int]] = {}
    state, before = PoolState(), 0
    for record in [*map(decode, wires), None]:
        now = record.time if record is not None else end
        lasted = max(0, min(now, end) - max(before, begin))
        for job in state.jobs.values() if lasted else ():
            sums = found.setdefault((job.id, job.seq), {"used": 0, "waiting": 0, "lost": 0})
            sums["used"] += used_by(state, job) * lasted
            sums["waiting"] += waited_for_by(job) * lasted
        if record is None:
            break
        apply(state, record)
        if isinstance(record.data, JobRequeued | JobShrunk | TaskStarted | TaskRestoreFailed) and begin <= now < end:
            job = state.jobs[record.data.job]
            sums = found.setdefault((job.id, job.seq), {"used": 0, "waiting": 0, "lost": 0})
            sums["lost"] += record.data.lost_gpu_ms
        before = now
    return found
