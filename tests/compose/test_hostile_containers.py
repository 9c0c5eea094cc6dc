"""A container on the real engine that leaves everything in every folder that it may write: its node's agent lives and starts."""

import asyncio
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.kits import hostile_files, leaving_job
from tests.kits.docker_engine import containers_of, docker, image_of, need_engine
from tests.kits.hostile_files import immutable
from tests.kits.system import System, Watch

from bailiff_core.model.demand import JobDemand, TaskGroup
from bailiff_core.model.job_spec import JobSpec
from bailiff_core.model.state import ENDED, PoolState
from bailiff_core.records.facts import TaskReleased, TaskStarted
from bailiff_core.records.job_requests import SubmitJob

pytestmark = [pytest.mark.compose, pytest.mark.kafka, pytest.mark.timeout(600)]

PYTHON = "python:3.12-slim-bookworm"
WITHIN_S = 120.0


@pytest.fixture
def image(tmp_path: Path) -> Iterator[str]:
    need_engine(PYTHON)
    with image_of(tmp_path / "image", PYTHON, *(Path(str(each.__file__)) for each in (hostile_files, leaving_job))) as name:
        yield name


@pytest.fixture
def system(tmp_path: Path) -> Iterator[System]:
    node = {"pool-a": {"runtimes": ["process", "docker"]}}
    with System(tmp_path / "system", pools={"pool-a": 1}, machine=node) as system:
        yield system
        containers = containers_of(system.folder / "state/node-agent/pool-a/pool-a-0/docker/tasks")
        docker("rm", "-f", *containers)
    subprocess.run(["rm", "-rf", tmp_path / "system"], check=True)  # too deep for pytest, where the test failed
    assert containers == []


async def submit(watch: Watch, image: str) -> None:
    group = TaskGroup(gpu_milli=4000, cpu_milli=1000, memory_bytes=1 << 30)
    demand = JobDemand(job="hostile", tasks=(group,), priority_class="train", grace=3_000_000, kill_after=1_000_000)
    command = ("python3", "/job/leaving_job.py")
    await watch.request(SubmitJob(demand=demand, spec=JobSpec(command=command, runtime="docker", image=image)))


async def test_whatever_a_container_leaves_its_node_goes_on(system: System, image: str) -> None:
    state = system.folder / "state" / "node-agent" / "pool-a" / "pool-a-0"

    def has_left(attempt: int) -> bool:
        log = state / "logs" / f"hostile-{attempt}-0.log"
        return log.exists() and leaving_job.SAID.encode() in log.read_bytes()[-4096:]

    def ended(job: str) -> Callable[[PoolState], bool]:
        return lambda state: job in state.jobs and state.jobs[job].phase in ENDED

    async with system.watch("pool-a") as watch:
        await watch.submit("neighbour", gpus=1)
        await watch.until_running("neighbour")
        await submit(watch, image)
        await watch.until("the container has left everything", lambda _: has_left(1), WITHIN_S)
        await restart_agent(system)
        scratch = state / "scratch" / "hostile-1-0"
        with immutable(scratch / "own" / "precious"):
            await watch.submit("urgent", "exit 0", gpus=5, kind="inference")
            await watch.until("it gives way to another job", ended("urgent"), WITHIN_S)
            (released,) = watch.facts(TaskReleased, job="hostile", attempt=1)
            assert {each.processes for each in released.after} == {0}
            assert not scratch.exists(), "its name is free"
            await watch.until("its next attempt runs among what is left", lambda _: has_left(2), WITHIN_S)
            told = await watch.until_alarm("files-left")
            await restart_agent(system)
            assert "hostile-1-0" in told
            assert "Operation not permitted" in "".join(system.command("pool-a", "nodes").split("\n"))

            async def measured() -> bool:
                return await system.metric("node-agent", "bailiff_left_folders") == 1

            await watch.until_true("Prometheus sees it", measured)
        await watch.cancel("hostile")
        await watch.until("it ends", ended("hostile"), WITHIN_S)
        assert watch.running("neighbour")
        assert len(watch.facts(TaskStarted, job="neighbour")) == 1

        def all_removed() -> bool:
            return not [*state.glob("scratch/hostile*"), *state.glob("docker/tasks/*"), *state.glob("docker/control/*")]

        await watch.until("its folders are gone", lambda _: all_removed(), WITHIN_S)
        await restart_agent(system)
        left = [*state.glob("unfinished/*"), *state.glob("docker/unfinished/*")]
        await watch.until("what could not be removed is removed", lambda _: not any(map(os.path.lexists, left)), WITHIN_S)
        assert watch.running("neighbour")


async def restart_agent(system: System) -> None:
    system.kill_and_restart("node-agent")
    await asyncio.to_thread(system.wait_ready)
