"""Hides folders and files of the agent from a task that runs as the agent's own user.

The task gets a mount namespace in which they are empty, and cgroups are read-only. Where the agent is not root, it also gets a
user namespace, in which it is the same user without privileges: it cannot undo the mounts, nor read `/proc/PID/environ` or the
memory of a process outside. A root task keeps its rights but those that would undo this, and could become any user, whose
`/proc/PID/root` leads past the mounts: it gets a PID namespace, and sees its own processes only (`init`). What is mounted on the
machine later could show either, so it does not arrive. It is no sandbox: all else of the user stays in reach.
"""

import ctypes
import os
import re
import signal
import sys
from typing import NamedTuple

CLONE_NEWNS, CLONE_NEWUSER, CLONE_NEWPID = 0x0002_0000, 0x1000_0000, 0x2000_0000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT, MS_BIND, MS_REC = 1, 2, 4, 8, 32, 4096, 16384
MS_PRIVATE, MS_SLAVE = 1 << 18, 1 << 19
PR_SET_PDEATHSIG, PR_CAPBSET_DROP = 1, 24
SPACES = (("pid", CLONE_NEWPID), ("mnt", CLONE_NEWNS))
# DAC_READ_SEARCH (opens files by handle), SYS_MODULE, SYS_RAWIO, SYS_PTRACE, SYS_ADMIN, MKNOD, PERFMON, BPF, CHECKPOINT_RESTORE
DROPPED_CAPABILITIES = (2, 16, 17, 19, 21, 27, 38, 39, 40)


