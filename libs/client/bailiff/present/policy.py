"""The policy in force, and its priority classes."""

from typing import Any, TypedDict

from bailiff.policyfile import policy_document
from bailiff_core.model.pool import ENDED, Pool


class ClassRow(TypedDict):
    """One priority class in `bailiff class list`. users: who may use it; null: anybody."""

    priority_class: str
    value: int
    preemptible: bool
    displaces_others: bool
    is_default: bool
    immediate: bool
    grace_s: int
    users: list[str] | None
    jobs_running: int
    jobs_pending: int


def class_rows(pool: Pool) -> list[ClassRow]:
    """Every priority class, the highest first."""
    jobs = [job for job in pool.jobs.values() if job.phase not in ENDED and job.phase != "paused"]
    rows: list[ClassRow] = []
    for entry in sorted(pool.rules.priority_classes, key=lambda entry: (-entry.value, entry.name)):
        waits = [job.phase in ("pending", "reserved") for job in jobs if job.class_name == entry.name]
        users = pool.rules.identity.class_users.get(entry.name)
        rows.append(
            {
                "priority_class": entry.name,
                "value": entry.value,
                "preemptible": entry.preemptible,
                "displaces_others": entry.preemption_policy == "PreemptLowerPriority",
                "is_default": entry.global_default,
                "immediate": entry.immediate,
                "grace_s": (pool.rules.eviction.grace if entry.grace is None else entry.grace) // 1_000_000,
                "users": list(users) if users is not None else None,
                "jobs_running": waits.count(False),
                "jobs_pending": waits.count(True),
            }
        )
    return rows


def policy_in_force(pool: Pool) -> dict[str, Any]:
    """The policy in force, whole, as a file would hold it (durations such as `30s`), and the record that brought it.

    scope: of preempt, also where the policy leaves it to whether there are projects.
    """
    document = policy_document(pool.rules)
    return {"pool": pool.domain, "seq": pool.policy_revision, "scope": pool.rules.scope, "policy": document}
