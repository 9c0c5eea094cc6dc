"""The environment that a task gets, as the job contract lists it."""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from zlib import crc32

from bailiff_bus.messages import StartTask, TaskAt

from . import mps
from .checkpoints import newest

FIRST_PORT, PORTS = 20_000, 10_000


class SecretMissing(Exception):
    """The node has no secret of that name."""


def environment(
    command: StartTask,
    task: TaskAt,
    *,
    checkpoints: Path,
    secrets: Path | None,
    master_address: str | None,
    device_bytes: int = 0,
    scratch: Path | None = None,
) -> dict[str, str]:
    """What the job's spec sets, then what Bailiff sets, which wins. Raises `SecretMissing`.

    checkpoints: the job's. device_bytes: memory of the smallest device that the task gets. scratch: disk space that goes with it.
    """
    grace_s = str(command.grace // 1_000_000)
    return {
        **command.spec.env,
        **{variable: _secret(secrets, name) for variable, name in command.spec.secrets.items()},
        "BAILIFF_JOB_ID": command.job,
        "BAILIFF_ATTEMPT": str(command.attempt),
        "BAILIFF_CHECKPOINT_DIR": str(checkpoints),
        "BAILIFF_GRACE_S": grace_s,
        "BAILIFF_RESUME_FROM": str(newest(checkpoints, task.rank) or ""),
        "BAILIFF_TASK": str(task.task),
        "CUDA_VISIBLE_DEVICES": ",".join(task.devices),
        **_share(task, device_bytes),
        **mps.limits(task, device_bytes),
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


def folders_of(env: Mapping[str, str]) -> tuple[Path, ...]:
    """What of this machine a task with this environment finds on its paths, also where it runs in a container.

    Made where they are not there yet; without one that cannot be made the engine will not start the container.
    """
    found = [Path(env[name]) for name in ("BAILIFF_CHECKPOINT_DIR", "BAILIFF_SCRATCH_DIR", *mps.FOLDERS) if env.get(name)]
    for folder in found:
        with suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
    return tuple(found)


def _share(task: TaskAt, device_bytes: int) -> dict[str, str]:
    """How much of each of its devices the task may use, where it has them not whole. Without MPS only this keeps it to that."""
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
