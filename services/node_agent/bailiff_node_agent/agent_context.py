"""What an agent is given: its node's devices, runtimes, folders and durable state."""

from dataclasses import dataclass, field
from pathlib import Path

from structlog.typing import FilteringBoundLogger

from bailiff_core.records.nodes import ParkingOffer, SnapshotOffer
from bailiff_service.logs import logger

from . import mps
from .command_trust import CommandTrust
from .credentials import NodeCredentials
from .devices import DeviceInventory
from .disk import EvictionStore, Fences, Incarnation, ParkingStore, Reports, Storage, renewed
from .kubernetes_node import KubernetesNode
from .report_signer import ReportSigner
from .runtime import Runtime
from .settings import SNAPSHOTS, NodeDeclaration
from .snapshots import Criu, ImageStore, cpu_features
from .users import Users


@dataclass(slots=True)
class AgentContext:
    """runtimes: by name. folder: the node's state folder.

    credentials, trust: None where nothing is signed. signer: of what this node sends.
    checkpoints: where jobs keep their checkpoints; by default below `folder`. checkpoints_identity: identifies that folder where
    nodes share it. kubernetes: what the API server says about a node that runs pods. is_on_node: whether this process runs on the
    node; otherwise it reaches the node by the Kubernetes API alone. criu: what saves tasks, where there is such a program.
    parking: tasks that are parked, and those that go on after they were.
    snapshots: what this node has found that it can save and restore. images: where it keeps that. cpu_features: a digest of them.
    """

    node: NodeDeclaration
    inventory: DeviceInventory
    runtimes: dict[str, Runtime]
    storage: Storage
    fences: Fences = field(init=False)
    reports: Reports = field(init=False)
    evictions: EvictionStore = field(init=False)
    parking: ParkingStore = field(init=False)
    incarnation: Incarnation
    folder: Path
    images: ImageStore
    credentials: NodeCredentials | None = None
    trust: CommandTrust | None = None
    signer: ReportSigner = field(init=False)
    checkpoints: Path | None = None
    checkpoints_identity: str | None = None
    secrets: Path | None = None
    master_address: str | None = None
    users: Users = field(default_factory=Users)
    release_poll_s: float = 0.1
    release_timeout_s: float = 60.0
    device_poll_s: float = 5.0
    kubernetes: KubernetesNode | None = None
    is_on_node: bool = True
    criu: Criu | None = None
    snapshots: tuple[SnapshotOffer, ...] = ()
    cpu_features: str = field(default_factory=cpu_features)

    def __post_init__(self) -> None:
        self.fences, self.reports, self.evictions = Fences(self.storage), Reports(self.storage), EvictionStore(self.storage)
        self.parking = ParkingStore(self.storage)
        self.signer = ReportSigner(self.storage, self.credentials, self.node.pool, self.node.name)

    @property
    def shares_by_mps(self) -> bool:
        """Whether NVIDIA's MPS holds tasks to their parts of a GPU. The daemon of this machine does not reach into pods."""
        return self.inventory.chooser is None and mps.daemon_runs()

    @property
    def parking_offer(self) -> ParkingOffer | None:
        """What this node keeps for parked tasks."""
        parks = any(runtime.capabilities.parks for runtime in self.runtimes.values())
        return ParkingOffer(memory_bytes=self.node.parking_bytes) if self.node.parking_bytes and parks else None

    def checkpoints_of(self, job: str) -> Path:
        """The job's checkpoint directory, the same in every attempt."""
        return self._checkpoints / job

    @property
    def snapshots_folder(self) -> Path:
        """That of the snapshots of all jobs: on the disk of the checkpoints, and of no job's user."""
        return self._checkpoints / SNAPSHOTS

    @property
    def _checkpoints(self) -> Path:
        return self.checkpoints or self.folder / "checkpoints"

    def renew_incarnation(self, incarnation: str, boot_id: str | None = None) -> None:
        """Continue under another incarnation. boot_id: of a node elsewhere that has booted anew."""
        self.incarnation = renewed(self.storage, self.incarnation, incarnation, boot_id)

    def discard_reports(self) -> None:
        """Drop reports that were not sent: the inventory that follows covers them."""
        if self.reports.next_number:
            self.reports.sent(self.reports.next_number - 1)

    def log(self) -> FilteringBoundLogger:
        """A logger that names the node."""
        return logger(pool=self.node.pool, node=self.node.name)
