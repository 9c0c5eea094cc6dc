"""`bailiff.telemetry`: utilisation and memory of allocated GPUs, as measured by agents. Not used for decisions."""

from typing import Annotated

from pydantic import Field

from bailiff_core.model.document import Count, Document, Integer, Name
from bailiff_core.model.message import MessageBody


class DeviceTelemetry(Document):
    """One allocated GPU. jobs: the distinct jobs that it is allocated to. busy_percent: left out if it cannot be measured."""

    device: str
    jobs: Annotated[tuple[Name, ...], Field(min_length=1)]
    busy_percent: Annotated[Integer, Field(ge=0, le=100)] | None = None
    memory_used: Count
    memory_bytes: Count


class NodeTelemetry(MessageBody):
    """Measurements of a node's GPUs for the last `interval_ms`. Best effort: lost messages are not repeated."""

    node: Name
    interval_ms: Count
    devices: tuple[DeviceTelemetry, ...]
