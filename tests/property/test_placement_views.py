"""What is kept up to date step by step equals what is computed anew: free resources, and the indices over them.

Nodes are offered in the same order by the index and by a scan of all nodes.
"""

from collections.abc import Iterator
from random import Random

import numpy as np
from tests.kits.builders import Sketch, group
from tests.property.busy_stories import Busy
from tests.property.decided import _step
from tests.property.placement_views import as_computed_anew
from tests.property.random_stories import Chance

from bailiff_core.model.units import whole_job
from bailiff_core.placement.cluster_resources import ClusterResources, slots_for
from bailiff_core.placement.free_gpu_index import FreeGpuIndex, free_gpu_index_of
from bailiff_core.placement.node_index import index_for
from bailiff_core.placement.node_scoring import offer_of, offers_of, shared_gpu_rank
from bailiff_core.placement.packing import ANYWHERE, PlacementScope, capacity, has_capacity
from bailiff_core.placement.task_requirements import TaskRequirements

NEEDS = [
    TaskRequirements.of(each)
    for each in (
        group(),
        group(cpu=2),
        group(gib=3),
        group(gpus=1),
        group(gpus=1, cpu=3),
        group(gpus=2, gib=1),
        group(gpus=3, gpu_models=("a100",)),
        group(gpus=1, gpu_models=("a100", "h100"), node_labels={"zone": "x"}),
        group(cpu=1, node_labels={"zone": "y"}),
        group(gpu_share_milli=250),
        group(gpu_share_milli=600, cpu=1),
        group(gpu_share_milli=500, gpu_devices=2),
        group(gpu_share_milli=500, gpu_models=("h100",)),
    )
]


def pool(random: Random) -> Sketch:
    """Some nodes of several kinds, with jobs on parts and on whole GPUs."""
    sketch = Sketch()
    for number in range(random.randint(2, 6)):
        gpus = random.choice((0, 1, 2, 4))
        models = random.choice((("h100",), ("a100",), ("h100", "a100")))
        labels = random.choice(({}, {"zone": "x"}, {"zone": "y"}))
        sketch.node(
            f"n{number}",
            gpus,
            cpu=random.choice((2, 4, 9)),
            gib=random.choice((3, 8)),
            slots=random.choice((3, 9)),
            labels=labels,
            models=models,
        )
        for device in range(gpus):
            phase = random.choice(("running", "running", "evicting", "reserved"))
            job = f"j{number}-{device}"
            if random.random() < 0.3:
                sketch.running(job, f"n{number}", [device], phase=phase)
            elif random.random() < 0.5:
                sketch.at(
                    sketch.job(job, group(gpu_share_milli=random.choice((250, 500, 600)))), (f"n{number}", [device]), phase=phase
                )
        if random.random() < 0.4:
            sketch.at(sketch.job(f"cpu-{number}", group(cpu=2, gib=1)), (f"n{number}", []))
    return sketch


def names(offers: Iterator[object]) -> list[tuple[str, int, int]]:
    return [(offer.node.name, offer.devices, offer.count) for offer in offers]  # type: ignore[attr-defined]


def compare(cluster: ClusterResources) -> None:
    """Each index with a scan of all nodes."""
    for need in NEEDS:
        eligible = cluster.eligible_nodes(need)
        kept, fresh = free_gpu_index_of(cluster, need), FreeGpuIndex(cluster, need)
        for part in ("rows", "free", "devices"):
            assert np.array_equal(getattr(kept, part), getattr(fresh, part)), (need, part)
        index = index_for(cluster, need.selector)
        for future in (False, True):
            total = sum(slots_for(need, node, node.future if future else node.now(), devices) for node, devices in eligible)
            for spread in (False, True):
                offered = names(index.offers(need, future=future, spread=spread))
                scanned = names(iter(offers_of(need, eligible, future=future, spread=spread)))
                assert sorted(offered) == sorted(scanned), need
                assert need.shared or offered == scanned, need
                scope = PlacementScope(spread=spread)
                assert capacity(cluster, need, scope, future=future) == total
            assert [has_capacity(cluster, need, wanted, ANYWHERE, future=future) for wanted in (total, total + 1)] == [
                total > 0,
                False,
            ]
        for spread in (False, True) if need.shared else ():
            ranked = [(shared_gpu_rank(need, node, devices, spread=spread), node, devices) for node, devices in eligible]
            best = min((entry for entry in ranked if entry[0] is not None), key=lambda entry: entry[0], default=None)
            found = index.best_shared_gpu_node(need, spread=spread)
            assert found == (None if best is None else offer_of(need, best[1], best[2], future=True))


def test_indices_of_free_resources_follow_every_trial() -> None:
    for seed in range(25):
        random = Random(seed)
        sketch = pool(random)
        cluster = ClusterResources.of(sketch.state)
        compare(cluster)
        marks, stay = [cluster.mark()], [job for job in sketch.state.jobs.values() if job.phase == "running"]
        for _ in range(4):
            if stay and random.random() < 0.7:
                cluster.evict(whole_job(stay.pop(random.randrange(len(stay)))))
                marks.append(cluster.mark())
            else:
                del marks[random.randrange(1, len(marks) + 1) :]
                cluster.rollback(marks[-1])
                stay = []
            compare(cluster)


def test_what_is_kept_over_a_history_equals_what_is_computed_anew() -> None:
    for shared in (True, False):
        random = Random(5)
        chance = Chance(lambda story: as_computed_anew(story.state), shared=shared)
        for _ in range(60):
            chance.cycle([_step(random) for _ in range(random.randint(1, 3))])
    random = Random(6)
    Busy(lambda story: as_computed_anew(story.state)).play(
        [(random.randint(0, 15), random.randint(0, 9), random.randint(0, 7)) for _ in range(50)]
    )
