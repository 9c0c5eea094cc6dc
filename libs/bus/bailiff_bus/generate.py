"""Writes the event reference from the registries: JSON Schemas, an AsyncAPI 3.0 document, pages for people.

    python -m bailiff_bus.generate docs/events            write
    python -m bailiff_bus.generate --check docs/events    name the files that are not what they should be

Everything comes from the types, their docstrings and the topics; the output is the same on every machine.
"""

import argparse
import inspect
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from bailiff_bus.complaints import PATTERNS
from bailiff_bus.envelope import LETTER_HEADER
from bailiff_bus.messages import MESSAGE_TYPES, DeadLetter, JobSpec, RollupState
from bailiff_bus.metrics import metrics_table
from bailiff_bus.topics import TOPICS, Topic
from bailiff_core.engine import RELEASE
from bailiff_core.model.document import MAX_INTEGER, MICROSECONDS, parse_duration
from bailiff_core.records import AUDIT_TYPES

Json = dict[str, Any]

DIALECT = "https://json-schema.org/draft/2020-12/schema"
DURATION_PATTERN = rf"^\s*[0-9]+({'|'.join(MICROSECONDS)})\s*$"
LIMITS = {"ge": "minimum", "le": "maximum", "gt": "exclusiveMinimum", "lt": "exclusiveMaximum"}
TIMES = {"expires", "deadline", "retry_at", "last_heard"}
UNITS = {
    "_milli": "thousandths", "_bytes": "bytes", "_gpu_ms": "GPU-ms", "_percent": "%", "memory_used": "bytes",
    "by": "µs", "_mib_s": "MiB-seconds", "lasted_ms": "ms",
}  # fmt: skip
PLAIN_SCHEMAS: dict[str, type[BaseModel]] = {"JobSpec": JobSpec, "RollupState": RollupState}

READ_BY = {
    "bailiff.requests": ("admission",),
    "bailiff.audit": ("admission", "victim_selection", "eviction_executor", "auditor", "rollup", "client"),
    "bailiff.job-specs": ("admission",),
    "bailiff.proposals": ("admission",),
    "bailiff.eviction-progress": ("admission",),
    "bailiff.node-commands": ("node_agent",),
    "bailiff.node-reports": ("admission",),
    "bailiff.job-logs": ("client",),
    "bailiff.telemetry": ("rollup",),
    "bailiff.seals": ("auditor", "client"),
    "bailiff.rollup-state": ("rollup",),
}

HEADERS = {
    "ce_specversion": "`1.0`",
    "ce_id": "The sender's own id; with `ce_source` it names the message. A repeat has no second effect.",
    "ce_source": "Who sent it.",
    "ce_type": "The type, as listed here.",
    "ce_time": "RFC 3339, UTC. Where it is left out, the broker's append time counts.",
    "ce_domain": "The pool. Readers go by this and never by the partition.",
    "ce_subject": "What it is about, for people.",
    "ce_actor": "The person behind it, an opaque id.",
    "ce_auth": "What vouches for the actor: `none`, `acl` or `signed`. A sender's word; the log holds what was found.",
    "ce_keyid": "The public key of the signature.",
    "ce_sig": "An Ed25519 signature (see `bailiff_bus.identity` for the bytes).",
    "traceparent": "W3C trace context.",
}
AUDIT_HEADERS = {
    "ce_specversion": "`1.0`",
    "ce_id": "`domain:seq`",
    "ce_source": "`/bailiff/<domain>/<writer>`",
    "ce_type": "The type, as listed here.",
    "ce_time": "Log time, RFC 3339 with six digits; it never goes back.",
    "ce_domain": "The pool whose log this is.",
    "ce_seq": "The position: gap-free from 0.",
    "ce_epoch": "Which writer incarnation.",
    "ce_turn": "The decision turn that the record belongs to.",
    "ce_turnend": "`true` for the last record of a turn.",
    "ce_prev": "SHA-256 of the record before, in hex.",
    "ce_essential": "`true`: a reader that does not know the type must stop.",
    "ce_engine": "`release/digest/logic` of the code that decided.",
    "ce_policy": "The seq of the record that brought the policy in force.",
    "ce_cause": "A seq, or `topic/partition/offset` of the input that led to it.",
    "ce_inputs": "Next offsets that changed: `topic/partition=offset,...`",
    "ce_actor": "The person who caused it.",
    "ce_auth": "What vouched for that: `none`, `acl` or `signed`.",
}
OPTIONAL = {"ce_time", "ce_subject", "ce_actor", "ce_auth", "ce_keyid", "ce_sig", "traceparent"}
AUDIT_OPTIONAL = {"ce_cause", "ce_inputs", "ce_actor", "ce_auth"}


