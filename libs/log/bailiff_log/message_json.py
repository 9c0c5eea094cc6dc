"""Converts messages of the log to JSON and back without loss, for exported files and the HTTP API."""

import base64
from functools import lru_cache
from typing import Any

from bailiff_bus.port import Headers, Message
from bailiff_bus.topics import AUDIT

Text = str | dict[str, str]


def message_to_json(offset: int, time: int, headers: Headers, value: bytes) -> dict[str, Any]:
    """Offset, append time, headers as [name, text] pairs, value. Bytes that are not UTF-8 become `{"base64": …}`."""
    return {
        "offset": offset,
        "time": time,
        "headers": [[name, _to_json(text)] for name, text in headers],
        "value": _to_json(value),
    }


def message_from_json(line: dict[str, Any], partition: int) -> Message:
    """The message of this JSON object. Raises `KeyError`, `TypeError` or `ValueError` if it is not one."""
    headers = tuple(
        [(_name(name), text.encode() if isinstance(text, str) else _from_json(text)) for name, text in line["headers"]]
    )
    value = _from_json(line["value"])
    return Message(AUDIT.name, partition, int(line["offset"]), int(line["time"]), None, headers, value)


@lru_cache(maxsize=64)  # records have few names
def _name(text: Any) -> str:
    return str(text).encode().decode()  # raises for an unpaired surrogate, which JSON can encode


def _to_json(raw: bytes) -> Text:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(raw).decode()}


def _from_json(text: Text) -> bytes:
    return text.encode() if isinstance(text, str) else base64.b64decode(text["base64"], validate=True)
