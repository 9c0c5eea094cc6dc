"""`bailiff.telemetry`: what agents measure on the GPUs that tasks hold. No decision reads it."""

from typing import Annotated, ClassVar

from pydantic import Field

from bailiff_core.model.document import Count, Document, Integer, Name

from .base import MessageBody


class DeviceTelemetry(Document):
    """One GPU that tasks hold. jobs: of those tasks, once for each. busy_percent: left out where nobody can tell."""

    device: str
    jobs: Annotated[tuple[Name, ...], Field(min_length=1)]
    busy_percent: Annotated[Integer, Field(ge=0, le=100)] | None = None
    memory_used: Count
    memory_bytes: Count


class NodeTelemetry(MessageBody):
    """A look at the GPUs of a node, which stands for the `interval_ms` until then. Best effort: what is lost is not sent
    again.
    """

    TYPE: ClassVar[str] = "bailiff.NodeTelemetry.v1"
    node: Name
    interval_ms: Count
    devices: tuple[DeviceTelemetry, ...]
