"""Answers to single records. They are not owed: who misses one finds out and asks again."""

from collections.abc import Sequence

from bailiff_bus.ambient import Ambient
from bailiff_bus.messages import SendInventory
from bailiff_core.model.pool import Pool
from bailiff_core.records import Record
from bailiff_core.records.facts import (
    DecisionFailed,
    DeviceClearRequested,
    DeviceQuarantined,
    DeviceUnhealthy,
    InputsLost,
    NodeJoined,
    PolicyApplied,
    ReportsStale,
)

from .debts import Debts
from .fencing import Fencing
from .outbox import Outbox
from .owed import AGAIN_AFTER
from .suspects import Suspects


class Answers:
    """Of one writer incarnation: fences, requests for inventories, and alarms."""

    def __init__(self, outbox: Outbox, fencing: Fencing, debts: Debts, suspects: Suspects, ambient: Ambient) -> None:
        self._outbox, self._fencing, self._debts, self._suspects = outbox, fencing, debts, suspects
        self._ambient = ambient
        self._asked: dict[str, int] = {}

    async def answer(self, pool: Pool, records: Sequence[Record]) -> None:
        """What follows from these, which are committed."""
        for record in records:
            match record.data:
                case NodeJoined(node=node, incarnation=incarnation):
                    self._fencing.heard(node, incarnation)
                    fence = self._fencing.of(pool, node)
                    if fence is not None:
                        await self._outbox.command(fence)
                case PolicyApplied():
                    await self.fence_all(pool)  # the lease that it sets is what agents go by, too
                case ReportsStale(nodes=nodes):
                    text = f"{len(nodes)} nodes fell silent at once: {', '.join(nodes[:20])}; none is declared lost"
                    await self._outbox.alarm("critical", "reports-stale", text, record.seq)
                case DecisionFailed(job=job, error=error):
                    self._suspects.jobs.pop(job, None)
                    await self._outbox.alarm("critical", "decision-failed", f"{job} is held: {error}", record.seq)
                case InputsLost() as gone:
                    text = f"{gone.topic}/{gone.partition}: {gone.from_offset} to {gone.to_offset} were never read"
                    await self._outbox.alarm("critical", "inputs-lost", text, record.seq)
                    await self.ask_for_inventories(pool)
                case DeviceQuarantined() as dirty:
                    text = f"{dirty.device} of {dirty.node} is quarantined ({dirty.reason}): {dirty.detail}"
                    await self._outbox.alarm("warning", "device-quarantined", text, record.seq)
                case DeviceUnhealthy() as sick:
                    text = f"{sick.device} of {sick.node} is out of use ({sick.reason}): {sick.detail}"
                    await self._outbox.alarm("critical", "device-unhealthy", text, record.seq)
                case DeviceClearRequested():
                    self._debts.clears_are_new()

    async def fence_all(self, pool: Pool) -> None:
        """Old commands of earlier epochs are dead when this returns."""
        fences = [self._outbox.packed(fence) for fence in self._fencing.all(pool)]
        for batch in await self._outbox.commands(fences):
            await batch.first

    async def ask_for_inventories(self, pool: Pool) -> None:
        """Of every node."""
        for node in pool.nodes.values():
            await self.ask_for_inventory(pool, node.name, node.incarnation)

    async def ask_for_inventory(self, pool: Pool, node: str, incarnation: str) -> None:
        """At most once in a while: a gap shows in every report until the announcement has come."""
        boot = self._ambient.boot()
        if boot - self._asked.get(incarnation, -AGAIN_AFTER) < AGAIN_AFTER:
            return
        self._asked[incarnation] = boot
        await self._outbox.command(SendInventory(node=node, incarnation=incarnation, sender="admission", sender_epoch=pool.epoch))
