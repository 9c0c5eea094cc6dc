"""The platform saves the task's state: in its eviction, instead of the job or where that does not answer its notice; or while
it runs, and goes on.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from bailiff_bus.messages.commands import SnapshotForm
from bailiff_bus.messages.reports import SnapshotStageReport
from bailiff_core.records.facts import EvictionStage
from bailiff_node_agent.agent_context import AgentContext
from bailiff_node_agent.disk import RunningEviction
from bailiff_node_agent.reporter import Reporter
from bailiff_node_agent.runtime import Dumped, Image, Runtime, TaskKey, UnknownTask
from bailiff_node_agent.snapshots import DRIVER, BadImage
from bailiff_service.clock_and_ids import ClockAndIds

from .stages import EvictionStages, stuck_in
from .task_table import LocalTask

Outcome = Literal["stored", "failed", "ended"]
MAX_REASON = 1000
FROZEN_AT_MOST_S = 30.0
"""How long a task stands still at most until all of its gang do, and it is saved."""


class NotSaved(Exception):
    """The message says why."""


class Damaged(NotSaved):
    """The task was left so that it must not go on."""


@dataclass(frozen=True, slots=True)
class Saver:
    context: AgentContext
    stages: EvictionStages
    clock_and_ids: ClockAndIds
    reporter: Reporter
    _saving: set[TaskKey] = field(default_factory=set)

    def is_due(self, task: LocalTask, eviction: RunningEviction) -> bool:
        """Whether the platform saves the task at the time when TERM would be sent."""
        mode = eviction.detail.get("save", "job")
        return mode == "snapshot" or (mode == "auto" and "acknowledged" not in task.stages)

    def is_saving(self, task: LocalTask) -> bool:
        """Whether it is being saved, or is: its eviction cannot be withdrawn any more."""
        return task.key in self._saving or "stored" in task.stages

    async def save(self, task: LocalTask, eviction: RunningEviction) -> Outcome:
        """Save the task's state and end it; `failed`: it goes on. `ended`: it has exited meanwhile, or must not go on."""
        if task.key in self._saving:
            return "ended"  # the eviction was shortened meanwhile: who saves it goes on
        runtime, together = self.context.runtimes[task.runtime], eviction.detail.get("together", False)
        if "save_failed" in task.stages:
            await runtime.thaw(task.key)  # the agent that has reported it may have died before this
            return "failed"
        self._saving.add(task.key)
        try:
            left = (eviction.kill_boottime_us - self.clock_and_ids.boot()) / 1_000_000
            async with asyncio.timeout(max(0.0, left)):
                if "stored" not in task.stages:
                    async with task.saves:
                        if "frozen" not in task.stages:
                            task.snapshot_step = ""  # what it says is of a snapshot while it ran
                        await self._store(runtime, task, eviction)
                if together:
                    await _told(task, "end")
        except TimeoutError:
            if "stored" in task.stages:
                return "ended"  # it stands still until it is killed, which is now: its gang may be stored whole
            return self._failed(task, eviction, "it was not done when the time was over")
        except NotSaved as problem:
            outcome = self._failed(task, eviction, str(problem))
            if outcome == "failed":
                await runtime.thaw(task.key)
            return outcome
        finally:
            self._saving.discard(task.key)
        await runtime.kill(task.key)
        return "stored"

    async def _store(self, runtime: Runtime, task: LocalTask, eviction: RunningEviction) -> None:
        """Raises `NotSaved`."""
        if not runtime.capabilities.saves:
            raise NotSaved("this node has no program that saves tasks")
        kill_at, image = eviction.kill_boottime_us, await self._image(task, eviction)
        await runtime.deadlines(task.key, kill_at, kill_at)  # a supervisor without an agent sends no TERM meanwhile
        if eviction.detail.get("together"):
            await self._frozen_together(runtime, task, eviction)
        else:
            self.stages.reach(task, eviction, "frozen", driver=DRIVER)
        dumped = await runtime.save(task.key, image, str(eviction.notice_boottime_us))
        if dumped.why_not and not dumped.is_whole and task.state == "running":
            self._failed(task, eviction, dumped.why_not)
            self.stages.reach(task, eviction, "kill_sent", stuck_in=stuck_in(task.stages))
            await runtime.kill(task.key)  # it may be damaged: it must not go on
        if dumped.why_not:
            raise NotSaved(dumped.why_not)
        self.stages.reach(task, eviction, "dumped", driver=DRIVER, bytes=await self.context.images.size(image))
        digest, size = await self.sealed(image, dumped)
        if task.state != "running" or "kill_sent" in task.stages:
            raise NotSaved("it was killed meanwhile")  # and that is on record
        self.stages.reach(task, eviction, "stored", driver=DRIVER, sha256=digest, bytes=size)

    async def save_running(self, task: LocalTask, order: int, form: SnapshotForm, *, together: bool) -> None:
        """Save the task, which goes on, and report how far that is. order: the record that ordered it."""
        runtime, began, image = self.context.runtimes[task.runtime], self.clock_and_ids.boot(), None

        def reach(stage: EvictionStage, **facts: Any) -> None:
            elapsed = max(0, self.clock_and_ids.boot() - began)
            self.reporter.report_task(
                task.known_as, order, SnapshotStageReport, stage=stage, elapsed=elapsed, driver=DRIVER, **facts
            )

        try:
            async with task.saves:
                if task.state != "running" or self.context.evictions.get(str(task.key)) is not None:
                    raise NotSaved("it ends")
                if not runtime.capabilities.saves:
                    raise NotSaved("this node has no program that saves tasks")
                image = await self.image(task, form, order)
                dumped = await self._dumped_running(runtime, task, image, order, reach, together=together)
                reach("dumped", bytes=await self.context.images.size(image))
            digest, size = await self.sealed(image, dumped)
            reach("stored", sha256=digest, bytes=size)
        except (NotSaved, OSError, UnknownTask) as problem:
            if image is not None:
                with suppress(OSError):
                    await self.context.images.drop(image)
            reach("save_failed", reason=words(problem)[:MAX_REASON])
            if isinstance(problem, Damaged):
                await runtime.kill(task.key)  # it must not go on

    async def _dumped_running(
        self, runtime: Runtime, task: LocalTask, image: Image, order: int, reach: Callable[..., None], *, together: bool
    ) -> Dumped:
        """Raises `NotSaved`."""
        try:
            if together:
                task.snapshot_step = ""
                async with asyncio.timeout(FROZEN_AT_MOST_S):
                    await runtime.freeze(task.key)
                    reach("frozen")
                    await _told(task, "dump")
            else:
                reach("frozen")
            dumped = await runtime.save(task.key, image, f"order-{order}", goes_on=True)
        except TimeoutError:
            raise NotSaved("not all tasks of its gang were frozen in time") from None
        finally:
            if together:
                task.snapshot_step = ""
                await runtime.thaw(task.key)
        if dumped.why_not:
            raise NotSaved(dumped.why_not) if dumped.is_whole else Damaged(dumped.why_not)
        return dumped

    async def give_up(self, task: LocalTask, order: int) -> None:
        """An earlier agent was saving the task, which goes on: nobody knows what that agent had still to do."""
        facts = {"stage": "save_failed", "driver": DRIVER, "reason": "the node's agent was started anew"}
        self.reporter.report_task(task.known_as, order, SnapshotStageReport, **facts)
        if self.context.evictions.get(str(task.key)) is None:
            await self.context.runtimes[task.runtime].thaw(task.key)

    async def image(self, task: LocalTask, form: SnapshotForm, order: int | None = None) -> Image:
        """An empty folder for a snapshot. order: the record that ordered it, of a task that goes on. Raises `OSError`."""
        return await self.context.images.make(self.context.snapshots_folder / task.key.job, task.known_as, order, form)

    async def sealed(self, image: Image, dumped: Dumped) -> tuple[str, int]:
        """Digest and bytes. Raises `NotSaved`."""
        facts = {"driver": DRIVER, "runtime": dict(dumped.facts), "cpu": self.context.cpu_features}
        try:
            return await self.context.images.seal(image, facts)
        except (OSError, BadImage) as problem:
            raise NotSaved(words(problem)) from None

    async def _frozen_together(self, runtime: Runtime, task: LocalTask, eviction: RunningEviction) -> None:
        """Freeze the task, and wait for its gang, for half of the time that is left: the rest is for TERM. Raises `NotSaved`."""
        if task.waits:
            raise NotSaved("it was restored, and has not continued yet")
        left = max(0, eviction.kill_boottime_us - self.clock_and_ids.boot()) / 1_000_000
        try:
            async with asyncio.timeout(left / 2):
                await runtime.freeze(task.key)
                self.stages.reach(task, eviction, "frozen", driver=DRIVER)
                if "dumped" not in task.stages:
                    await _told(task, "dump")
        except TimeoutError:
            what = "not all tasks of its gang were frozen" if "frozen" in task.stages else "it could not be frozen"
            raise NotSaved(f"{what} in time") from None

    async def _image(self, task: LocalTask, eviction: RunningEviction) -> Image:
        """The folder, made once for an eviction: the next agent waits for what is being written into it."""
        known = eviction.detail.get("image")
        if known is not None:
            return Image.from_data(known)
        try:
            image = await self.image(task, SnapshotForm.model_validate_json(eviction.detail.get("form", "{}")))
        except OSError as problem:
            raise NotSaved(words(problem)) from None
        now = self.context.evictions.get(str(task.key))
        if now is not None:
            self.context.evictions.put(replace(now, detail={**now.detail, "image": image.to_data()}))
        return image

    def _failed(self, task: LocalTask, eviction: RunningEviction, why: str) -> Outcome:
        if task.state != "running" or "kill_sent" in task.stages:
            return "ended"
        self.stages.reach(task, eviction, "save_failed", driver=DRIVER, reason=why[:MAX_REASON])
        return "failed"