@dataclass(frozen=True, slots=True)
class Event:
    """One type as the reference shows it."""

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
        """What it is, from its docstring."""
        return inspect.cleandoc(self.model.__doc__ or "")


@cache
def generated() -> dict[str, str]:
    """All files by their path below the folder."""
    schemas = {event.kind: json_schema(event.kind, event.model) for event in _events()}
    files = {f"schemas/{name}.json": _json_text(schema) for name, schema in schemas.items()}
    files["asyncapi.yaml"] = _yaml_text(_asyncapi())
    files["README.md"] = _readme(schemas)
    files["metrics.md"] = _metrics_page()
    return dict(sorted(files.items()))


def write(folder: Path) -> list[str]:
    """Bring the folder up to date; returns the names of what was changed."""
    changed = stale(folder)
    files = generated()
    for name in changed:
        path = folder / name
        if name not in files:
            path.unlink()
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(files[name], encoding="utf-8", newline="\n")
    return changed


def stale(folder: Path) -> list[str]:
    """The names of files that are missing, out of date, or schemas of types that are gone."""
    files = generated()
    found = {f"schemas/{path.name}" for path in folder.glob("schemas/*.json")}
    wrong = {name for name, text in files.items() if _read(folder / name) != text.encode()}
    return sorted(wrong | (found - files.keys()))


def main(arguments: list[str] | None = None) -> int:
    """The command. 1: `--check` found stale files."""
    parser = argparse.ArgumentParser(prog="python -m bailiff_bus.generate", description="Writes the event reference.")
    parser.add_argument("folder", type=Path, metavar="DIR")
    parser.add_argument("--check", action="store_true", help="change nothing; name stale files and end with 1")
    given = parser.parse_args(arguments)
    names = stale(given.folder) if given.check else write(given.folder)
    for name in names:
        sys.stdout.write(f"{'stale' if given.check else 'written'}: {given.folder / name}\n")
    return 1 if given.check and names else 0


