"""A job that is root, and looks for a secret in every process that it sees, as each of their users: `python prying_job.py WHAT…`.

Each argument is a path below a process's folder in /proc, or `PROC=` and a further /proc, or `PID=` and a process to signal, or
`AFTER=` and a file that it waits for. It prints what it has read, and whom it could signal.
"""

import ctypes
import os
import sys
import time
from pathlib import Path

CAPABILITY_VERSION = 0x2008_0522
LIBC = ctypes.CDLL(None, use_errno=True)


class Header(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class Sets(ctypes.Structure):
    _fields_ = (("effective", ctypes.c_uint32), ("permitted", ctypes.c_uint32), ("inheritable", ctypes.c_uint32))


def become(uid: int, gid: int) -> None:
    """This user to /proc, which asks whose process it is, and still root to files."""
    LIBC.setfsgid(gid)
    LIBC.setfsuid(uid)
    header, sets = Header(CAPABILITY_VERSION, 0), (Sets * 2)()
    LIBC.capget(ctypes.byref(header), sets)
    for each in sets:
        each.effective = each.permitted
    LIBC.capset(ctypes.byref(header), sets)


def pry(process: str, paths: list[str]) -> None:
    status = dict(line.split(":\t", 1) for line in Path(process, "status").read_text().splitlines() if ":\t" in line)
    become(int(status["Uid"].split()[0]), int(status["Gid"].split()[0]))
    try:
        found = [*paths, *(f"fd/{handle.name}" for handle in Path(process, "fd").iterdir())]
    except OSError:
        found = paths
    for path in found:
        try:
            handle = os.open(f"{process}/{path}", os.O_RDONLY | os.O_NONBLOCK)
            print(path, os.read(handle, 1 << 16))
        except OSError:
            continue
    become(0, 0)


def main() -> None:
    given = [argument.partition("=") for argument in sys.argv[1:]]
    paths = [name for name, separator, _ in given if not separator]
    for file in [value for name, _, value in given if name == "AFTER"]:
        while not Path(file).exists():
            time.sleep(0.05)
    for proc in ["/proc", *(value for name, _, value in given if name == "PROC")]:
        for pid in filter(str.isdecimal, (each.name for each in Path(proc).iterdir())):
            if int(pid) != os.getpid():
                try:
                    pry(f"{proc}/{pid}", paths)
                except OSError:
                    become(0, 0)
    for pid in (int(value) for name, _, value in given if name == "PID"):
        try:
            os.kill(pid, 0)
            print("could signal", pid)
        except OSError:
            continue
    print("has looked")


if __name__ == "__main__":
    main()
