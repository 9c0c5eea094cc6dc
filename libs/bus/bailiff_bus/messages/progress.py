"""`bailiff.eviction-progress`: what the executor is about to do, or will not do."""

from typing import Annotated, ClassVar

from pydantic import Field

from bailiff_core.model.document import Count, Name

from .base import MessageBody


class BegunEviction(MessageBody):
    """After a last look: tell the agents of this job's eviction, which the record `decided` decided."""

    TYPE: ClassVar[str] = "bailiff.BegunEviction.v1"
    job: Name
    attempt: Count
    decided: Count


class GivenUpPlan(MessageBody):
    """After a last look: nobody needs to leave."""

    TYPE: ClassVar[str] = "bailiff.GivenUpPlan.v1"
    plan: Count
    reason: Annotated[str, Field(max_length=1000)]
