"""A pod that Bailiff ends, as its controllers see it: a condition that names both sides, and nothing that a Job counts.

A Job's controller counts the end of each pod that has its finalizer, as a failure or, with exit code 0, as a completion. From
pods that it deletes itself, as those of a suspended Job, it takes the finalizer first. Bailiff does the same, in the write of the
condition: so no preemption uses up `backoffLimit` or delays the next pod, whatever the Job's policies and restart policy.
"""

from datetime import UTC, datetime

from .client import Api, seconds_time
from .names import DISRUPTION_TARGET, JOB_TRACKING, PREEMPTION_BY_SCHEDULER
from .resources import JOBS, PODS, Object, controller_of


def disruption(message: str) -> Object:
    """The condition. Without its time, Kubernetes' disruption controller would take it for older than two minutes."""
    return {
        "type": DISRUPTION_TARGET,
        "status": "True",
        "reason": PREEMPTION_BY_SCHEDULER,
        "message": message[:900],
        "lastTransitionTime": seconds_time(datetime.now(UTC)),
    }


async def mark_disrupted(api: Api, namespace: str, name: str, uid: str, message: str, *, resource_version: str = "") -> Object:
    """The pod is about to be ended. Raises `Conflict` for another pod of the name, or where it has another version by now."""
    metadata: Object = {"$deleteFromPrimitiveList/finalizers": [JOB_TRACKING]}
    if resource_version:
        metadata["resourceVersion"] = resource_version
    return await api.patch_status(PODS, name, {"conditions": [disruption(message)]}, namespace, uid, metadata=metadata)


async def unmark_disrupted(api: Api, pod: Object) -> None:
    """The pod runs on: its end counts again."""
    metadata, owner = pod["metadata"], controller_of(pod)
    counted: Object = {"finalizers": [JOB_TRACKING]} if owner is not None and owner["kind"] == JOBS.kind else {}
    gone = {"conditions": [{"type": DISRUPTION_TARGET, "$patch": "delete"}]}
    await api.patch_status(PODS, metadata["name"], gone, metadata["namespace"], metadata["uid"], metadata=counted)
