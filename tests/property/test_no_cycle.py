"""No cycle of mutual evictions: small worlds of projects and verbs, without cap or cooldown, are played until they settle.

Time stands still or moves as policy, so a state that comes again after evictions would come again for ever.
"""

from collections.abc import Iterable
from random import Random
from typing import Any

import pytest
from tests.property.small_worlds import Fields, Waves, small_world

from bailiff.planfile import Source, snapshot_from
from bailiff_core.model.pool import Pool
from bailiff_core.plan import Planning
from bailiff_core.plan.build import happens, submission
from bailiff_core.plan.layout import lay_out
from bailiff_core.plan.report import Round

FEW = 120
MANY = 20_000
STEP = 1_000
MOST_ROUNDS = 80
STEPS = (0, 0, 1_000_000, 600_000_000)  # µs from one pass to the next
CYCLES_WITHOUT_THE_RULE = (1460,)
WORTH_KEEPING = (802, 1354)  # were cycles once


def _snapshot(document: Fields, jobs: list[Fields]) -> Any:
    source = Source("world", "")
    source.value = {**document, "jobs": jobs}
    return snapshot_from(source)


def _state(pool: Pool) -> object:
    """Who stands where and who waits: all that the next pass goes by, but for times."""
    return tuple(
        (
            job.id,
            job.phase,
            tuple((task.index, task.node, task.devices, task.state) for task in job.tasks),
            tuple((task.index, task.node, task.devices) for task in job.promise),
        )
        for job in pool.jobs.values()
    )


def _told(number: int, found: Round) -> Iterable[str]:
    return (f"{number}: {line.verb} {line.job} {[victim.job for victim in line.victims]}" for line in found.decisions)


def turns(document: Fields, waves: Waves, step: int) -> str | None:
    """What goes round and round, round by round, or `None`: each wave of jobs settles."""
    planning = Planning(_snapshot(document, []))
    for wave in waves:
        planning.go_on()
        for entry in lay_out(_snapshot(document, wave)).jobs:
            happens(planning.pool, submission(entry))
            planning.names[entry.doc.name] = [f"{entry.doc.name}-{index}" for index in range(len(entry.tasks))]
        seen: dict[object, int] = {}
        story: list[str] = []
        for number in range(MOST_ROUNDS):
            last = planning.round(step=step)
            if not last.changed:
                break
            story += _told(number, last)
            state = _state(planning.pool)
            if state in seen:
                return f"round {number} leaves things as round {seen[state]} did:\n" + "\n".join(story[-30:])
            seen[state] = number
        else:
            return f"not at rest after {MOST_ROUNDS} rounds:\n" + "\n".join(story[-30:])
    return None


def world(seed: int, **rules: bool) -> tuple[Fields, Waves, int]:
    """The world of a seed, and what passes between two passes. rules: of the policy's preemption, as said and not as drawn."""
    random = Random(seed)
    document, waves = small_world(random)
    document["policy"]["preemption"].update(rules)
    return document, waves, random.choice(STEPS)


def settles(seed: int) -> None:
    document, waves, step = world(seed)
    told = turns(document, waves, step)
    assert told is None, f"seed {seed}: {document}\n{waves}\n{told}"


@pytest.mark.parametrize("first", range(0, FEW, 40))
def test_jobs_do_not_displace_each_other_for_ever(first: int) -> None:
    for seed in range(first, first + 40):
        settles(seed)


@pytest.mark.parametrize("seed", CYCLES_WITHOUT_THE_RULE)
def test_without_within_share_they_would(seed: int) -> None:
    assert "leaves things as" in str(turns(*world(seed, within_share=False)))
    settles(seed)


@pytest.mark.parametrize("seed", WORTH_KEEPING)
def test_what_went_round_once_settles(seed: int) -> None:
    settles(seed)


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("first", range(FEW, FEW + MANY, STEP))
def test_in_thousands_of_worlds_neither(first: int) -> None:
    for seed in range(first, first + STEP):
        settles(seed)