def _read(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None


def _topics() -> list[Topic]:
    return list(TOPICS.values())


def _events() -> Iterator[Event]:
    for topic in _topics():
        yield from _events_of(topic)


def _events_of(topic: Topic) -> Iterator[Event]:
    for name in topic.schemas:
        if name == "audit":
            yield from (Event(kind, model, topic) for kind, model in AUDIT_TYPES.items())
        elif name in MESSAGE_TYPES:
            yield Event(name, MESSAGE_TYPES[name], topic)
        elif name in PLAIN_SCHEMAS:
            yield Event(name, PLAIN_SCHEMAS[name], topic)
        elif name != "text":
            raise ValueError(f"{topic.name}: no type is called {name}")


# --- JSON Schemas


class Schemas(GenerateJsonSchema):
    """pydantic's schemas, and what a duration may be written as."""

    def function_before_schema(self, schema: core_schema.BeforeValidatorFunctionSchema) -> JsonSchemaValue:
        """A duration is microseconds or a text such as 30s."""
        inner = super().function_before_schema(schema)
        if schema["function"]["function"] is not parse_duration:
            return inner
        return {"anyOf": [inner, {"type": "string", "pattern": DURATION_PATTERN}]}


def json_schema(name: str, model: type[BaseModel], kind: type[Schemas] = Schemas, *, written: bool = False) -> Json:
    """The model's JSON Schema under the name; `written`: of what the model writes, not of what it reads."""
    schema = model.model_json_schema(schema_generator=kind, mode="serialization" if written else "validation")
    schema.pop("title", None)
    schema["description"] = inspect.cleandoc(model.__doc__ or "")
    head = {"$schema": DIALECT, "$id": f"urn:bailiff:{name}", "title": name}
    tidied = _tidied(schema, is_properties=False)
    assert isinstance(tidied, dict)
    return head | tidied


def _tidied(value: object, *, is_properties: bool) -> object:
    """Without pydantic's titles, and with limits under the names that JSON Schema has for them."""
    if isinstance(value, list):
        return [_tidied(item, is_properties=False) for item in value]
    if not isinstance(value, dict):
        return value
    if is_properties:  # here the keys are names of fields, whatever they look like
        return {name: _tidied(item, is_properties=False) for name, item in value.items()}
    found: Json = {}
    limits = {LIMITS[key]: limit for key, limit in value.items() if key in LIMITS}
    for key, item in value.items():
        if key == "default":
            found[key] = item
        elif key != "title" and key not in LIMITS:
            found[key] = _tidied(item, is_properties=key in {"properties", "$defs"})
    if "anyOf" in found:  # limits belong to the number among the choices
        choices = [choice for option in found["anyOf"] for choice in option.get("anyOf", [option])]
        found["anyOf"] = [choice | (limits if choice.get("type") == "integer" else {}) for choice in choices]
    else:
        found |= limits
    if found.get("type") == "integer":  # the type first, then from where to where
        bounds = {name: found.pop(name) for name in ("minimum", "maximum") if name in found}
        found |= {"type": found.pop("type")} | {"minimum": -MAX_INTEGER, "maximum": MAX_INTEGER} | bounds
    return found


# --- AsyncAPI


def _asyncapi() -> Json:
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "Bailiff",
            "version": RELEASE,
            "description": "The topics of Bailiff and what travels on them. Generated; see README.md beside this file.",
        },
        "defaultContentType": "application/json",
        "channels": {_short(topic): _channel(topic) for topic in _topics()},
        "operations": dict(_operations()),
        "components": {
            "messages": {event.key: _message(event) for event in _events()} | {"text": _text_message()},
            "schemas": {
                "AuditHeaders": _headers_schema(AUDIT_HEADERS, AUDIT_OPTIONAL),
                "MessageHeaders": _headers_schema(HEADERS, OPTIONAL),
                "DeadLetterHeaders": _headers_schema(
                    {**HEADERS, LETTER_HEADER: "The letter itself, as JSON: schemas/bailiff.DeadLetter.v1.json."},
                    OPTIONAL,
                ),
            },
        },
    }


def _short(topic: Topic) -> str:
    return topic.name.removeprefix("bailiff.")


def _message_keys(topic: Topic) -> list[str]:
    return [event.key for event in _events_of(topic)] + (["text"] if "text" in topic.schemas else [])


def _channel(topic: Topic) -> Json:
    settings = topic.settings_with(brokers=3)
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
        "description": f"Key: {topic.key}. Partitions: {topic.partitions}. Kept: {_kept(topic)}.",
        "messages": {key: {"$ref": f"#/components/messages/{key}"} for key in _message_keys(topic)},
        "bindings": {"kafka": binding},
    }


def _operations() -> Iterator[tuple[str, Json]]:
    for topic in _topics():
        for action, services in (("send", topic.written_by), ("receive", READ_BY.get(topic.name, ()))):
            for service in services:
                yield (
                    f"{service}_{action}s_{_short(topic)}",
                    {
                        "action": action,
                        "channel": {"$ref": f"#/channels/{_short(topic)}"},
                        "summary": f"{service} {'writes to' if action == 'send' else 'reads'} {topic.name}.",
                        "tags": [{"name": service}],
                        "messages": [{"$ref": f"#/channels/{_short(topic)}/messages/{key}"} for key in _message_keys(topic)],
                    },
                )


def _message(event: Event) -> Json:
    about: Json = {"name": event.kind, "title": event.name, "summary": event.text.partition("\n\n")[0]}
    if event.model is DeadLetter:
        return about | {
            "contentType": "application/octet-stream",
            "headers": {"$ref": "#/components/schemas/DeadLetterHeaders"},
            "payload": {"description": "The bytes that were refused, as they came."},
        }
    if event.kind not in PLAIN_SCHEMAS:
        headers = "AuditHeaders" if event.kind in AUDIT_TYPES else "MessageHeaders"
        about["headers"] = {"$ref": f"#/components/schemas/{headers}"}
    return about | {
        "contentType": "application/json",
        "payload": {"$ref": f"./schemas/{event.kind}.json"},
    }


