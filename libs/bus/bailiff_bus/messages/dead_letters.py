"""`bailiff.dead-letters` and `bailiff.alarms`."""

from typing import Annotated, Literal

from pydantic import Field

from bailiff_core.model.document import Count
from bailiff_core.model.message import MessageBody


class DeadLetter(MessageBody):
    """A rejected input: its position and the reason. The original bytes are the Kafka value; this document is in a header."""

    topic: str
    partition: Count
    offset: Count
    code: str
    reason: Annotated[str, Field(max_length=2000)]


class Alarm(MessageBody):
    """A condition that an operator should check. about: whom it concerns, where alarms of a kind are about several."""

    severity: Literal["warning", "critical"]
    code: str
    text: Annotated[str, Field(max_length=4000)]
    seq: Count | None = None
    about: Annotated[str, Field(max_length=300)] = ""
