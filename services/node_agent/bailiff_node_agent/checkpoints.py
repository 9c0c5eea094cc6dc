"""Where a task can go on: the newest checkpoint that an attempt of its job has committed on this node's disk.

A checkpoint is `attempt-NNNN/step-NNNNNNNN[.rank-NNNN]` with a `manifest.json`; what it holds is checked by who restores it.
"""

import json
import os
import re
import secrets
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

ATTEMPT = re.compile(r"attempt-(\d{4,9})")
STEP = re.compile(r"step-(\d{8,16})(?:\.rank-(\d{4,9}))?")
LARGEST_MANIFEST = 1 << 20
IDENTITY = ".bailiff-checkpoints"


def identity(folder: Path) -> str:
    """Whoever sees the same folder reads the same here: written once, by the agent that comes first."""
    own, name = folder / f".bailiff-{secrets.token_hex(8)}", folder / IDENTITY
    if not name.exists():
        own.write_text(secrets.token_hex(16))
        own.chmod(0o644)
        with suppress(OSError):  # another one was first, or this disk knows no links
            name.hardlink_to(own)
        if name.exists():
            own.unlink()
        else:
            own.replace(name)
    return name.read_text().strip()


def newest(folder: Path, rank: int) -> Path | None:
    """Of the highest attempt, the highest step that this rank has a whole checkpoint of, agreed on if it was a gang's."""
    return next((path for path in _candidates(folder, rank) if _is_committed(path)), None)


def _candidates(folder: Path, rank: int) -> Iterator[Path]:
    found = []
    for attempt, path in _named(folder, ATTEMPT):
        for step, saved in _named(path, STEP):
            if step[2] is None or int(step[2]) == rank:
                found.append((int(attempt[1]), int(step[1]), step[2] is not None, saved))
    return (path for *_, path in sorted(found, reverse=True))


def _named(folder: Path, pattern: re.Pattern[str]) -> Iterator[tuple[re.Match[str], Path]]:
    try:
        paths = [*folder.iterdir()]
    except OSError:
        return
    for path in paths:
        match = pattern.fullmatch(path.name)
        if match is not None:
            yield match, path


def _is_committed(path: Path) -> bool:
    """The job's user can put anything in its place; what is no file there is no checkpoint."""
    try:
        handle = os.open(path / "manifest.json", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(handle, "rb") as file:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                return False
            manifest: Any = json.loads(file.read(LARGEST_MANIFEST))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(manifest, dict) and (manifest.get("agreed") is True or manifest.get("world_size") == 1)
