"""`bailiff.dead-letters` and `bailiff.alarms`."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from bailiff_core.model.document import Count

from .base import MessageBody


class DeadLetter(MessageBody):
    """A rejected input: its position and the reason. The original bytes are the Kafka value; this document is in a header."""

    TYPE: ClassVar[str] = "bailiff.DeadLetter.v1"
    topic: str
    partition: Count
    offset: Count
    code: str
    reason: Annotated[str, Field(max_length=2000)]


class Alarm(MessageBody):
    """A condition that an operator should check."""

    TYPE: ClassVar[str] = "bailiff.Alarm.v1"
    severity: Literal["warning", "critical"]
    code: str
    text: Annotated[str, Field(max_length=4000)]
    seq: Count | None = None