async def _told(task: LocalTask, step: str) -> None:
    """Wait until all tasks of the gang are so far, without end. Raises `NotSaved`: one of them is not saved, or ends."""
    while task.snapshot_step != step:
        if task.snapshot_step == "thaw":
            raise NotSaved("another task of its gang is not saved")
        task.stepped.clear()
        await task.stepped.wait()


async def remove_older(context: AgentContext, task: LocalTask) -> None:
    """Remove snapshots that nobody needs, and what they keep locked.

    Those before a stored one; all of a task that has ended well and not by an eviction; one that is not stored, as its task ended
    or its agent died before a record could name it.
    """
    for key in {task.key, task.known_as}:
        with suppress(OSError):
            await context.images.clear(key, saved=True)
    this, stored, eviction = task.known_as.attempt, "stored" in task.stages, context.evictions.get(str(task.key))
    has_ended = task.messages.is_done or (task.exit_code == 0 and eviction is None)
    begun = eviction is not None and "image" in eviction.detail
    if not (stored or has_ended or begun):
        return
    earlier = stored or has_ended
    try:
        await context.images.remove(
            context.snapshots_folder / task.key.job,
            int(task.key.task),
            lambda attempt, went_on: earlier if attempt != this else has_ended and not stored if went_on else not stored,
        )
    except OSError as problem:
        context.log().warning("snapshots could not be removed", job=task.key.job, reason=words(problem))


def words(problem: Any) -> str:
    """Why it failed."""
    return str(problem.strerror if isinstance(problem, OSError) and problem.strerror else problem)
