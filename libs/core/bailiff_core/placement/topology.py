"""Places units with topology constraints: parts that must, or should, share a domain (docs/concepts/semantics/jobs.md)."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Literal

from .cluster_resources import ClusterResources
from .packing import PlacementScope, TasksOnNode, capacity
from .packing_search import NODES_PER_STEP, pack
from .result import NoFit
from .step_budget import StepBudget
from .task_requirements import TaskRequirements, TasksByRequirements
from .topology_domains import TopologyDomain, domains_within, total_requested
from .topology_parts import TopologyPart

PlacedTasks = list[tuple[TasksByRequirements, list[TasksOnNode]]]  # per part: its tasks, and the chunks for them


class TopologySearch:
    """Depth-first search over the domains of all parts, each part within the domain of its enclosing part."""

    def __init__(self, cluster: ClusterResources, root: TopologyPart, budget: StepBudget, scope: PlacementScope) -> None:
        self._cluster, self._root, self._budget, self._scope = cluster, root, budget, scope
        self._budget_exhausted = False
        self._is_proof = True

    def place(self, *, reserve: bool) -> PlacedTasks | NoFit:
        """Places for all tasks, or the reason why there are none; `cluster` is unchanged.

        A preferred level does not delay a start: all levels are tried on free resources before releasing ones count.
        """
        prefers = any(rule.preferred is not None for rule in self._root.rules())
        rounds: tuple[tuple[bool, ...], ...] = ((False,), (True,)) if prefers else ((False, True),)
        for future_options in ((True,),) if reserve else rounds:
            mark = self._cluster.mark()
            found = next(self._solutions(self._root, self._scope, future_options), None)
            self._cluster.rollback(mark)
            if found is not None:
                return found
        return self._no_fit()

    def _solutions(
        self, part: TopologyPart, enclosing: PlacementScope, future_options: tuple[bool, ...]
    ) -> Iterator[PlacedTasks]:
        """Yields placements of the part; the resources of the current one are taken."""
        for scope in self._scopes(part, enclosing):
            mark = self._cluster.mark()
            yield from self._fill_part(part, scope, 0, [], future_options)
            self._cluster.rollback(mark)
            if self._budget_exhausted:
                return

    def _fill_part(
        self, part: TopologyPart, scope: PlacementScope, at: int, placed: PlacedTasks, future_options: tuple[bool, ...]
    ) -> Iterator[PlacedTasks]:
        if at < len(part.parts):
            for inner in self._solutions(part.parts[at], scope, future_options):
                yield from self._fill_part(part, scope, at + 1, placed + inner, future_options)
            return
        wanted = {need: len(indices) for need, indices in part.requirements.items()}
        effort = 1 + len(self._cluster.nodes if scope.within is None else scope.within) // NODES_PER_STEP
        for future in future_options if wanted else ():
            if not self._budget.spend(effort):
                self._budget_exhausted = True
                self._is_proof = False
                return
            found = pack(self._cluster, wanted, scope, self._budget, future=future, explain=False)
            if isinstance(found, NoFit):
                self._is_proof = self._is_proof and found.kind == "impossible"
                continue
            for chunk in found:
                for mask in chunk.masks:
                    self._cluster.take(chunk.node, chunk.need.amount(chunk.node.units, mask), future=chunk.future)
            yield [*placed, (part.requirements, found)]
            return
        if not wanted:
            yield placed

    def _scopes(self, part: TopologyPart, enclosing: PlacementScope) -> Iterator[PlacementScope]:
        """Scopes for the part, best first: finer levels first; at one level the domain with the highest utilization."""
        rule = part.rule
        if rule is None:
            yield enclosing
            return
        coarsest = -1 if rule.required is None else rule.required
        finest = rule.preferred if rule.preferred is not None else coarsest
        requested = total_requested(part.wanted(), self._cluster)
        for level in range(finest, coarsest - 1, -1):
            if level < 0:
                yield enclosing
                return
            ranked = []
            for domain in domains_within(self._cluster, rule, level, enclosing.within, part.running_on):
                fullness = domain.fullness(requested)
                if fullness is not None:
                    ranked.append((-fullness, domain.key, domain.nodes))
            for _, key, nodes in sorted(ranked, key=lambda entry: entry[:2]):
                labels = tuple(zip(rule.levels, key, strict=False))
                yield replace(enclosing, within=nodes, labels=enclosing.labels + labels)

    def _no_fit(self) -> NoFit:
        """The reason why no placement was found: the part that fits nowhere by itself, or that not all parts fit together."""
        proof = self._is_proof and self._is_exhaustive()
        for part in [] if _is_chain(self._root) else _relaxations(self._root):
            why = TopologySearch(self._cluster, part, self._budget, self._scope).place(reserve=True)
            if isinstance(why, NoFit) and why.kind == "impossible":
                return why
        kind: Literal["impossible", "gave-up"] = "impossible" if proof else "gave-up"
        return NoFit(kind, _reason(self._cluster, self._root, kind, spread=self._scope.spread))

    def _is_exhaustive(self) -> bool:
        """Whether an unsuccessful search with steps left is a proof.

        It is one if only domains were to be chosen, or if the packing of one part does not affect the others: equal tasks, and
        domains that are either the same or disjoint.
        """
        levels = dict.fromkeys((rule.levels, rule.required, rule.preferred) for rule in self._root.rules())
        return _is_chain(self._root) or (len(self._root.wanted()) == 1 and len(levels) == 1)


def _is_chain(part: TopologyPart) -> bool:
    """Whether the parts are nested linearly and all tasks are in the innermost one."""
    return not part.parts or (not part.requirements and len(part.parts) == 1 and _is_chain(part.parts[0]))


def _relaxations(root: TopologyPart) -> Iterator[TopologyPart]:
    """The unit without the constraints of nested parts, then each nested part alone."""
    yield replace(root, requirements=root.wanted(), parts=())
    for part in root.parts:
        yield replace(root, requirements={}, parts=(replace(part, requirements=part.wanted(), parts=()),))


def _reason(cluster: ClusterResources, root: TopologyPart, kind: str, *, spread: bool) -> str:
    wanted = {need: len(indices) for need, indices in root.wanted().items()}
    unconstrained = pack(cluster, wanted, PlacementScope(spread=spread), StepBudget(0), future=True)
    if isinstance(unconstrained, NoFit) and unconstrained.kind == "impossible":
        return unconstrained.why
    tasks = " and ".join(f"{count} × ({need})" for need, count in wanted.items())
    if kind == "gave-up":
        return f"found no placement for {tasks} that satisfies the topology constraints within the step budget"
    part = root
    while part.parts:
        part = part.parts[0]
    rule = part.rule
    if rule is None or rule.required is None or not _is_chain(root):
        return f"{tasks}: each part fits in a topology domain on its own, but not all parts together"
    level = rule.levels[rule.required]
    sub_group_text = f" of sub-group {part.name!r}" if part.name else ""
    text = f"needs {tasks}{sub_group_text} in one {level} of topology {rule.topology!r}"
    if not domains_within(cluster, rule, rule.required, None, ()):
        return f"{text}: no node has the labels {', '.join(rule.levels[: rule.required + 1])}"
    domains = domains_within(cluster, rule, rule.required, None, part.running_on)
    if not domains:
        return f"{text}: its running members are in none, or in several"
    if part.running_on:
        text += ", the one in which its other members run"
    return f"{text}: {_largest_domain(cluster, domains, next(iter(wanted)), spread=spread)}"


def _largest_domain(cluster: ClusterResources, domains: list[TopologyDomain], need: TaskRequirements, *, spread: bool) -> str:
    found = [
        (-capacity(cluster, need, PlacementScope(domain.nodes, spread=spread), future=True), domain.key) for domain in domains
    ]
    most, key = min(found)
    return f"the best of {len(found)}, {'/'.join(key)}, fits {-most} of {need}"
