"""`no-reclaim-of-reserved`: nobody takes a promise of room that jobs of its own project, or of one above it, are still leaving.

What leaves counts neither as use nor as a claim, and comes back when the promise is taken: the preemptor would be within its
share only for as long as it has not got what it asks for. The project that was promised the room would then reclaim it
anew, and so on for ever. Once the room is clear, or nobody can stay any more, the rule is silent.
"""

from bailiff_core.model.evictions import evictions_of
from bailiff_core.model.policy import Action
from bailiff_core.model.project_tree import ProjectTree, tree_of
from bailiff_core.model.state import Job, PoolState, Preemption
from bailiff_core.model.units import Unit

from .rule import Rule, Shield

NAME = "no-reclaim-of-reserved"


def shield(state: PoolState, action: Action, preemptor: Job) -> Shield | None:
    """With reclaim on, promises to other projects of what the preemptor's side of the tree would have back."""
    if not state.preemptions or not state.rules.projects or "reclaim" not in state.rules.preemption.actions:
        return None
    if action == "preempt" and state.rules.scope != "pool":
        return None  # it takes no promises of other projects
    tree = tree_of(state)
    kept = {plan.job: None for plan in state.preemptions.values() if plan.victims and _comes_back(state, tree, preemptor, plan)}

    def shielded(unit: Unit) -> bool:
        job = unit.job
        return job.id in kept and any(task.state == "reserved" and task.index in unit.indices for task in job.tasks)

    return shielded if kept else None


def _comes_back(state: PoolState, tree: ProjectTree, preemptor: Job, plan: Preemption) -> bool:
    """Whether the preemptor's side, as seen from whom the plan was made for, would use some of that room again."""
    mine, theirs = tree.sides(tree.leaf_of(preemptor.project), tree.leaf_of(state.jobs[plan.job].project))
    if mine == theirs:
        return False
    for victim in (state.jobs[name] for name in plan.victims if name in state.jobs):
        if mine not in tree.branches[tree.leaf_of(victim.project)].path:
            continue
        moved = [task.index for task in victim.reservation]  # goes on to count as used
        for entry in evictions_of(victim):
            if (
                entry.eviction.preemption == plan.seq
                and entry.cancellable
                and any(task.index not in moved for task in entry.tasks)
            ):
                return True
    return False


PROTECTION = Rule(70, NAME, shield, "is waiting for resources that the preemptor's project is releasing")
