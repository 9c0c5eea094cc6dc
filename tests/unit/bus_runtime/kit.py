"""Shared by the tests of this folder: a valid request, and messages around it."""

import json
from typing import Any

from bailiff_bus.envelope import wrap
from bailiff_bus.port import Headers, Message
from bailiff_core.records.job_requests import SubmitJob

NOON = 1_800_000_000_000_000
APPENDED = NOON + 5


def submit_data(**demand: Any) -> dict[str, Any]:
    """The data of a request that is right, with these fields of its demand."""
    tasks = [{"gpu_milli": 2000}]
    return {"demand": {"job": "bert-1", "tasks": tasks, **demand}, "spec": {"command": ["python", "train.py"]}}


def submit(**demand: Any) -> SubmitJob:
    """The same, as a message body."""
    return SubmitJob.model_validate_json(json.dumps(submit_data(**demand)))


def message(value: bytes, headers: Headers = (), topic: str = "bailiff.requests") -> Message:
    """These bytes as Kafka would hand them over."""
    return Message(topic=topic, partition=0, offset=7, time=APPENDED, key=b"a", headers=headers, value=value)


def wrapped(body: SubmitJob | None = None, **attributes: Any) -> Message:
    """A request in binary mode."""
    given = {"source": "laptop", "id": "r-1", "pool": "a100", "time_us": NOON, **attributes}
    headers, value = wrap(body or submit(), **given)
    return message(value, headers)


def binary(data: Any, **attributes: str | bytes | None) -> Message:
    """Builds a message in binary mode without the library, as kcat -H does. None leaves an attribute out; `data` may be bytes."""
    at = {"specversion": "1.0", "id": "r-1", "source": "laptop", "type": SubmitJob.TYPE, "pool": "a100", **attributes}
    headers = tuple(
        (f"ce_{name}", text if isinstance(text, bytes) else text.encode()) for name, text in at.items() if text is not None
    )
    return message(data if isinstance(data, bytes) else json.dumps(data).encode(), headers)


def structured(data: Any, content_type: str = "application/cloudevents+json", **attributes: Any) -> Message:
    """Structured mode. None leaves an attribute out."""
    at = {"specversion": "1.0", "id": "r-1", "source": "laptop", "type": SubmitJob.TYPE, "pool": "a100", **attributes}
    event = {name: value for name, value in at.items() if value is not None} | {"data": data}
    return message(json.dumps(event).encode(), (("content-type", content_type.encode()),))
