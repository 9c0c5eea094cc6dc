"""Checks that a gang spanning nodes has a checkpoint directory shared by all its members."""

from bailiff_core.humanize import first_names
from bailiff_core.model.demand import JobDemand, TaskGroup
from bailiff_core.model.gpu_shares import devices_of
from bailiff_core.model.mig import profile_of
from bailiff_core.model.state import Node, PoolState


def unshared_checkpoints(state: PoolState, demand: JobDemand) -> str | None:
    """Why members of a gang that does not fit on one node may not share a checkpoint directory; `None` if they do.

    Based on the directories that node agents announced; the placement is not known yet.
    """
    eligible = [node for node in state.nodes.values() if any(_fits_task(node, group) for group in demand.tasks)]
    if sum(group.count for group in demand.tasks) == 1 or any(_fits_gang(node, demand) for node in eligible):
        return None
    if not eligible or (len({node.checkpoint_store for node in eligible}) == 1 and eligible[0].checkpoint_store is not None):
        return None
    without_shared = [node.name for node in eligible if node.checkpoint_store is None]
    what = (
        f"{first_names(without_shared)} share{'s' if len(without_shared) == 1 else ''} none"
        if without_shared
        else "there is more than one of them"
    )
    return (
        f"this gang does not fit on one node, so its members need a shared checkpoint directory, and among the nodes that may "
        f"run it {what}: set BAILIFF_SHARED_CHECKPOINTS to a shared directory on the node agents, or select nodes that share one"
    )


def _fits_task(node: Node, group: TaskGroup) -> bool:
    models = not group.gpu_models or any(device.model in group.gpu_models for device in node.devices)
    labels = all(node.labels.get(name) == value for name, value in group.node_labels.items())
    named = (not group.nodes or node.name in group.nodes) and node.name not in group.excluded_nodes
    fitting = models and labels and named
    return fitting and _devices_of_profile(node, group.mig_profile) >= devices_of(group)


def _devices_of_profile(node: Node, profile: str | None) -> int:
    return sum(profile_of(device) == (profile or "") for device in node.devices)


def _fits_gang(node: Node, demand: JobDemand) -> bool:
    if not all(_fits_task(node, group) for group in demand.tasks):
        return False
    groups = demand.tasks
    wanted: dict[str | None, int] = {None: -(-sum(group.count * group.gpu_milli for group in groups) // 1000)}
    for group in groups:
        if group.mig_profile is not None:
            wanted[group.mig_profile] = wanted.get(group.mig_profile, 0) + group.count * devices_of(group)
    return (
        all(count <= _devices_of_profile(node, profile) for profile, count in wanted.items())
        and sum(group.count * group.cpu_milli for group in groups) <= node.capacity.cpu_milli
        and sum(group.count * group.memory_bytes for group in groups) <= node.capacity.memory_bytes
        and sum(group.count for group in groups) <= node.capacity.slots
    )
