"""The turns by which siblings have what rounding leaves over of GPUs."""

from bailiff_core.humanize import gpus_text
from bailiff_core.model.project_tree import DIRECT, ROOT, project_text
from bailiff_core.model.state import Job, PoolState
from bailiff_core.records.decisions import ShareTurnBegan

NAME = "share-turn"
TURN = 3600 * 1_000_000  # µs


def due(state: PoolState, job: Job) -> int | None:
    """When a pending job of a pool with projects has waited for the time of a turn, µs."""
    return job.queued_since + TURN if job.phase == "pending" and state.rules.projects else None


def text(decision: ShareTurnBegan) -> str:
    """Whose turn it is, as a sentence."""
    above = decision.parent or ROOT
    owed = [(project_text(each.project or above + DIRECT), each.gpu_milli) for each in decision.owed if each.gpu_milli > 0]
    names = ", ".join(f"{gpus_text(milli)} to {name}" for name, milli in owed)
    return f"what rounding leaves over of the GPUs of {project_text(above)} goes in turn; owed: {names}"
