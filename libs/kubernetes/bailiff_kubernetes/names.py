"""Every name that Bailiff gives to something in Kubernetes, in one place. These are public: they stay."""

import hashlib

MANAGER = "bailiff"
"""The field manager of Bailiff's writes, and the reporting controller of its Events."""

# Labels
POOL = "bailiff.io/pool"
PRIORITY_CLASS = "bailiff.io/priority-class"
PROJECT = "bailiff.io/project"
GANG_SIZE = "bailiff.io/gang-size"
MIN_TASKS = "bailiff.io/min-tasks"
TASK_HASH = "bailiff.io/task-hash"
"""On every pod that is a task of Bailiff's: `task_hash` of its key. Runtime and bridge find a task's pod by it."""

# Annotations
TASK = "bailiff.io/task"
"""The whole task key, which may be longer than a label."""
JOB = "bailiff.io/job"
TASK_RECORD = "bailiff.io/task-record"
"""JSON: what the runtime keeps about a task, such as the seq of the record that ordered its start."""
NOTICE = "bailiff.io/notice"
"""JSON: the eviction notice, as in the job's control directory."""
DEVICE = "bailiff.io/device"
"""On the ResourceClaim of a GPU that several tasks share: its UUID."""
GRACE = "bailiff.io/grace"
SUBMITTED_BY = "bailiff.io/submitted-by"
"""The user who created the workload. Only admission policy or webhook may set it."""
LAST_CHECKPOINT_STEP = "bailiff.io/last-checkpoint-step"
LAST_CHECKPOINT_TIME = "bailiff.io/last-checkpoint-time"
CORDONED_BY = "bailiff.io/cordoned-by"
"""On a node that Bailiff cordoned: the drain that it did it for. Without it, somebody else cordoned the node."""

# Scheduling gates and finalizer
GATE = "bailiff.io/placement"
"""Keeps a pod from kube-scheduler until its task is placed."""
CLAIMS_GATE = "bailiff.io/claims"
"""Keeps a pod from kube-scheduler until it owns the claims of the GPUs that it shares."""
FINALIZER = "bailiff.io/release-proof"
"""Keeps a pod's object readable until its exit is on record and its devices are proven free."""

RESPONDER = "bailiff.io/preemption"
"""Of Evictions of Kubernetes (KEP-4563), in pods' `evictionResponders`."""

# Pod conditions
PLACED = "bailiff.io/Placed"
DISRUPTION_TARGET = "DisruptionTarget"
PREEMPTION_BY_SCHEDULER = "PreemptionByScheduler"
"""The reason of `DisruptionTarget`, which Job controllers and Kubeflow look for."""
JOB_TRACKING = "batch.kubernetes.io/job-tracking"
"""The finalizer of Kubernetes' Job controller: it counts the end of pods that have it."""

CONTROL_VOLUME = "bailiff-control"
"""The `emptyDir` with the job's control directory."""
CONTROL_MOUNT = "/run/bailiff"
"""Where a container finds it."""


def task_hash(task_key: str) -> str:
    """Label value and part of the pod's name for a task key: 40 hex digits."""
    return hashlib.sha256(task_key.encode()).hexdigest()[:40]


def pod_name(task_key: str) -> str:
    """The name of the pod that Bailiff itself makes for a task."""
    return f"bailiff-{task_hash(task_key)}"


def shared_claim_name(device: str) -> str:
    """The name of the ResourceClaim of a GPU that several tasks share."""
    return f"bailiff-gpu-{hashlib.sha256(device.encode()).hexdigest()[:40]}"
