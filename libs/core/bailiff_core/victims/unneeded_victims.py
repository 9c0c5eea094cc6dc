"""Unneeded victims: a preemptor of a batch needs none if it fits on what the other answers free and do not use."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from bailiff_core.model.gpu_shares import task_resources
from bailiff_core.model.project_tree import ROOT
from bailiff_core.model.proposal import Proposal
from bailiff_core.model.resource_vector import ZERO, ResourceVector
from bailiff_core.model.resources import release
from bailiff_core.model.state import Job, Resources
from bailiff_core.model.units import Unit
from bailiff_core.placement.cluster_resources import ClusterResources
from bailiff_core.placement.gang import GangPlacement, place_unit
from bailiff_core.placement.placement_codec import decode_placement, encode_placement
from bailiff_core.placement.step_budget import StepBudget
from bailiff_core.quota.cap_at_fair_share import CapAtFairShare
from bailiff_core.quota.demand_vector import by_bytes
from bailiff_core.quota.quota_checks import Shares, above_limit, exceeds
from bailiff_core.scheduling_snapshot import SchedulingSnapshot

from .candidates import evictable_units


@dataclass(frozen=True)
class Answer:
    """A proposal that gives the unit a place. grown: the projects that use more with it than without it."""

    unit: Unit
    proposal: Proposal
    grown: Sequence[str]


def usage_of(snapshot: SchedulingSnapshot, job: Job) -> dict[str, ResourceVector]:
    """What the job's project and those above it use now."""
    usage = snapshot.usage
    return {project: usage.allocated(project) for project in usage.tree.branches[usage.leaf_of(job)].path}


def proposals_without_victims(
    snapshot: SchedulingSnapshot, shares: Shares, answers: Mapping[int, Answer], steps: int
) -> Iterator[tuple[int, Proposal]]:
    """For each answer whose victims need not be evicted: its key, and the answer that the unit fits without evictions.

    answers: by request, in the order in which they were found; all of them are applied to the snapshot. The victims that are
    not evicted are restored in it. They stay victims where another answer's project needs them gone: for its limit, or for the
    fair share that its action does not exceed.
    """
    with_victims = [key for key, answer in answers.items() if answer.proposal.victims]
    for key in with_victims if len(with_victims) > 1 else ():
        unit, proposal = answers[key].unit, answers[key].proposal
        victims = _whole_victims(snapshot, proposal)
        if not victims or by_bytes(unit.job):
            continue
        mark = snapshot.mark()
        place = _fits_elsewhere(snapshot, unit, proposal, victims, StepBudget(steps))
        if place is not None and not all(_within_bounds(snapshot, shares, each) for each in answers.values()):
            snapshot.rollback(mark)
            place = None
        if place is not None:
            update = {"action": "allocate", "victims": (), "placement": encode_placement(place)}
            yield key, Proposal(request=proposal.request, job=proposal.job, tasks=proposal.tasks).model_copy(update=update)


def _whole_victims(snapshot: SchedulingSnapshot, proposal: Proposal) -> Sequence[Job]:
    """The victims, if each of them runs, is evicted whole and is not moved; else none."""
    if any(choice.moved_to or choice.tasks or choice.reserved for choice in proposal.victims):
        return ()
    return [snapshot.state.jobs[choice.job] for choice in proposal.victims]


def _fits_elsewhere(
    snapshot: SchedulingSnapshot, unit: Unit, proposal: Proposal, victims: Sequence[Job], budget: StepBudget
) -> GangPlacement | None:
    """A place of the unit on free and releasing resources that leaves its victims theirs, or `None`."""
    cluster, mark = snapshot.cluster, snapshot.mark()
    _give_back(cluster, unit, GangPlacement(tuple(decode_placement(unit.job, proposal.placement, unit.indices)), future=True))
    if _restored(snapshot, victims):
        place = place_unit(cluster, unit, budget, reserve=True)
        if isinstance(place, GangPlacement):
            return place
    snapshot.rollback(mark)
    return None


def _within_bounds(snapshot: SchedulingSnapshot, shares: Shares, answer: Answer) -> bool:
    """Whether the projects of a placed preemptor use no more than the limits and fair shares that its action keeps to."""
    unit, action = answer.unit, answer.proposal.action
    if above_limit(snapshot, unit.job):
        return False
    if action == "reclaim":
        kept: Sequence[str] = [snapshot.usage.leaf_of(unit.job)]
    elif CapAtFairShare.of(snapshot, shares, unit, action) is not None:
        kept = [project for project in answer.grown if project != ROOT]
    else:
        kept = ()
    return not any(exceeds(snapshot.usage.allocated(project), shares.get(project, ZERO)) for project in kept)


def _give_back(cluster: ClusterResources, unit: Unit, place: GangPlacement) -> None:
    """Undo a placement on releasing resources."""
    groups = unit.job.groups()
    for task in place.tasks:
        node = cluster.nodes[task.node]
        devices, cpu_milli, memory_bytes, shares = task_resources(node.node, groups[task.index], task.devices)
        amount = Resources(devices, cpu_milli, memory_bytes, 1, dict(shares))
        cluster.set_future(node, release(node.future, amount, node.units, node.usable))


def _restored(snapshot: SchedulingSnapshot, victims: Sequence[Job]) -> bool:
    """Restores the victims where they run. Whether that is possible for all of them."""
    for victim in victims:
        for unit in evictable_units(victim):
            if not snapshot.cluster.original_place_is_free(unit):
                return False
            snapshot.restore(unit)
    return True
