"""All message and record types by topic, with the services that read them, for the reference."""

import inspect
from collections.abc import Iterator
from dataclasses import dataclass

from pydantic import BaseModel

from bailiff_bus.grants import readers, writers
from bailiff_bus.messages.rollups import RollupState
from bailiff_bus.topics import TOPICS, Topic
from bailiff_core.model.job_spec import JobSpec
from bailiff_core.model.message import MESSAGE_TYPES
from bailiff_core.records import AUDIT_TYPES
from bailiff_service.field_descriptions import SECTION

PLAIN_SCHEMAS: dict[str, type[BaseModel]] = {"JobSpec": JobSpec, "RollupState": RollupState}


def read_by(topic: Topic) -> tuple[str, ...]:
    """Who may read the topic."""
    return tuple(role.replace("-", "_") for role in readers(topic))


def written_by(topic: Topic) -> tuple[str, ...]:
    """Who may write the topic."""
    return tuple(role.replace("-", "_") for role in writers(topic))


@dataclass(frozen=True, slots=True)
class Event:
    """One message or record type on a topic."""

    kind: str
    model: type[BaseModel]
    topic: Topic

    @property
    def name(self) -> str:
        """The type without its prefix and version: `JobPlaced`."""
        parts = self.kind.split(".")
        return parts[-2] if len(parts) > 1 else self.kind

    @property
    def key(self) -> str:
        """Unique among all types; requests and records may share a name."""
        return self.kind.replace(".", "_")

    @property
    def text(self) -> str:
        """The type's description: its docstring, without the fields."""
        return inspect.cleandoc(self.model.__doc__ or "").partition(SECTION)[0]


def topics() -> list[Topic]:
    return list(TOPICS.values())


def events() -> Iterator[Event]:
    for topic in topics():
        yield from events_of(topic)


def events_of(topic: Topic) -> Iterator[Event]:
    for name in topic.schemas:
        if name == "audit":
            yield from (Event(kind, model, topic) for kind, model in AUDIT_TYPES.items())
        elif name in MESSAGE_TYPES:
            yield Event(name, MESSAGE_TYPES[name], topic)
        elif name in PLAIN_SCHEMAS:
            yield Event(name, PLAIN_SCHEMAS[name], topic)
        elif name != "text":
            raise ValueError(f"{topic.name}: unknown type {name}")


def retention_text(topic: Topic) -> str:
    if topic.settings.get("cleanup.policy") == "compact":
        return "compacted"
    return "unlimited" if topic.retention is None else f"{topic.retention.days} d"
