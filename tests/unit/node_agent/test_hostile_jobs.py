"""An agent whose job leaves everything that could end or stop it: it answers, restarts, and its other tasks live on."""
# ruff: noqa: ASYNC220, ASYNC221, ASYNC240 - the story waits for itself alone

import asyncio
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from tests.kits import hostile_job, prying_job
from tests.kits.agent import carry_out, context_on
from tests.kits.memory_bus import MemoryCluster
from tests.kits.waiting import until

from bailiff_bus.messages.commands import Evict, Fence, RecordRef, StartTask, TaskAssignment
from bailiff_bus.messages.reports import TaskReleasedReport, TaskStartedReport, TaskStartRefusedReport
from bailiff_core.model.job_spec import JobSpec
from bailiff_devstack.simulated_node import SimulatedInventory
from bailiff_node_agent import checkpoints, log_rotation, log_shipper
from bailiff_node_agent.agent import Agent
from bailiff_node_agent.disk import FolderStorage
from bailiff_node_agent.reporter import decode_report
from bailiff_node_agent.runtime import TaskKey, job_files
from bailiff_node_agent.runtime.process import ProcessRuntime, why_not_isolated
from bailiff_service.clock_and_ids import SYSTEM
from bailiff_service.metrics import Metrics

HOUR = 3_600_000_000
LOG_BYTES = 64 * 1024
PLANTED = "planted-beside-a-prying-job"
HOSTILE = TaskKey("hostile", 1, "0")


class Node:
    """A machine with an agent, which may be followed by another one."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.seq = folder, 10

    async def begin(self) -> None:
        """The first agent, or the next."""
        (self.folder / "logs").mkdir(parents=True, exist_ok=True)
        hidden = (self.folder,) if why_not_isolated() is None else ()
        self.runtime = ProcessRuntime(self.folder, hidden=hidden)
        context = context_on(
            FolderStorage(self.folder),
            inventory=SimulatedInventory("1xH100-80GB", "n1", lambda _: None),
            runtimes={"process": self.runtime},
            folder=self.folder,
            release_timeout_s=0.2,
            release_poll_s=0.01,
        )
        self.agent = Agent(context, SYSTEM, Metrics(), lambda: None)
        await self.agent.adopt()
        self.running = asyncio.ensure_future(self.agent.run())
        await carry_out(self.agent, Fence(**self._common(), lease=HOUR, lost_margin=HOUR))

    async def end(self) -> None:
        self.running.cancel()
        await asyncio.gather(self.running, return_exceptions=True)

    async def start(self, job: str, command: list[str], attempt: int = 1) -> None:
        rest: dict[str, Any] = {"grace": 0, "master_node": "n1", "tasks": (TaskAssignment(task=0, devices=()),)}
        await carry_out(
            self.agent, StartTask(**self._ordered(), job=job, attempt=attempt, spec=JobSpec(command=tuple(command)), **rest)
        )

    async def evict(self, job: str) -> None:
        await carry_out(self.agent, Evict(**self._ordered(), job=job, attempt=1, tasks=(0,), grace=0, cause="preemption"))

    def runs(self, job: str, attempt: int = 1) -> bool:
        return bool(self.runtime.pids(TaskKey(job, attempt, "0")))

    def reports(self, kind: type) -> list[Any]:
        found = [decode_report(report) for _, report in self.agent.context.reports.unsent()]
        return [report for report in found if isinstance(report, kind)]

    def _common(self) -> dict[str, Any]:
        incarnation = self.agent.context.incarnation.incarnation
        return {"node": "n1", "incarnation": incarnation, "sender": "admission", "sender_epoch": 1}

    def _ordered(self) -> dict[str, Any]:
        self.seq += 1
        return {**self._common(), "ordered_by": RecordRef(epoch=1, seq=self.seq)}


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    made = Node(tmp_path / "node")
    await made.begin()
    yield made
    for task in [*made.agent.tasks]:
        await made.runtime.kill(task.key)
    await until(lambda: all(task.state != "running" for task in made.agent.tasks))  # else their supervisors still write
    await made.end()
    subprocess.run(["find", tmp_path, "-name", "immutable", "-exec", "chattr", "-i", "{}", "+"], check=False, capture_output=True)
    subprocess.run(["rm", "-rf", str(tmp_path)], check=True)


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> dict[str, set[str]]:
    """By what touches a job's files, the threads in which it has run."""
    found: dict[str, set[str]] = {}

    def watch(module: Any, name: str) -> None:
        call: Callable[..., Any] = getattr(module, name)

        def noted(*given: Any, **named: Any) -> Any:
            found.setdefault(name, set()).add(threading.current_thread().name.rpartition("_")[0])
            return call(*given, **named)

        monkeypatch.setattr(module, name, noted)

    for module, name in (
        (checkpoints, "_candidates"),
        (job_files, "_walk"),
        (job_files, "remove_tree"),
        (log_rotation, "_copy"),
        (log_shipper, "_read"),
    ):
        watch(module, name)
    return found


