"""An elastic victim that is evicted whole keeps the largest size for which there is another place."""

from hypothesis import given
from hypothesis import strategies as st
from tests.kits.examples import examples
from tests.kits.snapshots import snapshot

from bailiff_core.plan import Planning

GPUS = 8


@examples(150)
@given(
    gpus=st.sampled_from((1, 2, 4)),
    least=st.integers(1, GPUS),
    free=st.lists(st.integers(1, GPUS - 1), max_size=3),
    pack=st.sampled_from(("binpack", "spread")),
)
def test_it_is_moved_with_as_many_tasks_as_fit_elsewhere(gpus, least, free, pack):
    tasks = GPUS // gpus
    least = min(least, tasks)
    document = {
        "nodes": [{"name": "full", "gpus": GPUS}, *({"name": f"n{at}", "gpus": count} for at, count in enumerate(free))],
        "jobs": [
            {
                "name": "gang",
                "class": "train",
                "gpus": gpus,
                "min_tasks": least,
                "pack": pack,
                "tasks": [{"node": "full"} for _ in range(tasks)],
            },
            {"name": "serve", "class": "inference", "gpus": GPUS},
        ],
    }
    found = Planning(snapshot(document)).round()
    places = sum(count // gpus for count in free)
    moved = min(places, tasks) if places >= least else 0
    after = [line.after.state for line in found.tasks if line.job == "gang"]
    assert sorted(after) == sorted(["moved"] * moved + ["evicted"] * (tasks - moved))
