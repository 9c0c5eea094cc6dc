"""The cost of each interruption of one job, from its records: the time of every stage, and the steps lost."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from rich.table import Table

from bailiff.render.plain_text import plain
from bailiff_core.records import Record, decisions, facts

STAGES: dict[facts.EvictionStage, str] = {
    "noticed": "notice",
    "acknowledged": "acknowledged",
    "checkpoint_started": "checkpoint started",
    "checkpoint_committed": "checkpoint committed",
    "yielding": "yielding",
    "frozen": "stopped",
    "dumped": "snapshot written",
    "stored": "snapshot stored",
    "term_sent": "TERM sent",
    "kill_sent": "KILL sent",
}
ORDER = (
    "decided",
    "eviction started",
    *STAGES.values(),
    "exited",
    "GPU released",
    "requeued",
    "placed",
    "restarted",
    "resumed",
    "restored",
)


@dataclass
class PreemptionCost:
    """One interruption. cause: a short text. at: append times, µs UTC. stages: µs after the notice, by the node's clock.

    notice_by: upper bound of the notice's time, µs UTC. Steps: None if unknown. saved: its node has saved and restored it.
    """

    cause: str
    at: dict[str, int] = field(default_factory=dict)
    stages: dict[str, int] = field(default_factory=dict)
    notice_by: int = 0
    last_step: int | None = None
    resumed_at: int | None = None
    steps_lost: int | None = None
    saved: bool = False

    def since(self) -> dict[str, int]:
        """µs from the decision, or the kill, to each stage."""
        began = min(self.at.values())
        stages = {name: self.notice_by + after - began for name, after in self.stages.items()}
        return {name: at - began for name, at in self.at.items()} | stages


def preemption_costs(records: Sequence[Record], job: str, killed_at: int) -> list[PreemptionCost]:
    """Every interruption of the job, in order. killed_at: time of the demo's KILL, µs UTC."""
    found: list[PreemptionCost] = []
    for record in records:
        data, current = record.data, found[-1] if found else PreemptionCost("")
        match data:
            case decisions.PreemptionDecided() if any(victim.job == job for victim in data.victims):
                found.append(PreemptionCost(f"by {plain(data.preemptor.job)}", {"decided": record.time}))
            case decisions.EvictionDecided(job=it, cause=cause) if it == job:
                found.append(PreemptionCost(cause, {"decided": record.time}))
            case facts.EvictionStarted(job=it) if it == job:
                current.at["eviction started"] = record.time
            case facts.EvictionStageReached(job=it, stage=stage) if it == job and stage in STAGES:
                # `noticed` is reported after the notice is on disk
                current.stages[STAGES[stage]] = 0 if stage == "noticed" else data.elapsed
                current.notice_by = min(current.notice_by or record.time, record.time - data.elapsed)
            case facts.TaskExited(job=it) if it == job and data.exit_code != 0:
                if "exited" in current.at or not found:
                    found.append(current := PreemptionCost("kill -9", {"killed": killed_at}))
                current.at["exited"], current.last_step = record.time, data.step
            case facts.TaskReleased(job=it) if it == job:
                current.at.setdefault("GPU released", record.time)
            case decisions.JobRequeued(job=it) if it == job:
                current.at["requeued"] = record.time
            case decisions.JobPlaced(job=it) if it == job:
                current.at["placed"] = record.time
            case facts.TaskStarted(job=it) if it == job:
                current.at["restarted"] = record.time
            case facts.TaskRestored(job=it) if it == job:
                current.at["restored"], current.saved, current.steps_lost = record.time, True, 0
            case facts.TaskResumed(job=it) if it == job:
                current.at["resumed"], current.resumed_at, current.steps_lost = record.time, data.step, data.steps_lost
    return found


def table(found: Sequence[PreemptionCost]) -> Table:
    """A column for each interruption, a row for each stage: milliseconds since the decision, or the kill."""
    shown = Table(title="ms from the decision, or the kill, to each stage", title_justify="left", box=None)
    shown.title_style, shown.header_style = "bold", "bold"
    shown.add_column("")
    for loss in found:
        shown.add_column(loss.cause, justify="right", min_width=12)
    since = [loss.since() for loss in found]
    for stage in ORDER:
        if any(stage in each for each in since):
            shown.add_row(stage, *(f"{each[stage] / 1000:,.0f}" if stage in each else "–" for each in since))
    shown.add_section()
    for what, values in (
        ("last step", [loss.last_step for loss in found]),
        ("resumed at step", [loss.resumed_at for loss in found]),
        ("steps lost", [loss.steps_lost for loss in found]),
    ):
        cells = [
            str(value) if value is not None else "–" if loss.saved else "?" for value, loss in zip(values, found, strict=True)
        ]
        shown.add_row(what, *cells, style="bold" if "lost" in what else "")
    return shown
