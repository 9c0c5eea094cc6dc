"""Release of an exited task: its devices are given back only once they are seen to be free."""

import asyncio
from collections import deque
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from bailiff_bus.messages.reports import TaskReleasedReport
from bailiff_core.records.facts import HostReading
from bailiff_node_agent.agent_context import AgentContext
from bailiff_node_agent.background import Background
from bailiff_node_agent.device_quarantine import DeviceQuarantine, LastUser, reading_fact
from bailiff_node_agent.devices import prove_release
from bailiff_node_agent.devices.ledger import ShareLedger
from bailiff_node_agent.reporter import Reporter
from bailiff_node_agent.runtime import Runtime, TaskKey, UnknownTask, memory_of, pids_of
from bailiff_node_agent.scratch import Scratch

from .saving import remove_older
from .task_table import LocalTask, TaskTable

MOST_ENDED_LOGS = 10_000


@dataclass(frozen=True, slots=True)
class Releaser:
    """ended_logs: of tasks that were forgotten since the log shipper last looked; the newest, where none looks."""

    context: AgentContext
    tasks: TaskTable
    quarantine: DeviceQuarantine
    shares: ShareLedger
    scratch: Scratch
    reporter: Reporter
    background: Background
    ended_logs: deque[tuple[TaskKey, Path]] = field(default_factory=partial(deque, maxlen=MOST_ENDED_LOGS))
    _forgetting: dict[TaskKey, asyncio.Task[None]] = field(default_factory=dict)

    async def release(self, task: LocalTask) -> None:
        """Wait until the task's devices are free; quarantine those that are not free in time; then report the release."""
        context = self.context
        runtime = context.runtimes[task.runtime]
        living = await pids_of(runtime, task.key)
        host_before = await self._host_reading(task, living)
        if living:
            self.background.spawn(_kill(runtime, task.key))  # processes that escaped their supervisor; their grace is over
        if task.exit_code != 0:
            await self.quarantine.check()  # whether a device broke under the task must be known before its release
        is_shared = self.shares.part(str(task.key)) is not None
        pod = runtime.pod_of(task.key)
        while True:
            proof = await prove_release(
                context.inventory,
                task.devices,
                lambda: pids_of(runtime, task.key),
                self.quarantine.baseline,
                context.release_timeout_s,
                context.release_poll_s,
                before=task.before,
                seen_pids=task.pids,
                shared=is_shared,
                pod=pod,
            )
            if not proof.free:
                last_user = LastUser(task.key.job, task.key.attempt, int(task.key.task), proof.of_task, pod)
                self.quarantine.not_free(proof, last_user)
            if not proof.living:
                break  # quarantined devices stay out of use; the task's other resources are free
            context.log().error("processes of an exited task do not end", job=task.key.job, pids=proof.blockers)
        if runtime.capabilities.host_resources:
            await self._remove_scratch(task.key)
        if runtime.capabilities.saves:
            await remove_older(context, task)
        host_after = await self._host_reading(task, proof.living)
        task.state = "released"
        before, after = tuple(map(reading_fact, proof.before)), tuple(map(reading_fact, proof.after))
        seen = {"before": before, "after": after, "host_before": host_before, "host_after": host_after}
        evidence = "node" if runtime.capabilities.sees_release else "api"
        task.last_report = self.reporter.report_task(
            task.known_as, task.ordered_by, TaskReleasedReport, evidence=evidence, **seen
        )

    async def _host_reading(self, task: LocalTask, living: Collection[int]) -> HostReading | None:
        """What the task uses of its machine besides devices; None where it uses none of it."""
        runtime = self.context.runtimes[task.runtime]
        if not runtime.capabilities.host_resources:
            return None
        scratch = await self.scratch.used(task.key)
        memory = await memory_of(runtime, task.key)
        return HostReading(
            processes=len(living), memory_bytes=memory, scratch_bytes=scratch.bytes, scratch_is_more=not scratch.is_all
        )

    async def _remove_scratch(self, key: TaskKey) -> None:
        """Its name is free at once. The rest is waited for as long as a device: no task keeps its GPUs by files."""
        removal = self.background.spawn(self.scratch.remove(key))
        done, _ = await asyncio.wait([removal], timeout=self.context.release_timeout_s)
        if not done:
            self.context.log().warning("the removal of a task's scratch folder goes on after its release", job=key.job)

    def received(self, number: int) -> None:
        """Kafka has this report and all before it: tasks whose release they report are forgotten."""
        for task in self.tasks:
            if task.state == "released" and task.last_report is not None and task.last_report <= number:
                self.tasks.remove(task.key)
                self._forgetting[task.key] = self.background.spawn(self._forget(task))

    async def wait_forgotten(self, key: TaskKey) -> None:
        """Until nothing is left of an earlier, released task of this key."""
        if key in self._forgetting:
            await asyncio.wait([self._forgetting[key]])
        elif key in self.tasks:  # admission starts it anew, so its release has arrived
            await self._forget(self.tasks.remove(key))

    async def _forget(self, task: LocalTask) -> None:
        self.context.evictions.end(str(task.key))
        self.context.parking.end(str(task.key))
        self.shares.remove(str(task.key))
        runtime = self.context.runtimes[task.runtime]
        try:
            path = runtime.log_path(task.key)
            if path is not None:
                self.ended_logs.append((task.known_as, path))
            await runtime.forget(task.key)
        finally:
            self._forgetting.pop(task.key, None)


async def _kill(runtime: Runtime, key: TaskKey) -> None:
    with suppress(UnknownTask):
        await runtime.kill(key)
