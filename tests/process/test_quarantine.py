"""A simulated GPU that leaks, hangs and idles, with real Kafka, services and processes: it is never allocated dirty."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.kits.log_builder import policy
from tests.kits.system import POLICY, System, Watch

from bailiff_core.records.decisions import EvictionDecided, JobIdle
from bailiff_core.records.facts import DeviceCleared, DeviceClearRequested, DeviceQuarantined, TaskReleased
from bailiff_devstack.simulated_node.__main__ import main as make_it_fail

pytestmark = [pytest.mark.kafka, pytest.mark.long, pytest.mark.timeout(300)]
NODE = "pool-a-0"


@pytest.fixture
def system(tmp_path: Path) -> Iterator[System]:
    """One machine with one GPU, which is quarantined if it is not free within 2 s."""
    env = {"BAILIFF_RELEASE_TIMEOUT_S": "2", "BAILIFF_DEVICE_POLL_S": "0.3"}
    system = System(tmp_path, env=env, pools={"pool-a": 1}, machine={"pool-a": {"gpus": "1xH100-80GB"}})
    system.start()
    yield system
    system.stop()


async def runs(pool: Watch, job: str) -> None:
    await pool.submit(job)
    await pool.until_running(job)
    await pool.noted(job, 1)


async def cancel_and_wait(pool: Watch, job: str) -> None:
    """Cancel the job, and wait until its processes are gone."""
    await pool.cancel(job)
    await pool.record(TaskReleased, job=job)


async def test_a_leaking_or_hanging_gpu_is_quarantined_and_an_idle_one_is_released(system: System) -> None:
    faults = str(system.folder / "state" / "node-agent" / "pool-a" / NODE / "faults.json")
    async with system.watch("pool-a") as pool:
        # It leaks memory: quarantined until an operator clears it.
        await runs(pool, "leaves")
        assert make_it_fail([faults, "0", f"leak={2 << 30}"]) == 0
        await cancel_and_wait(pool, "leaves")
        dirty = await pool.record(DeviceQuarantined, node=NODE)
        assert (dirty.reason, dirty.job, dirty.reading.memory_used) == ("not-free", "leaves", 2 << 30)
        await pool.submit("next")
        await pool.until("it waits", lambda state: "next" in state.jobs)
        assert pool.job("next").phase == "pending"
        assert (
            json.loads(system.command("pool-a", "node", "describe", NODE, "-o", "json"))["devices"][0]["state"] == "quarantined"
        )
        system.command("pool-a", "node", "clear", NODE, "0", "--reason", "the driver keeps that much")
        await pool.record(DeviceClearRequested, node=NODE, reason="the driver keeps that much")
        cleared = await pool.record(DeviceCleared, node=NODE)
        assert cleared.requested_by is not None
        await pool.until_running("next")
        await pool.noted("next", 1)

        # It hangs: the process stays on it until it is repaired; then the quarantine is cleared automatically.
        assert make_it_fail([faults, "0", "hang"]) == 0
        await cancel_and_wait(pool, "next")
        await pool.until("it is quarantined again", lambda _: len(pool.facts(DeviceQuarantined, node=NODE)) == 2)
        await pool.submit("third")
        await pool.until("it waits", lambda state: "third" in state.jobs)
        assert pool.job("third").phase == "pending"
        assert make_it_fail([faults, "0", "busy=0"]) == 0
        await pool.until_running("third")
        assert pool.facts(DeviceCleared, node=NODE)[-1].requested_by is None

        # It is idle for a minute; the agent reports that, and by policy the job is paused.
        await pool.apply(POLICY.model_copy(update={"idle": policy(idle={"after": "2s", "action": "pause"}).idle}))
        assert (await pool.record(JobIdle, job="third", within_s=180)).action == "pause"
        await pool.until("it is paused", lambda state: state.jobs["third"].phase == "paused")
        assert (await pool.record(EvictionDecided, job="third")).cause == "paused"
        await pool.verify()
