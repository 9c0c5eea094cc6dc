"""Migrations of a job: nodes, times and downtime."""

from collections.abc import Iterator

from typing_extensions import TypedDict

from bailiff.render.record_text.phrases import node_name
from bailiff_core.model.placement_ranges import NodeShare, numbers
from bailiff_core.model.state import PoolState
from bailiff_core.records import Record, decisions, facts

from .times import moment


class MoveRow(TypedDict):
    """One migration of a job to reserved resources.

    Attributes:
        notified_at: Time of the eviction notice.
        stopped_at: Exit of the first task.
        running_at: When all tasks ran again.
        pause_s: Seconds from the notice until all tasks ran again.
        down_s: Seconds from the first exit until all tasks ran again.
    """

    seq: int
    from_nodes: list[str]
    to_nodes: list[str]
    notified_at: str | None
    stopped_at: str | None
    running_at: str | None
    pause_s: float | None
    down_s: float | None


def moves_of(state: PoolState, history: list[Record]) -> Iterator[MoveRow]:
    """Migrations of the job, requested or decided."""
    for at, record in enumerate(history):
        data = record.data
        if isinstance(data, decisions.MigrationDecided) and data.cause == "migration":
            yield _move_row(state, record.seq, data.attempt, data.placement, history[:at], history[at:])


def _move_row(
    state: PoolState, seq: int, attempt: int, placement: tuple[NodeShare, ...], before: list[Record], after: list[Record]
) -> MoveRow:
    def first(kind: type[facts.TaskFact], which: int) -> int | None:
        return next((each.time for each in after if isinstance(each.data, kind) and each.data.attempt == which), None)

    notified, stopped = first(facts.EvictionStageReached, attempt), first(facts.TaskExited, attempt)
    starts = [each for each in after if isinstance(each.data, facts.TaskStarted) and each.data.attempt == attempt + 1]
    started = {each.data.task: each.time for each in starts if isinstance(each.data, facts.TaskStarted)}
    wanted = [index for share in placement for index in numbers(share.tasks)]
    running = max(started.values()) if wanted and all(index in started for index in wanted) else None
    started_before = [each.data for each in before if isinstance(each.data, facts.TaskStarted) and each.data.attempt == attempt]
    return {
        "seq": seq,
        "from_nodes": list(dict.fromkeys(task.node for task in started_before)),
        "to_nodes": list(dict.fromkeys(node_name(state, share.node) for share in placement)),
        "notified_at": moment(notified),
        "stopped_at": moment(stopped),
        "running_at": moment(running),
        "pause_s": None if running is None or notified is None else (running - notified) / 1_000_000,
        "down_s": None if running is None or stopped is None else (running - stopped) / 1_000_000,
    }
