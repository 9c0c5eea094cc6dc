"""Moves what docstrings say about fields to these fields in a JSON Schema."""

from typing import Any

SECTION = "\n\nAttributes:\n"


def describe_fields(schema: Any) -> None:
    """Moves the `Attributes:` section of each object's description to its properties."""
    if isinstance(schema, list):
        for item in schema:
            describe_fields(item)
    elif isinstance(schema, dict):
        for item in schema.values():
            describe_fields(item)
        text = schema.get("description")
        if isinstance(text, str) and SECTION in text:
            schema["description"], _, section = text.partition(SECTION)
            for name, meaning in _meanings(section):
                if name in schema.get("properties", {}):
                    schema["properties"][name].setdefault("description", meaning)


def _meanings(section: str) -> list[tuple[str, str]]:
    entries: list[str] = []
    for line in section.splitlines():
        if line.startswith("     "):
            entries[-1] += f" {line.strip()}"
        else:
            entries.append(line.strip())
    return [(name, text) for names, _, text in (entry.partition(": ") for entry in entries) for name in names.split(", ")]
