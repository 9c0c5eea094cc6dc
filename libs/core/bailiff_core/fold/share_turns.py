"""Whose turn it is to have what rounding leaves over of GPUs."""

from bailiff_core.model.project_tree import DIRECT, ROOT
from bailiff_core.model.share_turn import turn_of
from bailiff_core.model.state import PoolState, ShareTurn
from bailiff_core.records import decisions

from .registry import folds


@folds(decisions.ShareTurnBegan)
def share_turn_began(state: PoolState, decision: decisions.ShareTurnBegan) -> None:
    """The projects divide by what they are owed and used now. The dict is a new one: `Usage` divides again by that."""
    parent, key = decision.parent or ROOT, turn_of(decision.parent or ROOT, decision.model)
    owed, used = (
        {entry.project or parent + DIRECT: entry.gpu_milli for entry in entries} for entries in (decision.owed, decision.used)
    )
    state.share_turns = {**state.share_turns, key: ShareTurn(state.now, owed, used)}