@pytest.mark.slow
async def test_an_agent_answers_restarts_and_gives_back_what_a_hostile_job_had(
    node: Node, tmp_path: Path, threads: dict[str, set[str]]
) -> None:
    before = set(threading.enumerate())
    await node.start("neighbour", ["sleep", "600"])
    ready = tmp_path / "ready"
    await node.start("hostile", [sys.executable, hostile_job.__file__, str(ready)])
    await until(ready.exists, within_s=120)

    log = node.folder / "logs" / f"{HOSTILE}.log"
    written = log.stat().st_blocks * 512
    cluster = MemoryCluster(clock=lambda: 0)
    cluster.create_topics(pools=1)
    producer = await cluster.client("agent").producer()
    at = ("pool-a", "n1", HOSTILE)
    assert await job_files.reading(log_rotation.rotate, log, LOG_BYTES)
    await log_shipper._ship(producer, at, {at: (log, 0)})
    assert sum(path.stat().st_blocks * 512 for path in log.parent.iterdir() if path.name.startswith(log.name)) <= written

    await node.end()
    await node.begin()
    assert {task.key.job: task.state for task in node.agent.tasks} == {"neighbour": "running", "hostile": "running"}

    await node.evict("hostile")
    await until(lambda: node.reports(TaskReleasedReport), within_s=120)
    (released,) = node.reports(TaskReleasedReport)
    assert released.job == "hostile"
    assert not (node.folder / "scratch" / str(HOSTILE)).exists()
    await until(lambda: not node.agent._releaser.background.running, within_s=120)
    left = node.agent.heartbeat(0)
    if shutil.which("chattr") and left.left_folders:
        assert left.left_folders == 1
        assert left.left_example.endswith("Operation not permitted")

    await node.start("hostile", ["sleep", "600"], attempt=2)
    assert node.reports(TaskStartedReport)
    assert node.runs("hostile", 2)
    environ = Path(f"/proc/{node.runtime.pids(TaskKey('hostile', 2, '0'))[-1]}/environ").read_bytes()
    assert b"BAILIFF_RESUME_FROM=\0" in environ

    node.agent.received(node.agent.context.reports.next_number - 1)
    await until(lambda: HOSTILE not in node.agent.tasks, within_s=120)
    await until(lambda: not (node.folder / "control" / str(HOSTILE)).exists(), within_s=120)

    await node.end()
    await node.begin()
    assert node.runtime.clearing is not None
    await node.runtime.clearing
    assert {task.key.job: task.state for task in node.agent.tasks} == {"neighbour": "running", "hostile": "running"}
    assert node.runs("neighbour")
    assert node.agent.heartbeat(0).left_folders == left.left_folders, "tried again, and told again"

    assert threads.keys() >= {"_candidates", "_walk", "remove_tree", "_copy", "_read"}
    assert set().union(*threads.values()) == {"job-files-reading", "job-files-removing"}, "never on the event loop"
    own = [thread for thread in set(threading.enumerate()) - before if thread.name.startswith("job-files")]
    assert len(own) <= 2 * job_files.THREADS


