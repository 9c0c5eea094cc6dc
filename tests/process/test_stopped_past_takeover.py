"""SIGSTOP to admission or the executor until another replica has taken over, then SIGCONT, at each stage of a preemption.

The other replica completes the preemption. The resumed one still assumes for a moment that it owns the pool; its messages
must have no effect.
"""

import asyncio
import itertools
import signal
from collections.abc import Callable, Iterator

import pytest
from tests.kits.killed_stages import STAGES, TRAINING, begin, ends_well, until_shown
from tests.kits.system import System, systems

SAMPLE = {("admission", "decided"), ("eviction-executor", "begun")}
CELLS = [
    pytest.param(service, stage, id=f"{service}-{stage}", marks=() if (service, stage) in SAMPLE else pytest.mark.long)
    for service in ("admission", "eviction-executor")
    for stage in STAGES
]
_replicas = itertools.count(1)


@pytest.fixture(scope="module")
def _stopped_systems(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], System]]:
    with systems(tmp_path_factory, "stopped") as get:
        yield get


@pytest.fixture
def stopped(_stopped_systems: Callable[[], System]) -> System:
    """A system whose log will contain orphans."""
    return _stopped_systems()


@pytest.mark.parametrize(("service", "stage"), CELLS)
async def test_a_service_resumed_after_the_takeover_has_no_effect_at_any_stage(stopped: System, service: str, stage: str) -> None:
    async with stopped.watch("pool-a") as pool:
        pool.keep(*TRAINING)
        story = await begin(pool)
        await until_shown(pool, STAGES[stage], story, when_running=lambda: pool.let_finish(story.urgent))
        stopped.signal(service, signal.SIGSTOP)
        other = stopped.stack.start_service(service, replica=f"-{next(_replicas)}")
        await pool.until("the other replica has taken over", lambda _: '"owned": [0, 1]' in stopped.log_of(other))
        stopped.signal(service, signal.SIGCONT)
        await ends_well(pool, story)
        await asyncio.to_thread(stopped.stack.processes.wait_ready, service, other)
        assert (await asyncio.to_thread(stopped.stack.processes.stop, other)).code == 0
