"""The real node agent on another driver's library, with real Kafka, services and jobs: `make test-nvml`.

Its GPUs are lost, report Xids, memory errors and rows to remap, and are in use by strangers and by nobody, while the agent runs.
Each becomes what docs/how-to/gpus.md says.
"""

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.kits.mps import mps_daemon, named_process
from tests.kits.system import POLICY, System, Watch
from tests.nvml.library import Mock, library, loading, profile, start_agent

from bailiff_core.model.demand import JobDemand, TaskGroup
from bailiff_core.model.job_spec import JobSpec
from bailiff_core.model.policy import DeviceRules
from bailiff_core.records import facts
from bailiff_core.records.decisions import EvictionDecided
from bailiff_core.records.job_requests import SubmitJob
from bailiff_node_agent import mps

pytestmark = [pytest.mark.kafka, pytest.mark.nvml, pytest.mark.timeout(300)]
GIB = 1 << 30
PROFILES = ("h100", "a100", "l40s", "t4", "gb200")
LIST = """
import json, pynvml
pynvml.nvmlInit()
print(json.dumps([pynvml.nvmlDeviceGetUUID(pynvml.nvmlDeviceGetHandleByIndex(i)) for i in range(pynvml.nvmlDeviceGetCount())]))
"""


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    """A pool without nodes for each machine; each test starts the agent of its own."""
    library()
    pools = dict.fromkeys(("any", "faults", "start", "shares", "mps", *PROFILES), 0)
    system = System(tmp_path_factory.mktemp("nvml"), pools=pools)
    system.start()
    yield system
    system.stop()


@pytest.fixture
def h100(tmp_path: Path) -> Mock:
    return Mock(profile("h100"), tmp_path)


async def joined(pool: Watch, mock: Mock | None, env: dict[str, str] | None = None) -> str:
    """Start an agent in the pool, with this machine or with the library as it is; its process name."""
    library_env = mock.env if mock is not None else loading(library())
    agent = start_agent(pool.system, {"name": f"node-{pool.pool}", "pool": pool.pool}, library_env | (env or {}))
    await pool.record(facts.NodeJoined)
    return agent


async def runs(pool: Watch, job: str, **share: int) -> int:
    """Submit a job of one GPU, or of this share of one, that writes down its pid and environment; the pid once it runs."""
    mark = pool.system.marks / f"{job}.env"
    script = f"env > {mark}.new; echo PID=$$ >> {mark}.new; mv {mark}.new {mark}; exec sleep 3600"
    group = TaskGroup.model_validate({"cpu_milli": 1000, "memory_bytes": GIB, **(share or {"gpu_milli": 1000})})
    await pool.request(SubmitJob(demand=JobDemand(job=job, tasks=(group,)), spec=JobSpec(command=script)))
    await pool.until_running(job)
    await pool.until(f"{job} has written its environment", lambda _: mark.exists())
    return int(environment(pool, job)["PID"])


def environment(pool: Watch, job: str) -> dict[str, str]:
    lines = (pool.system.marks / f"{job}.env").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line)


def device_of(pool: Watch, mock: Mock, job: str) -> int:
    """The index of the job's GPU."""
    return [device["uuid"] for device in mock.devices].index(environment(pool, job)["CUDA_VISIBLE_DEVICES"])


async def released(pool: Watch, job: str) -> facts.TaskReleased:
    await pool.cancel(job)
    return await pool.record(facts.TaskReleased, job=job)


async def test_the_gpus_of_any_library_are_listed_and_run_a_job(system: System) -> None:
    env = {**os.environ, **loading(library())}
    listed = await asyncio.to_thread(subprocess.run, [sys.executable, "-c", LIST], env=env, capture_output=True, text=True)
    assert listed.returncode == 0, listed.stderr
    async with system.watch("any") as pool:
        agent = await joined(pool, None)
        [node] = pool.facts(facts.NodeJoined)
        assert [device.id for device in node.devices] == json.loads(listed.stdout)
        assert node.labels["bailiff.gpu/sharing"] == "time-slicing"
        await runs(pool, "any-1")
        assert environment(pool, "any-1")["CUDA_VISIBLE_DEVICES"] in json.loads(listed.stdout)
        proof = await released(pool, "any-1")
        assert [reading.device for reading in proof.after] == [environment(pool, "any-1")["CUDA_VISIBLE_DEVICES"]]
        system.stack.processes.stop(agent)


