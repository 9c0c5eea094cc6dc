"""How tasks end: seen, told, and told again to whoever asks."""

from dataclasses import dataclass
from typing import Any

from bailiff_bus.messages import TaskEnded, TaskIsReleased
from bailiff_node_agent.background import Background
from bailiff_node_agent.reporting import Reporter
from bailiff_node_agent.runtime import Exit, Runtime

from .held import Held, Tasks
from .listening import Listening
from .releasing import Releasing
from .stages import Stages


@dataclass(frozen=True, slots=True)
class Ending:
    """Of one agent."""

    tasks: Tasks
    listening: Listening
    stages: Stages
    releasing: Releasing
    reporter: Reporter
    background: Background

    async def watch(self, runtime: Runtime) -> None:
        """For ever."""
        while True:
            end = await runtime.wait_exit()
            held = self.tasks.get(end.key)
            if held is not None:
                self.ended(held, end)

    def ended(self, held: Held, end: Exit) -> None:
        """Tell it, with all that the task has said before, and begin its release."""
        self.listening.listen(held)
        held.has_ended(end)
        self.stages.without_agent(held, end)
        self._tell_ended(held, step=self.listening.published(held))
        self.background.spawn(self.releasing.release(held))

    def tell_again(self, held: Held) -> None:
        """As far as it has come."""
        if held.state in ("exited", "released") and held.exit_code is not None:
            self._tell_ended(held)
        if held.state == "released":
            held.last_report = self.reporter.tell_of(held.key, held.order, TaskIsReleased)

    def _tell_ended(self, held: Held, **known: Any) -> None:
        end = {"exit_code": held.exit_code, "unseen": held.unseen, "reason": held.reason}
        self.reporter.tell_of(held.key, held.order, TaskEnded, **end, **known)
