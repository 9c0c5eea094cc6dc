"""As whom a task runs: where the agent is root, as the user of this machine who submitted its job."""

import os
import pwd
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from .runtime import User

RunAs = Literal["submitter", "agent"]


class NotRunnable(Exception):
    """Nobody here as whom the task may run; the sentence says why, and what to do."""


@dataclass(frozen=True)
class Users:
    """run_as `submitter`: the user whose name the submitter has, or has in `names` (user by submitter), if its uid is at
    least `lowest_uid`. `agent`, or an agent that is not root: as the agent itself.
    """

    run_as: RunAs = "agent"
    names: Mapping[str, str] = field(default_factory=dict)
    lowest_uid: int = 1000
    is_root: bool = field(default_factory=lambda: os.geteuid() == 0)

    @property
    def others(self) -> bool:
        """Whether tasks run as anybody but the agent."""
        return self.run_as == "submitter" and self.is_root

    def of(self, submitter: str) -> User | None:
        """`None`: as the agent itself. Raises `NotRunnable`."""
        if not self.others:
            return None
        if not submitter:
            raise NotRunnable(
                "this node runs a job as the user who submitted it, and the log does not say who did: submit it with --actor "
                "or BAILIFF_ACTOR, or set run_as: agent on the node"
            )
        name = self.names.get(submitter, submitter)
        try:
            found = pwd.getpwnam(name)
        except (KeyError, ValueError):
            raise NotRunnable(
                f"this node has no user {name[:100]!r}, as whom the job of {submitter[:100]!r} would run: "
                "make one, or name another one for this submitter in the node's setting run_as_names"
            ) from None
        if found.pw_uid < self.lowest_uid:
            raise NotRunnable(
                f"the user {name[:100]!r} has uid {found.pw_uid}, and this node runs jobs as users from {self.lowest_uid} on: "
                "submit it as another one, or lower the node's setting run_as_lowest_uid"
            )
        groups = tuple(sorted(os.getgrouplist(found.pw_name, found.pw_gid)))
        home = found.pw_dir if Path(found.pw_dir).is_dir() else "/"  # as login does it
        return User(found.pw_name, found.pw_uid, found.pw_gid, groups, home)


def pass_through(*folders: Path) -> None:
    """Other users may go through these folders to what is theirs, and see nothing of what else is there."""
    for folder in folders:
        folder.chmod(0o711)


def closed_to(user: User, folder: Path) -> Path | None:
    """The first folder on the way to this one through which the user may not go."""
    for each in (*reversed(folder.parents), folder):
        about = each.stat()
        if about.st_uid == user.uid:
            may = about.st_mode & stat.S_IXUSR
        elif about.st_gid in (user.gid, *user.groups):
            may = about.st_mode & stat.S_IXGRP
        else:
            may = about.st_mode & stat.S_IXOTH
        if not may:
            return each
    return None


def give(folder: Path, user: User) -> None:
    """Make the folder the user's own. Raises `NotRunnable` where it is somebody else's already.

    Where the agent may not make it (a disk of the network on which root is nobody) that is left to the job.
    """
    try:
        folder.mkdir(mode=0o700)
        os.chown(folder, user.uid, user.gid)
    except PermissionError:
        return
    except FileExistsError:
        owner = folder.lstat().st_uid
        if owner != user.uid:
            raise NotRunnable(
                f"its checkpoints on this node are those of {_name(owner)} and not of {user.name}: take {folder} away, give it "
                f"to {user.name} with all that is in it, or choose another name for the job"
            ) from None


def _name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"
