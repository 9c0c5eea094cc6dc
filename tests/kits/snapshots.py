"""Snapshots of worlds that are about other rules: unless they say otherwise, every claim is granted, gangs change their size live
and may run below their minimum for a minute.
"""

from typing import Any

from bailiff.client.plan_files import Source, snapshot_from
from bailiff_core.plan import Snapshot

EVERY_CLAIM = {"grace": "600s", "stale_grace": "never", "preemption_delay": 0, "non_preemptible": True, "protective_labels": True}


def snapshot(document: dict[str, Any], name: str = "pool") -> Snapshot:
    """The snapshot of the document; `name` is for error texts."""
    policy = document.get("policy") or {}
    if isinstance(policy, dict):
        protections = policy.get("protections", {})
        if isinstance(protections, dict):
            protections = {"stale_gang": "1m", **protections}
        policy = {"claims": EVERY_CLAIM, **policy, "protections": protections}
    source = Source(name, "")
    source.value = {**document, "policy": policy, "jobs": [{"elastic": "live", **job} for job in document.get("jobs", ())]}
    return snapshot_from(source)
