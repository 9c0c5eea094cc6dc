"""A plain program that knows nothing of Bailiff is preempted twice, moves to another machine, and ends as if nothing had been."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from tests.kits.criu import criu_program, needs_criu
from tests.kits.system import System

from bailiff_core.records.facts import EvictionStageReached, TaskExited, TaskRestored, TaskRestoreFailed, TaskStarted

pytestmark = [pytest.mark.kafka, needs_criu, pytest.mark.timeout(400)]

PROGRAM = """
import hashlib, os, sys, threading, time

folder, scratch = sys.argv[1], open(sys.argv[1] + "/scratch", "w+")
os.unlink(folder + "/scratch")
state, ticks = hashlib.sha256(b"seed").digest(), []
clock = threading.Thread(target=lambda: [ticks.append(1) or time.sleep(0.01) for _ in range(10**9)], daemon=True)
clock.start()
ask, answer = os.pipe(), os.pipe()
if os.fork() == 0:
    os.close(ask[1])
    while number := os.read(ask[0], 32):
        os.write(answer[1], hashlib.sha256(number).digest())
    os._exit(0)
os.close(ask[0])
for stage in range(3):
    for _ in range(20_000):
        os.write(ask[1], state)
        state = bytes(a ^ b for a, b in zip(state, os.read(answer[0], 32)))[:31] + b"x"
        scratch.write(state.hex()[:2])
    print("stage", stage, flush=True)
    while not os.path.exists(f"{folder}/data-{stage}"):
        time.sleep(0.02)
scratch.flush()
scratch.seek(0)
print("result", state.hex(), hashlib.sha256(scratch.read().encode()).hexdigest(), os.getpid() == os.getpgid(0), flush=True)
"""


@pytest.fixture
def two_machines(tmp_path: Path) -> Iterator[System]:
    env = {"BAILIFF_CRIU": criu_program(), "BAILIFF_SHARED_CHECKPOINTS": str(tmp_path / "shared"), "BAILIFF_RUN_AS": "agent"}
    system = System(tmp_path, pools={"pool-a": 2}, env=env)
    system.start()
    yield system
    system.stop()


def result_in(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("result")]


async def test_it_ends_with_the_same_result_as_one_that_was_never_touched(two_machines: System, tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (tmp_path / "program.py").write_text(PROGRAM)

    def log(attempt: int) -> str:
        [path] = two_machines.folder.glob(f"state/**/logs/plain-{attempt}-0.log")
        return path.read_text()

    async with two_machines.watch("pool-a") as watch:
        await watch.clear()
        await watch.until("both machines can save", lambda state: all(node.snapshots for node in state.nodes.values()), 120)
        await watch.submit("other", watch.until_signalled(), gpus=8, kind="build")
        await watch.until_running("other")
        run = f"exec {sys.executable} -I -S {tmp_path}/program.py {data}"
        await watch.submit("plain", run, gpus=8, checkpoint="snapshot", grace_s=60)
        await watch.until_running("plain")
        first = watch.job("plain").attempt
        await watch.until("it has done its first stage", lambda _: "stage 0" in log(first))

        await watch.submit("urgent-1", watch.until_signalled(), gpus=8, kind="build")
        await watch.record(TaskExited, job="plain", attempt=first)
        (data / "data-0").touch()
        watch.let_finish("other")
        await watch.record(TaskRestored, job="plain")
        second = watch.job("plain").attempt
        await watch.until("it has gone on with its second stage", lambda _: "stage 1" in log(second))

        await watch.submit("urgent-2", watch.until_signalled(), gpus=8, kind="build")
        await watch.record(TaskExited, job="plain", attempt=second)
        for stage in (1, 2):
            (data / f"data-{stage}").touch()
        watch.let_finish("urgent-1")
        await watch.until_ended("plain")
        third = watch.job("plain").attempt
        assert len({first, second, third}) == 3
        assert len(watch.facts(TaskRestored, job="plain")) == 2
        assert watch.facts(TaskRestoreFailed) == []
        [*stages] = [each.stage for each in watch.facts(EvictionStageReached, job="plain")]
        assert stages == ["noticed", "frozen", "dumped", "stored"] * 2
        started = watch.facts(TaskStarted, job="plain")
        assert len({each.node for each in started}) == 2, "it has moved to the other machine"
        said = [*log(first).split(), *log(second).split(), *log(third).split()]
        assert said[:6] == ["stage", "0", "stage", "1", "stage", "2"], "each stage was done once"
        watch.let_finish("urgent-2")
        await watch.verify()

    for stage in range(3):
        (data / f"data-{stage}").touch()
    alone = [sys.executable, "-I", "-S", str(tmp_path / "program.py"), str(data)]
    run_alone = partial(subprocess.run, alone, capture_output=True, text=True, check=True, start_new_session=True)
    untouched = (await asyncio.to_thread(run_alone)).stdout
    assert result_in(log(third)) == result_in(untouched) != []
    assert not [*(tmp_path / "shared").glob("*/plain/*/snapshot.*")]
