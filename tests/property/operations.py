"""How much the engine does for decisions on full clusters, counted: no clock, so that each count is exact on every machine.

`python -m tests.property.operations` writes operations.json.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from tests.bench import engine, projects
from tests.kits.builders import HOUR

from bailiff_core import decision_cycle
from bailiff_core.decision_cycle import build_indices
from bailiff_core.model.state import GpuReservation
from bailiff_core.placement.allocation_index import AllocationIndex
from bailiff_core.placement.step_budget import StepBudget
from bailiff_core.quota.holdings import Held
from bailiff_core.victims.batch import SOLVERS
from bailiff_core.victims.candidates import CandidateIndex
from bailiff_core.victims.knapsack import Knapsack
from bailiff_core.victims.permitted_sets import PermittedSets
from bailiff_core.victims.price_bounds import Shortlist
from bailiff_core.victims.search import GeneralSearch

FILE = Path(__file__).with_name("operations.json")
SPARSE = ((4, 4), (2, 6), (1, 3, 4))
"""GPUs of the jobs of a node: fewer and larger ones than in the bench, so that the largest cluster is made in a second."""
DECISIONS = 20

Counts = dict[str, int]


@contextmanager
def counting() -> Iterator[Counter[str]]:
    """Counts operations while it is open."""
    found: Counter[str] = Counter()
    counted: list[tuple[Any, str, str, Callable[..., int]]] = [
        (decision_cycle, "enact", "records", lambda *_: 1),
        (StepBudget, "spend", "steps", lambda _, steps=1: steps),
        (CandidateIndex, "_build", "candidates built", lambda *about: len(about[-1])),
        (CandidateIndex, "_judge", "jobs judged one by one", lambda *_: 1),
        (Knapsack, "_search", "components searched", lambda *_: 1),
        (PermittedSets, "_sets_of", "components searched for what is permitted", lambda *_: 1),
        (Knapsack, "_parts", "nodes searched", lambda knapsack: len(knapsack.eligible_nodes)),
        (Shortlist, "_look_at", "bounds looked at", lambda *_: 1),
        (AllocationIndex, "_count", "nodes indexed", lambda *_: 1),
        (Held, "add_gpus", "holdings added up", lambda *_: 1),
        (GeneralSearch, "__init__", "searches over all jobs", lambda *_: 1),
        (type(SOLVERS[0]), "solve", "searches", lambda *_: 1),
    ]
    with ExitStack() as patches:
        for owner, name, what, amount in counted:
            patches.enter_context(patch.object(owner, name, _counted(getattr(owner, name), found, what, amount)))
        yield found


def _counted(function: Callable[..., Any], found: Counter[str], what: str, amount: Callable[..., int]) -> Callable[..., Any]:
    def call(*args: Any, **more: Any) -> Any:
        found[what] += amount(*args, **more)
        return function(*args, **more)

    return call


def arrivals(nodes: int, reserved: int = 0) -> Counts:
    """Jobs arrive on a cluster without projects; their victims leave and return, and some of them end.

    Args:
        reserved: GPUs that are reserved for a time to come.
    """
    with patch.object(engine, "JOBS_OF_A_NODE", SPARSE):
        state = engine._busy(nodes)
    if reserved:
        course = GpuReservation("course", "demo", reserved, state.now + 10 * HOUR, HOUR, "never", (), 1, state.seq)
        state.gpu_reservations[course.name] = course
    build_indices(state)
    engine._settle(state)
    with counting() as found:
        for number in range(DECISIONS):
            engine._arrives(state, number)
            engine._decide_about(state)
            engine._victims_leave(state, f"preemptor-{number - engine.STAYS}")
    return dict(found)


def with_projects(nodes: int, scope: str) -> Counts:
    """The same on a cluster of a tree of projects, with reclaim, borrowing, and preempt within the scope."""
    with patch.object(projects, "JOBS_OF_A_NODE", SPARSE):
        state = projects.busy(nodes, scope)
    build_indices(state)
    projects.settle(state)
    with counting() as found:
        for number in range(DECISIONS):
            before = dict(state.evicting)
            projects.arrives(state, number)
            projects.decide_about(state)
            projects.happen(state, before, f"preemptor-{number - projects.STAYS}")
    return dict(found)


WORLDS: dict[str, tuple[Callable[[int], Counts], Sequence[int]]] = {
    "arrivals": (arrivals, (100, 1_000, 10_000)),
    "arrivals, GPUs reserved": (lambda nodes: arrivals(nodes, reserved=16), (100, 1_000)),
    "projects, scope project": (lambda nodes: with_projects(nodes, "project"), (100, 1_000)),
    "projects, scope pool": (lambda nodes: with_projects(nodes, "pool"), (100, 1_000)),
}
CASES = [(name, nodes) for name, (_, sizes) in WORLDS.items() for nodes in sizes]


def count(name: str, nodes: int) -> Counts:
    """The counts of one world at one size."""
    return dict(sorted(WORLDS[name][0](nodes).items()))


def recorded() -> dict[str, dict[str, Counts]]:
    """The counts in git, by world and size."""
    found: dict[str, dict[str, Counts]] = json.loads(FILE.read_text())
    return found


def main() -> None:
    """Write the file, and print it."""
    counts: dict[str, dict[str, Counts]] = {}
    for name, nodes in CASES:
        counts.setdefault(name, {})[str(nodes)] = count(name, nodes)
    FILE.write_text(json.dumps(counts, indent=1) + "\n")
    for name, by_size in counts.items():
        print(name)
        for what in next(iter(by_size.values())):
            print(f"  {what:40}", *(f"{found.get(what, 0):8,}" for found in by_size.values()))


if __name__ == "__main__":
    main()
