"""Records which preemptor displaced which victim, and which projects were reclaimed from."""

from collections.abc import Iterable

from bailiff_core.model.project_tree import tree_of
from bailiff_core.model.state import ENDED, PoolState

SURPLUS = "+"  # not valid in job names; surplus requested or lost is tracked separately from the core


def note_displacement(state: PoolState, preemptor: str, victim: str, *, asks_surplus: bool, loses_surplus: bool) -> None:
    """Records that the preemptor displaced the victim, or its surplus. A job that loses its core requests both again."""
    by = preemptor + SURPLUS if asks_surplus else preemptor
    for part in (SURPLUS,) if loses_surplus else ("", SURPLUS):
        known = state.displaced_by.get(victim + part, {})
        current = {name: seq for name, seq in known.items() if is_current(state, name, seq)}
        state.displaced_by[victim + part] = current | {by: state.seq}


def forget_displacements(state: PoolState, job: str) -> None:
    """Drops the displacements of an ended job."""
    for part in ("", SURPLUS):
        state.displaced_by.pop(job + part, None)


def is_current(state: PoolState, name: str, seq: int) -> bool:
    """Whether the preemptor of that decision still exists (and is not a later job of the same name)."""
    job = state.jobs.get(name.removesuffix(SURPLUS))
    return job is not None and job.phase not in ENDED and job.seq < seq


def note_reclaimed(state: PoolState, preemptor: str, losers: Iterable[str]) -> None:
    """Sets the reclaim time of the losers' projects and their ancestors below the one shared with the preemptor's."""
    tree = tree_of(state)
    mine = tree.leaf_of(preemptor)
    for leaf in dict.fromkeys(tree.leaf_of(loser) for loser in losers):
        common = tree.common(mine, leaf)
        for project in tree.branches[leaf].path:
            if project == common:
                break
            state.reclaimed_at[project] = state.now
