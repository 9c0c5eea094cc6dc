"""Which drained nodes would help a pending job: to be placed, or to find victims."""

from dataclasses import dataclass, replace

from bailiff_core.actions.allocate import scheduling_class_of
from bailiff_core.humanize import first_names
from bailiff_core.model.indices import Indices
from bailiff_core.model.policy import Action
from bailiff_core.model.proposal import Proposal
from bailiff_core.model.state import Job, Node, PoolState
from bailiff_core.model.units import Unit, next_unit
from bailiff_core.placement.cluster_resources import ClusterResources
from bailiff_core.placement.gang import NoFit, place_unit
from bailiff_core.placement.step_budget import StepBudget
from bailiff_core.queue.head import is_schedulable
from bailiff_core.queue.preemption_delay import may_preempt_from
from bailiff_core.quota.quota_checks import cooldown_violation, over_bounds
from bailiff_core.records.node_requests import CORDONED
from bailiff_core.scheduling_snapshot import SchedulingSnapshot, current_snapshot
from bailiff_core.victims.batch import SelectionBatch, actions_in_use, select_victims

MOST_LEFT_OUT = 8  # to find fewer nodes than one placement uses


@dataclass(frozen=True, slots=True)
class Undraining:
    """Drained nodes that a job would be placed on, and the action that would place it there."""

    nodes: list[Node]
    action: Action

    def __str__(self) -> str:
        """Names the nodes, and how they are made schedulable again."""
        what = "it would fit" if self.action == "allocate" else f"{self.action} would find victims"
        names, verb = first_names([node.name for node in self.nodes]), "is" if len(self.nodes) == 1 else "are"
        undrain = first_names(list(map(_undrain, self.nodes)))
        return f"{what} with {names}, which {verb} drained; to place tasks there again: {undrain}"


def _undrain(node: Node) -> str:
    cordoned = node.drain is not None and node.drain.reason.startswith(CORDONED)
    return f"kubectl uncordon {node.name}" if cordoned else f"bailiff undrain {node.name}"


class DrainedNodes:
    """Searches with the drained nodes of one state, for any number of jobs."""

    def __init__(self, state: PoolState) -> None:
        self._state = state
        self._drained = [state.nodes[number] for number in state.draining if state.nodes[number].state == "ready"]
        self._all: ClusterResources | None = None
        self._undrained: SelectionBatch | None = None
        self._answers: dict[object, Undraining | None] = {}

    def that_would_help(self, job: Job) -> Undraining | None:
        """Returns drained nodes that the job's next unit would be placed on, with victims or without, if that needs them."""
        unit = next_unit(job) if self._drained else None
        if unit is None:
            return None
        equal = scheduling_class_of(self._state, unit), job.project, job.priority, job.class_name, job.preemptible
        if equal not in self._answers:
            self._answers[equal] = self._answer(unit)
        answer = self._answers[equal]
        if answer is None or answer.action == "allocate":
            return answer
        waits = not is_schedulable(self._state, job) or may_preempt_from(self._state, job) > self._state.now
        return None if waits else answer

    def _answer(self, unit: Unit) -> Undraining | None:
        needed = self._search(unit)
        if needed is not None:
            if _may_be_placed(current_snapshot(self._state), unit) and not needed:
                return None
            # Quotas and shares are others with other nodes: more of them mean more, but also others that ask for theirs.
            for nodes in (needed, self._drained) if needed else (self._drained,):
                if _may_be_placed(_batch_with(self._state, nodes).snapshot, unit):
                    return Undraining(nodes, "allocate")
        return self._search_victims(unit)

    def _search(self, unit: Unit) -> list[Node] | None:
        """The drained nodes that it would be placed on: none if it fits without them, None if not with them either."""
        if self._used(current_snapshot(self._state).cluster, unit) is not None:
            return []
        self._all = self._all or ClusterResources.of(self._state, self._drained)
        needed = self._used(self._all, unit)
        for node in (needed or [])[:MOST_LEFT_OUT]:
            fewer = self._used(ClusterResources.of(self._state, [each for each in needed or [] if each is not node]), unit)
            needed = needed if fewer is None else fewer
        return needed

    def _used(self, cluster: ClusterResources, unit: Unit) -> list[Node] | None:
        """The drained nodes that a placement there uses; None if there is none."""
        mark = cluster.mark()
        found = place_unit(cluster, unit, StepBudget(self._state.rules.preemption.search_steps))
        cluster.rollback(mark)
        return None if isinstance(found, NoFit) else self._those_of({task.node: None for task in found.tasks})

    def _those_of(self, numbers: dict[int, None]) -> list[Node]:
        return [node for node in self._drained if node.number in numbers]

    def _search_victims(self, unit: Unit) -> Undraining | None:
        if self._undrained is None:
            self._undrained = _batch_with(self._state, self._drained)
        found = _first_found(self._undrained, unit)
        if found is None or _first_found(_batch_with(self._state, []), unit) is not None:
            return None
        needed = self._those_of({share.node: None for share in found.placement})
        fewer = _first_found(_batch_with(self._state, needed), unit) if 0 < len(needed) < len(self._drained) else None
        # All of them may be needed: more nodes mean larger shares, too.
        return Undraining(self._drained, found.action) if fewer is None else Undraining(needed, fewer.action)


def _may_be_placed(snapshot: SchedulingSnapshot, unit: Unit) -> bool:
    allowed = "allocate" in snapshot.state.rules.preemption.actions
    return allowed and not cooldown_violation(snapshot, unit) and not over_bounds(snapshot, unit)


def _batch_with(state: PoolState, drained: list[Node]) -> SelectionBatch:
    """A batch on the pool as it would be if these nodes were not drained. The state is unchanged."""
    nodes = state.nodes | {node.number: replace(node, drain=None) for node in drained}
    draining = {number: None for number in state.draining if nodes[number].drain is not None}
    return SelectionBatch.on(current_snapshot(replace(state, nodes=nodes, draining=draining, indices=Indices())))


def _first_found(batch: SelectionBatch, unit: Unit) -> Proposal | None:
    """The proposal of the first action that finds a place for the unit."""
    rules = batch.snapshot.state.rules
    for action in actions_in_use(rules):
        found = select_victims(batch, unit, action, StepBudget(rules.preemption.search_steps))
        if found.refused is None:
            return found
    return None
