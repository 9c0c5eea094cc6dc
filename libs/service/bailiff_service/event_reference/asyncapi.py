"""Generates the AsyncAPI 3.0 document of all topics and messages."""

from collections.abc import Iterator

from bailiff_bus.envelope import DEAD_LETTER_HEADER
from bailiff_bus.messages.dead_letters import DeadLetter
from bailiff_bus.topics import Topic
from bailiff_core.engine import RELEASE
from bailiff_core.records import AUDIT_TYPES

from .events import PLAIN_SCHEMAS, Event, events, events_of, read_by, retention_text, topics, written_by
from .headers import AUDIT_HEADERS, AUDIT_OPTIONAL, HEADERS, OPTIONAL
from .schemas import Json


def asyncapi() -> Json:
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "Bailiff",
            "version": RELEASE,
            "description": "The topics of Bailiff and their messages. Generated; see README.md in this folder.",
        },
        "defaultContentType": "application/json",
        "channels": {short(topic): _channel(topic) for topic in topics()},
        "operations": dict(_operations()),
        "components": {
            "messages": {event.key: _message(event) for event in events()} | {"text": _text_message()},
            "schemas": {
                "AuditHeaders": _headers_schema(AUDIT_HEADERS, AUDIT_OPTIONAL),
                "MessageHeaders": _headers_schema(HEADERS, OPTIONAL),
                "DeadLetterHeaders": _headers_schema(
                    {**HEADERS, DEAD_LETTER_HEADER: "The `DeadLetter` as JSON: schemas/bailiff.DeadLetter.v1.json."}, OPTIONAL
                ),
            },
        },
    }


def short(topic: Topic) -> str:
    return topic.name.removeprefix("bailiff.")


def message_keys(topic: Topic) -> list[str]:
    return [event.key for event in events_of(topic)] + (["text"] if "text" in topic.schemas else [])


def _channel(topic: Topic) -> Json:
    settings = topic.settings_for(brokers=3)
    binding: Json = {"topic": topic.name}
    if isinstance(topic.partitions, int):
        binding["partitions"] = topic.partitions
    binding["topicConfiguration"] = {
        "cleanup.policy": [settings["cleanup.policy"]],
        "retention.ms": int(settings["retention.ms"]),
        "max.message.bytes": int(settings["max.message.bytes"]),
    }
    binding["bindingVersion"] = "0.5.0"
    return {
        "address": topic.name,
        "description": f"Key: {topic.key}. Partitions: {topic.partitions}. Retention: {retention_text(topic)}.",
        "messages": {key: {"$ref": f"#/components/messages/{key}"} for key in message_keys(topic)},
        "bindings": {"kafka": binding},
    }


def _operations() -> Iterator[tuple[str, Json]]:
    for topic in topics():
        for action, services in (("send", written_by(topic)), ("receive", read_by(topic))):
            for service in services:
                yield (
                    f"{service}_{action}s_{short(topic)}",
                    {
                        "action": action,
                        "channel": {"$ref": f"#/channels/{short(topic)}"},
                        "summary": f"{service} {'writes to' if action == 'send' else 'reads'} {topic.name}.",
                        "tags": [{"name": service}],
                        "messages": [{"$ref": f"#/channels/{short(topic)}/messages/{key}"} for key in message_keys(topic)],
                    },
                )


def _message(event: Event) -> Json:
    summary: Json = {"name": event.kind, "title": event.name, "summary": event.text.partition("\n\n")[0]}
    if event.model is DeadLetter:
        return summary | {
            "contentType": "application/octet-stream",
            "headers": {"$ref": "#/components/schemas/DeadLetterHeaders"},
            "payload": {"description": "The original bytes of the rejected message."},
        }
    if event.kind not in PLAIN_SCHEMAS:
        headers = "AuditHeaders" if event.kind in AUDIT_TYPES else "MessageHeaders"
        summary["headers"] = {"$ref": f"#/components/schemas/{headers}"}
    return summary | {"contentType": "application/json", "payload": {"$ref": f"./schemas/{event.kind}.json"}}


def _text_message() -> Json:
    return {"name": "text", "title": "Text", "contentType": "text/plain", "payload": {"type": "string"}}


def _headers_schema(headers: dict[str, str], optional: set[str]) -> Json:
    return {
        "type": "object",
        "properties": {name: {"type": "string", "description": text} for name, text in headers.items()},
        "required": [name for name in headers if name not in optional],
    }
