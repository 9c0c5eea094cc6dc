"""Runs CRIU in the namespaces of a task: it sees plain processes, and neither namespaces nor mounts are part of an image.

The image folder belongs to this user alone and is opened here, below the folder of the job, through no link: its path leads
through folders of the job's user, who could put another one in its place.
"""

import contextlib
import errno
import os
import re
import signal
import stat
import time
from typing import Any

from . import safe_open
from .isolation import enter

ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
DUMP_LOG, RESTORE_LOG, INVENTORY = "dump.log", "restore.log", "inventory.img"
KILLED = 128
POLL_S, PROBED_WITHIN_S = 0.005, 60
FREE_IDS = 256  # for CRIU's own processes
FIRST_ID = 300
CORE = re.compile(r"core-(\d{1,9})\.img")


def open_image(at: dict[str, Any]) -> int:
    """A handle of the image folder. at: `folder`, `name` below it, and its `identity`. Raises `OSError`."""
    outer = safe_open.open_folder(at["folder"])
    try:
        handle = safe_open.open_folder(at["name"], outer)
    finally:
        os.close(outer)
    status = os.fstat(handle)
    if [status.st_dev, status.st_ino] != at["identity"] or status.st_uid != os.geteuid() or stat.S_IMODE(status.st_mode) & 0o077:
        os.close(handle)
        raise OSError(errno.ESTALE, "the folder of the snapshot was replaced", at["name"])
    return handle


def dump(request: dict[str, Any], init: int, main: int, cgroup: "str | None") -> int:
    """Begin to save this process and its children, whose id is that in the namespaces of `init`; they stay stopped, or go on.

    cgroup: the task's. From another one, CRIU (4.2) would note that of each thread, and wait at the restore, for ever, for its
    own helper that moves threads, which does not run where cgroups are to be left alone.

    Returns the pid of who waits for CRIU; its exit code is CRIU's, or 128 plus the signal that ended it.
    """
    image = open_image(request)
    pid = os.fork()
    if pid:
        os.close(image)
        return pid
    try:
        if cgroup is not None:
            with open(f"{cgroup}/cgroup.procs", "w") as group:
                group.write("0")
        enter(init)
        after = "--leave-running" if request.get("goes_on") else "--leave-stopped"
        arguments = ["dump", "--tree", str(main), after, "--log-file", DUMP_LOG, *_connected(request)]
        code = os.waitstatus_to_exitcode(os.waitpid(_run(request["criu"], arguments, image), 0)[1])
        os._exit(code if code >= 0 else KILLED - code)
    finally:
        os._exit(1)


def restore(how: dict[str, Any], image: int, work: int, held: "dict[str, int]") -> int:
    """Restore in the namespaces of this process, as its children. CRIU's exit code, negative for a signal. Raises `TimeoutError`.

    work: folder of CRIU's own log. held: handles for the paths that were open and are others now: log, control directory.
    """
    with open("/proc/sys/kernel/ns_last_pid", "w") as file:
        file.write(str(_before_free_ids(image)))
    os.set_inheritable(work, True)
    arguments = ["restore", "--restore-detached", "--restore-sibling", "--work-dir", f"/proc/self/fd/{work}"]
    arguments += ["--log-file", RESTORE_LOG, *_connected(how)]
    for path, handle in held.items():
        os.set_inheritable(handle, True)
        arguments += ["--inherit-fd", f"fd[{handle}]:{path.lstrip('/')}"]
    code = _ended_within(_run(how["criu"], arguments, image), how.get("within_s", 0) or PROBED_WITHIN_S)
    for handle in held.values():
        os.close(handle)
    return code


def _ended_within(pid: int, seconds: int) -> int:
    """The exit code. After that time everything in this namespace is killed. Raises `TimeoutError`."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        time.sleep(POLL_S)
    with contextlib.suppress(ProcessLookupError):
        os.kill(-1, signal.SIGKILL)
    with contextlib.suppress(ChildProcessError):
        while True:
            os.wait()
    raise TimeoutError(f"it was not restored within {seconds} s")


def _run(program: str, arguments: list[str], image: int) -> int:
    pid = os.fork()
    if pid:
        return pid
    try:
        os.chdir("/")
        os.set_inheritable(image, True)
        common = ["--images-dir", f"/proc/self/fd/{image}", "--manage-cgroups=ignore"]
        os.execve(program, [program, *arguments, *common], ENVIRONMENT)  # noqa: S606 - no shell
    finally:
        os._exit(127)


def _connected(about: dict[str, Any]) -> list[str]:
    """For a task with connections to others of its job."""
    return ["--tcp-established", "--network-lock=nftables"] if about.get("connections") else []


def _before_free_ids(image: int) -> int:
    """An id after which none that the image has follows for a while."""
    taken = sorted({int(found[1]) for name in os.listdir(image) if (found := CORE.fullmatch(name))})
    at = FIRST_ID
    for each in taken:
        if each > at + FREE_IDS:
            break
        at = max(at, each)
    return at
