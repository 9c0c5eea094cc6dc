"""Topology domains: nodes with the same labels down to one level of a topology, and their free resources."""

from bisect import insort
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from bailiff_core.model.resource_vector import ZERO, ResourceVector

from .cluster_resources import ClusterResources, NodeResources
from .task_requirements import TasksByRequirements
from .topology_parts import TopologyConstraint

RATIO_SCALE = 10**9
DomainKey = tuple[str, ...]


@dataclass(slots=True)
class TopologyDomain:
    """Its nodes, ordered by name, and their future free resources. GPUs in thousandths."""

    key: DomainKey
    nodes: list[NodeResources] = field(default_factory=list)
    free: ResourceVector = ZERO

    def fullness(self, requested: ResourceVector) -> int | None:
        """Utilization by the request at the scarcest resource, in units of 1e-9; `None` if it does not fit."""
        most = 0
        for wanted, free in zip(requested, self.free, strict=True):
            if wanted > free:
                return None
            if wanted:
                most = max(most, int(wanted * RATIO_SCALE // free))
        return most


class TopologyDomains:
    """All domains of one topology's levels. seen: number of changes processed."""

    def __init__(self, cluster: ClusterResources, levels: tuple[str, ...]) -> None:
        self._cluster, self._levels = cluster, levels
        self._by_key: dict[DomainKey, TopologyDomain] = {}
        self._counted: dict[NodeResources, ResourceVector] = {}
        self.seen = len(cluster.changed)
        for node in cluster.by_name().values():
            self._count(node)

    def refresh(self) -> None:
        """Process nodes that changed since the last call."""
        for node in dict.fromkeys(self._cluster.changed[self.seen :]):
            self._count(node)
        self.seen = len(self._cluster.changed)

    def at(self, level: int) -> list[TopologyDomain]:
        return [domain for key, domain in self._by_key.items() if len(key) == level + 1]

    def _count(self, node: NodeResources) -> None:
        before = self._counted.get(node)
        after = ZERO if node.removed else _free(node)
        path = key_of(node.labels, self._levels)
        for depth in range(1, len(path) + 1):
            key = path[:depth]
            domain = self._by_key.setdefault(key, TopologyDomain(key))
            if before is None and not node.removed:
                insort(domain.nodes, node, key=lambda other: other.name)
            elif before is not None and node.removed:
                domain.nodes.remove(node)
            domain.free = domain.free.minus(before or ZERO).plus(after)
            if not domain.nodes:
                del self._by_key[key]
        if node.removed:
            self._counted.pop(node, None)
        else:
            self._counted[node] = after


def key_of(labels: Mapping[str, str], levels: Sequence[str]) -> DomainKey:
    """The node's label values from the coarsest level on, up to the first missing label."""
    found = []
    for level in levels:
        if level not in labels:
            break
        found.append(labels[level])
    return tuple(found)


def domains_within(
    cluster: ClusterResources,
    rule: TopologyConstraint,
    level: int,
    within: Sequence[NodeResources] | None,
    running_on: Iterable[int],
) -> list[TopologyDomain]:
    """Domains of a level in which the part may be placed: within these nodes, and the domain of its running members."""
    if within is None:
        found = _domains_of(cluster, rule.levels).at(level)
    else:
        by_key: dict[DomainKey, TopologyDomain] = {}
        for node in within:
            key = key_of(node.labels, rule.levels)[: level + 1]
            if len(key) == level + 1:
                domain = by_key.setdefault(key, TopologyDomain(key))
                domain.nodes.append(node)
                domain.free = domain.free.plus(_free(node))
        found = list(by_key.values())
    running_domains = dict.fromkeys(key_of(cluster.labels.get(number, {}), rule.levels)[: level + 1] for number in running_on)
    if running_domains:
        found = [domain for domain in found if len(running_domains) == 1 and domain.key in running_domains]
    return found


def total_requested(wanted: TasksByRequirements, cluster: ClusterResources) -> ResourceVector:
    """Lower bound of the resources that these tasks take in total: a share in bytes counts as one of the largest device."""
    gpu = cpu = memory = 0
    for need, indices in wanted.items():
        count = len(indices)
        cpu += need.cpu_milli * count
        memory += need.memory_bytes * count
        if need.share_bytes:
            gpu += need.share_bytes * 1000 * 1000 * need.devices * count // cluster.largest_device()
        else:
            gpu += (need.share_milli or 1000) * need.devices * count
    return ResourceVector(gpu, cpu, memory)


def _domains_of(cluster: ClusterResources, levels: tuple[str, ...]) -> TopologyDomains:
    views = cluster.views(TopologyDomains)
    found = views.get(levels)
    if found is None:
        found = views[levels] = TopologyDomains(cluster, levels)
    else:
        found.refresh()
    return found


def _free(node: NodeResources) -> ResourceVector:
    free = node.future
    parts = sum(-(-1000 * max(0, shared_free) // node.units[number]) for number, shared_free in free.shares.items())
    return ResourceVector(free.devices.bit_count() * 1000 + parts, max(0, free.cpu_milli), max(0, free.memory_bytes))
