"""Exact placement of several units at once, with any requirements and topology constraints: task by task over all choices.

Dead ends are memoized. The key of a search state is the free resources of the nodes used so far and the domain that each
topology constraint is bound to.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from bailiff_core.model.placement_ranges import bits
from bailiff_core.model.units import Unit

from .cluster_resources import ClusterResources, NodeResources, slots_for
from .gang import GangPlacement, TaskPlacement
from .packing import PlacementScope
from .packing_search import backtrack, device_choices, device_class, hardest_first
from .step_budget import StepBudget
from .task_requirements import TaskRequirements, requirements_of_unit
from .topology_domains import DomainKey, key_of
from .topology_parts import TopologyPart, topology_parts_of, topology_problem

JobAllocation = tuple[NodeResources, int]  # node of a member, and mask of its devices


@dataclass(frozen=True, slots=True)
class _GangMember:
    """One task of one of the units. constraint_groups: indices of the required topology constraints that apply to it."""

    unit: int
    index: int
    need: TaskRequirements
    constraint_groups: tuple[int, ...]


def place_jointly(
    cluster: ClusterResources, units: Sequence[Unit], budget: StepBudget
) -> list[GangPlacement] | Literal["impossible", "gave-up"]:
    """A reserved placement for each of the units; `cluster` is unchanged."""
    if any(topology_problem(unit.job.demand, cluster.policy) is not None for unit in units):
        return "impossible"
    search = _JointPlacement(cluster, units, budget)
    found = search.search()
    if isinstance(found, str):
        return found
    places: list[list[TaskPlacement]] = [[] for _ in units]
    for member, (node, mask) in zip(search.members, found, strict=True):
        places[member.unit].append(TaskPlacement(member.index, node.number, mask))
    return [GangPlacement(tuple(sorted(tasks, key=lambda task: task.index)), future=True) for tasks in places]


class _JointPlacement:
    """One search. fixed: per constraint group the domain that its members are bound to so far. levels: per constraint group."""

    def __init__(self, cluster: ClusterResources, units: Sequence[Unit], budget: StepBudget) -> None:
        self.cluster = cluster
        self.budget = budget
        self.levels: list[tuple[str, ...]] = []
        self.fixed: list[DomainKey | None] = []
        self.spans_domains = False  # running members are in different domains
        self.members: list[_GangMember] = []
        for number, unit in enumerate(units):
            constraint_groups: dict[int, tuple[int, ...]] = {}
            self._add_constraint_groups(topology_parts_of(unit, cluster.policy), (), constraint_groups)
            for need, indices in requirements_of_unit(unit).items():
                self.members += [_GangMember(number, index, need, constraint_groups.get(index, ())) for index in indices]
        self.members.sort(
            key=lambda member: (not member.constraint_groups, *hardest_first(member.need), member.unit, member.index)
        )
        self.requirements = list(dict.fromkeys(member.need for member in self.members))
        self.eligible_nodes = {need: dict(cluster.eligible_nodes(need)) for need in self.requirements}
        self.nodes = list(dict.fromkeys(node for need in self.requirements for node in self.eligible_nodes[need]))
        self.initial_key = {node: self._equivalence_key(node) for node in self.nodes}  # while none of the members is placed there
        self.by_key: dict[object, list[NodeResources]] = {}
        for node in self.nodes:
            self.by_key.setdefault(self.initial_key[node], []).append(node)
        self.initial_slots = {
            need: {node: self._slots(need, node) for node in self.eligible_nodes[need]} for need in self.requirements
        }
        self.total = {need: sum(slots.values()) for need, slots in self.initial_slots.items()}
        self.remaining: list[dict[TaskRequirements, int]] = [{}]  # per number of placed members: requirements of the others
        self.open_groups: list[dict[int, None]] = [{}]  # ... and their constraint groups
        for member in reversed(self.members):
            self.remaining.append({**self.remaining[-1], member.need: self.remaining[-1].get(member.need, 0) + 1})
            self.open_groups.append({**self.open_groups[-1], **dict.fromkeys(member.constraint_groups)})
        self.remaining.reverse()
        self.open_groups.reverse()
        self.occupied: dict[NodeResources, int] = {}

    def _add_constraint_groups(
        self, part: TopologyPart, enclosing: tuple[int, ...], constraint_groups: dict[int, tuple[int, ...]]
    ) -> None:
        rule = part.rule
        if rule is not None and rule.required is not None:
            levels = rule.levels[: rule.required + 1]
            running_domains = dict.fromkeys(key_of(self.cluster.labels[node], levels) for node in part.running_on)
            self.spans_domains = (
                self.spans_domains or len(running_domains) > 1 or any(len(key) < len(levels) for key in running_domains)
            )
            enclosing = (*enclosing, len(self.levels))
            self.levels.append(levels)
            self.fixed.append(next(iter(running_domains), None))
        for indices in part.requirements.values():
            constraint_groups.update((index, enclosing) for index in indices)
        for inner in part.parts:
            self._add_constraint_groups(inner, enclosing, constraint_groups)

    def search(self) -> list[JobAllocation] | Literal["impossible", "gave-up"]:
        """Node and devices of every member, in their order."""
        if self.spans_domains:
            return "impossible"
        dead_ends: dict[object, None] = {}

        def choices(placed: Sequence[JobAllocation]) -> Iterator[JobAllocation] | None:
            key = self._key(len(placed))
            if key in dead_ends or not self._can_fit(len(placed)):
                return None
            return self._branches(self.members[len(placed)], key, dead_ends)

        def take(level: int, choice: JobAllocation) -> JobAllocation:
            node, mask = choice
            self.cluster.take(node, self.members[level].need.amount(node.units, mask), future=True)
            return choice

        scope = PlacementScope(within=self.nodes)
        return backtrack(self.cluster, scope, self.budget, len(self.members), choices, take) if self.members else []

    def _branches(self, member: _GangMember, key: object, dead_ends: dict[object, None]) -> Iterator[JobAllocation]:
        """Each choice for the member; while it is tried, `fixed` and `occupied` contain it. If all fail, `key` is a dead end."""
        for node, mask in self._choices(member):
            before = [(group, self.fixed[group]) for group in member.constraint_groups]
            for group in member.constraint_groups:
                self.fixed[group] = key_of(node.labels, self.levels[group])
            self.occupied[node] = self.occupied.get(node, 0) + 1
            yield node, mask
            for group, domain in before:
                self.fixed[group] = domain
            self.occupied[node] -= 1
            if not self.occupied[node]:
                del self.occupied[node]
        dead_ends[key] = None

    def _choices(self, member: _GangMember) -> Iterator[JobAllocation]:
        """Nodes and devices for the next member, one per set of interchangeable ones: nodes that are in use first."""
        eligible = self.eligible_nodes[member.need]
        seen: dict[object, None] = {}
        for node in list(self.occupied):
            key = (self.initial_key[node], self._equivalence_key(node))
            if key not in seen and node in eligible and self._in_domain(member, node):
                seen[key] = None
                yield from self._choices_on(member, node, eligible[node])
        for by_key in self.by_key.values():
            unused = next((node for node in by_key if node not in self.occupied), None)
            if unused is not None and unused in eligible and self._in_domain(member, unused):
                yield from self._choices_on(member, unused, eligible[unused])

    def _choices_on(self, member: _GangMember, node: NodeResources, devices: int) -> Iterator[JobAllocation]:
        if self._slots(member.need, node):
            for mask in device_choices(member.need, node, devices, future=True):
                yield node, mask

    def _in_domain(self, member: _GangMember, node: NodeResources) -> bool:
        for group in member.constraint_groups:
            key = key_of(node.labels, self.levels[group])
            if len(key) < len(self.levels[group]) or self.fixed[group] not in (None, key):
                return False
        return True

    def _can_fit(self, at: int) -> bool:
        """Whether the remaining members fit, each requirements on its own: a necessary condition."""
        for need, count in self.remaining[at].items():
            slots = self.initial_slots[need]
            removed = sum(slots[node] - self._slots(need, node) for node in self.occupied if node in slots)
            if self.total[need] - removed < count:
                return False
        return True

    def _slots(self, need: TaskRequirements, node: NodeResources) -> int:
        return slots_for(need, node, node.future, self.eligible_nodes[need][node])

    def _key(self, at: int) -> object:
        """Equal for states in which the remaining members have the same choices."""
        cluster = sorted(repr((self.initial_key[node], self._equivalence_key(node))) for node in self.occupied)
        return at, tuple(cluster), tuple((group, self.fixed[group]) for group in self.open_groups[at])

    def _equivalence_key(self, node: NodeResources) -> object:
        """Equal for nodes that are interchangeable for all members."""
        admits = tuple(node in self.eligible_nodes[need] for need in self.requirements)
        domains = tuple(key_of(node.labels, levels) for levels in dict.fromkeys(self.levels))
        kinds = tuple(sorted(device_class(node, number, future=True) for number in bits(node.usable)))
        return admits, domains, node.future.cpu_milli, node.future.memory_bytes, node.future.slots, kinds
