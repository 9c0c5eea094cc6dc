"""Programs that use a device on behalf of all tasks, such as the MPS server. Any program can take their name, so what they are
trusted with depends on who runs them.
"""

from pathlib import Path

SYSTEM_PROGRAMS = ("nvidia-cuda-mps", "nvidia-persiste", "nv-hostengine", "dcgm", "Xorg", "gnome-shell")
"""By the first 15 characters of their name."""


def process_name(pid: int) -> str:
    """The first 15 characters of the program's name; empty if the process has exited or is of another PID namespace."""
    try:
        return Path(f"/proc/{pid}/comm").read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def is_system_program(pid: int) -> bool:
    """Whether the process has the name of one."""
    return process_name(pid).startswith(SYSTEM_PROGRAMS)


def is_of_system(pid: int) -> bool:
    """Whether root runs it, or an MPS daemon of root has started it for its clients' user: no job of another user can be it."""
    return is_system_program(pid) and (_owner(pid) == 0 or _is_roots_server(pid))


def _is_roots_server(pid: int) -> bool:
    parent = _parent(pid)
    return parent is not None and is_system_program(parent) and _owner(parent) == 0


def _owner(pid: int) -> int | None:
    try:
        return Path(f"/proc/{pid}").stat().st_uid
    except OSError:
        return None


def _parent(pid: int) -> int | None:
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
        return int(stat[stat.rindex(b")") + 2 :].split()[1])
    except (OSError, ValueError):
        return None
