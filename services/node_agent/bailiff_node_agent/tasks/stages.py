"""The stages of an eviction: which of them a task has reached, on disk and in reports."""

from dataclasses import dataclass, replace
from typing import Any, Literal

from bailiff_bus.messages.reports import EvictionStageReport
from bailiff_core.records.facts import EvictionStage, Stage
from bailiff_node_agent.disk import EvictionStore, RunningEviction
from bailiff_node_agent.reporter import Reporter
from bailiff_node_agent.runtime import Exit, JobMessage
from bailiff_service.clock_and_ids import ClockAndIds

from .task_messages import checkpoint_of
from .task_table import LocalTask

TERMINATED: Literal["terminated"] = "terminated"  # on disk only: TERM was really sent
DURABLE_STAGES: tuple[EvictionStage, ...] = ("noticed", "term_sent", "kill_sent")  # on disk with their eviction, in this order
TASK_STAGES: tuple[EvictionStage, ...] = (
    "acknowledged",
    "checkpoint_started",
    "saving_in_flight",
    "checkpoint_committed",
    "yielding",
)
SAVE_STAGES: tuple[EvictionStage, ...] = ("frozen", "dumped", "stored", "save_failed", "park_failed", "parked")
"""On disk with their facts."""
AGENT_STAGES = ("term_sent", "kill_sent")


@dataclass(frozen=True, slots=True)
class EvictionStages:
    """Records the stages that tasks reach, each once."""

    evictions: EvictionStore
    clock_and_ids: ClockAndIds
    reporter: Reporter

    def reach(
        self,
        task: LocalTask,
        eviction: RunningEviction,
        stage: EvictionStage,
        *,
        report: bool = True,
        write: bool = True,
        **facts: Any,
    ) -> None:
        """The task reaches the stage now. Does nothing if it was reached before. write: to disk, too, where it is durable."""
        if stage in task.stages:
            return
        elapsed = max(0, self.clock_and_ids.boot() - eviction.notice_boottime_us)
        task.stages[stage] = reached = Stage(stage=stage, elapsed=elapsed, **facts)
        if write and stage in DURABLE_STAGES:
            self.write(eviction, stage)
        if stage in SAVE_STAGES and (now := self.evictions.get(eviction.key)) is not None:
            saved = [*now.detail.get("saved", ()), reached.model_dump(mode="json", exclude_defaults=True)]
            self.evictions.put(replace(now, detail={**now.detail, "saved": saved}))
        if report:
            self.report(task, reached)

    def terminated(self, task: LocalTask, eviction: RunningEviction) -> None:
        """TERM was sent."""
        task.stages[TERMINATED] = None
        self.write(eviction, TERMINATED)

    def record_supervisor_stages(self, task: LocalTask, end: Exit, *, report: bool = True) -> None:
        """The stages that the supervisor carried out before the agent, and why the task ended."""
        alone = [name for name in DURABLE_STAGES if name in (*end.lease_stages, *end.deadline_stages) and name not in task.stages]
        task.reason = _reason(end, alone)
        for name in alone:
            stuck = stuck_in(task.stages) if name != "noticed" else None
            task.stages[name] = stage = Stage(stage=name, stuck_in=stuck)
            if report:
                self.report(task, stage)

    def report(self, task: LocalTask, stage: Stage) -> None:
        """Report a reached stage."""
        self.reporter.report_task(task.known_as, task.ordered_by, EvictionStageReport, **stage.model_dump())

    def write(self, eviction: RunningEviction, stage: str) -> None:
        """Write the stage to disk, for the next agent."""
        if self.evictions.get(eviction.key) is not None:
            self.evictions.reached(eviction.key, stage)


def stage_of(message: JobMessage, notice_at: int) -> Stage | None:
    """The stage that a message reports; None for other messages, and for those from before the notice."""
    stage = next((each for each in TASK_STAGES if each == message.type), None)
    if stage is None or message.at < notice_at:
        return None
    elapsed, checkpoint = message.at - notice_at, checkpoint_of(message) if stage == "checkpoint_committed" else None
    return Stage(stage=stage, elapsed=elapsed, step=None if checkpoint else message.content.get("step"), checkpoint=checkpoint)


def stuck_in(stages: dict[str, Stage | None]) -> EvictionStage:
    """The last stage that the task itself has reached."""
    reached = [stage.stage for stage in stages.values() if stage is not None and stage.stage not in AGENT_STAGES]
    return reached[-1] if reached else "noticed"


def stages_until(eviction: RunningEviction) -> dict[str, Stage | None]:
    """The stages that an earlier agent has recorded on disk; the task's own stages are in its journal."""
    order: tuple[EvictionStage | Literal["terminated"], ...] = ("noticed", "term_sent", TERMINATED, "kill_sent")
    found: dict[str, Stage | None] = {}
    for stage in order[: order.index(eviction.stage) + 1] if eviction.stage in order else ():
        if stage == TERMINATED:
            found[stage] = None
        else:
            found[stage] = Stage(stage=stage, **notice_facts(eviction)) if stage == "noticed" else Stage(stage=stage)
        if stage == "noticed":
            saved = map(Stage.model_validate, eviction.detail.get("saved", ()))
            found |= {each.stage: each for each in saved}
    return found


def notice_facts(eviction: RunningEviction) -> dict[str, Any]:
    """What is reported with the stage `noticed`."""
    known = {name: value for name in ("attached", "step", "step_rate_milli") if (value := eviction.detail.get(name)) is not None}
    return {**known, "term_after": eviction.grace_us, "kill_after": eviction.grace_us + eviction.kill_after_us}


def _reason(end: Exit, alone: list[EvictionStage]) -> str:
    """Why it ended, beyond its code. alone: what its supervisor did before the agent.

    Of a container that the agent kills, the engine may need so long that the supervisor kills it, too.
    """
    if end.lease_stages:
        return "its supervisor stopped it: the node's lease expired because its agent could not reach Kafka"
    if end.deadline_stages and alone:
        return "its supervisor stopped it at its deadline, because the agent was down"
    if end.error is not None:
        return end.error
    if end.supervisor_lost:
        return "its supervisor was lost, and its remaining processes were killed"
    return f"{end.leftovers} processes that outlived it were killed" if end.leftovers else ""
