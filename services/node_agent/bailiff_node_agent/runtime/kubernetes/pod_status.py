"""What a pod's status says: how its container ended, why it is not placed, and by whose word."""

from typing import Any

from bailiff_kubernetes.resources import condition_of
from bailiff_node_agent.runtime.port import OUT_OF_MEMORY

Pod = dict[str, Any]

UNKNOWN_EXIT = -9
ENDED_WITH_MACHINE = (UNKNOWN_EXIT, 137, 255)
"""How a kubelet that has booted again reports containers that ended with its machine."""


def is_bound(pod: Pod) -> bool:
    """Whether a scheduler has given it a node."""
    return bool(pod["spec"].get("nodeName"))


def is_running(pod: Pod) -> bool:
    """Whether the kubelet has started a container of it, which may have ended since."""
    return any({"running", "terminated"} & set(each.get("state") or {}) for each in _containers(pod))


def has_ended(pod: Pod) -> bool:
    """Whether the kubelet reports that every container has ended, or that it took the pod for none."""
    containers = _containers(pod)
    if containers:
        return all("terminated" in (each.get("state") or {}) for each in containers)
    return pod.get("status", {}).get("phase") in ("Succeeded", "Failed")


def exit_of_pod(pod: Pod) -> tuple[int, str | None]:
    """Exit code and error of a pod that has ended: the first failed container's, or else 0."""
    ends = [each["state"]["terminated"] for each in _containers(pod) if "terminated" in (each.get("state") or {})]
    if not ends:
        return UNKNOWN_EXIT, _status_reason(pod) or "the kubelet did not run it"
    failed = next((end for end in ends if end.get("exitCode")), ends[0])
    code, reason = int(failed.get("exitCode", 0)), failed.get("reason", "")
    if reason == "OOMKilled":
        return code, OUT_OF_MEMORY
    if reason in ("ContainerCannotRun", "StartError", "ContainerStatusUnknown"):
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


def _containers(pod: Pod) -> list[dict[str, Any]]:
    return pod.get("status", {}).get("containerStatuses") or []


def _status_reason(pod: Pod) -> str | None:
    status = pod.get("status", {})
    text = f"{status.get('reason', '')}: {status.get('message', '')}".strip(": ")
    return text[:900] or None
