"""What each preemption cost the run that the demo follows, from its records: the time of every stage, and the steps lost."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from rich.table import Table

from bailiff.eventline.line import plain
from bailiff_core.records import Record, decisions, facts

STAGES: dict[facts.EvictionStage, str] = {
    "noticed": "notice",
    "acknowledged": "acknowledged",
    "checkpoint_started": "checkpoint started",
    "checkpoint_committed": "checkpoint committed",
    "yielding": "yielding",
    "term_sent": "TERM sent",
    "kill_sent": "KILL sent",
}
ORDER = (
    "decided", "eviction begun", *STAGES.values(), "exited", "GPU seen free", "back in the queue", "placed again",
    "started again", "at work again",
)  # fmt: skip


@dataclass
class Loss:
    """One preemption. at: when the log had each thing, µs UTC. stages: of the task, µs after the notice, by its node's clock.

    notice_by: when the notice was out at the latest. Steps: None where they are not known.
    """

    how: str
    at: dict[str, int] = field(default_factory=dict)
    stages: dict[str, int] = field(default_factory=dict)
    notice_by: int = 0
    last_step: int | None = None
    back_at: int | None = None
    steps_lost: int | None = None

    def since(self) -> dict[str, int]:
        """µs from the decision, or the kill, to each stage that there was."""
        begun = min(self.at.values())
        told = {name: self.notice_by + after - begun for name, after in self.stages.items()}
        return {name: at - begun for name, at in self.at.items()} | told


def losses(records: Sequence[Record], job: str, killed_at: int) -> list[Loss]:
    """Every time that the job had to leave. killed_at: when it was killed, µs UTC."""
    found: list[Loss] = []
    for record in records:
        data, now = record.data, found[-1] if found else Loss("")
        match data:
            case decisions.PreemptionDecided() if any(victim.job == job for victim in data.victims):
                found.append(Loss(f"for {plain(data.asker.job)}", {"decided": record.time}))
            case decisions.EvictionDecided(job=it, cause=cause) if it == job:
                found.append(Loss(cause, {"decided": record.time}))
            case facts.EvictionBegun(job=it) if it == job:
                now.at["eviction begun"] = record.time
            case facts.EvictionStaged(job=it, stage=stage) if it == job and stage in STAGES:
                now.stages[STAGES[stage]] = 0 if stage == "noticed" else data.after  # that one is told when all of it is on disk
                now.notice_by = min(now.notice_by or record.time, record.time - data.after)
            case facts.TaskExited(job=it) if it == job and data.exit_code != 0:
                if "exited" in now.at or not found:
                    found.append(now := Loss("kill -9", {"killed": killed_at}))
                now.at["exited"], now.last_step = record.time, data.step
            case facts.TaskReleased(job=it) if it == job:
                now.at.setdefault("GPU seen free", record.time)
            case decisions.JobRequeued(job=it) if it == job:
                now.at["back in the queue"] = record.time
            case decisions.JobPlaced(job=it) if it == job:
                now.at["placed again"] = record.time
            case facts.TaskStarted(job=it) if it == job:
                now.at["started again"] = record.time
            case facts.TaskResumed(job=it) if it == job:
                now.at["at work again"], now.back_at, now.steps_lost = record.time, data.step, data.steps_lost
    return found


def table(found: Sequence[Loss]) -> Table:
    """A column for each time, a row for each stage: milliseconds since the decision, or the kill."""
    shown = Table(title="ms from the decision, or the kill, to each stage", title_justify="left", box=None)
    shown.title_style, shown.header_style = "bold", "bold"
    shown.add_column("")
    for loss in found:
        shown.add_column(loss.how, justify="right", min_width=12)
    since = [loss.since() for loss in found]
    for stage in ORDER:
        if any(stage in each for each in since):
            shown.add_row(stage, *(f"{each[stage] / 1000:,.0f}" if stage in each else "–" for each in since))
    shown.add_section()
    for what, values in (
        ("last step done", [loss.last_step for loss in found]),
        ("went on with step", [loss.back_at for loss in found]),
        ("steps lost", [loss.steps_lost for loss in found]),
    ):
        shown.add_row(what, *("?" if value is None else str(value) for value in values), style="bold" if "lost" in what else "")
    return shown
