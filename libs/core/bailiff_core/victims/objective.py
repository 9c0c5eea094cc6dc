"""What a set of victims costs: the lexicographic objective of DESIGN §5, for the verb preempt.

Every level adds up over the victims, so a set costs the sum of its members' prices, level by level:

1. GPUs of victims, by priority from the highest down;
3. work lost, in GPU-ms, per job at most the policy's bound (2 is about reclaim and has no part here);
4. jobs stopped; 5. tasks stopped; then promises dropped, so that no promise is dropped for nothing;
6. fragmentation: nodes with GPUs that a victim leaves while others stay on them;
7. latest submitted, 8. id: of two sets the one with the youngest job, then the second youngest, ...

A gang that was promised room and has not started costs nothing but its promise: it is taken before all that runs.
"""

from collections.abc import Sequence

from bailiff_core.model.policy import PreemptionRules
from bailiff_core.model.pool import Job, Pool
from bailiff_core.model.room import work_lost

Price = tuple[int, ...]


def price(pool: Pool, rules: PreemptionRules, job: Job, priorities: Sequence[int]) -> Price:
    """Levels 1 to 6 of one victim. `priorities`: those of all candidates, from the highest down."""
    if job.phase == "reserved":
        return (0,) * len(priorities) + (0, 0, 0, 1, 0)
    return (
        *(job.gpus if job.priority == priority else 0 for priority in priorities),
        loss(pool, rules, job),
        1,
        job.size,
        0,
        _nodes_left_broken(pool, job),
    )


def loss(pool: Pool, rules: PreemptionRules, job: Job) -> int:
    """Work lost by evicting the job, in GPU-ms; nothing if it has not started."""
    if job.phase == "reserved":
        return 0
    return work_lost(job, pool.now, rules.restart_cost, rules.max_counted_loss)


def weigh(pool: Pool, rules: PreemptionRules, candidates: Sequence[Job]) -> dict[str, int]:
    """One integer per candidate. Sums of them compare as the objective does, and no two sets weigh the same.

    Levels are digits, each with a base that no sum can reach. The last digit is a bit per candidate by submission.
    """
    priorities = sorted(dict.fromkeys(job.priority for job in candidates), reverse=True)
    prices = [price(pool, rules, job, priorities) for job in candidates]
    bases = [sum(level) + 1 for level in zip(*prices, strict=True)]
    # Among sets of equal size (levels 4 and 5 see to that) the sum of `youth` is least for the youngest members.
    size = len(candidates)
    order = sorted(range(size), key=lambda place: (candidates[place].seq, candidates[place].id))
    youth = {place: (1 << size) - (1 << rank) for rank, place in enumerate(order)}
    weights = {}
    for place, (job, levels) in enumerate(zip(candidates, prices, strict=True)):
        weight = 0
        for level, base in zip(levels, bases, strict=True):
            weight = weight * base + level
        weights[job.id] = weight * (size + 1 << size) + youth[place]
    return weights


def _nodes_left_broken(pool: Pool, job: Job) -> int:
    mine: dict[int, int] = {}
    for task in job.tasks:
        if task.state != "released":
            mine[task.node] = mine.get(task.node, 0) | task.devices
    broken = 0
    for number, devices in mine.items():
        node = pool.nodes[number]
        staying = node.held.devices & ~node.releasing.devices | node.reserved.devices
        broken += bool(devices and staying & ~devices)
    return broken
