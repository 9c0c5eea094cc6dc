"""Hosts in network namespaces of a test's own, whose links the test cuts, flaps, slows down, and heals.

`Network` starts the switch (network_switch.py). `NetworkSystem` is a system whose brokers and services are on such hosts, one
process each, as on machines of their own; the test itself is the host `client`. It needs root, `ip` and /dev/net/tun.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.kits import network_switch
from tests.kits.network_switch import Impairment
from tests.kits.survival import LogChecker
from tests.kits.system import PATIENCE_S, System, Watch

from bailiff_bus.kafka_settings import KafkaSettings
from bailiff_bus.port import BusUnavailable
from bailiff_core.model.state import PoolState
from bailiff_devstack.kafka_cluster import KafkaCluster
from bailiff_devstack.stack import Plan, Stack

BROKERS = ("broker-1", "broker-2", "broker-3")
VICTIM, PREEMPTOR = "node-agent", "node-agent-2"
ADMISSIONS = ("admission", "admission-2")
SERVICES = (*ADMISSIONS, "victim-selection", "eviction-executor", VICTIM, PREEMPTOR)
POOL = "pool-a"
REQUEST_TIMEOUT_MS = 4000
NODES = {VICTIM: f"{POOL}-0", PREEMPTOR: f"{POOL}-1"}


class Network:
    """Hosts by name, and the links between them, until `close`."""

    def __init__(self, hosts: Sequence[str]) -> None:
        self._switch = subprocess.Popen(
            [sys.executable, "-I", "-S", network_switch.__file__, *hosts],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._switch.stdout is not None
        described = json.loads(self._switch.stdout.readline() or "{}")
        self.addresses: dict[str, str] = described["addresses"]
        self._namespaces: dict[str, str] = described["namespaces"]

    def enter(self, host: str) -> tuple[str, ...]:
        """The beginning of a command that runs on this host."""
        return ("nsenter", f"--net={self._namespaces[host]}")

    def impair(self, impairments: Iterable[Impairment]) -> None:
        """Impair these links, and no others."""
        assert self._switch.stdin is not None
        assert self._switch.stdout is not None
        self._switch.stdin.write(json.dumps([vars(each) for each in impairments]) + "\n")
        self._switch.stdin.flush()
        self._switch.stdout.readline()

    def heal(self) -> None:
        """No link is impaired."""
        self.impair([])

    def others(self, host: str) -> list[str]:
        """All hosts but this one, and the test itself."""
        return [other for other in self.addresses if other != host]

    def close(self) -> None:
        """End the switch, and with it all namespaces and interfaces."""
        assert self._switch.stdin is not None
        assert self._switch.stdout is not None
        self._switch.stdin.close()
        self._switch.wait(60)
        self._switch.stdout.close()


def cut(network: Network, host: str) -> list[Impairment]:
    """No packet from or to this host arrives."""
    return [*cut_one_way(network, host), *(Impairment(other, host, loss=1) for other in network.others(host))]


def cut_one_way(network: Network, host: str) -> list[Impairment]:
    """No packet from this host arrives, and all to it do."""
    return [Impairment(host, other, loss=1) for other in network.others(host)]


def flapping(network: Network, host: str) -> list[Impairment]:
    """The host's link is down for a second, up for a second, and so on."""
    return [replace_all(each, flap_s=1.0) for each in cut(network, host)]


def slow_and_lossy(network: Network, host: str) -> list[Impairment]:
    """Each packet from or to this host takes 150 to 250 ms, and one in twenty is lost."""
    return [replace_all(each, loss=0.05, delay_s=0.2, jitter_s=0.05) for each in cut(network, host)]


def replace_all(impairment: Impairment, **values: float) -> Impairment:
    """An impairment of the same link with only these effects."""
    return Impairment(impairment.source, impairment.destination, **values)


class NetworkStack(Stack):
    """Each service on the host of its name, with a state folder of its own."""

    def __init__(self, folder: Path, plan: Plan, network: Network, **rest: Any) -> None:
        self._network = network
        super().__init__(folder, plan, **rest)

    def host(self, process: str) -> str:
        """The address of its host."""
        return self._network.addresses[process]

    def enter(self, process: str) -> Sequence[str]:
        """The beginning of its command."""
        return self._network.enter(process)

    def environment(self, process: str, port: int) -> dict[str, str]:
        """Its settings."""
        settings = super().environment(process, port)
        if process not in NODES:  # the tests look for agents' folders in the common one
            settings["BAILIFF_STATE_DIR"] = str(self.folder / "state" / process)
        return settings


class NetworkCluster(KafkaCluster):
    """Three brokers, each on a host of its own."""

    def __init__(self, folder: Path, network: Network) -> None:
        super().__init__(folder, hosts=[(network.addresses[name], network.enter(name)) for name in BROKERS])

    def settings(self, role: str) -> KafkaSettings:
        """Connection settings with a short request timeout: the default one is longer than a cut lasts."""
        return super().settings(role).model_copy(update={"request_timeout_ms": REQUEST_TIMEOUT_MS})


class PatientWatch(Watch):
    """A client that continues after an outage: the broker that it reads from may be the one that is cut off."""

    async def until(self, what: str, condition: Callable[[PoolState], bool], within_s: float = PATIENCE_S) -> None:
        """Read the log until the condition holds on the state."""
        deadline = time.monotonic() + within_s
        while True:
            try:
                return await super().until(what, condition, deadline - time.monotonic())
            except BusUnavailable:
                if time.monotonic() > deadline:
                    raise


class NetworkSystem(System):
    """Three brokers, two admissions, and two agents with eight GPUs each, and each process on a host of its own."""

    watch_kind = PatientWatch

    def __init__(self, folder: Path) -> None:
        self.network = Network([*BROKERS, *SERVICES])
        kafka = NetworkCluster(folder / "brokers", self.network)
        super().__init__(folder / "system", kafka=kafka, pools={POOL: len(NODES)})
        self.services = SERVICES  # type: ignore[assignment]
        self.stack = NetworkStack(self.folder, self.stack.plan, self.network, progress=print, kafka=kafka)
        self.checker = LogChecker()

    def stop(self) -> None:
        """End everything that this system started, and its network."""
        try:
            self.network.heal()
            super().stop()
        finally:
            self.network.close()

    def start_service(self, name: str) -> None:
        """Start or restart the service on its host."""
        service = name.removesuffix("-2")
        node = {"name": NODES.get(name, ""), "pool": POOL, "gpus": "8xH100-80GB"}
        env = {"BAILIFF_NODES": json.dumps([node])} if name in NODES else {}
        self.stack.start_service(service, replica=name.removeprefix(service), env=env)


def skip_without_namespaces() -> None:
    """Skip the test where network namespaces cannot be made, with the reason."""
    if os.geteuid() != 0:
        pytest.skip("only root may make network namespaces")
    for program in ("ip", "nsenter"):
        if shutil.which(program) is None:
            pytest.skip(f"no network namespaces: `{program}` is not installed")
    if not Path("/dev/net/tun").exists():
        pytest.skip("no network interfaces in user space: /dev/net/tun does not exist")
    probed = subprocess.run(["unshare", "--net", "true"], capture_output=True, text=True, check=False)
    if probed.returncode:
        pytest.skip(f"no network namespaces: {probed.stderr.strip()}")
