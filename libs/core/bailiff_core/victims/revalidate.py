"""Revalidates a proposal against the current state, which may have changed since the proposal was computed."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from bailiff_core.model.placement_ranges import NodeShare, numbers
from bailiff_core.model.proposal import Proposal, VictimChoice
from bailiff_core.model.resources import contains
from bailiff_core.model.state import Job, PoolState, Task
from bailiff_core.model.units import Unit, before_restart, core_complete, next_unit, reduced_to
from bailiff_core.placement.cluster_resources import ClusterResources, is_eligible
from bailiff_core.placement.gang import GangPlacement, TaskPlacement
from bailiff_core.placement.placement_codec import decode_placement
from bailiff_core.placement.task_requirements import requirements_of_unit
from bailiff_core.placement.topology_domains import key_of
from bailiff_core.placement.topology_parts import TopologyPart, topology_parts_of
from bailiff_core.protections import Shields
from bailiff_core.quota.maintenance import on_open_nodes
from bailiff_core.quota.quota_aware_placement import as_placed, mixes_kinds
from bailiff_core.quota.quota_checks import Shares, over_limit
from bailiff_core.scheduling_snapshot import SchedulingSnapshot

from .batch import units_of_choice
from .objective import EvictionCost, eviction_cost, started_cost
from .proposals import victim_choice
from .trial import Trial, action_not_permitted


@dataclass(frozen=True, slots=True)
class Accepted:
    """The proposal is still valid.

    Attributes:
        victims: Victims that are still needed, with their current losses.
        dropped: Victims that have ended or are no longer needed.
    """

    unit: Unit
    victims: tuple[VictimChoice, ...]
    dropped: tuple[str, ...]
    placement: tuple[NodeShare, ...]


@dataclass(frozen=True, slots=True)
class Stale:
    """The proposal is not valid in the current state."""

    reason: str


@dataclass(slots=True)
class _Victim:
    """One victim as it is now: its units to evict, and the new places of its relocated tasks.

    Attributes:
        job: As it was before, if it restarts to shrink for an earlier decision of the selection, without the tasks in `lost`.
    """

    state: PoolState
    job: Job
    units: list[Unit]
    moved: dict[int, TaskPlacement]
    lost: dict[int, None] = field(default_factory=dict)

    def whole(self) -> Unit:
        """All its units as one."""
        return Unit(self.job, tuple(sorted(index for unit in self.units for index in unit.indices)), self.units[-1].core)

    def relocation_units(self) -> list[Unit]:
        """Units that are relocated or not as a whole, last step first: the job, or each surplus unit.

        An elastic job may be relocated without some of its tasks, if the others reach its minimum.
        """
        if not self.units[-1].core:
            return self.units[::-1]
        whole = self.whole()
        rest = tuple(index for index in whole.indices if index in self.moved)
        if rest and len(rest) < len(whole.indices):
            reduced = reduced_to(self.job, rest)
            if core_complete(reduced, reduced.tasks):
                return [Unit(reduced, rest, core=True)]
        return [whole]

    def eviction_cost(self) -> EvictionCost:
        """Current cost of its eviction."""
        tasks, whole, moved = _tasks_of(self.job, self.units), self.units[-1].core, bool(self.moved)
        if not self.lost:
            return eviction_cost(self.state, self.job, tasks, whole=whole, moved=moved)
        earlier = [task for task in self.job.tasks if task.index in self.lost]
        before = started_cost(self.state, self.job, earlier, whole=False)
        return started_cost(self.state, self.job, [*earlier, *tasks], whole=whole, moved=moved).minus(before)

    def value(self) -> tuple[int, EvictionCost, int, str]:
        """Sort key; the most valuable is last."""
        return (self.job.priority, self.eviction_cost(), -self.job.seq, self.job.id)

    def choice(self) -> VictimChoice:
        """The victim as it is recorded."""
        return victim_choice(self.units, self.eviction_cost(), tuple(self.moved.values()), self.lost)


def revalidate_proposal(
    snapshot: SchedulingSnapshot,
    shares: Shares,
    preemptor: Job,
    proposal: Proposal,
    allocated: Sequence[tuple[Unit, GangPlacement]] = (),
) -> Accepted | Stale:
    """Whether the proposal (not a refusal) is still valid with its placement. The snapshot is unchanged.

    Args:
        allocated: Units of the selection that fit without evictions: allocate places them after its decisions.
    """
    mark = snapshot.mark()
    try:
        for unit, place in allocated:
            snapshot.place(unit, place)
        return _check(snapshot, shares, preemptor, proposal)
    except ValueError as error:
        return Stale(str(error))
    finally:
        snapshot.rollback(mark)


def _check(snapshot: SchedulingSnapshot, shares: Shares, preemptor: Job, proposal: Proposal) -> Accepted | Stale:
    if proposal.refused is not None or proposal.job != preemptor.id:
        return Stale("the proposal is a refusal or for another job")
    unit = next_unit(preemptor)
    unit = None if unit is None else on_open_nodes(snapshot.state, unit)
    if unit is None or preemptor.phase not in ("pending", "starting", "running") or bool(proposal.tasks) != bool(preemptor.tasks):
        return Stale(f"{preemptor.id!r} is no longer pending")
    if proposal.tasks and sorted(numbers(proposal.tasks)) != sorted(unit.indices):
        return Stale(f"{preemptor.id!r} needs other tasks now")
    try:
        place = GangPlacement(tuple(decode_placement(preemptor, proposal.placement, unit.indices)), future=True)
    except ValueError as error:
        return Stale(f"the placement is invalid: {error}")
    # Without evictions only its limits and the free resources count.
    if proposal.action == "allocate" or not proposal.victims:
        problem = over_limit(snapshot, unit, place) or _obstacle(snapshot.cluster, unit, place)
        return Stale(problem) if problem else Accepted(unit, (), (), proposal.placement)
    placed = as_placed(snapshot, unit, place)
    if proposal.action == "reclaim" and mixes_kinds(snapshot, placed):
        return Stale(f"the placement mixes kinds of GPU of which {preemptor.id!r} is entitled to each by itself")
    why = action_not_permitted(snapshot, shares, placed, proposal.action, snapshot.usage.smallest)
    if why is not None:
        return Stale(f"{preemptor.id!r} may no longer use {proposal.action}: {why}")
    trial = Trial(snapshot, shares, placed, proposal.action)
    dropped: list[str] = []
    victims = _current_victims(snapshot, placed.job, proposal, dropped)
    if isinstance(victims, Stale):
        return victims
    # All victims leave first, since only the whole set is known to free enough; then those that can stay are taken back.
    for victim in victims:
        for one in victim.units:
            trial.free(one)
    problem = _obstacle(snapshot.cluster, unit, place)
    if problem is not None:
        return Stale(problem)
    trial.take(unit, place)
    if proposal.action == "consolidate":
        problem = _relocate_all(trial, victims, dropped)
        if problem is not None:
            return Stale(problem)
        victims = [victim for victim in victims if victim.units]
    else:
        victims = _reprieve(trial, victims, dropped, place)
        for victim in victims:
            _relocate(trial, victim, at_all=not trial.has_limits)
    allowed = snapshot.state.rules.preemption.max_migrations
    if proposal.action == "consolidate" and allowed is not None and allowed < len(victims):
        return Stale("the policy does not allow that many migrations (policy field preemption.max_migrations)")
    evicted = [one for victim in victims for one in victim.units]
    moved = {victim.job.id: victim.moved for victim in victims}
    # A unit that gets new places for all its tasks is not taken from its project.
    taken = [one for one in evicted if not all(index in moved.get(one.job.id, ()) for index in one.indices)]
    problem = (
        trial.over_limit_after(taken, place)
        or trial.violation(evicted, taken)
        or trial.imbalance(taken)
        or trial.move_violation(evicted, taken)
    )
    if problem is not None:
        return Stale(problem)
    return Accepted(unit, tuple(victim.choice() for victim in victims), tuple(dropped), proposal.placement)


def _current_victims(
    snapshot: SchedulingSnapshot, preemptor: Job, proposal: Proposal, dropped: list[str]
) -> list[_Victim] | Stale:
    """The victims as they are now. Those that ended, or are evicting already, are added to `dropped`."""
    state = snapshot.state
    shields = Shields(state, proposal.action, preemptor)
    found: dict[str, _Victim] = {}
    for choice in proposal.victims:
        job = state.jobs.get(choice.job)
        if choice.job in found or choice.job in dropped:
            return Stale(f"victim {choice.job!r} is named twice")
        lost: dict[int, None] = {}
        if job is not None and choice.extends and _restarts_for_selection(state, job):
            job, lost = before_restart(job)
        if job is None or job.attempt != choice.attempt or job.phase not in ("reserved", "starting", "running"):
            dropped.append(choice.job)
            continue
        units = units_of_choice(job, choice, lost)
        if not units:
            dropped.append(choice.job)
            continue
        if choice.reserved and any(task.state != "reserved" for task in _tasks_of(job, units)):
            return Stale(f"victim {job.id!r} has started since")
        for unit in units:
            rule = shields.excluded_by(unit)
            if rule is not None:
                return Stale(f"victim {job.id!r} is now protected by rule {rule!r}")
        moved = decode_placement(job, choice.moved_to, choice.relocated_tasks)
        evicted = dict.fromkeys(index for unit in units for index in unit.indices)
        places = {place.index: place for place in moved if place.index in evicted}
        found[job.id] = _Victim(state, job, units, places, lost)
    return list(found.values())


def _restarts_for_selection(state: PoolState, job: Job) -> bool:
    """Whether a decision of the open selection evicts the job to restart it with fewer tasks, whose places are reserved."""
    eviction, selection = job.eviction, state.selection
    if eviction is None or selection is None or not eviction.shrinks or not job.reservation:
        return False
    return eviction.decided_seq > selection.opened_seq and eviction.cancel_seq is None and not eviction.stuck


def _reprieve(trial: Trial, victims: Sequence[_Victim], dropped: list[str], place: GangPlacement) -> list[_Victim]:
    """Reprieve victims that fit in their original place, most valuable first; the preemptor is placed in the trial.

    A job to be relocated whole is reprieved whole or relocated whole: losing a part of it may not be permitted.
    """
    for victim in sorted(victims, key=lambda victim: victim.value(), reverse=True):
        if victim.moved and victim.units[-1].core and not trial.could_stay(victim.whole()):
            continue
        while victim.units and trial.could_stay(victim.units[-1]):
            unit = victim.units.pop()
            # The preemptor's own limit may need this eviction.
            if trial.has_limits and trial.over_limit_after([one for each in victims for one in each.units], place):
                victim.units.append(unit)
                break
            trial.occupy(unit)
            for index in unit.indices:
                victim.moved.pop(index, None)
        if not victim.units:
            dropped.append(victim.job.id)
    return [victim for victim in victims if victim.units]


def _relocate(trial: Trial, victim: _Victim, *, at_all: bool = True) -> str | None:
    """Take the victim's new places and drop those that are not free. Returns the reason for the last one dropped."""
    problem: str | None = None
    for unit in victim.relocation_units():
        if not any(index in victim.moved for index in unit.indices):
            continue
        if not at_all or not all(index in victim.moved for index in unit.indices):
            obstacle: str | None = "not all of its tasks have one"
        else:
            place = GangPlacement(tuple(victim.moved[index] for index in unit.indices), future=True)
            obstacle = _obstacle(trial.cluster, unit, place)
            if obstacle is None:
                trial.take(unit, place)
                continue
        problem = obstacle
        for index in unit.indices:
            victim.moved.pop(index, None)
    return problem


