"""What one task has said to its node so far, and which of it is news that nobody was told of yet."""

from dataclasses import dataclass
from typing import Any

from bailiff_core.records.facts import Checkpoint
from bailiff_node_agent.runtime import Said, Steps

CHECKPOINTS_EVERY_S, PROGRESS_EVERY_S = 10.0, 60.0


@dataclass(slots=True)
class Heard:
    """What one task has said so far. attached: it has said that it listens for notices. newest: the last line taken.

    untold: something that nobody was told of yet. checkpoint_at: boot time, µs.
    """

    attached: bool = False
    newest: int = 0
    step: int | None = None
    total: int | None = None
    checkpoint: Checkpoint | None = None
    checkpoint_at: int = 0
    checkpoint_untold: bool = False
    untold: bool = False
    resumed: Said | None = None
    told_at: float | None = None
    waits_until: float | None = None

    def take(self, line: Said) -> None:
        """One more line."""
        self.newest, content = line.number, line.content
        match line.say:
            case "hello":
                self.attached = True
            case "progress":
                self.step, self.total, self.untold = content["step"], content["total"], True
            case "checkpoint_committed":
                self.checkpoint, self.checkpoint_at = checkpoint_of(line), line.at_boottime_us
                self.checkpoint_untold = self.untold = True
            case "resumed":
                self.resumed = line

    def next_at(self) -> float | None:
        """When its news may be told, on the event loop's clock; None where there are none."""
        if not self.untold:
            return None
        pause = CHECKPOINTS_EVERY_S if self.checkpoint_untold else PROGRESS_EVERY_S
        return 0.0 if self.told_at is None else self.told_at + pause

    def news(self, steps: Steps, boot: int, now: float) -> dict[str, Any]:
        """What is to be told, and that it was."""
        step = steps.published if steps.published is not None else self.step
        told: dict[str, Any] = {"step": step, "total": self.total, "pace": steps.pace}
        if self.checkpoint_untold:
            told |= {"checkpoint": self.checkpoint, "ago": max(0, boot - self.checkpoint_at)}
        self.checkpoint_untold = self.untold = False
        self.told_at = now
        return told


def checkpoint_of(line: Said) -> Checkpoint:
    """What a line says about a checkpoint that was committed."""
    return Checkpoint.model_validate({name: line.content[name] for name in Checkpoint.model_fields})
