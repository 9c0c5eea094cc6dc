"""Who tries a placement or an eviction leaves the free resources and the use as they were; a trial left behind spoils later ones.

Functions that return a placement may leave it allocated. All functions of this list are watched while random worlds are decided.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from types import FrameType
from typing import Any

from tests.kits.builders import requested_unit
from tests.property.busy_stories import Busy
from tests.property.decided import _step
from tests.property.random_stories import Chance
from tests.property.victim_worlds import in_racks, random_world, world_of_moves

import bailiff_core
from bailiff_core.placement import GangPlacement, StepBudget
from bailiff_core.scheduling_snapshot import current_snapshot
from bailiff_core.victims import SelectionBatch, select_victims

CORE = Path(bailiff_core.__file__).parent
WATCHED = {
    "victims/batch.py": ("select_batch", "select_victims"),
    "victims/search.py": ("_relaxed", "_fits_without", "_search_among", "_acceptable", "_arrangement", "_fits_with_restored"),
    "victims/consolidation.py": ("_consolidate", "places"),
    "victims/trial.py": ("over_limit_after", "find_place"),
    "victims/revalidate.py": ("revalidate_proposal", "_obstacle"),
    "victims/fit_oracle.py": ("_find",),
    "victims/relocation.py": ("relocate",),
    "actions/allocate.py": ("_find",),
    "actions/preempt.py": ("_cancelled_evictions",),
    "actions/requesting.py": ("_fits",),
    "actions/returning.py": ("taking_back",),
    "queue/backfill.py": ("find_place", "_fits"),
    "quota/quota_aware_placement.py": ("place_within_bounds", "find_within_bounds"),
    "placement/joint_placement.py": ("place_jointly",),
    "placement/topology.py": ("place",),
}
NAMED = {(str(CORE / file), name) for file, names in WATCHED.items() for name in names}


def resources_of(frame: FrameType) -> tuple[Any, Any]:
    """The cluster and the use that the function works on; None: it has none."""
    given = frame.f_locals
    owner = given.get("self")
    snapshot = given.get("snapshot") or getattr(owner, "snapshot", None) or getattr(owner, "_snapshot", None)
    trial = getattr(given.get("problem") or owner, "trial", None)
    for holder in (given.get("batch"), trial):
        snapshot = snapshot or getattr(holder, "snapshot", None)
    state = given.get("state") or getattr(owner, "_state", None)
    if snapshot is None and state is not None:
        snapshot = current_snapshot(state)
    cluster = given.get("cluster") or getattr(owner, "cluster", None) or getattr(owner, "_cluster", None)
    return cluster or getattr(snapshot, "cluster", None), getattr(snapshot, "usage", None)


def look(frame: FrameType) -> tuple[Any, ...]:
    """The free resources of all nodes, and the use of all projects."""
    cluster, usage = resources_of(frame)
    nodes = {} if cluster is None else {number: (node.unallocated, node.future) for number, node in cluster.nodes.items()}
    return nodes, {} if usage is None else {name: usage.allocated(name) for name in usage.tree.branches}


@contextmanager
def watched(seen: dict[tuple[str, str], None]) -> Iterator[None]:
    """Fails if a watched function leaves something behind. seen: gets those that ran."""
    before: dict[int, tuple[Any, ...]] = {}
    left: list[str] = []

    def trace(frame: FrameType, event: str, result: object) -> None:
        code = frame.f_code
        if event not in ("call", "return") or (code.co_filename, code.co_name) not in NAMED:
            return
        if event == "call":
            before[id(frame)] = look(frame)
            return
        known = before.pop(id(frame), None)
        seen[code.co_filename, code.co_name] = None
        if known is not None and not isinstance(result, GangPlacement) and look(frame) != known:
            left.append(f"{code.co_filename}: {code.co_name} leaves a trial behind")

    sys.setprofile(trace)
    try:
        yield
    finally:
        sys.setprofile(None)
    assert not left, left[0]


def searches(seen: dict[tuple[str, str], None]) -> None:
    """Victims in small pools, for each action."""
    worlds: list[tuple[Callable[..., Any], int]] = [(random_world, seed) for seed in range(45)]
    worlds += [(world_of_moves, seed) for seed in (5, 66, 89, 98, 111, 137)]  # in these, victims move that a reclaim may not take
    for world, seed in worlds:
        random = Random(seed)
        action = ("preempt", "reclaim", "consolidate")[seed % 3] if world is random_world else "reclaim"
        sketch, preemptor = world(random, action)
        if seed % 4 == 3 and world is random_world:
            in_racks(random, sketch)
        batch = SelectionBatch.on(current_snapshot(sketch.state))
        with watched(seen):
            select_victims(batch, requested_unit(preemptor), action, StepBudget(20_000))  # type: ignore[arg-type]


def histories(seen: dict[tuple[str, str], None]) -> None:
    """Whole decision cycles."""
    random = Random(1)
    for shared in (True, False):
        chance = Chance(shared=shared)
        for _ in range(30):
            with watched(seen):
                chance.cycle([_step(random) for _ in range(3)])
    with watched(seen):
        Busy().play([(random.randint(0, 15), random.randint(0, 9), random.randint(0, 7)) for _ in range(30)])


def test_nothing_that_was_tried_is_left() -> None:
    seen: dict[tuple[str, str], None] = {}
    searches(seen)
    histories(seen)
    assert seen.keys() == NAMED, f"not seen at all: {NAMED - seen.keys()}"
