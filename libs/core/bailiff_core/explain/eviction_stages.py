"""Course of one eviction, alike tasks together: notice, checkpoint, signals, exit and release, with their times."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from bailiff_core.humanize import MAX_NAMED, cost_text, count_text, duration_text, exit_value, memory_text
from bailiff_core.model.placement_ranges import ranges
from bailiff_core.model.snapshot_offer import NotRestored
from bailiff_core.records import Record, decisions, facts

from .sentences import Sentence, clock, listed, seqs_of, tasks_text

STAGES: dict[facts.EvictionStage, str] = {
    "noticed": "notice delivered",
    "acknowledged": "notice acknowledged",
    "step_confirmed": "coordinated checkpoint confirmed",
    "step_agreed": "checkpoint step agreed",
    "checkpoint_started": "checkpoint started",
    "saving_in_flight": "checkpoint in flight",
    "checkpoint_committed": "checkpoint saved",
    "yielding": "exiting voluntarily",
    "term_sent": "TERM sent",
    "kill_sent": "KILL sent",
    "frozen": "stopped for its snapshot",
    "dumped": "snapshot written",
    "stored": "snapshot stored",
    "save_failed": "snapshot failed",
    "parked": "parked in memory",
    "park_failed": "not parked",
    "park_lost": "lost while parked",
}
NOT_RESTORED: dict[NotRestored, str] = {
    "other-folder": "this node does not see the folder of the snapshot",
    "no-driver": "this node has nothing that restores it",
    "other-cpu": "the CPU of this node has other features than that on which it was saved",
    "other-tasks": "the job has started with other tasks than were saved",
    "other-node": "it was parked on another node",
}
"""Why a task did not continue from its job's snapshot."""
SHORTENED_BY = {
    "policy": "the policy grants it no more",
    "cancelled": "the job was cancelled",
    "requested": "a request left it no more",
    "drain": "its node is drained",
}
STUCK: dict[facts.EvictionStage, str] = {
    "noticed": "notice never acknowledged",
    "acknowledged": "acknowledged but started no checkpoint",
    "step_confirmed": "its gang agreed on no checkpoint step",
    "step_agreed": "did not reach the agreed step",
    "checkpoint_started": "checkpoint not committed",
    "saving_in_flight": "checkpoint in flight not committed",
    "checkpoint_committed": "checkpoint saved but did not exit",
    "yielding": "announced its exit but did not exit",
    "term_sent": "did not exit on TERM",
    "kill_sent": "did not exit on KILL",
    "frozen": "its snapshot was not written",
    "dumped": "its snapshot was not stored",
    "stored": "its snapshot was stored, but it did not exit",
    "save_failed": "its snapshot failed",
    "parked": "it was parked, but did not release its resources",
    "park_failed": "it was not parked, and did not exit",
    "park_lost": "it was lost while it was parked",
}


@dataclass(frozen=True, slots=True)
class Amount:
    """A part of a stage in which alike tasks may differ."""

    value: int
    text: Callable[[int], str]


Step = tuple[str | Amount, ...]
"""One stage of a task's eviction, as text in parts."""
CONTINUES = (facts.TaskResumed, facts.TaskRestored, facts.TaskRestoreFailed, facts.TaskStarted)
"""Say where the task goes on after its eviction."""


def course(history: Sequence[Record], attempt: int) -> Iterator[Sentence]:
    """One sentence for each of the first groups of alike tasks: the stages of their eviction, and at which step they resumed."""
    by_task: dict[int, list[Record]] = {}
    resumed: set[int] = set()
    shortened: list[Record] = []
    for record in history:
        data = record.data
        if isinstance(data, decisions.GraceShortened) and data.attempt == attempt:
            shortened.append(record)
        elif isinstance(data, facts.EvictionStageReached) and data.attempt == attempt and data.stage == "noticed":
            if not shortened or data.task not in by_task:
                by_task[data.task] = [record]
        elif isinstance(data, facts.EvictionStarted):
            shortened = []
        elif isinstance(data, facts.EvictionStageReached | facts.TaskExited | facts.TaskReleased) and data.task in by_task:
            if data.attempt == attempt:
                by_task[data.task].append(record)
        elif isinstance(data, CONTINUES) and data.task in by_task and data.task not in resumed and data.attempt > attempt:
            if isinstance(data, facts.TaskStarted) and not data.not_restored:
                continue
            if isinstance(data, facts.TaskRestored) and data.waits:
                continue
            by_task[data.task].append(record)
            resumed.add(data.task)
    yield from (_shortened(record, data) for record in shortened if isinstance(data := record.data, decisions.GraceShortened))
    alike: dict[tuple[object, ...], dict[int, list[Step]]] = {}
    for task, records in by_task.items():
        steps = list(_steps(records))
        same = tuple(part.text if isinstance(part, Amount) else part for step in steps for part in (*step, None))
        alike.setdefault((_attached(records[0]), *same), {})[task] = steps
    groups = list(alike.values())
    for group in groups[:MAX_NAMED]:
        yield _of_alike(group, [by_task[task] for task in group])
    if more := sum(map(len, groups[MAX_NAMED:])):
        yield Sentence(f"Not listed: {count_text(more, 'more task')}.")


def _of_alike(group: dict[int, list[Step]], records: Sequence[Sequence[Record]]) -> Sentence:
    """The course of tasks that took the same stages, with what differs from the least to the most."""
    times = [of_task[0].time for of_task in records]
    texts = ["".join(_together(parts) for parts in zip(*steps, strict=True)) for steps in zip(*group.values(), strict=True)]
    subject = f"{tasks_text(ranges(group)).capitalize()} {'was' if len(group) == 1 else 'were'}"
    still = f"{'it is' if len(group) == 1 else 'they are'} still running"
    unattached = "" if _attached(records[0][0]) else ", without ever having subscribed to eviction notices"
    course_text = listed(texts) if texts else still
    seqs = seqs_of(*sorted(record.seq for of_task in records for record in of_task))
    return Sentence(f"{subject} notified at {_from_to(min(times), max(times), clock)}{unattached}: {course_text}.", seqs)


