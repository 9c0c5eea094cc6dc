"""Worlds made from seeds, and a short digest of all that is decided in them, step by step.

`python -m tests.property.decided` writes what the engine decides now to decided.json. While that file is of the same `LOGIC` and
`STATE_SCHEMA` it only adds worlds: other decisions for the same state are a fault, or they raise `LOGIC`.
"""

import hashlib
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from types import ModuleType
from unittest.mock import patch

from tests.kits import log_builder
from tests.kits.builders import requested_unit
from tests.kits.log_builder import Story
from tests.kits.snapshots import snapshot as read
from tests.property import crowded_worlds, rich_worlds
from tests.property.busy_stories import Busy
from tests.property.decided_answers import asked, asked_limited, bounds, contended, contended_limited
from tests.property.decided_parts import batches, islands, stale
from tests.property.full_pools import as_on_large_pools, gang_of_two_kinds, some_pool
from tests.property.random_stories import Chance
from tests.property.rich_stories import Rich
from tests.property.small_limits import small_limits
from tests.property.small_pools import random_pool
from tests.property.small_worlds import Fields, Waves, memory_world, small_world, tight_world
from tests.property.tiny_pools import tiny_pool
from tests.property.victim_worlds import in_racks, random_world

from bailiff_core.decision_cycle import wake_at
from bailiff_core.engine import LOGIC, STATE_SCHEMA
from bailiff_core.fold.snapshot import state_digest
from bailiff_core.placement import StepBudget, place_unit
from bailiff_core.plan import Planning
from bailiff_core.plan.build import append_facts, submission
from bailiff_core.plan.cycles import run_cycle
from bailiff_core.plan.snapshot_validation import validate_snapshot
from bailiff_core.records.decisions import JobPending, PreemptionRefused, PreemptionRequested
from bailiff_core.scheduling_snapshot import current_snapshot
from bailiff_core.victims import SelectionBatch, select_victims
from bailiff_core.victims.batch import select_batch

FILE = Path(__file__).parent / "decided.json"
CHARS = 4
MOST_ROUNDS = 40
ACTIONS = ("preempt", "reclaim", "consolidate")
NOTHING_CHANGES = (JobPending, PreemptionRequested, PreemptionRefused)
Texts = Iterator[str]


def _note(story: Story, seen: list[str]) -> None:
    decisions = [(type(each).NAME, each.model_dump_json()) for each in story.last_decisions]
    seen.append(repr((decisions, wake_at(story.state))))


def shared(random: Random) -> Texts:
    """A history of pools with projects, elastic gangs and parts of GPUs, one text per cycle."""
    return _chance(random, shared=True)


def plain(random: Random) -> Texts:
    """The same without projects."""
    return _chance(random, shared=False)


def _chance(random: Random, *, shared: bool) -> Texts:
    seen: list[str] = []
    chance = Chance(lambda story: _note(story, seen), shared=shared)
    for _ in range(60):
        chance.cycle([_step(random) for _ in range(random.randint(1, 3))])
    yield from seen


def _step(random: Random) -> tuple[int, int, int]:
    """Often what has to come for jobs to run and to be evicted; a short story of equally likely steps gets nowhere."""
    kinds = ((0, 11), (12, 33), (12, 33), (34, 46), (34, 46), (0, 59))
    return random.randint(*random.choice(kinds)), random.randint(0, 11), random.randint(0, 23)


def busy(random: Random) -> Texts:
    """A history of a crowded pool with run-time limits."""
    seen: list[str] = []
    steps = [(random.randint(0, 15), random.randint(0, 9), random.randint(0, 7)) for _ in range(60)]
    Busy(lambda story: _note(story, seen)).play(steps)
    yield from seen


def rich(random: Random) -> Texts:
    """A history of a pool with every feature at once; its texts say the whole state as well."""
    return _rich(random, rich_worlds)


def crowded(random: Random) -> Texts:
    """The same of a pool that is short of GPUs, with small limits of the searches in every third world."""
    with small_limits(random, random.choice((0, 0, 50))):
        yield from _rich(random, crowded_worlds)


ENGINE = "0.1.0+000000000000/16"  # in digests of states, whatever this engine is called: a new LOGIC alone changes none


def _rich(random: Random, worlds: ModuleType) -> Texts:
    seen: list[str] = []

    def note(story: Story) -> None:
        _note(story, seen)
        seen[-1] += state_digest(story.state)

    with patch.object(log_builder, "ENGINE", ENGINE):
        Rich(random, note, worlds).play(60)
    yield from seen


def rich_limited(random: Random) -> Texts:
    """The same with small limits of the searches."""
    with small_limits(random):
        yield from rich(random)


def small(random: Random) -> Texts:
    """Rounds of a small pool whose projects claim more than there is."""
    return _rounds(*small_world(random), step=random.choice((0, 1_000_000, 600_000_000)))


def tight(random: Random) -> Texts:
    """Rounds of one node that is promised more than once."""
    return _rounds(*tight_world(random), step=0)


def memory(random: Random) -> Texts:
    """Rounds of a pool with devices of several sizes, whose jobs ask for memory."""
    return _rounds(*memory_world(random), step=random.choice((0, 1_000_000)))


