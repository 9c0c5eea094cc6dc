"""Parts of victim search and placement compared with trying everything, in small pools made from seeds."""

from collections.abc import Iterator, Sequence
from itertools import product
from random import Random
from typing import Any

import pytest
from tests.kits.builders import HOUR, MINUTE, Sketch, group, requested_unit
from tests.property.victim_worlds import all_stand, chain, free_resources, random_world

from bailiff_core.model.resources import contains
from bailiff_core.model.state import Device, Job
from bailiff_core.model.units import Unit, whole_job
from bailiff_core.placement import ClusterResources, GangPlacement, StepBudget, place_unit
from bailiff_core.placement.cluster_resources import slots_for
from bailiff_core.placement.islands import islands_used
from bailiff_core.placement.joint_placement import place_jointly
from bailiff_core.placement.task_requirements import TaskRequirements
from bailiff_core.scheduling_snapshot import SchedulingSnapshot, current_snapshot
from bailiff_core.victims.candidates import CandidateIndex, Candidates, EvictionStep
from bailiff_core.victims.fit_oracle import PlacementOracle, SlotOracle
from bailiff_core.victims.knapsack import Knapsack
from bailiff_core.victims.objective import Fragmentation, FragmentationBound
from bailiff_core.victims.trial import Trial

SEEDS = range(30)


def full_pool(random: Random) -> Sketch:
    """Two or three nodes with jobs of one task, pairs over two nodes, elastic jobs and reservations, and a few free GPUs."""
    sketch = Sketch()
    free = {f"n{number}": list(range(random.choice((2, 3, 4)))) for number in range(random.choice((2, 3)))}
    for name, devices in free.items():
        sketch.node(name, gpus=len(devices))
    left_free = random.choice((0, 0, 1, 2))
    while sum(map(len, free.values())) > left_free and len(sketch.state.jobs) < 6:
        size, gpus = random.choice(((1, 1), (1, 1), (1, 2), (2, 1), (3, 1)))
        job = sketch.job(f"j{len(sketch.state.jobs)}", group(size, gpus=gpus), priority=random.choice((25, 50)))
        places = []
        for _ in range(size):
            nodes = [name for name, devices in free.items() if len(devices) >= gpus]
            if not nodes:
                break
            name = random.choice(nodes)
            places.append((name, [free[name].pop() for _ in range(gpus)]))
        if len(places) < size:
            job.demand = job.demand.model_copy(update={"tasks": (group(len(places) or 1, gpus=gpus),)})
        if not places:
            del sketch.state.jobs[job.id]
            sketch.state.queue.remove(job.id)
            break
        phase = "reserved" if random.random() < 0.15 else "running"
        sketch.at(job, *places, phase=phase, age=random.choice((MINUTE, HOUR)))  # type: ignore[arg-type]
        if len(places) > 1 and random.random() < 0.6:
            job.demand = job.demand.model_copy(update={"min_tasks": 1})
    return sketch


def prefixes(candidates: Candidates) -> Iterator[list[EvictionStep]]:
    """Every set of victims: so many of the first steps of each job."""
    chains = list(candidates.chains.values())
    for counts in product(*(range(len(each) + 1) for each in chains)):
        yield [step for each, count in zip(chains, counts, strict=True) for step in each[:count]]


