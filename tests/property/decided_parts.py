"""Worlds for `decided`: answers that may be stale, batches of requests, and places on islands of GPUs."""

from collections.abc import Iterator
from random import Random

from tests.kits.builders import GIB, Sketch, group, requested_unit
from tests.property.batches import WORLDS, requests

from bailiff_core.model.gpu_shares import task_resources
from bailiff_core.model.policy import Action
from bailiff_core.model.resources import remove
from bailiff_core.model.state import Device, Job, OpenRequest, PoolState
from bailiff_core.placement import GangPlacement, StepBudget, place_unit
from bailiff_core.placement.islands import islands_used
from bailiff_core.queue.order import shares_now
from bailiff_core.scheduling_snapshot import current_snapshot
from bailiff_core.victims import Accepted, SelectionBatch, revalidate_proposal, select_victims
from bailiff_core.victims.batch import select_batch

ACTIONS: tuple[Action, ...] = ("preempt", "reclaim", "consolidate")
Texts = Iterator[str]


def stale(random: Random) -> Texts:
    """Whether answers still hold in twelve small pools in which something has changed since."""
    for number in range(12):
        for _ in range(8):
            sketch, preemptor = WORLDS[number % len(WORLDS)](random, ACTIONS[number // 4])
            state = sketch.state
            batch = SelectionBatch.on(current_snapshot(state))
            answer = select_victims(batch, requested_unit(preemptor), ACTIONS[number // 4], StepBudget(5_000))
            if answer.victims:
                break
        for _ in range(random.choice((0, 1, 1, 2))):
            _change(random, state, preemptor)
        state.indices.snapshot = None
        snapshot = current_snapshot(state)
        found = revalidate_proposal(snapshot, shares_now(snapshot), preemptor, answer)
        if isinstance(found, Accepted):
            yield repr((found.unit.indices, found.victims, found.dropped, found.placement))
        else:
            yield found.reason


def _change(random: Random, state: PoolState, preemptor: Job) -> None:
    """Something that happens in a pool: to a job, to a node, or to the policy."""
    job = random.choice(list(state.jobs.values()))
    node = random.choice(list(state.nodes.values()))
    what = random.randrange(10)
    if what == 0 and job.phase in ("starting", "running"):
        for task in job.tasks:
            on = state.nodes[task.node]
            remove(on.allocated, *task_resources(on, job.group(task.index), task.devices))
        job.tasks, job.phase = [], "succeeded"
        state.active.pop(job.id)
    elif what == 1:
        job.attempt += 1
    elif what == 2:
        job.priority = random.choice((25, 50, 75))
    elif what == 3:
        job.preemptible = not job.preemptible
    elif what == 4:
        job.last_start = state.now
    elif what == 5:
        node.quarantined |= 1
    elif what == 6:
        node.capacity.cpu_milli = 1000
    elif what == 7:
        node.state = "unreachable"
    elif what == 8:
        preemptor.demand = preemptor.demand.model_copy(update={"tasks": (group(gpus=random.choice((1, 2))),), "min_tasks": None})
    else:
        rules = state.rules.preemption.model_copy(update={"max_migrations": random.choice((0, 1))})
        state.policy = state.rules.model_copy(update={"preemption": rules})


def batches(random: Random) -> Texts:
    """Answers for two or three requests at once in six small pools."""
    for number in range(6):
        sketch, first = WORLDS[number % len(WORLDS)](random, random.choice(ACTIONS))
        opened = [OpenRequest(at, job.id) for at, job in enumerate(requests(random, sketch, first), 1)]
        yield repr(select_batch(sketch.state, opened, 5_000 if number % 3 else random.randint(1, 100)))


def islands(random: Random) -> Texts:
    """Placements on islands of GPUs in twenty tiny pools."""
    for _ in range(20):
        sketch = Sketch()
        for name in "abc"[: random.choice((1, 2, 3))]:
            layout = random.choice(("xxyy", "xxxyy", "xx", "xxyyzz", "xxx-"))
            node = sketch.node(name, gpus=len(layout), cpu=8)
            kinds = [layout[number].strip("-") for number in range(len(layout))]
            node.devices = [Device(number, f"{name}{number}", "h100", GIB, island=kind) for number, kind in enumerate(kinds)]
            for number in range(len(layout)):
                if random.random() < 0.4:
                    sketch.running(f"{name}{number}", name, [number], phase=random.choice(("running", "running", "evicting")))
        groups = [group(random.choice((1, 1, 2, 3)), gpus=random.choice((1, 2, 2, 3)))]
        groups += [group(gpus=random.choice((0, 1, 2)), cpu=1)] if random.random() < 0.4 else []
        job = sketch.job("asks", *groups)
        spread = random.choice((None, None, "spread"))
        job.demand = job.demand.model_copy(update={"placement": "prefer nvlink", "pack": spread})
        budget, reserve = StepBudget(5_000), random.random() < 0.3
        found = place_unit(current_snapshot(sketch.state).cluster, requested_unit(job), budget, reserve=reserve)
        tasks = found.tasks if isinstance(found, GangPlacement) else ()
        yield repr((found, islands_used(sketch.state, job, tasks), budget))
