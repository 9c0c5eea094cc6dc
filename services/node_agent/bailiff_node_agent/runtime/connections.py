"""TCP connections among a job's own tasks on one machine: a snapshot can bring back both ends.

CRIU locks a connection that it saves by a table of nftables, so that neither end sees the other one go, and removes that table
when this end is restored. Where nothing is restored, the lock is removed here.
"""

import ctypes
import os
import re
import shutil
import socket
import subprocess
from collections.abc import Iterable
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path

from .supervisor.criu import ENVIRONMENT

Connection = tuple[str, int, str, int]
"""Address and port of this end, and of the other one."""
NOT_OPEN = ("07", "0A")  # closed, listening
TABLE = re.compile(r"^table inet (CRIU-([0-9a-f-]+))$", re.MULTILINE)
RUN_ID = re.compile(rb"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
WITHIN_S, GONE = 10.0, "No such file or directory"
TCP_REPAIR, SYS_PIDFD_GETFD = 19, 438


def among(own: Iterable[int], job: Iterable[int]) -> list[Connection]:
    """The connections of these processes, if all of them can be saved: both ends belong to these processes of the job."""
    sockets, mates = _sockets(own), _sockets(job)
    known = _connections(sockets)
    if not sockets or shutil.which("nft", path=ENVIRONMENT["PATH"]) is None:
        return []
    ends = {connection for inode, connection in known.items() if inode in mates}
    found = [connection for inode, connection in known.items() if inode in sockets]
    return sorted(found) if all((*each[2:], *each[:2]) in ends for each in found) else []


def unlock(connections: Iterable[Connection]) -> None:
    """Remove the locks of these connections. Raises `OSError`."""
    wanted = [f"{local} . {port} . {remote} . {other}" for local, port, remote, other in connections]
    for name, _ in _tables() if wanted else ():
        rules = _nft("list", "table", "inet", name)
        if any(re.search(rf"(?<![\w.:]){re.escape(each)}(?!\d)", rules) for each in wanted):
            _nft("delete", "table", "inet", name)


def let_go_on(connections: Iterable[Connection], pids: Iterable[int]) -> None:
    """Let these processes go on with the connections that were saved, which are locked and in repair. Raises `OSError`."""
    wanted: list[Connection] = [(local, port, remote, other) for local, port, remote, other in connections]
    if not wanted:
        return
    unlock(wanted)
    handles = _handles(pids)
    known = _connections({inode: pid for inode, (pid, _) in handles.items()})
    for inode, (pid, number) in handles.items():
        if known.get(inode) in wanted:
            with suppress(ProcessLookupError), _socket_of(pid, number) as ours:
                ours.setsockopt(socket.IPPROTO_TCP, TCP_REPAIR, 0)


def unlock_saved(inventory: bytes) -> None:
    """Remove the lock that belongs to the saved state with this inventory. Raises `OSError`."""
    runs = [each.decode() for each in RUN_ID.findall(inventory)]
    for name, run in _tables() if runs else ():
        if any(each.startswith(run) for each in runs):
            _nft("delete", "table", "inet", name)


def _tables() -> list[tuple[str, str]]:
    """Locks of CRIU: their names, and the beginning of the id of the run that made them."""
    try:
        listed = _nft("list", "tables")
    except OSError:  # who may not list them has made none
        listed = ""
    return [(found[1], found[2]) for found in TABLE.finditer(listed)]


def _nft(*arguments: str) -> str:
    program = shutil.which("nft", path=ENVIRONMENT["PATH"])
    if program is None:
        return ""
    try:
        done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False, timeout=WITHIN_S)
    except subprocess.TimeoutExpired as problem:
        raise OSError(str(problem)) from None
    if done.returncode and GONE not in done.stderr:  # the other end of the connection may have removed it meanwhile
        raise OSError(done.stderr[:300])
    return done.stdout


def _socket_of(pid: int, number: int) -> socket.socket:
    """The process's socket. Raises `OSError`."""
    process = os.pidfd_open(pid)
    try:
        handle = int(ctypes.CDLL(None, use_errno=True).syscall(SYS_PIDFD_GETFD, process, number, 0))
    finally:
        os.close(process)
    if handle < 0:
        raise OSError(ctypes.get_errno(), "a socket of the task cannot be reached")
    return socket.socket(fileno=handle)


def _sockets(pids: Iterable[int]) -> dict[int, int]:
    """Inodes of their sockets, with a process that has it."""
    return {inode: pid for inode, (pid, _) in _handles(pids).items()}


def _handles(pids: Iterable[int]) -> dict[int, tuple[int, int]]:
    """Inodes of their sockets, with a process that has it, and its number there."""
    found = {}
    for pid in pids:
        with suppress(OSError):
            for each in Path(f"/proc/{pid}/fd").iterdir():
                with suppress(OSError):
                    if (target := str(each.readlink())).startswith("socket:["):
                        found[int(target[8:-1])] = pid, int(each.name)
    return found


def _connections(sockets: dict[int, int]) -> dict[int, Connection]:
    """By inode, all TCP connections in the network of these sockets."""
    found = {}
    pid = next(iter(sockets.values()), None)
    for name in ("tcp", "tcp6") if pid is not None else ():
        with suppress(OSError):
            for line in Path(f"/proc/{pid}/net/{name}").read_text(encoding="ascii").splitlines()[1:]:
                fields = line.split()
                if fields[3] not in NOT_OPEN:
                    found[int(fields[9])] = (*_address(fields[1]), *_address(fields[2]))
    return found


def _address(text: str) -> tuple[str, int]:
    """As /proc writes it: words in the order of this machine's bytes."""
    host, port = text.split(":")
    packed = b"".join(bytes.fromhex(host[at : at + 8])[::-1] for at in range(0, len(host), 8))
    if len(packed) == 4:
        return str(IPv4Address(packed)), int(port, 16)
    address = IPv6Address(packed)
    return str(address.ipv4_mapped or address), int(port, 16)
