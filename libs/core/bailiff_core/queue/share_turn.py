"""The turns by which siblings have what rounding leaves over of GPUs."""

from bailiff_core.humanize import gpus_text
from bailiff_core.model.project_tree import DIRECT, ROOT, project_text
from bailiff_core.model.state import Job, PoolState
from bailiff_core.records.decisions import ShareTurnBegan

NAME = "share-turn"
TURN = 3600 * 1_000_000  # µs
KEPT = 2  # so many times what it has of this: whoever has many GPUs for one job has them for more than a turn
TURNS_IN_A_HALF_LIFE = 28  # six hours of a week: who is evicted for shares of time runs again for that long


def length(state: PoolState) -> int:
    """How long a turn lasts at least, µs."""
    return TURN if state.past_use is None else max(TURN, state.past_use.half_life // TURNS_IN_A_HALF_LIFE)


def due(state: PoolState, job: Job) -> int | None:
    """When a pending job of a pool with projects has waited for the time of a turn, µs."""
    return job.queued_since + TURN if job.phase == "pending" and state.rules.projects else None


def text(decision: ShareTurnBegan) -> str:
    """Whose turn it is, as a sentence."""
    above = decision.parent or ROOT
    if decision.used or not decision.owed:
        used = [f"{project_text(each.project or above + DIRECT)} {gpus_text(each.gpu_milli)}" for each in decision.used]
        return (
            f"past use counts in the shares of {project_text(above)}; beyond quotas, on average: {', '.join(used) or 'nothing'}"
        )
    owed = [(project_text(each.project or above + DIRECT), each.gpu_milli) for each in decision.owed if each.gpu_milli > 0]
    names = ", ".join(f"{gpus_text(milli)} to {name}" for name, milli in owed)
    kind = f"{decision.model} " if decision.model else ""
    return f"what rounding leaves over of the {kind}GPUs of {project_text(above)} goes in turn; owed: {names}"
