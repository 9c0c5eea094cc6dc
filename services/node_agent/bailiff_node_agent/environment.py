"""The environment variables of a task (docs/how-to/survive-preemption.md)."""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from zlib import crc32

from bailiff_bus.messages.commands import StartTask, TaskAssignment

from . import mps

FIRST_PORT, PORTS = 20_000, 10_000


class SecretMissing(Exception):
    """The node has no secret of that name."""


def environment(
    command: StartTask,
    task: TaskAssignment,
    *,
    checkpoints: Path,
    resume_from: Path | None,
    secrets: Path | None,
    master_address: str | None,
    device_bytes: int = 0,
    scratch: Path | None = None,
    by_mps: bool = True,
) -> dict[str, str]:
    """The variables of the job's spec; Bailiff's own take precedence, but for `PYTHONUNBUFFERED`. Raises `SecretMissing`.

    checkpoints: the job's directory. resume_from: a checkpoint in it. device_bytes: memory of the task's smallest device.
    scratch: the task's scratch folder. by_mps: whether MPS, where its daemon runs, holds the task to its share.
    """
    grace_s = str(command.grace // 1_000_000)
    return {
        "PYTHONUNBUFFERED": "1",  # else Python keeps back kilobytes of output, and `bailiff logs -f` shows none of it
        **command.spec.env,
        **{variable: _secret(secrets, name) for variable, name in command.spec.secrets.items()},
        "BAILIFF_JOB_ID": command.job,
        "BAILIFF_ATTEMPT": str(command.attempt),
        "BAILIFF_CHECKPOINT_DIR": str(checkpoints),
        "BAILIFF_GRACE_S": grace_s,
        "BAILIFF_RESUME_FROM": str(resume_from or ""),
        "BAILIFF_TASK": str(task.task),
        "CUDA_VISIBLE_DEVICES": ",".join(task.devices),
        **_share(task, device_bytes),
        **(mps.limits(task, device_bytes) if by_mps else {}),
        **({"BAILIFF_SCRATCH_DIR": str(scratch)} if scratch is not None else {}),
        "RANK": str(task.rank),
        "LOCAL_RANK": str(task.local_rank),
        "NODE_RANK": str(command.node_rank),
        "WORLD_SIZE": str(command.world_size),
        "LOCAL_WORLD_SIZE": str(command.local_world_size),
        "MASTER_ADDR": master_address or command.master_node,
        "MASTER_PORT": str(FIRST_PORT + crc32(f"{command.job}/{command.attempt}".encode()) % PORTS),
        "TORCH_ELASTIC_SHUTDOWN_TIMEOUT": grace_s,
    }


def host_folders(env: Mapping[str, str]) -> tuple[Path, ...]:
    """Folders of this machine that the environment names, which a container must see at the same path.

    They are created if missing; the engine refuses to start the container if one cannot be created.
    """
    folders = [Path(env[name]) for name in ("BAILIFF_CHECKPOINT_DIR", "BAILIFF_SCRATCH_DIR", *mps.FOLDERS) if env.get(name)]
    for folder in folders:
        with suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
    return tuple(folders)


def _share(task: TaskAssignment, device_bytes: int) -> dict[str, str]:
    """The task's part of each of its devices, if it has a part. Without MPS the job itself must keep to it."""
    if task.gpu_share_bytes is not None:
        return {"BAILIFF_GPU_MEMORY_BYTES": str(task.gpu_share_bytes)}
    if task.gpu_share_milli is None:
        return {}
    memory = {"BAILIFF_GPU_MEMORY_BYTES": str(device_bytes * task.gpu_share_milli // 1000)} if device_bytes else {}
    return {"BAILIFF_GPU_FRACTION": f"{task.gpu_share_milli // 1000}.{task.gpu_share_milli % 1000:03}", **memory}


def _secret(folder: Path | None, name: str) -> str:
    path = folder / name if folder is not None and "/" not in name and name not in ("", ".", "..") else None
    if path is None or not path.is_file():
        raise SecretMissing(f"this node has no secret named {name[:200]!r}")
    return path.read_text(encoding="utf-8").rstrip("\n")
