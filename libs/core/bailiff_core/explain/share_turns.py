"""Whom rounding owes what it leaves over of GPUs, and when the next turn may begin."""

from collections.abc import Iterator, Sequence

from bailiff_core.lifecycle.share_turns import turns_for
from bailiff_core.model.state import Job, PoolState
from bailiff_core.queue import share_turn

from .sentences import Sentence, clock


def share_turn_sentences(state: PoolState, jobs: Sequence[Job]) -> Iterator[Sentence]:
    """One for each turn that these pending jobs wait for."""
    for due, turn in turns_for(state, jobs):
        text = share_turn.text(turn)
        yield Sentence(f"{text[0].upper()}{text[1:]}. The next turn begins at {clock(max(due, state.now))} at the earliest.")


def turns_to_come(state: PoolState) -> list[str]:
    """The same for all pending jobs, as texts."""
    jobs = [state.jobs[name] for name in state.queue] if state.rules.projects else []
    return [sentence.text for sentence in share_turn_sentences(state, jobs)] if jobs else []