@pytest.mark.skipif(os.geteuid() != 0 or why_not_isolated() is not None, reason="only root becomes any user, and mounts /proc")
async def test_a_root_job_reaches_nothing_through_any_process(node: Node, tmp_path: Path) -> None:
    """Neither of the agent, nor of a service, another user or another job: no environment, file, folder or root. Nor where root
    mounts /proc, as for a chroot, before or after the job has started."""
    secret, ready = node.folder / "secret", tmp_path / "ready"
    secret.write_text(PLANTED)
    chroots = tmp_path / "chroots"
    procs = [chroots / "before", chroots / "later", chroots / "bound"]
    for proc in procs:
        proc.mkdir(parents=True)
    subprocess.run(["mount", "--bind", chroots, chroots], check=True)
    subprocess.run(["mount", "--make-shared", chroots], check=True)
    subprocess.run(["mount", "-t", "proc", "proc", procs[0]], check=True)
    told = {"env": {"SECRET": PLANTED}, "cwd": node.folder}
    with secret.open() as held:
        service = subprocess.Popen(["sleep", "600"], stdin=held, **told)
        stranger = subprocess.Popen(["sleep", "600"], stdin=held, user="nobody", group="nogroup", extra_groups=[], **told)
    try:
        await node.start("neighbour", ["sh", "-c", f"SECRET={PLANTED} exec sleep 600"])
        beside = node.runtime.pids(TaskKey("neighbour", 1, "0"))
        others = [f"PID={pid}" for pid in (os.getpid(), service.pid, stranger.pid, *beside)]
        paths = ["environ", "cmdline", "cwd/secret", f"root{secret}", "maps", *(f"PROC={proc}" for proc in procs)]
        await node.start("prying", [sys.executable, prying_job.__file__, f"AFTER={ready}", *paths, *others])
        subprocess.run(["mount", "-t", "proc", "proc", procs[1]], check=True)
        subprocess.run(["mount", "--rbind", "/proc", procs[2]], check=True)
        ready.touch()
        log = node.folder / "logs" / "prying-1-0.log"
        await until(lambda: "has looked" in log.read_text(), within_s=60)
        assert PLANTED not in log.read_text()
        assert "could signal" not in log.read_text()
        await until(lambda: not node.runs("prying"), within_s=60)
        assert node.runs("neighbour")
    finally:
        for process in (service, stranger):
            process.kill()
            process.wait()
        subprocess.run(["umount", "-R", chroots], check=True)


async def test_the_release_does_not_wait_for_files_without_end(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job must not keep its GPUs by how much it has left."""
    begun = threading.Event()

    def endless(path: Path, limit: int) -> job_files.Removal:
        begun.set()
        return job_files.Removal(limit, OSError(f"{path} has more"))

    await node.start("train-1", ["sleep", "600"])
    monkeypatch.setattr(job_files, "remove_tree", endless)
    await node.evict("train-1")
    await until(lambda: node.reports(TaskReleasedReport), within_s=60)
    assert begun.is_set()
    assert not (node.folder / "scratch" / str(TaskKey("train-1", 1, "0"))).exists(), "its name is free"


async def test_a_link_in_the_place_of_a_checkpoint_directory_is_refused_whoever_runs_the_job(node: Node, tmp_path: Path) -> None:
    """In a folder that many may write to, somebody has put it there: a container would have been given all of the machine."""
    (node.folder / "checkpoints").mkdir(exist_ok=True)
    (node.folder / "checkpoints" / "train-1").symlink_to("/")
    await node.start("train-1", ["sleep", "600"])
    (refused,) = node.reports(TaskStartRefusedReport)
    assert "is no folder, but a link" in refused.reason
    assert not node.runs("train-1")


async def test_a_scratch_that_cannot_be_counted_whole_is_at_least_what_was_counted(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_files, "_walk", lambda _: iter([None]))
    await node.start("train-1", ["sleep", "600"])
    await node.evict("train-1")
    await until(lambda: node.reports(TaskReleasedReport), within_s=60)
    (released,) = node.reports(TaskReleasedReport)
    assert (released.host_before.scratch_bytes, released.host_before.scratch_is_more) == (0, True)
