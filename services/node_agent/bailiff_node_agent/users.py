"""The user that a task runs as: where the agent is root, the user of this machine who submitted its job."""

import os
import pwd
import stat
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from .runtime import User
from .runtime.supervisor import safe_open

RunAs = Literal["submitter", "agent"]


class NotRunnable(Exception):
    """There is no user that the task may run as; the message has the reason and the solution."""


@dataclass(frozen=True)
class Users:
    """run_as `submitter`: the user of the submitter's name, or that `names` maps it to, if its uid is at least
    `lowest_uid`. run_as `agent`, or an agent that is not root: the agent's own user.
    """

    run_as: RunAs = "agent"
    names: Mapping[str, str] = field(default_factory=dict)
    lowest_uid: int = 1000
    is_root: bool = field(default_factory=lambda: os.geteuid() == 0)

    @property
    def switches_user(self) -> bool:
        """Whether tasks run as other users than the agent."""
        return self.run_as == "submitter" and self.is_root

    def of(self, submitter: str) -> User | None:
        """The user for this submitter; None: the agent's own. Raises `NotRunnable`."""
        if not self.switches_user:
            return None
        if not submitter:
            raise NotRunnable(
                "this node runs a job as the user who submitted it, and this job has no submitter: submit it with --actor "
                "or BAILIFF_ACTOR, or set run_as: agent on the node"
            )
        name = self.names.get(submitter, submitter)
        try:
            found = pwd.getpwnam(name)
        except (KeyError, ValueError):
            raise NotRunnable(
                f"this node has no user {name[:100]!r} to run the job of {submitter[:100]!r}: "
                "create the user, or map the submitter to another one in the node's setting run_as_names"
            ) from None
        if found.pw_uid < self.lowest_uid:
            raise NotRunnable(
                f"the user {name[:100]!r} has uid {found.pw_uid}, below this node's run_as_lowest_uid {self.lowest_uid}: "
                "submit the job as another user, or lower that setting"
            )
        groups = tuple(sorted(os.getgrouplist(found.pw_name, found.pw_gid)))
        home = found.pw_dir if Path(found.pw_dir).is_dir() else "/"  # as login does it
        return User(found.pw_name, found.pw_uid, found.pw_gid, groups, home)


def allow_traversal(*folders: Path) -> None:
    """Let other users pass through these folders to their own, without listing them."""
    for folder in folders:
        folder.chmod(0o711)


def first_inaccessible(user: User, folder: Path) -> Path | None:
    """The first folder on the path to this one that the user cannot enter."""
    for each in (*reversed(folder.parents), folder):
        status = each.stat()
        if status.st_uid == user.uid:
            may = status.st_mode & stat.S_IXUSR
        elif status.st_gid in (user.gid, *user.groups):
            may = status.st_mode & stat.S_IXGRP
        else:
            may = status.st_mode & stat.S_IXOTH
        if not may:
            return each
    return None


def make_owned(folder: Path, user: User) -> None:
    """Create the folder for the user. Raises `NotRunnable` if it belongs to another user, or is a link.

    Where the agent has no permission (a network file system that maps root to nobody) the job must create it.
    """
    try:
        folder.mkdir(mode=0o700)
        handle = safe_open.open_folder(str(folder))
        try:
            if os.fstat(handle).st_uid == os.geteuid():  # still the one that was made
                os.fchown(handle, user.uid, user.gid)
        finally:
            os.close(handle)
    except PermissionError:
        return
    except (FileExistsError, NotADirectoryError):
        refuse_link(folder)
        status = folder.lstat()
        if status.st_uid != user.uid:
            raise NotRunnable(
                f"its checkpoint directory {folder} belongs to {_name(status.st_uid)}, not to {user.name}: remove it, chown it "
                f"to {user.name}, or choose another name for the job"
            ) from None


def refuse_link(folder: Path) -> None:
    """Raises `NotRunnable` if something else is in the place of the folder: a container would get what a link leads to."""
    with suppress(FileNotFoundError):
        if not stat.S_ISDIR(folder.lstat().st_mode):
            raise NotRunnable(
                f"its checkpoint directory {folder} is no folder, but a link or a file: remove it, or mount the other one there"
            ) from None


def _name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"
