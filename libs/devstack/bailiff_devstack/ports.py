"""Finds free ports on 127.0.0.1.

For servers whose port must be known beforehand. Only ports below the kernel's ephemeral range are used: a client that keeps
reconnecting to a stopped server in that range can get the server's port as its source port, connect to itself, and so
prevent the server from binding its port again.
"""

import random
import socket
from pathlib import Path

LOOPBACK = "127.0.0.1"
_FIRST = 10_240
_given: set[int] = set()
"""Ports that this process has given out: their servers may not have bound them yet."""
_EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")


def free_port() -> int:
    """A port that is not in use now. It is not reserved: bind it soon."""
    return free_ports(1)[0]


def free_ports(count: int) -> list[int]:
    """Several different free ports, each given only once by this process."""
    last = _first_ephemeral() - 1
    candidates = range(_FIRST, last) if last - _FIRST > 1_000 else range(_FIRST, 65_536)
    found: list[int] = []
    for port in random.SystemRandom().sample(candidates, k=min(len(candidates), 1_000)):
        if port not in _given and is_free(port):
            found.append(port)
            _given.add(port)
            if len(found) == count:
                return found
    raise OSError(f"no {count} free ports on 127.0.0.1")


def is_free(port: int) -> bool:
    """Whether a server could bind this port now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # Servers set this, too: a port in TIME_WAIT counts as free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _first_ephemeral() -> int:
    try:
        return int(_EPHEMERAL.read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return 32_768


def persistent_port(file: Path) -> int:
    """The port in this file. The first call chooses a free port and writes it."""
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(str(free_port()))
    port = int(file.read_text())
    _given.add(port)
    return port
