"""One machine with CRIU and a whole agent, which can die and come back: its tasks are saved and restored."""

import asyncio
import glob
import sys
from pathlib import Path
from typing import Any

from bailiff_bus.messages import commands
from bailiff_bus.messages.reports import EvictionStageReport, ReportBody, SnapshotStageReport, TaskReleasedReport
from bailiff_core.model.job_spec import JobSpec
from bailiff_devstack.simulated_node import SimulatedInventory
from bailiff_node_agent.agent import Agent
from bailiff_node_agent.disk import MemoryStorage
from bailiff_node_agent.reporter import decode_report
from bailiff_node_agent.runtime.cgroups import Cgroups
from bailiff_node_agent.runtime.freezer import Freezer
from bailiff_node_agent.runtime.process import ProcessRuntime
from bailiff_node_agent.settings import SNAPSHOTS
from bailiff_service.clock_and_ids import SYSTEM
from bailiff_service.metrics import Metrics

from .agent import carry_out, context_on
from .criu import criu_program
from .saved_programs import PRELUDE
from .waiting import until

SECOND = 1_000_000
LONG = 300 * SECOND
WAITS = """
signal.signal(signal.SIGTERM, lambda *_: (print("had TERM", flush=True), os._exit(3)))
wait()
print("went on", os.getpid())
"""


class World:
    """One machine, and an agent that can die and come back."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.criu = folder, criu_program()
        self.storage, self.sent = MemoryStorage(), list[ReportBody]()
        self.running: asyncio.Task[None] | None = None
        self.checkpoints = folder / "checkpoints"
        self.seq = 10
        self.cgroups: Cgroups | None = None
        self.freezer: Freezer | None = None
        for each in ("logs", "checkpoints", "work"):
            (folder / each).mkdir(exist_ok=True)

    async def agent_starts(self, **parts: Any) -> None:
        runtime = ProcessRuntime(self.folder, criu=self.criu, cgroups=self.cgroups, freezer=self.freezer)
        given = {"folder": self.folder, "checkpoints": self.checkpoints, **parts}
        inventory = SimulatedInventory("2xH100-80GB", "n1")
        context = context_on(self.storage, inventory=inventory, runtimes={"process": runtime}, **given)
        self.agent = Agent(context, SYSTEM, Metrics(), self.collect)
        await self.agent.adopt()
        self.running = asyncio.create_task(self.agent.run())
        await carry_out(self.agent, commands.Fence(**self._common(), sender="admission"))

    async def agent_dies(self) -> None:
        assert self.running is not None
        self.running.cancel()
        await asyncio.gather(self.running, return_exceptions=True)

    def collect(self) -> None:
        for number, kept in self.agent.context.reports.unsent():
            self.sent.append(decode_report(kept))
            self.agent.received(number)

    def _common(self) -> dict[str, Any]:
        return {"node": "n1", "incarnation": self.agent.context.incarnation.incarnation, "sender_epoch": 1}

    def _about(self, attempt: int) -> dict[str, Any]:
        self.seq += 1
        return {**self._common(), "ordered_by": commands.RecordRef(epoch=1, seq=self.seq), "job": "job", "attempt": attempt}

    async def starts(
        self, program: str = WAITS, attempt: int = 0, restore: commands.SnapshotRef | None = None, **about: Any
    ) -> None:
        command = (sys.executable, "-I", "-S", "-c", PRELUDE + program)
        spec = JobSpec(command=command, working_dir=str(self.folder / "work"))
        given = {"spec": spec, "grace": SECOND, "master_node": "n1", "checkpoint": "snapshot", **about}
        task = commands.TaskAssignment(task=0, restore=restore)
        await carry_out(self.agent, commands.StartTask(sender="admission", **self._about(attempt), tasks=(task,), **given))

    async def starts_and_is_ready(self, program: str = WAITS, **about: Any) -> None:
        await self.starts(program, **about)
        await until(lambda: "ready" in self.output(0))

    async def evict(self, attempt: int = 0, **about: Any) -> None:
        given = {"tasks": (0,), "grace": LONG, "term_after": LONG, "cause": "preemption", "save": "snapshot", **about}
        await carry_out(self.agent, commands.Evict(sender="executor", **self._about(attempt), **given))

    async def save(self, attempt: int = 0, *, again: bool = False, **about: Any) -> int:
        """It is saved while it runs, by a new order or by the last one again, whose number is returned."""
        self.seq -= again
        command = {**self._about(attempt), "tasks": (0,), **about}
        await carry_out(self.agent, commands.SaveTasks(sender="executor", **command))
        return self.seq

    async def saved(self, order: int, last: str = "stored") -> commands.SnapshotRef:
        """The snapshot that was taken by this order, once that has come to its last stage."""
        await until(lambda: last in self.saving_stages(order))
        said = next(each for each in self.of(SnapshotStageReport) if (each.ordered_by, each.stage) == (order, last))
        return commands.SnapshotRef(
            attempt=said.attempt, driver=said.driver, sha256=said.sha256 or "0" * 64, bytes=said.bytes or 0
        )

    def saving_stages(self, order: int) -> list[str]:
        return [each.stage for each in self.of(SnapshotStageReport) if each.ordered_by == order]

    def why_not_saved(self) -> str:
        return str(self.of(SnapshotStageReport)[-1].reason)

    async def step(self, step: str, attempt: int = 0) -> None:
        """What the executor says to a task of a gang."""
        about = {**self._about(attempt), "tasks": (0,), "step": step}
        await carry_out(self.agent, commands.SnapshotStep(sender="executor", **about))

    async def cancel(self) -> None:
        await carry_out(self.agent, commands.CancelEviction(sender="executor", **self._about(0), tasks=(0,)))

    async def stored(self) -> commands.SnapshotRef:
        """The snapshot of the first attempt, once it has ended."""
        await self.seen(TaskReleasedReport)
        [stored] = [each for each in self.of(EvictionStageReport) if each.stage == "stored"]
        return commands.SnapshotRef(attempt=0, driver=stored.driver, sha256=stored.sha256, bytes=stored.bytes)

    async def seen(self, kind: type[Any], count: int = 1) -> Any:
        await until(lambda: len(self.of(kind)) >= count)
        return self.of(kind)[count - 1]

    def of(self, kind: type[Any]) -> list[Any]:
        return [report for report in self.sent if isinstance(report, kind)]

    def stages(self) -> list[str]:
        return [report.stage for report in self.of(EvictionStageReport)]

    def output(self, attempt: int) -> str:
        path = self.folder / f"logs/job-{attempt}-0.log"
        return path.read_text() if path.exists() else ""

    def images(self) -> list[Path]:
        # Not pathlib's, which fails where the agent removes a folder meanwhile.
        found = glob.glob(f"{SNAPSHOTS}/job/attempt-*/snapshot.*", root_dir=self.checkpoints)  # noqa: PTH207
        return sorted(self.checkpoints / each for each in found)

    def go(self) -> None:
        (self.folder / "work/go").touch()
