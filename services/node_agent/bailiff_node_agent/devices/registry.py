"""The inventories that a node can have, by its setting `gpus`. A new kind of device adds one entry to `PLUGINS`."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bailiff_node_agent.runtime.plugin import KubernetesSettings

from .inventory import DeviceInventory, NoDriver
from .nvml import NvmlInventory
from .simulated import SimulatedInventory

if TYPE_CHECKING:
    from bailiff_node_agent.runtime.kubernetes.cluster_view import ClusterNode
    from bailiff_node_agent.runtime.kubernetes.published import PublishedDevices


@dataclass(frozen=True)
class InventoryContext:
    """spec: the setting `gpus`. identify: identity of a pid's process, None once it has exited. faults: for simulated devices.

    kubernetes: for devices that a kubelet gives out. cluster_node: for those of which only the API server knows.
    published: what a DRA driver publishes for the node.
    """

    spec: str
    node: str
    identify: Callable[[int], int | None]
    faults: Path
    kubernetes: KubernetesSettings
    cluster_node: "ClusterNode | None" = None
    published: "PublishedDevices | None" = None


@dataclass(frozen=True)
class InventoryPlugin:
    """matches: whether the setting `gpus` means this inventory. real: the devices are this machine's own, and so are the
    node's CPU and memory. open: raises `NoDriver`, or `ValueError` for a malformed setting.
    """

    matches: Callable[[str], bool]
    real: bool
    open: Callable[[InventoryContext], DeviceInventory]


def _of_kubelet(given: InventoryContext) -> DeviceInventory:
    from .kubernetes import KubernetesInventory  # late: only nodes with a kubelet have its dependencies

    if given.cluster_node is not None:
        from .cluster import ClusterInventory

        return ClusterInventory(given.cluster_node)
    settings = given.kubernetes
    try:
        inventory = KubernetesInventory(
            settings.pod_resources_socket, settings.gpu_resource, settings.kubelet_grace_s, given.published
        )
        inventory.list()
    except (ImportError, OSError) as problem:
        raise NoDriver(f"no kubelet to ask for GPUs: {problem}") from None
    return inventory


PLUGINS = (
    InventoryPlugin(lambda spec: spec == "nvml", real=True, open=lambda _: NvmlInventory()),
    InventoryPlugin(lambda spec: spec == "kubernetes", real=True, open=_of_kubelet),
    InventoryPlugin(
        lambda _: True,
        real=False,
        open=lambda given: SimulatedInventory(given.spec, given.node, given.identify, given.faults),
    ),
)
"""The first that matches is taken."""


def inventory_plugin(spec: str) -> InventoryPlugin:
    """The inventory that the setting `gpus` names."""
    return next(each for each in PLUGINS if each.matches(spec))
