"""`no-reclaim-of-reserved`: protects a reservation from a preemptor whose project, or an ancestor, is releasing the resources.

Victims that are releasing count neither as usage nor as demand, and their evictions are cancelled if the reservation is
dropped: the preemptor's project would be within its share only until it gets the resources. The other project would then
reclaim them again, without end. The rule no longer applies once the resources are released or no eviction can be cancelled.
"""

from bailiff_core.model.evictions import evictions_of
from bailiff_core.model.policy import Action
from bailiff_core.model.project_tree import ProjectTree, tree_of
from bailiff_core.model.state import Job, PoolState, Preemption
from bailiff_core.model.units import Unit

from .rule import JobsShield, Rule, Shield

NAME = "no-reclaim-of-reserved"


def shield(state: PoolState, action: Action, preemptor: Job) -> Shield | None:
    """With reclaim enabled, reservations whose loss would cancel evictions of jobs on the preemptor's side of the tree."""
    if not state.preemptions or not state.rules.projects or "reclaim" not in state.rules.preemption.actions:
        return None
    if action == "preempt" and state.rules.scope != "pool":
        return None  # it drops no reservations of other projects
    tree = tree_of(state)
    protected = {each.job: None for each in state.preemptions.values() if _would_cancel(state, tree, preemptor, each)}

    def shielded(unit: Unit) -> bool:
        job = unit.job
        return job.id in protected and any(task.state == "reserved" and task.index in unit.indices for task in job.tasks)

    return JobsShield(shielded, lambda: protected) if protected else None


def _would_cancel(state: PoolState, tree: ProjectTree, preemptor: Job, preemption: Preemption) -> bool:
    """Whether the preemption has a cancellable eviction of a job on the preemptor's side of the lowest common ancestor."""
    mine, theirs = tree.sides(tree.leaf_of(preemptor.project), tree.leaf_of(state.jobs[preemption.job].project))
    if mine == theirs:
        return False
    for victim in (state.jobs[name] for name in preemption.victims if name in state.jobs):
        if mine not in tree.branches[tree.leaf_of(victim.project)].path:
            continue
        relocated = [task.index for task in victim.reservation]  # still counts as usage
        for entry in evictions_of(victim):
            if (
                entry.eviction.preemption == preemption.seq
                and entry.cancellable
                and any(task.index not in relocated for task in entry.tasks)
            ):
                return True
    return False


PROTECTION = Rule(70, NAME, shield, "is waiting for resources that the preemptor's project is releasing")