@pytest.mark.parametrize("name", PROFILES)
async def test_each_machine_of_the_mock_joins_with_its_gpus_and_runs_a_job(system: System, tmp_path: Path, name: str) -> None:
    mock = Mock(profile(name), tmp_path)
    async with system.watch(name) as pool:
        agent = await joined(pool, mock)
        [node] = pool.facts(facts.NodeJoined)
        declared = [(device["uuid"], device["name"], device["memory"]["total_bytes"]) for device in mock.devices]
        assert [(device.id, device.model, device.memory_bytes) for device in node.devices] == declared
        assert all(device.healthy and device.labels["driver"] == mock.driver for device in node.devices)
        pid = await runs(pool, f"{name}-1")
        used = device_of(pool, mock, f"{name}-1")
        mock.use(used, 3 * GIB, {pid: 2 * GIB})
        await pool.cancel(f"{name}-1")
        await pool.until("its process is gone", lambda _: not (Path("/proc") / str(pid)).exists())
        assert not pool.facts(facts.TaskReleased), "the driver still lists its process"
        mock.change(used)
        proof = await pool.record(facts.TaskReleased, job=f"{name}-1")
        assert (proof.after[0].memory_used, proof.after[0].processes) == (0, 0)
        system.stack.processes.stop(agent)


async def test_each_fault_of_a_gpu_becomes_its_record_while_the_agent_runs(system: System, h100: Mock) -> None:
    ids = [device["uuid"] for device in h100.devices]
    async with system.watch("faults") as pool:
        agent = await joined(pool, h100)
        pid = system.stack.processes.pid(agent)
        jobs = [f"job-{number}" for number in range(4)]
        for job in jobs:
            await runs(pool, job)
        on = {job: device_of(pool, h100, job) for job in jobs}

        # Lost: its job is evicted and counts for nothing; the GPU comes back by itself.
        lost = on["job-0"]
        h100.change(lost, failure={"mode": "fallen_off_bus"})
        assert (await pool.record(facts.DeviceUnhealthy, device=ids[lost])).reason == "lost"
        assert (await pool.record(EvictionDecided, job="job-0")).cause == "device"
        await pool.until("it runs elsewhere", lambda state: state.jobs["job-0"].attempt == 2 and pool.running("job-0"))
        assert pool.job("job-0").failures == 0
        h100.change(lost)
        await pool.record(facts.DeviceHealthy, device=ids[lost])

        # Rows of memory wait for repair: out of use until they are repaired.
        h100.change(on["job-1"], remapped_rows={"pending": True})
        assert (await pool.record(facts.DeviceUnhealthy, device=ids[on["job-1"]])).reason == "row-remap"
        h100.change(on["job-1"])
        await pool.record(facts.DeviceHealthy, device=ids[on["job-1"]])

        # Uncorrected memory errors, and an Xid: out of use until an operator confirms that the GPU was reset.
        for job, failure, reason, code in (
            ("job-2", {"mode": "ecc_uncorrectable"}, "ecc", None),
            ("job-3", {"mode": "ecc_uncorrectable", "xid": {"code": 79}}, "xid", 79),
        ):
            index = on[job]
            h100.change(index, failure=failure)
            broken = await pool.record(facts.DeviceUnhealthy, device=ids[index])
            assert (broken.reason, broken.code) == (reason, code)
            h100.change(index)
            await pool.record(EvictionDecided, job=job)
            assert not pool.facts(facts.DeviceHealthy, device=ids[index])
            system.command("faults", "node", "clear", "node-faults", str(index), "--reason", "it was reset")
            await pool.record(facts.DeviceClearRequested, device=ids[index])
            await pool.record(facts.DeviceHealthy, device=ids[index])
        await pool.until_running(*jobs)

        # In use by a stranger, then by nobody: not given to a job until it is free.
        free = next(index for index in range(8) if pool.state.nodes[0].devices[index].id not in devices_in_use(pool))
        with named_process("stranger") as stranger:
            h100.use(free, GIB, {stranger: GIB})
            await pool.submit("all-the-rest", gpus=4)
            foreign = await pool.record(facts.DeviceQuarantined, device=ids[free])
            assert foreign.reason == "foreign"
            assert "(stranger) not started by this node" in foreign.detail
        h100.use(free, 2 * GIB)
        await pool.until("it is still quarantined", lambda state: bool(state.nodes[0].quarantined >> free & 1))
        h100.change(free)
        await pool.record(facts.DeviceCleared, device=ids[free])
        await pool.until_running("all-the-rest")
        assert system.stack.processes.pid(agent) == pid
        assert agent in system.stack.processes.running()
        await pool.verify()


def devices_in_use(pool: Watch) -> set[str]:
    devices = pool.state.nodes[0].devices
    used = [task.devices for job in pool.state.active_jobs() for task in job.tasks if task.state != "released"]
    return {device.id for device in devices if any(mask >> device.number & 1 for mask in used)}