class Slots:
    """Slots for tasks of one requirements after evictions, and the cheapest set that gains some, by trying all sets."""

    def __init__(
        self, snapshot: SchedulingSnapshot, need: TaskRequirements, index: CandidateIndex, candidates: Candidates
    ) -> None:
        self.cluster, self.need, self.index, self.candidates = snapshot.cluster, need, index, candidates

    def count(self) -> int:
        return sum(slots_for(self.need, node, node.future, mask) for node, mask in self.cluster.eligible_nodes(self.need))

    def least(self, short: int, without: EvictionStep | None = None) -> int | None:
        """Weight of the cheapest set, `None` if there is none."""
        wanted, weights = self.count() + short, []
        for steps in prefixes(self.candidates):
            if without is not None and without in steps:
                continue
            mark = self.cluster.mark()
            for step in steps:
                self.cluster.evict(step.unit)
            if self.count() >= wanted:
                weights.append(self.index.fragmentation.weight(steps))
            self.cluster.rollback(mark)
        return min(weights, default=None)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_cheapest_victims_for_a_number_of_slots(seed: int) -> None:
    random = Random(seed)
    sketch = full_pool(random)
    preemptor = sketch.job("preemptor", group(gpus=1), priority=75)
    snapshot = current_snapshot(sketch.state)
    index = CandidateIndex(snapshot)
    candidates = index.candidates("preempt", preemptor)
    need = TaskRequirements.of(group(gpus=random.choice((1, 1, 2))))
    slots = Slots(snapshot, need, index, candidates)
    knapsacks = {
        short: Knapsack(snapshot.cluster, need, candidates, index.fragmentation, single=short == 1) for short in (1, 2, 3)
    }

    def check() -> None:
        for short, knapsack in knapsacks.items():
            assert knapsack.free == slots.count()
            found, certain = knapsack.cheapest(short, StepBudget(10_000))
            assert certain
            assert (None if found is None else index.fragmentation.weight(found)) == slots.least(short), (seed, short)
            if found:
                kept = random.choice(found)
                other, certain = knapsack.cheapest(short, StepBudget(10_000), without=kept)
                assert certain
                assert other is None or kept not in other
                weight = None if other is None else index.fragmentation.weight(other)
                assert weight == slots.least(short, without=kept), (seed, short, kept.job.id)

    check()
    if candidates.chains:  # an earlier preemptor of the batch takes one of the jobs, whole
        job = sketch.state.jobs[random.choice(list(candidates.chains))]
        for step in candidates.chains[job.id]:
            snapshot.cluster.evict(step.unit)
            index.fragmentation.remove(step.unit)
        index.mark_evicted(job, 0)
        for knapsack in knapsacks.values():
            knapsack.touch([task.node for task in job.tasks])
        check()


# --- fragmentation


def fragmented(fragmentation: Fragmentation, evicted: Sequence[EvictionStep], undecided: Sequence[EvictionStep]) -> int:
    """Nodes that are certain to be left in partial use: of which something started is evicted and something else stays."""
    nodes = {use.node for step in evicted for use in step.uses if use.released}
    gone = dict.fromkeys(nodes, 0)
    for step in (*evicted, *undecided):
        for use in step.uses:
            if use.node in gone:
                gone[use.node] += use.amount
    return sum(fragmentation.in_use(number) > amount for number, amount in gone.items())


@pytest.mark.parametrize("seed", SEEDS)
def test_nodes_left_in_partial_use_while_steps_are_decided_one_by_one(seed: int) -> None:
    random = Random(seed)
    sketch = full_pool(random)
    index = CandidateIndex(current_snapshot(sketch.state))
    steps = index.candidates("preempt", sketch.job("preemptor", priority=75)).steps()
    bound = FragmentationBound(index.fragmentation, steps)
    decided: list[tuple[EvictionStep, bool]] = []
    for _ in range(40):
        if decided and (len(decided) == len(steps) or random.random() < 0.4):
            step, evicted = decided.pop()
            bound.change(step, evicted=evicted, by=-1)
        elif steps:
            step, evicted = steps[len(decided)], random.random() < 0.5
            bound.change(step, evicted=evicted, by=1)
            decided.append((step, evicted))
        gone = [step for step, evicted in decided if evicted]
        assert bound.nodes == fragmented(index.fragmentation, gone, steps[len(decided) :]), seed
        if len(decided) == len(steps):
            assert bound.nodes == index.fragmentation.count([step.uses for step in gone]), seed


# --- fit oracles


@pytest.mark.parametrize("seed", SEEDS)
def test_fit_oracles_know_whether_the_unit_fits_after_each_change(seed: int) -> None:
    random = Random(seed)
    sketch = full_pool(random)
    asked = group(random.choice((1, 2)), gpus=random.choice((1, 2)), nodes=random.choice(((), (), ("n0",))))
    unit = requested_unit(sketch.job("preemptor", asked, priority=75))
    snapshot = current_snapshot(sketch.state)
    cluster = snapshot.cluster
    steps = CandidateIndex(snapshot).candidates("preempt", unit.job).steps()
    need = TaskRequirements.of(asked)
    trial = Trial(snapshot, {}, unit, "preempt")
    oracles = (SlotOracle(trial, need, asked.count), PlacementOracle(trial, StepBudget(100_000)))

    def fits() -> bool:
        mark = cluster.mark()
        found = place_unit(cluster, unit, StepBudget(10_000), reserve=True)
        cluster.rollback(mark)
        return isinstance(found, GangPlacement)

    for oracle in oracles:
        start = cluster.mark()
        assert oracle.fits() is fits()
        for step in steps:
            oracle.evict(step)
            assert oracle.fits() is fits(), seed
            here = any(task.node == 0 for task in step.job.tasks if task.index in step.unit.indices)
            assert oracle.uses(step) is (here or not asked.nodes)
        for step in random.sample(steps, len(steps)):
            before = [(node.future, node.unallocated) for node in cluster.nodes.values()]
            kept = oracle.reprieve(step)
            assert oracle.fits() is fits(), seed
            if not kept:
                after = [(node.future, node.unallocated) for node in cluster.nodes.values()]
                assert before == after, "what the unit needs stays evicted"
                cluster.restore(step.unit)
                assert not fits(), "only what it needs"
                cluster.evict(step.unit)
        cluster.rollback(start)


