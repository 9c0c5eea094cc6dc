"""Between a task's exit and its being forgotten: nobody gets its room before it is seen free."""

import asyncio
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, field

from bailiff_bus.messages import TaskIsReleased
from bailiff_core.records.facts import HostReading
from bailiff_node_agent.background import Background
from bailiff_node_agent.custody import Custody, Left, reading_fact
from bailiff_node_agent.devices import prove_release
from bailiff_node_agent.devices.ledger import ShareLedger
from bailiff_node_agent.machine import Machine
from bailiff_node_agent.reporting import Reporter
from bailiff_node_agent.runtime import Runtime, TaskKey, UnknownTask
from bailiff_node_agent.scratch import Scratch

from .held import Held, Tasks


@dataclass(frozen=True, slots=True)
class Releasing:
    """Of one agent."""

    machine: Machine
    tasks: Tasks
    custody: Custody
    shares: ShareLedger
    scratch: Scratch
    reporter: Reporter
    background: Background
    _forgetting: dict[TaskKey, asyncio.Task[None]] = field(default_factory=dict)

    async def release(self, held: Held) -> None:
        """Look until the devices are seen free; those that are not in time are quarantined, and nobody gets them before."""
        machine = self.machine
        runtime = machine.runtimes[held.runtime]
        living = runtime.pids(held.key)
        host = await self._host(held, living)
        if living:
            self.background.spawn(_kill(runtime, held.key))  # what got away from its supervisor has had its grace with the others
        if held.exit_code != 0:
            await self.custody.look()  # whether a device broke under it has to be known before the room is free
        while True:
            proof = await prove_release(
                machine.inventory,
                held.devices,
                lambda: runtime.pids(held.key),
                self.custody.baseline,
                machine.release_timeout_s,
                machine.release_poll_s,
                before=held.before,
                seen_pids=held.pids,
                shared=self.shares.part(str(held.key)) is not None,
            )
            if not proof.free:
                left = Left(held.key.job, held.key.attempt, int(held.key.task), proof.of_task)
                self.custody.not_free(proof, left)
            if not proof.living:
                break  # what is dirty stays out of use; the rest of its room is free
            machine.log().error("a task's processes do not end", job=held.key.job, held_by=proof.held_by)
        if held.runtime != "simulated":
            await asyncio.to_thread(self.scratch.remove, held.key)
        after_it = await self._host(held, proof.living)
        held.state = "released"
        before, after = tuple(map(reading_fact, proof.before)), tuple(map(reading_fact, proof.after))
        seen = {"before": before, "after": after, "host_before": host, "host_after": after_it}
        held.last_report = self.reporter.tell_of(held.key, held.order, TaskIsReleased, **seen)

    async def _host(self, held: Held, living: Collection[int]) -> HostReading | None:
        """What the task has of its machine now, beside devices; `None` for one that is only a time."""
        if held.runtime == "simulated":
            return None
        runtime = self.machine.runtimes[held.runtime]
        scratch = await asyncio.to_thread(self.scratch.used, held.key)
        return HostReading(processes=len(living), memory_bytes=runtime.memory(held.key), scratch_bytes=scratch)

    def received(self, number: int) -> None:
        """This report and all before it are in Kafka: what they told of for good is forgotten."""
        for held in self.tasks:
            if held.state == "released" and held.last_report is not None and held.last_report <= number:
                self.tasks.remove(held.key)
                self._forgetting[held.key] = self.background.spawn(self._forget(held))

    async def vacate(self, key: TaskKey) -> None:
        """Until nothing is left of an earlier, released member of that number."""
        if key in self._forgetting:
            await asyncio.wait([self._forgetting[key]])
        elif key in self.tasks:  # its release has arrived, which was not heard of
            await self._forget(self.tasks.remove(key))

    async def _forget(self, held: Held) -> None:
        self.machine.evictions.end(str(held.key))
        self.shares.strike(str(held.key))
        try:
            await self.machine.runtimes[held.runtime].forget(held.key)
        finally:
            self._forgetting.pop(held.key, None)


async def _kill(runtime: Runtime, key: TaskKey) -> None:
    with suppress(UnknownTask):
        await runtime.kill(key)
