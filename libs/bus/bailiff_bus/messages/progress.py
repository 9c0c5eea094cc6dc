"""`bailiff.eviction-progress`: evictions that the executor starts, preemptions that it abandons."""

from typing import Annotated, ClassVar

from pydantic import Field

from bailiff_core.model.document import Count, Name

from .base import MessageBody


class StartEviction(MessageBody):
    """Start this job's eviction, which was decided at seq `decided_by`. Sent after checking that it is still needed."""

    TYPE: ClassVar[str] = "bailiff.StartEviction.v1"
    job: Name
    attempt: Count
    decided_by: Count


class AbandonPreemption(MessageBody):
    """The preemption is no longer needed: no task is evicted."""

    TYPE: ClassVar[str] = "bailiff.AbandonPreemption.v1"
    preemption: Count
    reason: Annotated[str, Field(max_length=1000)]