# --- joint placement


@pytest.mark.parametrize("seed", range(60))
def test_several_units_are_placed_together_exactly_where_that_is_possible(seed: int) -> None:
    random = Random(seed)
    sketch, preemptor = random_world(random, "preempt")
    state = sketch.state
    running = [job for job in state.jobs.values() if job.phase in ("starting", "running")]
    victims = random.sample(running, min(len(running), random.randint(0, 3)))
    gone = {job.id: {index for unit in chain(job) for index in unit} for job in victims}
    cluster = ClusterResources.of(state)
    for job in victims:
        cluster.evict(whole_job(job))
    unit = requested_unit(preemptor)
    units = [unit, *(Unit(job, tuple(sorted(gone[job.id])), core=True) for job in victims)]
    tasks = [each.job.groups()[index] for each in units for index in each.indices]
    found = place_jointly(cluster, units, StepBudget(100_000))
    possible = all_stand(free_resources(state, gone), tuple(sorted(tasks, key=repr)))
    assert found != "gave-up"
    assert (found != "impossible") is possible, seed
    for each, place in zip(units, found, strict=True) if isinstance(found, list) else ():
        assert [task.index for task in place.tasks] == sorted(each.indices)
        for task in place.tasks:
            node = cluster.nodes[task.node]
            amount = TaskRequirements.of(each.job.groups()[task.index]).amount(node.units, task.devices)
            assert contains(node.future, amount), "it is free there, beside the others"
            cluster.take(node, amount, future=True)


# --- islands


def islands(random: Random) -> Sketch:
    """Two nodes of GPUs on islands of two or three, some of them in use."""
    sketch = Sketch()
    for name in "ab":
        layout = random.choice(("xxyy", "xxxyy", "xx", "xxyyzz", "xxx-"))
        node = sketch.node(name, gpus=len(layout))
        node.devices = [
            Device(number, f"{name}{number}", "h100", 1, island=island.strip("-")) for number, island in enumerate(layout)
        ]
        used = [number for number in range(len(layout)) if random.random() < 0.3]
        if used:
            sketch.running(f"on-{name}", name, used)
    return sketch


def best_use(sketch: Sketch, job: Job) -> str | None:
    """What the preference can come to on free GPUs: one island, one for each task, none; `None`: it does not fit."""
    count, gpus = job.demand.tasks[0].count, job.demand.tasks[0].gpu_milli // 1000
    cluster = ClusterResources.of(sketch.state)
    free = {
        (node.name, name): (node.now().devices & mask).bit_count()
        for node in cluster.nodes.values()
        for name, mask in node.islands.items()
    }
    places = sum(node.now().devices.bit_count() // gpus for node in cluster.nodes.values())
    if max(free.values(), default=0) >= count * gpus > 1:
        return "one"
    if sum(each // gpus for each in free.values()) >= count and gpus > 1:
        return "per task"
    return "none" if places >= count else None


@pytest.mark.parametrize("seed", range(80))
def test_islands_are_used_where_that_is_possible(seed: int) -> None:
    random = Random(seed)
    sketch = islands(random)
    job = sketch.job("asks", group(random.choice((1, 1, 2, 3)), gpus=random.choice((1, 2, 2, 3))))
    job.demand = job.demand.model_copy(update={"placement": "prefer nvlink"})
    cluster = ClusterResources.of(sketch.state)
    before = {number: node.now().devices for number, node in cluster.nodes.items()}
    found = place_unit(cluster, requested_unit(job), StepBudget(10_000))
    possible = best_use(sketch, job)
    assert isinstance(found, GangPlacement) is (possible is not None)
    if not isinstance(found, GangPlacement):
        return
    for task in found.tasks:
        assert not task.devices & ~before[task.node], "only what is free, and each GPU once"
        before[task.node] &= ~task.devices
    used = islands_used(sketch.state, job, found.tasks)
    kinds: dict[str, Any] = {"": "none", "none": "none", "per task": "per task"}
    if job.size * job.demand.tasks[0].gpu_milli > 1000:
        assert kinds.get(used, "one") == possible or (possible == "none" and used == "per task"), (seed, used, possible)
