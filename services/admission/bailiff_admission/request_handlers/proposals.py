"""`bailiff.proposals`: proposals of victim selection."""

from bailiff_bus.messages.proposals import ProposalBatch
from bailiff_core.admission.rejected import Rejected
from bailiff_core.engine import LOGIC
from bailiff_core.model.state import PoolState
from bailiff_core.records.facts import ProposalReceived
from bailiff_core.records.payload import Fact

from .proposal_checks import invalid_batch


def facts_of_proposal(state: PoolState, proposal: ProposalBatch) -> list[Fact] | Rejected:
    """The fact for the open selection; none for an earlier selection."""
    if proposal.logic != LOGIC:
        return Rejected(
            "logic-mismatch", f"the proposal was computed by logic {proposal.logic}, this log is written by logic {LOGIC}"
        )
    if state.selection is None or proposal.selection != state.selection.number or state.proposals is not None:
        return []
    if proposal.computed_at > state.seq:
        return Rejected("ahead-of-log", f"computed at #{proposal.computed_at}, but the log ends at #{state.seq}")
    problem = invalid_batch(state.selection, proposal)
    if problem is not None:
        return Rejected("invalid-proposal", problem)
    return [ProposalReceived.saying(proposal)]
