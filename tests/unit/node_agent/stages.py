"""One eviction, stage by stage, on virtual time."""

import asyncio
from dataclasses import replace
from typing import Any

from tests.kits.agent import carry_out, context_on

from bailiff_bus.messages.commands import CancelEviction, CheckpointAtStep, Evict, RecordRef, StartTask, TaskAssignment
from bailiff_bus.messages.reports import EvictionStageReport, ReportBody
from bailiff_core.model.job_spec import JobSpec
from bailiff_devstack.simulated_node import SimulatedInventory, SimulatedMachine, SimulatedRuntime
from bailiff_node_agent.agent import Agent
from bailiff_node_agent.attach import AttachServer
from bailiff_node_agent.disk import MemoryStorage
from bailiff_node_agent.reporter import decode_report
from bailiff_service.clock_and_ids import SYSTEM
from bailiff_service.metrics import Metrics

SECOND = 1_000_000
ALONE = TaskAssignment(task=0)


class World:
    """One machine, and an agent that can die and come back."""

    def __init__(self, attach_server: AttachServer | None = None) -> None:
        self.attach_server = attach_server
        self.machine, self.storage = SimulatedMachine(), MemoryStorage()
        self.inventory = SimulatedInventory("2xH100-80GB", "n1", self.machine.identify)
        self.machine.attach_devices(self.inventory)
        self.running: asyncio.Task[None] | None = None
        self.sent_reports: list[ReportBody] = []

    async def agent_starts(self) -> None:
        runtime = SimulatedRuntime(self.machine)
        clock_and_ids = replace(SYSTEM, boot=lambda: int(asyncio.get_running_loop().time() * 1_000_000))
        parts = context_on(self.storage, inventory=self.inventory, runtimes={"simulated": runtime})
        self.agent = Agent(parts, clock_and_ids, Metrics(), self.collect, attach_server=self.attach_server)
        await self.agent.adopt()
        self.running = asyncio.get_running_loop().create_task(self.agent.run())
        await asyncio.sleep(0)

    def collect(self) -> None:
        for number, kept in self.agent.context.reports.unsent():
            self.sent_reports.append(decode_report(kept))
            self.agent.context.reports.sent(number)

    async def agent_dies(self) -> None:
        assert self.running is not None
        self.running.cancel()
        await asyncio.gather(self.running, return_exceptions=True)
        self.machine.listen(None, None)

    def common(self, seq: int) -> dict[str, Any]:
        incarnation = self.agent.context.incarnation.incarnation
        position = {"node": "n1", "incarnation": incarnation, "sender_epoch": 1, "ordered_by": RecordRef(epoch=1, seq=seq)}
        return {**position, "job": "job", "attempt": 1}

    async def starts(self, talks: str | None = "10:2", world: int = 1, task: TaskAssignment = ALONE, **env: str) -> None:
        spec = JobSpec(command="train", runtime="simulated", env=env | ({"BAILIFF_SIM_CHECKPOINTS": talks} if talks else {}))
        about = {"tasks": (task,), "spec": spec, "grace": SECOND, "master_node": "n1", "world_size": world}
        await carry_out(self.agent, StartTask(sender="admission", **self.common(5), **about))

    def leaves(self, grace: int = 150, term_after: int | None = 120) -> dict[str, Any]:
        soft = None if term_after is None else term_after * SECOND
        return {"tasks": (0,), "grace": grace * SECOND, "term_after": soft, "cause": "preemption", "for_job": "serve-1"}

    async def evict(self, grace: int = 150, term_after: int | None = 120, seq: int = 9) -> None:
        await carry_out(self.agent, Evict(sender="executor", **self.common(seq), **self.leaves(grace, term_after)))

    async def cancel_eviction(self, seq: int = 20) -> None:
        await carry_out(self.agent, CancelEviction(sender="executor", **self.common(seq), tasks=(0,)))

    async def together(self, step: int, *, agreed: bool = False) -> None:
        await carry_out(self.agent, CheckpointAtStep(sender="executor", **self.common(9), tasks=(0,), step=step, agreed=agreed))

    def of(self, kind: type[Any]) -> list[Any]:
        return [report for report in self.sent_reports if isinstance(report, kind)]

    def stages(self) -> list[tuple[str, int]]:
        """Each with its seconds since the notice, in the order of the reports."""
        return [(report.stage, round(report.elapsed / SECOND)) for report in self.of(EvictionStageReport)]