def _together(parts: Sequence[str | Amount]) -> str:
    """The same part of alike tasks."""
    first, values = parts[0], [part.value for part in parts if isinstance(part, Amount)]
    return first if isinstance(first, str) else _from_to(min(values), max(values), first.text)


def _from_to(least: int, most: int, text: Callable[[int], str]) -> str:
    return text(least) if text(least) == text(most) else f"{text(least)} to {text(most)}"


def _steps(records: Sequence[Record]) -> Iterator[Step]:
    """The stages of one task after its notice, the first record."""
    notice, latest = records[0], 0
    for record in records[1:]:  # the node's clock times the stages, and the log what follows: it never goes back
        data = record.data
        latest = max(latest, data.elapsed if isinstance(data, facts.EvictionStageReached) else record.time - notice.time)
        yield from _stage(record, Amount(latest, duration_text), _attached(notice))
        if isinstance(data, facts.TaskRestored):
            yield from _away(records, data, latest)


def snapshot_text(stage: facts.Stage) -> str:
    """The size of a snapshot, or why it failed; empty for other stages."""
    return stage.reason or (f"{memory_text(stage.bytes)} by {stage.driver}" if stage.bytes is not None else "")


def stuck_text(stage: facts.Stage, attached: bool) -> str:
    """Why TERM or KILL was sent; empty: it was sent without waiting.

    Args:
        attached: The task listens for notices.
    """
    if stage.stuck_in is None:
        return ""
    if stage.stuck_in == "noticed" and not attached:  # it had nothing to acknowledge: KILL follows a TERM
        return STUCK["term_sent"] if stage.stage == "kill_sent" else ""
    return STUCK[stage.stuck_in]


def _shortened(record: Record, data: decisions.GraceShortened) -> Sentence:
    times = f"from {duration_text(data.earlier)} to {duration_text(data.grace)}"
    return Sentence(f"Its grace was shortened {times} at {clock(record.time)}: {SHORTENED_BY[data.cause]}.", seqs_of(record.seq))


def _attached(notice: Record) -> bool:
    data = notice.data
    assert isinstance(data, facts.EvictionStageReached)
    return data.attached


def _stage(record: Record, elapsed: Amount, attached: bool) -> Iterable[Step]:
    match record.data:
        case facts.EvictionStageReached() as stage if stage.stage != "step_confirmed":
            yield STAGES[stage.stage], *_facts(stage, attached), " ", elapsed, " later"
        case facts.TaskExited() as end:
            detail = f"{'by' if end.exit_code < 0 else 'with code'} {exit_value(end.exit_code)}"
            how = "with unobserved status" if end.unobserved else detail
            yield "exited ", elapsed, f" later {how}"
        case facts.TaskReleased() as released:
            by = "verified free" if released.evidence == "node" else "free by the Kubernetes API's word alone"
            detail = f" ({count_text(len(released.after), 'GPU')} {by})" if released.after else ""
            yield f"released its resources{detail} ", elapsed, " later"
        case facts.TaskResumed() as resumption:
            lost = f", {count_text(resumption.steps_lost, 'step')} lost"
            yield (f"resumed at step {resumption.step} in attempt {resumption.attempt}{lost}",)
        case facts.TaskRestored() as restored:
            at = f"on {restored.node} in attempt {restored.attempt}"
            yield f"restored from its snapshot {at} ", elapsed, " later, with no work lost"
        case facts.TaskRestoreFailed() as failed:
            work = Amount(failed.lost_gpu_ms, cost_text)
            yield f"not restored in attempt {failed.attempt}, which loses ", work, f" of work: {failed.reason}"
        case facts.TaskStarted() as started if started.not_restored:
            work, why = Amount(started.lost_gpu_ms, cost_text), NOT_RESTORED[started.not_restored]
            yield f"not restored on {started.node} in attempt {started.attempt}, which loses ", work, f" of work: {why}"


def _away(records: Iterable[Record], restored: facts.TaskRestored, elapsed: int) -> Iterable[Step]:
    """How long a task that its node saved was away, by what it spent the time on; nothing: the stages are not on record.

    Args:
        elapsed: From its notice until it continued, µs.
    """
    at = {each.data.stage: each.data.elapsed for each in records if isinstance(each.data, facts.EvictionStageReached)}
    if "frozen" not in at or "stored" not in at:
        return
    saving, restoring = at["stored"] - at["frozen"], restored.verified + restored.restored
    waiting = max(0, elapsed - at["stored"] - restoring)
    away, saved, waited, continued = (
        Amount(each, duration_text) for each in (saving + waiting + restoring, saving, waiting, restoring)
    )
    yield "away for ", away, " (", saved, " to be saved, ", waited, " waiting, ", continued, " to be restored)"


def _facts(stage: facts.EvictionStageReached, attached: bool) -> Step:
    if stage.checkpoint is not None:
        not_agreed = "" if stage.checkpoint.agreed else " without its gang's agreement"
        size, took = Amount(stage.checkpoint.bytes, memory_text), Amount(stage.checkpoint.duration, duration_text)
        return f" at step {stage.checkpoint.step} (", size, " in ", took, f"){not_agreed}"
    if detail := snapshot_text(stage) or stuck_text(stage, attached):
        return (f" ({detail})",)
    return (f" at step {stage.step}" if stage.step is not None else "",)
