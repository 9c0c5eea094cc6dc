"""`bailiff.proposals`: victim selection's proposals for one selection."""

from bailiff_core.model.document import Count
from bailiff_core.model.message import MessageBody
from bailiff_core.model.proposal import Proposal


class ProposalBatch(MessageBody):
    """One proposal per request in queue order, each based on the ones before. computed_at: seq of the state used."""

    selection: Count
    computed_at: Count
    logic: Count
    proposals: tuple[Proposal, ...]
