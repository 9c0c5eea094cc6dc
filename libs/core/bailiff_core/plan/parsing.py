"""Parses amounts and times of snapshot files into integers (µs, bytes, thousandths).

A whole number without a unit is in the internal unit: microseconds for times, bytes for memory.
"""

import re
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, ValidationInfo, WithJsonSchema

from bailiff_core.model.amounts import cores, found_text, gpu_fraction, thousandths
from bailiff_core.model.document import Count, Document, Integer, parse_bytes_with_unit, parse_duration, parse_grace

DEFAULT_NOW = 1_767_225_600_000_000  # 2026-01-01 00:00 UTC
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MOMENTS = "microseconds, a time such as 2026-01-31T12:00:00Z, `now`, `30m ago`, or a duration after time 0 such as 900s"


def parse_gpus(value: Any) -> Any:
    """Thousandths of a GPU: whole GPUs, or a fraction of one from 0.1 on."""
    found = thousandths(value, wanted := "whole GPUs such as 4, or a fraction of one from 0.1 to 1")
    if found % 1000 and not 100 <= found < 1000:
        raise ValueError(f"expected {wanted}, found {found_text(value)}")
    return found


class Portion(Document):
    """A share of each of `devices` GPUs, in thousandths or bytes."""

    amount: Integer
    devices: int | None = None


def parse_fraction(value: Any) -> Any:
    """`0.5`, or `0.5 x 2`: half of each of two GPUs."""
    text, devices = _split_device_count(value)
    wanted = "a fraction of a GPU from 0.1 to 1, or of several, as in 0.5 x 2"
    return {"amount": gpu_fraction(text, wanted), "devices": devices}


def parse_gpu_memory(value: Any) -> Any:
    """`4GiB`, or `4GiB x 2`: that much of each of two GPUs."""
    text, devices = _split_device_count(value)
    wanted = "memory of a GPU such as 4GiB, or of several, as in 4GiB x 2"
    try:
        amount = parse_bytes_with_unit(text)
    except ValueError as error:
        raise ValueError(f"expected {wanted}; {error}") from None
    if isinstance(amount, bool) or not isinstance(amount, int) or amount < 1:
        raise ValueError(f"expected {wanted}, found {found_text(value)}")
    return {"amount": amount, "devices": devices}


def _split_device_count(value: Any) -> tuple[Any, int | None]:
    match = re.fullmatch(r"\s*(.*?)\s*[x×]\s*([1-9][0-9]?)\s*", value) if isinstance(value, str) else None
    return (match[1], int(match[2])) if match else (value, None)


def parse_moment(value: Any, info: ValidationInfo) -> Any:
    """Validator for times, µs UTC. `now` of the snapshot is passed as validation context."""
    now = (info.context or {}).get("now", DEFAULT_NOW)
    return moment(value, now)


def moment(value: Any, now: int) -> Any:
    """The time in µs UTC.

    Raises:
        ValueError: If it is not a time.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if not isinstance(value, str):
        raise ValueError(f"expected {_MOMENTS}; found {found_text(value)}")
    text = value.strip()
    if text == "now":
        return now
    try:
        if text.endswith(" ago"):
            found = now - _duration(text.removesuffix(" ago"))
            if found < 0:
                raise ValueError(f"{text!r} lies before time 0: set `now` later")
            return found
        if re.fullmatch(r"[0-9]+(us|ms|s|m|h|d)", text):
            return _duration(text)
        parsed = datetime.fromisoformat(text)
    except ValueError as error:
        if "time 0" in str(error):
            raise
        raise ValueError(f"expected {_MOMENTS}; found {found_text(value)}") from None
    return (parsed.replace(tzinfo=parsed.tzinfo or UTC) - _EPOCH) // timedelta(microseconds=1)


def _duration(text: str) -> int:
    found = parse_duration(text)
    assert isinstance(found, int)
    return found


def _json_schema(*kinds: dict[str, Any]) -> WithJsonSchema:
    return WithJsonSchema({"anyOf": list(kinds)}, mode="validation")


_TEXT_BYTES = {"type": "string", "examples": ["64GiB", "512MiB", "80GB"]}
Gpus = Annotated[
    int,
    BeforeValidator(parse_gpus),
    _json_schema({"type": "number", "minimum": 0, "description": "whole GPUs, or a fraction of one from 0.1 on"}),
]
Cpus = Annotated[
    int, BeforeValidator(cores), _json_schema({"type": "number", "minimum": 0}, {"type": "string", "examples": ["500m"]})
]
Bytes = Annotated[
    Integer,
    BeforeValidator(parse_bytes_with_unit),
    Field(ge=0),
    _json_schema({"type": "integer", "minimum": 0, "description": "bytes"}, _TEXT_BYTES),
]
Part = Annotated[
    Portion,
    BeforeValidator(parse_fraction),
    _json_schema({"type": "number", "minimum": 0.1, "maximum": 1}, {"type": "string", "examples": ["0.5 x 2"]}),
]
MemoryPart = Annotated[
    Portion,
    BeforeValidator(parse_gpu_memory),
    _json_schema({"type": "integer", "minimum": 1, "description": "bytes"}, {"type": "string", "examples": ["4GiB", "4GiB x 2"]}),
]
Moment = Annotated[
    Integer,
    BeforeValidator(parse_moment),
    Field(ge=0),
    _json_schema(
        {"type": "integer", "minimum": 0, "description": "microseconds since 1970, UTC"},
        {"type": "string", "examples": ["2026-01-31T12:00:00Z", "30m ago", "now", "900s"]},
    ),
]
Grace = Annotated[
    Count | Literal["never"],
    BeforeValidator(parse_grace),
    _json_schema(
        {"type": "integer", "minimum": 0, "description": "microseconds"},
        {"type": "string", "pattern": r"^\s*[0-9]+(us|ms|s|m|h|d)\s*$|^never$", "examples": ["60s", "never"]},
    ),
]
