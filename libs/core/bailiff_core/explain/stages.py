"""How one eviction went, told task by task: its stages with their times, from the records of it."""

from collections.abc import Iterable, Iterator, Sequence

from bailiff_core.records import Record, facts
from bailiff_core.words import count_text, duration_text, memory_text

from .said import NAMED, Sentence, clock, listed, seqs_of

SHOWN: dict[facts.EvictionStage, str] = {
    "acknowledged": "acknowledged",
    "step_agreed": "was to save together with its gang",
    "checkpoint_started": "began to save",
    "saving_in_flight": "had a save in flight",
    "checkpoint_committed": "had saved",
    "yielding": "said that it leaves",
    "term_sent": "was sent TERM",
    "kill_sent": "was sent KILL",
}
STUCK: dict[facts.EvictionStage, str] = {
    "noticed": "never having acknowledged",
    "acknowledged": "having acknowledged and not begun to save",
    "step_confirmed": "its gang having agreed on no step",
    "step_agreed": "not having come to the step agreed on",
    "checkpoint_started": "in the middle of saving",
    "saving_in_flight": "with a save in flight",
    "checkpoint_committed": "having saved and not left",
    "yielding": "having said that it leaves",
}


def course(history: Sequence[Record], attempt: int) -> Iterator[Sentence]:
    """One sentence for each of the first tasks that were told: how they left, and with what they came back."""
    told: dict[int, list[Record]] = {}
    back: set[int] = set()
    for record in history:
        data = record.data
        if isinstance(data, facts.EvictionStaged) and data.attempt == attempt and data.stage == "noticed":
            told[data.task] = [record]
        elif isinstance(data, facts.EvictionStaged | facts.TaskExited | facts.TaskReleased) and data.task in told:
            if data.attempt == attempt:
                told[data.task].append(record)
        elif isinstance(data, facts.TaskResumed) and data.task in told and data.task not in back and data.attempt > attempt:
            told[data.task].append(record)
            back.add(data.task)
    for task, records in list(told.items())[:NAMED]:
        begun = records[0]
        steps = [text for record in records[1:] for text in _told(record, begun)]
        seqs = seqs_of(*(record.seq for record in records))
        then = listed(steps) if steps else "is still there"
        yield Sentence(f"Task {task} was told at {clock(begun.time)}{_knows(begun)}; it {then}.", seqs)
    if len(told) > NAMED:
        yield Sentence(f"And so on for {count_text(len(told) - NAMED, 'more task')}.")


def _knows(record: Record) -> str:
    data = record.data
    assert isinstance(data, facts.EvictionStaged)
    return "" if data.attached else ", and had never said that it listens for notices"


def _told(record: Record, begun: Record) -> Iterable[str]:
    match record.data:
        case facts.EvictionStaged() as stage if stage.stage in SHOWN:
            yield f"{SHOWN[stage.stage]}{_facts(stage)} {duration_text(stage.after)} later"
        case facts.TaskExited() as end:
            seen = f"by signal {-end.exit_code}" if end.exit_code < 0 else f"with exit code {end.exit_code}"
            how = "unseen" if end.unseen else seen
            yield f"ended {duration_text(record.time - begun.time)} later {how}"
        case facts.TaskReleased() as released:
            seen = f" ({count_text(len(released.after), 'GPU')} seen free)" if released.after else ""
            yield f"had left its room{seen} {duration_text(record.time - begun.time)} later"
        case facts.TaskResumed() as back:
            lost = f", {count_text(back.steps_lost, 'step')} lost"
            yield f"went on at step {back.step} in attempt {back.attempt}{lost}"


def _facts(stage: facts.EvictionStaged) -> str:
    if stage.checkpoint is not None:
        alone = "" if stage.checkpoint.agreed else " without its gang's agreement"
        size, took = memory_text(stage.checkpoint.bytes), duration_text(stage.checkpoint.microseconds)
        return f" step {stage.checkpoint.step} ({size} in {took}){alone}"
    if stage.stuck_in is not None:
        return f" {STUCK.get(stage.stuck_in, '')}"
    return f" at step {stage.step}" if stage.step is not None else ""
