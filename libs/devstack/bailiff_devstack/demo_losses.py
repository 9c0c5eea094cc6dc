"""What each preemption cost the run that the demo follows, from its records: the time of every stage, and the steps lost."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from rich.table import Table

from bailiff.eventline import plain
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
    "decided", "eviction begun", *STAGES.values(), "exited", "GPU seen free", "back in the queue", "room given", "started",
    "at work again",
)  # fmt: skip


@dataclass
class Loss:
    """One preemption. at: when each stage that there was began, µs UTC. Steps: None where they are not known."""

    how: str
    at: dict[str, int] = field(default_factory=dict)
    last_step: int | None = None
    back_at: int | None = None
    steps_lost: int | None = None

    @property
    def begun_at(self) -> int:
        """What the times of its stages are counted from: the decision, or the kill."""
        return min(self.at.values())


def losses(records: Sequence[Record], job: str, killed_at: int) -> list[Loss]:
    """Every time that the job had to leave. killed_at: when it was killed, µs UTC."""
    found: list[Loss] = []
    notice_at = 0
    for record in records:
        data, now = record.data, found[-1] if found else Loss("")
        match data:
            case decisions.PreemptionDecided() if any(victim.job == job for victim in data.victims):
                found.append(Loss(f"for {data.asker.job}", {"decided": record.time}))
            case decisions.EvictionDecided(job=it, cause=cause) if it == job:
                found.append(Loss(cause, {"decided": record.time}))
            case facts.EvictionBegun(job=it) if it == job:
                now.at["eviction begun"] = record.time
            case facts.EvictionStaged(job=it, stage=stage) if it == job and stage in STAGES:
                notice_at = record.time if stage == "noticed" else notice_at
                now.at[STAGES[stage]] = notice_at + data.after
            case facts.TaskExited(job=it) if it == job and data.exit_code != 0:
                if "exited" in now.at or not found:
                    found.append(now := Loss("kill -9", {"killed": killed_at}))
                now.at["exited"], now.last_step = record.time, data.step
            case facts.TaskReleased(job=it) if it == job:
                now.at.setdefault("GPU seen free", record.time)
            case decisions.JobRequeued(job=it) if it == job:
                now.at["back in the queue"] = record.time
            case decisions.JobPlaced(job=it) if it == job:
                now.at["room given"] = record.time
            case facts.TaskStarted(job=it) if it == job:
                now.at["started"] = record.time
            case facts.TaskResumed(job=it) if it == job:
                now.at["at work again"], now.back_at, now.steps_lost = record.time, data.step, data.steps_lost
    return found


def table(job: str, found: Sequence[Loss]) -> Table:
    """A column for each time, a row for each stage: milliseconds since the decision, or the kill."""
    shown = Table(title=f"{plain(job)}: ms from the decision, or the kill, to each stage", title_justify="left", box=None)
    shown.title_style, shown.header_style = "bold", "bold"
    shown.add_column("")
    for loss in found:
        shown.add_column(plain(loss.how), justify="right", min_width=12)
    for stage in ORDER:
        if any(stage in loss.at for loss in found):
            shown.add_row(stage, *(_since(loss, stage) for loss in found))
    shown.add_section()
    for what, values in (
        ("last step done", [loss.last_step for loss in found]),
        ("went on with step", [loss.back_at for loss in found]),
        ("steps lost", [loss.steps_lost for loss in found]),
    ):
        shown.add_row(what, *("?" if value is None else str(value) for value in values), style="bold" if "lost" in what else "")
    return shown


def _since(loss: Loss, stage: str) -> str:
    return f"{(loss.at[stage] - loss.begun_at) / 1000:,.0f}" if stage in loss.at else "–"
