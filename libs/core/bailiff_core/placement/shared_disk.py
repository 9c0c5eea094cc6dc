"""Whether the members of a gang would find each other's checkpoints."""

from bailiff_core.model.demand import JobDemand, TaskGroup
from bailiff_core.model.pool import Node, Pool
from bailiff_core.model.sharing import devices_of

NAMED = 5


def unshared_checkpoints(pool: Pool, demand: JobDemand) -> str | None:
    """Why members of a gang that no single node could hold may not see one checkpoint directory; `None` where they do.

    By what nodes have announced of their directories; which of the nodes it gets is not known yet.
    """
    may = [node for node in pool.nodes.values() if any(_takes(node, group) for group in demand.tasks)]
    if sum(group.count for group in demand.tasks) == 1 or any(_holds_all(node, demand) for node in may):
        return None
    if not may or (len({node.checkpoints for node in may}) == 1 and may[0].checkpoints is not None):
        return None
    alone = [node.name for node in may if node.checkpoints is None]
    what = f"{_some(alone)} share{'s' if len(alone) == 1 else ''} none" if alone else "there is more than one of them"
    return (
        f"no single node holds this gang, so its members need a checkpoint directory that all of them see, and of the nodes that "
        f"may get it {what}: name a shared folder by BAILIFF_SHARED_CHECKPOINTS to the agents, or choose nodes that share one"
    )


def _takes(node: Node, group: TaskGroup) -> bool:
    models = not group.gpu_models or any(device.model in group.gpu_models for device in node.devices)
    labels = all(node.labels.get(name) == value for name, value in group.node_labels.items())
    return models and labels and (not group.nodes or node.name in group.nodes) and len(node.devices) >= devices_of(group)


def _holds_all(node: Node, demand: JobDemand) -> bool:
    if not all(_takes(node, group) for group in demand.tasks):
        return False
    groups = demand.tasks
    return (
        sum(group.count * group.gpu_milli for group in groups) <= 1000 * len(node.devices)
        and sum(group.count * group.cpu_milli for group in groups) <= node.capacity.cpu_milli
        and sum(group.count * group.memory_bytes for group in groups) <= node.capacity.memory_bytes
        and sum(group.count for group in groups) <= node.capacity.slots
    )


def _some(names: list[str]) -> str:
    return ", ".join(names[:NAMED]) + (f" and {len(names) - NAMED} more" if len(names) > NAMED else "")
