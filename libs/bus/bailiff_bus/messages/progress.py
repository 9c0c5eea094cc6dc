"""`bailiff.eviction-progress`: evictions that the executor starts, preemptions that it abandons."""

from typing import Annotated

from pydantic import Field

from bailiff_core.model.document import Count, Name
from bailiff_core.model.message import MessageBody


class StartEviction(MessageBody):
    """Start this job's eviction, which was decided at seq `decided_by`. Sent after checking that it is still needed."""

    job: Name
    attempt: Count
    decided_by: Count


class AbandonPreemption(MessageBody):
    """The preemption is no longer needed: no task is evicted."""

    preemption: Count
    reason: Annotated[str, Field(max_length=1000)]