def _rounds(document: Fields, waves: Waves, step: int) -> Texts:
    def snapshot(jobs: list[Fields]) -> object:
        return validate_snapshot(read({**document, "jobs": jobs}))

    planning = Planning(read({**document, "jobs": []}))
    for wave in waves:
        planning.advance()
        for entry in snapshot(wave).jobs:  # type: ignore[attr-defined]
            append_facts(planning.state, submission(entry))
            planning.names[entry.doc.name] = [f"{entry.doc.name}-{index}" for index in range(len(entry.tasks))]
        for _ in range(MOST_ROUNDS):
            made = [decision for _, decision in run_cycle(planning.state)]
            yield repr([(type(each).NAME, each.model_dump_json()) for each in made])
            if all(isinstance(each, NOTHING_CHANGES) for each in made):
                break
            planning.advance(step)


def victims(random: Random) -> Texts:
    """Answers of the victim search in ten small pools, whatever they cost."""
    for number in range(10):
        sketch, preemptor = random_pool(random)
        budget = StepBudget(20_000 if number % 3 else random.randint(1, 200))
        answer = select_victims(SelectionBatch.on(current_snapshot(sketch.state)), requested_unit(preemptor), "preempt", budget)
        yield repr((answer, budget))


def sharing_victims(random: Random) -> Texts:
    """The same with projects, elastic gangs and shared devices, for each action."""
    for number in range(12):
        action = ACTIONS[number % 3]
        sketch, preemptor = random_world(random, action)
        if number % 4 == 3:
            in_racks(random, sketch)
        budget = StepBudget(20_000 if number % 5 else random.randint(1, 200))
        answer = select_victims(SelectionBatch.on(current_snapshot(sketch.state)), requested_unit(preemptor), action, budget)  # type: ignore[arg-type]
        yield repr((answer, budget))


def large(random: Random) -> Texts:
    """Answers in full pools, searched as on large pools."""
    with as_on_large_pools():
        yield from _full_pools(random)


def tied(random: Random) -> Texts:
    """The same, where any equal choices count as many."""
    with as_on_large_pools(most_tied=0):
        yield from _full_pools(random)


def large_limited(random: Random) -> Texts:
    """The same with small limits of the searches."""
    with small_limits(random):
        yield from _full_pools(random)


def _full_pools(random: Random) -> Texts:
    """Answers for a batch, and for a gang of two kinds of tasks, in ten pools."""
    for number in range(10):
        sketch, requests = some_pool(random.randrange(1 << 30))
        yield repr(select_batch(sketch.state, requests, 20_000 if number % 4 else random.randint(1, 200)))
        sketch, preemptor = gang_of_two_kinds(random.randrange(1 << 30))
        budget = StepBudget(20_000 if number % 4 else random.randint(1, 200))
        batch = SelectionBatch.on(current_snapshot(sketch.state))
        yield repr((select_victims(batch, requested_unit(preemptor), "preempt", budget), budget))


def places(random: Random) -> Texts:
    """Placements in twenty tiny pools."""
    for number in range(20):
        sketch, job = tiny_pool(random, topology=number % 2 == 1)
        budget = StepBudget(20_000)
        yield repr((place_unit(current_snapshot(sketch.state).cluster, requested_unit(job), budget), budget))


KINDS: dict[str, tuple[Callable[[Random], Texts], int, int]] = {  # how many worlds, and how many of them `make test` decides
    "shared": (shared, 60, 6),
    "plain": (plain, 30, 8),
    "busy": (busy, 30, 15),
    "small": (small, 60, 30),
    "tight": (tight, 30, 15),
    "victims": (victims, 30, 15),
    "sharing-victims": (sharing_victims, 40, 20),
    "stale": (stale, 10, 4),
    "batches": (batches, 20, 10),
    "places": (places, 40, 20),
    "islands": (islands, 20, 10),
    "rich": (rich, 150, 14),
    "large": (large, 30, 7),
    "tied": (tied, 20, 6),
    "memory": (memory, 40, 20),
    "asked": (asked, 12, 6),
    "asked-limited": (asked_limited, 14, 7),
    "contended": (contended, 14, 7),
    "contended-limited": (contended_limited, 14, 7),
    "rich-limited": (rich_limited, 8, 4),
    "large-limited": (large_limited, 8, 4),
    "bounds": (bounds, 40, 20),
    "crowded": (crowded, 24, 12),
}
NAMES = [f"{kind}-{seed}" for kind, (_, count, _) in KINDS.items() for seed in range(count)]
QUICK = {f"{kind}-{seed}" for kind, (*_, count) in KINDS.items() for seed in range(count)}


def texts(name: str) -> list[str]:
    """What is decided in the world of that name, step by step."""
    kind, _, seed = name.rpartition("-")
    return list(KINDS[kind][0](Random(int(seed))))


def digest(seen: list[str]) -> str:
    """A few characters per step."""
    return " ".join(hashlib.sha256(text.encode()).hexdigest()[:CHARS] for text in seen)


def main() -> int:
    """0 when the file was written."""
    engine = {"logic": LOGIC, "state_schema": STATE_SCHEMA}
    document = {**engine, "decided": {name: digest(texts(name)) for name in NAMES}}
    recorded = json.loads(FILE.read_text())
    if {name: recorded.get(name) for name in engine} == engine:
        changed = [name for name, text in recorded["decided"].items() if document["decided"].get(name, text) != text]
        if changed:
            print(f"decided otherwise under the same LOGIC, which is a fault or raises it: {', '.join(changed)}", file=sys.stderr)
            return 1
    FILE.write_text(json.dumps(document, indent=0) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
