"""What a runtime's module defines to be found: `PLUGIN = RuntimePlugin(name, open)` (registry.py)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from .port import DeviceUsers, Runtime
from .simulated_tasks import SimulatedMachine

if TYPE_CHECKING:
    from .kubernetes.cluster_view import ClusterNode
    from .kubernetes.published import PublishedDevices


class KubernetesSettings(Protocol):
    """The agent's settings of the runtime `kubernetes`."""

    @property
    def kubeconfig(self) -> Path | None: ...

    @property
    def namespace(self) -> str: ...

    @property
    def kubelet_dir(self) -> Path: ...

    @property
    def pod_resources_socket(self) -> Path: ...

    @property
    def gpu_resource(self) -> str: ...

    @property
    def dra_driver(self) -> str: ...

    @property
    def dra_device_class(self) -> str: ...

    @property
    def dra_mig_device_class(self) -> str: ...

    @property
    def dra_shared_device_class(self) -> str: ...

    @property
    def dra_uuid_attribute(self) -> str: ...

    @property
    def kubelet_grace_s(self) -> float: ...

    @property
    def placement_timeout_s(self) -> float: ...

    @property
    def tolerated_taints(self) -> tuple[str, ...]: ...


class RuntimeSettings(Protocol):
    """The agent's settings that runtimes read (settings.py)."""

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
    def docker_engine(self) -> str: ...

    @property
    def docker_network(self) -> str: ...

    @property
    def kubernetes(self) -> KubernetesSettings: ...

    @property
    def durable(self) -> bool: ...


@dataclass(frozen=True)
class NodeParts:
    """What a runtime may use of its node.

    folder: the node's state folder. devices: receives which process uses which device; None where a driver reports it.
    machine: the node's simulated tasks. labels: identify the node in another system, such as on containers.
    cluster_node: what the API server says about the node, where nothing else of it is within reach.
    published: what a DRA driver publishes for the node.
    """

    node: str
    folder: Path
    settings: RuntimeSettings
    machine: SimulatedMachine
    devices: DeviceUsers | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    cluster_node: "ClusterNode | None" = None
    published: "PublishedDevices | None" = None


@dataclass(frozen=True)
class RuntimePlugin:
    """One kind of runtime."""

    name: str
    open: Callable[[NodeParts], Runtime]
