"""Evictions: notice, TERM and KILL, each at its deadline, a step to save at together, and being spared."""

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from bailiff_bus.ambient import Ambient
from bailiff_bus.messages import (
    Evict,
    SaveTogether,
    Spare,
    TaskIsReleased,
    TaskNotSpared,
    TaskNotStarted,
    TaskWasSpared,
)
from bailiff_core.lifecycle.grace import usual_term
from bailiff_node_agent.background import Background
from bailiff_node_agent.devices import read_devices
from bailiff_node_agent.disk import RunningEviction
from bailiff_node_agent.disk.fences import Verdict
from bailiff_node_agent.machine import Machine
from bailiff_node_agent.reporting import Reporter
from bailiff_node_agent.runtime import TaskKey, UnknownTask

from .ending import Ending
from .held import Held, Tasks
from .listening import Listening
from .stages import TERMINATED, Stages, notice_facts, reached_until, stuck_in

LEAVES = ("yielding", "term_sent", "kill_sent")


@dataclass(frozen=True, slots=True)
class Leaving:
    """Of one agent."""

    machine: Machine
    tasks: Tasks
    listening: Listening
    stages: Stages
    ending: Ending
    reporter: Reporter
    background: Background
    ambient: Ambient

    async def evict(self, command: Evict, verdicts: Mapping[int, Verdict]) -> None:
        """Begin it, or say again how far it is."""
        for key, held in self._meant(command, verdicts):
            if held is None:
                order = command.order.seq
                self.reporter.tell_of(key, order, TaskNotStarted, reason="it is to leave before it came")
                self.reporter.tell_of(key, order, TaskIsReleased)
            elif held.state != "running":
                self.ending.tell_again(held)
            elif self.machine.evictions.get(str(key)) is None:
                about = {"reason": command.cause, "for": command.for_job or ""}
                self._begin(held, command.grace, command.term_after, about)
            else:
                for stage in held.stages.values():
                    if stage is not None:
                        self.stages.tell(held, stage)

    def all_leave(self, grace: int, reason: str) -> None:
        """Whoever runs and was not told to before."""
        for held in self.tasks.running():
            if self.machine.evictions.get(str(held.key)) is None:
                self._begin(held, grace, usual_term(grace), {"reason": reason, "for": ""})

    def adopt(self) -> None:
        """What earlier agents have begun, as far as they came with it; `go_on` follows. What concerns no task here ends."""
        held_by_key = {str(held.key): held for held in self.tasks}
        for eviction in self.machine.evictions.running():
            if eviction.key in held_by_key:
                held_by_key[eviction.key].stages.update(reached_until(eviction))
            else:
                self.machine.evictions.end(eviction.key)

    def go_on(self, held: Held) -> None:
        """With the eviction that an earlier agent has begun, if there is one."""
        eviction = self.machine.evictions.get(str(held.key))
        if eviction is not None:
            self.background.spawn(self._drive(held, eviction))

    def _begin(self, held: Held, grace: int, term_after: int | None, about: dict[str, str]) -> None:
        self.listening.listen(held)
        steps, attached = self.machine.runtimes[held.runtime].steps(held.key), held.heard.attached
        term_us = min(term_after or 0, grace) if attached else 0
        eviction = RunningEviction(
            key=str(held.key),
            notice_boottime_us=self.ambient.boot(),
            grace_us=term_us,
            kill_after_us=grace - term_us,
            stage="begun",
            boot_id=self.machine.incarnation.boot_id,
            detail={**about, "attached": attached, "step": steps.published, "pace": steps.pace},
        )
        self.machine.evictions.begin(eviction)
        self.background.spawn(self._drive(held, eviction))

    async def _drive(self, held: Held, eviction: RunningEviction) -> None:
        runtime = self.machine.runtimes[held.runtime]
        term_at, kill_at = eviction.term_boottime_us, eviction.kill_boottime_us
        try:
            async with held.acting:
                if not self._stands(held, eviction):
                    return
                if "noticed" not in held.stages:
                    held.before = read_devices(self.machine.inventory, held.devices)
                    held.pids = runtime.pids(held.key)
                    await runtime.deadlines(held.key, term_at, kill_at)
                    await runtime.notice(held.key, _notice(eviction), term_at, kill_at)
                    self.stages.reach(held, eviction, "noticed", **notice_facts(eviction))
            await self._sleep_until(term_at)
            async with held.acting:
                if held.state != "running" or not self._stands(held, eviction):
                    return
                if TERMINATED not in held.stages:
                    # Said before it is done: the exit that follows must not be read before its cause.
                    late: dict[str, Any] = {"stuck_in": stuck_in(held.stages)} if eviction.grace_us else {}
                    self.stages.reach(held, eviction, "term_sent", **late)
                    # Noted after it is done: an agent that dies in between says TERM twice rather than never.
                    await runtime.terminate(held.key, (kill_at - term_at) / 1_000_000)
                    self.stages.terminated(held, eviction)
            await self._sleep_until(kill_at)
            if held.state == "running":
                self.stages.reach(held, eviction, "kill_sent", stuck_in=stuck_in(held.stages))
                await runtime.kill(held.key)
        except UnknownTask:
            return  # it ended and was forgotten meanwhile

    def _stands(self, held: Held, eviction: RunningEviction) -> bool:
        """It was not taken back meanwhile, whether or not another one follows."""
        now = self.machine.evictions.get(str(held.key))
        return now is not None and now.notice_boottime_us == eviction.notice_boottime_us

    async def _sleep_until(self, boot: int) -> None:
        """On the boot-time clock, which counts suspended time; the event loop's may not."""
        while (left := boot - self.ambient.boot()) > 0:  # noqa: ASYNC110 - a moment is awaited, no state
            await asyncio.sleep(left / 1_000_000)

    async def spare(self, command: Spare, verdicts: Mapping[int, Verdict]) -> None:
        """Those that have not begun to leave stay; which they are is told."""
        for key, held in self._meant(command, verdicts):
            stays = held is not None and await self._take_back(held)
            self.reporter.tell_of(key, command.order.seq, TaskWasSpared if stays else TaskNotSpared)

    async def _take_back(self, held: Held) -> bool:
        """Notice and deadlines, where the task has not begun to leave. Whether it stays."""
        async with held.acting:
            self.listening.listen(held)
            if held.state != "running" or any(stage in held.stages for stage in LEAVES):
                return False
            runtime = self.machine.runtimes[held.runtime]
            try:
                await runtime.spare(held.key)  # before the eviction is forgotten: who dies in between is asked again
            except UnknownTask:
                return False
            self.machine.evictions.end(str(held.key))
            held.stages.clear()
            return True

    def save_together(self, command: SaveTogether, verdicts: Mapping[int, Verdict]) -> None:
        """The gang's common step, to be confirmed or agreed on. Past the soft deadline each rank has saved by itself."""
        for key, held in self._meant(command, verdicts):
            if held is None or held.state != "running" or "noticed" not in held.stages:
                continue
            eviction = self.machine.evictions.get(str(key))
            if eviction is None or self.ambient.boot() >= eviction.term_boottime_us:
                continue
            self.machine.runtimes[held.runtime].propose(key, command.step, agreed=command.agreed)
            if command.agreed:
                self.stages.reach(held, eviction, "step_agreed", step=command.step)

    def _meant(
        self, command: Evict | Spare | SaveTogether, verdicts: Mapping[int, Verdict]
    ) -> Iterator[tuple[TaskKey, Held | None]]:
        """The command's tasks, but those of which a newer one was obeyed; None: not here."""
        for index in command.tasks:
            if verdicts[index] != "stale":
                key = TaskKey(command.job, command.attempt, str(index))
                yield key, self.tasks.get(key)


def _notice(eviction: RunningEviction) -> dict[str, Any]:
    """What the job is told, apart from its deadlines on the boot-time clock."""
    total = eviction.grace_us + eviction.kill_after_us
    return {
        "reason": eviction.detail["reason"],
        "for_job": eviction.detail["for"] or None,
        "soft_s": eviction.grace_us // 1_000_000,
        "hard_s": total // 1_000_000,
    }
