"""A switch in user space between network namespaces: it drops and delays packets, in each direction between two hosts.

`python network_switch.py HOST...`, as root. Each host gets a namespace of its own, and so does the caller one interface in the
namespace it runs in. The namespaces and interfaces belong to this process: the kernel removes them when it ends, however that is.
It ends when its standard input does. First line of output: addresses and namespaces as JSON. Then each line of input is a list of
impairments, which replaces the one before; the answer is an empty line.

It does what `tc netem` and packet filters do, on kernels without them, and one way at a time. Standard library only.
"""

import contextlib
import ctypes
import fcntl
import heapq
import itertools
import json
import os
import random
import selectors
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

CLONE_NEWNET = 0x40000000
TUNSETIFF = 0x400454CA
TUN_WITHOUT_HEADER = 0x1001
NETWORKS = 256  # of 198.18.0.0/16, which is reserved for tests of network devices (RFC 2544)
MTU = 1500
BURST = 64  # packets read from one host before the next one's turn
CLIENT = "client"  # the caller's interface

_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class Impairment:
    """What happens to packets from one host to another. flap_s: lost for this long, then delivered for as long, and so on."""

    source: str
    destination: str
    loss: float = 0.0
    delay_s: float = 0.0
    jitter_s: float = 0.0
    flap_s: float = 0.0


@dataclass
class Switch:
    """Forwards packets by their destination address."""

    interfaces: dict[str, int]  # by host
    addresses: dict[bytes, str]  # hosts
    impairments: dict[tuple[str, str], Impairment] = field(default_factory=dict)
    chance: random.Random = field(default_factory=lambda: random.Random(1))
    _delayed: list[tuple[float, int, int, bytes]] = field(default_factory=list)
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def run(self) -> None:
        """Forward packets and obey lines of input until it ends."""
        with selectors.DefaultSelector() as ready:
            for host, interface in self.interfaces.items():
                os.set_blocking(interface, False)
                ready.register(interface, selectors.EVENT_READ, host)
            ready.register(sys.stdin, selectors.EVENT_READ)
            while True:
                for key, _ in ready.select(self._until_next()):
                    if key.data is None:
                        if not self._obey(sys.stdin.readline()):
                            return
                    else:
                        self._forward_from(key.data, key.fd)
                self._deliver_delayed()

    def _obey(self, line: str) -> bool:
        if not line:
            return False
        wanted = [Impairment(**each) for each in json.loads(line)]
        self.impairments = {(each.source, each.destination): each for each in wanted}
        sys.stdout.write("\n")
        sys.stdout.flush()
        return True

    def _forward_from(self, source: str, interface: int) -> None:
        for _ in range(BURST):
            try:
                packet = os.read(interface, 1 << 16)
            except BlockingIOError:
                return
            destination = self.addresses.get(packet[16:20])
            if packet[0] >> 4 == 4 and destination is not None:
                self._send(source, destination, packet)

    def _send(self, source: str, destination: str, packet: bytes) -> None:
        impairment = self.impairments.get((source, destination))
        if impairment is None:
            _write(self.interfaces[destination], packet)
            return
        now = time.monotonic()
        if impairment.flap_s and now // impairment.flap_s % 2:
            return
        if self.chance.random() < impairment.loss:
            return
        delay = impairment.delay_s + impairment.jitter_s * (2 * self.chance.random() - 1)
        heapq.heappush(self._delayed, (now + max(0.0, delay), next(self._numbers), self.interfaces[destination], packet))

    def _deliver_delayed(self) -> None:
        now = time.monotonic()
        while self._delayed and self._delayed[0][0] <= now:
            *_, interface, packet = heapq.heappop(self._delayed)
            _write(interface, packet)

    def _until_next(self) -> float | None:
        return max(0.0, self._delayed[0][0] - time.monotonic()) if self._delayed else None


def _write(interface: int, packet: bytes) -> None:
    with contextlib.suppress(BlockingIOError):  # its queue is full: lost, as on a real link
        os.write(interface, packet)


def main(names: list[str]) -> None:
    """Make namespaces and interfaces, then forward."""
    outside = os.open("/proc/self/ns/net", os.O_RDONLY)
    network, client = _first_free(lambda number: _interface(CLIENT, number, 1))
    interfaces, namespaces = {CLIENT: client}, {}
    for number, name in enumerate(names, 2):
        _checked(_libc.unshare(CLONE_NEWNET), "make a network namespace")
        namespaces[name] = os.open("/proc/self/ns/net", os.O_RDONLY)
        interfaces[name] = _interface(name, network, number)
        _checked(_libc.setns(outside, CLONE_NEWNET), "return from a network namespace")
    hosts = {name: f"198.18.{network}.{number}" for number, name in enumerate([CLIENT, *names], 1)}
    paths = {name: f"/proc/{os.getpid()}/fd/{namespace}" for name, namespace in namespaces.items()}
    sys.stdout.write(json.dumps({"addresses": hosts, "namespaces": paths}) + "\n")
    sys.stdout.flush()
    by_address = {bytes(map(int, address.split("."))): name for name, address in hosts.items()}
    Switch(interfaces, by_address).run()


def _first_free(make: Callable[[int], int]) -> tuple[int, int]:
    """The first network that no other process uses, and the caller's interface in it."""
    first = os.getpid() % NETWORKS
    for number in (*range(first, NETWORKS), *range(first)):
        try:
            return number, make(number)
        except FileExistsError:
            continue
    raise OSError("all networks of 198.18.0.0/16 are in use")


def _interface(name: str, network: int, number: int) -> int:
    """A point-to-point interface of the namespace of this thread, up, with an address; its file."""
    label = f"bailiff{network}" if name == CLIENT else "eth0"
    tun = os.open("/dev/net/tun", os.O_RDWR)
    try:
        fcntl.ioctl(tun, TUNSETIFF, struct.pack("16sH22x", label.encode(), TUN_WITHOUT_HEADER))
    except OSError as error:
        os.close(tun)
        raise FileExistsError(label) from error
    if name != CLIENT:
        _ip("link", "set", "lo", "up")
    _ip("link", "set", label, "mtu", str(MTU), "up")
    _ip("address", "add", f"198.18.{network}.{number}/24", "dev", label)
    return tun


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True)


def _checked(result: int, what: str) -> None:
    if result:
        number = ctypes.get_errno()
        raise OSError(number, f"cannot {what}: {os.strerror(number)}")


if __name__ == "__main__":
    main(sys.argv[1:])
