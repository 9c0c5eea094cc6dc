"""`bailiff.proposals`: victim selection's proposals for one selection."""

from typing import ClassVar

from bailiff_core.model.document import Count
from bailiff_core.model.proposal import Proposal

from .base import MessageBody


class ProposalBatch(MessageBody):
    """One proposal per request in queue order, each based on the ones before. computed_at: seq of the state used."""

    TYPE: ClassVar[str] = "bailiff.ProposalBatch.v1"
    selection: Count
    computed_at: Count
    logic: Count
    proposals: tuple[Proposal, ...]
