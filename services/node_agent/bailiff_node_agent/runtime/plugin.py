"""What a runtime's module defines to be found: `PLUGIN = RuntimePlugin(name, open)` (registry.py)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from bailiff_node_agent.kubernetes_settings import KubernetesSettings

from .port import DeviceUsers, Runtime

if TYPE_CHECKING:
    from .kubernetes.cluster_view import ClusterNode
    from .kubernetes.published import PublishedDevices


class PartsSettings(Protocol):
    """The agent's settings that runtimes and inventories read. The settings name the runtimes, so nothing here imports them."""

    @property
    def cgroups(self) -> bool: ...

    @property
    def cgroup_root(self) -> Path | None: ...

    @property
    def run_as(self) -> str: ...

    @property
    def isolate_jobs(self) -> bool: ...

    @property
    def hidden(self) -> tuple[Path, ...]: ...

    @property
    def criu(self) -> str: ...

    @property
    def docker_engine(self) -> str: ...

    @property
    def docker_network(self) -> str: ...

    @property
    def kubernetes(self) -> KubernetesSettings: ...

    @property
    def durable(self) -> bool: ...


@dataclass(frozen=True)
class NodeParts:
    """What runtimes and inventories may use of their node.

    node: its name. gpus: its setting that says where the devices come from. folder: the node's state folder.
    devices: receives which process uses which device; None where a driver reports it.
    labels: identify the node in another system, such as on containers.
    cluster_node: what the API server says about the node, where nothing else of it is within reach.
    published: what a DRA driver publishes for the node.
    """

    node: str
    gpus: str
    folder: Path
    settings: PartsSettings
    devices: DeviceUsers | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    cluster_node: "ClusterNode | None" = None
    published: "PublishedDevices | None" = None


@dataclass(frozen=True)
class RuntimePlugin:
    """One kind of runtime."""

    name: str
    open: Callable[[NodeParts], Runtime]
