"""What tasks say to their node, taken as it comes: stages of their evictions at once, news now and then."""

import asyncio
from dataclasses import dataclass

from bailiff_bus.ambient import Ambient
from bailiff_bus.messages import TaskHasProgressed, TaskHasResumed
from bailiff_node_agent.background import Background
from bailiff_node_agent.machine import Machine
from bailiff_node_agent.reporting import Reporter
from bailiff_node_agent.runtime import Runtime

from .held import Held, Tasks
from .stages import Stages, said_by


@dataclass(frozen=True, slots=True)
class Listening:
    """Of one agent."""

    machine: Machine
    tasks: Tasks
    stages: Stages
    reporter: Reporter
    background: Background
    ambient: Ambient

    async def watch(self, runtime: Runtime) -> None:
        """For ever."""
        while True:
            held = self.tasks.get(await runtime.wait_word())
            if held is not None and held.state == "running":
                self.listen(held)

    def listen(self, held: Held, *, tell: bool = True) -> None:
        """Take what the task has said since; `tell`: report it."""
        runtime, eviction = self.machine.runtimes[held.runtime], self.machine.evictions.get(str(held.key))
        for line in runtime.said(held.key, held.heard.newest):
            held.heard.take(line)
            stage = said_by(line, eviction.notice_boottime_us) if eviction is not None else None
            if stage is not None and "noticed" in held.stages and stage.stage not in held.stages:
                held.stages[stage.stage] = stage
                held.heard.checkpoint_untold &= stage.checkpoint is None  # it is told with the stage
                if tell:
                    self.stages.tell(held, stage)
            if line.say == "resumed" and tell:
                self.tell_resumed(held)
        confirmed = runtime.steps(held.key).confirmed if eviction is not None and "noticed" in held.stages else None
        before = held.stages.get("step_confirmed")
        if eviction is not None and confirmed is not None and (before is None or confirmed > (before.step or 0)):
            held.stages.pop("step_confirmed", None)  # a rank that was further on has raised it
            self.stages.reach(held, eviction, "step_confirmed", tell=tell, step=confirmed)
        if tell:
            self.tell_news(held)

    def published(self, held: Held) -> int | None:
        """The step that it says it is at, in shared memory."""
        return self.machine.runtimes[held.runtime].steps(held.key).published

    def tell_resumed(self, held: Held) -> None:
        """Where it went on from, if it has."""
        if held.heard.resumed is not None and held.state == "running":
            content = held.heard.resumed.content
            known = {name: content[name] for name in ("step", "from_attempt", "passed_over")}
            self.reporter.tell_of(held.key, held.order, TaskHasResumed, **known)

    def tell_news(self, held: Held) -> None:
        """At once, or when enough time has passed since the last news: of what is said meanwhile the newest counts."""
        loop, at = asyncio.get_running_loop(), held.heard.next_at()
        if at is None or held.state != "running":
            return
        if at <= loop.time():
            steps = self.machine.runtimes[held.runtime].steps(held.key)
            news = held.heard.news(steps, self.ambient.boot(), loop.time())
            self.reporter.tell_of(held.key, held.order, TaskHasProgressed, **news)
        elif held.heard.waits_until is None or at < held.heard.waits_until:
            held.heard.waits_until = at
            self.background.spawn(self._tell_later(held, at - loop.time()))

    async def _tell_later(self, held: Held, after_s: float) -> None:
        await asyncio.sleep(after_s)
        held.heard.waits_until = None
        self.tell_news(held)
