"""One-sentence reasons why tasks do not fit, from counting alone; checked before any packing search."""

from bailiff_core.humanize import count_text

from .cluster_resources import ClusterResources, NodeResources
from .packing import PlacementScope, capacity, has_capacity, offers
from .task_requirements import TaskRequirements

DIAGNOSTICS_CACHE_SIZE = 256
PLURAL = {"is": "are", "has": "have", "lacks": "lack"}


def unschedulable_reason(
    cluster: ClusterResources, wanted: dict[TaskRequirements, int], scope: PlacementScope, *, future: bool
) -> str | None:
    """A reason that holds for any packing: one task type does not fit on its own, or the totals do not suffice."""
    for need, count in wanted.items():
        if not has_capacity(cluster, need, count, scope, future=future):
            return _reason_for_one(cluster, need, count, capacity(cluster, need, scope, future=future))
    return _reason_for_total(cluster, wanted, scope, future=future)


def _reason_for_total(
    cluster: ClusterResources, wanted: dict[TaskRequirements, int], scope: PlacementScope, *, future: bool
) -> str | None:
    requested = sum(need.gpus * count for need, count in wanted.items())
    usable_devices: dict[NodeResources, int] = {}
    for need in wanted:
        for offer in offers(cluster, need, scope, future=future):
            usable_devices[offer.node] = usable_devices.get(offer.node, 0) | offer.devices
    free = sum(((node.future if future else node.now()).devices & mask).bit_count() for node, mask in usable_devices.items())
    if free < requested:
        predicate = "is" if free == 1 else "are"
        return f"needs {count_text(requested, 'GPU')} in total, {free} {predicate} {'free or releasing' if future else 'free'}"
    return None


def _reason_for_one(cluster: ClusterResources, need: TaskRequirements, count: int, places: int) -> str:
    largest, unsuited = _diagnostics(cluster, need)
    if need.gpus and need.gpus == largest:
        wants = f"{count_text(count, 'node')} with {_free(need)} each" if count > 1 else f"a node with {_free(need)}"
        has = "no node has them" if not places else f"{places} {'has' if places == 1 else 'have'} them"
    else:
        wants = f"{count_text(count, 'task')} of {need}{' each' if count > 1 else ''}"
        has = "no node fits one" if not places else f"{places} {'fits' if places == 1 else 'fit'}"
    return "; ".join([f"needs {wants}, {has}", *unsuited])


def _free(need: TaskRequirements) -> str:
    what = need.profile or "GPU"
    return str(need).replace(f" {what}", f" free {what}", 1)


def _diagnostics(cluster: ClusterResources, need: TaskRequirements) -> tuple[int, list[str]]:
    """GPUs of the largest matching node, and how many nodes do not match, by the first requirement that they fail."""
    key = (need.selector, need.nodes, need.devices, need.share_bytes)
    if key not in cluster.node_diagnostics:
        if len(cluster.node_diagnostics) >= DIAGNOSTICS_CACHE_SIZE:
            cluster.node_diagnostics.clear()
        mismatches: dict[str, int] = {}
        for node in cluster.nodes.values():
            what = _mismatch(node, need)
            if what:
                mismatches[what] = mismatches.get(what, 0) + 1
        cluster.node_diagnostics[key] = (
            max((node.devices_of((), need.profile).bit_count() for node, _ in cluster.eligible_nodes(need)), default=0),
            [
                f"{count_text(nodes, 'node')} {what if nodes == 1 else _of_several(what)}"
                for what, nodes in sorted(mismatches.items())
            ],
        )
    return cluster.node_diagnostics[key]


def _mismatch(node: NodeResources, need: TaskRequirements) -> str | None:
    if need.nodes and node.name not in need.nodes:
        return "is not in the job's node list"
    if node.name in need.excluded:
        return "is excluded for the job"
    for key, value in need.labels:
        if node.labels.get(key) != value:
            return f"lacks the label {key}={value}"
    if need.hosts(node.units, node.devices_of(need.models, need.profile)) < need.devices:
        what = f"{need.profile} MIG device" if need.profile else "GPU"
        shortage = f"no usable {what}" if need.devices == 1 else f"fewer than {need.devices} usable {what}s"
        return f"has {shortage}{' of the model ' + ' or '.join(need.models) if need.models else ''}"
    return None


def _of_several(what: str) -> str:
    """Plural form: `have no usable GPU` for `has no usable GPU`."""
    action, _, rest = what.partition(" ")
    return f"{PLURAL[action]} {rest}"
