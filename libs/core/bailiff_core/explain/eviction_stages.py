"""Course of one eviction, task by task: notice, checkpoint, signals, exit and release, with their times."""

from collections.abc import Iterable, Iterator, Sequence

from bailiff_core.humanize import MAX_NAMED, cost_text, count_text, duration_text, exit_value, memory_text
from bailiff_core.model.snapshot_offer import NotRestored
from bailiff_core.records import Record, decisions, facts

from .sentences import Sentence, clock, listed, seqs_of

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
}
NOT_RESTORED: dict[NotRestored, str] = {
    "other-folder": "this node does not see the folder of the snapshot",
    "no-driver": "this node has nothing that restores it",
    "other-cpu": "the CPU of this node has other features than that on which it was saved",
    "other-tasks": "the job has started with other tasks than were saved",
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
}


CONTINUES = (facts.TaskResumed, facts.TaskRestored, facts.TaskRestoreFailed, facts.TaskStarted)
"""Say where the task goes on after its eviction."""


def course(history: Sequence[Record], attempt: int) -> Iterator[Sentence]:
    """One sentence for each of the first notified tasks: the stages of its eviction, and at which step it resumed."""
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
    for task, records in list(by_task.items())[:MAX_NAMED]:
        notice = records[0]
        steps: list[str] = []
        latest = 0
        for record in records[1:]:  # the node's clock times the stages, and the log what follows: it never goes back
            data = record.data
            latest = max(latest, data.elapsed if isinstance(data, facts.EvictionStageReached) else record.time - notice.time)
            steps += _stage_texts(record, latest, _attached(notice))
            steps += [away] if isinstance(data, facts.TaskRestored) and (away := _away(records, data, latest)) else []
        seqs = seqs_of(*(record.seq for record in records))
        texts = listed(steps) if steps else "it is still running"
        unattached = "" if _attached(notice) else ", without ever having subscribed to eviction notices"
        yield Sentence(f"Task {task} was notified at {clock(notice.time)}{unattached}: {texts}.", seqs)
    if len(by_task) > MAX_NAMED:
        yield Sentence(f"Not listed: {count_text(len(by_task) - MAX_NAMED, 'more task')}.")


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


def _stage_texts(record: Record, elapsed: int, attached: bool) -> Iterable[str]:
    match record.data:
        case facts.EvictionStageReached() as stage if stage.stage != "step_confirmed":
            yield f"{STAGES[stage.stage]}{_facts(stage, attached)} {duration_text(elapsed)} later"
        case facts.TaskExited() as end:
            detail = f"{'by' if end.exit_code < 0 else 'with code'} {exit_value(end.exit_code)}"
            how = "with unobserved status" if end.unobserved else detail
            yield f"exited {duration_text(elapsed)} later {how}"
        case facts.TaskReleased() as released:
            by = "verified free" if released.evidence == "node" else "free by the Kubernetes API's word alone"
            detail = f" ({count_text(len(released.after), 'GPU')} {by})" if released.after else ""
            yield f"released its resources{detail} {duration_text(elapsed)} later"
        case facts.TaskResumed() as resumption:
            lost = f", {count_text(resumption.steps_lost, 'step')} lost"
            yield f"resumed at step {resumption.step} in attempt {resumption.attempt}{lost}"
        case facts.TaskRestored() as restored:
            at = f"on {restored.node} in attempt {restored.attempt}"
            yield f"restored from its snapshot {at} {duration_text(elapsed)} later, with no work lost"
        case facts.TaskRestoreFailed() as failed:
            lost = cost_text(failed.lost_gpu_ms)
            yield f"not restored in attempt {failed.attempt}, which loses {lost} of work: {failed.reason}"
        case facts.TaskStarted() as started if started.not_restored:
            lost, why = cost_text(started.lost_gpu_ms), NOT_RESTORED[started.not_restored]
            yield f"not restored on {started.node} in attempt {started.attempt}, which loses {lost} of work: {why}"


def _away(records: Iterable[Record], restored: facts.TaskRestored, elapsed: int) -> str:
    """How long a task that its node saved was away, by what it spent the time on; empty: the stages are not on record.

    Args:
        elapsed: From its notice until it continued, µs.
    """
    at = {each.data.stage: each.data.elapsed for each in records if isinstance(each.data, facts.EvictionStageReached)}
    if "frozen" not in at or "stored" not in at:
        return ""
    saving, restoring = at["stored"] - at["frozen"], restored.verified + restored.restored
    waiting = max(0, elapsed - at["stored"] - restoring)
    parts = f"{duration_text(saving)} to be saved, {duration_text(waiting)} waiting, {duration_text(restoring)} to be restored"
    return f"away for {duration_text(saving + waiting + restoring)} ({parts})"


def _facts(stage: facts.EvictionStageReached, attached: bool) -> str:
    if stage.checkpoint is not None:
        not_agreed = "" if stage.checkpoint.agreed else " without its gang's agreement"
        size, took = memory_text(stage.checkpoint.bytes), duration_text(stage.checkpoint.duration)
        return f" at step {stage.checkpoint.step} ({size} in {took}){not_agreed}"
    if detail := snapshot_text(stage) or stuck_text(stage, attached):
        return f" ({detail})"
    return f" at step {stage.step}" if stage.step is not None else ""
