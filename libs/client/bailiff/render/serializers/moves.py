"""Moves of a job from one place to another."""

from collections.abc import Iterator
from typing import TypedDict

from bailiff.render.record_text.phrases import node_name
from bailiff_core.model.placement_ranges import NodeShare, numbers
from bailiff_core.model.state import PoolState
from bailiff_core.records import Record, decisions, facts

from .times import moment


class MoveRow(TypedDict):
    """One move of a job to a place that was kept for it. told_at: the notice; stopped_at: its first task had ended;

    running_at: all of it ran again. pause_s: from the notice to then, down_s: from the end of its first task to then.
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
    """The job's moves, by hand or by a decision that made room, each with what the job saw of it."""
    for at, record in enumerate(history):
        data = record.data
        if isinstance(data, decisions.MigrationDecided) and data.cause == "migration":
            yield _move(state, record.seq, data.attempt, data.placement, history[:at], history[at:])


def _move(
    state: PoolState, seq: int, attempt: int, placement: tuple[NodeShare, ...], before: list[Record], after: list[Record]
) -> MoveRow:
    def first(kind: type[facts.TaskFact], which: int) -> int | None:
        return next((each.time for each in after if isinstance(each.data, kind) and each.data.attempt == which), None)

    told, stopped = first(facts.EvictionStageReached, attempt), first(facts.TaskExited, attempt)
    begun = [each for each in after if isinstance(each.data, facts.TaskStarted) and each.data.attempt == attempt + 1]
    started = {each.data.task: each.time for each in begun if isinstance(each.data, facts.TaskStarted)}
    wanted = [index for share in placement for index in numbers(share.tasks)]
    running = max(started.values()) if wanted and all(index in started for index in wanted) else None
    stood = [each.data for each in before if isinstance(each.data, facts.TaskStarted) and each.data.attempt == attempt]
    return {
        "seq": seq,
        "from_nodes": list(dict.fromkeys(task.node for task in stood)),
        "to_nodes": list(dict.fromkeys(node_name(state, share.node) for share in placement)),
        "notified_at": moment(told),
        "stopped_at": moment(stopped),
        "running_at": moment(running),
        "pause_s": None if running is None or told is None else (running - told) / 1_000_000,
        "down_s": None if running is None or stopped is None else (running - stopped) / 1_000_000,
    }
