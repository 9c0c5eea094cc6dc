"""Sends pending commands to nodes until their agents confirm them."""

from collections.abc import Collection

from bailiff_bus.messages.commands import Evict, RecordRef
from bailiff_core.model.grace import default_term_after
from bailiff_core.model.state import PoolState
from bailiff_service.clock_and_ids import ClockAndIds

from .job_specs import JobSpecs
from .pending_commands import RESEND_AFTER, PendingStarts, for_node_alone, pending_clears, start_command
from .publisher import Publisher

Orphan = tuple[str, str, int, int]
"""Node, job, attempt and task of a task that an agent runs and that is not in the log."""


class Reconciler:
    """The reconciler of one writer incarnation."""

    def __init__(self, publisher: Publisher, specs: JobSpecs, clock_and_ids: ClockAndIds) -> None:
        self._publisher, self._specs, self._clock_and_ids = publisher, specs, clock_and_ids
        self._starts = PendingStarts(clock_and_ids)
        self._missing_specs: set[str] = set()
        self._clears_sent_at = self._orphans_sent_at = 0

    def resend_clears(self) -> None:
        """Send device clearances with the next `reconcile`: a new one was requested."""
        self._clears_sent_at = 0

    async def reconcile(self, state: PoolState, orphans: Collection[Orphan], *, behind: bool) -> None:
        """Send starts, device clearances and evictions of orphan tasks. behind: there are unread inputs."""
        await self._send_starts(state, behind)
        boot = self._clock_and_ids.boot()
        if boot - self._clears_sent_at >= RESEND_AFTER:
            self._clears_sent_at = boot
            for command in pending_clears(state):
                await self._publisher.command(command)
        if orphans and boot - self._orphans_sent_at >= RESEND_AFTER:
            self._orphans_sent_at = boot
            for orphan in orphans:
                await self._publisher.command(_eviction(state, orphan))

    async def _send_starts(self, state: PoolState, behind: bool) -> None:
        starts = []
        for job, node, tasks in self._starts.due(state, behind):
            stored = self._specs.get(job.id, job.spec_digest)
            if stored is None:
                if job.id not in self._missing_specs:
                    self._missing_specs.add(job.id)
                    await self._publisher.alarm(
                        "critical", "spec-missing", f"{job.id} cannot start: {self._specs.why_missing(job.id)}"
                    )
                continue
            command = for_node_alone(state, start_command(state, job, node, tasks, stored.spec))
            if command is None:
                continue  # its key was revoked: it will soon be unreachable, since its reports do not count
            try:
                starts.append(self._publisher.prepare(command))
            except ValueError as error:
                await self._publisher.alarm("critical", "start-too-large", f"{job.id} cannot start: {error}")
        await self._publisher.commands(starts)


def _eviction(state: PoolState, orphan: Orphan) -> Evict:
    name, job, attempt, task = orphan
    grace = state.rules.eviction.grace
    return Evict(
        node=name,
        incarnation=state.nodes[state.node_numbers[name]].incarnation,
        sender="admission",
        sender_epoch=state.epoch,
        ordered_by=RecordRef(epoch=state.epoch, seq=state.seq),
        job=job,
        attempt=attempt,
        tasks=(task,),
        grace=grace,
        term_after=default_term_after(grace),
        cause="not in the log",
    )
