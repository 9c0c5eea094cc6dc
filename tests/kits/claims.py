"""Policies of tests that are about what a claim does once it is granted, unless they say what is granted."""

from typing import Any

from bailiff_core.model.document import TEN_YEARS
from bailiff_core.model.policy import DEFAULT_POLICY, Claims, Policy

EVERY_CLAIM = Claims(grace=TEN_YEARS, stale_grace="never", preemption_delay=0, non_preemptible=True, protective_labels=True)


def complete(policy: Policy) -> Policy:
    """The policy as it is recorded; one that does not limit claims grants them all."""
    return policy.complete() if policy.claims is not None else policy.model_copy(update={"claims": EVERY_CLAIM}).complete()


def classes(**changes: Any) -> list[dict[str, Any]]:
    """The default classes with fields of some changed."""
    return [entry.model_dump() | changes.get(entry.name, {}) for entry in DEFAULT_POLICY.priority_classes]
