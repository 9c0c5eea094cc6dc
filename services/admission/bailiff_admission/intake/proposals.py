"""`bailiff.proposals`: victim selection's answers."""

from bailiff_bus.messages import Proposal
from bailiff_core.engine import LOGIC
from bailiff_core.model.pool import Pool
from bailiff_core.records.facts import ProposalReceived
from bailiff_core.records.payload import Fact

from .rejected import Rejected


def facts_of_proposal(pool: Pool, proposal: Proposal) -> list[Fact] | Rejected:
    """The proposal for the selection that is out. One for an earlier selection came too late and means nothing."""
    if proposal.logic != LOGIC:
        return Rejected("other-logic", f"the proposal was computed by logic {proposal.logic}, this log is written by {LOGIC}")
    if pool.selection is None or proposal.number != pool.selection.number or pool.answers is not None:
        return []
    if proposal.computed_at > pool.seq:
        return Rejected("from-the-future", f"computed at #{proposal.computed_at}, but the log ends at #{pool.seq}")
    return [
        ProposalReceived(number=proposal.number, computed_at=proposal.computed_at, logic=proposal.logic, answers=proposal.answers)
    ]
