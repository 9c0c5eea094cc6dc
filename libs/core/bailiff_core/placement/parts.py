"""The parts of a unit that a topology rule keeps together, one within the other."""

from dataclasses import dataclass

from bailiff_core.model.demand import JobDemand, TopologyRule
from bailiff_core.model.policy import Policy
from bailiff_core.model.units import Unit, allocated_tasks

from .need import Needs, needs_of


@dataclass(frozen=True, slots=True)
class Rule:
    """Together at one of these levels of labels, coarse to fine: `required` by number, `preferred` where possible."""

    topology: str
    levels: tuple[str, ...]
    required: int | None
    preferred: int | None


@dataclass(frozen=True, slots=True)
class Part:
    """Members under one rule, or under none. needs: of those that are in no smaller part.

    standing: nodes of all members of the part that have a place already. parts: the smaller ones, by name.
    """

    name: str
    rule: Rule | None
    needs: Needs
    standing: tuple[int, ...]
    parts: tuple["Part", ...]

    def wanted(self) -> Needs:
        """The needs of all its tasks, those of the smaller parts included."""
        found = {need: list(indices) for need, indices in self.needs.items()}
        for part in self.parts:
            for need, indices in part.wanted().items():
                found.setdefault(need, []).extend(indices)
        return found

    def rules(self) -> list[Rule]:
        """All rules in it."""
        return [*([self.rule] if self.rule is not None else []), *(rule for part in self.parts for rule in part.rules())]


def has_rules(demand: JobDemand) -> bool:
    """Whether any members must, or had better, stand together."""
    return demand.topology is not None or any(group.topology is not None for group in demand.sub_groups)


def topology_problem(demand: JobDemand, policy: Policy | None) -> str | None:
    """Which topology or level named by the job does not exist, as a sentence, or `None`."""
    rules = [("the job", demand.topology), *((f"sub-group {group.name!r}", group.topology) for group in demand.sub_groups)]
    known = {topology.name: topology.levels for topology in policy.topologies} if policy is not None else {}
    for who, rule in rules:
        if rule is None:
            continue
        if rule.topology not in known:
            names = ", ".join(known) or "none"
            return f"{who} names the topology {rule.topology!r}, which the policy does not have (it has: {names})"
        for level in (rule.required, rule.preferred):
            if level is not None and level not in known[rule.topology]:
                levels = ", ".join(known[rule.topology])
                return f"{who} names the level {level!r}, which the topology {rule.topology!r} does not have (it has: {levels})"
    return None


def parts_of(unit: Unit, policy: Policy | None) -> Part:
    """The unit's tasks by the rules that hold for them. Rules that name what does not exist are left out."""
    job, demand = unit.job, unit.job.demand
    levels = {topology.name: topology.levels for topology in policy.topologies} if policy is not None else {}
    rule_of = {"": _rule(demand.topology, levels), **{group.name: _rule(group.topology, levels) for group in demand.sub_groups}}
    parent = {group.name: group.parent or "" for group in demand.sub_groups}

    def ruled(name: str) -> str:
        """The smallest part around the sub-group."""
        while name and rule_of.get(name) is None:
            name = parent.get(name, "")
        return name

    part_at = [ruled(group.sub_group or "") for group in demand.tasks for _ in range(group.count)]
    members: dict[str, list[int]] = {}
    for index in unit.indices:
        members.setdefault(part_at[index], []).append(index)
    asking = dict.fromkeys(unit.indices)
    standing: dict[str, dict[int, None]] = {}
    for task in allocated_tasks(job):
        if task.index not in asking:
            name = part_at[task.index]
            standing.setdefault(name, {})[task.node] = None
            while name:
                name = ruled(parent.get(name, ""))
                standing.setdefault(name, {})[task.node] = None

    def build(name: str) -> Part:
        smaller_ones = (other for other, rule in rule_of.items() if other and rule is not None)
        inner = sorted(other for other in smaller_ones if ruled(parent.get(other, "")) == name)
        smaller = [build(other) for other in inner]
        return Part(
            name,
            rule_of[name],
            needs_of(demand, members.get(name, [])),
            tuple(standing.get(name, {})),
            tuple(part for part in smaller if part.needs or part.parts),
        )

    return build("")


def _rule(rule: TopologyRule | None, known: dict[str, tuple[str, ...]]) -> Rule | None:
    if rule is None or rule.topology not in known:
        return None
    levels = known[rule.topology]
    required = levels.index(rule.required) if rule.required in levels else None
    preferred = levels.index(rule.preferred) if rule.preferred in levels else None
    if preferred is not None and required is not None and preferred <= required:
        preferred = None  # what is required keeps them closer together already
    return None if required is None and preferred is None else Rule(rule.topology, levels, required, preferred)
