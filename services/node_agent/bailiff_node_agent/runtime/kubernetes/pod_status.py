"""What a pod's status says: how its container ended, why it is not placed, and by whose word."""

from typing import Any

from bailiff_kubernetes.resources import condition_of
from bailiff_node_agent.runtime.port import OUT_OF_MEMORY

Pod = dict[str, Any]

UNKNOWN_EXIT = -9
ENDED_WITH_MACHINE = (UNKNOWN_EXIT, 137, 255)
"""How a kubelet that has booted again reports containers that ended with its machine."""

UNKNOWN_STATUS = "ContainerStatusUnknown"
"""How the kubelet reports a container that it never started when its pod has ended."""

STARTING = ("ContainerCreating", "PodInitializing")
"""What a container waits for while nothing has failed."""


def is_bound(pod: Pod) -> bool:
    """Whether a scheduler has given it a node."""
    return bool(pod["spec"].get("nodeName"))


def is_running(pod: Pod) -> bool:
    """Whether the kubelet has started a container of it, which may have ended since, and wait for its next start."""
    return any(each.get("lastState") or _has_run(each.get("state") or {}) for each in _containers(pod))


def _has_run(state: dict[str, Any]) -> bool:
    end = state.get("terminated")
    return "running" in state or (end is not None and end.get("reason") != UNKNOWN_STATUS)


def has_ended(pod: Pod) -> bool:
    """Whether the kubelet reports that every container has ended for good, or that it took the pod for none."""
    containers, is_over = _containers(pod), pod.get("status", {}).get("phase") in ("Succeeded", "Failed")
    if not containers or not all("terminated" in (each.get("state") or {}) for each in containers):
        return is_over and not containers
    is_started_again = pod["spec"].get("restartPolicy", "Never") != "Never" and not pod["metadata"].get("deletionTimestamp")
    return is_over or not is_started_again


def exit_of_pod(pod: Pod) -> tuple[int, str | None]:
    """Exit code and error of a pod that has ended: the first failed container's, or else 0."""
    ends = [each["state"]["terminated"] for each in _containers(pod) if "terminated" in (each.get("state") or {})]
    if not ends:
        return UNKNOWN_EXIT, _status_reason(pod) or "the kubelet did not run it"
    failed = next((end for end in ends if end.get("exitCode")), ends[0])
    code, reason = int(failed.get("exitCode", 0)), failed.get("reason", "")
    if reason == "OOMKilled":
        return code, OUT_OF_MEMORY
    if reason in ("ContainerCannotRun", "StartError", UNKNOWN_STATUS):
        return code, f"{reason}: {failed.get('message', '')}"[:900].rstrip(": ")
    return code, _status_reason(pod) if pod.get("status", {}).get("reason") else None


def was_rejected(pod: Pod) -> bool:
    """Whether it has ended and no container of it ever ran, as when its kubelet restarts and has no devices yet."""
    return has_ended(pod) and not is_running(pod)


def why_not_placed(pod: Pod) -> str:
    """kube-scheduler's own reason."""
    gates = [gate["name"] for gate in pod["spec"].get("schedulingGates") or ()]
    if gates:
        return f"its pod still has the scheduling gate {', '.join(gates)}"
    condition = condition_of(pod, "PodScheduled")
    if condition is None or not condition.get("message"):
        return "no scheduler has looked at its pod"
    return f"{condition.get('reason', '')}: {condition['message']}".strip(": ")[:900]


def why_not_started(pod: Pod) -> str:
    """Why the kubelet could not start a container of it, such as an image that it cannot pull; empty: it still works on it."""
    for each in (*(pod.get("status", {}).get("initContainerStatuses") or ()), *_containers(pod)):
        waiting = (each.get("state") or {}).get("waiting") or {}
        reason = waiting.get("reason", "")
        if reason and reason not in STARTING and not each.get("lastState"):
            return f"{reason}: {waiting.get('message', '')}".rstrip(": ")[:900]
    return ""


def _containers(pod: Pod) -> list[dict[str, Any]]:
    return pod.get("status", {}).get("containerStatuses") or []


def _status_reason(pod: Pod) -> str | None:
    status = pod.get("status", {})
    text = f"{status.get('reason', '')}: {status.get('message', '')}".strip(": ")
    return text[:900] or None
