"""The node agent's service: one agent per declared node, one link for all of them."""

import asyncio
from collections.abc import Awaitable, Mapping
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from bailiff_bus.port import Bus
from bailiff_log.keys import KeyFileError
from bailiff_service.clock_and_ids import ClockAndIds
from bailiff_service.exit_code import ExitCode, MustStop
from bailiff_service.metrics import Metrics
from bailiff_service.race import race

from .agent import Agent
from .agent_context import AgentContext
from .attach import AttachServer
from .checkpoints import shared_identity
from .command_trust import CommandTrust
from .credentials import NodeCredentials, read_node_credentials
from .devices import DeviceInventory, NoDriver, check_count, inventory_plugin
from .disk import AgentLock, FolderInUse, FolderStorage, MemoryStorage, Storage, new_incarnation
from .kubernetes_discovery import Discovery
from .kubernetes_node import KubernetesNode, NodeOfApi, NodeOfKubelet
from .link import Link
from .log_shipper import remove_ended_logs, rotate_logs, ship_logs
from .runtime import NodeParts, open_runtimes
from .runtime.kubernetes.cluster_view import ClusterNode, ClusterView
from .runtime.kubernetes.published import PublishedDevices
from .settings import SNAPSHOTS, NodeAgentSettings, NodeDeclaration
from .snapshots import DiskImages, find_criu
from .telemetry import send_telemetry
from .users import Users, allow_traversal


