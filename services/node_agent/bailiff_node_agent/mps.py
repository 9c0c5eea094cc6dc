"""What keeps a task to its share of a GPU: NVIDIA's MPS, where its daemon runs on this machine."""

from pathlib import Path

from bailiff_bus.messages import TaskAt

PIPES = Path("/tmp/nvidia-mps")  # noqa: S108 - where the daemon is unless CUDA_MPS_PIPE_DIRECTORY says otherwise


FOLDERS = ("CUDA_MPS_PIPE_DIRECTORY",)
"""Variables that name folders which clients need."""


def daemon_runs(pipes: Path) -> bool:
    """Whether an MPS daemon takes clients there."""
    return (pipes / "control").exists()


def limits(task: TaskAt, device_bytes: int, pipes: Path | None = None) -> dict[str, str]:
    """The environment in which MPS holds the task to its share; nothing for whole devices, or where no daemon runs.

    Memory is limited for both kinds of share, computing only where the share is a part of the device.
    """
    pipes = pipes or PIPES
    if (task.gpu_share_milli is None and task.gpu_share_bytes is None) or not daemon_runs(pipes):
        return {}
    memory = task.gpu_share_bytes if task.gpu_share_bytes is not None else device_bytes * (task.gpu_share_milli or 0) // 1000
    each = ",".join(f"{number}={max(1, memory >> 20)}M" for number in range(len(task.devices)))
    found = {"CUDA_MPS_PIPE_DIRECTORY": str(pipes), "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": each}
    if task.gpu_share_milli is not None:
        found["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] = str(max(1, task.gpu_share_milli // 10))
    return found
