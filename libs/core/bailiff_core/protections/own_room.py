"""`own-room`: nobody takes a promise of room that jobs of its own project, or of one above it, are still leaving.

What leaves counts neither as use nor as a claim, and comes back when the promise is taken: the asker would be within its
share only for as long as it has not got what it asks for. The project that was promised the room would then reclaim it
anew, and so on for ever. Once the room is clear, or nobody can stay any more, the rule is silent.
"""

from bailiff_core.lifecycle.evictions import evictions_of, may_stay
from bailiff_core.model.policy import Verb
from bailiff_core.model.pool import Job, Plan, Pool
from bailiff_core.model.units import Unit
from bailiff_core.queue.tree import Tree, tree_of

from .rule import Shield

NAME = "own-room"


def shield(pool: Pool, verb: Verb, asker: Job) -> Shield | None:
    """With reclaim on, promises to other projects of what the asker's side of the tree would have back."""
    if not pool.plans or not pool.rules.projects or "reclaim" not in pool.rules.preemption.verbs:
        return None
    if verb == "preempt" and pool.rules.scope != "pool":
        return None  # it takes no promises of other projects
    tree = tree_of(pool)
    kept = {plan.job: None for plan in pool.plans.values() if plan.victims and _comes_back(pool, tree, asker, plan)}

    def shielded(unit: Unit) -> bool:
        job = unit.job
        return job.id in kept and any(task.state == "reserved" and task.index in unit.indices for task in job.tasks)

    return shielded if kept else None


def _comes_back(pool: Pool, tree: Tree, asker: Job, plan: Plan) -> bool:
    """Whether the asker's side, as seen from whom the plan was made for, would use some of that room again."""
    mine, theirs = tree.sides(tree.leaf_of(asker.project), tree.leaf_of(pool.jobs[plan.job].project))
    if mine == theirs:
        return False
    for victim in (pool.jobs[name] for name in plan.victims if name in pool.jobs):
        if mine not in tree.branches[tree.leaf_of(victim.project)].path:
            continue
        moved = [task.index for task in victim.promise]  # goes on to count as used
        for entry in evictions_of(victim):
            if entry.eviction.plan == plan.seq and may_stay(entry) and any(task.index not in moved for task in entry.tasks):
                return True
    return False
