"""Jobs in containers, through the real services: preempted and resumed, adopted, and an engine that restarts."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.kits.docker_engine import EngineProxy, docker, image_of, need_engine
from tests.kits.pty_program import PtyProgram
from tests.kits.system import System, Watch

from bailiff_core.model.demand import JobDemand, TaskGroup
from bailiff_core.model.job_spec import JobSpec
from bailiff_core.records.facts import EvictionStageReached, TaskExited, TaskReleased, TaskResumed
from bailiff_core.records.job_requests import SubmitJob

pytestmark = [pytest.mark.compose, pytest.mark.kafka, pytest.mark.timeout(600)]

PYTHON = "python:3.12-slim-bookworm"
ROOT = Path(__file__).parents[2]
TRAINING = """
import sys, time
from bailiff_job import attach

job, weights = attach(every_steps=1000000), 0


def load(folder):
    global weights
    weights = int((folder / "weights").read_text())


start = job.restore(load)
print("from", start, flush=True)
for step in range(start, int(sys.argv[1])):
    time.sleep(0.01)
    weights += step
    print("step", step, flush=True)
    job.progress(step, int(sys.argv[1]))
    if job.should_checkpoint(step):
        job.checkpoint(step, lambda folder: (folder / "weights").write_text(str(weights)))
    if job.preempted:
        job.exit()
print("weights", weights, flush=True)
"""


@pytest.fixture
def image(tmp_path: Path) -> Iterator[str]:
    """An image with a training script and the job library."""
    need_engine(PYTHON)
    script = tmp_path / "train.py"
    script.write_text(TRAINING)
    with image_of(tmp_path / "image", PYTHON, ROOT / "libs/job/bailiff_job", script) as name:
        yield name


@pytest.fixture
def engine_proxy(tmp_path: Path) -> EngineProxy:
    return EngineProxy(tmp_path / "engine.sock")


@pytest.fixture
def system(tmp_path: Path, engine_proxy: EngineProxy) -> Iterator[System]:
    node = {"pool-a": {"runtimes": ["process", "docker"]}}
    env = {"BAILIFF_DOCKER_ENGINE": engine_proxy.url}
    with System(tmp_path / "system", pools={"pool-a": 1}, machine=node, env=env) as system:
        yield system
        assert containers(system) == []
        engine_proxy.close()


def containers(system: System) -> list[str]:
    """Those of this system that the engine still has."""
    listed = docker("ps", "-a", "--filter", "label=org.bailiff.pool", "--format", '{{.ID}} {{.Label "org.bailiff.folder"}}')
    return [line.split()[0] for line in listed.stdout.splitlines() if str(system.folder) in line]


async def submit(watch: Watch, job: str, image: str, steps: int) -> None:
    group = TaskGroup(gpu_milli=8000, cpu_milli=1000, memory_bytes=1 << 30)
    demand = JobDemand(job=job, tasks=(group,), priority_class="train", grace=30_000_000, kill_after=5_000_000)
    spec = JobSpec(command=("python3", "/job/train.py", str(steps)), runtime="docker", image=image)
    await watch.request(SubmitJob(demand=demand, spec=spec))


def printed(system: System) -> str:
    """What attempts of jobs have printed on the node, one after the other."""
    return "".join(path.read_text() for path in sorted((system.folder / "state").rglob("logs/train-*.log")))


async def test_a_job_in_a_container_loses_no_step(system: System, engine_proxy: EngineProxy, image: str) -> None:
    steps = 1500
    async with system.watch("pool-a") as watch:
        await submit(watch, "train", image, steps)
        await watch.until("it trains", lambda _: "step 20\n" in printed(system))

        await watch.submit("urgent", "exit 0", gpus=8, kind="inference")
        await watch.until_ended("urgent")
        stages = [each.stage for each in watch.facts(EvictionStageReached, job="train")]
        assert [each for each in stages if each != "saving_in_flight"] == [
            "noticed",
            "acknowledged",
            "checkpoint_started",
            "checkpoint_committed",
            "yielding",
        ]
        [left] = watch.facts(TaskExited, job="train", attempt=1)
        [released] = watch.facts(TaskReleased, job="train", attempt=1)
        assert (left.exit_code, {each.processes for each in released.after}) == (85, {0})

        resumed = await watch.record(TaskResumed, job="train", attempt=2)
        assert resumed.step >= 20
        await watch.until_running("train")
        system.kill_and_restart("node-agent")
        system.wait_ready()
        at = printed(system).count("\n")
        await watch.until("its output continues", lambda _: printed(system).count("\n") > at + 20)

        engine_proxy.close()
        await watch.until("the agent tells it", lambda _: "no container can be started" in system.log_of("node-agent"))
        assert (watch.job("train").phase, watch.job("train").attempt) == ("running", 2)
        engine_proxy.open()
        await watch.until_ended("train")
        assert watch.job("train").attempt == 2
        lines = printed(system).splitlines()
        assert [line for line in lines if line.startswith("step ")] == [f"step {step}" for step in range(steps)]
        assert lines[-1] == f"weights {sum(range(steps))}"
        assert f"weights {sum(range(steps))}" in system.command("pool-a", "logs", "train")
        await watch.verify()


async def test_a_person_works_in_the_terminal_of_a_container(system: System, image: str) -> None:
    environment = {**system.stack.kafka_environment("operator"), "BAILIFF_POOL": "pool-a"}
    async with system.watch("pool-a") as watch, contextlib.AsyncExitStack() as stack:

        def bailiff(*arguments: str) -> PtyProgram:
            program = PtyProgram(arguments, environment, rows=30, columns=100)
            stack.callback(program.close)
            return program

        asked = ("--name", "desk", "--image", image, "--gpus", "1", "--env", "PS1=ready> ")
        ada = bailiff("submit", "--interactive", *asked, "--", "sh", "-i")
        await watch.until_running("desk")
        ada.until("ready> ")
        ada.type("stty size; ls /job; echo $((6*7))\r")
        ada.until("30 100")
        ada.until("train.py")
        ada.until("42")
        ada.type("\x10\x11")  # Ctrl-P Ctrl-Q
        assert ada.ended() == 0
        again = bailiff("attach", "desk")
        again.until("42")  # what was printed before is shown again
        again.until("ready> ")
        again.type("exit 7\r")
        assert again.ended() == 7
        assert (await watch.record(TaskExited, job="desk")).exit_code == 7
