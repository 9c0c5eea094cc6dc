"""Parked tasks: evicted, and yet in memory, stopped, until they resume here, are saved to disk, or are not needed any more."""

import asyncio
import hashlib
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from bailiff_bus.messages.commands import SnapshotForm, SnapshotRef, TaskSnapshot
from bailiff_bus.messages.reports import SnapshotStageReport, TaskReleasedReport, TaskRestoredReport
from bailiff_core.humanize import memory_text
from bailiff_core.model.snapshots import PARK
from bailiff_core.records.facts import EvictionStage
from bailiff_node_agent.agent_context import AgentContext
from bailiff_node_agent.disk import ParkedTask, RunningEviction
from bailiff_node_agent.reporter import Reporter
from bailiff_node_agent.runtime import TaskKey, UnknownTask, memory_of
from bailiff_node_agent.snapshots import DRIVER
from bailiff_service.clock_and_ids import ClockAndIds

from .saving import MAX_REASON, NotSaved, Saver, words
from .stages import EvictionStages
from .task_table import LocalTask, TaskTable


@dataclass(frozen=True, slots=True)
class Parker:
    context: AgentContext
    tasks: TaskTable
    stages: EvictionStages
    clock_and_ids: ClockAndIds
    reporter: Reporter
    saver: Saver
    _saving: set[TaskKey] = field(default_factory=set)

    async def park(self, task: LocalTask, eviction: RunningEviction) -> bool:
        """Stop the task, which keeps its memory and releases all else; false: it goes on, and is saved or ends."""
        if "park_failed" in task.stages or "acknowledged" in task.stages:
            return False
        runtime = self.context.runtimes[task.runtime]
        try:
            left = (eviction.kill_boottime_us - self.clock_and_ids.boot()) / 1_000_000
            async with asyncio.timeout(max(0.0, left)), task.saves:
                self._may_be_parked(task)
                kill_at = eviction.kill_boottime_us
                await runtime.deadlines(task.key, kill_at, kill_at)
                await runtime.park(task.key)
                held = await memory_of(runtime, task.key)  # while it runs, it may take more
            free = max(0, self._offered() - self.context.parking.held_bytes)
            if held > free:
                raise NotSaved(f"it holds {memory_text(held)}, and {memory_text(free)} of the memory for parked tasks are free")
        except (OSError, NotSaved) as problem:
            with suppress(OSError):
                await runtime.unpark(task.key)
            if task.state == "running":
                self.stages.reach(task, eviction, "park_failed", driver=PARK, reason=words(problem)[:MAX_REASON])
            return task.state != "running"
        if task.state != "running" or "kill_sent" in task.stages:
            return True
        self.stages.reach(task, eviction, "frozen", driver=PARK)
        name = hashlib.sha256(f"{self.context.incarnation.machine_id} {task.known_as} {task.ordered_by}".encode()).hexdigest()
        kept = ParkedTask(str(task.key), name, held, task.known_as.attempt)
        self.context.parking.put(kept)  # from here on the next agent has it as parked, too
        task.state = "parked"
        await runtime.cancel_eviction(task.key)
        self.stages.reach(task, eviction, "parked", driver=PARK, bytes=held, sha256=name)
        self.reporter.report_task(task.known_as, task.ordered_by, TaskReleasedReport)
        return True

    def _may_be_parked(self, task: LocalTask) -> None:
        """Raises `NotSaved`."""
        if not self._offered() or not self.context.runtimes[task.runtime].capabilities.parks:
            raise NotSaved("this node parks no tasks")
        if task.devices:
            raise NotSaved("this node has no driver that takes its GPU memory")
        if task.waits:
            raise NotSaved("it was restored, and has not continued yet")

    def _offered(self) -> int:
        """The memory that the node keeps for parked tasks."""
        offer = self.context.parking_offer
        return 0 if offer is None else offer.memory_bytes

    def report_again(self, task: LocalTask) -> None:
        """That it is parked."""
        for stage in task.stages.values():
            if stage is not None:
                self.stages.report(task, stage)
        self.reporter.report_task(task.known_as, task.ordered_by, TaskReleasedReport)

    async def end_others(self, job: str, but: LocalTask | None) -> None:
        """End what is parked of the job, which starts otherwise: it may have what the job needs, such as a port."""
        for task in self.tasks:
            if task.key.job == job and task.state == "parked" and task is not but:
                await self.end(task)

    def find(self, job: str, snapshot: SnapshotRef | TaskSnapshot, task: int) -> LocalTask | None:
        """The task that is parked under this name."""
        found = self.tasks.get(TaskKey(job, snapshot.attempt, str(task)))
        kept = self.context.parking.get(str(found.key)) if found is not None and found.state == "parked" else None
        return found if kept is not None and kept.sha256 == snapshot.sha256 else None

    async def resume(self, task: LocalTask, attempt: int, order: int) -> None:
        """Let it go on as this attempt, once it is not being saved. Raises `NotSaved`."""
        runtime, key = self.context.runtimes[task.runtime], str(task.key)
        began = self.clock_and_ids.boot()
        async with task.saves:
            kept = self.context.parking.get(key)
            if task.state != "parked" or kept is None:
                raise NotSaved("its parked processes have ended")
            self.context.parking.resume(key, attempt, order)  # from here on the next agent lets it go on
            self.context.evictions.end(key)
            self.tasks.continues(task, attempt)
            task.state, task.ordered_by, task.last_report = "running", order, None
            task.stages.clear()
            task.before, task.pids = None, ()
            try:
                await runtime.unpark(task.key)
            except OSError as problem:
                await runtime.kill(task.key)
                raise NotSaved(words(problem)) from None
            now = self.context.parking.get(key)
            assert now is not None
            self.context.parking.put(replace(now, elapsed_us=max(0, self.clock_and_ids.boot() - began)))

    def report_resumed(self, task: LocalTask) -> None:
        """That it goes on."""
        kept = self.context.parking.get(str(task.key))
        assert kept is not None
        about = {"from_attempt": kept.from_attempt, "driver": PARK, "bytes": kept.bytes, "restored": kept.elapsed_us}
        self.reporter.report_task(task.known_as, task.ordered_by, TaskRestoredReport, **about)

    async def adopted(self, task: LocalTask) -> None:
        """Carry on where an earlier agent has ended: it stays parked, or goes on."""
        runtime = self.context.runtimes[task.runtime]
        with suppress(OSError, UnknownTask):  # it is killed, or killed by its supervisor: its end is reported
            if task.state == "parked":
                async with task.saves:
                    await runtime.park(task.key)
            elif task.continues is not None:
                await runtime.unpark(task.key)
                self.report_resumed(task)

    async def save(self, task: LocalTask, order: int, form: SnapshotForm) -> None:
        """Save it to disk. It stays parked until it is told that the log knows it. order: the record that ordered it."""
        if task.key in self._saving:
            return
        self._saving.add(task.key)
        began = self.clock_and_ids.boot()

        def reach(stage: EvictionStage, **facts: Any) -> None:
            elapsed = max(0, self.clock_and_ids.boot() - began)
            self.reporter.report_task(
                task.known_as, order, SnapshotStageReport, stage=stage, elapsed=elapsed, driver=DRIVER, **facts
            )

        try:
            async with task.saves:
                if task.state == "parked":
                    await self._save(task, order, form, reach)
        except UnknownTask:
            return
        finally:
            self._saving.discard(task.key)

    async def _save(self, task: LocalTask, order: int, form: SnapshotForm, reach: Any) -> None:
        runtime, image = self.context.runtimes[task.runtime], None
        try:
            if not runtime.capabilities.saves:
                raise NotSaved("this node has no program that saves tasks")
            image = await self.saver.image(task, form, order)
            reach("frozen")
            await runtime.unpark(task.key, stopped=True)
            dumped = await runtime.save(task.key, image, f"order-{order}")
            if dumped.why_not:
                raise NotSaved(dumped.why_not)
            reach("dumped", bytes=await self.context.images.size(image))
            digest, size = await self.saver.sealed(image, dumped)
            await runtime.park(task.key)
        except (NotSaved, OSError) as problem:
            if image is not None:
                with suppress(OSError):
                    await self.context.images.drop(image)
            try:
                await runtime.park(task.key)
                await runtime.thaw(task.key)  # what had stopped it; the freezer holds it
            except OSError:
                await runtime.kill(task.key)  # it must not run on
            reach("save_failed", reason=words(problem)[:MAX_REASON])
            return
        reach("stored", sha256=digest, bytes=size)

    async def end(self, task: LocalTask) -> None:
        """Nobody needs it any more."""
        self.context.parking.end(str(task.key))
        with suppress(UnknownTask):
            await self.context.runtimes[task.runtime].kill(task.key)

    def has_ended(self, task: LocalTask, why: str) -> None:
        """Its processes are gone: a loss, unless they were ended on purpose."""
        kept = self.context.parking.get(str(task.key))
        if kept is not None and kept.attempt is None:
            reason = why or "its processes have ended"
            about = {"stage": "park_lost", "driver": PARK, "bytes": kept.bytes, "reason": reason[:MAX_REASON]}
            self.reporter.report_task(task.known_as, None, SnapshotStageReport, **about)
            self.context.parking.end(str(task.key))
