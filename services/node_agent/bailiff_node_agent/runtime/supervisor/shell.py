"""A shell in the allocation of a running task, for one client: as the task's user, in its cgroup, mounts, folder and environment.

The agent starts this program with its end of a connection as standard input, and the description of the task as its argument.
The frames are those of `terminal`. The shell ends with the connection, with this program, or with the task's main process.
"""

import contextlib
import ctypes
import fcntl
import json
import os
import select
import signal
import socket
import sys
import termios
from typing import TYPE_CHECKING, Any

from .isolation import CLONE_NEWNS, CLONE_NEWPID, CLONE_NEWUSER
from .processes import read_process, scan, send
from .terminal import DEFAULT_SIZE, INPUT, OUTPUT, RESIZE, SIZE, BadFrame, Frames, frame

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_ENVIRONMENT = 8 << 20
PR_SET_PDEATHSIG, PR_CAPBSET_DROP = 1, 24
READ_BYTES, WAIT_MS = 32 * 1024, 1000
SHELLS = ("/bin/bash", "/bin/sh")


class TaskGone(Exception):
    """The task's main process has exited, or has become somebody else's."""


class Target:
    """The main process of the task, held so that its pid cannot be another's meanwhile.

    uid, gid: of the user that the agent started it as. A process that has become another user's since (by `sudo`, say) is
    refused: the shell would have rights that its job was not given.
    """

    def __init__(self, pid: int, started: int, uid: int, gid: int) -> None:
        self.uid, self.gid = uid, gid
        try:
            self.handle = os.pidfd_open(pid)
            with open(f"/proc/{pid}/status") as file:
                status = dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
            with open(f"/proc/{pid}/environ", "rb") as raw:
                pairs = raw.read(MAX_ENVIRONMENT).split(b"\0")
            self.folder = os.open(f"/proc/{pid}/cwd", os.O_PATH | os.O_DIRECTORY)
            self.spaces = [
                (os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY), flag)
                for name, flag in (("user", CLONE_NEWUSER), ("pid", CLONE_NEWPID), ("mnt", CLONE_NEWNS))
                if os.stat(f"/proc/{pid}/ns/{name}").st_ino != os.stat(f"/proc/self/ns/{name}").st_ino
            ]
        except (OSError, ValueError) as problem:
            raise TaskGone(str(problem)) from None
        now = read_process(pid)
        if now is None or now.started != started or any(int(each) != uid for each in status["Uid"].split()):
            raise TaskGone("it has exited, or is another user's")
        self.env = dict(pair.split(b"=", 1) for pair in pairs if b"=" in pair)
        self.groups = [int(each) for each in status["Groups"].split()]
        self.capabilities = int(status["CapBnd"], 16)


def run_shell(target: Target, cgroup: str, connection: socket.socket) -> None:
    """Until the shell, the task or the connection ends; then nothing of the shell's session is left."""
    master, slave = os.openpty()
    _resize(master, *DEFAULT_SIZE)
    os.fchown(slave, target.uid, target.gid)
    libc = ctypes.CDLL(None, use_errno=True)
    _enter(libc, [space for space in target.spaces if space[1] == CLONE_NEWPID])  # it counts for the fork
    pid = os.fork()
    if not pid:
        _become_shell(target, cgroup, slave, libc)
    os.close(slave)
    try:
        relay(master, connection, target.handle, os.pidfd_open(pid), lambda *size: _resize(master, *size))
    finally:
        for number in (signal.SIGHUP, signal.SIGKILL):
            for process in scan():
                if process.session == pid:
                    send(process, number)
        os.waitpid(pid, 0)


