"""Places a unit within limits and quotas: the usage of tasks that request MiB of a device depends on the device.

The best placement is tried first. If it exceeds a limit, larger devices are tried in ascending order of size; at last as
many tasks as fit are placed on the largest devices, then on the next smaller ones, which gives the lowest usage.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from bailiff_core.model.gpu_kinds import OTHER
from bailiff_core.model.gpu_shares import devices_of
from bailiff_core.model.policy import Action
from bailiff_core.model.state import Device, Job, Node
from bailiff_core.model.units import Unit
from bailiff_core.placement.cluster_resources import ClusterResources
from bailiff_core.placement.gang import GangPlacement, NoFit, TaskPlacement, place_unit
from bailiff_core.placement.packing import ANYWHERE, capacity
from bailiff_core.placement.step_budget import StepBudget
from bailiff_core.placement.task_requirements import requirements_of_unit
from bailiff_core.placement.topology_parts import has_topology_constraints

from .demand_vector import by_bytes, of_unit
from .quota_checks import over_bounds
from .resource_snapshot import ResourceSnapshot

NO_NODE = ("",)
BoundsCheck = Callable[[GangPlacement], str | None]


def place_within_bounds(
    snapshot: ResourceSnapshot, unit: Unit, budget: StepBudget, *, reserve: bool = False, over: BoundsCheck | None = None
) -> GangPlacement | NoFit | str:
    """A placement, or why there is none, or the limit that every placement exceeds. A placement is allocated in the snapshot.

    Units that count alike on every device are only placed: their limits are checked before.

    Args:
        over: Returns the limit that a placement exceeds, as a sentence; default: limits and quotas.
    """
    exceeded: BoundsCheck = over or (lambda place: over_bounds(snapshot, unit, place))
    cluster = snapshot.cluster
    mark = cluster.mark()
    first = place_unit(cluster, unit, budget, reserve=reserve)
    if isinstance(first, NoFit) or not snapshot.usage.by_place(unit.job):
        return first
    violation = exceeded(first)
    if violation is None:
        return first
    cluster.rollback(mark)
    for of_kind in of_each_kind(snapshot, unit):
        found = place_unit(cluster, of_kind, budget, reserve=reserve)
        if isinstance(found, GangPlacement) and exceeded(found) is None:
            return found
        cluster.rollback(mark)
    if not by_bytes(unit.job):
        return violation
    sizes = _sizes(cluster)
    for larger in _on_larger_devices(unit, sizes):
        found = place_unit(cluster, larger, budget, reserve=reserve)
        if isinstance(found, GangPlacement) and exceeded(found) is None:
            return found
        cluster.rollback(mark)
    spread = _largest_first(cluster, unit, sizes, budget, reserve=reserve)
    if spread is not None and exceeded(spread) is None:
        return spread
    cluster.rollback(mark)
    return violation


def find_within_bounds(snapshot: ResourceSnapshot, unit: Unit, budget: StepBudget) -> GangPlacement | NoFit | str:
    """As `place_within_bounds`, with nothing allocated."""
    mark = snapshot.mark()
    found = place_within_bounds(snapshot, unit, budget)
    snapshot.rollback(mark)
    return found


def by_measure(snapshot: ResourceSnapshot, unit: Unit, action: Action) -> Iterator[Unit]:
    """The unit, and where it requests bytes of a device: on larger devices only, as often as it counts as less there.

    Whatever depends on what its projects would use is tried so: a smaller device that it would accept is no obstacle. A unit that
    accepts several kinds of GPU reclaims those of one kind, as it is entitled to them by kind.
    """
    of_kinds = of_each_kind(snapshot, unit) if action == "reclaim" else []
    if of_kinds:
        yield from of_kinds
        return
    yield unit
    usage = snapshot.usage
    if not by_bytes(unit.job) or not snapshot.state.rules.projects:
        return
    least, measure = of_unit(unit, usage.largest), of_unit(unit, usage.smallest)
    for larger in _on_larger_devices(unit, _sizes(snapshot.cluster) if measure != least else {}):
        before, measure = measure, of_unit(larger, usage.smallest)
        if measure.gpu_milli < before.gpu_milli:
            yield larger


def as_placed(snapshot: ResourceSnapshot, unit: Unit, place: GangPlacement) -> Unit:
    """The unit, where it requests bytes of a device: on the nodes of this placement only, so that it is measured by them.

    Where it accepts several kinds of GPU: of the models of this placement only.
    """
    nodes = snapshot.state.nodes
    if mixes_kinds(snapshot, unit):
        models = [device.model for task in place.tasks for device in _devices_at(nodes, task)]
        unit = _of_models(snapshot, unit, dict.fromkeys(range(len(unit.job.demand.tasks)), models))
    if not by_bytes(unit.job) or not snapshot.state.rules.projects:
        return unit
    return _only_on(unit, [nodes[number].name for number in dict.fromkeys(task.node for task in place.tasks) if number in nodes])


def mixes_kinds(snapshot: ResourceSnapshot, unit: Unit) -> bool:
    """Whether some task of the unit accepts several kinds of GPU that the policy names, so that only its place says which."""
    return bool(_kinds_open(snapshot, unit))


def _kinds_open(snapshot: ResourceSnapshot, unit: Unit) -> list[int]:
    """The places of the kinds of which such tasks accept several."""
    usage = snapshot.usage
    if not usage.kinds or not snapshot.state.rules.projects:
        return []
    groups = [group for group in unit.job.demand.tasks if devices_of(group)]
    several = [kinds for group in groups if len(kinds := usage.smallest.accepted_by(group).kinds) > 1]
    return sorted(dict.fromkeys(at for kinds in several for at in kinds), key=lambda at: (at == OTHER, at))


def of_each_kind(snapshot: ResourceSnapshot, unit: Unit) -> list[Unit]:
    """A unit that accepts several kinds of GPU restricted to one of them, by kind, those of no named kind last; else nothing."""
    usage = snapshot.usage
    found = []
    for kind in _kinds_open(snapshot, unit):
        models = {group: usage.smallest.accepted_by(each).models for group, each in enumerate(unit.job.demand.tasks)}
        of_kind = {group: [model for at, model in pairs if at == kind] for group, pairs in models.items()}
        found.append(_of_models(snapshot, unit, of_kind))
    return found


def _devices_at(nodes: Mapping[int, Node], task: TaskPlacement) -> list[Device]:
    node = nodes.get(task.node)
    return [] if node is None else [device for device in node.devices if task.devices >> device.number & 1]


def _of_models(snapshot: ResourceSnapshot, unit: Unit, models: Mapping[int, Sequence[str]]) -> Unit:
    """The unit, with its tasks that accept several kinds of GPU restricted to these models. models: by number of the group."""
    job, groups = unit.job, []
    for number, group in enumerate(unit.job.demand.tasks):
        several = devices_of(group) and len(snapshot.usage.smallest.accepted_by(group).kinds) > 1
        allowed = tuple(dict.fromkeys(model for model in models[number] if not group.gpu_models or model in group.gpu_models))
        groups.append(group.model_copy(update={"gpu_models": allowed}) if several and allowed else group)
    return Unit(replace(job, demand=job.demand.model_copy(update={"tasks": tuple(groups)})), unit.indices, unit.core)


def _on_larger_devices(unit: Unit, sizes: dict[str, int]) -> Iterator[Unit]:
    """The unit without the nodes of the smallest devices, then also without those of the next larger ones, and so on."""
    for min_size in sorted(dict.fromkeys(sizes.values()))[1:]:
        yield _only_on(unit, [name for name in sizes if sizes[name] >= min_size])


def _sizes(cluster: ClusterResources) -> dict[str, int]:
    """Units of the smallest device, by node name."""
    return {node.name: min(node.units.values()) for node in cluster.nodes.values() if node.units}


def _only_on(unit: Unit, nodes: list[str]) -> Unit:
    """The unit, with its tasks that request MiB restricted to these nodes."""
    job = unit.job
    groups = []
    for group in job.demand.tasks:
        allowed = tuple(name for name in nodes if not group.nodes or name in group.nodes)
        bound = group.gpu_share_bytes is not None
        groups.append(group.model_copy(update={"nodes": allowed or NO_NODE}) if bound else group)
    restricted_job: Job = replace(job, demand=job.demand.model_copy(update={"tasks": tuple(groups)}))
    return Unit(restricted_job, unit.indices, unit.core)


def _largest_first(
    cluster: ClusterResources, unit: Unit, sizes: dict[str, int], budget: StepBudget, *, reserve: bool
) -> GangPlacement | None:
    """Task type by task type, those that request MiB last, as many as fit on the largest devices; resources are taken."""
    if has_topology_constraints(unit.job.demand):
        return None
    places: list[TaskPlacement] = []
    future = reserve
    for share, indices in sorted(((need.share_bytes, tuple(each)) for need, each in requirements_of_unit(unit).items())):
        for part in _parts(cluster, unit, indices, sizes if share else {}, future=True):
            found = place_unit(cluster, part, budget, reserve=reserve)
            if isinstance(found, NoFit):
                return None
            places += found.tasks
            future = future or found.future
    return GangPlacement(tuple(sorted(places, key=lambda task: task.index)), future) if len(places) == len(unit.indices) else None


def _parts(
    cluster: ClusterResources, unit: Unit, indices: tuple[int, ...], sizes: dict[str, int], *, future: bool
) -> Iterator[Unit]:
    if not sizes:
        yield Unit(unit.job, indices, unit.core)
        return
    for size in sorted(dict.fromkeys(sizes.values()), reverse=True):
        part = _only_on(Unit(unit.job, indices, unit.core), [name for name in sizes if sizes[name] == size])
        need = next(iter(requirements_of_unit(part)))
        count = min(len(indices), capacity(cluster, need, ANYWHERE, future=future))
        if count:
            yield Unit(part.job, indices[:count], unit.core)
            indices = indices[count:]
        if not indices:
            return