def _text_message() -> Json:
    return {"name": "text", "title": "Text", "contentType": "text/plain", "payload": {"type": "string"}}


def _headers_schema(headers: dict[str, str], optional: set[str]) -> Json:
    return {
        "type": "object",
        "properties": {name: {"type": "string", "description": text} for name, text in headers.items()},
        "required": [name for name in headers if name not in optional],
    }


# --- pages

INTRO = """\
# Events

Generated by `python -m bailiff_bus.generate docs/events` from the code; do not edit. Beside this page stand a JSON
Schema per type (`schemas/`), the same as an AsyncAPI 3.0 document (`asyncapi.yaml`), and the [metrics](metrics.md).

Messages are CloudEvents 1.0 in Kafka's binary mode: attributes in `ce_*` headers, JSON in the value. Structured mode
(`content-type: application/cloudevents+json`) is read everywhere but on the audit log. Numbers are whole numbers within
±(2^53 - 1). Times and durations are microseconds; where a duration comes from outside it may be written `30s`, `500ms`,
`5m`, `1h`, `7d`. A field that is left out has its default. Fields are only ever added; unknown ones are ignored.
"""


def _readme(schemas: dict[str, Json]) -> str:
    parts = [INTRO, "## Topics\n", _topic_table(), "## Headers of messages\n", _header_table(HEADERS, OPTIONAL)]
    parts += ["## Headers of audit records\n", _header_table(AUDIT_HEADERS, AUDIT_OPTIONAL)]
    for topic in _topics():
        parts.append(f"## {topic.name}\n")
        parts.append(_topic_text(topic))
        parts += [_event_text(event, schemas[event.kind]) for event in _events_of(topic)]
    parts.append("## Objects inside\n")
    parts += _object_texts(schemas)
    return "\n".join(parts)


def _topic_table() -> str:
    rows = [
        f"| [`{topic.name}`](#{_anchor(topic.name)}) | {topic.key} | {', '.join(topic.written_by)} "
        f"| {', '.join(READ_BY.get(topic.name, ())) or 'whoever wants'} | {topic.partitions} | {_kept(topic)} |"
        for topic in _topics()
    ]
    return _table("| topic | key | written by | read by | partitions | kept |", rows)


def _header_table(headers: dict[str, str], optional: set[str]) -> str:
    rows = [f"| `{name}` | {'no' if name in optional else 'yes'} | {text} |" for name, text in headers.items()]
    return _table("| header | always there | what it says |", rows)


def _topic_text(topic: Topic) -> str:
    text = f"Written by {', '.join(topic.written_by)}; read by {', '.join(READ_BY.get(topic.name, ())) or 'operators'}."
    events = list(_events_of(topic))
    if not events:
        return f"{text} Plain text, one message per piece of a job's output.\n"
    rows = [f"| [{event.name}](#{_anchor(event.kind)}) | {_one_line(event.text)} |" for event in events]
    return f"{text}\n\n{_table('| type | what it is |', rows)}"


def _event_text(event: Event, schema: Json) -> str:
    facts = [f"Written by {', '.join(event.topic.written_by)}"]
    if record := AUDIT_TYPES.get(event.kind):
        facts.append(f"a {record.KIND}")
        facts.append("essential: the fold needs it" if record.ESSENTIAL else "not essential")
    lines = [f"### {event.kind}\n", f"{event.text}\n", f"{'; '.join(facts)}. [Schema](schemas/{event.kind}.json).\n"]
    return "\n".join([*lines, _field_table(schema)])


def _object_texts(schemas: dict[str, Json]) -> list[str]:
    objects: dict[str, Json] = {}
    for schema in schemas.values():
        for name, definition in schema.get("$defs", {}).items():
            if objects.setdefault(name, definition) != definition:
                raise ValueError(f"two objects are called {name}")
    return [f"### {name}\n\n{objects[name].get('description', '')}\n\n{_field_table(objects[name])}" for name in sorted(objects)]


