"""Logs as JSON Lines: one record per line, its headers in order and its value, as text where they are UTF-8."""

import base64
import json
from collections.abc import Iterable
from typing import Any

from bailiff_core.records import Wire


def to_lines(wires: Iterable[Wire]) -> str:
    """The text of the file."""
    lines = []
    for wire in wires:
        headers = [[name, *_text(value)] for name, value in wire.headers]
        lines.append(json.dumps({"headers": headers, "value": _text(wire.value)}, ensure_ascii=False, separators=(",", ":")))
    return "".join(f"{line}\n" for line in lines)


def from_lines(text: str) -> list[Wire]:
    """The records, byte for byte."""
    found = []
    for line in text.splitlines():
        entry = json.loads(line)
        headers = tuple((name, _bytes(value)) for name, *value in entry["headers"])
        found.append(Wire(headers, _bytes(entry["value"])))
    return found


def _text(value: bytes) -> list[str]:
    try:
        return [value.decode()]
    except UnicodeDecodeError:
        return ["base64", base64.b64encode(value).decode()]


def _bytes(parts: list[Any]) -> bytes:
    return base64.b64decode(parts[1]) if len(parts) > 1 else str(parts[0]).encode()