async def test_gpus_that_are_broken_when_the_agent_starts_are_listed_and_stay_out_of_use(system: System, h100: Mock) -> None:
    ids = [device["uuid"] for device in h100.devices]
    h100.change(0, failure={"mode": "lost"})
    h100.change(1, remapped_rows={"failure_occurred": True})
    h100.use(2, 5 * GIB)
    async with system.watch("start") as pool:
        await joined(pool, h100)
        [node] = pool.facts(facts.NodeJoined)
        assert {device.id: device.healthy for device in node.devices} == {
            **dict.fromkeys(ids[2:], True),
            ids[1]: False,
            "GPU-index-0": False,
        }
        [dirty] = pool.facts(facts.DeviceQuarantined) or [await pool.record(facts.DeviceQuarantined)]
        assert (dirty.device, dirty.detail) == (ids[2], "5120 MiB are in use by no known process")
        await pool.submit("five", gpus=5)
        await pool.until_running("five")


async def test_a_task_over_its_share_of_memory_is_found_by_process_and_warned_or_evicted(system: System, h100: Mock) -> None:
    async with system.watch("shares") as pool:
        await joined(pool, h100)
        pids = {job: await runs(pool, job, gpu_share_milli=500) for job in ("modest", "greedy")}
        index = device_of(pool, h100, "greedy")
        assert device_of(pool, h100, "modest") == index, "both halves are of one GPU"
        assert environment(pool, "greedy")["BAILIFF_GPU_MEMORY_BYTES"] == str(40 * GIB)
        assert not any(name.startswith("CUDA_MPS") for name in environment(pool, "greedy")), "no MPS daemon runs here"

        h100.use(index, 70 * GIB, {pids["modest"]: 20 * GIB, pids["greedy"]: 50 * GIB})
        warned = await pool.record(facts.ShareExceeded, job="greedy")
        assert (warned.used_bytes, warned.share_bytes) == (50 * GIB, 40 * GIB)
        assert pool.running("greedy", "modest")

        # Each is checked with the other: when the one is reported, the agent has seen that the other keeps to its share again.
        h100.use(index, 65 * GIB, {pids["modest"]: 45 * GIB, pids["greedy"]: 20 * GIB})
        await pool.record(facts.ShareExceeded, job="modest")
        await pool.apply(POLICY.model_copy(update={"devices": DeviceRules(over_share="evict")}))
        h100.use(index, 75 * GIB, {pids["modest"]: 20 * GIB, pids["greedy"]: 55 * GIB})
        assert (await pool.record(EvictionDecided, job="greedy")).cause == "over-share"
        h100.use(index, 20 * GIB, {pids["modest"]: 20 * GIB})
        assert [fact.job for fact in pool.facts(facts.ShareExceeded)] == ["greedy", "modest", "greedy"]
        assert pool.running("modest")
        h100.change(index)
        await pool.verify()


@pytest.fixture
def pipes() -> Iterator[Path]:
    """The folder of an MPS daemon that runs."""
    if mps.PIPES.exists():
        pytest.skip(f"an MPS daemon of this machine uses {mps.PIPES}")
    with mps_daemon(mps.PIPES):
        yield mps.PIPES
    shutil.rmtree(mps.PIPES)


async def test_where_the_mps_daemon_runs_each_share_has_its_limits_and_its_server_stays(
    system: System, h100: Mock, pipes: Path
) -> None:
    with named_process("nvidia-cuda-mps-server") as server:
        async with system.watch("mps") as pool:
            agent = await joined(pool, h100)
            assert pool.facts(facts.NodeJoined)[-1].labels["bailiff.gpu/sharing"] == "mps"
            pid = await runs(pool, "quarter", gpu_share_milli=250)
            index, env = device_of(pool, h100, "quarter"), environment(pool, "quarter")
            assert env["CUDA_MPS_PIPE_DIRECTORY"] == str(pipes)
            assert (env["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"], env["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"]) == ("25", "0=20480M")
            h100.use(index, 10 * GIB, {pid: 9 * GIB, server: GIB})
            await pool.cancel("quarter")
            await pool.until("its process is gone", lambda _: not (Path("/proc") / str(pid)).exists())
            h100.use(index, GIB, {server: GIB})  # it stays for the next client
            await pool.record(facts.TaskReleased, job="quarter")
            if os.geteuid() == 0:
                await pool.submit("whole", gpus=8)
                await pool.until_running("whole")
                await released(pool, "whole")
                assert not pool.facts(facts.DeviceQuarantined)
            system.stack.processes.stop(agent)
