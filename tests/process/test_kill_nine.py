"""SIGKILL to any service at any stage of a preemption: the preemption completes, nothing is lost and nothing is done twice.

Each cell runs one preemption in the same pool, where eight training jobs run from cell to cell: an urgent job is submitted, four
are evicted, it runs and ends, they resume. As soon as the log shows the stage, the services under test are killed and
restarted.
"""

import pytest
from tests.kits.killed_stages import STAGES, TRAINING, begin, ends_well, until_shown
from tests.kits.system import System

SERVICES = ("admission", "victim-selection", "eviction-executor", "node-agent")
ALL = "all four"


# The most critical stage for each service, and one for all at once.
SAMPLE = {
    ("admission", "decided"),
    ("admission", "start ordered"),
    ("victim-selection", "requested"),
    ("eviction-executor", "begun"),
    ("node-agent", "term sent"),
    (ALL, "exited"),
}

CELLS = [
    pytest.param(service, stage, id=f"{service}-{stage}", marks=() if (service, stage) in SAMPLE else pytest.mark.long)
    for service in (*SERVICES, ALL)
    for stage in STAGES
]


@pytest.mark.parametrize(("service", "stage"), CELLS)
async def test_a_kill_at_any_stage_loses_and_duplicates_nothing(battered: System, service: str, stage: str) -> None:
    async with battered.watch("pool-a") as pool:
        pool.keep(*TRAINING)
        story = await begin(pool)
        await until_shown(pool, STAGES[stage], story, when_running=lambda: pool.let_finish(story.urgent))
        battered.kill_and_restart(*(SERVICES if service == ALL else [service]))
        await ends_well(pool, story)
