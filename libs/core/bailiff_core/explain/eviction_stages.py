"""Course of one eviction, task by task: notice, checkpoint, signals, exit and release, with their times."""

from collections.abc import Iterable, Iterator, Sequence

from bailiff_core.humanize import count_text, duration_text, memory_text
from bailiff_core.records import Record, facts

from .sentences import MAX_NAMED, Sentence, clock, listed, seqs_of

SHOWN: dict[facts.EvictionStage, str] = {
    "acknowledged": "acknowledged",
    "step_agreed": "agreed with its gang to save a checkpoint",
    "checkpoint_started": "started a checkpoint",
    "saving_in_flight": "had a checkpoint in progress",
    "checkpoint_committed": "saved a checkpoint",
    "yielding": "announced its exit",
    "term_sent": "was sent SIGTERM",
    "kill_sent": "was sent SIGKILL",
}
STUCK: dict[facts.EvictionStage, str] = {
    "noticed": "without having acknowledged",
    "acknowledged": "after acknowledging, without having started a checkpoint",
    "step_confirmed": "without its gang having agreed on a step",
    "step_agreed": "before it reached the agreed step",
    "checkpoint_started": "while saving a checkpoint",
    "saving_in_flight": "with a checkpoint in progress",
    "checkpoint_committed": "after saving a checkpoint, without having exited",
    "yielding": "after announcing its exit",
}


def course(history: Sequence[Record], attempt: int) -> Iterator[Sentence]:
    """One sentence for each of the first notified tasks: the stages of its eviction, and at which step it resumed."""
    by_task: dict[int, list[Record]] = {}
    resumed: set[int] = set()
    for record in history:
        data = record.data
        if isinstance(data, facts.EvictionStageReached) and data.attempt == attempt and data.stage == "noticed":
            by_task[data.task] = [record]
        elif isinstance(data, facts.EvictionStageReached | facts.TaskExited | facts.TaskReleased) and data.task in by_task:
            if data.attempt == attempt:
                by_task[data.task].append(record)
        elif isinstance(data, facts.TaskResumed) and data.task in by_task and data.task not in resumed and data.attempt > attempt:
            by_task[data.task].append(record)
            resumed.add(data.task)
    for task, records in list(by_task.items())[:MAX_NAMED]:
        notice = records[0]
        steps = [text for record in records[1:] for text in _stage_texts(record, notice)]
        seqs = seqs_of(*(record.seq for record in records))
        texts = listed(steps) if steps else "is still running"
        yield Sentence(f"Task {task} was notified at {clock(notice.time)}{_unattached(notice)}; it {texts}.", seqs)
    if len(by_task) > MAX_NAMED:
        yield Sentence(f"Not listed: {count_text(len(by_task) - MAX_NAMED, 'more task')}.")


def _unattached(notice: Record) -> str:
    data = notice.data
    assert isinstance(data, facts.EvictionStageReached)
    return "" if data.attached else ", without ever having subscribed to eviction notices"


def _stage_texts(record: Record, notice: Record) -> Iterable[str]:
    match record.data:
        case facts.EvictionStageReached() as stage if stage.stage in SHOWN:
            yield f"{SHOWN[stage.stage]}{_facts(stage)} {duration_text(stage.elapsed)} later"
        case facts.TaskExited() as end:
            detail = f"by signal {-end.exit_code}" if end.exit_code < 0 else f"with exit code {end.exit_code}"
            how = "with unobserved status" if end.unobserved else detail
            yield f"exited {duration_text(record.time - notice.time)} later {how}"
        case facts.TaskReleased() as released:
            by = "verified free" if released.evidence == "node" else "free by the Kubernetes API's word alone"
            detail = f" ({count_text(len(released.after), 'GPU')} {by})" if released.after else ""
            yield f"released its resources{detail} {duration_text(record.time - notice.time)} later"
        case facts.TaskResumed() as resumption:
            lost = f", {count_text(resumption.steps_lost, 'step')} lost"
            yield f"resumed at step {resumption.step} in attempt {resumption.attempt}{lost}"


def _facts(stage: facts.EvictionStageReached) -> str:
    if stage.checkpoint is not None:
        not_agreed = "" if stage.checkpoint.agreed else " without its gang's agreement"
        size, took = memory_text(stage.checkpoint.bytes), duration_text(stage.checkpoint.duration)
        return f" at step {stage.checkpoint.step} ({size} in {took}){not_agreed}"
    if stage.stuck_in is not None:
        return f" {STUCK.get(stage.stuck_in, '')}"
    return f" at step {stage.step}" if stage.step is not None else ""
