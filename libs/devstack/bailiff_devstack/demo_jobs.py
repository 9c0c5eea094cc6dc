"""How many jobs the demo runs, and what each requests: together no more than the node has."""

from dataclasses import dataclass

from bailiff_core.model.state import Node

MAX_JOBS = 8
MAX_CPU_MILLI = 1000
MAX_MEMORY = 1 << 30


class NoUsableGpu(Exception):
    """The node has no GPU that can be allocated."""


@dataclass(frozen=True)
class DemoJobs:
    """gpus: of each training job; they fill the node. cpu_milli, memory_bytes: of each job, the preemptor too."""

    gpus: tuple[int, ...]
    cpu_milli: int
    memory_bytes: int

    @property
    def total_gpus(self) -> int:
        """GPUs of all training jobs."""
        return sum(self.gpus)


def jobs_for(node: Node) -> DemoJobs:
    """A job per GPU, up to eight; more GPUs are divided among them. Raises `NoUsableGpu`."""
    usable = (node.capacity.devices & ~node.quarantined).bit_count()
    if not usable:
        faults = "; ".join(f"{device.id}: {device.fault}" for device in node.devices if device.fault)
        raise NoUsableGpu(f"{node.name} has no GPU that can be allocated{f' ({faults})' if faults else ''}")
    jobs = min(usable, MAX_JOBS)
    each, more = divmod(usable, jobs)
    return DemoJobs(
        gpus=tuple(each + (number < more) for number in range(jobs)),
        cpu_milli=min(MAX_CPU_MILLI, node.capacity.cpu_milli // jobs),
        memory_bytes=min(MAX_MEMORY, node.capacity.memory_bytes // jobs),
    )
