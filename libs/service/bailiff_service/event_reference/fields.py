"""Renders the fields of a JSON Schema as Markdown tables."""

import json
from collections.abc import Iterator

from bailiff_bus.validation_errors import PATTERNS
from bailiff_core.model.document import MAX_INTEGER, MIG_PATTERN

from .schemas import DURATION_PATTERN, Json

TIMES = {"expires", "deadline", "retry_at", "last_contact"}
UNITS = {
    "_milli": "thousandths",
    "_bytes": "bytes",
    "_gpu_ms": "GPU-ms",
    "_percent": "%",
    "memory_used": "bytes",
    "by": "µs",
    "_mib_s": "MiB-seconds",
    "interval_ms": "ms",
}


def field_table(schema: Json) -> str:
    required = schema.get("required", [])
    rows = [
        f"| `{name}` | {_type_text(field)} | {_unit(name, field)} | {'required' if name in required else _default_text(field)} "
        f"| {field.get('description', '').replace('|', '&#124;')} |"
        for name, field in schema.get("properties", {}).items()
    ]
    return table("| field | type | unit | default | meaning |", rows) if rows else "No fields.\n"


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
        values = field.get("additionalProperties") or next(iter(field["patternProperties"].values()))
        return f"map of text to {_type_text(values)}{_size_text(field, 'Properties')}"
    if kind == "string":
        return _string_text(field)
    return {"boolean": "true or false", "null": "null"}.get(str(kind), "anything")


def _string_text(field: Json) -> str:
    pattern = field.get("pattern")
    if pattern is None:
        return f"text{_size_text(field, 'Length')}"
    texts = {"64 hexadecimal digits": "SHA-256 in hex", PATTERNS[MIG_PATTERN]: "MIG profile"}
    return texts.get(PATTERNS.get(pattern, ""), "name")


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


def table(head: str, rows: list[str]) -> str:
    return "\n".join([head, "|" + "---|" * (head.count("|") - 1), *rows, ""])
