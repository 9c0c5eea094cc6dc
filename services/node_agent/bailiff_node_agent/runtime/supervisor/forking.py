"""Forks a process for each request, so that a program is imported once and started many times.

The server's end; the other one is `runtime/fork_server.py`. The server has one thread, so that forking is safe, and exits when
the other end closes. Its children run on.
"""

import contextlib
import ctypes
import gc
import json
import os
import select
import signal
import socket
import struct
import sys
from typing import Any

from .processes import read_process

REQUEST_BYTES = 128 * 1024
MAX_HANDLES = 8
STATUS = struct.Struct("i")  # how a child exited: its code, negative for a signal
TITLE_ROOM = 8192


def serve(requests: socket.socket) -> "tuple[dict[str, Any], list[int]]":
    """Serve requests. Returns in each child, with the content of its request and the handles that came with it."""
    gc.collect()
    gc.freeze()  # a collection in a child would write to pages that all of them share
    woken, wakes = socket.socketpair()
    woken.setblocking(False)
    wakes.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wakes.fileno(), warn_on_full_buffer=False)
    statuses: dict[int, int] = {}
    while True:
        readable, _, _ = select.select([requests, woken], [], [])
        if woken in readable:
            with contextlib.suppress(BlockingIOError):
                woken.recv(4096)
            _reap(statuses)
        if requests not in readable:
            continue
        data, handles, _, _ = socket.recv_fds(requests, REQUEST_BYTES, MAX_HANDLES)
        if not data:
            os._exit(0)
        for handle in handles:
            os.set_inheritable(handle, False)
        status, *handles = handles
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for end in (requests, woken, wakes):
                end.close()
            for handle in (status, *statuses.values()):
                os.close(handle)
            os.setsid()
            return json.loads(data), handles
        for handle in handles:
            os.close(handle)
        statuses[pid] = status
        child = read_process(pid)  # it is not reaped yet, so the pid is its own; None if it has exited
        requests.send(json.dumps([pid, child.started if child else 0]).encode())


def _reap(statuses: "dict[int, int]") -> None:
    """Tell the other end how each child that has exited did so."""
    while statuses:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        handle = statuses.pop(pid)
        with contextlib.suppress(BrokenPipeError):  # nobody waits for it
            os.write(handle, STATUS.pack(os.waitstatus_to_exitcode(status)))
        os.close(handle)


def set_command(*arguments: str) -> None:
    """Show these arguments as this process's command (/proc/PID/cmdline), as far as the memory of the original ones suffices."""
    with open("/proc/self/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    start, end = int(fields[45]), int(fields[46])
    text = b"\0".join(map(os.fsencode, arguments))[: end - start - 1]
    ctypes.memmove(start, text.ljust(end - start, b"\0"), end - start)


def requests_socket() -> socket.socket:
    """The socket whose handle is the first argument of this program."""
    requests = socket.socket(fileno=int(sys.argv[1]))
    requests.set_inheritable(False)
    return requests