def _field_table(schema: Json) -> str:
    required = schema.get("required", [])
    rows = [
        f"| `{name}` | {_type_text(field)} | {_unit(name, field)} | {'required' if name in required else _default_text(field)} |"
        for name, field in schema.get("properties", {}).items()
    ]
    return _table("| field | type | unit | default |", rows) if rows else "No fields.\n"


def _type_text(field: Json) -> str:
    if "$ref" in field:
        name = field["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in field:
        texts = [_type_text(option) for option in field["anyOf"] if option.get("pattern") != DURATION_PATTERN]
        return " or ".join(dict.fromkeys(texts))
    if "const" in field:
        return f"`{field['const']}`"
    if "enum" in field:
        return ", ".join(f"`{value}`" for value in field["enum"])
    kind = field.get("type")
    if kind == "integer":
        return f"whole number{_range_text(field)}"
    if kind == "array":
        return f"list of {_type_text(field['items'])}{_size_text(field, 'Items')}"
    if kind == "object":
        return f"map of text to {_type_text(field['additionalProperties'])}{_size_text(field, 'Properties')}"
    if kind == "string":
        return _string_text(field)
    return {"boolean": "true or false", "null": "null"}.get(str(kind), "anything")


def _string_text(field: Json) -> str:
    pattern = field.get("pattern")
    if pattern is None:
        return f"text{_size_text(field, 'Length')}"
    return {"64 hexadecimal digits": "SHA-256 in hex"}.get(PATTERNS.get(pattern, ""), "name")


def _range_text(field: Json) -> str:
    low, high = field["minimum"], field["maximum"]
    if low == -MAX_INTEGER:
        return ""
    return f" ≥ {low}" if high == MAX_INTEGER else f" {low} to {high}"


def _size_text(field: Json, what: str) -> str:
    low, high = field.get(f"min{what}"), field.get(f"max{what}")
    parts = [f"at least {low}"] if low else []
    parts += [f"at most {high}"] if high is not None else []
    noun = {"Length": " characters", "Items": "", "Properties": ""}[what]
    return f" ({', '.join(parts)}{noun})" if parts else ""


def _unit(name: str, field: Json) -> str:
    if any(option.get("pattern") == DURATION_PATTERN for option in _options(field)):
        return "µs"
    if not any(option.get("type") == "integer" for option in _options(field)):
        return ""
    if name in TIMES:
        return "µs UTC"
    return next((unit for ending, unit in UNITS.items() if name == ending or name.endswith("_" + ending.strip("_"))), "")


def _options(field: Json) -> Iterator[Json]:
    yield field
    for option in field.get("anyOf", []):
        yield from _options(option)
    if "items" in field:
        yield from _options(field["items"])


def _default_text(field: Json) -> str:
    if "default" not in field or field["default"] in ({}, []):
        return "empty"
    text = json.dumps(field["default"], ensure_ascii=False)
    return f"`{text}`" if len(text) <= 60 else "its defaults"


def _metrics_page() -> str:
    return (
        "# Metrics\n\nGenerated by `python -m bailiff_bus.generate docs/events`; do not edit.\n"
        "Every service serves these at `/metrics`; what does not concern it stays absent.\n\n" + metrics_table()
    )


def _kept(topic: Topic) -> str:
    if topic.settings.get("cleanup.policy") == "compact":
        return "compacted"
    return "for ever" if topic.retention is None else f"{topic.retention.days} d"


def _table(head: str, rows: list[str]) -> str:
    return "\n".join([head, "|" + "---|" * (head.count("|") - 1), *rows, ""])


def _one_line(text: str) -> str:
    return " ".join(text.partition("\n\n")[0].split()).replace("|", "\\|")


def _anchor(heading: str) -> str:
    return heading.lower().replace(".", "")


def _json_text(value: Json) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2) + "\n"


class _Plain(yaml.SafeDumper):
    """YAML without anchors: people read this."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002
        """Write equal parts out each time."""
        return True


def _yaml_text(value: Json) -> str:
    return yaml.dump(value, Dumper=_Plain, sort_keys=False, allow_unicode=True, width=110)


if __name__ == "__main__":
    sys.exit(main())
