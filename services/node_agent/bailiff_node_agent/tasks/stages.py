"""The stages of an eviction: which a task has reached, how that is noted on disk and told."""

from dataclasses import dataclass
from typing import Any, Literal

from bailiff_bus.ambient import Ambient
from bailiff_bus.messages import EvictionStageReached
from bailiff_core.records.facts import EvictionStage, Stage
from bailiff_node_agent.disk import Evictions, RunningEviction
from bailiff_node_agent.reporting import Reporter
from bailiff_node_agent.runtime import Exit, Said

from .heard import checkpoint_of
from .held import Held

TERMINATED: Literal["terminated"] = "terminated"  # on disk only: TERM has really been sent
NOTED: tuple[EvictionStage, ...] = ("noticed", "term_sent", "kill_sent")  # on disk with their eviction, in this order
SAID: tuple[EvictionStage, ...] = (
    "acknowledged", "checkpoint_started", "saving_in_flight", "checkpoint_committed", "yielding",
)  # fmt: skip
OUR_OWN = ("term_sent", "kill_sent")


@dataclass(frozen=True, slots=True)
class Stages:
    """Enters what tasks reach into what is held of them, once."""

    evictions: Evictions
    ambient: Ambient
    reporter: Reporter

    def reach(self, held: Held, eviction: RunningEviction, stage: EvictionStage, *, tell: bool = True, **facts: Any) -> None:
        """Now; where it was reached before, nothing happens."""
        if stage in held.stages:
            return
        after = max(0, self.ambient.boot() - eviction.notice_boottime_us)
        held.stages[stage] = reached = Stage(stage=stage, after=after, **facts)
        if stage in NOTED:
            self._note(eviction, stage)
        if tell:
            self.tell(held, reached)

    def terminated(self, held: Held, eviction: RunningEviction) -> None:
        """TERM has been sent."""
        held.stages[TERMINATED] = None
        self._note(eviction, TERMINATED)

    def without_agent(self, held: Held, end: Exit, *, tell: bool = True) -> None:
        """Those that its supervisor went through by itself."""
        for name in NOTED:
            if name in (*end.lease_stages, *end.deadline_stages) and name not in held.stages:
                stuck = stuck_in(held.stages) if name != "noticed" else None
                held.stages[name] = stage = Stage(stage=name, stuck_in=stuck)
                if tell:
                    self.tell(held, stage)

    def tell(self, held: Held, stage: Stage) -> None:
        self.reporter.tell_of(held.key, held.order, EvictionStageReached, **stage.model_dump())

    def _note(self, eviction: RunningEviction, stage: str) -> None:
        if self.evictions.get(eviction.key) is not None:
            self.evictions.reached(eviction.key, stage)


def said_by(line: Said, notice_at: int) -> Stage | None:
    """The stage of an eviction that a line tells of; None for one that tells of none, or came before the notice."""
    stage = next((each for each in SAID if each == line.say), None)
    if stage is None or line.at_boottime_us < notice_at:
        return None
    after, checkpoint = line.at_boottime_us - notice_at, checkpoint_of(line) if stage == "checkpoint_committed" else None
    return Stage(stage=stage, after=after, step=None if checkpoint else line.content.get("step"), checkpoint=checkpoint)


def stuck_in(stages: dict[str, Stage | None]) -> EvictionStage:
    """The last stage that the task itself has reached."""
    reached = [stage.stage for stage in stages.values() if stage is not None and stage.stage not in OUR_OWN]
    return reached[-1] if reached else "noticed"


def reached_until(eviction: RunningEviction) -> dict[str, Stage | None]:
    """What is known of an eviction that an earlier agent began; what the task said is in its own journal."""
    order: tuple[EvictionStage | Literal["terminated"], ...] = ("noticed", "term_sent", TERMINATED, "kill_sent")
    found: dict[str, Stage | None] = {}
    for stage in order[: order.index(eviction.stage) + 1] if eviction.stage in order else ():
        if stage == TERMINATED:
            found[stage] = None
        else:
            found[stage] = Stage(stage=stage, **notice_facts(eviction)) if stage == "noticed" else Stage(stage=stage)
    return found


def notice_facts(eviction: RunningEviction) -> dict[str, Any]:
    """What is told with the stage `noticed`."""
    known = {name: value for name in ("attached", "step", "pace") if (value := eviction.detail.get(name)) is not None}
    return {**known, "soft": eviction.grace_us, "hard": eviction.grace_us + eviction.kill_after_us}
