"""Pays what is owed to nodes: sends every command that no agent has answered yet."""

from collections.abc import Collection

from bailiff_bus.ambient import Ambient
from bailiff_bus.messages import Evict
from bailiff_bus.messages.commands import Order
from bailiff_core.lifecycle.grace import usual_term
from bailiff_core.model.pool import Pool

from .outbox import Outbox
from .owed import AGAIN_AFTER, OwedStarts, owed_clears, start_command
from .specs import JobSpecs

Orphan = tuple[str, str, int, int]
"""Node, job, attempt and task of what an agent runs and the log does not know."""


class Debts:
    """Of one writer incarnation."""

    def __init__(self, outbox: Outbox, specs: JobSpecs, ambient: Ambient) -> None:
        self._outbox, self._specs, self._ambient = outbox, specs, ambient
        self._starts = OwedStarts(ambient)
        self._specs_missed: set[str] = set()
        self._clears_told = self._orphans_told = 0

    def clears_are_new(self) -> None:
        """Somebody has just asked for a device: the node hears of it at once."""
        self._clears_told = 0

    async def pay(self, pool: Pool, orphans: Collection[Orphan], *, behind: bool) -> None:
        """Starts, devices to be cleared, and evictions of orphans. behind: there are inputs that were not read yet."""
        await self._pay_starts(pool, behind)
        boot = self._ambient.boot()
        if boot - self._clears_told >= AGAIN_AFTER:
            self._clears_told = boot
            for command in owed_clears(pool):
                await self._outbox.command(command)
        if orphans and boot - self._orphans_told >= AGAIN_AFTER:
            self._orphans_told = boot
            for orphan in orphans:
                await self._outbox.command(_eviction(pool, orphan))

    async def _pay_starts(self, pool: Pool, behind: bool) -> None:
        starts = []
        for job, node, tasks in self._starts.due(pool, behind):
            stored = self._specs.get(job.id, job.spec_digest)
            if stored is None:
                if job.id not in self._specs_missed:
                    self._specs_missed.add(job.id)
                    await self._outbox.alarm("critical", "spec-missing", f"{job.id} cannot start: its spec is gone")
                continue
            try:
                starts.append(self._outbox.packed(start_command(pool, job, node, tasks, stored.spec)))
            except ValueError as error:
                await self._outbox.alarm("critical", "start-too-large", f"{job.id} cannot start: {error}")
        await self._outbox.commands(starts)


def _eviction(pool: Pool, orphan: Orphan) -> Evict:
    name, job, attempt, task = orphan
    grace = pool.rules.eviction.grace
    return Evict(
        node=name,
        incarnation=pool.nodes[pool.node_numbers[name]].incarnation,
        sender="admission",
        sender_epoch=pool.epoch,
        order=Order(epoch=pool.epoch, seq=pool.seq),
        job=job,
        attempt=attempt,
        tasks=(task,),
        grace=grace,
        term_after=usual_term(grace),
        cause="not in the log",
    )
