"""The last checkpoint of a job that does not use the job library: it tells it by annotations on its pod.

It is priced like a checkpoint that the job library reports. Whoever may change the pod can claim any step and time; a later
checkpoint only makes the job a cheaper victim, and nothing is restored from what is claimed.
"""

from datetime import UTC, datetime
from typing import Any

from bailiff_kubernetes import Object
from bailiff_kubernetes.names import LAST_CHECKPOINT_STEP, LAST_CHECKPOINT_TIME
from bailiff_kubernetes.resources import annotations_of
from bailiff_node_agent.runtime.supervisor.journal import MAX_COUNT

NO_DIGEST = "0" * 64

Note = tuple[str, str]


def note_of(pod: Object) -> Note | None:
    """The two annotations as they are; None without a step."""
    found = annotations_of(pod)
    return (found[LAST_CHECKPOINT_STEP], found.get(LAST_CHECKPOINT_TIME, "")) if LAST_CHECKPOINT_STEP in found else None


def message_of(note: Note) -> dict[str, Any]:
    """As the job library sends it. Raises `ValueError` for what is no step. Size and digest are unknown."""
    step = note[0].strip()
    if not (step.isascii() and step.isdecimal()) or int(step) > MAX_COUNT:
        raise ValueError(f"{LAST_CHECKPOINT_STEP}: expected a whole number, found {step[:100]!r}")
    return {"type": "checkpoint_committed", "step": int(step), "bytes": 0, "microseconds": 0, "sha256": NO_DIGEST, "agreed": True}


def age_us(note: Note, now: datetime) -> int:
    """How long ago it was saved; 0 without a time, or for one that is still to come. Raises `ValueError`."""
    if not note[1].strip():
        return 0
    try:
        at = datetime.fromisoformat(note[1].strip())
    except ValueError:
        raise ValueError(
            f"{LAST_CHECKPOINT_TIME}: expected a time such as 2026-01-31T12:00:00Z, found {note[1][:100]!r}"
        ) from None
    age = now - (at if at.tzinfo is not None else at.replace(tzinfo=UTC))
    return max(0, age.days * 86_400_000_000 + age.seconds * 1_000_000 + age.microseconds)