def _become_shell(target: Target, cgroup: str, slave: int, libc: ctypes.CDLL) -> None:
    """Does not return."""
    try:
        os.setsid()
        fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
        with open(f"{cgroup}/cgroup.procs", "w") as group:
            group.write("0")
        _enter(libc, [space for space in target.spaces if space[1] != CLONE_NEWPID])
        os.fchdir(target.folder)
        if os.geteuid() == 0 and not any(flag == CLONE_NEWUSER for _, flag in target.spaces):
            _limit_capabilities(libc, target.capabilities)
            os.setgroups(target.groups)
            os.setresgid(target.gid, target.gid, target.gid)
            os.setresuid(target.uid, target.uid, target.uid)
        for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        libc.prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
        for standard in (0, 1, 2):
            os.dup2(slave, standard)
        env = {b"TERM": b"xterm", **target.env}
        program = next(filter(os.path.exists, SHELLS), "/bin/sh")
        os.execve(program, [os.path.basename(program), "-i"], env)  # noqa: S606 - it is a shell
    except Exception as problem:  # noqa: BLE001 - whatever it is, this copy must end here
        os.write(slave, f"[bailiff] no shell: {problem}\r\n".encode())
    finally:
        os._exit(126)


def _enter(libc: ctypes.CDLL, spaces: list[tuple[int, int]]) -> None:
    for handle, flag in spaces:
        if libc.setns(handle, flag):
            raise OSError(ctypes.get_errno(), "its namespaces cannot be entered")


def _limit_capabilities(libc: ctypes.CDLL, bounding: int) -> None:
    with open("/proc/sys/kernel/cap_last_cap") as file:
        last = int(file.read())
    for capability in range(last + 1):
        if not bounding >> capability & 1:
            libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)


def relay(master: int, connection: socket.socket, task: int, shell: int, resize: "Callable[[int, int], None]") -> None:
    """Between a terminal and a client, until a pidfd (task, shell) or either end says that it is over.

    Who reads slowly is waited for: the shell's output then stays in its terminal.
    """
    frames, waiting, typed = Frames(), bytearray(), bytearray()
    os.set_blocking(master, False)
    connection.setblocking(False)
    poll = select.poll()
    poll.register(task, select.POLLIN)
    poll.register(shell, select.POLLIN)
    while True:
        poll.register(connection, (select.POLLOUT if waiting else 0) | (select.POLLIN if not typed else 0))
        poll.register(master, (select.POLLIN if not waiting else 0) | (select.POLLOUT if typed else 0))
        found = dict(poll.poll(WAIT_MS))
        try:
            if waiting and found.get(connection.fileno(), 0) & select.POLLOUT:
                del waiting[: connection.send(waiting)]
            if not waiting and found.get(master, 0) & (select.POLLIN | select.POLLHUP):
                shown = os.read(master, READ_BYTES)
                if not shown:  # where the terminal is an engine's connection, that says that all have closed it
                    break
                waiting += frame(OUTPUT, shown)
            if typed and found.get(master, 0) & select.POLLOUT:
                del typed[: os.write(master, typed)]
            if found.get(connection.fileno(), 0) & (select.POLLIN | select.POLLHUP | select.POLLERR) and not typed:
                data = connection.recv(READ_BYTES)
                if not data:
                    return
                for kind, content in frames.feed(data):
                    if kind == INPUT:
                        typed += content
                    elif kind == RESIZE and len(content) == SIZE.size:
                        resize(*SIZE.unpack(content))
        except BlockingIOError:
            continue
        except (OSError, BadFrame):  # of the terminal: the shell and all that it started have closed it
            break
        if task in found or (shell in found and not found.get(master, 0) & select.POLLIN and not waiting):
            break
    with contextlib.suppress(OSError):
        connection.settimeout(WAIT_MS / 1000)
        connection.sendall(waiting)


def _resize(master: int, rows: int, columns: int) -> None:
    with contextlib.suppress(OSError):
        termios.tcsetwinsize(master, (rows, columns))


def main() -> None:
    """Exit code 1, and the reason on standard error, where there is no shell."""
    about: dict[str, Any] = json.loads(sys.argv[1])
    connection = socket.socket(fileno=os.dup(0))
    os.dup2(os.open(os.devnull, os.O_RDWR), 0)
    try:
        target = Target(about["pid"], about["started"], about["uid"], about["gid"])
        run_shell(target, about["cgroup"], connection)
    except (TaskGone, OSError) as problem:
        sys.exit(str(problem))
