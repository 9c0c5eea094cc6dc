"""Wiring of the node agent: one agent per declared node, one link for all."""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Mapping
from contextlib import ExitStack
from pathlib import Path

from bailiff_bus.ambient import Ambient
from bailiff_bus.metrics import Metrics
from bailiff_bus.port import Bus
from bailiff_bus.runtime import ExitCode, MustStop
from bailiff_bus.until_first import until_first

from .agent import Agent
from .checkpoints import identity
from .devices import DeviceInventory, NoDriver, NvmlInventory, SimulatedInventory
from .devices.simulated import start_of_process
from .disk import (
    AgentLock,
    Evictions,
    Fences,
    FolderInUse,
    FolderStorage,
    MemoryStorage,
    Reports,
    Storage,
    draw_incarnation,
)
from .link import Link
from .logship import rotate_logs, ship_logs
from .machine import Machine
from .runtime import Cgroups, DeviceHolds, DockerRuntime, ProcessRuntime, Runtime, SimulatedMachine, SimulatedRuntime
from .settings import NodeAgentSettings, NodeDeclaration
from .telemetry import send_telemetry
from .users import Users, pass_through


class NodeAgentService:
    """All nodes that this process speaks for."""

    name = "node-agent"

    def __init__(self, settings: NodeAgentSettings, metrics: Metrics, bus: Bus, ambient: Ambient) -> None:
        self._settings, self._metrics, self._bus, self._ambient = settings, metrics, bus, ambient
        self._link = Link(bus, ambient, settings.heartbeat_s)
        self._adopted: str | None = "tasks are being adopted"

    def readiness(self) -> Mapping[str, str | None]:
        """Ready when every node's tasks were adopted and Kafka is reached."""
        return {"adopted": self._adopted, **self._link.readiness()}

    async def run(self, stop: asyncio.Event) -> None:
        """Until asked to stop. Tasks go on without the agent."""
        with ExitStack() as locks:
            agents = []
            for node in (each for declared in self._settings.nodes for each in declared.each()):
                machine = self._machine(node, locks)
                agent = Agent(machine, self._ambient, self._metrics, self._link.has_reports)
                await agent.adopt()
                self._link.add(agent)
                agents.append(agent)
            self._adopted = None
            works: list[Awaitable[object]] = [*(agent.run() for agent in agents), self._link.run()]
            if self._settings.log_bytes and self._settings.durable:
                works.append(rotate_logs(agents, self._settings.log_bytes))
            if self._settings.ship_logs:
                works.append(ship_logs(self._bus, agents))
            if self._settings.telemetry_s:
                works.append(send_telemetry(self._bus, agents, self._settings.telemetry_s, self._ambient))
            try:
                await until_first(*works, stop.wait())
            finally:
                await self._bus.close()

    def _machine(self, node: NodeDeclaration, locks: ExitStack) -> Machine:
        folder = self._settings.state_dir / "node-agent" / node.domain / node.name
        shared = self._settings.shared_checkpoints
        checkpoints = folder / "checkpoints" if shared is None else shared / node.domain
        for part in (folder / "logs", checkpoints):
            part.mkdir(parents=True, exist_ok=True)
        users = Users(self._settings.run_as, self._settings.run_as_names, self._settings.run_as_lowest_uid)
        if users.others:
            pass_through(folder, folder / "logs", *([checkpoints] if shared is None else []))
        storage: Storage = MemoryStorage()
        if self._settings.durable:
            try:
                locks.enter_context(AgentLock(folder))
            except FolderInUse as error:
                raise MustStop(ExitCode.SETTINGS, str(error)) from None
            storage = FolderStorage(folder)
        wanted = self._settings.cgroups and self._settings.durable
        own = hashlib.sha256(str(folder.absolute()).encode()).hexdigest()[:12]  # two agents of one name may be on one host
        cgroups = Cgroups.on_this_host(f"{node.name}-{own}", self._settings.cgroup_root) if wanted else None
        incarnation = draw_incarnation(storage, machine_id=node.machine_id)

        def docker(devices: DeviceHolds | None) -> DockerRuntime:
            return DockerRuntime(
                folder / "docker",
                devices=devices,
                engine=self._settings.docker_engine,
                network=self._settings.docker_network,
                labels={"domain": node.domain, "node": node.name, "incarnation": incarnation.incarnation},
            )

        inventory, runtimes = _parts(node, folder, cgroups, docker)
        return Machine(
            node=node,
            inventory=inventory,
            runtimes=runtimes,
            storage=storage,
            fences=Fences(storage),
            reports=Reports(storage),
            evictions=Evictions(storage),
            incarnation=incarnation,
            folder=folder.absolute(),
            checkpoints=checkpoints.absolute(),
            checkpoints_identity=identity(checkpoints) if shared is not None else None,
            secrets=self._settings.secrets_dir,
            master_address=self._settings.master_address,
            users=users,
            release_poll_s=self._settings.release_poll_s,
            release_timeout_s=self._settings.release_timeout_s,
            device_look_s=self._settings.device_look_s,
        )


def _parts(
    node: NodeDeclaration, folder: Path, cgroups: Cgroups | None, docker: Callable[[DeviceHolds | None], DockerRuntime]
) -> tuple[DeviceInventory, dict[str, Runtime]]:
    """The node's devices and runtimes. Simulated devices are told by all runtimes who holds them."""
    machine = SimulatedMachine()
    runtimes: dict[str, Runtime] = {"simulated": SimulatedRuntime(machine)}
    if node.gpus == "nvml":
        try:
            inventory: DeviceInventory = NvmlInventory()
        except NoDriver as error:
            raise MustStop(ExitCode.SETTINGS, f"node {node.name}: {error}; simulate GPUs with gpus: 8xH100-80GB") from None
        holds: DeviceHolds | None = None
    else:
        inventory = holds = _simulated(node, folder, machine)
    runtimes["process"] = ProcessRuntime(folder, devices=holds, cgroups=cgroups)
    if "docker" in node.runtimes:
        runtimes["docker"] = docker(holds)
    return inventory, runtimes


def _simulated(node: NodeDeclaration, folder: Path, machine: SimulatedMachine) -> SimulatedInventory:
    def identify(pid: int) -> int | None:
        return machine.identify(pid) or start_of_process(pid)

    try:
        simulated = SimulatedInventory(node.gpus, node.name, identify, folder / "faults.json")
    except ValueError as error:
        raise MustStop(ExitCode.SETTINGS, f"node {node.name}: {error}") from None
    machine.attach_devices(simulated)
    return simulated
