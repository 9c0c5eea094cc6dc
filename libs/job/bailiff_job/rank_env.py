"""The rank of this process in its job, from the environment that Bailiff sets and that launchers like torchrun change."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class RankEnv:
    """What the environment says about this process.

    Attributes:
        job: Empty outside Bailiff.
        workers: Number of processes that share this task's control directory; this one is `worker`.
        restart: Number of the restart within the attempt, as torchrun counts them.
    """

    job: str
    attempt: int
    rank: int = 0
    world_size: int = 1
    worker: int = 0
    workers: int = 1
    restart: str = "0"
    socket: str = ""
    control: Path | None = None
    checkpoints: Path | None = None

    @property
    def is_only_rank(self) -> bool:
        """Whether it is the only process of its job, so that no agreement is needed."""
        return self.world_size == 1


def read_rank_env(
    directory: str | os.PathLike[str] | None = None,
    *,
    rank: int | None = None,
    world_size: int | None = None,
    local_rank: int | None = None,
    local_world_size: int | None = None,
) -> RankEnv:
    """Arguments override the environment.

    Raises:
        ValueError: A variable is not a number.
    """
    job = os.environ.get("BAILIFF_JOB_ID", "")
    started_by_torchrun = (
        "TORCHELASTIC_RUN_ID" in os.environ
    )  # torchrun sets LOCAL_RANK to the process's number within the task; default it is the task's
    control = os.environ.get("BAILIFF_CONTROL_DIR") if job else None
    checkpoints = (os.environ.get("BAILIFF_CHECKPOINT_DIR") if job else None) or directory
    return RankEnv(
        job=job,
        attempt=_number("BAILIFF_ATTEMPT", 1) if job else 1,
        rank=_number("RANK", 0) if rank is None else rank,
        world_size=_number("WORLD_SIZE", 1) if world_size is None else world_size,
        worker=(_number("LOCAL_RANK", 0) if started_by_torchrun else 0) if local_rank is None else local_rank,
        workers=(_number("LOCAL_WORLD_SIZE", 1) if started_by_torchrun else 1) if local_world_size is None else local_world_size,
        restart=os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"),
        socket=os.environ.get("BAILIFF_SOCKET", "") if job else "",
        control=Path(control) if control else None,
        checkpoints=Path(checkpoints).absolute() if checkpoints else None,
    )


def _number(name: str, default: int) -> int:
    text = os.environ.get(name, "")
    if not text:
        return default
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"the environment variable {name}={text!r} is not a whole number") from None
