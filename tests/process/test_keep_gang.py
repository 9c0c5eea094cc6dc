"""A gang that knows nothing of Bailiff is preempted on two machines at once: all of it continues, or all of it starts anew."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.kits.criu import criu_program, needs_criu
from tests.kits.system import System

from bailiff_core.records.facts import EvictionStageReached, TaskExited, TaskRestored, TaskRestoreFailed

pytestmark = [pytest.mark.kafka, needs_criu, pytest.mark.timeout(400)]

PROGRAM = """
import os, sys, time

folder, rank = sys.argv[1], os.environ["RANK"]
print("began", flush=True)
open(f"{folder}/began-{rank}", "a").write("x")
kept = os.urandom(16).hex()
print("kept", kept, flush=True)
while not os.path.exists(f"{folder}/go"):
    time.sleep(0.02)
print("ended with", kept, flush=True)
"""


@pytest.fixture
def two_machines(tmp_path: Path) -> Iterator[System]:
    env = {"BAILIFF_CRIU": criu_program(), "BAILIFF_SHARED_CHECKPOINTS": str(tmp_path / "shared"), "BAILIFF_RUN_AS": "agent"}
    system = System(tmp_path, pools={"pool-a": 2}, env=env)
    system.start()
    yield system
    system.stop()


@pytest.mark.parametrize("what", ["all is restored", "services die meanwhile", "an image of one is damaged"])
async def test_a_gang_on_two_machines_is_saved_and_restored_whole(two_machines: System, tmp_path: Path, what: str) -> None:
    is_whole, services_die = what != "an image of one is damaged", what == "services die meanwhile"
    data = tmp_path / "data"
    data.mkdir()
    (tmp_path / "program.py").write_text(PROGRAM)

    def log(attempt: int, rank: int) -> str:
        return "".join(path.read_text() for path in two_machines.folder.glob(f"state/**/logs/gang-{attempt}-{rank}.log"))

    async with two_machines.watch("pool-a") as watch:
        await watch.clear()
        await watch.until("both machines can save", lambda state: all(node.snapshots for node in state.nodes.values()), 120)
        run = f"exec {sys.executable} -I -S {tmp_path}/program.py {data}"
        await watch.submit("gang", run, gpus=8, tasks=2, checkpoint="snapshot", grace_s=60)
        await watch.until_running("gang")
        first = watch.job("gang").attempt
        await watch.until("both have begun", lambda _: all("kept" in log(first, rank) for rank in (0, 1)))
        await watch.submit("urgent", watch.until_signalled(), gpus=8, kind="build")
        if services_die:
            await watch.record(EvictionStageReached, job="gang", stage="frozen")
            two_machines.kill_and_restart("eviction-executor", "admission")
        for rank in (0, 1):
            await watch.record(TaskExited, job="gang", attempt=first, task=rank)
        stages = [(each.stage, each.task) for each in watch.facts(EvictionStageReached, job="gang")]
        order = [stage for stage, _ in stages]
        assert sorted(order) == sorted(["noticed", "frozen", "dumped", "stored"] * 2), stages
        assert max(at for at, stage in enumerate(order) if stage == "frozen") < order.index("dumped")
        if not is_whole:
            [pages, *_] = (tmp_path / "shared").glob("*/.bailiff-snapshots/gang/*/snapshot.rank-0001/pages-*")
            with pages.open("r+b") as file:
                file.write(b"\0\1\2\3")
        watch.let_finish("urgent")
        if services_die:
            await watch.record(TaskRestored, job="gang", waits=True)
            two_machines.kill_and_restart("admission", "eviction-executor")
        if is_whole:
            await watch.until(
                "all continue", lambda _: sum(not each.waits for each in watch.facts(TaskRestored, job="gang")) == 2
            )
        else:
            await watch.until("all start anew", lambda _: len(watch.facts(TaskRestoreFailed, job="gang")) == 2)
        (data / "go").touch()
        await watch.until_ended("gang")
        second = watch.job("gang").attempt
        began = [len((data / f"began-{rank}").read_text()) for rank in (0, 1)]
        for rank in (0, 1):
            kept = log(first, rank).split()[2]
            said = log(second, rank).split()
            if is_whole:
                assert said == ["ended", "with", kept]
            else:
                assert said[:2] == ["began", "kept"], said
                assert said[-1] == said[2] != kept
        assert began == ([1, 1] if is_whole else [2, 2])
        if is_whole:
            assert watch.facts(TaskRestoreFailed) == []
        await watch.verify()
