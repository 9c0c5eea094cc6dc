"""GPUs that are not free although their task is gone: nobody gets them, whoever dies meanwhile, before they were seen free."""

import asyncio
from collections.abc import Callable, Iterator

import pytest
from tests.survival import GPUS, MACHINE, POOL, SAVES_AND_LEAVES, Stage, story
from tests.system import System, systems

from bailiff_core.records.decisions import JobPlaced, JobStarting
from bailiff_core.records.facts import DeviceCleared, DeviceQuarantined, TaskReleased

LEAK = 1 << 30


@pytest.fixture(scope="module")
def _impatient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], System]]:
    env = {"BAILIFF_RELEASE_TIMEOUT_S": "1", "BAILIFF_DEVICE_POLL_S": "0.5"}
    with systems(tmp_path_factory, "dirty", Stage, pools={POOL: 1}, machine={POOL: MACHINE}, env=env) as get:
        yield get


@pytest.fixture
def impatient(_impatient: Callable[[], System]) -> Stage:
    """A machine that looks for a second whether a GPU is free."""
    found = _impatient()
    assert isinstance(found, Stage)
    return found


@pytest.mark.long
@pytest.mark.parametrize("killed", [(), ("node-agent",), ("admission", "victim-selection", "eviction-executor", "node-agent")])
async def test_gpus_that_stay_dirty_wait_for_nobody_and_nobody_gets_them(impatient: Stage, killed: tuple[str, ...]) -> None:
    stage = impatient
    async with story(stage) as told:
        await told.victim_stands()
        stage.leak(LEAK)
        await told.urgent_comes()
        await told.watch.until(
            "both are quarantined", lambda _: len(told.watch.facts(DeviceQuarantined, job=told.victim)) == GPUS
        )
        await told.watch.record(TaskReleased, job=told.victim)
        stage.kill_and_restart(*killed)
        await asyncio.to_thread(stage.stack.processes.wait_ready, *killed)
        assert not told.watch.facts(JobStarting, job=told.urgent), told.watch.report()
        stage.leak(0)
        began = told.watch.state.seq
        (stage.marks / f"{told.urgent}.go").touch()
        await told.watch.until_ended(told.urgent)
        await told.comes_back(SAVES_AND_LEAVES)
        cleared = told.seqs(DeviceCleared)
        given = told.seqs(JobPlaced, lambda data: data.job == told.urgent and not data.reserved)
        given += told.seqs(JobStarting, lambda data: data.job == told.urgent)
        assert len([seq for seq in cleared if seq > began]) == GPUS
        assert max(cleared) < min(given), told.watch.report()
        assert all(reading.memory_used >= LEAK for fact in told.facts(TaskReleased, attempt=1) for reading in fact.after)
