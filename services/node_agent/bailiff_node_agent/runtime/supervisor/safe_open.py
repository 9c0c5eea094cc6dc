"""Opens what a job may have put in place: beneath a folder, through no link and no mount, and only regular files.

A pipe, a device or a lease of the job's keeps nobody waiting: what is found is looked at before it is opened, and opened without
blocking. docs/concepts/job-files.md lists who reads what. (Only the standard library: a supervisor imports no Bailiff package.)
"""

import contextlib
import ctypes
import errno
import os
import stat
from collections.abc import Iterator
from functools import cache

FOLDER = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
LOOK = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
SYS_OPENAT2 = 437
NO_MOUNTS, NO_MAGIC_LINKS, NO_LINKS, BENEATH = 1, 2, 4, 8


def read(folder: "str | int", name: str, most: int) -> bytes:
    """The content of a regular file below the folder. Raises `OSError`: EFBIG where it is longer than so many bytes."""
    handle = open_file(folder, name)
    with os.fdopen(handle, "rb", buffering=0) as file:
        content = bytearray()
        while part := file.read(most + 1 - len(content)):  # nothing once there is more than permitted
            content += part
    if len(content) > most:
        raise OSError(errno.EFBIG, f"it is longer than {most} bytes", name)
    return bytes(content)


def open_file(folder: "str | int", name: str, flags: int = os.O_RDONLY) -> int:
    """A handle of the regular file at this path below the folder. Raises `OSError`."""
    with _looking_at(folder, name) as handle:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(errno.EINVAL, "it is no regular file", name)
        return os.open(f"/proc/self/fd/{handle}", flags | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)


def open_log(path: str) -> int:
    """A handle to append to a log, which is made where it is missing. Raises `OSError`."""
    with contextlib.suppress(FileExistsError):
        return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    folder, name = os.path.split(path)
    handle = open_file(folder, name, os.O_WRONLY | os.O_APPEND)
    os.set_blocking(handle, True)
    return handle


def exists(folder: str, name: str) -> bool:
    """Whether there is something of this name, whatever it is; no link is followed."""
    try:
        with _looking_at(folder, name):
            return True
    except OSError:
        return False


def set_mode(folder: "str | int", name: str, mode: int) -> None:
    """Of a regular file or socket; if a link has taken its place, nothing that it leads to changes. Raises `OSError`."""
    with _looking_at(folder, name) as handle:
        kind = os.fstat(handle).st_mode
        if not (stat.S_ISREG(kind) or stat.S_ISSOCK(kind)):
            raise OSError(errno.EINVAL, "it is neither a file nor a socket", name)
        os.chmod(f"/proc/self/fd/{handle}", mode)


def open_folder(name: "str | bytes", dir_fd: "int | None" = None) -> int:
    """A handle to list a folder; below another one without crossing a mount. Raises `OSError`."""
    if dir_fd is None:
        return os.open(name, os.O_RDONLY | FOLDER)
    return _open_beneath(dir_fd, os.fsencode(name), os.O_RDONLY | FOLDER)


@contextlib.contextmanager
def _looking_at(folder: "str | int", name: str) -> "Iterator[int]":
    """A handle that says what is there, and has opened nothing."""
    outer = os.open(folder, os.O_PATH | FOLDER) if isinstance(folder, str) else os.dup(folder)
    try:
        handle = _open_beneath(outer, os.fsencode(name), LOOK)
    finally:
        os.close(outer)
    try:
        yield handle
    finally:
        os.close(handle)


class _How(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


def _open_beneath(folder: int, path: bytes, flags: int) -> int:
    if not _has_openat2():
        return _open_each(folder, path, flags)
    return _openat2(folder, path, flags, NO_MOUNTS | NO_MAGIC_LINKS | NO_LINKS | BENEATH)


def _openat2(folder: int, path: bytes, flags: int, resolve: int) -> int:
    how = _How(flags, 0, resolve)
    handle = int(_libc().syscall(SYS_OPENAT2, folder, path, ctypes.byref(how), ctypes.sizeof(how)))
    if handle < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), os.fsdecode(path))
    return handle


def _open_each(folder: int, path: bytes, flags: int) -> int:
    """The same step by step, where the kernel is older than Linux 5.6 or a container's filter forbids the call."""
    device, at = os.fstat(folder).st_dev, os.dup(folder)
    parts = path.split(b"/")
    for number, part in enumerate(parts, start=1):
        try:
            if part in (b"", b".."):
                raise OSError(errno.EXDEV, "it is not beneath the folder", os.fsdecode(path))
            inner = os.open(part, flags | os.O_NOFOLLOW if number == len(parts) else os.O_PATH | FOLDER, dir_fd=at)
        finally:
            os.close(at)
        at = inner
        if os.fstat(at).st_dev != device:
            os.close(at)
            raise OSError(errno.EXDEV, "it is another file system", os.fsdecode(path))
    return at


@cache
def _libc() -> ctypes.CDLL:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.argtypes = (ctypes.c_long, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_size_t)
    libc.syscall.restype = ctypes.c_long
    return libc


@cache
def _has_openat2() -> bool:
    try:
        os.close(_openat2(-100, b"/", LOOK, 0))  # -100: AT_FDCWD
    except OSError:
        return False
    return True
