"""GPUs that are not free after their task are not allocated before they are seen free, whichever process is killed."""

import asyncio
from collections.abc import Callable, Iterator

import pytest
from tests.kits.survival import GPUS, MACHINE, POOL, SAVES_AND_YIELDS, Stage, story
from tests.kits.system import System, systems

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
    """A machine that quarantines a GPU which is not free within a second."""
    found = _impatient()
    assert isinstance(found, Stage)
    return found


@pytest.mark.long
@pytest.mark.parametrize("killed", [(), ("node-agent",), ("admission", "victim-selection", "eviction-executor", "node-agent")])
async def test_dirty_gpus_are_quarantined_and_not_allocated(impatient: Stage, killed: tuple[str, ...]) -> None:
    stage = impatient
    async with story(stage) as run:
        await run.start_victim()
        stage.leak(LEAK)
        await run.submit_urgent()
        await run.watch.until("both are quarantined", lambda _: len(run.watch.facts(DeviceQuarantined, job=run.victim)) == GPUS)
        await run.watch.record(TaskReleased, job=run.victim)
        stage.kill_and_restart(*killed)
        await asyncio.to_thread(stage.stack.processes.wait_ready, *killed)
        assert not run.watch.facts(JobStarting, job=run.urgent), run.watch.report()
        stage.leak(0)
        began = run.watch.state.seq
        (stage.marks / f"{run.urgent}.go").touch()
        await run.watch.until_ended(run.urgent)
        await run.check_victim(SAVES_AND_YIELDS)
        cleared = run.seqs(DeviceCleared)
        given = run.seqs(JobPlaced, lambda data: data.job == run.urgent and not data.reserved)
        given += run.seqs(JobStarting, lambda data: data.job == run.urgent)
        assert len([seq for seq in cleared if seq > began]) == GPUS
        assert max(cleared) < min(given), run.watch.report()
        assert all(reading.memory_used >= LEAK for fact in run.facts(TaskReleased, attempt=1) for reading in fact.after)
