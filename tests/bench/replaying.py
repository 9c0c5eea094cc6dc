"""Replay: placements per second on the history of a pool of 500 nodes that is nearly always full.

`tests.kits.log_builder` generates the history from a fixed seed, so it is the same on every machine. Times are of the
processor, all that `bailiff audit replay` does: the chain twice, the fold, the decisions, the comparison.
"""

import asyncio
import random
import time
from collections.abc import AsyncIterator

from tests.kits.log_builder import SECOND, Story, policy

from bailiff.audit.replay import replay
from bailiff_bus.port import Message
from bailiff_bus.topics import AUDIT
from bailiff_core.records import Wire, facts
from bailiff_service.gc_tuning import raise_thresholds

from .fold import _fold
from .table import Row, Run

NODES, GPUS = 500, 8
GANGS = ((1, 1), (1, 1), (1, 2), (1, 4), (1, 8), (2, 8), (4, 8))  # tasks and GPUs of each
POOL = "bench"
MOST_AT_ONCE = 200  # as admission takes requests


def measure(run: Run) -> list[Row]:
    """In memory, without Kafka; garbage is looked for as by the command."""
    raise_thresholds()
    rounds = 40 if run.quick else 160
    return [
        _measured(run, "four fifths full", history(rounds, full=80, waiting=0)),
        _measured(run, "full, a hundred jobs waiting", history(rounds, full=100, waiting=100)),
    ]


def _measured(run: Run, load: str, wires: list[Wire]) -> Row:
    run.say(f"{load}: deciding {len(wires):,} records again")
    began = time.process_time()
    found = asyncio.run(replay(POOL, lambda: stream(wires)))
    seconds = time.process_time() - began
    assert found["ok"], found
    assert found["cycles_replayed"] == found["cycles"]
    began = time.process_time()
    _fold(wires, POOL)
    folding = time.process_time() - began
    placed = placements(wires)
    return Row(
        f"deciding again, {NODES} nodes, {load} ({len(wires):,} records, {placed:,} placements)",
        placed / seconds,
        "placements/s",
        target="≥ 5,000 placements/s",
        baseline=placed / folding,
        baseline_is="placements/s: chain and fold alone",
        detail={"records": len(wires), "cycles": found["cycles"], "decisions": found["decisions"], "seconds": seconds},
    )


def history(rounds: int, *, full: int, waiting: int, seed: int = 7) -> list[Wire]:
    """Each round one job in twenty ends, and jobs are submitted to keep this percentage in use, or this many pending."""
    chance = random.Random(seed)
    story = Story(policy(retention={"ended_jobs": "1h"}), pool=POOL)
    story.cycle(*[lambda name=f"node-{number:03}": [story.joined(name, gpus=GPUS)] for number in range(NODES)])
    count = 0
    for _ in range(rounds):
        state = story.state
        running = sorted(name for name in state.active if state.jobs[name].phase == "running")
        ending = chance.sample(running, k=len(running) // 20)
        gone = [story.at(name, task.index) for name in ending for task in state.jobs[name].tasks]
        if gone:
            exits = [fact for at in gone for fact in (facts.TaskExited(**at, exit_code=0), facts.TaskReleased(**at))]
            story.cycle(*exits, after=20 * SECOND)
        used = sum(state.jobs[name].gpus for name in state.active)
        asked = []
        while used * 100 < NODES * GPUS * full or (len(state.queue) < waiting and len(asked) < waiting):
            tasks, gpus = chance.choice(GANGS)
            count, used = count + 1, used + tasks * gpus
            asked.append(story.submitted(f"job-{count}", tasks=tasks, gpus=gpus))
        for at in range(0, len(asked), MOST_AT_ONCE):
            story.cycle(*asked[at : at + MOST_AT_ONCE], after=2 * SECOND)
        begun = [story.at(name, task.index) for name in story.state.starting for task in story.state.jobs[name].tasks]
        if begun:
            story.cycle(*[facts.TaskStarted(**at) for at in begun], after=2 * SECOND)
    return story.wires


def placements(wires: list[Wire]) -> int:
    """How often a gang was given a place."""
    return sum(dict(wire.headers)["ce_type"] == b"bailiff.audit.JobPlaced.v1" for wire in wires)


async def stream(wires: list[Wire]) -> AsyncIterator[Message]:
    """As a topic gives them."""
    for offset, wire in enumerate(wires):
        yield Message(AUDIT.name, 0, offset, 0, None, wire.headers, wire.value)