def isolate(hidden: list[str], kept: list[str], read_only: "list[str] | None" = None, log: str | None = None) -> None:
    """Hide these paths from this process and its children, except the folders in `kept`, which are created where missing.

    read_only: mounts that they cannot write to, such as the cgroups, which a task would leave. log: a file that is not hidden
    either. Only in a process with one thread, before its exec, and before `drop_capabilities`. Raises `OSError`.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    for folder in kept:
        os.makedirs(folder, exist_ok=True)
    uid, gid = os.geteuid(), os.getegid()
    _call(libc.unshare, CLONE_NEWNS | (CLONE_NEWUSER if uid else 0))
    if uid:
        for name, text in (("setgroups", "deny"), ("gid_map", f"{gid} {gid} 1"), ("uid_map", f"{uid} {uid} 1")):
            with open(f"/proc/self/{name}", "w") as file:
                file.write(text)
    mounts = _mounts()
    # Where folders are mounted as they are entered, a mount that does not arrive would be an error.
    _mount(libc, None, "/", None, MS_REC | (MS_SLAVE if mounts_arrive(mounts) else MS_PRIVATE))
    paths = [os.path.realpath(path) for path in hidden if os.path.exists(path)]
    covered = _outermost({*paths, *(other for path in paths for other in _elsewhere(path, mounts))})
    handles = {path: os.open(path, os.O_PATH | os.O_DIRECTORY) for path in kept}
    if log is not None:
        handles[log] = os.open(log, os.O_PATH | os.O_NOFOLLOW)
    for path in covered:
        if os.path.isdir(path):
            _mount(libc, "tmpfs", path, "tmpfs", MS_NOSUID | MS_NODEV, "mode=755")
        else:
            _mount(libc, "/dev/null", path, None, MS_BIND)
    for path in read_only or ():
        _mount(libc, path, path, None, MS_BIND)
        _mount(libc, None, path, None, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC)
    for path, handle in handles.items():
        if not os.path.exists(path):  # it is below a hidden folder, or behind a link there
            if path == log:
                os.makedirs(os.path.dirname(path), exist_ok=True)
                os.close(os.open(path, os.O_CREAT | os.O_EXCL))
            else:
                os.makedirs(path)
            _mount(libc, f"/proc/self/fd/{handle}", path, None, MS_BIND | MS_REC)
        os.close(handle)
    for path in filter(os.path.isdir, covered):
        _mount(libc, None, path, None, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV)


def drop_capabilities() -> None:
    """With its exec, a root process loses the rights that would undo `isolate`. Raises `OSError`."""
    if os.geteuid():
        return
    libc = ctypes.CDLL(None, use_errno=True)
    with open("/proc/sys/kernel/cap_last_cap") as file:
        last = int(file.read())
    for capability in DROPPED_CAPABILITIES:
        if capability <= last:
            _call(libc.prctl, PR_CAPBSET_DROP, capability, 0, 0, 0)


def fork_as_init() -> int:
    """As `os.fork`: a process that is the first one of a new PID namespace, and is killed with this one. Raises `OSError`."""
    libc = ctypes.CDLL(None, use_errno=True)
    own = os.open("/proc/self/ns/pid", os.O_RDONLY)
    _call(libc.unshare, CLONE_NEWPID)
    try:
        pid = os.fork()
        if not pid:
            _call(libc.prctl, PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
        return pid
    finally:
        if os.getpid() != 1:
            _call(libc.setns, own, CLONE_NEWPID)  # for the processes that this one forks later
        os.close(own)


def own_mounts() -> None:
    """Mounts of its own for this process and its children; those of the machine still arrive. Raises `OSError`."""
    libc = ctypes.CDLL(None, use_errno=True)
    _call(libc.unshare, CLONE_NEWNS)
    _mount(libc, None, "/", None, MS_REC | MS_SLAVE)


def own_proc() -> None:
    """A /proc with the processes of this PID namespace, over each that is in its own mounts. Raises `OSError`."""
    libc = ctypes.CDLL(None, use_errno=True)
    for folder in dict.fromkeys(["/proc", *(each.folder for each in _mounts() if each.kind == "proc")]):
        if os.path.isdir(folder):
            _mount(libc, "proc", folder, "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)


def enter(pid: int) -> None:
    """Enter the mounts of this process, and for later forks its PID namespace. Raises `OSError`."""
    libc = ctypes.CDLL(None, use_errno=True)
    for handle, kind in [(os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY), kind) for name, kind in SPACES]:
        _call(libc.setns, handle, kind)
        os.close(handle)


def main() -> None:
    """Whether this machine permits it: exit code 0, or 1 and the reason on standard error."""
    try:
        if os.geteuid() == 0 and (pid := fork_as_init()):
            sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        isolate(["/tmp"], [])  # noqa: S108 - hidden from this process, which ends
        if os.geteuid() == 0:
            own_proc()
        drop_capabilities()
    except OSError as problem:
        sys.exit(problem.strerror)


def mounts_arrive(mounts: "list[_Mount] | None" = None) -> bool:
    """Whether jobs see what is mounted after their start: folders of this machine are mounted as they are entered (autofs).

    mounts: of this process, if they are known. A job finds none below /proc.
    """
    return any(
        each.kind == "autofs" and not _is_below(each.folder, "/proc") for each in (_mounts() if mounts is None else mounts)
    )


class _Mount(NamedTuple):
    """device: as `major:minor`. root: the folder of the file system that is mounted at `folder`. kind: of the file system."""

    device: str
    root: str
    folder: str
    kind: str


def _mounts() -> list[_Mount]:
    """Those of this process, in the order in which they lie over each other."""
    found = []
    with open("/proc/self/mountinfo", "rb") as file:
        for line in file:
            mount, _, kind = line.partition(b" - ")
            fields = [re.sub(rb"\\(\d{3})", lambda octal: bytes([int(octal[1], 8)]), each) for each in mount.split(b" ")[2:5]]
            found.append(_Mount(*map(os.fsdecode, (*fields, kind.split(b" ")[0]))))
    return found


def _elsewhere(path: str, mounts: list[_Mount]) -> list[str]:
    """Where else these mounts show this path: by a second mount of its file system, or of a part of it."""
    own = max((each for each in reversed(mounts) if _is_below(path, each.folder)), key=lambda each: len(each.folder))
    inside = _joined(own.root, os.path.relpath(path, own.folder))
    others = [each for each in mounts if each.device == own.device and _is_below(inside, each.root)]
    shown = {_joined(each.folder, os.path.relpath(inside, each.root)) for each in others} - {path}
    return [each for each in shown if os.path.exists(each) and os.path.samefile(each, path)]


def _joined(folder: str, path: str) -> str:
    return os.path.normpath(os.path.join(folder, path))


def _outermost(paths: "set[str]") -> list[str]:
    found: list[str] = []
    for path in sorted(paths):
        if not any(_is_below(path, each) for each in found):
            found.append(path)
    return found


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")


def _mount(libc: ctypes.CDLL, source: str | None, target: str, kind: str | None, flags: int, options: str | None = None) -> None:
    texts = [None if each is None else os.fsencode(each) for each in (source, target, kind, options)]
    _call(libc.mount, texts[0], texts[1], texts[2], ctypes.c_ulong(flags), texts[3])


def _call(function: "ctypes._NamedFuncPointer", *arguments: object) -> None:
    if function(*arguments):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
