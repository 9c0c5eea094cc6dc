"""Limits a task to its share of a GPU through NVIDIA's MPS, where its daemon runs on this machine."""

from pathlib import Path

from bailiff_bus.messages.commands import TaskAssignment

from .devices.system_programs import is_system_program

PIPES = Path("/tmp/nvidia-mps")  # noqa: S108 - the daemon's default for CUDA_MPS_PIPE_DIRECTORY
LABEL = "bailiff.gpu/sharing"
"""Node label: `mps` or `time-slicing`."""

FOLDERS = ("CUDA_MPS_PIPE_DIRECTORY",)
"""Variables with the folders that clients need."""


def daemon_runs(pipes: Path | None = None) -> bool:
    """Whether an MPS daemon accepts clients there. The socket of one that was killed remains, so its process must live."""
    try:
        pid = int(((pipes or PIPES) / "nvidia-cuda-mps-control.pid").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return is_system_program(pid)


def limits(task: TaskAssignment, device_bytes: int, pipes: Path | None = None) -> dict[str, str]:
    """The environment with which MPS enforces the task's share; empty for whole devices, or without a daemon.

    Memory is limited for both kinds of share, computing only where the share is a fraction of the device.
    """
    pipes = pipes or PIPES
    if (task.gpu_share_milli is None and task.gpu_share_bytes is None) or not daemon_runs(pipes):
        return {}
    memory = task.gpu_share_bytes if task.gpu_share_bytes is not None else device_bytes * (task.gpu_share_milli or 0) // 1000
    by_device = ",".join(f"{number}={max(1, memory >> 20)}M" for number in range(len(task.devices)))
    environment = {"CUDA_MPS_PIPE_DIRECTORY": str(pipes), "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": by_device}
    if task.gpu_share_milli is not None:
        environment["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] = str(max(1, task.gpu_share_milli // 10))
    return environment
