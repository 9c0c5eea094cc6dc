"""`bailiff.proposals`: victim selection's answers to one selection."""

from typing import ClassVar

from bailiff_core.model.answer import Answer
from bailiff_core.model.document import Count

from .base import MessageBody


class Proposal(MessageBody):
    """Answers in queue order, each on the result of the ones before, computed at the seq `computed_at`."""

    TYPE: ClassVar[str] = "bailiff.Proposal.v1"
    number: Count
    computed_at: Count
    logic: Count
    answers: tuple[Answer, ...]
