"""Serializers of the policy in force and its priority classes."""

from typing import Any

from pydantic import BaseModel
from typing_extensions import TypedDict

from bailiff_core.model.document import MICROSECONDS
from bailiff_core.model.state import ENDED, PoolState
from bailiff_service.policy_files import is_duration


class ClassRow(TypedDict):
    """One priority class in `bailiff class list`.

    Attributes:
        users: Who may use it; null: all users.
    """

    priority_class: str
    value: int
    preemptible: bool
    can_preempt: bool
    is_default: bool
    immediate: bool
    grace_s: int
    users: list[str] | None
    jobs_running: int
    jobs_pending: int


def class_rows(state: PoolState) -> list[ClassRow]:
    """Every priority class, the highest first."""
    jobs = [job for job in state.jobs.values() if job.phase not in ENDED and job.phase != "paused"]
    rows: list[ClassRow] = []
    for entry in sorted(state.rules.priority_classes, key=lambda entry: (-entry.value, entry.name)):
        is_pending = [job.phase in ("pending", "reserved") for job in jobs if job.class_name == entry.name]
        users = state.rules.identity.class_users.get(entry.name)
        rows.append(
            {
                "priority_class": entry.name,
                "value": entry.value,
                "preemptible": entry.preemptible,
                "can_preempt": entry.preemption_policy == "PreemptLowerPriority",
                "is_default": entry.global_default,
                "immediate": entry.immediate,
                "grace_s": (state.rules.eviction.grace if entry.grace is None else entry.grace) // 1_000_000,
                "users": list(users) if users is not None else None,
                "jobs_running": is_pending.count(False),
                "jobs_pending": is_pending.count(True),
            }
        )
    return rows


def policy_in_force(state: PoolState) -> dict[str, Any]:
    """The policy in force in the form of a file (durations such as `30s`), and the seq of its record.

    scope: the effective preemption.scope, also if the policy does not set it.
    """
    document = policy_document(state.rules)
    return {"pool": state.pool, "seq": state.policy_revision, "scope": state.rules.scope, "policy": document}


def policy_document(document: BaseModel) -> dict[str, Any]:
    """The policy in the form of a file: all fields, durations with units."""
    found: dict[str, Any] = {}
    for name, field in type(document).model_fields.items():
        value = getattr(document, name)
        if isinstance(value, BaseModel):
            found[name] = policy_document(value)
        elif isinstance(value, tuple):
            found[name] = [policy_document(each) if isinstance(each, BaseModel) else each for each in value]
        elif isinstance(value, dict):
            found[name] = {key: list(each) if isinstance(each, tuple) else each for key, each in value.items()}
        else:
            found[name] = exact_duration(value) if isinstance(value, int) and is_duration(field) else value
    return found


def exact_duration(micros: int) -> str:
    """`90s`, `10m`, `7d`: in the largest unit that gives a whole number."""
    unit = max((unit for unit, size in MICROSECONDS.items() if micros % size == 0), key=lambda unit: MICROSECONDS[unit])
    return f"{micros // MICROSECONDS[unit]}{unit}" if micros else "0s"
