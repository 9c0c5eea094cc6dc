"""Whose turn it is to have GPUs: whom rounding owes what it leaves over, who used more than its part, and until when."""

from collections.abc import Iterator, Sequence

from bailiff_core.humanize import duration_text, gpus_text, thousandths_text
from bailiff_core.lifecycle.share_turns import turns_for
from bailiff_core.model.project_tree import are_several, project_text, projects_text
from bailiff_core.model.state import Job, PoolState
from bailiff_core.queue import share_turn
from bailiff_core.quota.usage import Usage
from bailiff_core.scheduling_snapshot import current_usage

from .sentences import Sentence, clock, seqs_of


def share_turn_sentences(state: PoolState, jobs: Sequence[Job]) -> Iterator[Sentence]:
    """One for each turn that these pending jobs wait for."""
    if state.past_use is not None:
        usage = current_usage(state)
        paths = [usage.tree.branches[usage.leaf_of(job)].path for job in jobs]
        for parent in usage.tree.children:
            if any(parent in path[1:] for path in paths) and usage.is_short(parent) and not usage.quotas_shrink(parent):
                yield from _by_use(state, usage, parent, state.past_use.half_life)
    for due, turn in turns_for(state, jobs):
        text = share_turn.text(turn)
        yield Sentence(f"{text[0].upper()}{text[1:]}. The next turn begins at {clock(max(due, state.now))} at the earliest.")


def turns_to_come(state: PoolState) -> list[str]:
    """The same for all pending jobs, as texts."""
    jobs = [state.jobs[name] for name in state.queue] if state.rules.projects else []
    return [sentence.text for sentence in share_turn_sentences(state, jobs)] if jobs else []


def _by_use(state: PoolState, usage: Usage, parent: str, half_life: int) -> Iterator[Sentence]:
    """Who of those that ask for GPUs used more than its part by weight, and who goes first for it."""
    names = [name for name in usage.tree.children[parent] if usage.requested(name).gpu_milli]
    used = {name: int(usage.past_use(name).gpu_milli) for name in names}
    weights = {name: usage.tree.branches[name].weights[0] for name in names}
    parts = {name: sum(used.values()) * weights[name] // (sum(weights.values()) or 1) for name in names}
    above = [name for name in names if used[name] > parts[name]]
    below = [name for name in names if used[name] < parts[name]]
    if not above or not below:
        return
    most = max(above, key=lambda name: (used[name] - parts[name], name))
    times = f"{_times(used[most], parts[most])} its part" if parts[most] else "GPUs of which it has no part"
    name, mean = project_text(most), f"{gpus_text(used[most])} on average, by a half-life of {duration_text(half_life)}"
    text = f"{name[0].upper()}{name[1:]} used {times} beyond quotas over time: {mean}"
    text += f"; so {projects_text(below)} {'go' if are_several(below) else 'goes'} first."
    last = state.share_turns.get(parent)
    if last is not None and last.began + share_turn.length(state) > state.now:
        text += f" Shares follow at {clock(last.began + share_turn.length(state))} at the earliest."
    yield Sentence(text, seqs_of(state.policy_revision))


def _times(used: int, part: int) -> str:
    tenths = used * 10 // part
    return "twice" if tenths == 20 else f"{thousandths_text(tenths * 100)} times"
