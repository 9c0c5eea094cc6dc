"""A plain program that knows nothing of Bailiff is preempted twice, moves to another machine, and ends as if nothing had been; it
is saved while it runs, and its machine is lost.
"""

import asyncio
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.kits.criu import criu_program, needs_criu, paused_criu
from tests.kits.saved_programs import HASHES, result_in, result_of_one_that_was_never_touched
from tests.kits.system import POLICY, System

from bailiff_bus import topics
from bailiff_bus.envelope import unwrap
from bailiff_bus.messages.reports import SnapshotStageReport
from bailiff_core.model.policy import NodeRules, SnapshotRules
from bailiff_core.records import facts
from bailiff_core.records.decisions import JobCheckpointDue, JobRequeued

pytestmark = [pytest.mark.kafka, needs_criu, pytest.mark.timeout(400)]


@pytest.fixture
def two_machines(tmp_path: Path) -> Iterator[System]:
    env = {"BAILIFF_CRIU": criu_program(), "BAILIFF_SHARED_CHECKPOINTS": str(tmp_path / "shared"), "BAILIFF_RUN_AS": "agent"}
    system = System(tmp_path, pools={"pool-a": 2}, env=env)
    system.start()
    yield system
    system.stop()


async def test_it_ends_with_the_same_result_as_one_that_was_never_touched(two_machines: System, tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (tmp_path / "program.py").write_text(HASHES)

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
        await watch.record(facts.TaskExited, job="plain", attempt=first)
        (data / "data-0").touch()
        watch.let_finish("other")
        await watch.record(facts.TaskRestored, job="plain")
        second = watch.job("plain").attempt
        await watch.until("it has gone on with its second stage", lambda _: "stage 1" in log(second))

        await watch.submit("urgent-2", watch.until_signalled(), gpus=8, kind="build")
        await watch.record(facts.TaskExited, job="plain", attempt=second)
        for stage in (1, 2):
            (data / f"data-{stage}").touch()
        watch.let_finish("urgent-1")
        await watch.until_ended("plain")
        third = watch.job("plain").attempt
        assert len({first, second, third}) == 3
        assert len(watch.facts(facts.TaskRestored, job="plain")) == 2
        assert watch.facts(facts.TaskRestoreFailed) == []
        [*stages] = [each.stage for each in watch.facts(facts.EvictionStageReached, job="plain")]
        assert stages == ["noticed", "frozen", "dumped", "stored"] * 2
        started = watch.facts(facts.TaskStarted, job="plain")
        assert len({each.node for each in started}) == 2, "it has moved to the other machine"
        said = [*log(first).split(), *log(second).split(), *log(third).split()]
        assert said[:6] == ["stage", "0", "stage", "1", "stage", "2"], "each stage was done once"
        watch.let_finish("urgent-2")
        await watch.verify()

    assert result_in(log(third)) == await result_of_one_that_was_never_touched(tmp_path) != []
    assert not [*(tmp_path / "shared").rglob("snapshot.*")]


SECOND = 1_000_000
SOON = NodeRules(unreachable_after=2 * SECOND, lease=6 * SECOND, lost_margin=5 * SECOND)
EVERY = 2 * SECOND


@pytest.fixture
def far_machine(tmp_path: Path) -> Iterator[System]:
    """Two machines with an agent each, which share a folder for checkpoints; `far` can be lost alone, within seconds."""
    env = {"BAILIFF_CRIU": criu_program(), "BAILIFF_SHARED_CHECKPOINTS": str(tmp_path / "shared"), "BAILIFF_RUN_AS": "agent"}
    policy = POLICY.model_copy(update={"nodes": SOON, "snapshots": SnapshotRules(min_interval=EVERY)})
    system = System(tmp_path, pools={"pool-a": 1}, env={**env, "BAILIFF_HEARTBEAT_S": "0.3"}, policy=policy)
    far = [{"name": "far", "pool": "pool-a", "gpus": "8xH100-80GB"}]
    system.start()
    system.machines["pool-a"] += 1
    system.stack.start_service("node-agent", replica="-far", env={"BAILIFF_NODES": json.dumps(far)})
    yield system
    system.stop()


@pytest.mark.parametrize("how", ["on request", "at intervals"])
async def test_its_machine_is_lost_and_it_goes_on_from_where_it_was_saved(far_machine: System, tmp_path: Path, how: str) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (tmp_path / "program.py").write_text(HASHES)

    def log(attempt: int) -> str:
        return "".join(path.read_text() for path in far_machine.folder.glob(f"state/**/logs/plain-{attempt}-0.log"))

    async with far_machine.watch("pool-a") as watch:
        both = lambda state: len(state.nodes) == 2 and all(node.snapshots for node in state.nodes.values())  # noqa: E731
        await watch.until("both machines can save", both, 120)
        await watch.submit("here", watch.until_signalled(), gpus=8, kind="build")
        await watch.until_running("here")
        here = watch.state.nodes[watch.job("here").tasks[0].node].name
        agents = {"far": "node-agent-far", "pool-a-0": "node-agent"}
        lost = next(name for name in agents if name != here)
        run = f"exec {sys.executable} -I -S {tmp_path}/program.py {data}"
        interval = {"checkpoint_every": EVERY} if how == "at intervals" else {}
        await watch.submit("plain", run, gpus=8, checkpoint="snapshot", grace_s=60, **interval)
        await watch.until_running("plain")
        await watch.until("it has done its first stage", lambda _: "stage 0" in log(1))
        if how == "on request":
            said = await asyncio.to_thread(far_machine.command, "pool-a", "checkpoint", "plain", "--reason", "a new script")
            assert said.startswith("plain: is being saved"), said
        else:
            await watch.record(JobCheckpointDue, job="plain")
        saved = watch.job("plain").saved_until
        await watch.until("it is saved after its first stage", lambda _: (watch.job("plain").saved_until or 0) > (saved or 0))
        (data / "data-0").touch()
        await watch.until("it has gone on with its second stage", lambda _: "stage 1" in log(1))
        watch.let_finish("here")
        await watch.until_ended("here")
        far_machine.kill(agents[lost])
        await watch.record(facts.NodeLost, node=lost)
        restored = await watch.record(facts.TaskRestored, job="plain")
        assert (restored.node, restored.from_attempt) == (here, 1)
        for stage in (1, 2):
            (data / f"data-{stage}").touch()
        await watch.until_ended("plain")
        assert watch.facts(facts.TaskRestoreFailed) == []
        stages = [each.stage for each in watch.facts(facts.SnapshotStageReached, job="plain")]
        assert stages[:3] == ["frozen", "dumped", "stored"]
        [requeued] = watch.facts(JobRequeued, job="plain")
        assert requeued.outcome == "lost"
        assert "stage 0" not in log(2), "it did not start anew"
        await watch.verify(orphans=True)
    assert result_in(log(2)) == await result_of_one_that_was_never_touched(tmp_path) != []
    assert not [*(tmp_path / "shared").rglob("snapshot.*")]


@pytest.fixture
def machine_that_waits(tmp_path: Path) -> Iterator[System]:
    """One machine, whose CRIU waits for `gate` where the state is written and the task still frozen."""
    (tmp_path / "gate").touch()  # the agent tries CRIU first
    system = System(tmp_path, pools={"pool-a": 1}, env={"BAILIFF_CRIU": str(paused_criu(tmp_path)), "BAILIFF_RUN_AS": "agent"})
    system.start()
    yield system
    system.stop()


async def test_no_agent_says_that_a_task_stands_still_once_its_snapshot_is_over(
    machine_that_waits: System, tmp_path: Path
) -> None:
    """Killed while it saves, and after it: `frozen` is said once for each order, so a further one is a lie (`not-ordered`)."""
    system = machine_that_waits
    async with system.watch("pool-a") as watch:
        await watch.until("it can save", lambda state: all(node.snapshots for node in state.nodes.values()), 120)
        await watch.submit("plain", checkpoint="snapshot", grace_s=60)
        await watch.until_running("plain")

        async def ordered() -> int:
            await asyncio.to_thread(system.command, "pool-a", "checkpoint", "plain")
            await watch.until("it is ordered", lambda _: watch.job("plain").saving_seq is not None)
            return watch.job("plain").saving_seq or 0

        async def over() -> None:
            await watch.until("nothing of it is awaited any more", lambda _: watch.job("plain").saving_seq is None)

        async def killed() -> None:
            before = watch.state.nodes[0].incarnation
            system.kill_and_restart("node-agent")
            await watch.until(
                "its next agent has joined, and can save",
                lambda state: state.nodes[0].incarnation != before and len(state.nodes[0].snapshots) > 0,
            )

        for each in ("gate", "frozen"):
            (tmp_path / each).unlink()
        given_up = await ordered()
        await watch.record(facts.SnapshotStageReached, job="plain", stage="frozen")
        await watch.until("it stands still", lambda _: (tmp_path / "frozen").exists())
        system.kill_and_restart("node-agent")
        await over()
        (tmp_path / "gate").touch()
        await watch.until("the next agent can save", lambda state: len(state.nodes[0].snapshots) > 0)
        stored = await ordered()
        await over()
        await killed()
        last = await ordered()
        await over()
        said: dict[int | None, list[str]] = {}
        for message in await watch.everything(topics.NODE_REPORTS.name):
            if isinstance(body := unwrap(message).body, SnapshotStageReport):
                said.setdefault(body.ordered_by, []).append(body.stage)
        whole = ["frozen", "dumped", "stored"]
        assert said == {given_up: ["frozen", "save_failed"], stored: whole, last: whole}
        assert watch.facts(facts.InputRejected) == []
