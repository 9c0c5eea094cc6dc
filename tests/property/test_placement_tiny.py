"""Parts of GPUs and topologies against trying everything, and rooms that follow the pool."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.builders import Sketch, asking
from tests.property.tiny_pools import Left, occupy, placements, random_tasks, stands_together, tiny_pool

from bailiff_core.model.demand import JobDemand
from bailiff_core.model.places import bits
from bailiff_core.model.pool import Job, Pool
from bailiff_core.model.room import remove
from bailiff_core.model.sharing import amount_of
from bailiff_core.model.units import whole
from bailiff_core.placement import Budget, GangPlace, NoFit, Rooms, from_shares, place_unit, to_shares
from bailiff_core.placement.domains import Domains
from bailiff_core.placement.need import Need, needs_of
from bailiff_core.placement.packing import Where, offers

SEEDS = st.integers(0, 2**48)


def check(seed: int, *, topology: bool) -> None:
    sketch, asker = tiny_pool(Random(seed), topology=topology)
    pool = sketch.pool
    rooms = Rooms.of(pool)
    before = rooms_of(rooms)
    found = place_unit(rooms, asking(asker), Budget(50_000))
    if isinstance(found, NoFit):
        assert rooms_of(rooms) == before
        assert found.why
        possible = next(placements(pool, asker), None)
        if found.kind == "impossible":
            assert possible is None, f"{found.why}, and yet {possible}"
        else:
            assert len(asker.demand.sub_groups) > 0, "few steps are needed to be sure of pools like these"
        return
    assert [task.index for task in found.tasks] == list(range(asker.size))
    assert tuple(from_shares(asker, to_shares(found))) == found.tasks
    assert stands_together(pool, asker, {task.index: (task.node, ()) for task in found.tasks})
    stands(pool, asker, found)
    rooms.rollback(0)
    assert rooms_of(rooms) == before


def stands(pool: Pool, asker: Job, found: GangPlace) -> None:
    """Nothing is over-filled in the end, and, where it starts at once, now."""
    for now in (False,) if found.later else (False, True):
        left = {node.number: Left(pool, node, now=now) for node in pool.nodes.values()}
        for task, group in zip(found.tasks, asker.groups(), strict=True):
            devices = tuple(bits(task.devices))
            assert devices in left[task.node].choices(group)
            assert left[task.node].fits(group, devices), f"task {task.index} at {task}, now: {now}"
            left[task.node].take(group, devices)
        assert not any(room.overfull() for room in left.values())


@settings(max_examples=400, deadline=None)
@given(seed=SEEDS)
def test_parts_of_gpus_are_placed_exactly_when_they_can_be(seed: int) -> None:
    check(seed, topology=False)


@settings(max_examples=400, deadline=None)
@given(seed=SEEDS)
def test_rules_of_topology_are_kept_and_a_no_is_a_proof(seed: int) -> None:
    check(seed, topology=True)


@settings(max_examples=300, deadline=None)
@given(seed=SEEDS)
def test_a_preference_is_never_a_reason_to_wait(seed: int) -> None:
    sketch, asker = tiny_pool(Random(seed), topology=True)
    if any(group.gpu_share_milli or group.gpu_share_bytes for group in asker.demand.tasks) or asker.demand.sub_groups:
        return
    rule = asker.demand.topology
    if len(needs_of(asker.demand)) > 1 or rule is None or rule.preferred is None:
        return
    wish = place_unit(Rooms.of(sketch.pool), asking(asker), Budget(50_000))
    plain = rule.model_copy(update={"preferred": None})
    asker.demand = asker.demand.model_copy(update={"topology": plain if plain.required else None})
    without = place_unit(Rooms.of(sketch.pool), asking(asker), Budget(50_000))
    assert isinstance(wish, GangPlace) == isinstance(without, GangPlace)
    if isinstance(wish, GangPlace) and isinstance(without, GangPlace):
        assert wish.later <= without.later


@pytest.mark.long
@settings(max_examples=20_000, deadline=None)
@given(seed=SEEDS, topology=st.booleans())
def test_tiny_pools_at_length(seed: int, topology: bool) -> None:
    check(seed, topology=topology)


@settings(max_examples=75, deadline=None)
@given(seed=SEEDS)
def test_rooms_that_are_kept_are_what_the_pool_says(seed: int) -> None:
    keep_rooms(seed)


@pytest.mark.long
@settings(max_examples=3_000, deadline=None)
@given(seed=SEEDS)
def test_rooms_that_are_kept_are_what_the_pool_says_at_length(seed: int) -> None:
    keep_rooms(seed)


def keep_rooms(seed: int) -> None:
    random = Random(seed)
    sketch, asker = tiny_pool(random, topology=True)
    pool = sketch.pool
    rooms = Rooms.of(pool)
    for number in range(random.randint(1, 12)):
        look(rooms, random)
        mark = rooms.mark()
        for job in list(pool.jobs.values()):
            if job.tasks and random.random() < 0.3:
                rooms.evict(whole(job))
        place_unit(rooms, asking(asker), Budget(100))
        if random.random() < 0.5:
            rooms.rollback(mark)
        rooms.refresh(pool, something_happens(random, sketch, f"new-{number}"))
        fresh = Rooms.of(pool)
        assert rooms_of(rooms) == rooms_of(fresh)
        assert list(rooms.nodes) == list(fresh.nodes)
        assert look(rooms, Random(seed)) == look(fresh, Random(seed))
        for job in pool.jobs.values():
            assert [(node.number, room) for node, room in rooms.standing(whole(job))] == [
                (node.number, room) for node, room in fresh.standing(whole(job))
            ]


def something_happens(random: Random, sketch: Sketch, name: str) -> list[int]:
    """One change of the pool as the fold would make it, and the nodes it is about."""
    pool = sketch.pool
    node = random.choice(list(pool.nodes.values()))
    what = random.randrange(6)
    if what == 0:
        node.state = random.choice(("ready", "ready", "unreachable", "lost"))
    elif what == 1:
        node.quarantined = random.randrange(1 << len(node.devices)) if random.random() < 0.5 else 0
    elif what == 2:
        node.labels = {level: random.choice("ab") for level in ("zone", "rack") if random.random() < 0.8}
    elif what == 3:
        sketch.node(name, gpus=random.randint(0, 3), cpu=4, labels={"zone": "a", "rack": "b"})
        return [len(pool.nodes) - 1]
    elif what == 4:
        occupy(random, sketch, name)
        return [task.node for task in pool.jobs[name].tasks] if name in pool.jobs else []
    else:
        running = [job for job in pool.jobs.values() if job.phase == "running"]
        if not running:
            return []
        job = random.choice(running)
        (task,) = job.tasks
        stood = pool.nodes[task.node]
        remove(stood.held, *amount_of(stood, job.groups()[0], task.devices))
        task.state, job.phase = "released", "succeeded"
        return [stood.number]
    return [node.number]


def rooms_of(rooms: Rooms) -> dict[int, tuple[object, ...]]:
    return {number: (node.usable, node.labels, node.unheld, node.later, node.now()) for number, node in rooms.nodes.items()}


def look(rooms: Rooms, random: Random) -> list[object]:
    """What the kept indices say about some needs, and about domains."""
    seen: list[object] = []
    for _ in range(3):
        group = random_tasks(random)
        need = Need.of(group)
        for later in (False, True):
            for spread in (False, True):
                found = offers(rooms, need, Where(spread=spread), later=later)
                seen.append([(offer.node.number, offer.suited, offer.count) for offer in found])
        place = place_unit(rooms, asking_for(group), Budget(100))
        seen.append(place)
        if isinstance(place, GangPlace):
            rooms.rollback(rooms.mark() - len(place.tasks))
    kept = rooms.domains.setdefault(("zone", "rack"), Domains(rooms, ("zone", "rack")))
    kept.refresh()
    domains = [domain for level in (0, 1) for domain in kept.at(level)]
    return [*seen, sorted((domain.key, [node.number for node in domain.nodes], domain.free) for domain in domains)]


def asking_for(group):
    sketch = Sketch()
    job = sketch.job("x", group)
    job.demand = JobDemand(job="x", tasks=(group,))
    return asking(job)