def _relocate_all(trial: Trial, victims: Sequence[_Victim], dropped: list[str]) -> str | None:
    """Relocate all victims as proposed, then reprieve those that need not move. Returns why a relocation is impossible."""
    for victim in victims:
        problem = _relocate(trial, victim)
        if len(victim.moved) < len(victim.whole().indices):
            return f"there is no new place for {victim.job.id!r}: {problem or 'the proposal has none'}"
    for victim in sorted(victims, key=lambda victim: victim.value(), reverse=True):
        while victim.units:
            unit = victim.relocation_units()[0]
            if not trial.could_stay(unit):
                break
            trial.occupy(unit)  # its new place remains allocated, so that no other victim relies on it
            del victim.units[0 if unit.core else -1 :]
            for index in unit.indices:
                del victim.moved[index]
        if not victim.units:
            dropped.append(victim.job.id)
    return None


def _obstacle(cluster: ClusterResources, unit: Unit, place: GangPlacement) -> str | None:
    """Why the unit cannot be placed exactly there, or `None`."""
    mark = cluster.mark()
    need_of = {index: need for need, indices in requirements_of_unit(unit).items() for index in indices}
    problem = None
    for task in place.tasks:
        need, node = need_of[task.index], cluster.nodes.get(task.node)
        if node is None:
            problem = f"node {task.node} is not schedulable now"
        elif not is_eligible(need, node) or task.devices & ~node.devices_of(need.models, need.profile):
            problem = f"task {task.index} may not run on {node.name} with these devices"
        elif not contains(node.future, need.amount(node.units, task.devices)):
            problem = f"task {task.index} does not fit on {node.name}"
        else:
            cluster.take(node, need.amount(node.units, task.devices), future=True)
            continue
        break
    cluster.rollback(mark)
    return problem or _topology_violation(
        cluster, topology_parts_of(unit, cluster.policy), {task.index: task.node for task in place.tasks}
    )


def _topology_violation(cluster: ClusterResources, part: TopologyPart, node_of: dict[int, int]) -> str | None:
    """The topology level at which tasks that must share a domain do not, or `None`."""
    rule = part.rule
    if rule is not None and rule.required is not None:
        level = rule.required + 1
        nodes = [*part.running_on, *(node_of[index] for indices in part.wanted().values() for index in indices)]
        keys = dict.fromkeys(key_of(cluster.labels[node], rule.levels[:level]) for node in nodes)
        if len(keys) != 1 or len(next(iter(keys))) < level:
            return f"the tasks are no longer in one domain at level {rule.levels[rule.required]!r}"
    return next((problem for problem in (_topology_violation(cluster, inner, node_of) for inner in part.parts) if problem), None)


def _tasks_of(job: Job, units: Sequence[Unit]) -> list[Task]:
    found = [job.task(index) for unit in units for index in unit.indices]
    return [task for task in found if task is not None]
