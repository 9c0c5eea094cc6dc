"""Nested parts of a unit, each with the topology constraint that its tasks share."""

from dataclasses import dataclass

from bailiff_core.model.demand import JobDemand, TopologyRule
from bailiff_core.model.policy import Policy
from bailiff_core.model.units import Unit, allocated_tasks

from .task_requirements import TasksByRequirements, requirements_of


@dataclass(frozen=True, slots=True)
class TopologyConstraint:
    """All tasks in one domain.

    Attributes:
        levels: Node labels, coarse to fine.
        required: Index of the required level.
        preferred: Index of the preferred level.
    """

    topology: str
    levels: tuple[str, ...]
    required: int | None
    preferred: int | None


@dataclass(frozen=True, slots=True)
class TopologyPart:
    """Tasks with one constraint, or none.

    Attributes:
        requirements: Requirements of tasks in no nested part.
        running_on: Nodes of all members that are placed already.
        parts: Nested parts, ordered by name.
    """

    name: str
    rule: TopologyConstraint | None
    requirements: TasksByRequirements
    running_on: tuple[int, ...]
    parts: tuple["TopologyPart", ...]

    def wanted(self) -> TasksByRequirements:
        """Requirements of all its tasks, including nested parts."""
        found = {need: list(indices) for need, indices in self.requirements.items()}
        for part in self.parts:
            for need, indices in part.wanted().items():
                found.setdefault(need, []).extend(indices)
        return found

    def rules(self) -> list[TopologyConstraint]:
        """All constraints of this and the nested parts."""
        return [*([self.rule] if self.rule is not None else []), *(rule for part in self.parts for rule in part.rules())]


def has_topology_constraints(demand: JobDemand) -> bool:
    """Whether the demand has any topology constraint, required or preferred."""
    return demand.topology is not None or any(group.topology is not None for group in demand.sub_groups)


def topology_problem(demand: JobDemand, policy: Policy | None) -> str | None:
    """Names the unknown topology or level that the demand refers to; `None` if all exist."""
    rules = [("the job", demand.topology), *((f"sub-group {group.name!r}", group.topology) for group in demand.sub_groups)]
    known = {topology.name: topology.levels for topology in policy.topologies} if policy is not None else {}
    for subject, rule in rules:
        if rule is None:
            continue
        if rule.topology not in known:
            names = ", ".join(known) or "none"
            return f"{subject} refers to topology {rule.topology!r}, which the policy does not define (defined: {names})"
        for level in (rule.required, rule.preferred):
            if level is not None and level not in known[rule.topology]:
                levels = ", ".join(known[rule.topology])
                return (
                    f"{subject} refers to level {level!r}, which topology {rule.topology!r} does not define (defined: {levels})"
                )
    return None


def topology_parts_of(unit: Unit, policy: Policy | None) -> TopologyPart:
    """The unit's tasks grouped by constraint. Constraints that refer to unknown topologies or levels are ignored."""
    job, demand = unit.job, unit.job.demand
    levels = {topology.name: topology.levels for topology in policy.topologies} if policy is not None else {}
    rule_of = {"": _rule(demand.topology, levels), **{group.name: _rule(group.topology, levels) for group in demand.sub_groups}}
    parent = {group.name: group.parent or "" for group in demand.sub_groups}

    def constrained_part(name: str) -> str:
        """The innermost constrained part that contains the sub-group."""
        while name and rule_of.get(name) is None:
            name = parent.get(name, "")
        return name

    part_at = [constrained_part(group.sub_group or "") for group in demand.tasks for _ in range(group.count)]
    members: dict[str, list[int]] = {}
    for index in unit.indices:
        members.setdefault(part_at[index], []).append(index)
    requesting = dict.fromkeys(unit.indices)
    running_nodes: dict[str, dict[int, None]] = {}
    for task in allocated_tasks(job):
        if task.index not in requesting:
            name = part_at[task.index]
            running_nodes.setdefault(name, {})[task.node] = None
            # It holds the domains of all constrained parts around it, too.
            while name:
                name = constrained_part(parent.get(name, ""))
                running_nodes.setdefault(name, {})[task.node] = None

    def build(name: str) -> TopologyPart:
        constrained = (other for other, rule in rule_of.items() if other and rule is not None)
        inner = sorted(other for other in constrained if constrained_part(parent.get(other, "")) == name)
        inner_parts = [build(other) for other in inner]
        return TopologyPart(
            name,
            rule_of[name],
            requirements_of(demand, members.get(name, [])),
            tuple(running_nodes.get(name, {})),
            tuple(part for part in inner_parts if part.requirements or part.parts),
        )

    return build("")


def _rule(rule: TopologyRule | None, known: dict[str, tuple[str, ...]]) -> TopologyConstraint | None:
    if rule is None or rule.topology not in known:
        return None
    levels = known[rule.topology]
    required = levels.index(rule.required) if rule.required in levels else None
    preferred = levels.index(rule.preferred) if rule.preferred in levels else None
    if preferred is not None and required is not None and preferred <= required:
        preferred = None  # the required level is at least as fine
    return None if required is None and preferred is None else TopologyConstraint(rule.topology, levels, required, preferred)
