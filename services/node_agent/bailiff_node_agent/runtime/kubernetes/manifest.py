"""The pod of a task that Bailiff itself starts.

The job's command waits until the agent has checked the devices that the kubelet chose, and has written the control directory. A
liveness probe reads the time until which the task may run without the agent: the node's lease, or an eviction deadline.
"""

import math
from typing import Any

from bailiff_kubernetes import pod_name, task_hash
from bailiff_kubernetes.names import CONTROL_MOUNT, CONTROL_VOLUME, FINALIZER, JOB, TASK, TASK_HASH, TASK_RECORD
from bailiff_node_agent.runtime.port import Launch, TaskKey

from .pod_record import PodRecord

CONTAINER = "main"
LEASE_VOLUME = "bailiff-lease"
LEASE_MOUNT = "/run/bailiff-lease"
PROBE_PERIOD_S, PROBE_TIMEOUT_S, PROBE_FAILURES = 5, 60, 3
"""A probe that is slow on a busy node counts as failed, so one alone ends nothing; an expired lease does within 15 s."""
NOT_RELEASED = 126
"""Exit code of a task whose agent did not let it start within ten minutes."""

_PROBE = (
    f"test -e {LEASE_MOUNT}/until || exit 0; read up rest </proc/uptime; read until <{LEASE_MOUNT}/until; "
    'test "${up%.*}" -lt "$until"'
)
_WAIT = (
    f'n=0; while ! test -e {CONTROL_MOUNT}/go; do n=$((n+1)); test $n -gt 6000 && exit {NOT_RELEASED}; sleep 0.1; done; exec "$@"'
)


def pod_of(
    launch: Launch, node: str, namespace: str, resource: str, lease_grace_s: int, *, reaches_node: bool = True
) -> dict[str, Any]:
    """The pod. resource: of its GPUs, such as `nvidia.com/gpu`. lease_grace_s: from TERM to KILL after the lease.

    Without an agent that reaches the node there is no control directory and no lease: its command starts at once.
    """
    key = launch.key
    part = None if launch.part is None else str(launch.part)
    record = PodRecord(ordered_by=launch.ordered_by, is_only_task=launch.is_only_task, devices=launch.device_ids, part=part)
    container = _container(launch, resource)
    volumes = [_host_folder(at, str(each)) for at, each in enumerate(launch.folders)] if reaches_node else []
    if reaches_node:
        _add_control(container, launch, lease_grace_s)
        volumes = [{"name": CONTROL_VOLUME, "emptyDir": {}}, {"name": LEASE_VOLUME, "emptyDir": {}}, *volumes]
    annotations = {TASK: str(key), JOB: key.job, TASK_RECORD: record.model_dump_json()}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": pod_name(str(key)),
            "namespace": namespace,
            "labels": {TASK_HASH: task_hash(str(key)), "app.kubernetes.io/managed-by": "bailiff"},
            "annotations": annotations,
            "finalizers": [FINALIZER],
        },
        "spec": {
            "restartPolicy": "Never",
            "shareProcessNamespace": True,  # a job that is PID 1 itself would ignore TERM
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "terminationGracePeriodSeconds": max(1, launch.grace_s),
            "affinity": {"nodeAffinity": affinity(node)},
            "containers": [container],
            "volumes": volumes,
        },
    }


def affinity(node: str) -> dict[str, Any]:
    """This node only; kube-scheduler binds, so that taints, volumes and device claims are obeyed."""
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    return {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchFields": [field]}]}}


def _container(launch: Launch, resource: str) -> dict[str, Any]:
    container: dict[str, Any] = {
        "name": CONTAINER,
        "image": launch.image,
        "command": _arguments(launch.command),
        "env": _variables(_environment(launch)),
        "resources": _resources(launch, resource),
        "securityContext": {"allowPrivilegeEscalation": False},
        "terminationMessagePolicy": "File",
    }
    if launch.working_dir is not None:
        container["workingDir"] = launch.working_dir
    return container


def _add_control(container: dict[str, Any], launch: Launch, lease_grace_s: int) -> None:
    """The control directory, the host's folders and the lease; the command waits until the agent has checked the devices."""
    control = {"BAILIFF_CONTROL_DIR": CONTROL_MOUNT, "BAILIFF_SOCKET": f"{CONTROL_MOUNT}/socket"}
    container["command"] = ["/bin/sh", "-c", _WAIT, "bailiff", *container["command"]]
    container["env"] += _variables(control)
    container["livenessProbe"] = {
        "exec": {"command": ["/bin/sh", "-c", _PROBE]},
        "periodSeconds": PROBE_PERIOD_S,
        "timeoutSeconds": PROBE_TIMEOUT_S,
        "failureThreshold": PROBE_FAILURES,
        "terminationGracePeriodSeconds": max(1, lease_grace_s),
    }
    container["volumeMounts"] = [
        {"name": CONTROL_VOLUME, "mountPath": CONTROL_MOUNT},
        {"name": LEASE_VOLUME, "mountPath": LEASE_MOUNT, "readOnly": True},
        *({"name": f"folder-{at}", "mountPath": str(each)} for at, each in enumerate(launch.folders)),
    ]


def _variables(env: dict[str, str]) -> list[dict[str, str]]:
    return [{"name": name, "value": value} for name, value in env.items()]


def _arguments(command: list[str] | str) -> list[str]:
    return ["/bin/sh", "-c", command] if isinstance(command, str) else command


def _environment(launch: Launch) -> dict[str, str]:
    """The device plugin names the GPUs; what the log had assigned are others, so that variable is left out."""
    return {
        **{name: value for name, value in launch.env.items() if name != "CUDA_VISIBLE_DEVICES"},
        "BAILIFF_TASK": str(launch.key),
    }


def _resources(launch: Launch, resource: str) -> dict[str, Any]:
    limits: dict[str, str] = {}
    if launch.device_ids:
        limits[resource] = str(len(launch.device_ids))
    if launch.memory_bytes:
        limits["memory"] = str(launch.memory_bytes)
    if launch.cpu_milli:
        limits["cpu"] = f"{launch.cpu_milli}m"
    return {"limits": limits}


def _host_folder(at: int, path: str) -> dict[str, Any]:
    return {"name": f"folder-{at}", "hostPath": {"path": path, "type": "DirectoryOrCreate"}}


def key_of_pod(pod: dict[str, Any]) -> TaskKey | None:
    """The task that the pod is, from its annotation; None where that is no key, or not the one of its label."""
    metadata = pod["metadata"]
    text = (metadata.get("annotations") or {}).get(TASK, "")
    key = TaskKey.parse(text)
    return key if key is not None and (metadata.get("labels") or {}).get(TASK_HASH) == task_hash(text) else None


def grace_seconds(grace_s: float) -> int:
    """A grace for the API, which counts whole seconds. Never 0: that removes the object while its containers may run."""
    return max(1, math.ceil(grace_s))
