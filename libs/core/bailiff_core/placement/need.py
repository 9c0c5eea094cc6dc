"""What one task of a gang needs, and which tasks need the same."""

from dataclasses import dataclass

from bailiff_core.model.demand import JobDemand, TaskGroup


@dataclass(frozen=True, slots=True)
class Need:
    """The room and the kind of node that one task needs. Tasks of equal need are interchangeable."""

    gpus: int
    cpu_milli: int
    memory_bytes: int
    models: tuple[str, ...] = ()
    labels: tuple[tuple[str, str], ...] = ()
    nodes: tuple[str, ...] = ()

    @classmethod
    def of(cls, group: TaskGroup) -> "Need":
        """The need of each task of the group. GPU models mean nothing to a task without GPUs."""
        return cls(
            group.gpu_milli // 1000,
            group.cpu_milli,
            group.memory_bytes,
            tuple(sorted(dict.fromkeys(group.gpu_models))) if group.gpu_milli else (),
            tuple(sorted(group.node_labels.items())),
            tuple(sorted(dict.fromkeys(group.nodes))),
        )

    def __str__(self) -> str:
        """`8 GPUs (h100), 4 CPUs, 16 GiB`: what people call it."""
        parts = []
        if self.gpus:
            of_model = f" ({' or '.join(self.models)})" if self.models else ""
            parts.append(f"{self.gpus} GPU{'s' if self.gpus > 1 else ''}{of_model}")
        if self.cpu_milli:
            parts.append(f"{_decimal(self.cpu_milli, 1000)} CPU{'s' if self.cpu_milli > 1000 else ''}")
        if self.memory_bytes:
            parts.append(f"{_decimal(self.memory_bytes, 2**30)} GiB of memory")
        return ", ".join(parts) or "1 task slot"


def needs_of(demand: JobDemand) -> dict[Need, list[int]]:
    """The gang's different needs and the task indices that have them, in order of first appearance."""
    found: dict[Need, list[int]] = {}
    index = 0
    for group in demand.tasks:
        found.setdefault(Need.of(group), []).extend(range(index, index + group.count))
        index += group.count
    return found


def unsupported(demand: JobDemand) -> str | None:
    """What the demand asks for that this release cannot keep, as a sentence, or `None`."""
    for group in demand.tasks:
        if group.gpu_milli % 1000 or group.gpu_share_milli or group.gpu_share_bytes or group.gpu_devices:
            return "asks for a part of a GPU, and only whole GPUs are given out"
        if group.sub_group:
            return "asks for sub-groups, which are not known yet"
    if demand.sub_groups:
        return "asks for sub-groups, which are not known yet"
    if demand.topology is not None:
        return "has a topology rule, which is not known yet"
    return None


def _decimal(amount: int, unit: int) -> str:
    """`1.5` for 1500 milli, without floats; rounded up to hundredths."""
    hundredths = -(-amount * 100 // unit)
    return f"{hundredths // 100}.{hundredths % 100:02}".rstrip("0").rstrip(".")
