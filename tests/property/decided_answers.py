"""Worlds for `decided`: what victim selection answers in pools with every feature, for every job that waits and every action.

And where gangs are placed of which some tasks ask for MiB of a device, so that their use depends on the device.
"""

from collections.abc import Iterator
from random import Random

from tests.kits.builders import GIB, Sketch, group, requested_unit
from tests.kits.log_builder import policy
from tests.property.contended_pools import contended_pool
from tests.property.rich_stories import Rich
from tests.property.small_limits import small_limits

from bailiff_core.model.demand import TaskGroup
from bailiff_core.model.policy import Action
from bailiff_core.model.state import Job, OpenRequest, PoolState
from bailiff_core.model.units import Unit, next_unit
from bailiff_core.placement import StepBudget, place_unit
from bailiff_core.quota.quota_aware_placement import place_within_bounds
from bailiff_core.scheduling_snapshot import current_snapshot
from bailiff_core.victims import SelectionBatch, select_victims
from bailiff_core.victims.batch import select_batch

ACTIONS: tuple[Action, ...] = ("preempt", "reclaim", "consolidate")
MOST_JOBS = 8
Texts = Iterator[str]


def asked(random: Random) -> Texts:
    """Answers at four moments of a history of a pool with every feature."""
    return _asked(random)


def asked_limited(random: Random) -> Texts:
    """The same with small limits of the searches."""
    with small_limits(random):
        yield from _asked(random)


def contended(random: Random) -> Texts:
    """Answers in eight full pools of mixed nodes."""
    return _contended(random)


def contended_limited(random: Random) -> Texts:
    """The same with small limits of the searches."""
    with small_limits(random):
        yield from _contended(random)


def bounds(random: Random) -> Texts:
    """Places within a limit in twenty pools of devices of several sizes, and what the project uses then."""
    for _ in range(20):
        sketch = Sketch()
        limit = {"gpus": random.choice((0.5, 1, 1.5, 2, 3)), **({"cpus": random.choice((2, 8))} if random.random() < 0.2 else {})}
        projects = [{"name": "a", "limit": limit, "quota": {"gpus": random.choice((0, 1, -1))}}, {"name": "b"}]
        sketch.state.policy = policy(projects=projects, topologies=[{"name": "hall", "levels": ["zone"]}])
        for name in ("n0", "n1", "n2", "n3")[: random.randint(2, 4)]:
            node = sketch.node(
                name, gpus=random.choice((1, 1, 2, 3)), cpu=random.choice((4, 16)), labels={"zone": random.choice("xy")}
            )
            sizes = random.choice(((16,), (40,), (80,), (16, 80)))
            for device in node.devices:
                device.memory_bytes = sizes[device.number % len(sizes)] * GIB
            if random.random() < 0.4:
                sketch.running(f"on-{name}", name, [0], phase=random.choice(("running", "evicting"))).project = random.choice(
                    "ab"
                )
        job = sketch.job("asks", *_by_bytes(random), preemptible=random.random() < 0.7)
        job.project, job.demand = "a", job.demand.model_copy(update={"project": "a"})
        sketch.state.indices.snapshot = None
        snapshot, budget = current_snapshot(sketch.state), StepBudget(random.choice((2_000, 2_000, 5)))
        found = place_within_bounds(snapshot, requested_unit(job), budget, reserve=random.random() < 0.4)
        yield repr((found, budget))


def _by_bytes(random: Random) -> list[TaskGroup]:
    of = random.choice
    groups = [group(of((1, 2, 3, 4)), gpu_share_bytes=of((4, 8, 10, 16, 20)) * GIB, nodes=of(((), (), ("n0",), ("n0", "n2"))))]
    groups += of(([], [group(gpus=1)], [group(of((1, 2)), cpu=1)], [group(gpu_share_bytes=8 * GIB, cpu=1)]))
    random.shuffle(groups)
    return groups


def _asked(random: Random) -> Texts:
    rich = Rich(random, lambda story: None)
    for _ in range(4):
        rich.play(random.randint(8, 20))
        state = rich.state
        jobs = [job for job in state.jobs.values() if job.phase in ("pending", "starting", "running")]
        units = [unit for job in jobs if (unit := next_unit(job)) is not None][:MOST_JOBS]
        for unit in units:
            yield from _answers(state, unit, random.choice((2_000, 2_000, random.randint(1, 200))))
            yield _place(state, unit, reserve=random.random() < 0.3)
        yield _batch(state, [unit.job for unit in units], 2_000)


def _contended(random: Random) -> Texts:
    for number in range(8):
        sketch, preemptors = contended_pool(random)
        steps = 2_000 if number % 4 else random.randint(1, 300)
        unit = next_unit(preemptors[0])
        assert unit is not None
        yield from _answers(sketch.state, unit, steps)
        yield _batch(sketch.state, preemptors, steps)


def _answers(state: PoolState, unit: Unit, steps: int) -> Texts:
    for action in ACTIONS:
        budget = StepBudget(steps)
        answer = select_victims(SelectionBatch.on(current_snapshot(state)), unit, action, budget)
        yield repr((answer, budget))


def _place(state: PoolState, unit: Unit, *, reserve: bool) -> str:
    budget, snapshot = StepBudget(2_000), current_snapshot(state)
    mark = snapshot.mark()
    found = place_unit(snapshot.cluster, unit, budget, reserve=reserve)
    snapshot.rollback(mark)
    return repr((found, budget))


def _batch(state: PoolState, jobs: list[Job], steps: int) -> str:
    return repr(select_batch(state, [OpenRequest(at, job.id) for at, job in enumerate(jobs, 1)], steps))
