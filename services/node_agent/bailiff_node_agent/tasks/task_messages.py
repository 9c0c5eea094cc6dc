"""The messages of one task so far, and which of them are still to be reported."""

from dataclasses import dataclass
from typing import Any

from bailiff_core.records.facts import Checkpoint
from bailiff_node_agent.runtime import JobMessage, Steps

CHECKPOINT_REPORT_S, PROGRESS_REPORT_S = 10.0, 60.0


@dataclass(slots=True)
class TaskMessages:
    """attached: the job has sent `hello`, so it handles notices. newest: number of the newest message taken.

    checkpoint_at: boot time, µs. reported_at, report_at: last and next progress report, on the event loop's clock.
    """

    attached: bool = False
    done: bool = False
    newest: int = 0
    step: int | None = None
    total_steps: int | None = None
    checkpoint: Checkpoint | None = None
    checkpoint_at: int = 0
    checkpoint_unreported: bool = False
    unreported: bool = False
    resumed: JobMessage | None = None
    reported_at: float | None = None
    report_at: float | None = None

    @property
    def is_done(self) -> bool:
        """Whether the job has reported `done`, or its last step."""
        return self.done or (self.step is not None and self.total_steps is not None and self.step + 1 >= self.total_steps)

    def take(self, message: JobMessage) -> None:
        """Take one more message."""
        self.newest, content = message.number, message.content
        match message.type:
            case "hello":
                self.attached = True
            case "progress":
                self.step, self.total_steps, self.unreported = content["step"], content["total"], True
            case "checkpoint_committed":
                self.checkpoint, self.checkpoint_at = checkpoint_of(message), message.at
                self.checkpoint_unreported = self.unreported = True
            case "done":
                self.done = True
            case "resumed":
                self.resumed = message

    def next_report_at(self) -> float | None:
        """When progress may be reported next, on the event loop's clock; None where there is nothing new."""
        if not self.unreported:
            return None
        pause = CHECKPOINT_REPORT_S if self.checkpoint_unreported else PROGRESS_REPORT_S
        return 0.0 if self.reported_at is None else self.reported_at + pause

    def take_progress(self, steps: Steps, boot: int, now: float) -> dict[str, Any]:
        """The fields of a progress report; they count as reported from now on."""
        step = steps.published if steps.published is not None else self.step
        progress: dict[str, Any] = {"step": step, "total_steps": self.total_steps, "step_rate_milli": steps.pace}
        if self.checkpoint_unreported:
            progress |= {"checkpoint": self.checkpoint, "checkpoint_age": max(0, boot - self.checkpoint_at)}
        self.checkpoint_unreported = self.unreported = False
        self.reported_at = now
        return progress


def checkpoint_of(message: JobMessage) -> Checkpoint:
    """The checkpoint that a `checkpoint_committed` reports."""
    content = message.content
    known = {name: content[name] for name in ("step", "bytes", "sha256", "agreed")}
    return Checkpoint.model_validate({**known, "duration": content["microseconds"]})
