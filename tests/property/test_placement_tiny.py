"""Parts of GPUs and topologies compared with exhaustive search, and cached cluster resources compared with the pool."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kits.builders import Sketch, requested_unit
from tests.kits.examples import examples
from tests.property.tiny_pools import Left, occupy, placements, random_tasks, stands_together, tiny_pool

from bailiff_core.model.demand import JobDemand
from bailiff_core.model.gpu_shares import task_resources
from bailiff_core.model.placement_ranges import bits
from bailiff_core.model.resources import remove
from bailiff_core.model.state import Job, PoolState
from bailiff_core.model.units import whole_job
from bailiff_core.placement import (
    ClusterResources,
    GangPlacement,
    NoFit,
    StepBudget,
    decode_placement,
    encode_placement,
    place_unit,
)
from bailiff_core.placement.packing import PlacementScope, offers
from bailiff_core.placement.task_requirements import TaskRequirements, requirements_of
from bailiff_core.placement.topology_domains import TopologyDomains

SEEDS = st.integers(0, 2**48)


def check(seed: int, *, topology: bool) -> None:
    sketch, preemptor = tiny_pool(Random(seed), topology=topology)
    state = sketch.state
    cluster = ClusterResources.of(state)
    before = resources_of(cluster)
    found = place_unit(cluster, requested_unit(preemptor), StepBudget(50_000))
    if isinstance(found, NoFit):
        assert resources_of(cluster) == before
        assert found.why
        possible = next(placements(state, preemptor), None)
        if found.kind == "impossible":
            assert possible is None, f"{found.why}, but {possible} is possible"
        else:
            assert len(preemptor.demand.sub_groups) > 0, "pools of this size need few search steps"
        return
    assert [task.index for task in found.tasks] == list(range(preemptor.size))
    assert tuple(decode_placement(preemptor, encode_placement(found))) == found.tasks
    assert stands_together(state, preemptor, {task.index: (task.node, ()) for task in found.tasks})
    stands(state, preemptor, found)
    cluster.rollback(0)
    assert resources_of(cluster) == before


def stands(state: PoolState, preemptor: Job, found: GangPlacement) -> None:
    """No node is over-allocated after all evictions, and, if it starts at once, now."""
    for now in (False,) if found.future else (False, True):
        left = {node.number: Left(state, node, now=now) for node in state.nodes.values()}
        for task, group in zip(found.tasks, preemptor.groups(), strict=True):
            devices = tuple(bits(task.devices))
            assert devices in left[task.node].choices(group)
            assert left[task.node].fits(group, devices), f"task {task.index} at {task}, now: {now}"
            left[task.node].take(group, devices)
        assert not any(room.overfull() for room in left.values())


@examples(400)
@given(seed=SEEDS)
def test_parts_of_gpus_are_placed_exactly_when_a_placement_exists(seed: int) -> None:
    check(seed, topology=False)


@examples(400)
@given(seed=SEEDS)
def test_topology_rules_are_kept_and_a_refusal_is_proven(seed: int) -> None:
    check(seed, topology=True)


@examples(300)
@given(seed=SEEDS)
def test_a_preference_never_keeps_a_job_pending(seed: int) -> None:
    sketch, preemptor = tiny_pool(Random(seed), topology=True)
    if any(group.gpu_share_milli or group.gpu_share_bytes for group in preemptor.demand.tasks) or preemptor.demand.sub_groups:
        return
    rule = preemptor.demand.topology
    if len(requirements_of(preemptor.demand)) > 1 or rule is None or rule.preferred is None:
        return
    wish = place_unit(ClusterResources.of(sketch.state), requested_unit(preemptor), StepBudget(50_000))
    plain = rule.model_copy(update={"preferred": None})
    preemptor.demand = preemptor.demand.model_copy(update={"topology": plain if plain.required else None})
    without = place_unit(ClusterResources.of(sketch.state), requested_unit(preemptor), StepBudget(50_000))
    assert isinstance(wish, GangPlacement) == isinstance(without, GangPlacement)
    if isinstance(wish, GangPlacement) and isinstance(without, GangPlacement):
        assert wish.future <= without.future


@pytest.mark.long
@settings(max_examples=20_000, deadline=None)
@given(seed=SEEDS, topology=st.booleans())
def test_tiny_pools_at_length(seed: int, topology: bool) -> None:
    check(seed, topology=topology)


@examples(75)
@given(seed=SEEDS)
def test_cached_cluster_resources_equal_the_pool(seed: int) -> None:
    keep_cluster_resources(seed)


@pytest.mark.long
@settings(max_examples=3_000, deadline=None)
@given(seed=SEEDS)
def test_cached_cluster_resources_equal_the_pool_at_length(seed: int) -> None:
    keep_cluster_resources(seed)


def keep_cluster_resources(seed: int) -> None:
    random = Random(seed)
    sketch, preemptor = tiny_pool(random, topology=True)
    state = sketch.state
    cluster = ClusterResources.of(state)
    for number in range(random.randint(1, 12)):
        look(cluster, random)
        mark = cluster.mark()
        for job in list(state.jobs.values()):
            if job.tasks and random.random() < 0.3:
                cluster.evict(whole_job(job))
        place_unit(cluster, requested_unit(preemptor), StepBudget(100))
        if random.random() < 0.5:
            cluster.rollback(mark)
        cluster.refresh(state, something_happens(random, sketch, f"new-{number}"))
        fresh = ClusterResources.of(state)
        assert resources_of(cluster) == resources_of(fresh)
        assert list(cluster.nodes) == list(fresh.nodes)
        assert look(cluster, Random(seed)) == look(fresh, Random(seed))
        for job in state.jobs.values():
            assert [(node.number, room) for node, room in cluster.allocation_of(whole_job(job))] == [
                (node.number, room) for node, room in fresh.allocation_of(whole_job(job))
            ]


def something_happens(random: Random, sketch: Sketch, name: str) -> list[int]:
    """One random change of the pool, as by the fold; the affected nodes."""
    state = sketch.state
    node = random.choice(list(state.nodes.values()))
    what = random.randrange(6)
    if what == 0:
        node.state = random.choice(("ready", "ready", "unreachable", "lost"))
    elif what == 1:
        node.quarantined = random.randrange(1 << len(node.devices)) if random.random() < 0.5 else 0
    elif what == 2:
        node.labels = {level: random.choice("ab") for level in ("zone", "rack") if random.random() < 0.8}
    elif what == 3:
        sketch.node(name, gpus=random.randint(0, 3), cpu=4, labels={"zone": "a", "rack": "b"})
        return [len(state.nodes) - 1]
    elif what == 4:
        occupy(random, sketch, name)
        return [task.node for task in state.jobs[name].tasks] if name in state.jobs else []
    else:
        running = [job for job in state.jobs.values() if job.phase == "running"]
        if not running:
            return []
        job = random.choice(running)
        (task,) = job.tasks
        stood = state.nodes[task.node]
        remove(stood.allocated, *task_resources(stood, job.groups()[0], task.devices))
        task.state, job.phase = "released", "succeeded"
        return [stood.number]
    return [node.number]


def resources_of(cluster: ClusterResources) -> dict[int, tuple[object, ...]]:
    return {
        number: (node.usable, node.labels, node.unallocated, node.future, node.now()) for number, node in cluster.nodes.items()
    }


def look(cluster: ClusterResources, random: Random) -> list[object]:
    """Results of the cached indices for some requirements, and for topology domains."""
    seen: list[object] = []
    for _ in range(3):
        group = random_tasks(random)
        need = TaskRequirements.of(group)
        for later in (False, True):
            for spread in (False, True):
                found = offers(cluster, need, PlacementScope(spread=spread), future=later)
                seen.append([(offer.node.number, offer.devices, offer.count) for offer in found])
        place = place_unit(cluster, asking_for(group), StepBudget(100))
        seen.append(place)
        if isinstance(place, GangPlacement):
            cluster.rollback(cluster.mark() - len(place.tasks))
    kept = cluster.views(TopologyDomains).setdefault(("zone", "rack"), TopologyDomains(cluster, ("zone", "rack")))
    kept.refresh()
    domains = [domain for level in (0, 1) for domain in kept.at(level)]
    return [*seen, sorted((domain.key, [node.number for node in domain.nodes], domain.free) for domain in domains)]


def asking_for(group):
    sketch = Sketch()
    job = sketch.job("x", group)
    job.demand = JobDemand(job="x", tasks=(group,))
    return requested_unit(job)