class NodeAgentService:
    """All nodes of this process."""

    name = "node-agent"

    def __init__(self, settings: NodeAgentSettings, metrics: Metrics, bus: Bus, clock_and_ids: ClockAndIds) -> None:
        self._settings, self._metrics, self._bus, self._clock_and_ids = settings, metrics, bus, clock_and_ids
        self._link = Link(bus, clock_and_ids, settings.heartbeat_s)
        self._adopted: str | None = "tasks are being adopted"
        access = settings.kubernetes
        self._cluster = ClusterView(access.kubeconfig, access.gpu_resource) if access.api_only else None
        self._is_locked = False

    def readiness(self) -> Mapping[str, str | None]:
        """Ready once every node's tasks are adopted and Kafka is connected."""
        return {"adopted": self._adopted, **self._link.readiness()}

    async def run(self, stop: asyncio.Event) -> None:
        """Run until `stop` is set. Tasks continue without the agent."""
        attach_server = AttachServer(self._settings.attach_listen, self._settings.attach_address)
        with ExitStack() as locks:
            if self._cluster is not None:
                await self._cluster.open()
            agents: list[Agent] = []

            async def add(node: NodeDeclaration) -> Agent:
                agent = await self._adopted_agent(node, locks, attach_server)
                agents.append(agent)
                return agent

            for node in (each for declared in self._settings.nodes for each in declared.each()):
                await add(node)
            works: list[Awaitable[object]] = []
            if self._cluster is not None:
                discovery = Discovery(self._cluster, self._settings.nodes)
                for node in discovery.new():
                    await add(node)
                works += [self._cluster.run(), discovery.run(add)]
            self._adopted = None
            works += [*(agent.run() for agent in agents), self._link.run()]
            if self._settings.log_bytes and self._settings.durable:
                works.append(rotate_logs(agents, self._settings.log_bytes))
            if self._settings.durable and (self._settings.ended_log_days or self._settings.ended_log_bytes):
                works.append(remove_ended_logs(agents, self._settings.ended_log_days, self._settings.ended_log_bytes))
            if self._settings.ship_logs:
                works.append(ship_logs(self._bus, agents))
            if self._settings.telemetry_s:
                works.append(send_telemetry(self._bus, agents, self._settings.telemetry_s, self._clock_and_ids))
            try:
                await race(*works, stop.wait())
            finally:
                await attach_server.close()
                await self._bus.close()

    async def _adopted_agent(self, node: NodeDeclaration, locks: ExitStack, attach_server: AttachServer) -> Agent:
        context = self._context(node, locks)
        has_reports = partial(self._link.has_reports, node.pool, node.name)
        agent = Agent(context, self._clock_and_ids, self._metrics, has_reports, attach_server)
        if context.kubernetes is not None:
            await context.kubernetes.open()
        await agent.adopt()
        self._link.add(agent)
        return agent

    def _context(self, node: NodeDeclaration, locks: ExitStack) -> AgentContext:
        settings = self._settings
        folder = settings.state_dir / "node-agent" / node.pool / node.name
        shared = settings.shared_checkpoints
        checkpoints = folder / "checkpoints" if shared is None else shared / node.pool
        for part in (folder / "logs", checkpoints):
            part.mkdir(parents=True, exist_ok=True)
        users = Users(settings.run_as, settings.run_as_names, settings.run_as_lowest_uid)
        if users.switches_user:
            allow_traversal(folder, folder / "logs", *([checkpoints] if shared is None else []))
        storage: Storage = MemoryStorage()
        if settings.durable:
            try:
                locks.enter_context(self._lock(folder))
            except FolderInUse as error:
                raise MustStop(ExitCode.SETTINGS, str(error)) from None
            storage = FolderStorage(folder)
        member = self._cluster.node(node.name, folder) if self._cluster is not None else None
        if member is None:
            incarnation = new_incarnation(storage, machine_id=node.machine_id)
        else:
            incarnation = new_incarnation(storage, machine_id=member.machine_id, boot_id=member.boot_id or "unknown")
        criu = find_criu(settings.criu) if settings.durable and member is None else None
        if criu is not None:
            with suppress(OSError):  # before a job could; what is wrong with it, the first snapshot says
                (checkpoints / SNAPSHOTS).mkdir(mode=0o700)
        credentials = self._credentials(node)
        published = PublishedDevices(settings.kubernetes, node.name)
        parts = NodeParts(
            node=node.name,
            gpus=node.gpus,
            folder=folder,
            settings=settings,
            labels={"pool": node.pool, "node": node.name, "incarnation": incarnation.incarnation},
            cluster_node=member,
            published=published,
        )
        inventory = _open_inventory(parts)
        return AgentContext(
            node=node,
            inventory=inventory,
            runtimes=open_runtimes(node.runtimes, replace(parts, devices=inventory.users)),
            storage=storage,
            incarnation=incarnation,
            folder=folder.absolute(),
            credentials=credentials,
            trust=CommandTrust(storage, credentials.root_key) if credentials is not None else None,
            checkpoints=checkpoints.absolute(),
            checkpoints_identity=shared_identity(checkpoints) if shared is not None else None,
            secrets=settings.secrets_dir,
            master_address=settings.master_address,
            users=users,
            release_poll_s=settings.release_poll_s,
            release_timeout_s=settings.release_timeout_s,
            device_poll_s=settings.device_poll_s,
            kubernetes=self._kubernetes_node(node, member, published),
            is_on_node=member is None,
            criu=criu,
            images=DiskImages(folder.absolute() / "staging", credentials.decryption_key if credentials is not None else None),
        )

    def _kubernetes_node(
        self, node: NodeDeclaration, member: ClusterNode | None, published: PublishedDevices
    ) -> KubernetesNode | None:
        if member is not None:
            return NodeOfApi(member, self._settings.kubernetes)
        return NodeOfKubelet(node.name, self._settings.kubernetes, published) if "kubernetes" in node.runtimes else None

    def _lock(self, folder: Path) -> AbstractContextManager[object]:
        """One agent per folder; one process for all nodes that it does not run on, which may be very many."""
        if self._cluster is None:
            return AgentLock(folder)
        if self._is_locked:
            return nullcontext()
        self._is_locked = True
        return AgentLock(self._settings.state_dir / "node-agent")

    def _credentials(self, node: NodeDeclaration) -> NodeCredentials | None:
        """The keys of this node; None where nothing is signed. Raises `MustStop`."""
        settings = self._settings
        if settings.credentials is None:
            return None
        token = settings.enrolment_token.get_secret_value() if settings.enrolment_token is not None else None
        try:
            if settings.enrolment_token_file is not None:
                token = settings.enrolment_token_file.read_text(encoding="utf-8")
            return read_node_credentials(settings.credentials / node.name, token)
        except KeyFileError as error:
            raise MustStop(ExitCode.CREDENTIALS, f"node {node.name}: {error}") from None
        except OSError as error:
            raise MustStop(ExitCode.CREDENTIALS, f"node {node.name}: {error.filename}: {error.strerror}") from None


def _open_inventory(parts: NodeParts) -> DeviceInventory:
    try:
        inventory = inventory_plugin(parts.gpus).open(parts)
        check_count(len(inventory.list()))
    except NoDriver as error:
        raise MustStop(ExitCode.SETTINGS, f"node {parts.node}: {error}; simulate GPUs with gpus: 8xH100-80GB") from None
    except ValueError as error:
        raise MustStop(ExitCode.SETTINGS, f"node {parts.node}: {error}") from None
    return inventory
