"""What an agent is given of its machine."""

from dataclasses import dataclass, field, replace
from pathlib import Path

from structlog.typing import FilteringBoundLogger

from bailiff_bus.logs import logger

from .devices import DeviceInventory
from .disk import Evictions, Fences, Incarnation, Reports, Storage
from .runtime import Runtime
from .settings import NodeDeclaration
from .users import Users


@dataclass(slots=True)
class Machine:
    """Devices, runtimes by name, and the parts of the node's folder.

    checkpoints: where jobs keep theirs; by default below its folder. checkpoints_identity: of one that nodes share.
    """

    node: NodeDeclaration
    inventory: DeviceInventory
    runtimes: dict[str, Runtime]
    storage: Storage
    fences: Fences
    reports: Reports
    evictions: Evictions
    incarnation: Incarnation
    folder: Path
    checkpoints: Path | None = None
    checkpoints_identity: str | None = None
    secrets: Path | None = None
    master_address: str | None = None
    users: Users = field(default_factory=Users)
    release_poll_s: float = 0.1
    release_timeout_s: float = 60.0
    device_look_s: float = 5.0

    def checkpoints_of(self, job: str) -> Path:
        """The same in every attempt."""
        return (self.checkpoints or self.folder / "checkpoints") / job

    def begin_anew(self, incarnation: str) -> None:
        """Under another incarnation."""
        self.incarnation = replace(self.incarnation, incarnation=incarnation)

    def void_reports(self) -> None:
        """What was not sent yet never is: the announcement that follows says it all."""
        if self.reports.next_number:
            self.reports.sent(self.reports.next_number - 1)

    def log(self) -> FilteringBoundLogger:
        """Its lines name the node."""
        return logger(domain=self.node.domain, node=self.node.name)
